"""Kernels that tell which tuples of a heap page are visible at an LSN.

PostgreSQL: HeapTupleSatisfiesMVCC (heapam_visibility.c). Goes through the events of a page
(:mod:`headwater.existing._page_history`), from its image in the log or in the backup on. Keeps by offset number where a
tuple lies and whether it is visible. Pages are not redone byte by byte.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.catalog.pages import (
    HEAP_XMAX_COMMITTED,
    HEAP_XMAX_EXCL_LOCK,
    HEAP_XMAX_INVALID,
    HEAP_XMAX_IS_MULTI,
    HEAP_XMAX_KEYSHR_LOCK,
    HEAP_XMAX_LOCK_ONLY,
    HEAP_XMIN_COMMITTED,
    HEAP_XMIN_FROZEN,
    HEAP_XMIN_INVALID,
    PAGE_VERSION,
)
from headwater.existing._page_history import (
    AT,
    DONE,
    INSERTED,
    KIND,
    LENGTH,
    LSN,
    OFFNUM,
    PAGE_IMAGE,
    REMOVED,
    RESET,
    XID,
    Bytes,
    Int64s,
)
from headwater.rmgr._record import Int, u16, u32
from headwater.rmgr.heap_layout import HEAP_HEADER_SIZE, MOST_TUPLES, UNLOGGED_SIZE
from headwater.rows._copy import copy
from headwater.rows.collect._page_tuples import LOWER_AT, NORMAL, PAGE, POINTERS_AT

_LSN_AT, _UPPER_AT, _SPECIAL_AT, _VERSION_AT = 0, 14, 16, 18
_XMIN_AT, _XMAX_AT, _INFOMASK_AT = 0, 4, 20
_MOVED = 0xC000
_NONE, _FROZEN = 0, 2
_HALF = 0x80000000


class Fates(NamedTuple):
    """The outcome of transactions up to an LSN.

    Attributes:
        status: uint8[] two bits a transaction, as in ``pg_xact``.
        oldest: xid of the first; count: how many there are.
        lost: int64[g, 2] first and last of those that ``pg_xact`` should have and does not, counted from the oldest.
        multis: int64[m] sorted multixacts; updaters: int64[m] the xid that has updated with each, 0 for none.
    """

    status: Bytes
    oldest: Int
    count: Int
    lost: Int64s
    multis: Int64s
    updaters: Int64s


VISIBLE, GONE, UNKNOWN_XID, UNKNOWN_MULTI = 1, 0, -1, -2


@inline_kernel
def _is_lost(number: Int, fates: Fates) -> bool:
    """Tell whether ``pg_xact`` should have a transaction and does not."""
    is_in_gap = False
    for gap in range(len(fates.lost)):
        is_in_gap |= fates.lost[gap, 0] <= number < fates.lost[gap, 1]
    return is_in_gap


@inline_kernel
def _committed(xid: Int, fates: Fates) -> Int:
    """Return 1 if a transaction has committed, 0 if not (yet), UNKNOWN_XID if ``pg_xact`` does not know it any more."""
    if xid <= _FROZEN:
        return np.int64(xid != _NONE)
    number = (xid - fates.oldest) & 0xFFFFFFFF
    if number >= fates.count:
        return np.int64(UNKNOWN_XID if number >= _HALF else 0)
    status = (fates.status[number >> 2] >> (2 * (number & 3))) & 3
    if status == 0 and _is_lost(number, fates):
        return np.int64(UNKNOWN_XID)
    return np.int64(status == 1)


@inline_kernel
def _updater(multi: Int, fates: Fates) -> Int:
    """Return the transaction that has updated with a multixact, 0 for none, or UNKNOWN_MULTI."""
    at = np.searchsorted(fates.multis, multi)
    if at < len(fates.multis) and fates.multis[at] == multi:
        return fates.updaters[at]
    return np.int64(UNKNOWN_MULTI)


@inline_kernel
def _deleted(xmax: Int, mask: Int, fates: Fates) -> Int:
    """Tell whether a tuple was deleted by a transaction that has committed: 1, 0 or an UNKNOWN status."""
    if xmax == 0 or mask & HEAP_XMAX_INVALID or mask & HEAP_XMAX_LOCK_ONLY:
        return np.int64(0)
    kinds = HEAP_XMAX_IS_MULTI | HEAP_XMAX_EXCL_LOCK | HEAP_XMAX_KEYSHR_LOCK
    if mask & kinds == HEAP_XMAX_EXCL_LOCK:
        return np.int64(0)
    if mask & HEAP_XMAX_IS_MULTI:
        updater = _updater(xmax, fates)
        return updater if updater < 0 else _committed(updater, fates)
    return np.int64(1) if mask & HEAP_XMAX_COMMITTED else _committed(xmax, fates)


@inline_kernel
def _visible(xmin: Int, xmax: Int, mask: Int, fates: Fates) -> Int:
    """Tell whether a tuple of a page is visible: VISIBLE, GONE or an UNKNOWN status."""
    bits = mask & HEAP_XMIN_FROZEN
    if bits == HEAP_XMIN_INVALID:
        return np.int64(GONE)
    born = np.int64(1) if bits & HEAP_XMIN_COMMITTED else _committed(xmin, fates)
    if born <= 0:
        return born
    died = _deleted(xmax, mask, fates)
    return died if died < 0 else np.int64(1) - died


@inline_kernel
def _unknown_xid(xmin: Int, xmax: Int, mask: Int, fates: Fates) -> Int:
    """Return the transaction of which a tuple's visibility is not known."""
    if not mask & HEAP_XMIN_COMMITTED and _committed(xmin, fates) == UNKNOWN_XID:
        return xmin
    return _updater(xmax, fates) if mask & HEAP_XMAX_IS_MULTI else xmax


class Slots(NamedTuple):
    """The tuples of one page, by offset number.

    Attributes:
        at, length: int64[MOST_TUPLES] where each lies, from its ``xl_heap_header`` on; a length of 0 for none.
        is_visible: uint8[MOST_TUPLES].
    """

    at: Int64s
    length: Int64s
    is_visible: Bytes


class Seen(NamedTuple):
    """The tuples that :func:`visible_tuples` has found, and where it stands.

    Attributes:
        at, length, tid: int64[capacity] of visible tuples: where each lies, its bytes, block and offset number.
        multis: int64[capacity] multixacts that are not known.
        state: int64[8] see below.
    """

    at: Int64s
    length: Int64s
    tid: Int64s
    multis: Int64s
    state: Int64s


TUPLES, UNKNOWN_MULTIS, BAD_BLOCK, BAD_VALUE = range(4)
"""Indexes into :attr:`Seen.state`."""

FULL, BAD_PAGE, YOUNG_PAGE, LOST_XID, NO_TUPLE, OLD_TUPLE = -1, 1, 2, 3, 4, 5
"""Statuses of :func:`visible_tuples`."""


@inline_kernel
def _is_new(data: Bytes, base: Int) -> bool:
    """Tell whether a page has been allocated only: all of it is zeros (PageIsVerified)."""
    return not data[base : base + PAGE].any()


@inline_kernel
def _is_sound(data: Bytes, base: Int) -> bool:
    """Tell whether a page's header is one (PageIsVerified)."""
    lower, upper, special = u16(data, base + LOWER_AT), u16(data, base + _UPPER_AT), u16(data, base + _SPECIAL_AT)
    if u16(data, base + _VERSION_AT) != PAGE_VERSION or lower < POINTERS_AT:
        return False
    return bool(lower <= upper and upper <= special and special <= PAGE)


@inline_kernel
def _load(data: Bytes, base: Int, fates: Fates, slots: Slots, seen: Seen) -> tuple[Int, Int]:
    """Load the tuples of a page at ``data[base:]``; return a status, and the highest offset number."""
    lower = u16(data, base + LOWER_AT)
    slots.length[:] = 0
    if lower == 0 and _is_new(data, base):
        return np.int64(DONE), np.int64(0)
    if not _is_sound(data, base):
        return np.int64(BAD_PAGE), np.int64(0)
    count = (lower - POINTERS_AT) // 4
    if count >= MOST_TUPLES:
        return np.int64(BAD_PAGE), np.int64(0)
    for offnum in range(1, count + 1):
        item = u32(data, base + POINTERS_AT + 4 * (offnum - 1))
        if item >> 15 & 3 != NORMAL:
            continue
        start, length = item & 0x7FFF, item >> 17
        if start < lower or length < UNLOGGED_SIZE + HEAP_HEADER_SIZE or start + length > PAGE:
            return np.int64(BAD_PAGE), np.int64(0)
        at = base + start
        mask = u16(data, at + _INFOMASK_AT)
        if mask & _MOVED:
            return np.int64(OLD_TUPLE), np.int64(0)
        xmin, xmax = u32(data, at + _XMIN_AT), u32(data, at + _XMAX_AT)
        visibility = _visible(xmin, xmax, mask, fates)
        if visibility == UNKNOWN_XID:
            seen.state[BAD_VALUE] = _unknown_xid(xmin, xmax, mask, fates)
            return np.int64(LOST_XID), np.int64(0)
        if visibility == UNKNOWN_MULTI and seen.state[UNKNOWN_MULTIS] < len(seen.multis):
            seen.multis[seen.state[UNKNOWN_MULTIS]] = xmax
            seen.state[UNKNOWN_MULTIS] += 1
        slots.at[offnum], slots.length[offnum] = at + UNLOGGED_SIZE, length - UNLOGGED_SIZE
        slots.is_visible[offnum] = visibility == VISIBLE
    return np.int64(DONE), count


@inline_kernel
def _replay(events: Int64s, n: Int, payload_at: Int, fates: Fates, slots: Slots, seen: Seen) -> Int:
    """Take one event of a tuple."""
    kind, offnum, xid = events[n, KIND], events[n, OFFNUM], events[n, XID]
    if offnum < 1 or offnum >= MOST_TUPLES:
        return BAD_PAGE
    committed = _committed(xid, fates)
    if committed == UNKNOWN_XID:
        seen.state[BAD_VALUE] = xid
        return LOST_XID
    if kind == INSERTED:
        slots.at[offnum], slots.length[offnum] = payload_at + events[n, AT], events[n, LENGTH]
        slots.is_visible[offnum] = committed == 1
    elif slots.length[offnum] == 0:
        seen.state[BAD_VALUE] = events[n, LSN]
        return NO_TUPLE
    elif kind == REMOVED or committed == 1:
        slots.is_visible[offnum] = 0
    return DONE


@inline_kernel
def _begin_page(
    data: Bytes,
    base: Int,
    payload_at: Int,
    events: Int64s,
    lo: Int,
    hi: Int,
    limit: Int,
    fates: Fates,
    slots: Slots,
    seen: Seen,
) -> tuple[Int, Int]:
    """Load the tuples that a page's events ``[lo, hi)`` begin with; return a status, and the highest offset number."""
    if lo < hi and events[lo, KIND] == PAGE_IMAGE:
        return _load(data, payload_at + events[lo, AT], fates, slots, seen)
    if lo < hi and events[lo, KIND] == RESET:
        slots.length[:] = 0
        return np.int64(DONE), np.int64(0)
    lsn = u32(data, base + _LSN_AT) << 32 | u32(data, base + _LSN_AT + 4)
    if lsn > (events[lo, LSN] if lo < hi else limit):
        seen.state[BAD_VALUE] = lsn
        return np.int64(YOUNG_PAGE), np.int64(0)
    return _load(data, base, fates, slots, seen)


@inline_kernel
def _tell(first_tid: Int, most: Int, slots: Slots, seen: Seen) -> None:
    """Add the visible tuples of a page; there is room."""
    tuples = seen.state[TUPLES]
    for offnum in range(1, most + 1):
        if slots.length[offnum] > 0 and slots.is_visible[offnum]:
            seen.at[tuples], seen.length[tuples] = slots.at[offnum], slots.length[offnum]
            seen.tid[tuples] = first_tid + offnum
            tuples += 1
    seen.state[TUPLES] = tuples


@borrowing_kernel
def visible_tuples(
    data: Bytes,
    first_block: Int,
    pages: Int,
    starts: Int64s,
    events: Int64s,
    limit: Int,
    fates: Fates,
    slots: Slots,
    seen: Seen,
) -> Int:
    """Find the tuples of some pages that are visible.

    Args:
        data: uint8[] the pages as the backup has them, and after them the payload of the events.
        first_block: number of the first page; pages: how many there are.
        starts: int64[pages + 1] the events of each page, from its last image on.
        events: int64[e, COLUMNS].
        limit: LSN that no page of the backup is younger than.
        fates: what became of transactions.
        slots: scratch.
        seen: gets the tuples.

    Returns:
        DONE, FULL, or what is wrong with page ``seen.state[BAD_BLOCK]``.
    """
    payload_at = pages * PAGE
    for page in range(pages):
        lo, hi = starts[page], starts[page + 1]
        seen.state[BAD_BLOCK] = first_block + page
        status, most = _begin_page(data, page * PAGE, payload_at, events, lo, hi, limit, fates, slots, seen)
        if lo < hi and events[lo, KIND] in (PAGE_IMAGE, RESET):
            lo += 1
        for n in range(lo, hi):
            if status != DONE:
                break
            status = _replay(events, n, payload_at, fates, slots, seen)
            most = max(most, events[n, OFFNUM])
        if status != DONE:
            return status
        if seen.state[TUPLES] + most > len(seen.at):
            return np.int64(FULL)
        _tell((first_block + page) * MOST_TUPLES, most, slots, seen)
    return np.int64(DONE)


@borrowing_kernel
def gather(source: Bytes, at: Int64s, length: Int64s, out: Bytes, out_at: Int64s) -> None:
    """Copy pieces of one array to places in another; whoever calls has seen that they fit."""
    for i in range(len(at)):
        copy(source, at[i], out, out_at[i], length[i])
