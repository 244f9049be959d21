"""Columns of DuckLake's tables: their rows in ``ducklake_column``, and what Arrow has for them.

A column is known by its number in the table, which files have with their columns (``PARQUET:field_id``), nested ones
too. A column that gets another type has another row of the same number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headwater.errors import LakeError

_FIELD_ID = b"PARQUET:field_id"
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_PLAIN: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "time": pa.time64("us"),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "varchar": pa.string(),
    "blob": pa.binary(),
    "uuid": pa.uuid(),
}
_NAMES = {type: name for name, type in _PLAIN.items()}
_LIST, _STRUCT = "list", "struct"


@dataclass(frozen=True)
class Column:
    """A row of ``ducklake_column``.

    Attributes:
        number: ``column_id``; parent: that of the column it lies in, None for none.
        name, type: DuckLake's.
    """

    number: int
    name: str
    type: str
    parent: int | None = None

    @property
    def is_nested(self) -> bool:
        """It has others in it."""
        return self.type in (_LIST, _STRUCT)


@dataclass
class NumberedColumns:
    """Columns that get the numbers that they have in a table, or the next ones.

    Args:
        known: the table's; next_number: which no column of the table has had.

    Attributes:
        columns: what they are, parents first.
    """

    known: Iterable[Column]
    next_number: int
    columns: list[Column] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers = {(column.parent, column.name): column.number for column in self.known}

    def add(self, schema: pa.Schema) -> pa.Schema:
        """Give the fields of a schema numbers; returns it with these.

        Raises:
            LakeError: DuckLake has no such type.
        """
        return pa.schema([self._numbered(own, None) for own in schema])

    def _numbered(self, own: pa.Field[Any], parent: int | None) -> pa.Field[Any]:
        number = self._numbers.get((parent, own.name))
        if number is None:
            number, self.next_number = self.next_number, self.next_number + 1
        self.columns.append(Column(number, own.name, type_name(own.type), parent))
        metadata = {**(own.metadata or {}), _FIELD_ID: str(number).encode()}
        return pa.field(own.name, self._inner(own.type, number), own.nullable, metadata)

    def _inner(self, type: pa.DataType, number: int) -> pa.DataType:
        if pa.types.is_list(type):
            return pa.list_(self._numbered(type.value_field, number))
        if pa.types.is_struct(type):
            return pa.struct([self._numbered(inner, number) for inner in type])
        return type


def type_name(type: pa.DataType) -> str:
    """Return DuckLake's name of a type.

    Raises:
        LakeError: it has none.
    """
    if pa.types.is_list(type):
        return _LIST
    if pa.types.is_struct(type):
        return _STRUCT
    if pa.types.is_decimal128(type):
        return f"decimal({type.precision},{type.scale})"
    if type not in _NAMES:
        raise LakeError(f"DuckLake has no type for {type}")
    return _NAMES[type]


def arrow_type(column: Column, columns: Sequence[Column]) -> pa.DataType:
    """Return the type of a column.

    Args:
        column: it; columns: all of the table, in their order.

    Raises:
        LakeError: none that is written here.
    """
    inner = [pa.field(own.name, arrow_type(own, columns)) for own in columns if own.parent == column.number]
    if column.type == _LIST and len(inner) == 1:
        return pa.list_(inner[0])
    if column.type == _STRUCT:
        return pa.struct(inner)
    if match := _DECIMAL.fullmatch(column.type):
        return pa.decimal128(int(match[1]), int(match[2]))
    if column.type not in _PLAIN:
        raise LakeError(
            f"column {column.name} is of DuckLake's type {column.type}, which is not written here",
            hint="land to another place",
        )
    return _PLAIN[column.type]
