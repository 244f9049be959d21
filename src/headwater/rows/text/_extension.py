"""Kernels for types of extensions that users meet.

hstore (``contrib/hstore/hstore_io.c``), ltree (``contrib/ltree/ltree_io.c``), cube (``contrib/cube/cube.c``), and
pgvector's vector, halfvec and sparsevec (``vector.c``, ``halfvec.c``, ``sparsevec.c`` of that project). Numbers inside
are printed as the server prints float4 and float8; those of pgvector always in their shortest form.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import (
    BACKSLASH,
    Bytes,
    Int,
    load_i32,
    load_u16,
    load_u32,
    no_room,
    store_u32,
    write_quoted,
    write_verbatim,
)
from headwater.rows._text_codes import CORRUPT, NEED_SPACE
from headwater.rows.text._float import MAX_FLOAT_TEXT, write_float4, write_float8
from headwater.rows.text._number import MAX_INT_TEXT, write_int

_DOUBLE_QUOTE = 34
HSTORE_IS_NEW, HSTORE_COUNT = 0x80000000, 0x0FFFFFFF
ENTRY_IS_FIRST, ENTRY_IS_NULL, ENTRY_END = 0x80000000, 0x40000000, 0x3FFFFFFF
CUBE_IS_POINT, CUBE_DIMENSIONS = 0x80000000, 0x7FFFFFFF
VECTOR_HEADER, SPARSE_HEADER = 4, 12


@borrowing_kernel
def write_hstore(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write ``"key"=>"value", "other"=>NULL`` (hstore_out); the form of before 9.0 is not read."""
    if start < 0 or length < 4:
        return CORRUPT
    head = load_u32(src, start)
    count, entries = head & HSTORE_COUNT, start + 4
    text, before = entries + 8 * count, np.int64(0)
    if head & HSTORE_IS_NEW == 0 or text > start + length:
        return CORRUPT
    for i in range(2 * count):
        entry = load_u32(src, entries + 4 * i)
        begin, after = 0 if entry & ENTRY_IS_FIRST else before, entry & ENTRY_END
        if after < begin or text + after > start + length:
            return CORRUPT
        before = after
        if no_room(out, o, 4):
            return NEED_SPACE
        if i & 1:
            out[o], out[o + 1] = 61, 62
            o += 2
        elif i > 0:
            out[o], out[o + 1] = 44, 32
            o += 2
        if i & 1 and entry & ENTRY_IS_NULL:
            if no_room(out, o, 4):
                return NEED_SPACE
            out[o], out[o + 1], out[o + 2], out[o + 3] = 78, 85, 76, 76
            o += 4
        else:
            o = write_quoted(src, text + begin, text + after, _DOUBLE_QUOTE, BACKSLASH, out, o)
            if o < 0:
                return o
    return o


@borrowing_kernel
def write_ltree(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write labels with dots between (ltree_out)."""
    if start < 0 or length < 4:
        return CORRUPT
    at, end = start + 4, start + length
    for level in range(load_u16(src, start)):
        if at + 2 > end:
            return CORRUPT
        size = load_u16(src, at)
        if at + 2 + size > end:
            return CORRUPT
        if no_room(out, o, 1):
            return NEED_SPACE
        if level > 0:
            out[o] = 46
            o += 1
        o = write_verbatim(src, at + 2, size, out, o)
        if o < 0:
            return o
        at += size + 2 + 7 & -8
    return o


@borrowing_kernel
def _is_point(src: Bytes, low: Int, dimensions: Int) -> bool:
    """Tell whether both corners are the same, as numbers: NaN is no number, and both zeros are one."""
    for i in range(dimensions):
        a, b = low + 8 * i, low + 8 * (dimensions + i)
        same, is_zero, is_nan = True, True, False
        for k in range(0, 8, 4):
            x, y = load_u32(src, a + k), load_u32(src, b + k)
            same = same and x == y
            mask = 0x7FFFFFFF if k else 0xFFFFFFFF
            is_zero = is_zero and x & mask == 0 and y & mask == 0
        high = load_u32(src, a + 4) & 0x7FFFFFFF
        is_nan = high > 0x7FF00000 or (high == 0x7FF00000 and load_u32(src, a) != 0)
        if is_nan or not (same or is_zero):
            return False
    return True


@borrowing_kernel
def _write_corner(src: Bytes, at: Int, dimensions: Int, digits: Int, out: Bytes, o: Int) -> Int:
    if no_room(out, o, 1):
        return NEED_SPACE
    out[o] = 40
    o += 1
    for i in range(dimensions):
        if no_room(out, o, MAX_FLOAT_TEXT + 4):
            return NEED_SPACE
        if i > 0:
            out[o], out[o + 1] = 44, 32
            o += 2
        o = write_float8(src, at + 8 * i, np.int64(8), digits, out, o)
        if o < 0:
            return o
    if no_room(out, o, 2):
        return NEED_SPACE
    out[o] = 41
    return o + 1


@borrowing_kernel
def write_cube(src: Bytes, start: Int, length: Int, digits: Int, out: Bytes, o: Int) -> Int:
    """Write one corner, or two if they differ (cube_out); `digits` as of ``write_float8``."""
    if start < 0 or length < 4:
        return CORRUPT
    head = load_u32(src, start)
    dimensions, corners = head & CUBE_DIMENSIONS, 1 if head & CUBE_IS_POINT else 2
    if 4 + 8 * dimensions * corners > length:
        return CORRUPT
    o = _write_corner(src, start + 4, dimensions, digits, out, o)
    if o < 0 or corners == 1 or _is_point(src, start + 4, dimensions):
        return o
    out[o] = 44
    return _write_corner(src, start + 4 + 8 * dimensions, dimensions, digits, out, o + 1)


@inline_kernel
def _single_of_half(half: Int) -> Int:
    """Return the bits of a single that is the same number as a half."""
    sign, exponent, fraction = (half & 0x8000) << 16, half >> 10 & 31, half & 0x3FF
    if exponent == 31:
        return sign | 0x7F800000 | fraction << 13
    if exponent == 0:
        if fraction == 0:
            return sign
        exponent = 1
        while fraction & 0x400 == 0:
            fraction <<= 1
            exponent -= 1
        fraction &= 0x3FF
    return sign | exponent + 112 << 23 | fraction << 13


@borrowing_kernel
def write_vector(size: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write ``[1,2.5]`` of singles (`size` 4, vector_out) or halves (2, halfvec_out)."""
    if start < 0 or length < VECTOR_HEADER:
        return CORRUPT
    count = load_u16(src, start)
    if VECTOR_HEADER + size * count > length:
        return CORRUPT
    if no_room(out, o, 2):
        return NEED_SPACE
    out[o] = 91
    o += 1
    for i in range(count):
        if no_room(out, o, MAX_FLOAT_TEXT + 6):
            return NEED_SPACE
        if i > 0:
            out[o] = 44
            o += 1
        at = start + VECTOR_HEADER + size * i
        if size == 4:
            o = write_float4(src, at, size, np.int64(0), out, o)
        else:
            # The number's four bytes lie in the last ones of the room meanwhile.
            store_u32(_single_of_half(load_u16(src, at)), out, len(out) - 4)
            o = write_float4(out, np.int64(len(out) - 4), np.int64(4), np.int64(0), out[: len(out) - 4], o)
        if o < 0:
            return o
    if no_room(out, o, 1):
        return NEED_SPACE
    out[o] = 93
    return o + 1


@borrowing_kernel
def write_sparsevec(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write ``{1:2.5,7:1}/10``: indices, from 1, and values that are not zero, and the dimensions (sparsevec_out)."""
    if start < 0 or length < SPARSE_HEADER:
        return CORRUPT
    dimensions, count = load_i32(src, start), load_i32(src, start + 4)
    if count < 0 or SPARSE_HEADER + 8 * count > length:
        return CORRUPT
    if no_room(out, o, 1):
        return NEED_SPACE
    out[o] = 123
    o += 1
    for i in range(count):
        if no_room(out, o, MAX_FLOAT_TEXT + MAX_INT_TEXT + 4):
            return NEED_SPACE
        if i > 0:
            out[o] = 44
            o += 1
        o = write_int(load_i32(src, start + SPARSE_HEADER + 4 * i) + 1, out, o)
        out[o] = 58
        o = write_float4(src, start + SPARSE_HEADER + 4 * (count + i), np.int64(4), np.int64(0), out, o + 1)
        if o < 0:
            return o
    if no_room(out, o, MAX_INT_TEXT + 2):
        return NEED_SPACE
    out[o], out[o + 1] = 125, 47
    return write_int(dimensions, out, o + 2)
