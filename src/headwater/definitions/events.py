"""DDL as events: what a transaction has changed, object by object, with the SQL that repeats it.

In: the views before and behind, and the keys of the rows that were touched. Out: events in an order in which their
statements can be run. Work goes with what was touched; temporary objects are known by a row each, and left out.
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
from headwater.definitions.statements import Phase, Statement, said
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
"""Whose definition rests on the rows under a key of a catalog, by the key's meaning."""


@dataclass(frozen=True)
class DdlEvent:
    """A change of an object.

    Attributes:
        action: ``create``, ``alter`` or ``drop``.
        kind: of the object: ``table``, ``index``, ``type``, ...
        name: in SQL, qualified, behind the change; before it if it was dropped.
        before, after: its definition; None where there is none.
        sql: statements that repeat the change, in order, without semicolons; empty where another event's do it.
        part: of a change whose statements cannot be run one behind the other, which part of them, from 0 on.
        unsupported: why there are none, though there should be; empty otherwise.
        table: the table behind the change that the object is, or is a constraint or index of; None if it is none, or is
            gone.
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

    def structure(self) -> dict[str, Any]:
        """It as a value of JSON."""
        found: dict[str, Any] = {
            "action": self.action,
            "object": self.kind,
            "name": self.name,
            "part": self.part,
            "before": None if self.before is None else self.before.structure(),
            "after": None if self.after is None else self.after.structure(),
            "sql": list(self.sql),
        }
        return found | ({"unsupported": self.unsupported} if self.unsupported else {})


def ddl_events(before: HistoricCatalog, after: HistoricCatalog, touched: Iterable[Dependency]) -> list[DdlEvent]:
    """What became of the objects whose rows were touched.

    Args:
        before: the catalog before the change.
        after: behind it.
        touched: what the rows that were made or removed are looked up by.

    Raises:
        CatalogError: the catalog is inconsistent.
    """
    old, new = DefinitionReader(before), DefinitionReader(after)
    step = Step(old, new, changes_of(old, new, objects_of(touched, old, new)))
    placed = [one for change in step.changes for one in _placed(change, step)]
    return [event for _, _, event in sorted(placed, key=lambda one: one[:2])]


def rests_on(key: Dependency) -> bool:
    """Whether the definition of any object rests on rows that are looked up by a key."""
    return key[:2] in _OBJECTS


def objects_of(touched: Iterable[Dependency], old: DefinitionReader, new: DefinitionReader) -> set[ObjectKey]:
    """The objects whose definitions may be others; those of temporary tables are left out already."""
    found = {
        ObjectKey(catalog, _oid(key))
        for where, index, key in touched
        if (catalog := _OBJECTS.get((where, index))) is not None and key
    }
    relations = [key for key in found if key.catalog == PG_CLASS]
    for key in relations:
        row = new.row(key) or old.row(key)
        if row is None or row.letter("relpersistence") == "t" or row.letter("relkind") == "t":
            found.discard(key)
        elif row.letter("relkind") == "c":
            found.discard(key)
            found.add(ObjectKey(PG_TYPE, row.oid("reltype")))
        elif row.letter("relkind") == "S":
            tables = {reader.identity_table(key.oid) for reader in (old, new)} - {0}
            found |= {ObjectKey(PG_CLASS, oid) for oid in tables}
    return found


def _oid(key: Key) -> int:
    assert isinstance(key, int)
    return key


def _placed(change: Change, step: Step) -> Iterator[tuple[Phase, int, DdlEvent]]:
    """The events of a change, one for each phase that its statements are run in, with that and the order in it."""
    before, after = change.before, change.after
    action = CREATE if before is None else DROP if after is None else ALTER
    either = change.either
    kind = either.what if isinstance(either, OtherDefinition) else either.kind
    name = _event_name(change)
    bare = DdlEvent(action, kind, name, before, after, (), table=_table_of(either, step))
    try:
        statements = sorted(_statements(change, step), key=lambda one: one[:2])
    except UnsupportedDefinitionError as error:
        yield _usual_phase(action), either.oid, replace(bare, unsupported=error.message)
        return
    if not statements:
        yield _usual_phase(action), either.oid, bare
    parts = groupby(statements, key=lambda one: (one.phase, one.order))
    for part, ((phase, order), group) in enumerate(parts):
        sql = tuple(one.sql for one in group)
        yield phase, (order << 40) + either.oid, replace(bare, sql=sql, part=part)


def _table_of(either: Definition, step: Step) -> TableDefinition | None:
    """The table behind a step that an object is, or belongs to."""
    if isinstance(either, ConstraintDefinition | IndexDefinition):
        found = step.after.read(ObjectKey(PG_CLASS, either.table_oid))
    else:
        found = step.table_after(either.oid)
    return found if isinstance(found, TableDefinition) else None


def _event_name(change: Change) -> str:
    either = change.either
    if isinstance(either, CommentsDefinition):
        return either.comments[0].name
    return either.sql_name


def _usual_phase(action: str) -> Phase:
    """Where an event without statements stands."""
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
    return lambda type, step: iter(said(Phase.TYPE, create(type, step)))


def _type_changes(change: Callable[[Any, Any, Step], Iterator[str]]) -> _Change:
    return lambda before, after, step: iter(said(Phase.TYPE, change(before, after, step)))


def _nothing(_before: Definition, _after: Definition, _step: Step) -> Iterator[Statement]:
    """Nothing but its name changes."""
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
"""What makes, changes and drops an object of each kind."""


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
