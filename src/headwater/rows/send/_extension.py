"""Kernels for text search, snapshots and types of extensions, as they are sent.

PostgreSQL: ``tsvector.c`` (tsvectorsend), ``tsquery.c`` (tsquerysend), ``xid8funcs.c`` (pg_snapshot_send),
``contrib/hstore/hstore_io.c`` (hstore_send), ``contrib/cube/cube.c`` (cube_send), and pgvector's ``vector.c``,
``halfvec.c`` and ``sparsevec.c``. The stored forms of these types are explained in ``text/_search.py``,
``text/_number.py`` and ``text/_extension.py``.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel
from headwater.rows._conversion import Conversion, put_converted
from headwater.rows._text_bytes import Bytes, Int, load_i32, load_u16, load_u32, no_room
from headwater.rows._text_codes import CORRUPT, NEED_SPACE
from headwater.rows.send._bytes import put_16, put_32, send_numbers
from headwater.rows.text._extension import (
    CUBE_DIMENSIONS,
    CUBE_IS_POINT,
    ENTRY_END,
    ENTRY_IS_FIRST,
    ENTRY_IS_NULL,
    HSTORE_COUNT,
    HSTORE_IS_NEW,
    SPARSE_HEADER,
    VECTOR_HEADER,
)
from headwater.rows.text._search import COUNT_SIZE, ITEM_SIZE, NOT, OPERAND, OPERATOR, PHRASE, WORD_SIZE


@borrowing_kernel
def send_tsvector(conversion: Conversion, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a count; of each lexeme its text, a zero byte, a count of positions and these (tsvectorsend)."""
    if start < 0 or length < COUNT_SIZE:
        return CORRUPT
    count, end = load_i32(src, start), start + length
    text = start + COUNT_SIZE + WORD_SIZE * count
    if count < 0 or text > end:
        return CORRUPT
    o = send_numbers(src, start, np.int64(4), np.int64(1), out, o)
    for i in range(count):
        word = load_u32(src, start + COUNT_SIZE + WORD_SIZE * i)
        size, offset = word >> 1 & 0x7FF, word >> 12
        if text + offset + size > end:
            return CORRUPT
        if o >= 0:
            o = put_converted(conversion, src, text + offset, size, out, o)
        if o < 0:
            return o
        if no_room(out, o, 3):
            return NEED_SPACE
        out[o] = 0
        o = _send_positions(src, text + (offset + size + 1 & -2), end, word & 1, out, o + 1)
        if o < 0:
            return o
    return o


@borrowing_kernel
def _send_positions(src: Bytes, at: Int, end: Int, has_positions: Int, out: Bytes, o: Int) -> Int:
    """Write a lexeme's count of positions, 0 if it has none, and the positions with their weights. Room: 2."""
    if not has_positions:
        put_16(0, out, o)
        return o + 2
    if at + 2 > end or at + 2 + 2 * load_u16(src, at) > end:
        return CORRUPT
    return send_numbers(src, at, np.int64(2), 1 + load_u16(src, at), out, o)


@borrowing_kernel
def send_tsquery(conversion: Conversion, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a count, and items (tsquerysend).

    An item is its type, and weights, prefix mark and text, or operator and distance.
    """
    if start < 0 or length < COUNT_SIZE:
        return CORRUPT
    count = load_i32(src, start)
    text = start + COUNT_SIZE + ITEM_SIZE * count
    if count < 0 or text > start + length:
        return CORRUPT
    o = send_numbers(src, start, np.int64(4), np.int64(1), out, o)
    for item in range(count):
        at = start + COUNT_SIZE + ITEM_SIZE * item
        kind, operator = np.int64(src[at]), np.int64(src[at + 1])
        if no_room(out, o, 5):
            return NEED_SPACE
        out[o], out[o + 1] = kind, operator
        o += 2
        if kind == OPERAND:
            out[o] = src[at + 2]
            begin = text + (load_u32(src, at + 8) >> 12)
            o = _send_string(conversion, src, begin, start + length, out, o + 1)
            if o < 0:
                return o
        elif kind != OPERATOR or operator < NOT or operator > PHRASE:
            return CORRUPT
        elif operator == PHRASE:
            put_16(load_u16(src, at + 2), out, o)
            o += 2
    return o


@borrowing_kernel
def _send_string(conversion: Conversion, src: Bytes, begin: Int, limit: Int, out: Bytes, o: Int) -> Int:
    """Write the bytes up to a zero byte, and that one, which lies before `limit`."""
    end = begin
    while end < limit and src[end] != 0:
        end += 1
    if end == limit:
        return CORRUPT
    o = put_converted(conversion, src, begin, end - begin, out, o)
    if o < 0:
        return o
    if no_room(out, o, 1):
        return NEED_SPACE
    out[o] = 0
    return o + 1


@borrowing_kernel
def send_snapshot(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write the number of running transactions, xmin, xmax, and these (pg_snapshot_send)."""
    if start < 0 or length < 20:
        return CORRUPT
    count = load_u32(src, start)
    if 20 + 8 * count > length:
        return CORRUPT
    o = send_numbers(src, start, np.int64(4), np.int64(1), out, o)
    return send_numbers(src, start + 4, np.int64(8), 2 + count, out, o) if o >= 0 else o


@borrowing_kernel
def send_hstore(conversion: Conversion, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a count; length and text of each key and each value, of which -1 is NULL's length (hstore_send).

    As on the server, a length is that of the text as it is stored, which it may not have when it is converted.
    """
    if start < 0 or length < 4:
        return CORRUPT
    head = load_u32(src, start)
    count, before = head & HSTORE_COUNT, np.int64(0)
    text = start + 4 + 8 * count
    if head & HSTORE_IS_NEW == 0 or text > start + length:
        return CORRUPT
    if no_room(out, o, 4):
        return NEED_SPACE
    put_32(count, out, o)
    o += 4
    for i in range(2 * count):
        entry = load_u32(src, start + 4 + 4 * i)
        begin, after = 0 if entry & ENTRY_IS_FIRST else before, entry & ENTRY_END
        if after < begin or text + after > start + length:
            return CORRUPT
        before = after
        if no_room(out, o, 4):
            return NEED_SPACE
        is_null = i & 1 and entry & ENTRY_IS_NULL
        put_32(-1 if is_null else after - begin, out, o)
        o += 4
        if not is_null:
            o = put_converted(conversion, src, text + begin, after - begin, out, o)
            if o < 0:
                return o
    return o


@borrowing_kernel
def send_cube(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write the header as it is stored, and the coordinates of one corner or two (cube_send)."""
    if start < 0 or length < 4:
        return CORRUPT
    head = load_u32(src, start)
    count = (head & CUBE_DIMENSIONS) * (1 if head & CUBE_IS_POINT else 2)
    if 4 + 8 * count > length:
        return CORRUPT
    o = send_numbers(src, start, np.int64(4), np.int64(1), out, o)
    return send_numbers(src, start + 4, np.int64(8), count, out, o) if o >= 0 else o


@borrowing_kernel
def send_vector(size: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write dimensions, an unused number, and singles (`size` 4, vector_send) or halves (2, halfvec_send)."""
    if start < 0 or length < VECTOR_HEADER:
        return CORRUPT
    count = load_u16(src, start)
    if VECTOR_HEADER + size * count > length:
        return CORRUPT
    o = send_numbers(src, start, np.int64(2), np.int64(2), out, o)
    return send_numbers(src, start + VECTOR_HEADER, size, count, out, o) if o >= 0 else o


@borrowing_kernel
def send_sparsevec(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write dimensions, count, an unused number, indices and values (sparsevec_send)."""
    if start < 0 or length < SPARSE_HEADER:
        return CORRUPT
    count = load_i32(src, start + 4)
    if count < 0 or SPARSE_HEADER + 8 * count > length:
        return CORRUPT
    return send_numbers(src, start, np.int64(4), SPARSE_HEADER // 4 + 2 * count, out, o)
