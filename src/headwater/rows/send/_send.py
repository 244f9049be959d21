"""Type output in binary: the one kernel that makes the send form of any value of any column.

Contract as of ``text/_text.py``: the payload of one datum at ``src[start:start+length]`` is written at ``out[o:]`` as
its type's send function (``typsend``) does; the end is returned, or NEED_SPACE, CORRUPT, UNKNOWN_LABEL,
NO_SEND_FUNCTION. Nothing is written past ``len(out)``, nothing read outside the payload, nothing raised.

Text inside is in the client's encoding, but for the lengths that hstore states, which are those of the database's. A
character that cannot be sent is a status of :func:`headwater.rows._conversion.put_converted`. The one kernel that calls
itself is :func:`_nested_send`: machine code of two kernels that call each other cannot be loaded from Numba's cache.

PostgreSQL: ``array_send`` of arrayfuncs.c, ``record_send`` of rowtypes.c, ``range_send`` of rangetypes.c,
``multirange_send`` of multirangetypes.c.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._conversion import Conversion, convert_printed
from headwater.rows._send_codes import (
    NO_SEND_FUNCTION,
    NUMBER,
    SEND_BYTES,
    SEND_DIGITS,
    SEND_FIELDS,
    SEND_NONE,
    SEND_OWN,
    SEND_PARTS,
    SEND_TEXT,
    SEND_VERSIONED,
)
from headwater.rows._text_bytes import Bytes, Int, no_room
from headwater.rows._text_codes import (
    CODE_ARRAY,
    CODE_BIT,
    CODE_BOOL,
    CODE_CIDR,
    CODE_CUBE,
    CODE_HALFVEC,
    CODE_HSTORE,
    CODE_INET,
    CODE_INT2VECTOR,
    CODE_MULTIRANGE,
    CODE_NUMERIC,
    CODE_OIDVECTOR,
    CODE_PATH,
    CODE_POLYGON,
    CODE_RANGE,
    CODE_RECORD,
    CODE_SNAPSHOT,
    CODE_SPARSEVEC,
    CODE_TSQUERY,
    CODE_TSVECTOR,
    CODE_VECTOR,
    CORRUPT,
    NEED_SPACE,
)
from headwater.rows.send._bytes import (
    put_32,
    put_together,
    send_array_head,
    send_bit,
    send_bool,
    send_fields,
    send_inet,
    send_integer_vector,
    send_numeric,
    send_point_list,
)
from headwater.rows.send._extension import (
    send_cube,
    send_hstore,
    send_snapshot,
    send_sparsevec,
    send_tsquery,
    send_tsvector,
    send_vector,
)
from headwater.rows.text._parts import (
    MISSING_PART,
    NO_PART,
    NULL_PART,
    PACKED_PART,
    next_part,
    open_parts,
    range_flags,
    unpack_behind,
)
from headwater.rows.text._scalar import scalar_text
from headwater.rows.text_tables import TextTables

_VERSION = 1


@borrowing_kernel
def _own_send(conversion: Conversion, code: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a value whose binary form has a kernel of its own, by its text code."""
    if code == CODE_NUMERIC:
        return send_numeric(src, start, length, out, o)
    if code == CODE_BOOL:
        return send_bool(src, start, length, out, o)
    if code == CODE_BIT:
        return send_bit(src, start, length, out, o)
    if code in (CODE_INET, CODE_CIDR):
        return send_inet(src, start, length, code == CODE_CIDR, out, o)
    if code in (CODE_PATH, CODE_POLYGON):
        return send_point_list(code, src, start, length, out, o)
    if code in (CODE_INT2VECTOR, CODE_OIDVECTOR):
        return send_integer_vector(np.int64(2 if code == CODE_INT2VECTOR else 4), src, start, length, out, o)
    if code == CODE_TSVECTOR:
        return send_tsvector(conversion, src, start, length, out, o)
    if code == CODE_TSQUERY:
        return send_tsquery(conversion, src, start, length, out, o)
    if code == CODE_SNAPSHOT:
        return send_snapshot(src, start, length, out, o)
    if code == CODE_HSTORE:
        return send_hstore(conversion, src, start, length, out, o)
    if code == CODE_CUBE:
        return send_cube(src, start, length, out, o)
    if code in (CODE_VECTOR, CODE_HALFVEC):
        return send_vector(np.int64(4 if code == CODE_VECTOR else 2), src, start, length, out, o)
    if code == CODE_SPARSEVEC:
        return send_sparsevec(src, start, length, out, o)
    return CORRUPT


@borrowing_kernel
def _scalar_send(
    tables: TextTables, entry: Int, code: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int
) -> Int:
    """Write the binary form of one value that is made of no others; `entry` only serves enum labels."""
    family, number = code & ~NUMBER, code & NUMBER
    if family == SEND_FIELDS:
        return send_fields(number, src, start, length, out, o)
    if family == SEND_OWN:
        return _own_send(tables.conversion, number, src, start, length, out, o)
    if family == SEND_NONE:
        return NO_SEND_FUNCTION
    if family == SEND_VERSIONED:
        if no_room(out, o, 1):
            return NEED_SPACE
        out[o] = _VERSION
        o += 1
    elif family != SEND_TEXT and family != SEND_DIGITS and family != SEND_BYTES:
        return CORRUPT
    end = scalar_text(tables, entry, number, src, start, length, out, o)
    if end < 0 or family == SEND_BYTES:
        return end
    return put_together(out, o, end) if family == SEND_DIGITS else convert_printed(tables.conversion, out, o, end)


@inline_kernel
def _child(tables: TextTables, entry: Int, kind: Int, item: Int) -> Int:
    """Return the entry of a part."""
    return np.int64(tables.child[tables.first_child[entry] + (item if kind == CODE_RECORD else 0)])


@borrowing_kernel
def _put_opening(
    tables: TextTables, entry: Int, kind: Int, src: Bytes, start: Int, length: Int, items: Int, out: Bytes, o: Int
) -> Int:
    """Write the bytes before all parts; there is a status instead if the type of any of them has no send function."""
    asks_at_once = kind != CODE_RECORD and (kind != CODE_MULTIRANGE or items > 0)
    if asks_at_once and np.int64(tables.code[_child(tables, entry, kind, np.int64(0))]) == SEND_NONE:
        return NO_SEND_FUNCTION
    if kind == CODE_ARRAY:
        return send_array_head(src, start, out, o)
    if no_room(out, o, 4):
        return NEED_SPACE
    if kind == CODE_RANGE:
        out[o] = range_flags(kind, src, start, length, np.int64(0))
        return o + 1
    count = items >> 1
    if kind == CODE_RECORD:
        count = 0
        for item in range(items):
            count += tables.oid[_child(tables, entry, kind, item)] != 0
    put_32(count, out, o)
    return o + 4


@borrowing_kernel
def _nested_send(tables: TextTables, entry: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write an array, a composite, a range or a multirange: parts after their lengths.

    A composite's parts come after their types, too.
    """
    kind = np.int64(tables.code[entry]) & NUMBER
    items, at = open_parts(tables, entry, kind, src, start, length)
    if items < 0:
        return CORRUPT
    o = _put_opening(tables, entry, kind, src, start, length, items, out, o)
    if o < 0:
        return o
    range_at = o
    for item in range(items):
        part, payload, size, at = next_part(tables, entry, kind, src, start, length, item, at)
        if part < 0:
            return CORRUPT
        if no_room(out, o, 16):
            return NEED_SPACE
        if kind == CODE_MULTIRANGE and item & 1 == 0:
            range_at = o
            out[o + 4] = range_flags(kind, src, start, length, item >> 1)
            o += 5
        if kind == CODE_RECORD and part != NO_PART:
            put_32(np.int64(tables.child_oid[tables.first_child[entry] + item]), out, o)
            o += 4
        if part == NULL_PART:
            put_32(np.int64(-1), out, o)
            o += 4
        elif part != NO_PART:
            child = _child(tables, entry, kind, item)
            code, origin, room = np.int64(tables.code[child]), src, out
            if part == MISSING_PART:
                origin = tables.missing
            elif part == PACKED_PART:
                raw = unpack_behind(src, payload, size, out, o + 4)
                if raw < 0:
                    return raw
                origin, room, payload, size = out, out[: len(out) - raw], len(out) - raw, raw
            if code & ~NUMBER == SEND_PARTS:
                after = _nested_send(tables, child, origin, payload, size, room, o + 4)
            else:
                after = _scalar_send(tables, child, code, origin, payload, size, room, o + 4)
            if after < 0:
                return after
            put_32(after - o - 4, out, o)
            o = after
        if kind == CODE_MULTIRANGE and item & 1:
            put_32(o - range_at - 4, out, range_at)
    return o


@inline_kernel
def type_send(tables: TextTables, column: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write the binary form of one value of a column whose code is one of a binary form.

    Args:
        tables: see :class:`headwater.rows.text_tables.TextTables`.
        column: the value's column in `tables`.
        src: uint8[] the payload is ``src[start:start+length]``.
        start: where it begins.
        length: its bytes.
        out: uint8[] the form is written at `o`.
        o: where.

    Returns:
        The end of it in `out`, NEED_SPACE (-1), CORRUPT (-2), UNKNOWN_LABEL (-3), NO_SEND_FUNCTION (-4), or REFUSES and
        below: a character cannot be sent.
    """
    if start < 0 or length < 0 or start + length > len(src):
        return CORRUPT
    code = np.int64(tables.code[column])
    if code & ~NUMBER == SEND_PARTS:
        return _nested_send(tables, np.int64(column), src, np.int64(start), np.int64(length), out, np.int64(o))
    return _scalar_send(tables, np.int64(column), code, src, np.int64(start), np.int64(length), out, np.int64(o))
