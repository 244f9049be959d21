"""Kernels for jsonb (PostgreSQL: ``jsonb.c`` JsonbToCStringWorker, ``jsonb_util.c`` iterators, ``jsonb.h`` layout).

A container is a uint32 header (count and flags), one uint32 JEntry per child (an object's keys, then its values), then
the children's bytes. A JEntry holds its child's length, or for every 32nd child the offset of its end; numbers and
containers begin at the next multiple of 4 from there. Containers are walked with an explicit stack, so that depth is
bounded by the datum's size and not by the machine's stack.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.kernels import inline_kernel, kernel
from headwater.rows._text_bytes import HEX, Bytes, Int, load_u32
from headwater.rows._text_codes import CORRUPT, NEED_SPACE
from headwater.rows._text_number import write_numeric

COUNT_MASK, IS_SCALAR, IS_OBJECT, IS_ARRAY = 0x0FFFFFFF, 0x10000000, 0x20000000, 0x40000000
LENGTH_MASK, TYPE_MASK, HAS_OFFSET = 0x0FFFFFFF, 0x70000000, 0x80000000
STRING, NUMERIC, FALSE, TRUE, NULL, CONTAINER = 0, 0x10000000, 0x20000000, 0x30000000, 0x40000000, 0x50000000

# A stack frame: header position, header, next child, offset of the next key or element, of the next value, end.
HEADER_AT, HEADER, NEXT, OFFSET, VALUE_OFFSET, END = 0, 1, 2, 3, 4, 5
FRAME = 6


@kernel
def write_json_string(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """A quoted and escaped string (escape_json)."""
    if o + length + 2 > len(out):
        return NEED_SPACE
    out[o] = 34
    o += 1
    for i in range(length):
        byte = np.int64(src[start + i])
        if o + 7 > len(out):
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
    if o + 1 > len(out):
        return NEED_SPACE
    out[o] = 34
    return o + 1


@kernel
def _write_number(src: Bytes, start: Int, end: Int, out: Bytes, o: Int) -> Int:
    """A numeric with its own varlena header, 4 bytes or (never written today) 1 byte."""
    if start >= end:
        return CORRUPT
    if src[start] & 1:
        size, header = np.int64(src[start]) >> 1, 1
    else:
        if start + 4 > end or src[start] & 2:
            return CORRUPT
        size, header = load_u32(src, start) >> 2, 4
    if size < header or start + size > end:
        return CORRUPT
    return write_numeric(src, start + header, size - header, out, o)


@inline_kernel
def _put_word(kind: Int, out: Bytes, o: Int) -> Int:
    """``null``, ``true`` or ``false``. Room: 5."""
    if kind == NULL:
        a, b, c, d = 110, 117, 108, 108
    elif kind == TRUE:
        a, b, c, d = 116, 114, 117, 101
    else:
        a, b, c, d = 102, 97, 108, 115
        out[o + 4] = 101
    out[o], out[o + 1], out[o + 2], out[o + 3] = a, b, c, d
    return o + 5 if kind == FALSE else o + 4


@inline_kernel
def _end_of(entry: Int, offset: Int) -> Int:
    """Where a child ends, from its JEntry and where it begins (JBE_ADVANCE_OFFSET)."""
    return entry & LENGTH_MASK if entry & HAS_OFFSET else offset + (entry & LENGTH_MASK)


@kernel
def _open(src: Bytes, at: Int, end: Int, stack: NDArray[np.int64], frame: Int) -> bool:
    """Fill the frame of the container at ``src[at:end]``; False if its header cannot be right."""
    if at + 4 > end:
        return False
    header = load_u32(src, at)
    count = header & COUNT_MASK
    is_object, is_array = header & IS_OBJECT != 0, header & IS_ARRAY != 0
    children = 2 * count if is_object else count
    if is_object == is_array or at + 4 + 4 * children > end:
        return False
    if header & IS_SCALAR and (is_object or count != 1):
        return False
    offset = 0
    if is_object:
        for i in range(count - 1, -1, -1):
            entry = load_u32(src, at + 4 + 4 * i)
            offset += entry & LENGTH_MASK
            if entry & HAS_OFFSET:
                break
    stack[frame + HEADER_AT] = at
    stack[frame + HEADER] = header
    stack[frame + NEXT] = 0
    stack[frame + OFFSET] = 0
    stack[frame + VALUE_OFFSET] = offset
    stack[frame + END] = end
    return True


@kernel
def _write_key(src: Bytes, stack: NDArray[np.int64], frame: Int, out: Bytes, o: Int) -> Int:
    """The next key of an object and its colon."""
    at, next_key = stack[frame + HEADER_AT], stack[frame + NEXT]
    base = at + 4 + 8 * (stack[frame + HEADER] & COUNT_MASK)
    entry = load_u32(src, at + 4 + 4 * next_key)
    start = stack[frame + OFFSET]
    end = _end_of(entry, start)
    if entry & TYPE_MASK != STRING or end < start or base + end > stack[frame + END]:
        return CORRUPT
    stack[frame + OFFSET] = end
    o = write_json_string(src, base + start, end - start, out, o)
    if o < 0:
        return o
    if o + 2 > len(out):
        return NEED_SPACE
    out[o] = 58
    out[o + 1] = 32
    return o + 2


@kernel
def _grown(stack: NDArray[np.int64]) -> NDArray[np.int64]:
    """The stack with twice the room."""
    wider = np.empty(2 * len(stack), dtype=np.int64)
    wider[: len(stack)] = stack
    return wider


@kernel
def _close(header: Int, out: Bytes, o: Int) -> Int:
    """The bracket that ends a container; none for a scalar. Room: 1."""
    if header & IS_SCALAR:
        return o
    out[o] = 125 if header & IS_OBJECT else 93
    return o + 1


@kernel
def write_jsonb(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Text of a jsonb value: keys in stored order, ``": "`` and ``", "`` as separators (jsonb_out)."""
    stack = np.empty(8 * FRAME, dtype=np.int64)
    frame = 0
    if not _open(src, start, start + length, stack, 0):
        return CORRUPT
    while True:
        if o + 8 > len(out):
            return NEED_SPACE
        header, child = stack[frame + HEADER], stack[frame + NEXT]
        count = header & COUNT_MASK
        is_object = header & IS_OBJECT != 0
        if child == 0 and not header & IS_SCALAR:
            out[o] = 123 if is_object else 91
            o += 1
        if child == count:
            o = _close(header, out, o)
            frame -= FRAME
            if frame < 0:
                return o
            continue
        if child > 0:
            out[o] = 44
            out[o + 1] = 32
            o += 2
        if is_object:
            o = _write_key(src, stack, frame, out, o)
            if o < 0:
                return o
            if o + 8 > len(out):
                return NEED_SPACE
        slot = VALUE_OFFSET if is_object else OFFSET
        offset, at = stack[frame + slot], stack[frame + HEADER_AT]
        entry = load_u32(src, at + 4 + 4 * (count + child if is_object else child))
        base = at + 4 + (8 if is_object else 4) * count
        begin, end = base + offset, base + _end_of(entry, offset)
        if end < begin or end > stack[frame + END]:
            return CORRUPT
        stack[frame + slot] = end - base
        stack[frame + NEXT] = child + 1
        kind = entry & TYPE_MASK
        aligned = base + (offset + 3 & -4)
        if kind == STRING:
            o = write_json_string(src, begin, end - begin, out, o)
        elif kind == NUMERIC:
            o = _write_number(src, aligned, end, out, o)
        elif kind == CONTAINER:
            frame += FRAME
            if frame == len(stack):
                stack = _grown(stack)
            if not _open(src, aligned, end, stack, frame) or stack[frame + HEADER] & IS_SCALAR:
                return CORRUPT
        elif kind in (TRUE, FALSE, NULL):
            o = _put_word(kind, out, o)
        else:
            return CORRUPT
        if o < 0:
            return o
