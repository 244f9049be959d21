"""DDL in debezium: schema changes as Debezium's other connectors have them, made of the changes of a transaction.

Mirrors ``SchemaChangeEvent``, ``EventDispatcher$SchemaChangeEventReceiver`` and ``ConnectTableChangeSerializer`` of
Debezium 3.6.1, with columns as the PostgreSQL connector reads them by JDBC (``TypeInfoCache`` of pgjdbc 42.7: type
codes, lengths and scales). That connector itself reports no DDL.

Known gaps: a column whose domain is NOT NULL, but not the column itself, is shown as optional.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.definitions.events import ALTER, DROP, DdlEvent
from headwater.definitions.objects import (
    ColumnDefinition,
    ConstraintDefinition,
    Definition,
    IndexDefinition,
    TableDefinition,
)
from headwater.plugins.api import CatalogView
from headwater.plugins.debezium import _render as k
from headwater.plugins.debezium import column_types as oids
from headwater.plugins.debezium.column_types import json_text, root_type
from headwater.plugins.debezium.schemas import SCHEMA_CHANGE, SCHEMA_CHANGE_KEY, mark
from headwater.plugins.debezium.templates import UNCOUNTED_TABLE, Vocabulary, key_columns

_ARRAY, _STRUCT, _OTHER, _VARCHAR = 2003, 2002, 1111, 12
_JDBC_TYPES = {
    **dict.fromkeys((oids.BOOL, oids.BIT), -7),
    **dict.fromkeys((oids.CHAR, oids.BPCHAR), 1),
    **dict.fromkeys((oids.NAME, oids.TEXT_OID, oids.VARCHAR), _VARCHAR),
    **dict.fromkeys((oids.INT8, oids.OID), -5),
    **dict.fromkeys((oids.FLOAT8, oids.MONEY), 8),
    **dict.fromkeys((oids.TIME, oids.TIMETZ), 92),
    **dict.fromkeys((oids.TIMESTAMP, oids.TIMESTAMPTZ), 93),
    oids.BYTEA: -2,
    oids.INT2: 5,
    oids.INT4: 4,
    oids.NUMERIC: 2,
    oids.FLOAT4: 7,
    oids.DATE: 91,
    oids.XML: 2009,
    1790: 2012,
}
"""The ``java.sql.Types`` of the types that have one of their own there."""

_UNBOUNDED = 2147483647
_LENGTHS = {oids.INT2: 5, oids.INT4: 10, oids.OID: 10, oids.INT8: 19, oids.FLOAT4: 8, oids.FLOAT8: 17, oids.BOOL: 1}
_LENGTHS |= {oids.CHAR: 1, oids.DATE: 13, oids.INTERVAL: 49}
_SCALES = {oids.FLOAT4: 8, oids.FLOAT8: 17}
_MOMENTS = {oids.TIME: 8, oids.TIMETZ: 14, oids.TIMESTAMP: 22, oids.TIMESTAMPTZ: 28}
"""The characters of a moment without fractions of a second."""

_NO_LENGTH_IN_ARRAYS = frozenset({oids.INTERVAL, oids.CHAR})
_ANY_NUMERIC = 131089
_MICROS = 6
_SERIALS = {oids.INT2: "smallserial", oids.INT4: "serial", oids.INT8: "bigserial"}
_PATH = frozenset({"pg_catalog", "public"})
"""The schemas whose types are not qualified."""


@dataclass(frozen=True)
class _Place:
    """The schema and table that an event belongs to.

    Attributes:
        schema: the name of a schema, empty for an object that is in none.
        table: the name of a table, empty for another object.
    """

    schema: str
    table: str


def schema_change(vocabulary: Vocabulary, event: DdlEvent, catalog: CatalogView) -> list[bytes]:
    """Make the template of an event, after what stands for its table; none for DDL that is not shown.

    Args:
        vocabulary: the vocabulary that makes templates.
        event: the change.
        catalog: the catalog as of after the change.
    """
    either = event.after or event.before
    assert either is not None
    relation = _relation_of(either, catalog)
    place = _place_of(either, relation)
    if place.table and not vocabulary.options.shows_table(place.schema, place.table):
        return []
    changes = _table_changes(event, either, relation)
    if not event.sql and not event.unsupported and not changes:
        return []
    fields = {"databaseName": vocabulary.database, "schemaName": place.schema or None, "ddl": _sql(event)}
    payload = (
        f'{{"source":{vocabulary.source(place.schema, place.table)},"ts_ms":{mark(k.MILLIS)},'
        f'{json_text(fields)[1:-1]},"tableChanges":{json_text(changes)}}}'
    )
    key = vocabulary.key(SCHEMA_CHANGE_KEY, json_text({"databaseName": vocabulary.database}))
    template = vocabulary.event(vocabulary.options.topic_prefix, key, vocabulary.value(SCHEMA_CHANGE, payload))
    return [UNCOUNTED_TABLE + b"\0" + vocabulary.session.encoded(template)]


def _sql(event: DdlEvent) -> str:
    if event.unsupported:
        return f"-- {event.action} {event.kind} {event.name}: {event.unsupported}"
    return ";\n".join(event.sql)


def _relation_of(either: Definition, catalog: CatalogView) -> RelationSchema | None:
    """Return the table that an object is, or belongs to, if it exists."""
    if isinstance(either, TableDefinition):
        return catalog.relation(either.oid)
    return catalog.relation(either.table_oid) if isinstance(either, ConstraintDefinition | IndexDefinition) else None


def _place_of(either: Definition, relation: RelationSchema | None) -> _Place:
    if isinstance(either, TableDefinition):
        return _Place(either.schema, either.name)
    if relation is not None:
        return _Place(relation.namespace, relation.name)
    return _Place(getattr(either, "schema", either.name if either.kind == "schema" else ""), "")


def _table_changes(event: DdlEvent, either: Definition, relation: RelationSchema | None) -> list[dict[str, Any]]:
    """Describe the change of a table, with the first part of an event; indexes and constraints may change the key."""
    if event.part:
        return []
    if isinstance(either, TableDefinition):
        table = None if event.action == DROP or relation is None else _table(relation, event.table)
        return [_change(event.action, either.schema, either.name, table)]
    if relation is None:
        return []
    return [_change(ALTER, relation.namespace, relation.name, _table(relation, event.table))]


def _change(action: str, schema: str, name: str, table: dict[str, Any] | None) -> dict[str, Any]:
    quoted = ".".join('"' + part.replace('"', '""') + '"' for part in (schema, name))
    return {"type": action.upper(), "id": quoted, "table": table}


def _table(relation: RelationSchema, table: TableDefinition | None) -> dict[str, Any]:
    definitions = {} if table is None else {column.number: column for column in table.columns}
    live = [column for column in relation.columns if not column.is_dropped]
    names = {column.number: column.name for column in live}
    return {
        "defaultCharsetName": None,
        "primaryKeyColumnNames": [names[number] for number in key_columns(relation)],
        "columns": [_column(column, at, definitions.get(column.number)) for at, column in enumerate(live, 1)],
        "comment": None,
    }


def _column(column: Column, position: int, definition: ColumnDefinition | None) -> dict[str, Any]:
    type, typmod = root_type(column)
    expression = None if definition is None or definition.default is None else definition.default.sql
    is_drawn = expression is not None and "nextval(" in expression
    name = _type_name(column, is_drawn)
    length, scale = _length(type, typmod)
    return {
        "name": column.name,
        "jdbcType": _jdbc_type(type),
        "nativeType": type.oid,
        "typeName": name,
        "typeExpression": name,
        "charsetName": None,
        "length": length,
        "scale": scale,
        "position": position,
        "optional": not column.not_null,
        "autoIncremented": is_drawn or (definition is not None and definition.identity != ""),
        "generated": column.generated != "",
        "comment": None,
        "defaultValueExpression": expression,
        "enumValues": None,
    }


def _jdbc_type(type: TypeInfo) -> int:
    if type.element is not None:
        return _ARRAY
    if type.typtype in "ec":
        return _VARCHAR if type.typtype == "e" else _STRUCT
    return _JDBC_TYPES.get(type.oid, _OTHER)


def _type_name(column: Column, is_drawn: bool) -> str:
    type_info = column.type
    assert type_info is not None
    if is_drawn and type_info.oid in _SERIALS:
        return _SERIALS[type_info.oid]
    quoted = ('"' + part.replace('"', '""') + '"' for part in (type_info.namespace, type_info.name))
    return type_info.name if type_info.namespace in _PATH else ".".join(quoted)


def _length(type: TypeInfo, typmod: int) -> tuple[int, int | None]:
    """Return length and scale of a type, of an array those of its elements."""
    element = type.element
    oid = (element or type).oid
    if oid == oids.NUMERIC and typmod < 0:
        return (0, None) if element is None else (_ANY_NUMERIC, 0)
    if oid == oids.NUMERIC:
        return (typmod - 4) >> 16 & 0xFFFF, (typmod - 4) & 0x7FF
    if oid in _MOMENTS:
        digits = typmod if typmod >= 0 else _MICROS
        return _MOMENTS[oid] + (0 if digits == 0 else 3 if digits == 1 else digits + 1), digits
    if element is not None and oid in _NO_LENGTH_IN_ARRAYS:
        return _UNBOUNDED, 0
    if oid == oids.INTERVAL:
        return _LENGTHS[oid], typmod & 0xFFFF if typmod >= 0 and typmod & 0xFFFF != 0xFFFF else _MICROS
    if oid in (oids.BPCHAR, oids.VARCHAR) and typmod >= 4:
        return typmod - 4, 0
    if oid in (oids.BIT, oids.VARBIT) and typmod >= 0:
        return typmod, 0
    return _LENGTHS.get(oid, _UNBOUNDED), _SCALES.get(oid, 0)
