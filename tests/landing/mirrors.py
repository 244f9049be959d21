"""The rows that a mirror holds, and those of its table on the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
from deltalake import DeltaTable

from headwater.lakes.iceberg_catalog import CATALOG_FILE, own_catalog
from headwater.lakes.iceberg_schema import COLUMNS, arrow_schema, read_marks
from headwater.lakes.lake_schema import LakeSchema
from headwater.lakes.parquet_table import read_parquet_table
from landing.ducklake_lakes import files_of, has_table, read_ducklake, schema_of

Rows = Counter[tuple[Any, ...]]


def read_table(place: Path, format: str, version: int | None = None) -> pa.Table:
    """Read a table in the lake, whole; as of a version, or now."""
    if format == "parquet":
        return read_parquet_table(place, version)
    if format == "delta":
        table = DeltaTable(str(place), version=version)
        return pa.table(table.scan()).cast(pa.schema(table.schema().to_arrow()))  # type: ignore[arg-type]
    if format == "ducklake":
        return read_ducklake(place, version)
    with closing(own_catalog(place.parent)) as catalog:
        return catalog.load_table(_identifier(place)).scan(snapshot_id=version).to_arrow()


def has_landed(place: Path, format: str) -> bool:
    """Tell whether there is a table in the lake."""
    if format == "delta":
        return any((place / "_delta_log").glob("*.json"))
    if format == "parquet":
        return any((place / "_headwater").glob("*.json"))
    if format == "ducklake":
        return has_table(place)
    if not (place.parent / CATALOG_FILE).exists():
        return False
    with closing(own_catalog(place.parent)) as catalog:
        return catalog.table_exists(_identifier(place))


def _identifier(place: Path) -> tuple[str, ...]:
    return tuple(place.name.split(".", 1))


def columns_by_number(place: Path, format: str, among: Container[str] | None = None) -> dict[int, str]:
    """Return the names in the lake of the source's columns, as a version of the table has them that has only some."""
    return {number: names[-1] for number, names in all_columns_by_number(place, format, among).items()}


def all_columns_by_number(place: Path, format: str, among: Container[str] | None = None) -> dict[int, list[str]]:
    """Return the same, of a column whose type has changed all the names that it has had, in their order."""
    names: dict[int, list[str]] = {}
    for column in LakeSchema.of(_schema(place, format)).columns:
        if among is None or column.name in among:
            names.setdefault(column.number, []).append(column.name)
    return names


def _schema(place: Path, format: str) -> pa.Schema:
    if format == "parquet":
        return read_parquet_table(place).schema
    if format == "delta":
        return pa.schema(DeltaTable(str(place)).schema().to_arrow())  # type: ignore[arg-type]  # of Arrow's C interface
    if format == "ducklake":
        return schema_of(place)
    with closing(own_catalog(place.parent)) as catalog:
        table = catalog.load_table(_identifier(place))
        return arrow_schema(table.schema(), read_marks(table.properties[COLUMNS]))


def mirror_rows(rows: pa.Table, names: list[str]) -> Rows:
    """Return the rows of a mirror, by these columns."""
    return plain(tuple(row[name] for name in names) for row in rows.select(list(dict.fromkeys(names))).to_pylist())


def server_rows(connection: Any, table: str) -> tuple[list[int], Rows]:
    """Read a table's columns, by their numbers, and its rows."""
    held = held_columns(connection, table)
    columns = ", ".join(column.expression for column in held)
    return [column.number for column in held], plain(
        connection.execute(f"SELECT {columns} FROM {table}", prepare=False).fetchall()
    )


@dataclass(frozen=True)
class HeldColumn:
    """A column whose values are stored.

    Attributes:
        number, name: its own; type: its name, with the modifier.
        expression: its values in a form that Python has as the lake does.
    """

    number: int
    name: str
    type: str
    expression: str


def held_columns(connection: Any, table: str) -> list[HeldColumn]:
    """Read the columns of a table, in the order of their numbers."""
    rows = connection.execute(
        "SELECT attnum, attname, format_type(atttypid, atttypmod), typtype::text FROM pg_attribute "
        f"JOIN pg_type t ON t.oid = atttypid WHERE attrelid = '{table}'::regclass AND attnum > 0 "
        "AND NOT attisdropped AND attgenerated::text <> 'v' ORDER BY attnum"
    ).fetchall()
    return [HeldColumn(number, name, type, _expression(name, type, kind)) for number, name, type, kind in rows]


_AS_TEXT = ("jsonb", "inet", "bit", "character(")
_RANGE = (
    "json_build_object('lower', lower({0}), 'upper', upper({0}), 'lower_inc', lower_inc({0}), "
    "'upper_inc', upper_inc({0}), 'isempty', isempty({0}))"
)
_INTERVAL = (
    "json_build_object('months', extract(year FROM {0}) * 12 + extract(month FROM {0}), 'days', extract(day FROM {0}), "
    "'microseconds', (extract(epoch FROM {0} - date_trunc('day', {0})) * 1000000)::bigint)"
)


def _expression(name: str, type: str, kind: str) -> str:
    quoted = f'"{name}"'
    if kind == "r":
        form = _RANGE
    elif kind == "c":
        form = "row_to_json({0})"
    elif type == "interval":
        form = _INTERVAL
    elif type.startswith(_AS_TEXT):
        form = "format('%%s', {0})"
    elif type == "real":
        form = "{0}::float8"
    elif type.startswith("numeric("):  # a decimal of the lake has no NaN: it lands as null, where anything does
        form = "nullif({0}, 'NaN')"
    else:
        return quoted
    return f"CASE WHEN num_nonnulls({quoted}) = 1 THEN {form.replace('%%', '%').format(quoted)} END"


def plain(rows: Any) -> Rows:
    """Make rows comparable."""
    return Counter(tuple(map(_plain, row)) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return tuple(map(_plain, value.values()))
    return repr(value) if isinstance(value, float) else value


def current_files(place: Path, format: str) -> list[str]:
    """List the files that a table consists of."""
    if format == "delta":
        return DeltaTable(str(place)).file_uris()
    if format == "ducklake":
        return files_of(place)
    if format == "iceberg":
        with closing(own_catalog(place.parent)) as catalog:
            return [task.file.file_path for task in catalog.load_table(_identifier(place)).scan().plan_files()]
    return [str(path) for path in place.glob("*.parquet")]
