"""Schemas of the common parts of all of debezium's events, as Kafka Connect's ``JsonConverter`` prints them.

Mirrors ``SourceInfoStructMaker``, ``Envelope``, ``TransactionStructMaker`` and ``SchemaFactory`` of Debezium 3.6.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.plugins.debezium.column_types import Schema


def mark(number: int) -> str:
    """Return a mark for a template; see :mod:`headwater.plugins.debezium._render`."""
    return chr(number)


def field(type: str, field: str, *, optional: bool = False, **more: Any) -> Schema:
    """Make the schema of a field."""
    return {"type": type, "optional": optional, **more, "field": field}


def struct(fields: Sequence[Schema], name: str, *, optional: bool = False, version: int | None = 1) -> Schema:
    """Make the schema of a structure."""
    schema: Schema = {"type": "struct", "fields": list(fields), "optional": optional, "name": name}
    return schema if version is None else schema | {"version": version}


_SNAPSHOTS = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"

SOURCE = struct(
    [
        field("string", "version"),
        field("string", "connector"),
        field("string", "name"),
        field("int64", "ts_ms"),
        field(
            "string",
            "snapshot",
            optional=True,
            name="io.debezium.data.Enum",
            version=1,
            parameters={"allowed": _SNAPSHOTS},
            default="false",
        ),
        field("string", "db"),
        field("string", "sequence", optional=True),
        field("int64", "ts_us", optional=True),
        field("int64", "ts_ns", optional=True),
        field("string", "schema"),
        field("string", "table"),
        field("int64", "txId", optional=True),
        field("int64", "lsn", optional=True),
        field("int64", "xmin", optional=True),
        field("string", "origin", optional=True),
        field("int64", "origin_lsn", optional=True),
    ],
    "io.debezium.connector.postgresql.Source",
) | {"field": "source"}

PLACE = struct(
    [field("string", "id"), field("int64", "total_order"), field("int64", "data_collection_order")],
    "event.block",
    optional=True,
) | {"field": "transaction"}

TIMES = [field("int64", name, optional=True) for name in ("ts_ms", "ts_us", "ts_ns")]

TRANSACTION_KEY = struct([field("string", "id")], "io.debezium.connector.common.TransactionMetadataKey")
TRANSACTION = struct(
    [
        field("string", "status"),
        field("string", "id"),
        field("int64", "event_count", optional=True),
        {
            "type": "array",
            "items": struct(
                [field("string", "data_collection"), field("int64", "event_count")], "event.collection", optional=True
            ),
            "optional": True,
            "field": "data_collections",
        },
        field("int64", "ts_ms"),
    ],
    "io.debezium.connector.common.TransactionMetadataValue",
)

MESSAGE_KEY = struct([field("string", "prefix", optional=True)], "io.debezium.connector.postgresql.MessageKey")


def _array(items: Schema, name: str, *, optional: bool = False) -> Schema:
    return {"type": "array", "items": items, "optional": optional, "field": name}


_STRING: Schema = {"type": "string", "optional": False}

_COLUMN = struct(
    [
        field("string", "name"),
        field("int32", "jdbcType"),
        field("int32", "nativeType", optional=True),
        field("string", "typeName"),
        field("string", "typeExpression", optional=True),
        field("string", "charsetName", optional=True),
        field("int32", "length", optional=True),
        field("int32", "scale", optional=True),
        field("int32", "position"),
        field("boolean", "optional", optional=True),
        field("boolean", "autoIncremented", optional=True),
        field("boolean", "generated", optional=True),
        field("string", "comment", optional=True),
        field("string", "defaultValueExpression", optional=True),
        _array(_STRING, "enumValues", optional=True),
    ],
    "io.debezium.connector.schema.Column",
)
_TABLE = struct(
    [
        field("string", "defaultCharsetName", optional=True),
        _array(_STRING, "primaryKeyColumnNames", optional=True),
        _array(_COLUMN, "columns"),
        field("string", "comment", optional=True),
    ],
    "io.debezium.connector.schema.Table",
    optional=True,
)
_CHANGE = struct(
    [field("string", "type"), field("string", "id"), _TABLE | {"field": "table"}], "io.debezium.connector.schema.Change"
)

SCHEMA_CHANGE_KEY = struct([field("string", "databaseName")], "io.debezium.connector.postgresql.SchemaChangeKey")
SCHEMA_CHANGE = struct(
    [
        SOURCE,
        field("int64", "ts_ms"),
        field("string", "databaseName", optional=True),
        field("string", "schemaName", optional=True),
        field("string", "ddl", optional=True),
        _array(_CHANGE, "tableChanges"),
    ],
    "io.debezium.connector.postgresql.SchemaChangeValue",
)
