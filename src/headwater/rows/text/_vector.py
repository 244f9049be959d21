"""Kernels for array headers, and for the two vector types, which are arrays of one dimension printed without braces.

PostgreSQL: ``array.h``, ``arrayutils.c`` (ArrayGetNItems), ``int.c`` (int2vectorout), ``oid.c`` (oidvectorout).
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel
from headwater.rows._text_bytes import Bytes, Int, load_i16, load_i32, load_u32, no_room
from headwater.rows._text_codes import CORRUPT, NEED_SPACE
from headwater.rows.text._number import put_magnitude, write_int

ARRAY_HEADER = 12  # ndim, dataoffset, element type
MAX_DIMENSIONS = 6


@borrowing_kernel
def item_count(src: Bytes, start: Int, length: Int) -> Int:
    """Count the elements of an array, or CORRUPT (ArrayGetNItems).

    They are fewer than 8 a byte, or the NULL bitmap would not fit.
    """
    if start < 0 or length < ARRAY_HEADER:
        return CORRUPT
    dimensions = load_i32(src, start)
    if dimensions < 0 or dimensions > MAX_DIMENSIONS or ARRAY_HEADER + 8 * dimensions > length:
        return CORRUPT
    items = 0 if dimensions == 0 else 1
    for i in range(dimensions):
        size = load_i32(src, start + ARRAY_HEADER + 4 * i)
        if size < 0 or items > 8 * length:
            return CORRUPT
        items *= size
    return CORRUPT if items > 8 * length else items


@borrowing_kernel
def write_integer_vector(width: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write int2vector (`width` 2) or oidvector (4): numbers with blanks between (int2vectorout, oidvectorout)."""
    items = item_count(src, start, length)
    first = ARRAY_HEADER + 8
    if items < 0 or (items > 0 and load_i32(src, start) != 1) or first + width * items > length:
        return CORRUPT
    for item in range(items):
        if no_room(out, o, 24):
            return NEED_SPACE
        if item > 0:
            out[o] = 32
            o += 1
        at = start + first + width * item
        if width == 2:
            o = write_int(load_i16(src, at), out, o)
        else:
            o = put_magnitude(np.uint64(load_u32(src, at)), out, o)
    return o
