"""What a mirror holds, as the server says its table's rows."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
from deltalake import DeltaTable

from headwater.sinks.iceberg_catalog import own_catalog
from headwater.sinks.iceberg_schema import COLUMNS, arrow_schema, read_marks
from headwater.sinks.lake_schema import LakeSchema
from headwater.sinks.parquet_table import read_parquet_table

Rows = Counter[tuple[Any, ...]]


def read_table(place: Path, format: str, version: int | None = None) -> pa.Table:
    """A table in the lake, whole; as of a version, or now."""
    if format == "parquet":
        return read_parquet_table(place, version)
    if format == "delta":
        return DeltaTable(str(place), version=version).to_pyarrow_table()
    with closing(own_catalog(place.parent)) as catalog:
        return catalog.load_table(_identifier(place)).scan(snapshot_id=version).to_arrow()


def _identifier(place: Path) -> tuple[str, ...]:
    return tuple(place.name.split(".", 1))


def columns_by_number(place: Path, format: str) -> dict[int, str]:
    """The names in the lake of the source's columns."""
    return {column.number: column.name for column in LakeSchema.of(_schema(place, format)).columns}


def _schema(place: Path, format: str) -> pa.Schema:
    if format == "parquet":
        return read_parquet_table(place).schema
    if format == "delta":
        return pa.schema(DeltaTable(str(place)).schema().to_arrow())
    with closing(own_catalog(place.parent)) as catalog:
        table = catalog.load_table(_identifier(place))
        return arrow_schema(table.schema(), read_marks(table.properties[COLUMNS]))


def mirror_rows(rows: pa.Table, names: list[str]) -> Rows:
    """Rows of a mirror, by these columns."""
    return plain(tuple(row[name] for name in names) for row in rows.select(list(dict.fromkeys(names))).to_pylist())


def server_rows(connection: Any, table: str) -> tuple[list[int], Rows]:
    """A table's columns, by their numbers, and its rows."""
    found = connection.execute(
        f"SELECT attnum, attname FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 "
        "AND NOT attisdropped ORDER BY attnum"
    ).fetchall()
    columns = ", ".join(f'"{name}"' for _, name in found)
    return [number for number, _ in found], plain(connection.execute(f"SELECT {columns} FROM {table}").fetchall())


def plain(rows: Any) -> Rows:
    """Rows that can be compared."""
    return Counter(tuple(map(_plain, row)) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return repr(value) if isinstance(value, float) else value
