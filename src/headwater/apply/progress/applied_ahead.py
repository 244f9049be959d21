"""Transactions of the source that are applied already, though one before them is not: the target's table of them.

Only where sessions commit in an order of their own. A row is written in the transaction that applies what it names, so
both are there, or neither. It is removed with the move of the origin behind all of it. Whoever begins behind a kill
passes over what is named here.

PostgreSQL: no counterpart.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.apply.target.connection import Bound, Statement, TargetConnection

TABLES = (
    """
    CREATE TABLE IF NOT EXISTS headwater.applied_ahead (
        subname text NOT NULL,
        last_lsn int8 NOT NULL,
        finish_lsns int8[] NOT NULL,
        PRIMARY KEY (subname, last_lsn)
    )
    """,
)
"""What the schema ``headwater`` needs for it."""

_IS_THERE = "SELECT pg_catalog.to_regclass('headwater.applied_ahead') IS NOT NULL"
_NOTE = Statement("INSERT INTO headwater.applied_ahead VALUES ($1, $2, $3)", (25, 20, 1016))
_FORGET = Statement("DELETE FROM headwater.applied_ahead WHERE subname = $1", (25,))
_READ = """
SELECT lsn FROM headwater.applied_ahead, pg_catalog.unnest(finish_lsns) AS lsn
WHERE subname = $1 AND lsn OPERATOR(pg_catalog.>=) $2::int8
"""
_TIDY = """
DELETE FROM headwater.applied_ahead WHERE subname = $1 AND last_lsn OPERATOR(pg_catalog.<) $2::int8
"""


def note_applied(subscription: str, finish_lsns: Iterable[int]) -> Bound:
    """Return the statement that notes which transactions the one that it is in applies.

    Args:
        subscription: its name; finish_lsns: where the source's commit records begin, ascending.
    """
    lsns = list(finish_lsns)
    listed = "{" + ",".join(map(str, lsns)) + "}"
    return Bound(_NOTE, (subscription.encode(), str(lsns[-1]).encode(), listed.encode()))


def forget_applied(subscription: str) -> Bound:
    """Return the statement that forgets what was noted; the transaction that it is in moves the origin behind all."""
    return Bound(_FORGET, (subscription.encode(),))


def read_applied(connection: TargetConnection, subscription: str, reached: int) -> frozenset[int]:
    """Read which transactions are applied, of those that are not committed before an LSN; change nothing.

    Args:
        connection: the target's; subscription: its name.
        reached: LSN of the source before which all is applied.

    Returns:
        where their commit records begin.
    """
    if connection.rows(_IS_THERE) != [("t",)]:
        return frozenset()
    return frozenset(int(str(lsn)) for (lsn,) in connection.rows(_READ, (subscription, str(reached))))


def tidy_applied(connection: TargetConnection, subscription: str, reached: int) -> None:
    """Forget what is committed before an LSN of the source before which all is applied; see :func:`read_applied`."""
    if connection.rows(_IS_THERE) == [("t",)]:
        connection.rows(_TIDY, (subscription, str(reached)))
