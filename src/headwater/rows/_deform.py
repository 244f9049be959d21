"""Heap tuples into text cells, one pass over a slice's items.

Mirrors ``heap_deform_tuple`` and ``getmissingattr`` of ``access/common/heaptuple.c``, ``access/tupmacs.h``,
``varatt.h`` and, for out-of-line values, ``ReorderBufferToastReplace``.

A tuple as logged is the 5-byte ``xl_heap_header`` (t_infomask2, t_infomask, t_hoff) and the bytes from tuple offset 23
on. Attributes are walked from ``t_hoff``, which offsets are aligned to; nothing is read past the tuple's end, and a
tuple with as many attributes as its relation must end where its last attribute does.

State between calls lives in an int64 array (ITEM ... DETAIL): a call that ran out of room leaves it at the item it
could not finish, and can be made again with a larger array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headwater.kernels import inline_kernel, kernel
from headwater.rows._compression import decompress, raw_size, read_u32
from headwater.rows._text import type_text
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows._toast import Pending, append_chunk, find, reassemble, reset

if TYPE_CHECKING:
    from headwater.rows.items import Cells, Items
    from headwater.rows.layout import SliceLayouts

DONE = 0
NEED_SPACE, CORRUPT_VALUE, UNKNOWN_LABEL, NEED_SCRATCH = -1, -2, -3, -4
BAD_TUPLE, BAD_VARLENA, TRAILING_BYTES, BAD_COMPRESSED = -7, -8, -9, -10
CHUNKS_MISSING, BAD_LAYOUT, BAD_KIND, TOO_LONG = -11, -12, -13, -14
"""Status codes, together with CHUNK_MALFORMED and CHUNK_ORDER of ``_toast``."""

ITEM, CELL, TEXT_END, TXN, COLUMN, DETAIL, STATE_SIZE = 0, 1, 2, 3, 4, 5, 8
"""Indexes into the state: next item, next cell, end of text, transaction of the chunks, and where an error is."""

# Kinds of items and of cells, flags (items.py).
_DELETE, _LITERAL, _TOAST = 3, 4, 10
_CLEAR_TOAST = 2
_NULL, _TEXT, _UNCHANGED, _ABSENT = 0, 1, 2, 3

# Shapes of a datum.
_PLAIN, _COMPRESSED, _EXTERNAL = 0, 1, 2

_STILL_ON_DISK = -100
_VARTAG_ONDISK = 18

# MaxAllocSize (utils/memutils.h): the server cannot make a longer text.
_MAX_TEXT = 0x3FFFFFFF


@inline_kernel
def _varlena(data: Bytes, at: Int, end: Int) -> tuple[Int, Int, Int, Int]:
    """Take a varlena's header off; (shape or BAD_VARLENA, payload's offset, its length, offset behind the datum)."""
    head = np.int64(data[at])
    if head & 1 and head != 1:
        size = head >> 1
        if at + size <= end:
            return _PLAIN, at + 1, size - 1, at + size
    elif head == 1:
        if at + 18 <= end and data[at + 1] == _VARTAG_ONDISK:
            return _EXTERNAL, at + 2, 16, at + 18
    elif at + 4 <= end:
        size = read_u32(data, at) >> 2
        if size >= 4 and at + size <= end:
            return (_COMPRESSED if head & 2 else _PLAIN), at + 4, size - 4, at + size
    return BAD_VARLENA, at, 0, at


@kernel
def _unpack(
    data: Bytes,
    at: Int,
    length: Int,
    shape: Int,
    is_new: bool,
    pending: Pending,
    scratch: Bytes,
    state: NDArray[np.int64],
) -> tuple[Int, Int]:
    """Bring a compressed or external datum's payload into scratch.

    Returns:
        (offset in scratch, length), or (status, 0); with NEED_SCRATCH the bytes needed are in ``state[DETAIL]``.
    """
    if shape == _COMPRESSED:
        raw = raw_size(data, at, length)
        if raw < 0:
            return BAD_COMPRESSED, 0
        if raw > len(scratch):
            state[DETAIL] = raw
            return NEED_SCRATCH, 0
        return (0, raw) if decompress(data, at, length, scratch, 0) == raw else (BAD_COMPRESSED, 0)
    index, _ = find(pending, read_u32(data, at + 8))
    if index < 0 or not is_new:
        return _STILL_ON_DISK, 0
    raw, stored = read_u32(data, at) - 4, read_u32(data, at + 4) & 0x3FFFFFFF
    if stored != pending.size[index] or stored > raw:
        state[DETAIL], state[DETAIL + 1], state[DETAIL + 2] = pending.size[index], read_u32(data, at + 8), stored
        return CHUNKS_MISSING, 0
    room = stored if stored == raw else stored + raw
    if stored < raw and raw > stored * 256:
        return BAD_COMPRESSED, 0
    if room > len(scratch):
        state[DETAIL] = room
        return NEED_SCRATCH, 0
    reassemble(data, pending, index, scratch, 0)
    if stored == raw:
        return 0, raw
    if raw_size(scratch, 0, stored) != raw or decompress(scratch, 0, stored, scratch, stored) != room:
        return BAD_COMPRESSED, 0
    return stored, raw


@kernel
def _unusual(
    data: Bytes,
    datum: tuple[Int, Int, Int],
    column: Int,
    is_new: bool,
    layouts: SliceLayouts,
    pending: Pending,
    scratch: Bytes,
    text: Bytes,
    o: Int,
    state: NDArray[np.int64],
) -> Int:
    """The text of a compressed or external datum (shape, offset, length); the new ``o`` or a status."""
    shape, at, length = datum
    at, length = _unpack(data, at, length, shape, is_new, pending, scratch, state)
    if at < 0:
        return at
    return type_text(layouts.texts, column, scratch, at, length, text, o)


@kernel
def _missing(
    column: Int,
    layouts: SliceLayouts,
    pending: Pending,
    scratch: Bytes,
    text: Bytes,
    o: Int,
    state: NDArray[np.int64],
) -> Int:
    """The text of a fast default (``attmissingval``); the new ``o`` or a status."""
    at, end = layouts.missing_at[column], layouts.missing_end[column]
    if layouts.length[column] > 0:
        return type_text(layouts.texts, column, layouts.missing, at, end - at, text, o)
    shape, at, length, _ = _varlena(layouts.missing, at, end)
    if shape == _PLAIN:
        return type_text(layouts.texts, column, layouts.missing, at, length, text, o)
    if shape != _COMPRESSED:
        return BAD_VARLENA
    return _unusual(layouts.missing, (shape, at, length), column, False, layouts, pending, scratch, text, o, state)


@inline_kernel
def _bitmap_size(data: Bytes, at: Int, length: Int, stored: Int) -> Int:
    """Check a tuple's header; the bytes of its null bitmap (0: no nulls) or BAD_TUPLE."""
    bitmap = (stored + 7) >> 3 if data[at + 2] & 1 else 0
    hoff = np.int64(data[at + 4])
    if hoff & 7 or hoff < 23 + bitmap or hoff - 18 > length:
        return BAD_TUPLE
    return bitmap


@inline_kernel
def _tuple(
    data: Bytes,
    at: Int,
    length: Int,
    is_new: bool,
    layout: Int,
    layouts: SliceLayouts,
    pending: Pending,
    cells: Cells,
    scratch: Bytes,
    state: NDArray[np.int64],
) -> Int:
    """Render one tuple to the cells from ``state[CELL]`` on; DONE or a status, with the column in ``state[COLUMN]``."""
    end = at + length
    if at < 0 or length < 5 or end > len(data):
        return BAD_TUPLE
    stored = (np.int64(data[at]) | np.int64(data[at + 1]) << 8) & 0x07FF
    bitmap = _bitmap_size(data, at, length, stored)
    if bitmap < 0:
        return BAD_TUPLE
    base = layouts.first_column[layout]
    natts = layouts.first_column[layout + 1] - base
    origin = at - 18 + np.int64(data[at + 4])
    off, o, cell = origin, state[TEXT_END], state[CELL]
    kinds, starts, lengths, text = cells.kind, cells.start, cells.length, cells.text
    if cell + natts > len(kinds):
        return BAD_LAYOUT
    for k in range(natts):
        column = base + k
        begin, kind, result = o, _NULL, o
        if k >= stored:
            if layouts.missing_at[column] >= 0:
                kind = _TEXT
                result = _missing(column, layouts, pending, scratch, text, o, state)
        elif bitmap == 0 or data[at + 5 + (k >> 3)] >> (k & 7) & 1:
            mask, fixed = layouts.align_mask[column], np.int64(layouts.length[column])
            if fixed > 0 or off >= end or data[off] == 0:
                off = origin + ((off - origin + mask) & ~mask)
            shape, source, size = _PLAIN, off, fixed
            if fixed > 0:
                off += fixed
            elif off < end:
                shape, source, size, off = _varlena(data, off, end)
            else:
                shape = BAD_VARLENA
            if off > end or shape < 0:
                state[COLUMN] = column
                return BAD_VARLENA
            kind = _TEXT
            if layouts.dropped[column] == 0:
                if shape == _PLAIN:
                    result = type_text(layouts.texts, column, data, source, size, text, o)
                else:
                    datum = (shape, source, size)
                    result = _unusual(data, datum, column, is_new, layouts, pending, scratch, text, o, state)
        if result < 0:
            if result != _STILL_ON_DISK:
                state[COLUMN] = column
                return result
            kind, result = _UNCHANGED, o
        if layouts.dropped[column]:
            kind, result = _ABSENT, o
        if result - begin > _MAX_TEXT:
            state[COLUMN] = column
            return TOO_LONG
        o = result
        kinds[cell + k], starts[cell + k], lengths[cell + k] = kind, begin, o - begin
    if off != end and stored <= natts:
        return TRAILING_BYTES
    state[TEXT_END], state[CELL] = o, cell + natts
    return DONE


@inline_kernel
def _change(
    data: Bytes,
    items: Items,
    layouts: SliceLayouts,
    pending: Pending,
    cells: Cells,
    scratch: Bytes,
    state: NDArray[np.int64],
) -> Int:
    """Render the tuples of the item at ``state[ITEM]``, old before new; DONE or a status."""
    item = state[ITEM]
    layout = items.layout[item]
    if layout < 0 or layout >= len(layouts.first_column) - 1:
        return BAD_LAYOUT
    cells.old_first[item], cells.new_first[item] = -1, -1
    for is_new in range(2):
        at = items.new_at[item] if is_new else items.old_at[item]
        if at != -1:
            length = np.int64(items.new_len[item] if is_new else items.old_len[item])
            if is_new:
                cells.new_first[item] = state[CELL]
            else:
                cells.old_first[item] = state[CELL]
            status = _tuple(data, at, length, is_new == 1, layout, layouts, pending, cells, scratch, state)
            if status < 0:
                return status
    return DONE


@kernel
def render_items(
    data: Bytes,
    items: Items,
    layouts: SliceLayouts,
    pending: Pending,
    cells: Cells,
    scratch: Bytes,
    state: NDArray[np.int64],
) -> Int:
    """Render the items from ``state[ITEM]`` on.

    Args:
        data: uint8[] the slice's bytes.
        items: n items.
        layouts: the relation versions that items' layouts index.
        pending: chunks that wait, as an earlier call left them.
        cells: arrays to write to, long enough for all cells (:func:`count_cells`); text as long as it is.
        scratch: uint8[] where out-of-line and compressed values are put together.
        state: int64[STATE_SIZE], zeros (TXN: -1) for the first call.

    Returns:
        DONE, NEED_SPACE (make text longer and call again), NEED_SCRATCH (make scratch ``state[DETAIL]`` long and call
        again), or the status of an error at item ``state[ITEM]``, column ``state[COLUMN]`` (-1: none in particular).
    """
    for item in range(state[ITEM], len(items.kind)):
        kind, txn = items.kind[item], np.int64(items.txn[item])
        cell, text_end, status = state[CELL], state[TEXT_END], DONE
        state[ITEM], state[COLUMN] = item, -1
        if txn != state[TXN]:
            reset(pending)
            state[TXN] = txn
        if kind == _TOAST:
            status = append_chunk(data, items.new_at[item], items.new_len[item], pending, state[DETAIL:])
        elif kind == 0 or kind > _LITERAL:
            status = BAD_KIND
        elif kind <= _DELETE:
            status = _change(data, items, layouts, pending, cells, scratch, state)
        if kind > _DELETE:
            cells.old_first[item], cells.new_first[item] = -1, -1
        if status < 0:
            state[CELL], state[TEXT_END] = cell, text_end
            return status
        if items.flags[item] & _CLEAR_TOAST:
            reset(pending)
    state[ITEM] = len(items.kind)
    return DONE


@kernel
def count_cells(items: Items, layouts: SliceLayouts, counts: NDArray[np.int64]) -> None:
    """Count what the items will need: cells, chunk rows, bytes of tuples (counts int64[3])."""
    for item in range(len(items.kind)):
        layout = items.layout[item]
        if items.kind[item] == _TOAST:
            counts[1] += 1
        elif items.kind[item] <= _DELETE and 0 <= layout < len(layouts.first_column) - 1:
            natts = layouts.first_column[layout + 1] - layouts.first_column[layout]
            if items.new_at[item] != -1:
                counts[0] += natts
                counts[2] += items.new_len[item]
            if items.old_at[item] != -1:
                counts[0] += natts
                counts[2] += items.old_len[item]
