"""Functions that the service itself knows, in the middle of a statement that a standby answers.

A standby would speak of itself: that it recovers, and how far it has come. So calls of these functions are replaced by
what they give here. The log is not in recovery, it ends where the standby stands, and the transaction id is the one
that would be given next there. A statement that is nothing but such a call does not come so far.

Known gap: nothing is replaced in a statement with a backslash or a dollar's quotes, whose texts end otherwise; such a
statement is refused.

PostgreSQL: xlogfuncs.c, xid8funcs.c.
"""

from __future__ import annotations

import re

from headwater.pg.lsn import Lsn

_LSN = "'{lsn}'::pg_catalog.pg_lsn"
_REPLACED = {
    "pg_is_in_recovery": "false",
    "pg_current_wal_lsn": _LSN,
    "pg_current_wal_flush_lsn": _LSN,
    "pg_current_wal_insert_lsn": _LSN,
    "pg_last_wal_receive_lsn": "NULL::pg_catalog.pg_lsn",
    "pg_last_wal_replay_lsn": "NULL::pg_catalog.pg_lsn",
    "pg_current_xact_id": "pg_catalog.pg_snapshot_xmax('{next}:{next}:'::pg_catalog.pg_snapshot)",
    "txid_current": "'{next}'::pg_catalog.int8",
}
_PARTS = re.compile(
    r"""'[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/"""
    rf"""|(?<![\w.$"])(?:pg_catalog\s*\.\s*)?(?P<name>{"|".join(_REPLACED)})\s*\(\s*\)""",
    re.I | re.S,
)


def with_values(sql: str, lsn: int, next_xid: int) -> str:
    """Return a statement with values in the place of calls of these functions.

    Args:
        sql: the statement.
        lsn: where the log ends; next_xid: 64 bits.
    """
    if "\\" in sql or "$$" in sql or re.search(r"\$\w+\$", sql) is not None:
        return sql

    def replaced(match: re.Match[str]) -> str:
        name = match["name"]
        return match[0] if name is None else f"({_REPLACED[name.lower()].format(lsn=Lsn(lsn), next=next_xid)})"

    return _PARTS.sub(replaced, sql)
