"""Functions that the service itself knows, in the middle of a statement that a standby answers.

A standby would speak of itself: that it recovers, and how far it has come. So calls of these functions are replaced by
what they give here: the log is not in recovery, and it ends where the standby stands. Where a call is, the statement's
tree tells. A statement that is nothing but such a call does not come so far.

A transaction here has no number. Only who asks for it where the log is not in recovery, and reads nothing, is told the
one that comes next in the log: Debezium's connector asks so, to note it beside the rows of a snapshot.

Known gap: a call in a view, in FROM, or with a comment in it is not replaced; the statement is refused.

PostgreSQL: xlogfuncs.c.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from headwater.pg.lsn import Lsn
from headwater.walsender.catalog_server.statement_tree import StatementTree

_LSN = "'{lsn}'::pg_catalog.pg_lsn"
_NONE = "NULL::pg_catalog.pg_lsn"
_IN_RECOVERY, _XID = 3810, 5059
_NEXT = "pg_catalog.pg_snapshot_xmax('{next}:{next}:'::pg_catalog.pg_snapshot)"
_REPLACED = {_IN_RECOVERY: "false", 2849: _LSN, 2852: _LSN, 3330: _LSN, 3820: _NONE, 3821: _NONE}
"""By OID: pg_is_in_recovery, pg_current_wal_lsn, _insert_lsn, _flush_lsn, pg_last_wal_receive_lsn, _replay_lsn."""

_CALL = re.compile(rb"""(?:(?:pg_catalog|"pg_catalog")\s*\.\s*)?(?:pg_\w+|"pg_\w+")\s*\(\s*\)""", re.I)


def with_values(sql: str, tree: StatementTree, lsn: int, next_xid: Callable[[], int]) -> str:
    """Return a statement with values in the place of calls of these functions.

    Args:
        sql: the statement; tree: of it; lsn: where the log ends.
        next_xid: gives the number of the transaction that comes next there, 64 bits.
    """
    data = sql.encode("utf-8", "surrogateescape")
    replaced = _REPLACED
    if not tree.relations and {_IN_RECOVERY, _XID} <= {oid for oid, _ in tree.calls}:
        replaced = {**_REPLACED, _XID: _NEXT.format(next=next_xid())}
    for oid, place in sorted(tree.calls, key=lambda call: -call[1]):
        match = _CALL.match(data, place) if oid in replaced else None
        if match is not None:
            value = f"({replaced[oid].format(lsn=Lsn(lsn))})"
            data = data[:place] + value.encode() + data[match.end() :]
    return data.decode("utf-8", "surrogateescape")
