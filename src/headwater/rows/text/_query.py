"""Kernels for ltree's lquery and ltxtquery (``ltree_io.c``, ``ltxtquery_io.c``), query_int (``_int_bool.c``).

The last two are a count and items in Polish notation, as a tsquery is: of ltxtquery forwards, with the operands' text
after them; of query_int backwards. They ask for other parentheses than a tsquery. Operators that are open are kept on
a stack at the end of the output buffer.
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
    write_verbatim,
)
from headwater.rows._text_codes import CODE_LTXTQUERY, CORRUPT, NEED_SPACE
from headwater.rows.text._number import MAX_INT_TEXT, write_int

_OPERAND, _OPERATOR = 2, 3
_NOT, _AND, _OR = 33, 38, 124
_ITEMS_AT, _WORD_ITEM, _NUMBER_ITEM = 4, 12, 8
_ANY_END, _IN_CASE, _WORDWISE = 1, 2, 4
_LEVEL_NOT, _LEVEL_COUNT, _MOST_LEVELS = 0x10, 0x20, 65535
_QUERY_HEADER, _LEVEL_HEADER, _VARIANT_HEADER = 12, 16, 8

# A stack frame: an item's number, whether an OR in it needs no parentheses, what has been done with it.
_ITEM, _IS_FIRST, _STEP, _FRAME = 0, 4, 5, 8
_BEGUN, _LEFT_DONE, _ALL_DONE = 0, 1, 2


@inline_kernel
def _put_flags(flags: Int, out: Bytes, o: Int) -> Int:
    """Write how a word is compared. Room: 3."""
    if flags & _WORDWISE:
        out[o] = 37
        o += 1
    if flags & _IN_CASE:
        out[o] = 64
        o += 1
    if flags & _ANY_END:
        out[o] = 42
        o += 1
    return o


@borrowing_kernel
def _write_word(src: Bytes, start: Int, length: Int, at: Int, count: Int, out: Bytes, o: Int) -> Int:
    """Write an operand of a ltxtquery: text up to a NUL, and flags."""
    begin = start + _ITEMS_AT + _WORD_ITEM * count + load_u16(src, at + 10)
    end = begin
    while end < start + length and src[end] != 0:
        end += 1
    if end >= start + length:
        return CORRUPT
    o = write_verbatim(src, begin, end - begin, out, o)
    if o < 0 or no_room(out, o, 3):
        return NEED_SPACE
    return _put_flags(np.int64(src[at + 8]), out, o)


@inline_kernel
def _push(item: Int, is_first: Int, out: Bytes, frame: Int) -> None:
    store_u32(item, out, frame + _ITEM)
    out[frame + _IS_FIRST] = is_first
    out[frame + _STEP] = _BEGUN


@inline_kernel
def _put_parenthesis(is_opening: bool, out: Bytes, o: Int) -> Int:
    """Write ``( `` or `` )``. Room: 2."""
    out[o], out[o + 1] = (40, 32) if is_opening else (32, 41)
    return o + 2


@borrowing_kernel
def write_query(code: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write the query in infix notation (ltxtq_out, bqarr_out)."""
    size, step = (_WORD_ITEM, 1) if code == CODE_LTXTQUERY else (_NUMBER_ITEM, -1)
    if start < 0 or length < _ITEMS_AT:
        return CORRUPT
    count, visits = load_i32(src, start), 0
    if count <= 0 or _ITEMS_AT + size * count > length:
        return CORRUPT
    frame = len(out) - _FRAME
    if frame < o:
        return NEED_SPACE
    _push(np.int64(0 if step > 0 else count - 1), np.int64(1), out, frame)
    while frame < len(out):
        room = out[:frame]
        if no_room(room, o, MAX_INT_TEXT + _FRAME):
            return NEED_SPACE
        item, done, is_first = load_u32(out, frame + _ITEM), np.int64(out[frame + _STEP]), np.int64(out[frame + 4])
        at = start + _ITEMS_AT + size * item
        kind, operator, is_operand_next = load_i16(src, at), load_i32(src, at + 4), np.int64(0)
        if done == _BEGUN:
            visits += 1
        if kind == _OPERAND:
            if code == CODE_LTXTQUERY:
                o = _write_word(src, start, length, at, count, room, o)
            else:
                o = write_int(operator, room, o)
            if o < 0:
                return o
            frame += _FRAME
            continue
        if kind != _OPERATOR or operator not in (_NOT, _AND, _OR) or visits > count:
            return CORRUPT
        child = item + step
        if operator == _NOT:
            if child < 0 or child >= count:
                return CORRUPT
            is_operand_next = np.int64(load_i16(src, start + _ITEMS_AT + size * child) == _OPERATOR)
            if done == _BEGUN:
                out[o] = _NOT
                o += 1
            if is_operand_next:
                o = _put_parenthesis(done == _BEGUN, out, o)
        elif operator == _OR and not is_first and done != _LEFT_DONE:
            o = _put_parenthesis(done == _BEGUN, out, o)
        if done == _ALL_DONE:
            frame += _FRAME
            continue
        if done == _LEFT_DONE:
            out[o], out[o + 1], out[o + 2] = 32, operator, 32
            o += 3
        elif operator != _NOT:
            child = item + load_i16(src, at + 2)
        out[frame + _STEP] = _ALL_DONE if operator == _NOT or done == _LEFT_DONE else _LEFT_DONE
        if child < 0 or child >= count or (child - item) * step <= 0:
            return CORRUPT
        frame -= _FRAME
        _push(child, is_operand_next, out, frame)
    return o


@borrowing_kernel
def _write_counts(low: Int, high: Int, is_star: bool, out: Bytes, o: Int) -> Int:
    """Write how many levels match, in braces; nothing for a star that matches any number.

    Room: 2 * MAX_INT_TEXT + 3.
    """
    if is_star and low == 0 and high == _MOST_LEVELS:
        return o
    out[o] = 123
    o += 1
    if low != 0 or high == 0:
        o = write_int(low, out, o)
    if low != high:
        out[o] = 44
        o += 1
        if high != _MOST_LEVELS:
            o = write_int(high, out, o)
    out[o] = 125
    return o + 1


@borrowing_kernel
def _write_variants(src: Bytes, at: Int, end: Int, count: Int, out: Bytes, o: Int) -> Int:
    """Write a level's labels with bars between."""
    for number in range(count):
        if at + _VARIANT_HEADER > end:
            return CORRUPT
        size = load_u16(src, at + 4)
        if at + 7 + size > end:
            return CORRUPT
        if no_room(out, o, size + 4):
            return NEED_SPACE
        if number > 0:
            out[o] = _OR
            o += 1
        o = _put_flags(np.int64(src[at + 6]), out, write_verbatim(src, at + 7, size, out, o))
        at += (size + 7 & -8) + _VARIANT_HEADER
    return o


@borrowing_kernel
def write_lquery(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write levels with dots between (lquery_out)."""
    if start < 0 or length < 4:
        return CORRUPT
    at, end = start + _QUERY_HEADER, start + length
    for level in range(load_u16(src, start)):
        if at + _LEVEL_HEADER > end:
            return CORRUPT
        total, flags, variants = load_u16(src, at), load_u16(src, at + 2), load_u16(src, at + 4)
        if no_room(out, o, 2 * MAX_INT_TEXT + 8):
            return NEED_SPACE
        if level > 0:
            out[o] = 46
            o += 1
        if variants > 0 and flags & _LEVEL_NOT:
            out[o] = _NOT
            o += 1
        if variants > 0:
            o = _write_variants(src, at + _LEVEL_HEADER, end, variants, out, o)
        else:
            out[o] = 42
            o += 1
        if o < 0:
            return o
        if variants == 0 or flags & _LEVEL_COUNT:
            if no_room(out, o, 2 * MAX_INT_TEXT + 3):
                return NEED_SPACE
            o = _write_counts(load_u16(src, at + 6), load_u16(src, at + 8), variants == 0, out, o)
        at += total + 7 & -8
    return o
