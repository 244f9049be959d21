"""Columns of arrays and ranges, taken apart: where the payloads of parts lie (``text/_parts.py`` has the forms)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel
from headwater.rows._compression import decompress, raw_size
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows._text_codes import CORRUPT
from headwater.rows.columns._stored_columns import Spans
from headwater.rows.text._parts import MISSING_PART, NO_PART, PACKED_PART, next_part, open_parts
from headwater.rows.text_tables import TextTables


@borrowing_kernel
def count_parts(tables: TextTables, values: Spans, counts: NDArray[np.int64]) -> Int:
    """Count the parts of values of the tables' first type; their sum, or CORRUPT."""
    total = np.int64(0)
    for i in range(len(counts)):
        items, _ = open_parts(tables, 0, np.int64(tables.code[0]), values.data, values.start[i], values.length[i])
        if items < 0:
            return CORRUPT
        counts[i] = items
        total += items
    return total


@borrowing_kernel
def find_parts(
    tables: TextTables,
    values: Spans,
    kinds: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> Int:
    """Find the kind (NO_PART ... MISSING_PART), place and length of each part; how many there are, or CORRUPT.

    Only in composites are parts packed, or missing: then their place is in the tables' missing values.
    """
    part = 0
    code = np.int64(tables.code[0])
    for i in range(len(values.start)):
        start, length = values.start[i], values.length[i]
        items, at = open_parts(tables, 0, code, values.data, start, length)
        if items < 0 or part + items > len(kinds):
            return CORRUPT
        for item in range(items):
            kind, payload, size, at = next_part(tables, 0, code, values.data, start, length, item, at)
            if kind < NO_PART or kind > MISSING_PART:
                return CORRUPT
            kinds[part], starts[part], lengths[part] = kind, payload, size
            part += 1
    return part


@borrowing_kernel
def unpacked_size(data: Bytes, kinds: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Int:
    """Count the bytes that the packed ones of some parts have when they are decompressed, together; or CORRUPT."""
    total = np.int64(0)
    for i in range(len(kinds)):
        if kinds[i] == PACKED_PART:
            size = raw_size(data, starts[i], lengths[i])
            if size < 0:
                return CORRUPT
            total += size
    return total


@borrowing_kernel
def unpack_parts(
    data: Bytes, kinds: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], out: Bytes, o: Int
) -> Int:
    """Decompress parts, which then lie in `out` from `o` on; where they end, or CORRUPT."""
    for i in range(len(kinds)):
        if kinds[i] == PACKED_PART:
            end = decompress(data, starts[i], lengths[i], out, o)
            if end < 0:
                return CORRUPT
            starts[i], lengths[i], o = o, end - o, end
    return o
