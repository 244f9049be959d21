"""Kernels: values out of line, as tuples on pages name them and as the chunks of a TOAST table have them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel
from headwater.rmgr.heap_layout import HOFF_AT, UNLOGGED_SIZE
from headwater.rows._copy import read_u32
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.tuples._deform import DROPPED, EXTERNAL, has_value, next_attribute, tuple_header
from headwater.rows.tuples._toast import chunk_row

Int64s = NDArray[np.int64]

SEQUENCE_BITS = 21
"""A value of 1 GB has fewer chunks: their key is the value's id and, in so many bits, their place in it."""

_SIZE_AT, _VALUE_AT = 4, 8
_SIZE_MASK = 0x3FFFFFFF


@borrowing_kernel
def chunk_keys(data: Bytes, at: Int64s, length: Int64s, keys: Int64s) -> Int:
    """Compute the keys of chunk rows, n of them.

    Args:
        data: uint8[]; at, length: int64[n] where each lies, from its ``xl_heap_header`` on.
        keys: int64[n] gets them.

    Returns:
        -1, or the number of a row that no server would have written.
    """
    for i in range(len(at)):
        value, sequence, start, _ = chunk_row(data, at[i], length[i])
        if start < 0 or sequence < 0 or sequence >> SEQUENCE_BITS:
            return np.int64(i)
        keys[i] = value << SEQUENCE_BITS | sequence
    return np.int64(-1)


@borrowing_kernel
def external_values(data: Bytes, at: Int64s, length: Int64s, columns: Int64s, values: Int64s, sizes: Int64s) -> Int:
    """Find the values out of line that each of n tuples of a table has.

    Args:
        data: uint8[]; at, length: int64[n] as above.
        columns: int64[c, COLUMN_FIELDS] the table's columns.
        values: int64[n, c] gets the ids of values, -1 for none; those of dropped columns are nobody's.
        sizes: int64[n] gets the bytes that they are stored in.

    Returns:
        -1, or the number of a malformed tuple.
    """
    for i in range(len(at)):
        sizes[i] = 0
        bitmap, stored = tuple_header(data, at[i], length[i])
        if bitmap < 0:
            return np.int64(i)
        end, origin = at[i] + length[i], at[i] - UNLOGGED_SIZE + np.int64(data[at[i] + HOFF_AT])
        off = origin
        for column in range(len(columns)):
            values[i, column] = -1
            if column >= stored or not has_value(data, at[i], bitmap, column):
                continue
            kind, start, _, off = next_attribute(data, columns, column, origin, off, end)
            if off > end or kind < 0:
                return np.int64(i)
            if kind == EXTERNAL and not columns[column, DROPPED]:
                values[i, column] = read_u32(data, start + _VALUE_AT)
                sizes[i] += read_u32(data, start + _SIZE_AT) & _SIZE_MASK
    return np.int64(-1)
