"""Rows as numbers: two rows get the same number if, and only if, they are equal, column by column.

Equal is what is stored the same way: -0 is not 0, one NaN is another, null equals null, and lists and structs are equal
where all that is in them is. That is how the WAL tells old rows: an update of which a single bit of the key changed has
logged the old key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.base.arrow_buffers import large_binary_array

Codes = NDArray[np.int64]


def row_codes(columns: Sequence[pa.ChunkedArray[Any]], rows: int, *, are_dense: bool = True) -> Codes:
    """Return int64[rows] a number for each row, dense from 0 on where columns differ at all.

    Args:
        columns: of equal length; none makes all rows equal.
        rows: how many.
        are_dense: else any numbers will do: integers are their own.
    """
    if not are_dense and len(columns) == 1 and pa.types.is_integer(columns[0].type) and not columns[0].null_count:
        numbers: Codes = columns[0].to_numpy().astype(np.int64, copy=False)
        return numbers
    codes = np.zeros(rows, np.int64)
    for column in columns:
        codes = _joined(codes, value_codes(column))
    return codes


def value_codes(values: pa.Array[Any] | pa.ChunkedArray[Any]) -> Codes:
    """Return int64[n] a number for each value of one column."""
    array = _whole(values)
    if isinstance(array, pa.ExtensionArray):
        return value_codes(array.storage)
    if pa.types.is_floating(array.type):
        return _dictionary_codes(_bits(array))
    if isinstance(array, pa.StructArray):
        return _masked(array, row_codes([pa.chunked_array([part]) for part in array.flatten()], len(array)))
    if pa.types.is_list(array.type):
        return _list_codes(cast("pa.ListArray[Any]", array))
    return _dictionary_codes(array)


def _whole(values: pa.Array[Any] | pa.ChunkedArray[Any]) -> pa.Array[Any]:
    if not isinstance(values, pa.ChunkedArray):
        return values
    if not values.num_chunks:
        nothing: pa.Array[Any] = pa.nulls(0, values.type)
        return nothing
    return values.chunks[0] if values.num_chunks == 1 else pa.concat_arrays(values.chunks)


def _bits(array: pa.Array[Any]) -> pa.Array[Any]:
    """Return floating-point numbers as the integers of their bits."""
    return array.view(pa.int64() if array.type == pa.float64() else pa.int32())


def _dictionary_codes(array: pa.Array[Any]) -> Codes:
    codes: Codes = array.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    return codes


def _list_codes(array: pa.ListArray[Any]) -> Codes:
    """Take a list for the bytes of the codes of its elements."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    elements = value_codes(array.values.slice(offsets[0], offsets[-1] - offsets[0]))
    places, content = (offsets - offsets[0]) * 8, np.ascontiguousarray(elements).view(np.uint8)
    return _masked(array, _dictionary_codes(large_binary_array(places, content)))


def _masked(array: pa.Array[Any], codes: Codes) -> Codes:
    """Return nulls apart from what lies below them."""
    if not array.null_count:
        return codes
    masked: Codes = np.where(array.is_null().to_numpy(zero_copy_only=False), np.int64(-1), codes)
    return masked


def _joined(first: Codes, second: Codes) -> Codes:
    """Return codes of pairs, dense again."""
    if not len(first):
        return first
    low = second - second.min()
    if not first.any():
        return np.asarray(low, np.int64)
    _, codes = np.unique(first * (int(low.max()) + 1) + low, return_inverse=True)
    joined: Codes = codes.astype(np.int64)
    return joined
