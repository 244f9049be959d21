"""Values of Arrow's columns, and names of its codecs, with types that tests go on with."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import pyarrow as pa

Codec: TypeAlias = Literal["bz2", "gzip", "lz4", "zstd"]
"""A compression of whole files."""

Order: TypeAlias = list[tuple[str, Literal["ascending", "descending"]]]
"""Columns to sort rows by."""


def values_of(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> list[Any]:
    """Return the values of a column, whose type says nothing of them."""
    return column.to_pylist()
