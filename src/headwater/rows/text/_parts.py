"""Values made of other values, taken apart: arrays, composites, ranges, multiranges; and their punctuation.

PostgreSQL: ``arrayfuncs.c`` (array_out) and ``array.h``, ``rowtypes.c`` (record_out) and ``htup_details.h``,
``rangetypes.c`` (range_out) and ``multirangetypes.c`` (multirange_out). All offsets inside such a value count from its
datum's start, VARLENA bytes before the payload, and so does alignment.

An array holds: ndim, dataoffset (0 without NULLs), element type OID, a length for each dimension, a lower bound for
each. Then come the NULL bitmap (a bit is set for a value that is there), and from dataoffset on the elements in
row-major order. A composite is a heap tuple with its own header, whose first words are the datum's length, typmod and
type. A range is its type's OID, the bounds that it has, and a byte of flags. A multirange is its type's OID, a count,
an offset or length of each range but the first, their flags, and all bounds.

A part is described by its kind (NO_PART ... PACKED_PART), its payload's offset in `src` and length, and the offset
where the next part is looked for.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.catalog.pages import HEAP_HASNULL, HEAP_NATTS_MASK
from headwater.rows._compression import decompress, raw_size
from headwater.rows._text_bytes import Bytes, Int, load_i32, load_u16, load_u32, no_room
from headwater.rows._text_codes import (
    CODE_ARRAY,
    CODE_MULTIRANGE,
    CODE_RANGE,
    CODE_RECORD,
    CORRUPT,
    NEED_SPACE,
)
from headwater.rows.text._number import write_int
from headwater.rows.text._vector import ARRAY_HEADER, item_count
from headwater.rows.text_tables import TextTables

VARLENA = 4
"""Bytes between a datum's start and its payload's."""

NO_PART, NULL_PART, PLAIN_PART, PACKED_PART, MISSING_PART = 0, 1, 2, 3, 4
"""Nothing is printed (a dropped attribute); NULL; a payload as it is; one that is compressed; a fast default."""

_TYPMOD_SIZE, _INFOMASK2_AT, _INFOMASK_AT, _HOFF_AT, _BITS_AT = 4, 14, 16, 18, 19
"""A composite's payload: typmod, type OID, the six bytes of t_ctid, and the rest of a tuple's header."""

_EMPTY, _LOWER_INCLUSIVE, _UPPER_INCLUSIVE, _LOWER_INFINITE, _UPPER_INFINITE = 1, 2, 4, 8, 16
_LOWER_NULL, _UPPER_NULL = 32, 64
_RANGE_HEADER, _MULTIRANGE_HEADER = 4, 8


@inline_kernel
def is_made_of_parts(code: Int) -> Int:
    """Tell whether a type code is one of those that this module knows."""
    return CODE_ARRAY <= code <= CODE_MULTIRANGE


@borrowing_kernel
def open_parts(tables: TextTables, entry: Int, kind: Int, src: Bytes, start: Int, length: Int) -> tuple[Int, Int]:
    """Count the parts, or return CORRUPT; and find where the first one is looked for, from the datum's start.

    A range has two parts, a multirange two for each range: its bounds.
    """
    if kind == CODE_ARRAY:
        return _open_array(src, start, length)
    if kind == CODE_RECORD:
        return _open_record(tables, entry, src, start, length)
    if length < _RANGE_HEADER + 1 or load_u32(src, start) != np.int64(tables.oid[entry]):
        return CORRUPT, 0
    if kind == CODE_RANGE:
        return (0 if src[start + length - 1] & _EMPTY else 2), VARLENA + _RANGE_HEADER
    if length < _MULTIRANGE_HEADER:
        return CORRUPT, 0
    count = load_u32(src, start + 4)
    if _MULTIRANGE_HEADER + 5 * count - 4 > length:
        return CORRUPT, 0
    return 2 * count, VARLENA + _MULTIRANGE_HEADER + (5 * count - 4 if count > 0 else 0)


@borrowing_kernel
def _open_array(src: Bytes, start: Int, length: Int) -> tuple[Int, Int]:
    items = item_count(src, start, length)
    if items < 0:
        return CORRUPT, 0
    dimensions, data_offset = load_i32(src, start), load_i32(src, start + 4)
    bitmap = ARRAY_HEADER + 8 * dimensions
    if data_offset == 0:
        return items, bitmap + VARLENA + 7 & -8
    if data_offset < bitmap + VARLENA + (items + 7) // 8 or data_offset - VARLENA > length:
        return CORRUPT, 0
    return items, data_offset


@borrowing_kernel
def _open_record(tables: TextTables, entry: Int, src: Bytes, start: Int, length: Int) -> tuple[Int, Int]:
    if length < _BITS_AT or load_u32(src, start + _TYPMOD_SIZE) != np.int64(tables.oid[entry]):
        return CORRUPT, 0
    stored = load_u16(src, start + _INFOMASK2_AT) & HEAP_NATTS_MASK
    bitmap = (stored + 7) >> 3 if load_u16(src, start + _INFOMASK_AT) & HEAP_HASNULL else 0
    hoff = np.int64(src[start + _HOFF_AT])
    if hoff & 7 or hoff < VARLENA + _BITS_AT + bitmap or hoff > VARLENA + length:
        return CORRUPT, 0
    return tables.first_child[entry + 1] - tables.first_child[entry], hoff


@borrowing_kernel
def next_part(
    tables: TextTables, entry: Int, kind: Int, src: Bytes, start: Int, length: Int, item: Int, at: Int
) -> tuple[Int, Int, Int, Int]:
    """Find a part: (kind or CORRUPT, payload's offset in `src`, its length, where the next one is looked for)."""
    if kind == CODE_ARRAY:
        return _array_part(tables, entry, src, start, length, item, at)
    if kind == CODE_RECORD:
        return _record_part(tables, entry, src, start, length, item, at)
    return _bound(tables, entry, kind, src, start, length, item, at)


@borrowing_kernel
def _array_part(
    tables: TextTables, entry: Int, src: Bytes, start: Int, length: Int, item: Int, at: Int
) -> tuple[Int, Int, Int, Int]:
    bitmap = start + ARRAY_HEADER + 8 * load_i32(src, start)
    if load_i32(src, start + 4) != 0 and not src[bitmap + (item >> 3)] >> (item & 7) & 1:
        return NULL_PART, start, 0, at
    child = tables.child[tables.first_child[entry]]
    size, align = np.int64(tables.length[child]), np.int64(tables.align[child])
    part, payload, size, at = _span(src, start, length, at + align - 1 & -align, size)
    return (part if part == PLAIN_PART else CORRUPT), payload, size, at


@borrowing_kernel
def _record_part(
    tables: TextTables, entry: Int, src: Bytes, start: Int, length: Int, item: Int, at: Int
) -> tuple[Int, Int, Int, Int]:
    number = tables.first_child[entry] + item
    child = tables.child[number]
    is_dropped = tables.oid[child] == 0
    if item >= load_u16(src, start + _INFOMASK2_AT) & HEAP_NATTS_MASK:
        if is_dropped or tables.missing_at[number] < 0:
            return (NO_PART if is_dropped else NULL_PART), start, 0, at
        low = tables.missing_at[number]
        return MISSING_PART, low, tables.missing_end[number] - low, at
    has_nulls = load_u16(src, start + _INFOMASK_AT) & HEAP_HASNULL
    if has_nulls and not src[start + _BITS_AT + (item >> 3)] >> (item & 7) & 1:
        return (NO_PART if is_dropped else NULL_PART), start, 0, at
    at = _aligned(tables, child, src, start, length, at)
    part, payload, size, at = _span(src, start, length, at, np.int64(tables.length[child]))
    return (NO_PART if is_dropped and part > 0 else part), payload, size, at


@borrowing_kernel
def _bound(
    tables: TextTables, entry: Int, kind: Int, src: Bytes, start: Int, length: Int, item: Int, at: Int
) -> tuple[Int, Int, Int, Int]:
    """Find the lower bound of a range for an even item, the upper one for an odd one; NO_PART where there is none."""
    flags = range_flags(kind, src, start, length, item >> 1)
    child = tables.child[tables.first_child[entry]]
    align = np.int64(tables.align[child])
    if kind == CODE_MULTIRANGE and item & 1 == 0:
        at = at + align - 1 & -align
    if flags & (_EMPTY | _LOWER_NULL | _UPPER_NULL):
        return CORRUPT, start, 0, at
    if flags & (_UPPER_INFINITE if item & 1 else _LOWER_INFINITE):
        return NO_PART, start, 0, at
    end = length - 1 if kind == CODE_RANGE else length
    at = _aligned(tables, child, src, start, end, at)
    part, payload, size, at = _span(src, start, end, at, np.int64(tables.length[child]))
    return (part if part == PLAIN_PART else CORRUPT), payload, size, at


@inline_kernel
def range_flags(kind: Int, src: Bytes, start: Int, length: Int, number: Int) -> Int:
    """Read the flags of a range, or of one of a multirange's."""
    if kind == CODE_RANGE:
        return np.int64(src[start + length - 1])
    return np.int64(src[start + _MULTIRANGE_HEADER + 4 * (load_u32(src, start + 4) - 1) + number])


@inline_kernel
def _aligned(tables: TextTables, child: Int, src: Bytes, start: Int, length: Int, at: Int) -> Int:
    """Find where a value begins that may have a short header, which is not aligned (att_align_pointer)."""
    place = start - VARLENA + at
    if tables.length[child] < 0 and place < start + length and src[place] != 0:
        return at
    align = np.int64(tables.align[child])
    return at + align - 1 & -align


@borrowing_kernel
def _span(src: Bytes, start: Int, length: Int, at: Int, size: Int) -> tuple[Int, Int, Int, Int]:
    """Find the value that begins at an offset, as :func:`next_part` does."""
    base, end = start - VARLENA, start + length
    place = base + at
    if size > 0:
        return (PLAIN_PART if place + size <= end else CORRUPT), place, size, at + size
    if place >= end:
        return CORRUPT, place, 0, at
    head = np.int64(src[place])
    if head & 1:
        total, header, part = head >> 1, 1, PLAIN_PART
    else:
        if place + 4 > end:
            return CORRUPT, place, 0, at
        total, header, part = load_u32(src, place) >> 2, 4, PACKED_PART if head & 2 else PLAIN_PART
    if head == 1 or total < header or place + total > end:
        return CORRUPT, place, 0, at
    return part, place + header, total - header, at + total


@borrowing_kernel
def unpack_behind(src: Bytes, at: Int, size: Int, out: Bytes, o: Int) -> Int:
    """Decompress a part to the end of `out`, after the room for its text; its bytes there, or a status."""
    raw = raw_size(src, at, size)
    if raw < 0 or no_room(out, o, raw):
        return CORRUPT if raw < 0 else NEED_SPACE
    return raw if decompress(src, at, size, out, len(out) - raw) >= 0 else CORRUPT


@borrowing_kernel
def put_opening(kind: Int, src: Bytes, start: Int, items: Int, out: Bytes, o: Int) -> Int:
    """Write what stands before all parts.

    That is an array's bounds and brace, a composite's parenthesis; all of an empty range.
    """
    if no_room(out, o, 5):
        return NEED_SPACE
    if kind == CODE_RANGE:
        if items > 0:
            return o
        out[o], out[o + 1], out[o + 2], out[o + 3], out[o + 4] = 101, 109, 112, 116, 121
        return o + 5
    if kind == CODE_ARRAY and items > 0:
        o = _write_bounds(src, start, load_i32(src, start), out, o)
        if no_room(out, o, 1):
            return NEED_SPACE
    out[o] = 40 if kind == CODE_RECORD else 123
    return o + 1


@borrowing_kernel
def _write_bounds(src: Bytes, start: Int, dimensions: Int, out: Bytes, o: Int) -> Int:
    """Write ``[low:high]...=`` if any lower bound is not 1."""
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
def put_before(
    kind: Int, delimiter: Int, src: Bytes, start: Int, length: Int, item: Int, is_first: bool, out: Bytes, o: Int
) -> Int:
    """Write what stands between two parts, and opens before the second.

    `is_first` if none was printed before. Room: 8.
    """
    if kind in (CODE_RANGE, CODE_MULTIRANGE):
        if item > 0:
            out[o] = 44
            o += 1
        if item & 1 == 0:
            inclusive = range_flags(kind, src, start, length, item >> 1) & _LOWER_INCLUSIVE
            out[o] = 91 if inclusive else 40
            o += 1
        return o
    if not is_first:
        out[o] = delimiter
        o += 1
    return _put_braces(src, start, item, np.int64(123), out, o) if kind == CODE_ARRAY else o


@borrowing_kernel
def put_after(kind: Int, src: Bytes, start: Int, length: Int, item: Int, out: Bytes, o: Int) -> Int:
    """Write what closes after a part. Room: 8."""
    if kind == CODE_ARRAY:
        return _put_braces(src, start, item + 1, np.int64(125), out, o)
    if kind != CODE_RECORD and item & 1:
        inclusive = range_flags(kind, src, start, length, item >> 1) & _UPPER_INCLUSIVE
        out[o] = 93 if inclusive else 41
        o += 1
    return o


@borrowing_kernel
def _put_braces(src: Bytes, start: Int, item: Int, brace: Int, out: Bytes, o: Int) -> Int:
    """Write the inner braces that open before item number `item`, or (with item + 1) close after it. Room: 6."""
    stride = 1
    for i in range(load_i32(src, start) - 1, 0, -1):
        stride *= load_i32(src, start + ARRAY_HEADER + 4 * i)
        if item % stride != 0:
            break
        out[o] = brace
        o += 1
    return o


@borrowing_kernel
def put_closing(kind: Int, out: Bytes, o: Int) -> Int:
    """Write what stands after all parts."""
    if kind == CODE_RANGE:
        return o
    if no_room(out, o, 1):
        return NEED_SPACE
    out[o] = 41 if kind == CODE_RECORD else 125
    return o + 1


@inline_kernel
def _is_special(kind: Int, byte: Int, delimiter: Int) -> Int:
    """Tell whether a byte of a part's text asks for quotes; quotes and backslashes aside."""
    if byte == 32 or 9 <= byte <= 13 or byte == delimiter:
        return True
    if kind == CODE_ARRAY:
        return byte == 123 or byte == 125
    if byte == 40 or byte == 41:
        return True
    return kind != CODE_RECORD and (byte == 91 or byte == 93)


@borrowing_kernel
def quote(kind: Int, out: Bytes, o: Int, end: Int, delimiter: Int) -> Int:
    """Quote a part's text ``out[o:end]`` in place if it would not be read back; returns the new end.

    Quotes and backslashes inside are escaped with a backslash in an array, doubled elsewhere.
    """
    if o < 0 or end < o:
        return NEED_SPACE
    size = end - o
    escapes = 0
    needs = size == 0
    if size == 4 and kind == CODE_ARRAY:
        needs = out[o] | 32 == 110 and out[o + 1] | 32 == 117 and out[o + 2] | 32 == 108 and out[o + 3] | 32 == 108
    for i in range(o, end):
        byte = np.int64(out[i])
        if byte == 34 or byte == 92:
            escapes += 1
        elif _is_special(kind, byte, delimiter):
            needs = True
    if not needs and escapes == 0:
        return end
    if end + escapes + 2 > len(out):
        return NEED_SPACE
    to = end + escapes + 1
    out[to] = 34
    for i in range(end - 1, o - 1, -1):
        byte = np.int64(out[i])
        to -= 1
        out[to] = byte
        if byte == 34 or byte == 92:
            to -= 1
            out[to] = 92 if kind == CODE_ARRAY else byte
    out[o] = 34
    return end + escapes + 2
