"""Parquet files as the lake gets them: how values are encoded, and that a file is on the disk when it is said to be.

Numbers and moments are written as differences (DELTA_BINARY_PACKED), decimals of up to 18 digits as integers, which is
what Iceberg asks for: places in the log, keys and times take next to nothing so, and half of the time. Strings have
dictionaries, which Arrow gives up where they do not pay. All of it is in Parquet's format 2, which Spark (3.3), DuckDB,
Arrow and Trino read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

COMPRESSION = "zstd"
_DIGITS_OF_INTEGERS = 18


def write_parquet(rows: pa.Table, path: str) -> int:
    """Write rows into a new file; it is on the disk then.

    Args:
        rows: them.
        path: of a file that there is not yet.

    Returns:
        its size in bytes.

    Raises:
        OSError: it cannot be written, or is there.
    """
    return write_batches([rows], rows.schema, path)[1]


def write_batches(batches: Iterable[pa.Table], schema: pa.Schema, path: str) -> tuple[int, int]:
    """The same of rows that come one batch after the other, each in row groups of its own.

    Args:
        batches: of the columns of ``schema``.
        schema: them.
        path: of a file that there is not yet.

    Returns:
        how many rows, and the file's size in bytes.

    Raises:
        OSError: it cannot be written, or is there.
    """
    count = 0
    with open(path, "xb") as sink:
        with pq.ParquetWriter(sink, schema, **parquet_options(schema)) as writer:
            for batch in batches:
                writer.write_table(batch)
                count += batch.num_rows
        sink.flush()
        os.fsync(sink.fileno())
        return count, sink.tell()


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """What pyarrow's writers are told about files of these columns."""
    by_differences = [field.name for field in schema if _has_differences(field.type)]
    return {
        "compression": COMPRESSION,
        "store_decimal_as_integer": True,
        "column_encoding": dict.fromkeys(by_differences, "DELTA_BINARY_PACKED"),
        "use_dictionary": [field.name for field in schema if field.name not in by_differences],
    }


def _has_differences(type: pa.DataType) -> bool:
    """Whether values are integers in a file."""
    if pa.types.is_decimal128(type):
        return bool(type.precision <= _DIGITS_OF_INTEGERS)
    return bool(pa.types.is_signed_integer(type) or pa.types.is_temporal(type)) and not pa.types.is_interval(type)
