"""The table of how far each origin of a target is, written in the transactions that apply what comes.

The origin itself would say it, too. But from 16 on a server moves it also with a transaction that it rolls back behind
``pg_replication_origin_xact_setup``. A worker that is killed in between would lose what it has not committed. So the
table decides, and an origin that is further is set back.

A transaction that is prepared, or whose preparation ends, cannot write it. Before that a note says what is to happen:
whether it has, is seen by whether the target has a prepared transaction of that name.

Invariants: each session writes the row of its own origin, so none waits for another's. A session finds the row where
it has left it: old versions, which a long transaction elsewhere keeps, are not looked through.

PostgreSQL: no counterpart; xact.c (RecordTransactionAbort), origin.c (replorigin_session_advance).
"""

from __future__ import annotations

from headwater.apply.target.connection import Bound, Statement, TargetConnection
from headwater.pg.lsn import Lsn

TABLES = (
    """
    CREATE TABLE IF NOT EXISTS headwater.origin_progress (
        roname text PRIMARY KEY,
        remote_lsn pg_lsn NOT NULL,
        gid text,
        gid_lsn pg_lsn,
        is_prepared bool
    )
    """,
)
"""What the schema ``headwater`` needs for it.

``gid`` is a transaction that is to be prepared, or else committed or rolled back, by what ends at ``gid_lsn`` of the
source; ``is_prepared`` says which of both.
"""

_IS_THERE = "SELECT pg_catalog.to_regclass('headwater.origin_progress') IS NOT NULL"
# What only a version of the row tells from others is found by a range of places, which also tidies its page up.
_NOTED = """
WITH noted AS (
    UPDATE headwater.origin_progress SET {} WHERE ctid OPERATOR(pg_catalog.>=) {place}
        AND ctid OPERATOR(pg_catalog.<=) {place} AND pg_catalog.concat(roname) OPERATOR(pg_catalog.=) {name}
    RETURNING ctid)
SELECT pg_catalog.set_config('headwater.progress_place', coalesce(
    (SELECT ctid::text FROM noted), pg_catalog.current_setting('headwater.row_of_origin_progress_is_gone')), false)
"""
_PLACE = "pg_catalog.current_setting('headwater.progress_place')::tid"
_NAME = "pg_catalog.current_setting('headwater.progress_origin')"


def _noted(assignments: str, types: tuple[int, ...]) -> Statement:
    return Statement(_NOTED.format(assignments, place=_PLACE, name=_NAME), types)


_TEXT, _BOOL, _LSN = 25, 16, 3220
_COME_TO = _noted("remote_lsn = greatest(remote_lsn, $1)", (_LSN,))
_PREPARED = _noted(
    "remote_lsn = greatest(remote_lsn, gid_lsn), gid = $1, gid_lsn = $2, is_prepared = $3", (_TEXT, _LSN, _BOOL)
)
_TAKE = """
WITH taken AS (
    INSERT INTO headwater.origin_progress VALUES ($1, $2::pg_lsn) ON CONFLICT (roname) DO UPDATE
        SET remote_lsn = greatest(origin_progress.remote_lsn, excluded.remote_lsn),
            gid = NULL, gid_lsn = NULL, is_prepared = NULL
    RETURNING ctid)
SELECT pg_catalog.set_config('headwater.progress_origin', $1, false),
       pg_catalog.set_config('headwater.progress_place', ctid::text, false) FROM taken
"""
_READ = """
SELECT p.roname, greatest(p.remote_lsn, CASE WHEN p.is_prepared OPERATOR(pg_catalog.=) EXISTS (
    SELECT FROM pg_catalog.pg_prepared_xacts x
    WHERE x.gid OPERATOR(pg_catalog.=) p.gid AND x.database OPERATOR(pg_catalog.=) pg_catalog.current_database()
) THEN p.gid_lsn END)
FROM headwater.origin_progress p
WHERE p.roname OPERATOR(pg_catalog.=) $1 OR pg_catalog.starts_with(p.roname, $2)
"""
_FORGET = """
DELETE FROM headwater.origin_progress WHERE roname OPERATOR(pg_catalog.=) $1 OR pg_catalog.starts_with(roname, $2)
"""
_PARTS = "_P"
"""What the names of a subscription's further origins have behind that of its main one; see ``parallel_origins``."""


def take_progress(connection: TargetConnection, name: str, reached: int = 0) -> None:
    """Let a session note how far its origin is; the row is made unless it is there.

    Args:
        connection: the session's, outside of a transaction; name: its origin's.
        reached: LSN of the source before which all is applied, as :func:`read_progress` says.
    """
    connection.rows(_TAKE, (name, str(Lsn(reached))))


def come_to(lsn: int) -> Bound:
    """Return the statement that notes, in the transaction that it is in, that with it all is applied up to an LSN."""
    return Bound(_COME_TO, (str(Lsn(lsn)).encode(),))


def will_end(gid: str, lsn: int, *, is_prepared: bool) -> Bound:
    """Return the statement that notes what is to be done next, outside of a transaction.

    What was noted before was done, if this statement is reached.

    Args:
        gid: name of the prepared transaction; lsn: END of the source's record of this.
        is_prepared: it is to be prepared; else it is, and is to be committed or rolled back.
    """
    return Bound(_PREPARED, (gid.encode(), str(Lsn(lsn)).encode(), b"t" if is_prepared else b"f"))


def read_progress(connection: TargetConnection, name: str) -> dict[str, int]:
    """Read how far a subscription's origins are, by their names; change nothing.

    Args:
        connection: the target's, to which no session of before can commit any more.
        name: of the main origin, or that of a table's copy.

    Returns:
        LSNs of the source before which all is applied; for origins without a row none.
    """
    if connection.rows(_IS_THERE) != [("t",)]:
        return {}
    rows = connection.rows(_READ, (name, name + _PARTS))
    return {str(origin): int(Lsn.parse(str(lsn))) for origin, lsn in rows}


def forget_progress(connection: TargetConnection, name: str) -> None:
    """Forget an origin's progress, and that of what belongs to it, before the origin is dropped, or made anew."""
    if connection.rows(_IS_THERE) == [("t",)]:
        connection.rows(_FORGET, (name, name + _PARTS))
