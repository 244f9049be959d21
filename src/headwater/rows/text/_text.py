"""Type output: the one kernel that prints any value of any column.

Contract of every kernel here: the payload of one datum (varlena header stripped, decompressed; fixed-length raw bytes)
at ``src[start:start+length]`` is printed at ``out[o:]``; the end of the text is returned, or NEED_SPACE (`out` too
short; what lies past `o` is undefined), CORRUPT (bytes no server writes) or UNKNOWN_LABEL. Nothing is written past
``len(out)``, nothing read outside the payload, nothing raised.

The tables say how deep values lie inside one another, never the bytes. The one kernel that calls itself is
:func:`_nested_text`: machine code of two kernels that call each other cannot be loaded from Numba's cache.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import Bytes, Int, no_room
from headwater.rows._text_codes import CODE_ARRAY, CODE_RECORD, CORRUPT, NEED_SPACE
from headwater.rows.text._parts import (
    MISSING_PART,
    NO_PART,
    NULL_PART,
    PACKED_PART,
    is_made_of_parts,
    next_part,
    open_parts,
    put_after,
    put_before,
    put_closing,
    put_opening,
    quote,
    unpack_behind,
)
from headwater.rows.text._scalar import scalar_text
from headwater.rows.text_tables import TextTables


@borrowing_kernel
def _nested_text(tables: TextTables, entry: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write the text of an array, a composite, a range or a multirange.

    That is array_out, record_out, range_out, multirange_out.
    """
    kind, delimiter = np.int64(tables.code[entry]), np.int64(tables.delimiter[entry])
    items, at = open_parts(tables, entry, kind, src, start, length)
    if items < 0:
        return CORRUPT
    o = put_opening(kind, src, start, items, out, o)
    if o < 0:
        return o
    is_first = True
    for item in range(items):
        part, payload, size, at = next_part(tables, entry, kind, src, start, length, item, at)
        if part < 0:
            return CORRUPT
        if kind == CODE_RECORD and part == NO_PART:
            continue
        if no_room(out, o, 8):
            return NEED_SPACE
        o = put_before(kind, delimiter, src, start, length, item, is_first, out, o)
        is_first = False
        if part == NULL_PART and kind == CODE_ARRAY:
            if no_room(out, o, 4):
                return NEED_SPACE
            out[o], out[o + 1], out[o + 2], out[o + 3] = 78, 85, 76, 76
            o += 4
        elif part > NULL_PART:
            child = np.int64(tables.child[tables.first_child[entry] + (item if kind == CODE_RECORD else 0)])
            code, origin, room = np.int64(tables.code[child]), src, out
            if part == MISSING_PART:
                origin = tables.missing
            elif part == PACKED_PART:
                raw = unpack_behind(src, payload, size, out, o)
                if raw < 0:
                    return raw
                origin, room, payload, size = out, out[: len(out) - raw], len(out) - raw, raw
            if is_made_of_parts(code):
                after = _nested_text(tables, child, origin, payload, size, room, o)
            else:
                after = scalar_text(tables, child, code, origin, payload, size, room, o)
            if after < 0:
                return after
            o = quote(kind, out, o, after, delimiter)
        if no_room(out, o, 8):
            return NEED_SPACE
        o = put_after(kind, src, start, length, item, out, o)
    return put_closing(kind, out, o)


@inline_kernel
def type_text(tables: TextTables, column: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write the text of one value of a column.

    Args:
        tables: see :class:`headwater.rows.text_tables.TextTables`.
        column: the value's column in `tables`.
        src: uint8[] the payload is ``src[start:start+length]``.
        start: where it begins.
        length: its bytes.
        out: uint8[] the text is written at `o`.
        o: where.

    Returns:
        The end of the text in `out`, NEED_SPACE (-1), CORRUPT (-2) or UNKNOWN_LABEL (-3).
    """
    if start < 0 or length < 0 or start + length > len(src):
        return CORRUPT
    code = np.int64(tables.code[column])
    if is_made_of_parts(code):
        return _nested_text(tables, np.int64(column), src, np.int64(start), np.int64(length), out, np.int64(o))
    return scalar_text(tables, column, code, src, start, length, out, o)
