"""Heap tuples, taken apart: where the payload of every attribute of a slice's items lies.

Mirrors ``heap_deform_tuple`` and ``getmissingattr`` of ``access/common/heaptuple.c``, ``access/tupmacs.h``,
``varatt.h`` and, for out-of-line values, ``ReorderBufferToastReplace``.

A tuple as logged is the 5-byte ``xl_heap_header`` (t_infomask2, t_infomask, t_hoff) and the bytes from tuple offset 23
on. Attributes are walked from ``t_hoff``, which offsets are aligned to; nothing is read past the tuple's end, and a
tuple with no more attributes than its relation must end where its last attribute does.

A payload lies in the slice's data as it is, or in the arena: fast defaults at its head, and after them what had to be
put together from chunks or decompressed. State between calls lives in an int64 array (ITEM ... DETAIL): a call that ran
out of arena leaves it at the item it could not finish, and can be made again with a longer one.

Kernels that take many arrays are called once per item or less: each array of an argument costs reference counting.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.catalog.pages import HEAP_HASNULL, HEAP_NATTS_MASK
from headwater.rmgr.heap import HEADER_SIZE
from headwater.rmgr.heap_layout import HEAP_HEADER_SIZE, HOFF_AT, INFOMASK_AT, SHARED_SIZE, UNLOGGED_SIZE
from headwater.rows._compression import decompress, raw_size
from headwater.rows._copy import read_u32
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.items import (
    ABSENT,
    CLEAR_TOAST,
    DELETE,
    LITERAL,
    NULL,
    PARKED,
    SHARES_OLD,
    SKIPPED,
    TEXT,
    TOAST,
    UNCHANGED,
    UNKNOWN,
    Items,
)
from headwater.rows.tuples._toast import Pending, append_chunk, find, reassemble, reset, value_size

DONE, NEED_ARENA = 0, -4
BAD_TUPLE, BAD_VARLENA, TRAILING_BYTES, BAD_COMPRESSED = -7, -8, -9, -10
CHUNKS_MISSING, BAD_LAYOUT, BAD_KIND = -11, -12, -13
"""Statuses, together with CHUNK_MALFORMED and CHUNK_ORDER of ``_toast``."""

ITEM, CELL, ARENA_END, TXN, COLUMN, DETAIL, STATE_SIZE = 0, 1, 2, 3, 4, 5, 8
"""Indexes into the state: next item, next cell, used arena, transaction of the chunks, and where an error is."""

LENGTH, ALIGN_MASK, DROPPED, MISSING_AT, MISSING_END, COLUMN_FIELDS = 0, 1, 2, 3, 4, 5
"""Fields of a column (SliceLayouts.columns)."""

IN_ARENA = 4
"""Kind of a cell whose payload lies in the arena; those in data are TEXT at once."""

COMPRESSED, EXTERNAL = 5, 6
"""Kinds of cells that still have to be unpacked."""

_NOT_PENDING = -1000
_VARTAG_ONDISK = 18
_POINTER_AT, _EXTERNAL_SIZE = 2, 18
"""A value out of line: a byte that says so, its VARTAG, and from there on the pointer (varatt_external)."""

CellArrays: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
"""Per cell its kind, its payload's offset and length, and its column."""


@inline_kernel
def varlena(data: Bytes, at: Int, end: Int) -> tuple[Int, Int, Int, Int]:
    """Take a varlena's header off; (kind of cell or BAD_VARLENA, payload's offset, its length, datum's end)."""
    head = np.int64(data[at])
    if head & 1 and head != 1:
        size = head >> 1
        if at + size <= end:
            return TEXT, at + 1, size - 1, at + size
    elif head == 1:
        if at + _EXTERNAL_SIZE <= end and data[at + 1] == _VARTAG_ONDISK:
            return EXTERNAL, at + _POINTER_AT, _EXTERNAL_SIZE - _POINTER_AT, at + _EXTERNAL_SIZE
    elif at + 4 <= end:
        size = read_u32(data, at) >> 2
        if size >= 4 and at + size <= end:
            return (COMPRESSED if head & 2 else TEXT), at + 4, size - 4, at + size
    return BAD_VARLENA, at, 0, at


@inline_kernel
def tuple_header(data: Bytes, at: Int, length: Int) -> tuple[Int, Int]:
    """Check a tuple's header; (bytes of its null bitmap, 0 without nulls, or BAD_TUPLE; attributes stored)."""
    if at < 0 or length < HEAP_HEADER_SIZE or at + length > len(data):
        return BAD_TUPLE, 0
    stored = (np.int64(data[at]) | np.int64(data[at + 1]) << 8) & HEAP_NATTS_MASK
    bitmap = (stored + 7) >> 3 if data[at + INFOMASK_AT] & HEAP_HASNULL else 0
    hoff = np.int64(data[at + HOFF_AT])
    if hoff & 7 or hoff < HEADER_SIZE + bitmap or hoff - UNLOGGED_SIZE > length:
        return BAD_TUPLE, stored
    return bitmap, stored


@inline_kernel
def has_value(data: Bytes, at: Int, bitmap: Int, k: Int) -> bool:
    """Tell whether an attribute that a tuple stores is not null.

    The arguments are as :func:`tuple_header` returns them.
    """
    return bool(bitmap == 0 or data[at + HEAP_HEADER_SIZE + (k >> 3)] >> (k & 7) & 1)


@inline_kernel
def _not_stored(columns: NDArray[np.int64], column: Int) -> tuple[Int, Int, Int]:
    """Return kind, payload and length of a column that came after the tuple was written: its fast default, or NULL."""
    start = columns[column, MISSING_AT]
    if start < 0:
        return NULL, start, np.int64(0)
    return IN_ARENA, start, columns[column, MISSING_END] - start


@inline_kernel
def next_attribute(
    data: Bytes, columns: NDArray[np.int64], column: Int, origin: Int, off: Int, end: Int
) -> tuple[Int, Int, Int, Int]:
    """Find the next attribute of a tuple at ``data[origin:end]``, from ``off`` on; see :func:`varlena`."""
    size = columns[column, LENGTH]
    if size > 0 or off >= end or data[off] == 0:
        mask = columns[column, ALIGN_MASK]
        off = origin + ((off - origin + mask) & ~mask)
    if size > 0:
        return TEXT, off, size, off + size
    return varlena(data, off, end) if off < end else (BAD_VARLENA, off, 0, off)


@inline_kernel
def _walk(
    data: Bytes,
    at: Int,
    length: Int,
    columns: NDArray[np.int64],
    base: Int,
    natts: Int,
    kinds: NDArray[np.uint8],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int32],
    cell: Int,
) -> tuple[Int, Int]:
    """Find the attributes of one tuple.

    Args:
        data: uint8[].
        at: offset of the tuple's ``xl_heap_header``.
        length: bytes, header included.
        columns: int64[c, COLUMN_FIELDS].
        base: the relation's first column.
        natts: number of its columns.
        kinds: uint8[m] gets the cells' kinds, those still to unpack included.
        starts: int64[m] gets the payloads' offsets in data (or in the arena).
        sizes: int32[m] gets their lengths.
        cell: the tuple's first cell.

    Returns:
        (1 if cells have to be unpacked, else 0, or a status; the column the status is about or -1).
    """
    bitmap, stored = tuple_header(data, at, length)
    if bitmap < 0:
        return BAD_TUPLE, -1
    end, origin = at + length, at - UNLOGGED_SIZE + np.int64(data[at + HOFF_AT])
    off, unusual = origin, 0
    for k in range(natts):
        kind, start, size = NULL, 0, 0
        if k >= stored:
            kind, start, size = _not_stored(columns, base + k)
        elif has_value(data, at, bitmap, k):
            kind, start, size, off = next_attribute(data, columns, base + k, origin, off, end)
            if off > end or kind < 0:
                return BAD_VARLENA, base + k
            unusual |= kind > TEXT
        if columns[base + k, DROPPED]:
            kind = ABSENT
        kinds[cell + k], starts[cell + k], sizes[cell + k] = kind, start, size
    if off != end and stored <= natts:
        return TRAILING_BYTES, -1
    return unusual, -1


@inline_kernel
def _in_the_middle(low: Int, high: Int, off: Int, size: Int) -> bool:
    return bool(size >= 0 and off >= low and off + size <= high)


@inline_kernel
def _shared_attribute(
    data: Bytes, columns: NDArray[np.int64], column: Int, origin: Int, low: Int, high: Int, off: Int
) -> tuple[Int, Int, Int, Int]:
    """Find the next attribute of a tuple of which ``data[origin:]`` has the bytes from ``low`` to ``high`` only.

    Returns:
        its kind, UNKNOWN if it is not whole; where its payload lies; its bytes; and the offset after it, -1 if that is
        not known.
    """
    size, mask = columns[column, LENGTH], columns[column, ALIGN_MASK]
    unknown = np.int64(UNKNOWN), np.int64(0), np.int64(0)
    if off < 0:
        return (*unknown, np.int64(-1))
    if size > 0:
        off = (off + mask) & ~mask
        if _in_the_middle(low, high, off, size):
            return np.int64(TEXT), origin + off, size, off + size
        return (*unknown, off + size)
    if not _in_the_middle(low, high, off, 1):
        return (*unknown, np.int64(-1))
    if data[origin + off] == 0:
        off = (off + mask) & ~mask
    if not _in_the_middle(low, high, off, 1):
        return (*unknown, np.int64(-1))
    kind, start, length, end = varlena(data, origin + off, origin + high)
    if kind >= 0:
        return np.int64(kind), start, length, end - origin
    # Its end is not among the known bytes, but its length may be.
    head = np.int64(data[origin + off])
    if head & 1 and head != 1:
        return (*unknown, off + (head >> 1))
    if head != 1 and off + 4 <= high:
        return (*unknown, off + (read_u32(data, origin + off) >> 2))
    return (*unknown, np.int64(-1))


@inline_kernel
def _walk_shared(
    data: Bytes,
    at: Int,
    length: Int,
    columns: NDArray[np.int64],
    base: Int,
    natts: Int,
    kinds: NDArray[np.uint8],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int32],
    cell: Int,
) -> tuple[Int, Int]:
    """Walk as :func:`_walk` a tuple that lacks bytes at either end (SHARES_OLD).

    Attributes that are not whole in the middle are UNKNOWN. Offsets are those of the whole tuple, from ``t_hoff`` on.
    Where a length lies in unknown bytes, all after it is unknown, but for columns of fixed length that end the tuple.
    """
    if length < SHARED_SIZE or at < 0 or at + length > len(data):
        return BAD_TUPLE, -1
    prefix = np.int64(data[at]) | np.int64(data[at + 1]) << 8
    suffix = np.int64(data[at + 2]) | np.int64(data[at + 3]) << 8
    at, end = at + SHARED_SIZE, at + length
    bitmap, stored = tuple_header(data, at, end - at)
    if bitmap < 0:
        return BAD_TUPLE, -1
    # The byte at offset x of the whole tuple's columns lies at data[origin + x], if low <= x < high.
    origin = at - UNLOGGED_SIZE + np.int64(data[at + HOFF_AT]) - prefix
    low, high = prefix, end - origin
    off, unusual, lost = np.int64(0), 0, natts
    for k in range(natts):
        kind, start, size = NULL, np.int64(0), np.int64(0)
        if k >= stored:
            kind, start, size = _not_stored(columns, base + k)
        elif has_value(data, at, bitmap, k):
            kind, start, size, off = _shared_attribute(data, columns, base + k, origin, low, high, off)
            unusual |= kind > TEXT and kind != UNKNOWN
            if off < 0 and lost == natts:
                lost = k
        kinds[cell + k], starts[cell + k], sizes[cell + k] = kind, start, size
    total, next_mask = high + suffix, np.int64(0)
    for k in range(min(natts, stored) - 1, lost, -1):
        size, mask = columns[base + k, LENGTH], columns[base + k, ALIGN_MASK]
        if kinds[cell + k] != UNKNOWN:
            continue
        # Bytes between a column and the next one are the next one's alignment.
        if stored > natts or size <= 0 or mask < next_mask:
            break
        total = (total - size) & ~mask
        next_mask = mask
        if _in_the_middle(low, high, total, size):
            kinds[cell + k], starts[cell + k], sizes[cell + k] = TEXT, origin + total, size
    for k in range(natts):
        if columns[base + k, DROPPED]:
            kinds[cell + k] = ABSENT
    return unusual, -1


@borrowing_kernel
def _unpack(data: Bytes, at: Int, length: Int, arena: Bytes, state: NDArray[np.int64]) -> Int:
    """Decompress a payload into the arena; bytes written or a status."""
    raw = raw_size(data, at, length)
    if raw < 0:
        return BAD_COMPRESSED
    o = state[ARENA_END]
    if o + raw > len(arena):
        state[DETAIL] = o + raw
        return NEED_ARENA
    return raw if decompress(data, at, length, arena, o) == o + raw else BAD_COMPRESSED


@borrowing_kernel
def _fetch(data: Bytes, at: Int, pending: Pending, arena: Bytes, state: NDArray[np.int64]) -> Int:
    """Put the value of the TOAST pointer at ``data[at:]`` together in the arena.

    Returns:
        Bytes written from ``state[ARENA_END]`` on, or a status; _NOT_PENDING.
    """
    index, _ = find(pending, read_u32(data, at + 8))
    if index < 0:
        return _NOT_PENDING
    raw, stored = read_u32(data, at) - 4, read_u32(data, at + 4) & 0x3FFFFFFF
    size = value_size(pending, index)
    if stored != size or stored > raw:
        state[DETAIL], state[DETAIL + 1], state[DETAIL + 2] = size, read_u32(data, at + 8), stored
        return CHUNKS_MISSING
    o = state[ARENA_END]
    if o + stored > len(arena):
        state[DETAIL] = o + stored
        return NEED_ARENA
    reassemble(data, pending, index, arena, o)
    if stored == raw:
        return raw
    if raw_size(arena, o, stored) != raw:
        return BAD_COMPRESSED
    state[ARENA_END] = o + stored
    return _unpack(arena, o, stored, arena, state)


@borrowing_kernel
def _settle(
    data: Bytes,
    is_new: bool,
    pending: Pending,
    cells: CellArrays,
    first: Int,
    natts: Int,
    arena: Bytes,
    state: NDArray[np.int64],
) -> Int:
    """Unpack the cells of a tuple that need it; DONE, or a status with the attribute in ``state[COLUMN]``."""
    kinds, starts, sizes, _ = cells
    for cell in range(first, first + natts):
        if kinds[cell] == COMPRESSED:
            size = _unpack(data, starts[cell], np.int64(sizes[cell]), arena, state)
        elif kinds[cell] == EXTERNAL:
            size = _fetch(data, starts[cell], pending, arena, state) if is_new else _NOT_PENDING
        else:
            continue
        if size == _NOT_PENDING:
            kinds[cell], starts[cell], sizes[cell] = UNCHANGED, 0, 0
        elif size < 0:
            state[COLUMN] = cell - first
            return size
        else:
            kinds[cell], starts[cell], sizes[cell] = IN_ARENA, state[ARENA_END], size
            state[ARENA_END] += size
    return DONE


@inline_kernel
def _check_item(kind: Int, layout: Int, layouts: Int) -> Int:
    """Return DONE for an item that :func:`locate` knows, of a TOAST row or of one of so many layouts; else a status."""
    if kind == 0 or (kind > LITERAL and kind != TOAST and kind != SKIPPED and kind != PARKED):
        return BAD_KIND
    return BAD_LAYOUT if kind <= DELETE and (layout < 0 or layout >= layouts) else DONE


@inline_kernel
def _locate_tuple(
    data: Bytes,
    at: Int,
    length: Int,
    is_new: bool,
    shares: bool,
    relation: tuple[NDArray[np.int64], NDArray[np.int64], Int],
    pending: Pending,
    cells: CellArrays,
    cell: Int,
    arena: Bytes,
    state: NDArray[np.int64],
) -> tuple[Int, Int, Int]:
    """Find the payloads of one tuple.

    Args:
        data: uint8[] the slice's bytes.
        at: offset of the tuple's ``xl_heap_header``.
        length: bytes, header included.
        is_new: it is an item's new tuple: the values of its TOAST pointers are put together.
        shares: it lacks bytes at its ends (SHARES_OLD).
        relation: the slice's first_column and columns, and the tuple's layout.
        pending: chunks that wait.
        cells: see :func:`locate`.
        cell: the tuple's first cell.
        arena: see :func:`locate`.
        state: see :func:`locate`.

    Returns:
        (DONE or a status, the column the status is about or -1, the cell after the tuple's last).
    """
    kinds, starts, sizes, owners = cells
    first_column, columns, layout = relation
    base, natts = first_column[layout], first_column[layout + 1] - first_column[layout]
    if shares:
        status, column = _walk_shared(data, at, length, columns, base, natts, kinds, starts, sizes, cell)
    else:
        status, column = _walk(data, at, length, columns, base, natts, kinds, starts, sizes, cell)
    if status > 0:
        status = _settle(data, is_new, pending, cells, cell, natts, arena, state)
        column = base + state[COLUMN]
    for k in range(natts):
        owners[cell + k] = base + k
    return status, column, cell + natts


@borrowing_kernel
def locate(
    data: Bytes,
    items: Items,
    first_column: NDArray[np.int64],
    columns: NDArray[np.int64],
    pending: Pending,
    new_first: NDArray[np.int64],
    old_first: NDArray[np.int64],
    cells: CellArrays,
    arena: Bytes,
    state: NDArray[np.int64],
) -> Int:
    """Find the payloads of the tuples of the items from ``state[ITEM]`` on, an item's old tuple before its new one.

    Args:
        data: uint8[] the slice's bytes.
        items: n items.
        first_column: int64[l+1] see SliceLayouts.
        columns: int64[c, COLUMN_FIELDS].
        pending: chunks that wait, as an earlier call left them.
        new_first, old_first: int64[n] see Cells.
        cells: per cell its kind uint8[m], payload's offset int64[m] and length int32[m], and column int32[m].
        arena: uint8[] begins with the fast defaults, ``state[ARENA_END]`` bytes are used.
        state: int64[STATE_SIZE].

    Returns:
        DONE, NEED_ARENA (make the arena ``state[DETAIL]`` long and call again), or the status of an error at item
        ``state[ITEM]``, column ``state[COLUMN]`` (-1: none in particular).
    """
    for item in range(state[ITEM], len(items.kind)):
        kind, layout, txn = items.kind[item], items.layout[item], np.int64(items.txn[item])
        cell, arena_end = state[CELL], state[ARENA_END]
        status, column = _check_item(kind, layout, len(first_column) - 1), -1
        new_first[item] = old_first[item] = -1
        if txn != state[TXN]:
            reset(pending)
            state[TXN] = txn
        if kind == TOAST:
            status = append_chunk(data, items.new_at[item], np.int64(items.new_len[item]), pending, state[DETAIL:])
        elif kind <= DELETE:
            for is_new in range(2):
                at = items.new_at[item] if is_new else items.old_at[item]
                length = items.new_len[item] if is_new else items.old_len[item]
                if at == -1 or status < 0:
                    continue
                if is_new:
                    new_first[item] = cell
                else:
                    old_first[item] = cell
                shares, relation = bool(is_new and items.flags[item] & SHARES_OLD), (first_column, columns, layout)
                status, column, cell = _locate_tuple(
                    data, at, length, is_new == 1, shares, relation, pending, cells, cell, arena, state
                )
        if status < 0:
            state[ITEM], state[COLUMN], state[ARENA_END] = item, column, arena_end
            return status
        state[CELL] = cell
        if items.flags[item] & CLEAR_TOAST:
            reset(pending)
    return DONE


@borrowing_kernel
def count_cells(items: Items, first_column: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """Count the cells and chunk rows that the items will need (counts int64[2])."""
    kind, item_layout, new_at, old_at = items.kind, items.layout, items.new_at, items.old_at
    for item in range(len(kind)):
        layout = item_layout[item]
        if kind[item] == TOAST:
            counts[1] += 1
        elif kind[item] <= DELETE and 0 <= layout < len(first_column) - 1:
            natts = first_column[layout + 1] - first_column[layout]
            counts[0] += natts * (np.int64(new_at[item] != -1) + np.int64(old_at[item] != -1))
