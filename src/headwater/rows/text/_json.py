"""Kernels for jsonb (PostgreSQL: ``jsonb.c`` JsonbToCStringWorker, ``jsonb_util.c`` iterators, ``jsonb.h`` layout).

A container is a uint32 header (count and flags), one uint32 JEntry per child (an object's keys, then its values), then
the children's bytes. A JEntry holds its child's length, or for every 32nd child the offset of its end; numbers and
containers begin at the next multiple of 4 from there. Open containers
are kept on a stack inside the output buffer, so that nothing is allocated and depth is bounded by room.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import HEX, Bytes, Int, load_u32, no_room, store_u32
from headwater.rows._text_codes import CORRUPT, NEED_SPACE
from headwater.rows.text._number import write_numeric

COUNT_MASK, IS_SCALAR, IS_OBJECT, IS_ARRAY = 0x0FFFFFFF, 0x10000000, 0x20000000, 0x40000000
LENGTH_MASK, TYPE_MASK, HAS_OFFSET = 0x0FFFFFFF, 0x70000000, 0x80000000
STRING, NUMERIC, FALSE, TRUE, NULL, CONTAINER = 0, 0x10000000, 0x20000000, 0x30000000, 0x40000000, 0x50000000

# A stack frame, uint32 each: where the container begins and ends in the payload, its header, the next child, the offset
# of the next key or element, the offset of the next value of an object.
BEGIN, END, HEADER, NEXT, OFFSET, VALUE_OFFSET = 0, 4, 8, 12, 16, 20
FRAME = 24


@borrowing_kernel
def write_json_string(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a quoted and escaped string (escape_json)."""
    if start < 0 or no_room(out, o, length + 2):
        return NEED_SPACE
    out[o] = 34
    o += 1
    for i in range(length):
        byte = np.int64(src[start + i])
        if no_room(out, o, 7):
            return NEED_SPACE
        if byte >= 32 and byte != 34 and byte != 92:
            out[o] = byte
            o += 1
            continue
        letter: Int = 0
        if byte == 34 or byte == 92:
            letter = byte
        elif byte == 8:
            letter = 98
        elif byte == 9:
            letter = 116
        elif byte == 10:
            letter = 110
        elif byte == 12:
            letter = 102
        elif byte == 13:
            letter = 114
        out[o] = 92
        if letter != 0:
            out[o + 1] = letter
            o += 2
        else:
            out[o + 1] = 117
            out[o + 2] = 48
            out[o + 3] = 48
            out[o + 4] = HEX[byte >> 4]
            out[o + 5] = HEX[byte & 15]
            o += 6
    if no_room(out, o, 1):
        return NEED_SPACE
    out[o] = 34
    return o + 1


@borrowing_kernel
def stored_numeric(src: Bytes, start: Int, end: Int) -> tuple[Int, Int]:
    """Find where a numeric with its own varlena header begins; and its length.

    The header has 4 bytes or (never written today) 1 byte. One that is malformed begins at CORRUPT.
    """
    if start >= end:
        return CORRUPT, 0
    if src[start] & 1:
        size, header = np.int64(src[start]) >> 1, 1
    else:
        if start + 4 > end or src[start] & 2:
            return CORRUPT, 0
        size, header = load_u32(src, start) >> 2, 4
    if size < header or start + size > end:
        return CORRUPT, 0
    return start + header, size - header


@borrowing_kernel
def write_stored_numeric(src: Bytes, start: Int, end: Int, out: Bytes, o: Int) -> Int:
    """Write the text of a numeric with its own varlena header."""
    at, size = stored_numeric(src, start, end)
    return at if at < 0 else write_numeric(src, at, size, out, o)


@inline_kernel
def _put_word(kind: Int, out: Bytes, o: Int) -> Int:
    """Write ``null``, ``true`` or ``false``. Room: 5."""
    if kind == NULL:
        a, b, c, d = 110, 117, 108, 108
    elif kind == TRUE:
        a, b, c, d = 116, 114, 117, 101
    else:
        a, b, c, d = 102, 97, 108, 115
        out[o + 4] = 101
    out[o], out[o + 1], out[o + 2], out[o + 3] = a, b, c, d
    return o + 5 if kind == FALSE else o + 4


@borrowing_kernel
def open_container(src: Bytes, start: Int, begin: Int, end: Int, out: Bytes, frame: Int) -> Int:
    """Fill the frame at ``out[frame:]`` for the container at ``src[begin:end]``; its header, or CORRUPT."""
    if begin + 4 > end:
        return CORRUPT
    header = load_u32(src, begin)
    count = header & COUNT_MASK
    is_object, is_array = header & IS_OBJECT != 0, header & IS_ARRAY != 0
    if is_object == is_array or begin + 4 + (8 if is_object else 4) * count > end:
        return CORRUPT
    if header & IS_SCALAR and (is_object or count != 1):
        return CORRUPT
    offset = np.int64(0)
    if is_object:
        for i in range(count - 1, -1, -1):
            entry = load_u32(src, begin + 4 + 4 * i)
            offset += entry & LENGTH_MASK
            if entry & HAS_OFFSET:
                break
    if offset > end - begin:
        return CORRUPT
    store_u32(begin - start, out, frame + BEGIN)
    store_u32(end - start, out, frame + END)
    store_u32(header, out, frame + HEADER)
    store_u32(0, out, frame + NEXT)
    store_u32(0, out, frame + OFFSET)
    store_u32(offset, out, frame + VALUE_OFFSET)
    return header


@borrowing_kernel
def next_child(src: Bytes, start: Int, index: Int, slot: Int, out: Bytes, frame: Int) -> tuple[Int, Int, Int]:
    """Find a container's child number `index`, whose offset is kept in `slot`: JEntry, first byte and end.

    The slot moves on to the next child. A child that does not fit has an end below 0.
    """
    begin, header = start + load_u32(out, frame + BEGIN), load_u32(out, frame + HEADER)
    base = begin + 4 + (8 if header & IS_OBJECT else 4) * (header & COUNT_MASK)
    entry = load_u32(src, begin + 4 + 4 * index)
    offset = load_u32(out, frame + slot)
    after = entry & LENGTH_MASK if entry & HAS_OFFSET else offset + (entry & LENGTH_MASK)
    if after < offset or base + after > start + load_u32(out, frame + END):
        return entry, base, np.int64(CORRUPT)
    store_u32(after, out, frame + slot)
    kind = entry & TYPE_MASK
    if kind in (NUMERIC, CONTAINER):
        offset = offset + 3 & -4
    return entry, base + offset, base + after


@borrowing_kernel
def _write_key(src: Bytes, start: Int, index: Int, out: Bytes, room: Bytes, frame: Int, o: Int) -> Int:
    """Write the next key of an object and its colon."""
    entry, begin, end = next_child(src, start, index, np.int64(OFFSET), out, frame)
    if end < 0 or entry & TYPE_MASK != STRING:
        return CORRUPT
    o = write_json_string(src, begin, end - begin, room, o)
    if o < 0:
        return o
    if o + 8 > len(room):
        return NEED_SPACE
    room[o] = 58
    room[o + 1] = 32
    return o + 2


@borrowing_kernel
def write_jsonb(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write the text of a jsonb value: keys in stored order, ``": "`` and ``", "`` as separators (jsonb_out).

    The stack of open containers grows downwards from the end of `out`; `room` is the part that it leaves for text.
    """
    frame = len(out) - FRAME
    if frame < o + 8:
        return NEED_SPACE
    if open_container(src, start, start, start + length, out, frame) < 0:
        return CORRUPT
    room = out[:frame]
    while True:
        if o + 8 > frame:
            return NEED_SPACE
        header, child = load_u32(out, frame + HEADER), load_u32(out, frame + NEXT)
        count, is_object, is_scalar = header & COUNT_MASK, header & IS_OBJECT != 0, header & IS_SCALAR != 0
        if child == 0 and not is_scalar:
            out[o] = 123 if is_object else 91
            o += 1
        if child == count:
            if not is_scalar:
                out[o] = 125 if is_object else 93
                o += 1
            frame += FRAME
            if frame >= len(out):
                return o
            room = out[:frame]
            continue
        if child > 0:
            out[o] = 44
            out[o + 1] = 32
            o += 2
        if is_object:
            o = _write_key(src, start, child, out, room, frame, o)
            if o < 0:
                return o
        store_u32(child + 1, out, frame + NEXT)
        index, slot = (count + child, VALUE_OFFSET) if is_object else (child, OFFSET)
        entry, begin, end = next_child(src, start, index, slot, out, frame)
        kind = entry & TYPE_MASK
        if end < 0:
            return CORRUPT
        if kind == STRING:
            o = write_json_string(src, begin, end - begin, room, o)
        elif kind == NUMERIC:
            o = write_stored_numeric(src, begin, end, room, o)
        elif kind == CONTAINER:
            frame -= FRAME
            if frame < o + 8:
                return NEED_SPACE
            room = out[:frame]
            header = open_container(src, start, begin, end, out, frame)
            if header < 0 or header & IS_SCALAR:
                return CORRUPT
        elif kind in (TRUE, FALSE, NULL):
            o = _put_word(kind, out, o)
        else:
            return CORRUPT
        if o < 0:
            return o
