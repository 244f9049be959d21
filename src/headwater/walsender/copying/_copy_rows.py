"""Kernels: rows of cells into the payloads of COPY, in text and in binary form.

PostgreSQL: CopyOneRowTo, CopyAttributeOutText (copyto.c; from 18 on CopyToTextLikeOneRow, CopyToBinaryOneRow).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._copy import copy
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.items import BINARY, REFUSED, TEXT

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

DONE, NEED_ROOM, REFUSES = 0, 1, 2
"""Statuses: all rows are written; the next one may not fit; a value cannot be sent to the client."""

ROW, NEEDED, CELL, STATE_SIZE = range(4)
"""Indexes into the state: the next row; bytes that it needs at least; the cell that cannot be sent."""

MOST_SKIPPED = 4
"""Actions up to here are lengths of characters that are passed over, beyond it letters after a backslash."""

_TAB, _NEWLINE, _BACKSLASH, _N = 9, 10, 92, 78


class RowCells(NamedTuple):
    """The values of n rows.

    Attributes:
        firsts: int64[n] the first cell of each row.
        fields: int64[f] which cell of a row each field is.
        kind: uint8[m]; start: int64[m]; length: int32[m]; text: uint8[] the cells.
    """

    firsts: Int64s
    fields: Int64s
    kind: Bytes
    start: Int64s
    length: Int32s
    text: Bytes


@inline_kernel
def _escaped(text: Bytes, at: Int, end: Int, actions: Bytes, out: Bytes, o: Int) -> Int:
    """Write a text with backslashes; the caller has checked the room. Returns the end."""
    begin = at
    while at < end:
        action = np.int64(actions[text[at]])
        if action <= MOST_SKIPPED:
            at = min(at + max(action, 1), end)
            continue
        o = copy(text, begin, out, o, at - begin)
        out[o], out[o + 1] = _BACKSLASH, action
        o += 2
        at += 1
        begin = at
    return copy(text, begin, out, o, at - begin)


@borrowing_kernel
def _text_row(cells: RowCells, row: Int, actions: Bytes, out: Bytes, o: Int, state: Int64s) -> Int:
    """Write a row with its newline; return the end, or ~status."""
    for f in range(len(cells.fields)):
        cell = cells.firsts[row] + cells.fields[f]
        kind, length = cells.kind[cell], np.int64(cells.length[cell])
        if kind == REFUSED:
            state[CELL] = cell
            return ~np.int64(REFUSES)
        if o + 2 * length + 4 > len(out):
            state[NEEDED] = o + 2 * length + 4
            return ~np.int64(NEED_ROOM)
        if f > 0:
            out[o] = _TAB
            o += 1
        if kind == TEXT:
            start = cells.start[cell]
            o = _escaped(cells.text, start, start + length, actions, out, o)
        else:
            out[o], out[o + 1] = _BACKSLASH, _N
            o += 2
    if o + 1 > len(out):
        state[NEEDED] = o + 1
        return ~np.int64(NEED_ROOM)
    out[o] = _NEWLINE
    return o + 1


@inline_kernel
def _put_i32(value: Int, out: Bytes, o: Int) -> Int:
    for at in range(4):
        out[o + at] = (value >> (24 - 8 * at)) & 0xFF
    return o + 4


@borrowing_kernel
def _binary_row(cells: RowCells, row: Int, out: Bytes, o: Int, state: Int64s) -> Int:
    """Write a row with the count of its fields; return the end, or ~status."""
    count = len(cells.fields)
    if o + 2 > len(out):
        state[NEEDED] = o + 2
        return ~np.int64(NEED_ROOM)
    out[o], out[o + 1] = (count >> 8) & 0xFF, count & 0xFF
    o += 2
    for f in range(count):
        cell = cells.firsts[row] + cells.fields[f]
        kind, length = cells.kind[cell], np.int64(cells.length[cell])
        if kind == REFUSED:
            state[CELL] = cell
            return ~np.int64(REFUSES)
        if o + 4 + length > len(out):
            state[NEEDED] = o + 4 + length
            return ~np.int64(NEED_ROOM)
        if kind == BINARY:
            o = copy(cells.text, cells.start[cell], out, _put_i32(length, out, o), length)
        else:
            o = _put_i32(np.int64(-1), out, o)
    return o


@borrowing_kernel
def write_rows(cells: RowCells, is_binary: bool, actions: Bytes, out: Bytes, offsets: Int64s, state: Int64s) -> Int:
    """Write rows, from ``state[ROW]`` on.

    Args:
        cells: their values.
        is_binary: in which form; else in text.
        actions: uint8[256] of each byte of text, what becomes of it. 0: it stays. Up to MOST_SKIPPED: a character of
            so many bytes begins, which all stay. Else the letter that takes its place behind a backslash.
        out: uint8[] gets the rows; offsets: int64[n+1] gets where each ends, the first is 0.
        state: int64[STATE_SIZE].

    Returns:
        DONE, NEED_ROOM or REFUSES.
    """
    for row in range(state[ROW], len(cells.firsts)):
        o = offsets[row]
        if is_binary:
            o = _binary_row(cells, row, out, o, state)
        else:
            o = _text_row(cells, row, actions, out, o, state)
        if o < 0:
            state[ROW] = row
            return ~o
        offsets[row + 1] = o
    return DONE
