"""How values are encoded in the Parquet files of the lake.

Numbers and moments are written as differences (DELTA_BINARY_PACKED), decimals of up to 18 digits as integers, which is
what Iceberg asks for: places in the log, keys and times take next to nothing so, and half of the time. Strings have
dictionaries, which Arrow gives up where they do not pay. Spark (3.3), DuckDB, Arrow and Trino read all of it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

COMPRESSION = "zstd"
_DIGITS_OF_INTEGERS = 18


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
