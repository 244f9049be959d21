"""Relations of the source, mapped to tables of the target by their names, columns by theirs.

Types are not compared: the target's own type reads what is sent. Columns that are not sent get their defaults when
rows are inserted.

PostgreSQL: replication/logical/relation.c (logicalrep_rel_open), executor/execReplication.c
(CheckSubscriptionRelkind); 14 to 19.

Known gap: a NOT NULL domain's column is not given a NULL, which the apply worker stores unchecked.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from headwater.apply.target.connection import Bound, TargetConnection
from headwater.apply.target.leaf_tables import LeafTable, foreign_table
from headwater.apply.target.lengths import Length, lengths_of
from headwater.apply.target.lookup import SEVERAL, Lookup, LookupColumn, NoLookup, common_lookup, lookup_of
from headwater.apply.target.rights import role_for
from headwater.apply.target.routing import Routing, routing_to
from headwater.apply.target.session import TargetFacts
from headwater.apply.target.table_facts import TableFacts, key_of, leaves_of, routing_of, table_facts
from headwater.errors import TargetError
from headwater.pg.version import VERSIONS
from headwater.remote_slots.announced_relations import SentRelation

TABLE, PARTITIONED = "r", "p"
_KINDS = {
    "i": "indexes",
    "S": "sequences",
    "t": "TOAST tables",
    "v": "views",
    "m": "materialized views",
    "c": "composite types",
    "f": "foreign tables",
    "I": "partitioned indexes",
}


@dataclass(frozen=True)
class OriginCheck:
    """A way to notice rows that somebody else has written.

    Attributes:
        differs: the condition that their commit ``s`` meets.
        is_returned: updates and deletes return such rows as they were; otherwise they are looked at before.
    """

    differs: str
    is_returned: bool


@dataclass(frozen=True)
class MappedRelation:
    """A relation of the source, and the table of the target for it.

    Attributes:
        sent: the relation as it was announced.
        oid: the table's; namespace, name: its names; kind: ``relkind``.
        types: OID of the type of the table's column for each that is sent.
        lookup: how its rows are looked up, or why not.
        always: places of the sent columns that are GENERATED ALWAYS AS IDENTITY here.
        stored: names of the columns that have values of their own: those that are not generated.
        role: that changes are applied as, None for the session's.
        guard: fails (22012) once the table has changed.
        routing: how rows of a partitioned table find their partitions; None if each row has one.
        lengths: of columns whose values may be too long here.
        leaves: partitions that each change has to be routed to, as they differ; empty if they do not.
        within: condition that limits statements to one of them, empty for none.
        origins: how rows that somebody else has written are noticed; None if they are not.
        plans: statements that were made so far, by what they depend on.
    """

    sent: SentRelation
    oid: int
    namespace: str
    name: str
    kind: str
    types: tuple[int, ...]
    lookup: Lookup | NoLookup
    always: tuple[int, ...]
    stored: tuple[str, ...]
    role: str | None
    guard: Bound
    routing: Routing | None = None
    lengths: tuple[Length, ...] = ()
    leaves: tuple[LeafTable, ...] = ()
    within: str = ""
    origins: OriginCheck | None = None
    plans: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def returned_if(self) -> str | None:
        """The condition on which updates and deletes return the row before; None if they do not."""
        return self.origins.differs if self.origins is not None and self.origins.is_returned else None


def map_relation(
    connection: TargetConnection,
    facts: TargetFacts,
    sent: SentRelation,
    *,
    run_as_owner: bool = True,
    origins: OriginCheck | None = None,
) -> MappedRelation:
    """Map a relation to the target's table of its name.

    Args:
        connection: the target's; facts: of it; sent: the relation.
        run_as_owner: changes are applied as the session's role, rather than as the table's owner.
        origins: see :class:`MappedRelation`.

    Raises:
        TargetError: there is none that would do.
    """
    name = f"{sent.namespace}.{sent.name}"
    table = table_facts(connection, sent.namespace, sent.name)
    if table is None:
        raise TargetError(f'logical replication target relation "{name}" does not exist', sqlstate="55000")
    _check_kind(facts.major, table.kind, name)
    _check_columns(facts.major, sent, table, name)
    leaves = _leaf_tables(connection, facts.major, sent, table, name)
    lookup = _lookup(connection, sent, table, name, leaves)
    # Their rows are looked up in each partition by itself.
    is_odd = any(leaf.refusal for leaf in leaves) or (isinstance(lookup, NoLookup) and lookup.sqlstate == SEVERAL)
    role = role_for(connection, facts, table, sent.name, run_as_owner=run_as_owner)
    columns = {column.name: column for column in table.columns}
    return MappedRelation(
        sent=sent,
        oid=table.oid,
        namespace=sent.namespace,
        name=sent.name,
        kind=table.kind,
        types=tuple(columns[column.name].type_oid for column in sent.columns),
        lookup=lookup,
        always=tuple(at for at, column in enumerate(sent.columns) if columns[column.name].is_always),
        stored=tuple(column.name for column in table.columns if not column.is_generated),
        role=role,
        guard=table.guard,
        routing=_routing(connection, sent, table, is_needed=is_odd),
        leaves=tuple(leaves) if is_odd else (),
        lengths=lengths_of(connection, table.oid, sent),
        origins=origins,
    )


def _routing(connection: TargetConnection, sent: SentRelation, table: TableFacts, *, is_needed: bool) -> Routing | None:
    if table.kind != PARTITIONED:
        return None
    places = {column.name: at for at, column in enumerate(sent.columns)}
    return routing_to(connection, table.oid, places, is_needed=is_needed)


def in_leaf(mapped: MappedRelation, number: int) -> MappedRelation:
    """Return a relation limited to one of its partitions.

    Raises:
        TargetError: no change may go there.
    """
    leaf = mapped.leaves[number]
    leaf.check()
    limited = mapped.plans.get(("leaf", number))
    if limited is None:
        limited = replace(mapped, lookup=leaf.lookup, within=leaf.condition, leaves=(), plans={})
        mapped.plans["leaf", number] = limited
    return limited


def _check_kind(major: int, kind: str, name: str) -> None:
    if kind in (TABLE, PARTITIONED):
        return
    detail = f"This operation is not supported for {_KINDS[kind]}."
    if not VERSIONS[major].names_unsupported_kinds:
        detail = f'"{name}" is {"a foreign" if kind == "f" else "not a"} table.'
    raise TargetError(f'cannot use relation "{name}" as logical replication target', sqlstate="42809", detail=detail)


def _check_columns(major: int, sent: SentRelation, table: TableFacts, name: str) -> None:
    present = {column.name for column in table.columns}
    generated = {column.name for column in table.columns if column.is_generated}
    names = [column.name for column in sent.columns]
    if not VERSIONS[major].names_generated_targets:
        present -= generated
    for wrong, what in (
        ([column for column in names if column not in present], "is missing replicated"),
        ([column for column in names if column in present & generated], "has incompatible generated"),
    ):
        if wrong:
            listed = ", ".join(f'"{column}"' for column in wrong)
            columns = "column" if len(wrong) == 1 else "columns"
            text = f'logical replication target relation "{name}" {what} {columns}: {listed}'
            raise TargetError(text, sqlstate="55000")


def _lookup(
    connection: TargetConnection, sent: SentRelation, table: TableFacts, name: str, leaves: list[LeafTable]
) -> Lookup | NoLookup:
    if table.kind == TABLE:
        return _lookup_in(connection, table.oid, sent, table, name)
    if not leaves:
        return NoLookup(f'no partition of relation "{sent.name}" found for row', "23514")
    lookups = [leaf.lookup for leaf in leaves]
    return common_lookup(name, lookups, routing_of(connection, table.oid))


def _leaf_tables(
    connection: TargetConnection, major: int, sent: SentRelation, table: TableFacts, name: str
) -> list[LeafTable]:
    leaves = []
    for leaf in leaves_of(connection, table.oid) if table.kind == PARTITIONED else ():
        try:
            _check_kind(major, leaf.kind, f"{leaf.namespace}.{leaf.name}")
        except TargetError as error:
            leaves.append(foreign_table(leaf, error))
        else:
            leaves.append(LeafTable(leaf, _lookup_in(connection, leaf.oid, sent, table, name)))
    return leaves


def _lookup_in(
    connection: TargetConnection, oid: int, sent: SentRelation, table: TableFacts, name: str
) -> Lookup | NoLookup:
    places = {column.name: at for at, column in enumerate(sent.columns)}
    columns = {column.name: column for column in table.columns}
    key = []
    for part in key_of(connection, oid):
        column = columns[part.name]
        operator = part.operator or column.operator
        key.append(LookupColumn(part.name, places.get(part.name), operator, column.base, part.collation))
    row = [
        LookupColumn(column.name, places.get(column.name), column.operator, column.base)
        for column in table.columns
        if not column.is_generated
    ]
    sent_keys = frozenset(at for at, column in enumerate(sent.columns) if column.is_key)
    return lookup_of(name, key, row, sent_keys, is_full=sent.replica_identity == "f")
