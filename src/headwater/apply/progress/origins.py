"""The replication origin of a connection: rows carry it, and a commit moves it together with them.

The commit record of a transaction has the LSN and the time of the source's commit. So what is applied and how far that
is can never differ; rows are told from local ones, and are not sent back.

PostgreSQL: origin.c, worker.c (apply_handle_commit_internal); an origin's LSN is the END of the source's commit record.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headwater.apply.progress.origin_progress import forget_progress
from headwater.apply.target.connection import Bound, Statement, TargetConnection
from headwater.apply.target.grants import FUNCTIONS
from headwater.errors import ServerError
from headwater.pg.lsn import Lsn

_NAMED = "SELECT pg_catalog.pg_replication_origin_oid($1)"
_CREATE = "SELECT pg_catalog.pg_replication_origin_create($1)"
_DROP = "SELECT pg_catalog.pg_replication_origin_drop($1)"
_SETUP = "SELECT pg_catalog.pg_replication_origin_session_setup($1)"
_PROGRESS = "SELECT pg_catalog.pg_replication_origin_progress($1, $2)"
_ADVANCE = "SELECT pg_catalog.pg_replication_origin_advance($1, $2)"
_RESET = "SELECT pg_catalog.pg_replication_origin_session_reset()"
_MOVE_NOW = "SELECT pg_catalog.pg_replication_origin_xact_setup($1, pg_catalog.now())"
_MOVE = Statement("SELECT pg_catalog.pg_replication_origin_xact_setup($1, $2)")

_REFUSED = "42501"


@dataclass(frozen=True)
class Origin:
    """A replication origin.

    Attributes:
        name: its name; number: ``roident``, which rows carry.
    """

    name: str
    number: int


def origin_name(subscription: str, part: str = "") -> str:
    """Return the name of a subscription's origin, or of a part of it."""
    return f"headwater_{subscription}{f'_{part}' if part else ''}"


def has_origin(connection: TargetConnection, name: str) -> bool:
    """Tell whether an origin is there."""
    return _allowed(connection, _NAMED, (name,)) != [(None,)]


def list_origins(connection: TargetConnection, prefix: str) -> list[str]:
    """List the origins whose names begin so."""
    rows = connection.rows("SELECT roname FROM pg_catalog.pg_replication_origin")
    return [str(name) for (name,) in rows if str(name).startswith(prefix)]


def ensure_origin(connection: TargetConnection, name: str) -> Origin:
    """Make an origin unless it is there.

    Raises:
        ServerError: the role may not, or there are too many.
    """
    ((number,),) = _allowed(connection, _NAMED, (name,))
    if number is None:
        ((number,),) = _allowed(connection, _CREATE, (name,))
    assert number is not None
    return Origin(name, int(number))


def drop_origin(connection: TargetConnection, name: str) -> None:
    """Drop an origin, if it is there, and forget its progress.

    Raises:
        ServerError: it is in use, or the role may not.
    """
    forget_progress(connection, name)
    ((number,),) = _allowed(connection, _NAMED, (name,))
    if number is not None:
        _allowed(connection, _DROP, (name,))


def use_origin(connection: TargetConnection, origin: Origin) -> None:
    """Make an origin that of the session.

    Raises:
        ServerError: another session has it (55006), or the role may not.
    """
    _allowed(connection, _SETUP, (origin.name,))


def leave_origin(connection: TargetConnection) -> None:
    """Make the session have no origin any more."""
    _allowed(connection, _RESET, ())


def progress_of(connection: TargetConnection, origin: Origin, *, flushed: bool = True) -> int:
    """Return the LSN of the source before which all is applied, 0 for none.

    Args:
        connection: any of the target's.
        origin: whose.
        flushed: it is made durable first.
    """
    ((lsn,),) = _allowed(connection, _PROGRESS, (origin.name, "t" if flushed else "f"))
    return 0 if lsn is None else int(Lsn.parse(lsn))


def advance(connection: TargetConnection, origin: Origin, lsn: int) -> None:
    """Set the place of an origin that no session has."""
    _allowed(connection, _ADVANCE, (origin.name, str(Lsn(lsn))))


CHECK_DEFERRED = Bound(Statement("SET CONSTRAINTS ALL IMMEDIATE"))
"""Checks what is deferred before the origin is to move: from 16 on an end that is refused moves it, too."""


def move(lsn: int, time: int) -> Bound:
    """Return the statement that moves the session's origin with the transaction that it is in.

    From 16 on a server moves the origin also when the transaction is rolled back behind this statement, as when its
    session is ended: see :mod:`headwater.apply.progress.origin_progress`.

    Args:
        lsn: END of the source's commit record; time: of that commit, microseconds since 2000-01-01 00:00 UTC.
    """
    return Bound(_MOVE, (str(Lsn(lsn)).encode(), timestamp(time).encode()))


def move_now(connection: TargetConnection, lsn: int) -> None:
    """Move the session's origin with the transaction that it is in, which is none of the source's."""
    _allowed(connection, _MOVE_NOW, (str(Lsn(lsn)),))


def timestamp(time: int) -> str:
    """Write a time of the source as a timestamptz, exact to the microsecond.

    Args:
        time: microseconds since 2000-01-01 00:00 UTC.
    """
    moment = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)
    return moment.isoformat(sep=" ", timespec="microseconds")


def _allowed(connection: TargetConnection, sql: str, values: tuple[str, ...]) -> list[tuple[str | None, ...]]:
    try:
        return connection.rows(sql, values)
    except ServerError as error:
        if error.sqlstate != _REFUSED:
            raise
        hint = f"GRANT EXECUTE ON FUNCTION {', '.join(FUNCTIONS)} to the role"
        raise ServerError(error.message, hint=hint, sqlstate=error.sqlstate) from None
