"""Kernels for text search (PostgreSQL: ``tsvector.c`` tsvectorout, ``tsquery.c`` tsqueryout, ``ts_type.h`` layouts).

A tsvector is a count, as many words (a bit for positions, 11 bits of length, 20 of offset), and the lexemes; positions
lie after their lexeme, at an even offset. A tsquery is a count of items of 12 bytes, operands and operators in Polish
notation with the right operand first, and the operands' text. Operators that are open are kept on a stack at the end of
the output buffer, as in ``_json.py``.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import (
    Bytes,
    Int,
    load_i16,
    load_i32,
    load_u16,
    load_u32,
    no_room,
    store_u32,
    write_quoted,
)
from headwater.rows._text_codes import CORRUPT, NEED_SPACE
from headwater.rows.text._number import MAX_INT_TEXT, write_int

COUNT_SIZE, WORD_SIZE, ITEM_SIZE = 4, 4, 12
OPERAND, OPERATOR = 1, 2
NOT, AND, OR, PHRASE = 1, 2, 3, 4
_PRIORITY = np.array([0, 4, 2, 1, 3], dtype=np.int64)
"""By operator (tsearch_op_priority)."""
_QUOTE = 39
_WEIGHTS = np.frombuffer(b"DCBA", dtype=np.uint8).copy()

# A stack frame: an item's number; its parent's priority, whether it is a phrase's right operand, what has been done
# with it, and whether it stands in parentheses.
_ITEM, _PARENT, _IS_RIGHT, _STEP, _IN_PARENTHESES, _FRAME = 0, 4, 5, 6, 7, 8
_BEGUN, _LEFT_DONE, _ALL_DONE = 0, 1, 2


@borrowing_kernel
def _write_positions(src: Bytes, at: Int, end: Int, out: Bytes, o: Int) -> Int:
    """Write the positions of a lexeme, ``:1A,2``; the weight D is left out."""
    if at + 2 > end:
        return CORRUPT
    count = load_u16(src, at)
    if at + 2 + 2 * count > end:
        return CORRUPT
    for i in range(count):
        if no_room(out, o, MAX_INT_TEXT + 2):
            return NEED_SPACE
        position = load_u16(src, at + 2 + 2 * i)
        out[o] = 44 if i > 0 else 58
        o = write_int(position & 0x3FFF, out, o + 1)
        weight = position >> 14
        if weight > 0:
            out[o] = _WEIGHTS[weight]
            o += 1
    return o


@borrowing_kernel
def write_tsvector(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write lexemes in quotes, each with its positions (tsvectorout)."""
    if start < 0 or length < COUNT_SIZE:
        return CORRUPT
    count, end = load_i32(src, start), start + length
    words = start + COUNT_SIZE
    text = words + WORD_SIZE * count
    if count < 0 or text > end:
        return CORRUPT
    for i in range(count):
        word = load_u32(src, words + WORD_SIZE * i)
        has_positions, size, offset = word & 1, word >> 1 & 0x7FF, word >> 12
        if text + offset + size > end:
            return CORRUPT
        if no_room(out, o, 1):
            return NEED_SPACE
        if i > 0:
            out[o] = 32
            o += 1
        o = write_quoted(src, text + offset, text + offset + size, _QUOTE, _QUOTE, out, o)
        if o >= 0 and has_positions:
            o = _write_positions(src, text + (offset + size + 1 & -2), end, out, o)
        if o < 0:
            return o
    return o


@borrowing_kernel
def _write_operand(src: Bytes, start: Int, length: Int, item: Int, out: Bytes, o: Int) -> Int:
    """Write a lexeme in quotes, up to the NUL that ends it, with ``:``, ``*`` and its weights."""
    at = start + COUNT_SIZE + ITEM_SIZE * item
    text = start + COUNT_SIZE + ITEM_SIZE * load_i32(src, start)
    begin = text + (load_u32(src, at + 8) >> 12)
    end = begin
    while end < start + length and src[end] != 0:
        end += 1
    if end >= start + length:
        return CORRUPT
    o = write_quoted(src, begin, end, _QUOTE, _QUOTE, out, o)
    if o < 0:
        return o
    if no_room(out, o, 6):
        return NEED_SPACE
    weights, is_prefix = np.int64(src[at + 1]), src[at + 2] != 0
    if weights != 0 or is_prefix:
        out[o] = 58
        o += 1
    if is_prefix:
        out[o] = 42
        o += 1
    for bit in range(3, -1, -1):
        if weights >> bit & 1:
            out[o] = _WEIGHTS[bit]
            o += 1
    return o


@borrowing_kernel
def _write_operator(src: Bytes, at: Int, out: Bytes, o: Int) -> Int:
    """Write `` & ``, `` | ``, `` <-> `` or `` <2> ``. Room: MAX_INT_TEXT + 4."""
    operator, distance = np.int64(src[at + 1]), load_i16(src, at + 2)
    out[o] = 32
    o += 1
    if operator == PHRASE:
        out[o] = 60
        o += 1
        if distance == 1:
            out[o] = 45
            o += 1
        else:
            o = write_int(distance, out, o)
        out[o] = 62
    else:
        out[o] = 38 if operator == AND else 124
    out[o + 1] = 32
    return o + 2


@inline_kernel
def _push(item: Int, parent: Int, is_right: Int, out: Bytes, frame: Int) -> None:
    store_u32(item, out, frame + _ITEM)
    out[frame + _PARENT] = parent
    out[frame + _IS_RIGHT] = is_right
    out[frame + _STEP] = _BEGUN
    out[frame + _IN_PARENTHESES] = 0


@inline_kernel
def _put_parenthesis(is_opening: bool, out: Bytes, o: Int) -> Int:
    """Write ``( `` or `` )``. Room: 2."""
    out[o], out[o + 1] = (40, 32) if is_opening else (32, 41)
    return o + 2


@borrowing_kernel
def write_tsquery(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write the query in infix notation, with no more parentheses than needed (infix)."""
    if start < 0 or length < COUNT_SIZE:
        return CORRUPT
    count = load_i32(src, start)
    if count < 0 or COUNT_SIZE + ITEM_SIZE * count > length:
        return CORRUPT
    if count == 0:
        return o
    frame, visits = len(out) - _FRAME, 0
    if frame < o:
        return NEED_SPACE
    _push(np.int64(0), np.int64(0), np.int64(0), out, frame)
    while frame < len(out):
        room = out[:frame]
        if no_room(room, o, MAX_INT_TEXT + 4 + _FRAME):
            return NEED_SPACE
        item, step = load_u32(out, frame + _ITEM), np.int64(out[frame + _STEP])
        at = start + COUNT_SIZE + ITEM_SIZE * item
        kind, operator = np.int64(src[at]), np.int64(src[at + 1])
        if kind == OPERAND:
            o = _write_operand(src, start, length, item, room, o)
            if o < 0:
                return o
            frame += _FRAME
            visits += 1
            continue
        if kind != OPERATOR or operator < NOT or operator > PHRASE:
            return CORRUPT
        priority = _PRIORITY[operator]
        child, is_right = item + 1, np.int64(0)
        if step == _BEGUN:
            visits += 1
            needs = priority < np.int64(out[frame + _PARENT]) or (operator == PHRASE and out[frame + _IS_RIGHT] != 0)
            if needs:
                out[frame + _IN_PARENTHESES] = 1
                o = _put_parenthesis(True, out, o)
            if operator == NOT:
                out[o] = 33
                o += 1
                out[frame + _STEP] = _ALL_DONE
            else:
                child = item + load_u32(src, at + 4)
                out[frame + _STEP] = _LEFT_DONE
        elif step == _LEFT_DONE:
            o = _write_operator(src, at, out, o)
            is_right = np.int64(operator == PHRASE)
            out[frame + _STEP] = _ALL_DONE
        else:
            if out[frame + _IN_PARENTHESES]:
                o = _put_parenthesis(False, out, o)
            frame += _FRAME
            continue
        if child <= item or child >= count or visits > count:
            return CORRUPT
        frame -= _FRAME
        _push(child, priority, is_right, out, frame)
    return o
