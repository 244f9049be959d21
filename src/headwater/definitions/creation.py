"""Tables with all that they rest on, as statements that make them elsewhere: in sections, between which rows come.

In: the catalog, and tables. Out: what they need (types, sequences, parents, schemas, extensions, functions), and the
statements of each section in an order that works. Partitions are attached before rows come, as rows go through their
roots; so CHECK constraints are made before, too, and keys and indexes behind.

PostgreSQL: pg_dump has the same sections (pre-data, post-data), and follows pg_depend as this does.

Known gaps: triggers, rules, policies, statistics, views are not made. A foreign key of a partition that has another
name than its root's is made beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.catalog.store.tables import WHOLE
from headwater.definitions.events import DdlEvent, placed_events
from headwater.definitions.objects import (
    ConstraintDefinition,
    Definition,
    IndexDefinition,
    OtherDefinition,
    SequenceDefinition,
    TableDefinition,
)
from headwater.definitions.reader import COMMENT, DefinitionReader, ObjectKey
from headwater.definitions.reading import DefinitionSource
from headwater.definitions.statements import Phase
from headwater.definitions.step import Change, Step
from headwater.pg.catalogs import (
    FIRST_NORMAL_OBJECT_ID,
    PG_CLASS,
    PG_CONSTRAINT,
    PG_EXTENSION,
    PG_NAMESPACE,
    PG_PROC,
    PG_TYPE,
)

_FOLLOWED = {PG_CLASS, PG_TYPE, PG_PROC, PG_NAMESPACE, PG_CONSTRAINT}
_BEFORE_CHECKS = range(Phase.SCHEMA, Phase.INDEX)


class Section(IntEnum):
    """The time at which a statement is run.

    BEFORE: before rows come. BEHIND: behind a table's rows, whose indexes are built then. LAST: behind the rows of all.
    """

    BEFORE, BEHIND, LAST = range(3)


@dataclass(frozen=True)
class Piece:
    """A part of what is made.

    Attributes:
        section: when; table: OID of the table that it is about, 0 for none; event: the object, with its statements.
    """

    section: Section
    table: int
    event: DdlEvent


@dataclass(frozen=True)
class Creation:
    """All that is made.

    Attributes:
        pieces: in their order.
        extensions: names of those whose members are needed.
        others: objects that are needed, and cannot be made here, such as functions; they are no pieces.
    """

    pieces: tuple[Piece, ...]
    extensions: tuple[str, ...]
    others: tuple[OtherDefinition, ...]


def creation_of(
    view: HistoricCatalog, tables: Iterable[int], exists: Callable[[Definition], bool], *, all_types: bool = False
) -> Creation:
    """Return what makes tables.

    Args:
        view: the catalog, with definitions.
        tables: OIDs, with those of the partitions that are wanted.
        exists: tells whether there is an object of the name already: it is left as it is, and so are its parts.
        all_types: types and schemas of users are made, too, that no table needs.

    Raises:
        CatalogError: the catalog is inconsistent.
    """
    needed = _Needed(view)
    for table in tables:
        needed.table(table)
    if all_types:
        needed.all_types()
    reader = DefinitionReader(view)
    definitions = {key: definition for key in sorted(needed.keys) if (definition := reader.read(key)) is not None}
    present = {key for key, definition in definitions.items() if _can_exist(definition) and exists(definition)}
    present |= _partitions_of(present, definitions)
    new = {key: definition for key, definition in definitions.items() if key not in present}
    made = {key.oid for key, definition in new.items() if isinstance(definition, TableDefinition)}
    known = made | {key.oid for key in present}
    changes = tuple(
        Change(key, None, _with_owner(definition, made))
        for key, definition in new.items()
        if _is_made(definition, made, known)
    )
    step = Step(reader, reader, changes)
    others = tuple(definition for definition in new.values() if isinstance(definition, OtherDefinition))
    placed = [_piece(phase, event) for phase, event in placed_events(step)]
    pieces = tuple(piece for _, piece in sorted(placed, key=_order))
    return Creation(pieces, tuple(sorted(needed.extensions)), others)


def _partitions_of(present: set[ObjectKey], definitions: dict[ObjectKey, Definition]) -> set[ObjectKey]:
    """Return the partitions of tables that are there, which are left as they are."""
    above, parts = present, set[ObjectKey]()
    while above:
        oids = {key.oid for key in above}
        above = {
            key
            for key, definition in definitions.items()
            if isinstance(definition, TableDefinition)
            and definition.is_partition
            and not oids.isdisjoint(definition.parent_oids)
        } - parts
        parts |= above
    return parts


def _can_exist(definition: Definition) -> bool:
    return not isinstance(definition, ConstraintDefinition | IndexDefinition)


def _is_made(definition: Definition, made: set[int], known: set[int]) -> bool:
    """Tell whether an object is made: parts of tables are, if their table is, and what they refer to is there."""
    if isinstance(definition, ConstraintDefinition):
        return definition.table_oid in made and (not definition.other_oid or definition.other_oid in known)
    if isinstance(definition, IndexDefinition):
        return definition.table_oid in made
    return not isinstance(definition, OtherDefinition)


def _with_owner(definition: Definition, made: set[int]) -> Definition:
    """Return a sequence without its owner, if that is not made."""
    if isinstance(definition, SequenceDefinition) and definition.table_oid not in made:
        return replace(definition, owner=None, table_oid=0, core=(*definition.core[:-1], None))
    return definition


def _piece(phase: Phase, event: DdlEvent) -> tuple[Phase, Piece]:
    definition = event.after
    table = definition.oid if isinstance(definition, TableDefinition) else 0
    if isinstance(definition, ConstraintDefinition | IndexDefinition):
        table = definition.table_oid
    is_check = isinstance(definition, ConstraintDefinition) and definition.type == "check"
    if phase in _BEFORE_CHECKS or is_check or phase == Phase.ATTACH:
        return phase, Piece(Section.BEFORE, table, event)
    is_last = phase in (Phase.FOREIGN_KEY, Phase.COMMENT)
    return phase, Piece(Section.LAST if is_last else Section.BEHIND, 0 if is_last else table, event)


def _order(placed: tuple[Phase, Piece]) -> tuple[int, int]:
    return placed[1].section, placed[0]


class _Needed:
    """The collector of what tables rest on, by pg_depend."""

    def __init__(self, view: HistoricCatalog) -> None:
        self._source = DefinitionSource(view)
        self.keys: set[ObjectKey] = set()
        self.extensions: set[str] = set()

    def table(self, oid: int) -> None:
        """Take a table, its parts, and all that these rest on."""
        key = ObjectKey(PG_CLASS, oid)
        if key in self.keys:
            return
        self.keys |= {key, ObjectKey(COMMENT, oid)}
        self._rests_on(PG_CLASS, oid)
        for row in self._source.rows("pg_attrdef", "adrelid", oid):
            self._rests_on(None, row.oid("oid"))
        for row in self._source.rows("pg_constraint", "conrelid", oid):
            self.keys.add(ObjectKey(PG_CONSTRAINT, row.oid("oid")))
            if row.letter("contype") != "f":
                self._rests_on(PG_CONSTRAINT, row.oid("oid"))
        for row in self._source.rows("pg_index", "indrelid", oid):
            self.keys.add(ObjectKey(PG_CLASS, row.oid("indexrelid")))
            self._rests_on(PG_CLASS, row.oid("indexrelid"))

    def all_types(self) -> None:
        """Take all types that can be made, and all schemas."""
        for row in self._source.rows("pg_namespace", WHOLE, 0):
            if row.oid("oid") >= FIRST_NORMAL_OBJECT_ID and not self._source.is_temporary(row.oid("oid")):
                self._take(ObjectKey(PG_NAMESPACE, row.oid("oid")))
        for row in self._source.rows("pg_type", WHOLE, 0):
            relation = self._source.row("pg_class", "oid", row.oid("typrelid")) if row.oid("typrelid") else None
            is_made = row.letter("typtype") in "edr" or (relation is not None and relation.letter("relkind") == "c")
            if is_made and row.oid("oid") >= FIRST_NORMAL_OBJECT_ID:
                self._take(ObjectKey(PG_TYPE, row.oid("oid")))

    def _rests_on(self, catalog: int | None, oid: int) -> None:
        for row in self._source.rows("pg_depend", "objid", oid):
            if catalog is not None and row.oid("classid") != catalog:
                continue
            other = ObjectKey(row.oid("refclassid"), row.oid("refobjid"))
            if other.catalog in _FOLLOWED and other.oid >= FIRST_NORMAL_OBJECT_ID:
                self._take(other)

    def _take(self, key: ObjectKey) -> None:
        if key in self.keys or self._is_of_extension(key):
            return
        if key.catalog == PG_CLASS:
            row = self._source.row("pg_class", "oid", key.oid)
            if row is not None and row.letter("relkind") in "rp":
                self.table(key.oid)
            elif row is not None and row.letter("relkind") == "c":
                self._take(ObjectKey(PG_TYPE, row.oid("reltype")))
            elif row is not None and row.letter("relkind") not in "iI":
                self._add(key)
        else:
            self._add(key)
            if key.catalog == PG_TYPE:
                self._attributes(key.oid)

    def _add(self, key: ObjectKey) -> None:
        self.keys.add(key)
        if key.catalog != PG_PROC:
            self._rests_on(key.catalog, key.oid)
        if key.catalog == PG_TYPE:
            for row in self._source.rows("pg_constraint", "contypid", key.oid):
                self._rests_on(PG_CONSTRAINT, row.oid("oid"))

    def _attributes(self, oid: int) -> None:
        """Take what the attributes of a composite type rest on."""
        row = self._source.row("pg_type", "oid", oid)
        relation = 0 if row is None else row.oid("typrelid")
        kind = self._source.row("pg_class", "oid", relation) if relation else None
        if kind is not None and kind.letter("relkind") == "c":
            self._rests_on(PG_CLASS, relation)

    def _is_of_extension(self, key: ObjectKey) -> bool:
        for row in self._source.rows("pg_depend", "objid", key.oid):
            if row.oid("classid") == key.catalog and row.letter("deptype") == "e":
                extension = self._source.row("pg_extension", "oid", row.oid("refobjid"))
                if row.oid("refclassid") == PG_EXTENSION and extension is not None:
                    self.extensions.add(extension.name("extname"))
                return True
        return False


def statements_in(pieces: Iterable[Piece], section: Section) -> Iterator[tuple[int, str]]:
    """Give the statements of a section, in their order, each with the OID of its table."""
    for piece in pieces:
        if piece.section == section:
            yield from ((piece.table, sql) for sql in piece.event.sql)
