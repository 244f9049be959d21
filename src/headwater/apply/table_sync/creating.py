"""Tables of publications made on the target, as the source's catalog has them at the beginning of the subscription.

In: the catalog at that place. Out: schemas, types, sequences and tables, made in the transaction that writes the
subscription, and statements that wait for rows (:mod:`headwater.apply.progress.pending_statements`).

Invariants: what the target has already is left as it is. What cannot be made exactly is an error, and nothing is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.progress.installation import transaction
from headwater.apply.progress.pending_statements import ALL_TABLES, list_pending, remove_pending
from headwater.apply.progress.subscriptions import Subscription
from headwater.apply.table_sync.wal_publisher import WalPublisher
from headwater.apply.target.connection import TargetConnection
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.definitions.creation import Creation, Piece, Section, creation_of
from headwater.definitions.objects import (
    Definition,
    IndexDefinition,
    OtherDefinition,
    SchemaDefinition,
    SequenceDefinition,
    TableDefinition,
)
from headwater.errors import ConnectionLostError, TargetError
from headwater.walsender.copying.inheritors import all_inheritors

NOT_SUPPORTED = "0A000"
_HAS_RELATION = "SELECT pg_catalog.to_regclass($1) IS NOT NULL"
_HAS_TYPE = "SELECT pg_catalog.to_regtype($1) IS NOT NULL"
_HAS_SCHEMA = "SELECT pg_catalog.to_regnamespace($1) IS NOT NULL"
_HAS_FUNCTION = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
               WHERE pg_catalog.format('%I.%I', n.nspname, p.proname) = $1)
"""
_SET_SEQUENCE = "SELECT pg_catalog.setval($1::regclass, $2::int8, $3::bool)"
_EXTENSION = "SELECT 1 FROM pg_catalog.pg_extension WHERE extname = $1"


@dataclass(frozen=True)
class MadeTables:
    """Tables that were made.

    Attributes:
        pieces: of all that is made, those that wait for rows among them; view: the catalog that they are of.
        indexes: see :class:`headwater.apply.incoming.requests.DefinitionRequest`.
    """

    pieces: tuple[Piece, ...]
    view: HistoricCatalog
    indexes: str

    def waiting(self, subscribed: dict[tuple[str, str], int]) -> Iterator[tuple[int, str]]:
        """Give the statements that wait for rows, each with the OID of the target's table that has them.

        Args:
            subscribed: OIDs of the subscription's tables on the target, by their names.
        """
        for piece in self.pieces:
            if not _is_early(piece, self.indexes, self._has_rows(piece, subscribed)):
                oid = ALL_TABLES if piece.section == Section.LAST else self._owner(piece.table, subscribed)
                yield from ((oid, sql) for sql in piece.event.sql)

    def _has_rows(self, piece: Piece, subscribed: Iterable[tuple[str, str]]) -> bool:
        return piece.section == Section.LAST or self._owner(piece.table, dict.fromkeys(subscribed, 1)) != 0

    def _owner(self, table: int, subscribed: dict[tuple[str, str], int]) -> int:
        """Return the table that rows of a table come with: itself, or what it is a partition of; 0 for none."""
        relation = self.view.relation(table)
        if relation is None:
            return 0
        ancestors = (self.view.relation(oid) for oid in relation.ancestors) if relation.is_partition else ()
        for member in (relation, *ancestors):
            if member is not None and (oid := subscribed.get((member.namespace, member.name))):
                return oid
        return 0


def make_tables(
    connection: TargetConnection, source: WalPublisher, request: ApplyRequest, tables: Sequence[tuple[str, str]]
) -> MadeTables:
    """Make tables with all that they need, in the transaction that the connection is in.

    Args:
        connection: the target's; source: looks at the catalog; request: what is asked for.
        tables: schemas and names.

    Raises:
        TargetError: something cannot be made.
        CatalogError: the catalog is inconsistent.
    """
    view = source.view
    asked = request.definitions
    creation = creation_of(
        *(view, _members(view, tables), lambda definition: _exists(connection, definition)),
        all_types=asked.ddl == "apply",
    )
    _check(connection, creation)
    pieces = creation.pieces if asked.indexes != "none" else _without_indexes(creation.pieces)
    # Nothing waits for rows that are not copied.
    made = MadeTables(pieces, view, asked.indexes if request.copies_data else "before")
    for piece in made.pieces:
        if _is_early(piece, made.indexes, made._has_rows(piece, tables)):
            for sql in piece.event.sql:
                run(connection, sql)
    _set_sequences(connection, source, made.pieces)
    return made


def _without_indexes(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Leave indexes out that belong to no constraint, but those by which rows are identified."""
    tables = (piece.event.after for piece in pieces)
    identities = {(table.oid, table.identity_index) for table in tables if isinstance(table, TableDefinition)}
    return tuple(
        piece
        for piece in pieces
        if not isinstance(index := piece.event.after, IndexDefinition) or (index.table_oid, index.name) in identities
    )


def _set_sequences(connection: TargetConnection, source: WalPublisher, pieces: Iterable[Piece]) -> None:
    """Let sequences that were made stand where those of the source do."""
    names = {}
    for piece in pieces:
        definition = piece.event.after
        if isinstance(definition, SequenceDefinition) and piece.section == Section.BEFORE:
            names[definition.oid] = definition.sql_name
        if isinstance(definition, TableDefinition):
            owned = (column.sequence for column in definition.columns)
            names |= {sequence.oid: sequence.sql_name for sequence in owned if sequence is not None}
    if names:
        for oid, value in source.sequence_values(names).items():
            is_called = "t" if value.is_called else "f"
            connection.rows(_SET_SEQUENCE, (names[oid], str(value.last), is_called))


def run(connection: TargetConnection, sql: str) -> None:
    """Run a statement of a definition.

    Raises:
        TargetError: the target refuses; its context is the statement.
    """
    try:
        connection.rows(sql)
    except ConnectionLostError:
        raise
    except TargetError as error:
        error.context = "\n".join(filter(None, [error.context, f"SQL statement: {sql}"]))
        raise


def run_pending(connection: TargetConnection, subscription: Subscription, oid: int) -> list[str]:
    """Run what has waited for a table's rows, or for those of all tables.

    Args:
        connection: the target's, in no transaction; subscription: whose; oid: the table's, or 0 for all tables.

    Returns:
        foreign keys and comments that the target refuses, which are left out, and why.

    Raises:
        TargetError: the target refuses a key or an index.
    """
    refused = []
    for number, statement in list_pending(connection, subscription, oid):
        try:
            with transaction(connection):
                run(connection, statement)
                remove_pending(connection, subscription, number)
        except ConnectionLostError:
            raise
        except TargetError as error:
            if oid != ALL_TABLES:
                raise
            refused.append(f"left out: {statement}: {error.message}")
            remove_pending(connection, subscription, number)
    return refused


def _is_early(piece: Piece, indexes: str, waits: bool) -> bool:
    """Tell whether a piece is made before rows come."""
    if piece.section == Section.BEFORE:
        return True
    return piece.section == Section.BEHIND and (indexes == "before" or not waits)


def _members(view: HistoricCatalog, tables: Iterable[tuple[str, str]]) -> list[int]:
    """Return the OIDs of tables, and of all partitions below them."""
    oids = [oid for namespace, name in tables if (oid := view.relation_named(namespace, name)) is not None]
    members = []
    for oid in oids:
        relation = view.relation(oid)
        members += all_inheritors(view, oid) if relation is not None and relation.kind == "p" else [oid]
    return members


def _exists(connection: TargetConnection, definition: Definition) -> bool:
    query = _HAS_TYPE
    if isinstance(definition, TableDefinition | SequenceDefinition | IndexDefinition):
        query = _HAS_RELATION
    elif isinstance(definition, SchemaDefinition):
        query = _HAS_SCHEMA
    elif isinstance(definition, OtherDefinition):
        query = {"function": _HAS_FUNCTION, "base type": _HAS_TYPE}.get(definition.what, _HAS_RELATION)
    if not definition.sql_name:  # comments
        return False
    return connection.rows(query, (definition.sql_name,)) == [("t",)]


def _check(connection: TargetConnection, creation: Creation) -> None:
    for extension in creation.extensions:
        if not connection.rows(_EXTENSION, (extension,)):
            text = f'extension "{extension}", which the tables need, does not exist on the target'
            raise TargetError(text, sqlstate="42704", hint=f'CREATE EXTENSION "{extension}" there')
    for other in creation.others:
        raise TargetError(
            f"{other.what} {other.sql_name}, which the tables need, cannot be made",
            sqlstate=NOT_SUPPORTED,
            hint="make it on the target first",
        )
    for piece in creation.pieces:
        event = piece.event
        if event.unsupported and not isinstance(event.after, OtherDefinition):
            raise TargetError(
                f"{event.kind} {event.name} cannot be made: {event.unsupported}",
                sqlstate=NOT_SUPPORTED,
                hint="make the table on the target first",
            )
