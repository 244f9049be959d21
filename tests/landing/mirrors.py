"""What a mirror holds, as the server says its table's rows."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
from deltalake import DeltaTable

from headwater.sinks.lake_schema import LakeSchema
from headwater.sinks.parquet_table import read_parquet_table

Rows = Counter[tuple[Any, ...]]


def read_table(place: Path, format: str) -> pa.Table:
    """A table in the lake, whole."""
    return read_parquet_table(place) if format == "parquet" else DeltaTable(str(place)).to_pyarrow_table()


def columns_by_number(place: Path, format: str) -> dict[int, str]:
    """The names in the lake of the source's columns."""
    schema = (
        read_parquet_table(place).schema
        if format == "parquet"
        else pa.schema(DeltaTable(str(place)).schema().to_arrow())
    )
    return {column.number: column.name for column in LakeSchema.of(schema).columns}


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
