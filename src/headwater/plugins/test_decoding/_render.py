"""Kernel of test_decoding: changes into lines of text.

Mirrors ``pg_decode_begin_txn``, ``pg_decode_change``, ``tuple_to_stringinfo``, ``print_literal`` and
``pg_decode_commit_txn`` of contrib/test_decoding/test_decoding.c (14 to 19). Words that do not change from row to row
(``table public.t: INSERT:``, `` id[integer]:``) come ready-made in :class:`Lines`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import inline_kernel, kernel
from headwater.plugins._borrow import borrow
from headwater.plugins._messages import Out, put_decimal, put_ready
from headwater.plugins._plan import BEGIN, CHANGE, READY, Int64s, Plan, Ready
from headwater.plugins._stamps import Stamps
from headwater.rows._copy import copy, load_64, store_64
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.items import DELETE, INSERT, TEXT, UNCHANGED, UNKNOWN, UPDATE, Cells, Items

RAW, BITS, BOOL, QUOTED = 0, 1, 2, 3

LETTER_T, QUOTE = 0x74, 0x27

_LOWS, _QUOTES = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x2727272727272727)

BEGIN_TEXT = np.frombuffer(b"BEGIN", np.uint8).copy()
COMMIT_TEXT = np.frombuffer(b"COMMIT", np.uint8).copy()
NULL_TEXT = np.frombuffer(b"null", np.uint8).copy()
TRUE_TEXT = np.frombuffer(b"true", np.uint8).copy()
FALSE_TEXT = np.frombuffer(b"false", np.uint8).copy()
UNCHANGED_TEXT = np.frombuffer(b"unchanged-toast-datum", np.uint8).copy()
NO_TUPLE_TEXT = np.frombuffer(b" (no-tuple-data)", np.uint8).copy()
MARK_TEXT = np.frombuffer(b" (partial) (complete)", np.uint8).copy()
MARK_START = np.array([0, 0, 10, 21])
"""Where the words of each completeness begin and end in that: nothing for a change without a row, which says so."""
NEW_TUPLE_TEXT = np.frombuffer(b" new-tuple:", np.uint8).copy()

LONGEST_WORD = 32
"""No constant text above is longer; room is asked for in steps of it."""


class Lines(NamedTuple):
    """The unchanging words of L layouts with c live columns in all.

    Attributes:
        head_start: int64[4L+1] offset in text of the first words of layout i's INSERT (4i), UPDATE (4i+1), DELETE
            (4i+2), UPDATE with an old tuple (4i+3).
        first: int64[L+1] layout i's columns are ``[first[i], first[i+1])``.
        attribute: int32[c] index of the column's cell inside a tuple.
        label_start: int64[c+1] offset in text of `` name[type]:``.
        style: uint8[c] how the value is quoted: RAW, BITS, BOOL or QUOTED.
        text: uint8[].
        marks: uint8[n] how complete each item's row is (:mod:`headwater.rows.tuples.completeness`), empty if that is
            not told.
    """

    head_start: NDArray[np.int64]
    first: NDArray[np.int64]
    attribute: NDArray[np.int32]
    label_start: NDArray[np.int64]
    style: NDArray[np.uint8]
    text: NDArray[np.uint8]
    marks: NDArray[np.uint8]


class Streamed(NamedTuple):
    """The texts in place of changes of each of t transactions that is streamed: nothing for one that is not.

    Attributes:
        start: int64[t+1] offsets in text.
        text: uint8[].
    """

    start: NDArray[np.int64]
    text: NDArray[np.uint8]


@inline_kernel
def _put_doubled(src: Bytes, start: Int, end: Int, out: Bytes, o: Int) -> Int:
    """Copy ``src[start:end]`` with every ``'`` doubled to ``out[o:]``, eight bytes at a time where there is none.

    The caller has checked the bounds, with room for twice the length and eight bytes.
    """
    at = start
    while at < end and end - start >= 8:
        at = min(at, end - 8)
        word = load_64(src, at)
        other = word ^ _QUOTES
        if ~((other & _LOWS) + _LOWS | other | _LOWS):
            break
        store_64(out, o + at - start, word)
        at += 8
    o += at - start
    while at < end:
        byte = src[at]
        out[o] = byte
        o += 1
        if byte == QUOTE:
            out[o] = QUOTE
            o += 1
        at += 1
    return o


@inline_kernel
def _put_value(style: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a value as print_literal does.

    The caller has checked the room: twice the length and LONGEST_WORD.
    """
    end = start + length
    if style == BOOL:
        if length == 1 and src[start] == LETTER_T:
            return copy(TRUE_TEXT, 0, out, o, 4)
        return copy(FALSE_TEXT, 0, out, o, 5)
    if style == BITS:
        out[o] = 66
        o += 1
    if style != RAW:
        out[o] = QUOTE
        o += 1
    if style == QUOTED:
        o = _put_doubled(src, start, end, out, o)
    else:
        o = copy(src, start, out, o, end - start)
    if style != RAW:
        out[o] = QUOTE
        o += 1
    return o


@inline_kernel
def put_tuple(cells: Cells, base: Int, lines: Lines, layout: Int, skip_nulls: Int, out: Bytes, o: Int) -> Int:
    """Write a tuple's columns (tuple_to_stringinfo).

    Args:
        cells: the slice's.
        base: the tuple's first cell.
        lines: the slice's.
        layout: index of its layout.
        skip_nulls: leave out NULLs (old tuples).
        out: uint8[].
        o: where to write.

    Returns:
        The end, with room for a LONGEST_WORD after it, or -1 when there might not be room.
    """
    room = len(out) - 2 * LONGEST_WORD
    for c in range(lines.first[layout], lines.first[layout + 1]):
        cell = base + lines.attribute[c]
        kind = cells.kind[cell]
        if (skip_nulls and kind != TEXT and kind != UNCHANGED) or kind == UNKNOWN:
            continue
        name, name_end = lines.label_start[c], lines.label_start[c + 1]
        length = np.int64(cells.length[cell]) if kind == TEXT else np.int64(0)
        if o + name_end - name + 2 * length > room:
            return -1
        o = copy(lines.text, name, out, o, name_end - name)
        if kind == TEXT:
            o = _put_value(lines.style[c], cells.text, cells.start[cell], length, out, o)
        elif kind == UNCHANGED:
            o = copy(UNCHANGED_TEXT, 0, out, o, len(UNCHANGED_TEXT))
        else:
            o = copy(NULL_TEXT, 0, out, o, 4)
    return o


@inline_kernel
def put_change(items: Items, item: Int, cells: Cells, lines: Lines, out: Bytes, o: Int) -> Int:
    """Write a change's line (pg_decode_change).

    Args:
        items: the slice's changes.
        item: index of an INSERT, UPDATE or DELETE.
        cells: the slice's.
        lines: the slice's.
        out: uint8[].
        o: where to write.

    Returns:
        The end, or -1 when there might not be room.
    """
    kind, layout = np.int64(items.kind[item]), np.int64(items.layout[item])
    old, new = cells.old_first[item], cells.new_first[item]
    head = 4 * layout + (3 if kind == UPDATE and old >= 0 else kind - 1)
    start, end = lines.head_start[head], lines.head_start[head + 1]
    if o + end - start + 2 * LONGEST_WORD > len(out):
        return -1
    o = copy(lines.text, start, out, o, end - start)
    for side in range(2):
        base = old if side == 0 else new
        if o < 0 or (side == 0 and kind == INSERT) or (side == 1 and kind == DELETE):
            continue
        if side == 1 and kind == UPDATE and old >= 0:
            o = copy(NEW_TUPLE_TEXT, 0, out, o, len(NEW_TUPLE_TEXT))
        if base >= 0:
            o = put_tuple(cells, base, lines, layout, side == 0, out, o)
        elif side == 1 or kind == DELETE:
            o = copy(NO_TUPLE_TEXT, 0, out, o, len(NO_TUPLE_TEXT))
    if o >= 0 and len(lines.marks):
        start, end = MARK_START[lines.marks[item]], MARK_START[lines.marks[item] + 1]
        if o + end - start + LONGEST_WORD > len(out):
            return -1
        o = copy(MARK_TEXT, start, out, o, end - start)
    return o


@kernel
def put_boundary(word: Bytes, with_xid: Int, xid: Int, stamps: Stamps, t: Int, out: Bytes, o: Int) -> Int:
    """Write BEGIN or, with its time, COMMIT (pg_output_begin, pg_decode_commit_txn).

    Args:
        word: BEGIN_TEXT or COMMIT_TEXT.
        with_xid: write the xid.
        xid: of the transaction.
        stamps: what follows the xid: commit times such as `` (at 2026-01-01 00:00:00+00)``.
        t: index of its commit time, -1 for BEGIN.
        out: uint8[].
        o: where to write.

    Returns:
        The end, or -1 when there might not be room.
    """
    start, end = (stamps.start[t], stamps.start[t + 1]) if t >= 0 else (np.int64(0), np.int64(0))
    if o + 2 * LONGEST_WORD + end - start > len(out):
        return -1
    o = copy(word, 0, out, o, len(word))
    if with_xid:
        out[o] = 32
        o = put_decimal(xid, out, o + 1)
    return copy(stamps.text, start, out, o, end - start)


@kernel
def render_lines(
    items: Items,
    cells: Cells,
    ready: Ready,
    plan: Plan,
    lines: Lines,
    stamps: Stamps,
    streamed: Streamed,
    span: Int64s,
    with_xids: bool,
    out: Out,
) -> Int:
    """Write messages of a plan.

    Args:
        items: the slice's changes.
        cells: their text.
        ready: its ready-made messages.
        plan: the slice's messages.
        lines: words of the slice's layouts.
        stamps: commit times of its transactions.
        streamed: what stands for changes of those that are streamed.
        span: int64[2] the first message to write, and one past the last.
        with_xids: BEGIN and COMMIT show the xid.
        out: where messages go; ``offsets[span[0]]`` is where to begin.

    Returns:
        The message that did not fit, ``span[1]`` if all did.
    """
    items, cells, ready, plan = borrow(items), borrow(cells), borrow(ready), borrow(plan)
    lines, stamps, streamed, out = borrow(lines), borrow(stamps), borrow(streamed), borrow(out)
    for k in range(span[0], span[1]):
        o, op, arg, xid, t = out.offsets[k], plan.op[k], plan.arg[k], plan.xid[k], plan.txn[k]
        start, end = streamed.start[t], streamed.start[t + 1]
        if op == CHANGE and end > start:
            o = copy(streamed.text, start, out.data, o, end - start) if o + end - start + 32 <= len(out.data) else -1
        elif op == CHANGE:
            o = put_change(items, arg, cells, lines, out.data, o)
        elif op == READY:
            o = put_ready(ready, arg, out.data, o)
        elif op == BEGIN:
            o = put_boundary(BEGIN_TEXT, with_xids, xid, stamps, -1, out.data, o)
        else:
            o = put_boundary(COMMIT_TEXT, with_xids, xid, stamps, arg, out.data, o)
        if o < 0:
            return k
        out.offsets[k + 1] = o
    return span[1]
