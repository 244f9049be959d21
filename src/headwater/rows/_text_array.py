"""Kernels for arrays (PostgreSQL: ``arrayfuncs.c`` array_out, ``array.h`` layout).

After the varlena header an array holds: ndim, dataoffset (0 without NULLs), element type OID, a length for each
dimension, a lower bound for each, the NULL bitmap (a bit is set for a value that is there), and from dataoffset on the
elements in row-major order, each aligned as its type asks. Offsets count from the datum's start, 4 bytes before the
payload. Where the elements are of a domain over an array, each is such a datum itself, and its text is quoted as any
other: how deep that goes the tables say, never the bytes.
"""

from __future__ import annotations

import numpy as np

from headwater.kernels import borrowing_kernel
from headwater.rows._text_bytes import Bytes, Int, load_i32, load_u32, no_room
from headwater.rows._text_codes import CODE_ARRAY, CORRUPT, NEED_SPACE
from headwater.rows._text_number import write_int
from headwater.rows._text_scalar import scalar_text
from headwater.rows._text_vector import ARRAY_HEADER, item_count
from headwater.rows.text_tables import TextTables

VARLENA = 4  # bytes between the datum's start and the payload's


@borrowing_kernel
def _write_bounds(src: Bytes, start: Int, dimensions: Int, out: Bytes, o: Int) -> Int:
    """``[low:high]...=`` if any lower bound is not 1."""
    plain = True
    for i in range(dimensions):
        plain = plain and load_i32(src, start + ARRAY_HEADER + 4 * (dimensions + i)) == 1
    if plain:
        return o
    if no_room(out, o, 24 * dimensions + 40):
        return NEED_SPACE
    for i in range(dimensions):
        low = load_i32(src, start + ARRAY_HEADER + 4 * (dimensions + i))
        out[o] = 91
        o = write_int(low, out, o + 1)
        out[o] = 58
        o = write_int(low + load_i32(src, start + ARRAY_HEADER + 4 * i) - 1, out, o + 1)
        out[o] = 93
        o += 1
    out[o] = 61
    return o + 1


@borrowing_kernel
def _quote(out: Bytes, o: Int, end: Int, delimiter: Int) -> Int:
    """Quote an element's text ``out[o:end]`` in place if array_in would not read it back; returns the new end."""
    size = end - o
    escapes = 0
    if o < 0:
        return o
    needs = size == 0
    if size == 4:
        needs = out[o] | 32 == 110 and out[o + 1] | 32 == 117 and out[o + 2] | 32 == 108 and out[o + 3] | 32 == 108
    for i in range(o, end):
        byte = np.int64(out[i])
        if byte == 34 or byte == 92:
            escapes += 1
        elif byte == 123 or byte == 125 or byte == delimiter or byte == 32 or 9 <= byte <= 13:
            needs = True
    if not needs and escapes == 0:
        return end
    if o < 0 or end < o or end + escapes + 2 > len(out):
        return NEED_SPACE
    to = end + escapes + 1
    out[to] = 34
    for i in range(end - 1, o - 1, -1):
        byte = np.int64(out[i])
        to -= 1
        out[to] = byte
        if byte == 34 or byte == 92:
            to -= 1
            out[to] = 92
    out[o] = 34
    return end + escapes + 2


@borrowing_kernel
def _element_span(src: Bytes, at: Int, end: Int, size: Int) -> tuple[Int, Int]:
    """Payload and length of the element at `at`; length is negative if it does not fit."""
    if size > 0:
        return at, size if at + size <= end else CORRUPT
    if at >= end:
        return at, CORRUPT
    if src[at] & 1:
        total, header = np.int64(src[at]) >> 1, 1
    else:
        if at + 4 > end or src[at] & 2:
            return at, CORRUPT
        total, header = load_u32(src, at) >> 2, 4
    if total < header or at + total > end:
        return at, CORRUPT
    return at + header, total - header


@borrowing_kernel
def _put_braces(src: Bytes, start: Int, dimensions: Int, item: Int, brace: Int, out: Bytes, o: Int) -> Int:
    """The inner braces that open before item number `item`, or (with item + 1) close after it. Room: 6."""
    stride = 1
    for i in range(dimensions - 1, 0, -1):
        stride *= load_i32(src, start + ARRAY_HEADER + 4 * i)
        if item % stride != 0:
            break
        out[o] = brace
        o += 1
    return o


@borrowing_kernel
def write_array(tables: TextTables, column: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Text of an array: bounds if unusual, braces, delimiters, quotes where needed (array_out)."""
    items = item_count(src, start, length)
    if items < 0:
        return CORRUPT
    if no_room(out, o, 2):
        return NEED_SPACE
    dimensions, data_offset = load_i32(src, start), load_i32(src, start + 4)
    bitmap = ARRAY_HEADER + 8 * dimensions
    first = bitmap + VARLENA + 7 & -8 if data_offset == 0 else data_offset
    if data_offset != 0 and (data_offset < bitmap + VARLENA + (items + 7) // 8 or data_offset - VARLENA > length):
        return CORRUPT
    code, size = tables.element_code[column], tables.element_len[column]
    align, delimiter = tables.element_align[column], np.int64(tables.delimiter[column])
    if items > 0:
        o = _write_bounds(src, start, dimensions, out, o)
    if no_room(out, o, 1):
        return NEED_SPACE
    out[o] = 123
    o += 1
    at, base, end = first, start - VARLENA, start + length
    for item in range(items):
        if no_room(out, o, 8):
            return NEED_SPACE
        if item > 0:
            out[o] = delimiter
            o += 1
        o = _put_braces(src, start, dimensions, item, np.int64(123), out, o)
        if data_offset != 0 and not src[start + bitmap + (item >> 3)] >> (item & 7) & 1:
            if no_room(out, o, 4):
                return NEED_SPACE
            out[o], out[o + 1], out[o + 2], out[o + 3] = 78, 85, 76, 76
            o += 4
        else:
            at = at + align - 1 & -align
            payload, payload_length = _element_span(src, base + at, end, size)
            if payload_length < 0:
                return CORRUPT
            if code == CODE_ARRAY:
                inner = np.int64(tables.element_column[column])
                after = write_array(tables, inner, src, payload, payload_length, out, o)
            else:
                after = scalar_text(tables, column, code, src, payload, payload_length, out, o)
            if after < 0:
                return after
            o = _quote(out, o, after, delimiter)
            at = payload + payload_length - base
        if no_room(out, o, 8):
            return NEED_SPACE
        o = _put_braces(src, start, dimensions, item + 1, np.int64(125), out, o)
    if no_room(out, o, 1):
        return NEED_SPACE
    out[o] = 125
    return o + 1
