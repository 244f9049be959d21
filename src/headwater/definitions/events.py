"""DDL as events: the changes of a transaction, object by object, with the SQL that repeats them.

In: the views before and after, and the keys of the rows that were touched. Out: events in an order in which their
statements can be run. The work grows with the rows that were touched; a temporary object is known by one row, and
omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.catalog.versions import Dependency, Key
from headwater.definitions import object_sql, table_sql, type_sql
from headwater.definitions.objects import (
    CommentsDefinition,
    CompositeDefinition,
    ConstraintDefinition,
    Definition,
    DomainDefinition,
    EnumDefinition,
    ExtensionDefinition,
    IndexDefinition,
    OtherDefinition,
    PublicationDefinition,
    RangeDefinition,
    SchemaDefinition,
    SequenceDefinition,
    TableDefinition,
)
from headwater.definitions.reader import COMMENT, DefinitionReader, ObjectKey
from headwater.definitions.renaming import given_up, renamed
from headwater.definitions.statements import Phase, Statement, statements_of
from headwater.definitions.step import Change, Step, changes_of
from headwater.errors import UnsupportedDefinitionError
from headwater.pg.catalogs import (
    PG_CLASS,
    PG_CONSTRAINT,
    PG_EVENT_TRIGGER,
    PG_EXTENSION,
    PG_NAMESPACE,
    PG_POLICY,
    PG_PROC,
    PG_PUBLICATION,
    PG_REWRITE,
    PG_STATISTIC_EXT,
    PG_TRIGGER,
    PG_TYPE,
)

CREATE, ALTER, DROP = "create", "alter", "drop"

_OBJECTS: dict[tuple[str, str], int] = {
    ("pg_class", "oid"): PG_CLASS,
    ("pg_attribute", "attrelid"): PG_CLASS,
    ("pg_attrdef", "adrelid"): PG_CLASS,
    ("pg_index", "indrelid"): PG_CLASS,
    ("pg_index", "indexrelid"): PG_CLASS,
    ("pg_inherits", "inhrelid"): PG_CLASS,
    ("pg_partitioned_table", "partrelid"): PG_CLASS,
    ("pg_sequence", "seqrelid"): PG_CLASS,
    ("pg_constraint", "oid"): PG_CONSTRAINT,
    ("pg_constraint", "conrelid"): PG_CLASS,
    ("pg_constraint", "contypid"): PG_TYPE,
    ("pg_type", "oid"): PG_TYPE,
    ("pg_enum", "enumtypid"): PG_TYPE,
    ("pg_range", "rngtypid"): PG_TYPE,
    ("pg_namespace", "oid"): PG_NAMESPACE,
    ("pg_publication", "oid"): PG_PUBLICATION,
    ("pg_publication_rel", "prpubid"): PG_PUBLICATION,
    ("pg_publication_namespace", "pnpubid"): PG_PUBLICATION,
    ("pg_description", "objoid"): COMMENT,
    ("pg_extension", "oid"): PG_EXTENSION,
    ("pg_proc", "oid"): PG_PROC,
    ("pg_trigger", "oid"): PG_TRIGGER,
    ("pg_policy", "oid"): PG_POLICY,
    ("pg_rewrite", "oid"): PG_REWRITE,
    ("pg_rewrite", "ev_class"): PG_CLASS,
    ("pg_statistic_ext", "oid"): PG_STATISTIC_EXT,
    ("pg_event_trigger", "oid"): PG_EVENT_TRIGGER,
}
"""The class of the object whose definition depends on the rows under a key of a catalog, by the key's meaning."""


@dataclass(frozen=True)
class DdlEvent:
    """A change of an object.

    Attributes:
        action: ``create``, ``alter`` or ``drop``.
        kind: the kind of the object: ``table``, ``index``, ``type``, ...
        name: the object's name after the change, before it if it was dropped; in SQL, qualified.
        before, after: the definitions before and after the change; None where there is none.
        sql: statements that repeat the change, in order, without semicolons; empty where another event's repeat it.
        part: the number of this part, from 0 on; a change has several if its statements cannot be run one after the
            other.
        unsupported: the reason if there are no statements though there should be; empty otherwise.
        table: the table after the change that the object is, or is a constraint or index of; None if it is none, or was
            dropped.
        is_rewritten: the table has another file than before: its rows may have been written anew.
    """

    action: str
    kind: str
    name: str
    before: Definition | None
    after: Definition | None
    sql: tuple[str, ...]
    part: int = 0
    unsupported: str = ""
    table: TableDefinition | None = None
    is_rewritten: bool = False

    def structure(self) -> dict[str, Any]:
        """Return the event as a value of JSON."""
        value: dict[str, Any] = {
            "action": self.action,
            "object": self.kind,
            "name": self.name,
            "part": self.part,
            "before": None if self.before is None else self.before.structure(),
            "after": None if self.after is None else self.after.structure(),
            "sql": list(self.sql),
        }
        return value | ({"unsupported": self.unsupported} if self.unsupported else {})


def ddl_events(before: HistoricCatalog, after: HistoricCatalog, touched: Iterable[Dependency]) -> list[DdlEvent]:
    """Return the changes of the objects whose rows were touched.

    Args:
        before: the catalog before the change.
        after: the catalog after the change.
        touched: the keys of the rows that were made or removed.

    Raises:
        CatalogError: the catalog is inconsistent.
    """
    old, new = DefinitionReader(before), DefinitionReader(after)
    step = Step(old, new, changes_of(old, new, objects_of(touched, old, new)))
    return [event for _, event in placed_events(step)]


def placed_events(step: Step) -> list[tuple[Phase, DdlEvent]]:
    """Return the changes of a step as events, in the order of their phases, each with its phase.

    Raises:
        CatalogError: the catalog is inconsistent.
    """
    placed = [entry for change in step.changes for entry in _placed(change, step)]
    return [(phase, event) for phase, _, event in sorted(placed, key=lambda entry: entry[:2])]


def rests_on(key: Dependency) -> bool:
    """Tell whether the definition of any object depends on rows that are looked up by a key."""
    return key[:2] in _OBJECTS


def objects_of(touched: Iterable[Dependency], old: DefinitionReader, new: DefinitionReader) -> set[ObjectKey]:
    """Return the objects whose definitions may have changed; those of temporary tables are already omitted."""
    objects = {
        ObjectKey(catalog, _oid(key))
        for catalog_name, index, key in touched
        if (catalog := _OBJECTS.get((catalog_name, index))) is not None and key
    }
    relations = [key for key in objects if key.catalog == PG_CLASS]
    for key in relations:
        row = new.row(key) or old.row(key)
        if row is None or row.letter("relpersistence") == "t" or row.letter("relkind") == "t":
            objects.discard(key)
        elif row.letter("relkind") == "c":
            objects.discard(key)
            objects.add(ObjectKey(PG_TYPE, row.oid("reltype")))
        elif row.letter("relkind") == "S":
            tables = {reader.identity_table(key.oid) for reader in (old, new)} - {0}
            objects |= {ObjectKey(PG_CLASS, oid) for oid in tables}
    return objects


def _oid(key: Key) -> int:
    assert isinstance(key, int)
    return key


def _placed(change: Change, step: Step) -> Iterator[tuple[Phase, int, DdlEvent]]:
    """Give the events of a change with their phase and order in it, one for each phase and order of its statements."""
    before, after = change.before, change.after
    action = CREATE if before is None else DROP if after is None else ALTER
    either = change.either
    kind = either.what if isinstance(either, OtherDefinition) else either.kind
    name = _event_name(change)
    is_rewritten = isinstance(either, TableDefinition) and _file(step.before, either) != _file(step.after, either)
    bare = DdlEvent(action, kind, name, before, after, (), table=_table_of(either, step), is_rewritten=is_rewritten)
    try:
        statements = sorted(_statements(change, step), key=lambda statement: statement[:2])
    except UnsupportedDefinitionError as error:
        yield _usual_phase(action), either.oid, replace(bare, unsupported=error.message)
        return
    if not statements:
        yield _usual_phase(action), either.oid, bare
    parts = groupby(statements, key=lambda statement: (statement.phase, statement.order))
    for part, ((phase, order), group) in enumerate(parts):
        sql = tuple(statement.sql for statement in group)
        yield phase, (order << 40) + either.oid, replace(bare, sql=sql, part=part)


def _file(reader: DefinitionReader, table: TableDefinition) -> int | None:
    row = reader.row(ObjectKey(PG_CLASS, table.oid))
    return None if row is None else row.oid("relfilenode")


def _table_of(either: Definition, step: Step) -> TableDefinition | None:
    """Return the table that an object is or belongs to, as of after a step."""
    if isinstance(either, ConstraintDefinition | IndexDefinition):
        table = step.after.read(ObjectKey(PG_CLASS, either.table_oid))
    else:
        table = step.table_after(either.oid)
    return table if isinstance(table, TableDefinition) else None


def _event_name(change: Change) -> str:
    either = change.either
    if isinstance(either, CommentsDefinition):
        return either.comments[0].name
    return either.sql_name


def _usual_phase(action: str) -> Phase:
    """Return the phase of an event without statements."""
    return {CREATE: Phase.CREATE_TABLE, ALTER: Phase.ALTER_TABLE, DROP: Phase.DROP_TABLE}[action]


def _statements(change: Change, step: Step) -> Iterator[Statement]:
    either = change.either
    if isinstance(either, OtherDefinition):
        raise UnsupportedDefinitionError(f"a {either.what} is not told in SQL")
    if isinstance(either, CommentsDefinition):
        before, after = change.before, change.after
        assert before is None or isinstance(before, CommentsDefinition)
        assert after is None or isinstance(after, CommentsDefinition)
        yield from object_sql.comment(before, after, step)
        return
    yield from given_up(change, step)
    yield from renamed(change, step)
    yield from _by_kind(change, step)


_Create = Callable[[Any, Step], Iterator[Statement]]
_Change = Callable[[Any, Any, Step], Iterator[Statement]]


def _in_type_phase(create: Callable[[Any, Step], Iterator[str]]) -> _Create:
    return lambda type, step: iter(statements_of(Phase.TYPE, create(type, step)))


def _type_changes(change: Callable[[Any, Any, Step], Iterator[str]]) -> _Change:
    return lambda before, after, step: iter(statements_of(Phase.TYPE, change(before, after, step)))


def _nothing(_before: Definition, _after: Definition, _step: Step) -> Iterator[Statement]:
    """Give no statements, for an object of which only the name changes."""
    return iter(())


def _create_schema(schema: Definition, _step: Step) -> Iterator[Statement]:
    yield Statement(Phase.SCHEMA, 2, f"CREATE SCHEMA {schema.sql_name}")


def _drop_schema(schema: Definition, _step: Step) -> Iterator[Statement]:
    yield Statement(Phase.DROP_SCHEMA, 0, f"DROP SCHEMA {schema.sql_name}")


def _drop_type(type: Definition, step: Step) -> Iterator[Statement]:
    word = "DOMAIN" if isinstance(type, DomainDefinition) else "TYPE"
    yield Statement(Phase.DROP_TYPE, -type.oid, f"DROP {word} {step.late_name(type)}")


_KINDS: dict[type[Definition], tuple[_Create, _Change, _Create]] = {
    SchemaDefinition: (_create_schema, _nothing, _drop_schema),
    TableDefinition: (table_sql.create_table, table_sql.alter_table, table_sql.drop_table),
    SequenceDefinition: (object_sql.create_sequence, object_sql.alter_sequence, object_sql.drop_sequence),
    IndexDefinition: (object_sql.create_index, object_sql.alter_index, object_sql.drop_index),
    ConstraintDefinition: (object_sql.create_constraint, object_sql.alter_constraint, object_sql.drop_constraint),
    EnumDefinition: (_in_type_phase(type_sql.create_enum), _type_changes(type_sql.alter_enum), _drop_type),
    CompositeDefinition: (
        _in_type_phase(type_sql.create_composite),
        _type_changes(type_sql.alter_composite),
        _drop_type,
    ),
    DomainDefinition: (_in_type_phase(type_sql.create_domain), _type_changes(type_sql.alter_domain), _drop_type),
    RangeDefinition: (_in_type_phase(type_sql.create_range), _nothing, _drop_type),
    PublicationDefinition: (
        object_sql.create_publication,
        object_sql.alter_publication,
        object_sql.drop_publication,
    ),
    ExtensionDefinition: (object_sql.create_extension, object_sql.alter_extension, object_sql.drop_extension),
}
"""The functions that make, change and drop an object of each kind."""


def _by_kind(change: Change, step: Step) -> Iterator[Statement]:
    before, after = change.before, change.after
    create, alter, drop = _KINDS[type(change.either)]
    if before is None:
        return create(after, step)
    if after is None:
        return drop(before, step)
    if type(before) is not type(after):
        raise UnsupportedDefinitionError(f"a {before.kind} that became a {after.kind} is not told in SQL")
    return alter(before, after, step)
