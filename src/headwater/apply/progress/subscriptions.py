"""Subscriptions and their tables as the schema ``headwater`` of the target has them.

PostgreSQL: pg_subscription, pg_subscription_rel (catalog/pg_subscription.c): states and their letters are the server's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headwater.apply.target.connection import Bound, Row, Statement, TargetConnection
from headwater.pg.lsn import Lsn

_READ = """
SELECT subid, subslotname, subpublications::text, hasslot, subtwophasestate::text,
       (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()),
       (SELECT system_identifier FROM pg_catalog.pg_control_system())
FROM headwater.subscription WHERE subname = $1
"""
_ADD = """
INSERT INTO headwater.subscription (subname, subslotname, subpublications, hasslot, subtwophasestate)
VALUES ($1, $2, $3::text[], $4::bool, $5::"char")
"""
# Sessions that apply are replicas, in which ON DELETE CASCADE does nothing.
_REMOVE = tuple(
    f"DELETE FROM headwater.{table} WHERE {column} = $1::int4"
    for table, column in (
        ("pending_statement", "srsubid"),
        ("subscription_range", "srsubid"),
        ("subscription_rel", "srsubid"),
        ("subscription_parameter", "srsubid"),
        ("subscription_source", "srsubid"),
        ("subscription", "subid"),
    )
)
_HAS_SLOT = "UPDATE headwater.subscription SET hasslot = true WHERE subid = $1::int4"
_PUBLICATIONS = """
UPDATE headwater.subscription SET subpublications = $2::text[] WHERE subid = $1::int4 AND subpublications <> $2::text[]
"""
_TWO_PHASE = """UPDATE headwater.subscription SET subtwophasestate = $2::"char" WHERE subid = $1::int4"""
_TABLES = """
SELECT srrelid, nspname, relname, srsubstate::text, srsublsn FROM headwater.subscription_rel
WHERE srsubid = $1::int4 ORDER BY srrelid
"""
# A process that was killed may have sent the end of a copy that is being committed still. States d are left out: a
# range that is being copied holds its table's row.
_SETTLE = """
SELECT 1 FROM headwater.subscription_rel WHERE srsubid = $1::int4 AND srsubstate = 'f' FOR UPDATE
"""
_TABLE = """
SELECT srrelid, nspname, relname, srsubstate::text, srsublsn FROM headwater.subscription_rel
WHERE srsubid = $1::int4 AND srrelid = $2::oid FOR UPDATE
"""
_ADD_TABLE = """
INSERT INTO headwater.subscription_rel (srsubid, srrelid, nspname, relname, srsubstate, srsublsn)
VALUES ($1::int4, $2::oid, $3, $4, $5::"char", $6::pg_lsn)
"""
_REMOVE_TABLE = tuple(
    f"DELETE FROM headwater.{table} WHERE srsubid = $1::int4 AND srrelid = $2::oid"
    for table in ("subscription_range", "subscription_rel")
)
_RENAME_TABLE = """
UPDATE headwater.subscription_rel SET nspname = $3, relname = $4 WHERE srsubid = $1::int4 AND srrelid = $2::oid
"""
_SET = Statement("""
UPDATE headwater.subscription_rel SET srsubstate = $3::"char", srsublsn = $4::pg_lsn
WHERE srsubid = $1::int4 AND srrelid = $2::oid
""")


class State(StrEnum):
    """A table's state; those that only this process knows are not written to the target."""

    INIT, DATASYNC, FINISHEDCOPY, SYNCWAIT, CATCHUP, SYNCDONE, READY = "i", "d", "f", "w", "c", "s", "r"


@dataclass(frozen=True)
class Subscription:
    """A subscription.

    Attributes:
        number: ``subid``; name: its name; slot: the slot's; publications: names, as an array's text.
        has_slot: the slot is there: if it was to be made, it has been.
        two_phase: ``subtwophasestate``: d disabled, p pending, e enabled.
        database: OID of the target's; system: its system identifier.
    """

    number: int
    name: str
    slot: str
    publications: str
    has_slot: bool
    two_phase: str
    database: int
    system: int

    def sync_name(self, oid: int) -> str:
        """Return how the slot and the origin of a table's copy are called, by its OID on the target."""
        return f"{self.sync_prefix}{oid}_{self.system}"

    @property
    def sync_prefix(self) -> str:
        """What the names of all tables' slots and origins begin with."""
        return f"hw_{self.database}_{self.number}_sync_"


@dataclass(frozen=True)
class SubscribedTable:
    """A table of a subscription.

    Attributes:
        oid: the target's; namespace, name: its names; state: of it; lsn: ``srsublsn``, 0 for none.
    """

    oid: int
    namespace: str
    name: str
    state: State
    lsn: int


def read_subscription(connection: TargetConnection, name: str) -> Subscription | None:
    """Look a subscription up by its name."""
    rows = connection.rows(_READ, (name,))
    if not rows:
        return None
    number, slot, publications, has_slot, two_phase, database, system = map(str, rows[0])
    return Subscription(int(number), name, slot, publications, has_slot == "t", two_phase, int(database), int(system))


def add_subscription(
    connection: TargetConnection, name: str, slot: str, publications: str, *, has_slot: bool, two_phase: str
) -> None:
    """Write a new subscription; publications are an array's text."""
    connection.rows(_ADD, (name, slot, publications, "t" if has_slot else "f", two_phase))


def remove_subscription(connection: TargetConnection, subscription: Subscription) -> None:
    """Remove a subscription with its tables, in a transaction of the caller's."""
    for statement in _REMOVE:
        connection.rows(statement, (str(subscription.number),))


def note_slot(connection: TargetConnection, subscription: Subscription) -> None:
    """Note that the slot has been made."""
    connection.rows(_HAS_SLOT, (str(subscription.number),))


def note_publications(connection: TargetConnection, subscription: Subscription, publications: str) -> None:
    """Note of which publications the tables are from now on; they are an array's text."""
    connection.rows(_PUBLICATIONS, (str(subscription.number), publications))


def set_two_phase(connection: TargetConnection, subscription: Subscription, state: str) -> None:
    """Note whether prepared transactions come at PREPARE."""
    connection.rows(_TWO_PHASE, (str(subscription.number), state))


def read_tables(
    connection: TargetConnection, subscription: Subscription, *, is_settled: bool = False
) -> list[SubscribedTable]:
    """List the tables of a subscription.

    Args:
        connection: the target's; subscription: whose.
        is_settled: transactions that are ending copies are waited for.
    """
    if is_settled:
        connection.rows(_SETTLE, (str(subscription.number),))
    return list(map(_table, connection.rows(_TABLES, (str(subscription.number),))))


def read_table(connection: TargetConnection, subscription: Subscription, oid: int) -> SubscribedTable | None:
    """Look a table up by its OID; None if it does not belong to the subscription.

    A transaction that is changing its state is waited for.
    """
    rows = connection.rows(_TABLE, (str(subscription.number), str(oid)))
    return _table(rows[0]) if rows else None


def _table(row: Row) -> SubscribedTable:
    oid, namespace, name, state, lsn = row
    place = int(Lsn.parse(lsn)) if lsn else 0
    return SubscribedTable(int(str(oid)), str(namespace), str(name), State(str(state)), place)


def add_table(
    connection: TargetConnection,
    subscription: Subscription,
    oid: int,
    name: tuple[str, str],
    state: State,
    lsn: int = 0,
) -> None:
    """Write a new table.

    Args:
        connection: the target's; subscription: whose; oid: on the target; name: its schema, and its own.
        state: of it; lsn: where the log's catalog had it, 0 of a server.
    """
    place = str(Lsn(lsn)) if lsn else None
    connection.rows(_ADD_TABLE, (str(subscription.number), str(oid), *name, state.value, place))


def rename_table(connection: TargetConnection, subscription: Subscription, oid: int, name: tuple[str, str]) -> None:
    """Write another schema and name of a table."""
    connection.rows(_RENAME_TABLE, (str(subscription.number), str(oid), *name))


def remove_table(connection: TargetConnection, subscription: Subscription, oid: int) -> None:
    """Remove a table, with the ranges that were copied of it."""
    for statement in _REMOVE_TABLE:
        connection.rows(statement, (str(subscription.number), str(oid)))


def set_state(subscription: Subscription, oid: int, state: State, lsn: int) -> Bound:
    """Return the statement that writes a table's state; an LSN of 0 is written as NULL."""
    place = str(Lsn(lsn)).encode() if lsn else None
    return Bound(_SET, (str(subscription.number).encode(), str(oid).encode(), state.value.encode(), place))
