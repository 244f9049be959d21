"""Statements that wait for rows: keys and indexes of tables that were made empty, foreign keys between them.

They are kept on the target, so that whoever goes on after a kill runs those that are left. Each is removed in the
transaction that runs it.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.apply.progress.subscriptions import Subscription
from headwater.apply.target.connection import TargetConnection

PENDING_TABLE = """
CREATE TABLE IF NOT EXISTS headwater.pending_statement (
    srsubid int4 NOT NULL REFERENCES headwater.subscription ON DELETE CASCADE,
    number int4 NOT NULL,
    srrelid oid NOT NULL,
    statement text NOT NULL,
    PRIMARY KEY (srsubid, number)
)
"""
ALL_TABLES = 0
"""In the place of a table's OID: the statement waits for the rows of all tables."""

_ADD = """
INSERT INTO headwater.pending_statement VALUES ($1::int4, (
    SELECT coalesce(max(number), 0) + 1 FROM headwater.pending_statement WHERE srsubid = $1::int4), $2::oid, $3)
"""
_LIST = """
SELECT number, statement FROM headwater.pending_statement WHERE srsubid = $1::int4 AND srrelid = $2::oid ORDER BY number
"""
_REMOVE = "DELETE FROM headwater.pending_statement WHERE srsubid = $1::int4 AND number = $2::int4"


def add_pending(
    connection: TargetConnection, subscription: Subscription, statements: Iterable[tuple[int, str]]
) -> None:
    """Write statements that are to be run later, each with the OID of the target's table whose rows it waits for."""
    for oid, statement in statements:
        connection.rows(_ADD, (str(subscription.number), str(oid), statement))


def list_pending(connection: TargetConnection, subscription: Subscription, oid: int) -> list[tuple[int, str]]:
    """List the statements that wait for a table's rows, in their order, with their numbers."""
    rows = connection.rows(_LIST, (str(subscription.number), str(oid)))
    return [(int(str(number)), str(statement)) for number, statement in rows]


def remove_pending(connection: TargetConnection, subscription: Subscription, number: int) -> None:
    """Remove a statement."""
    connection.rows(_REMOVE, (str(subscription.number), str(number)))
