"""Kernel of test_decoding: changes into lines of text.

Mirrors ``pg_decode_begin_txn``, ``pg_decode_change``, ``tuple_to_stringinfo``, ``print_literal`` and
``pg_decode_commit_txn`` of contrib/test_decoding/test_decoding.c (15 to 18). Words that do not change from row to row
(``table public.t: INSERT:``, `` id[integer]:``) come ready-made in :class:`Lines`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.kernels import inline_kernel, kernel
from headwater.plugins._messages import (
    COUNT,
    DONE,
    ITEM,
    NEED_SPACE,
    TXN,
    WROTE,
    Out,
    end_message,
    put_bytes,
    put_decimal,
    put_ready,
)
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.items import Cells, Items, Literals, Transactions

RAW, BITS, BOOL, QUOTED = 0, 1, 2, 3

INSERT, UPDATE, DELETE, LITERAL, TOAST = 1, 2, 3, 4, 10
BEGINS_HERE, ENDS_HERE, WROTE_BEFORE, BARE = 1, 2, 4, 8
NULL, TEXT, UNCHANGED = 0, 1, 2

# Indexes into the options array.
INCLUDE_XIDS, SKIP_EMPTY, MESSAGES_COUNT = 0, 1, 2

LETTER_T = 0x74

BEGIN_TEXT = np.frombuffer(b"BEGIN", np.uint8).copy()
COMMIT_TEXT = np.frombuffer(b"COMMIT", np.uint8).copy()
NULL_TEXT = np.frombuffer(b"null", np.uint8).copy()
TRUE_TEXT = np.frombuffer(b"true", np.uint8).copy()
FALSE_TEXT = np.frombuffer(b"false", np.uint8).copy()
UNCHANGED_TEXT = np.frombuffer(b"unchanged-toast-datum", np.uint8).copy()
NO_TUPLE_TEXT = np.frombuffer(b" (no-tuple-data)", np.uint8).copy()
OLD_KEY_TEXT = np.frombuffer(b" old-key:", np.uint8).copy()
NEW_TUPLE_TEXT = np.frombuffer(b" new-tuple:", np.uint8).copy()

LONGEST_WORD = 24
"""No constant text above is longer; room is asked for in steps of it."""


class Lines(NamedTuple):
    """The unchanging words of L layouts with c live columns in all.

    Attributes:
        head_start: int64[3L+1] offset in text of the first words of layout i's INSERT (3i), UPDATE (3i+1), DELETE.
        first: int64[L+1] layout i's columns are ``[first[i], first[i+1])``.
        attribute: int32[c] index of the column's cell inside a tuple.
        label_start: int64[c+1] offset in text of `` name[type]:``.
        style: uint8[c] how the value is quoted: RAW, BITS, BOOL or QUOTED.
        text: uint8[].
    """

    head_start: NDArray[np.int64]
    first: NDArray[np.int64]
    attribute: NDArray[np.int32]
    label_start: NDArray[np.int64]
    style: NDArray[np.uint8]
    text: NDArray[np.uint8]


class Stamps(NamedTuple):
    """What follows the xid of each of t COMMITs, `` (at 2026-01-01 00:00:00+00)`` or nothing.

    Attributes:
        start: int64[t+1] offsets into text.
        text: uint8[].
    """

    start: NDArray[np.int64]
    text: NDArray[np.uint8]


@inline_kernel
def _put_quoted(src: Bytes, start: Int, end: Int, out: Bytes, o: Int) -> Int:
    """``'text'`` with quotes doubled; the caller has checked the room."""
    out[o] = 39
    o += 1
    for i in range(start, end):
        byte = src[i]
        out[o] = byte
        o += 1
        if byte == 39:
            out[o] = 39
            o += 1
    out[o] = 39
    return o + 1


@inline_kernel
def _put_value(style: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """A value as print_literal writes it; the caller has checked the room: twice the length and LONGEST_WORD."""
    end = start + length
    if style == RAW:
        return put_bytes(src, start, end, out, o)
    if style == QUOTED:
        return _put_quoted(src, start, end, out, o)
    if style == BOOL:
        if length == 1 and src[start] == LETTER_T:
            return put_bytes(TRUE_TEXT, 0, 4, out, o)
        return put_bytes(FALSE_TEXT, 0, 5, out, o)
    out[o] = 66
    out[o + 1] = 39
    o = put_bytes(src, start, end, out, o + 2)
    out[o] = 39
    return o + 1


@kernel
def put_tuple(cells: Cells, base: Int, lines: Lines, layout: Int, skip_nulls: bool, out: Bytes, o: Int) -> Int:
    """A tuple's columns (tuple_to_stringinfo).

    Args:
        cells: the slice's.
        base: the tuple's first cell, -1 for ``(no-tuple-data)``.
        lines: the slice's.
        layout: index of its layout.
        skip_nulls: leave out NULLs (old tuples).
        out: uint8[].
        o: where to write.

    Returns:
        The end, or -1 when there might not be room.
    """
    room = len(out) - LONGEST_WORD
    if o > room:
        return -1
    if base < 0:
        return put_bytes(NO_TUPLE_TEXT, 0, len(NO_TUPLE_TEXT), out, o)
    for c in range(lines.first[layout], lines.first[layout + 1]):
        cell = base + lines.attribute[c]
        kind = cells.kind[cell]
        if skip_nulls and kind != TEXT and kind != UNCHANGED:
            continue
        label, label_end = lines.label_start[c], lines.label_start[c + 1]
        length = np.int64(cells.length[cell]) if kind == TEXT else 0
        if o + label_end - label + 2 * length > room:
            return -1
        o = put_bytes(lines.text, label, label_end, out, o)
        if kind == TEXT:
            o = _put_value(lines.style[c], cells.text, cells.start[cell], length, out, o)
        elif kind == UNCHANGED:
            o = put_bytes(UNCHANGED_TEXT, 0, len(UNCHANGED_TEXT), out, o)
        else:
            o = put_bytes(NULL_TEXT, 0, 4, out, o)
    return o


@kernel
def put_change(items: Items, j: Int, cells: Cells, lines: Lines, out: Bytes, o: Int) -> Int:
    """One change's line (pg_decode_change).

    Returns:
        The end, or -1 when there might not be room.
    """
    layout = np.int64(items.layout[j])
    kind = np.int64(items.kind[j])
    head = lines.head_start[3 * layout + kind - 1]
    head_end = lines.head_start[3 * layout + kind]
    if o + head_end - head + 2 * LONGEST_WORD > len(out):
        return -1
    o = put_bytes(lines.text, head, head_end, out, o)
    old, new = cells.old_first[j], cells.new_first[j]
    if kind == INSERT:
        return put_tuple(cells, new, lines, layout, False, out, o)
    if kind == DELETE:
        return put_tuple(cells, old, lines, layout, True, out, o)
    if old >= 0:
        o = put_bytes(OLD_KEY_TEXT, 0, len(OLD_KEY_TEXT), out, o)
        o = put_tuple(cells, old, lines, layout, True, out, o)
        if o < 0 or o + LONGEST_WORD > len(out):
            return -1
        o = put_bytes(NEW_TUPLE_TEXT, 0, len(NEW_TUPLE_TEXT), out, o)
    return put_tuple(cells, new, lines, layout, False, out, o)


@kernel
def _put_boundary(
    word: Bytes, transactions: Transactions, stamps: Stamps, include_xids: bool, lsn: Int, out: Out
) -> bool:
    """BEGIN or, with its time, COMMIT of the state's transaction; returns whether there was room."""
    t = out.state[TXN]
    xid = np.int64(transactions.xid[t])
    commits = len(word) == len(COMMIT_TEXT)
    stamp, stamp_end = stamps.start[t], stamps.start[t + 1]
    o = out.offsets[out.state[COUNT]]
    if o + 2 * LONGEST_WORD + stamp_end - stamp > len(out.data):
        return False
    o = put_bytes(word, 0, len(word), out.data, o)
    if include_xids:
        out.data[o] = 32
        o = put_decimal(xid, out.data, o + 1)
    if commits:
        o = put_bytes(stamps.text, stamp, stamp_end, out.data, o)
    end_message(out, o, lsn, xid)
    return True


@inline_kernel
def _counts_as_write(items: Items, j: Int, literals: Literals, messages_count: bool) -> Int:
    """Whether BEGIN goes before the item: any change; before 17 not for a logical message (``message: ...``)."""
    if items.kind[j] != LITERAL or messages_count:
        return True
    first = literals.first[items.layout[j]]
    return literals.data[literals.offsets[first]] == LETTER_T


@kernel
def _put_item(items: Items, j: Int, cells: Cells, literals: Literals, lines: Lines, xid: Int, out: Out) -> bool:
    """One item's messages; returns whether there was room."""
    lsn = items.lsn[j]
    if items.kind[j] == LITERAL:
        index = items.layout[j]
        return put_ready(literals.first[index], literals.first[index + 1], literals, out, lsn, xid)
    end = put_change(items, j, cells, lines, out.data, out.offsets[out.state[COUNT]])
    if end < 0:
        return False
    end_message(out, end, lsn, xid)
    return True


@kernel
def render_lines(
    items: Items,
    cells: Cells,
    transactions: Transactions,
    literals: Literals,
    lines: Lines,
    stamps: Stamps,
    options: NDArray[np.int64],
    out: Out,
) -> int:
    """All messages of a slice, from ``out.state`` on.

    Args:
        items: the slice's changes.
        cells: their text.
        transactions: the slice's.
        literals: the slice's.
        lines: words of the slice's layouts.
        stamps: commit times of its transactions.
        options: int64[3] INCLUDE_XIDS, SKIP_EMPTY, MESSAGES_COUNT.
        out: where messages go; ``state`` says where to begin and where it stopped.

    Returns:
        DONE or NEED_SPACE.
    """
    state = out.state
    with_xids, skips = options[INCLUDE_XIDS] != 0, options[SKIP_EMPTY] != 0
    while state[TXN] < len(transactions.xid):
        t = state[TXN]
        flags = transactions.flags[t]
        xid = np.int64(transactions.xid[t])
        bare = flags & BARE != 0
        if state[ITEM] < 0:
            begins = flags & BEGINS_HERE and not bare and not skips
            lsn = transactions.first_lsn[t]
            if begins and not _put_boundary(BEGIN_TEXT, transactions, stamps, with_xids, lsn, out):
                return NEED_SPACE
            state[WROTE] = 1 if flags & WROTE_BEFORE or bare or not skips else 0
            state[ITEM] = transactions.item_start[t]
        for j in range(state[ITEM], transactions.item_end[t]):
            state[ITEM] = j
            if items.kind[j] >= TOAST:
                continue
            if state[WROTE] == 0 and _counts_as_write(items, j, literals, options[MESSAGES_COUNT] != 0):
                if not _put_boundary(BEGIN_TEXT, transactions, stamps, with_xids, items.lsn[j], out):
                    return NEED_SPACE
                state[WROTE] = 1
            if not _put_item(items, j, cells, literals, lines, xid, out):
                return NEED_SPACE
        state[ITEM] = transactions.item_end[t]
        ends = flags & ENDS_HERE and not bare and state[WROTE]
        lsn = transactions.end_lsn[t]
        if ends and not _put_boundary(COMMIT_TEXT, transactions, stamps, with_xids, lsn, out):
            return NEED_SPACE
        state[TXN] = t + 1
        state[ITEM] = -1
    return DONE
