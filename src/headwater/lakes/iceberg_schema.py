"""Columns of an Iceberg table as Arrow has them, and back: field ids, and which column of the source each one is.

Iceberg knows a column by the id of its field, which every file has with its columns (``PARQUET:field_id``), nested ones
too. Fields have no other metadata. So a property of the table says which column of the source a field is
(``LakeSchema``). It is set with the columns in one commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.errors import LakeError
from headwater.lakes.lake_schema import COLUMN_MARK

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

COLUMNS = "headwater.columns"
"""The property: an object of JSON, marks by the ids of fields."""


def without_marks(schema: pa.Schema) -> pa.Schema:
    """Return names and types alone, as pyiceberg takes columns whose ids it is to give."""
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def _plain(type: pa.DataType) -> pa.DataType:
    if pa.types.is_list(type):
        return pa.list_(pa.field("element", _plain(type.value_type)))
    if pa.types.is_struct(type):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in type])
    return type


def arrow_schema(schema: Schema, marks: Mapping[str, str]) -> pa.Schema:
    """Return a table's columns with the ids of their fields, and whose they are.

    Args:
        schema: Iceberg's.
        marks: by the ids of fields; none for columns that are not the source's.
    """
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    arrow = schema_to_pyarrow(schema)
    return pa.schema([_marked(field.with_type(_short(field.type)), marks) for field in arrow])


def _marked(field: pa.Field[Any], marks: Mapping[str, str]) -> pa.Field[Any]:
    mark = marks.get(_id(field))
    if mark is None:
        return field
    return field.with_metadata(dict([*(field.metadata or {}).items(), (COLUMN_MARK, mark.encode())]))


def _id(field: pa.Field[Any]) -> str:
    assert field.metadata is not None
    return str(field.metadata[b"PARQUET:field_id"].decode())


def _short(type: pa.DataType) -> pa.DataType:
    """Return a type with offsets of 32 bits; pyiceberg's have 64, which files do not tell apart."""
    if pa.types.is_large_string(type):
        return pa.string()
    if pa.types.is_large_binary(type):
        return pa.binary()
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return pa.list_(type.value_field.with_type(_short(type.value_type)))
    if pa.types.is_struct(type):
        return pa.struct([field.with_type(_short(field.type)) for field in type])
    return type


def marks_text(schema: pa.Schema, fields: Schema) -> str:
    """Return the property that says which columns of the source a table's are.

    Args:
        schema: columns that say whose they are; fields: the table's, with their ids.
    """
    ids = {field.name: field.field_id for field in fields.fields}
    marks = {field.name: (field.metadata or {}).get(COLUMN_MARK) for field in schema}
    return json.dumps({str(ids[name]): mark.decode() for name, mark in marks.items() if mark is not None})


def read_marks(text: str) -> dict[str, str]:
    """Read what :func:`marks_text` has written.

    Raises:
        LakeError: something else.
    """
    try:
        marks = json.loads(text)
        return {str(key): str(value) for key, value in marks.items()}
    except (ValueError, AttributeError) as error:
        raise LakeError(f"the property {COLUMNS} of the table is damaged: {error}") from None
