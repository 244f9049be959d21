"""Prepared transactions of the source on the target, under the names that the apply worker gives them.

PostgreSQL: worker.c (TwoPhaseTransactionGid); the number in the name is the origin's here.
"""

from __future__ import annotations

from headwater.apply.target.connection import TargetConnection

_PRESENT = "SELECT 1 FROM pg_catalog.pg_prepared_xacts WHERE gid = $1 AND database = pg_catalog.current_database()"


def gid_of(number: int, xid: int) -> str:
    """Return the name of a transaction of the source's, by its xid and the number of the origin."""
    return f"pg_gid_{number}_{xid}"


def has_prepared(connection: TargetConnection, gid: str) -> bool:
    """Tell whether a transaction is prepared under a name."""
    return bool(connection.rows(_PRESENT, (gid,)))
