"""Which values have an order, and which are compared as something else: those of keys, by which mirrors are kept."""

from __future__ import annotations

import pyarrow as pa


def has_place(type: pa.DataType) -> bool:
    """Whether values of a type have an order."""
    return type == pa.uuid() or not (pa.types.is_nested(type) or isinstance(type, pa.BaseExtensionType))


def comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as Arrow compares them."""
    if values.type == pa.uuid():
        return pa.chunked_array([chunk.storage for chunk in values.chunks], pa.binary(16))
    return values
