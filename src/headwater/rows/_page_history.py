"""Kernels: what the log did to heap pages of some files, and which tuples of such a page are visible at an LSN.

PostgreSQL: heap_redo and heap2_redo (heapam.c, 18: heapam_xlog.c), HeapTupleSatisfiesMVCC (heapam_visibility.c).

The first pass turns records into *events* of pages. The second goes through the events of a page, from its image in
the log or in the backup on, and keeps by offset number where a tuple lies and whether it is visible. Pages are not
redone byte by byte: what only moves or removes tuples that nobody sees (prune, vacuum, freeze, locks, hint bits) is
passed over, as a line pointer is used again only when no transaction could see what was there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from headwater.kernels import borrowing_kernel, inline_kernel
from headwater.rmgr import heap, heap2, multixact, smgr
from headwater.rmgr._locators import find_locator
from headwater.rmgr._record import Int, parse_headers, u16, u32
from headwater.rmgr.header_slots import (
    BLOCK,
    BLOCKS,
    DATA_AT,
    DATA_LENGTH,
    DB,
    FORK,
    IMAGE,
    MAIN_AT,
    MAIN_LENGTH,
    PAYLOAD_AT,
    REL,
    SPC,
)
from headwater.rmgr.heap_layout import (
    DELETE_FLAGS_AT,
    DELETE_OFFNUM_AT,
    DELETE_SIZE,
    HEAP_HEADER_SIZE,
    INSERT_SIZE,
    MULTI_INSERT_COUNT_AT,
    MULTI_INSERT_SIZE,
    MULTI_TUPLE_SIZE,
    NEW_OFFNUM_AT,
    OLD_OFFNUM_AT,
    UNLOGGED_SIZE,
    UPDATE_FLAGS_AT,
    UPDATE_SIZE,
)
from headwater.rmgr.registry import HEAP, HEAP2, MULTIXACT, SMGR
from headwater.rows._copy import copy
from headwater.rows._page_tuples import LOWER_AT, NORMAL, PAGE, POINTERS_AT
from headwater.wal.record_layout import BKPIMAGE_HAS_HOLE, INFO_AT, RMID_AT, XID_AT

Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

FILE, AT_BLOCK, LSN, KIND, OFFNUM, XID, AT, LENGTH, COLUMNS = range(9)
"""Columns of an event: the file's number, the page, start of the record, what happened, to which line pointer, by
which transaction; where the page's image, or the new tuple from its ``xl_heap_header`` on, lies in the payload, and its
bytes."""

RESET, PAGE_IMAGE, INSERTED, DELETED, REMOVED = range(5)
"""Kinds: the page is made anew; comes whole; a tuple comes, goes, or goes whatever becomes of the transaction."""

DONE, NEED_EVENTS, NEED_PAYLOAD, NEED_IMAGE, MALFORMED, SHARES_OLD = 0, -1, -2, -3, 1, 2
"""Statuses of :func:`collect_history`."""

RECORD, EVENTS, USED, CUTS, MULTIS, IMAGES_DONE, STATE_SIZE = range(7)
"""Indexes into its state; IMAGES_DONE is 1 if the record's images are in the payload already."""

MOST_TUPLES = 2048
"""Offset numbers of a page are smaller (MaxOffsetNumber)."""

_LSN_AT, _VERSION_AT = 0, 18
_XMIN_AT, _XMAX_AT, _INFOMASK_AT, _HOFF_AT = 0, 4, 20, 22
_MOVED = 0xC000
_FIRST_UPDATE_STATUS = 4
_NONE, _FROZEN = 0, 2
_HALF = 0x80000000


class WantedFiles(NamedTuple):
    """Which files' pages are followed.

    Attributes:
        files: int64[3, k] tablespace, database, file number; slots: int32[] their hash.
        applied, compressed: bits of ``bimg_info``: redo restores an image; it is compressed.
        multi_at: where ``nmembers`` lies in a record of a new multixact.
    """

    files: Int64s
    slots: Int32s
    applied: Int
    compressed: Int
    multi_at: Int


@inline_kernel
def _event(events: Int64s, state: Int64s, file: Int, block: Int, lsn: Int, kind: Int, offnum: Int, xid: Int) -> Int:
    n = state[EVENTS]
    state[EVENTS] = n + 1
    events[n, FILE], events[n, AT_BLOCK], events[n, LSN], events[n, KIND] = file, block, lsn, kind
    events[n, OFFNUM], events[n, XID], events[n, AT], events[n, LENGTH] = offnum, xid, -1, 0
    return n


@inline_kernel
def _tuple(data: Bytes, at: Int, length: Int, payload: Bytes, events: Int64s, state: Int64s, n: Int) -> None:
    """Copy the tuple of event ``n``; there is room for all of its record."""
    used = state[USED]
    events[n, AT], events[n, LENGTH] = used, length
    state[USED] = copy(data, at, payload, used, length)


@inline_kernel
def _is_followed(headers: Int64s, slot: Int, wanted: WantedFiles) -> Int:
    """The number of a block's file, -1 if it is not a page of the main fork of one that is wanted."""
    if headers[slot + FORK] != 0:
        return np.int64(-1)
    return find_locator(headers[slot + SPC], headers[slot + DB], headers[slot + REL], wanted.files, wanted.slots)


@inline_kernel
def _plain_image(data: Bytes, at: Int, stored: Int, info: Int, payload: Bytes, used: Int) -> bool:
    """Write an image that is not compressed as a whole page; its hole is what the page's header says."""
    hole = PAGE - stored
    if hole == 0:
        copy(data, at, payload, used, PAGE)
        return True
    if not info & BKPIMAGE_HAS_HOLE or stored < POINTERS_AT or hole < 0:
        return False
    lower = u16(data, at + LOWER_AT)
    if lower < POINTERS_AT or lower > stored or u16(data, at + LOWER_AT + 2) != lower + hole:
        return False
    copy(data, at, payload, used, lower)
    payload[used + lower : used + lower + hole] = 0
    copy(data, at + lower, payload, used + lower + hole, stored - lower)
    return True


@inline_kernel
def _images(
    data: Bytes,
    lsn: Int,
    blocks: Int,
    wanted: WantedFiles,
    headers: Int64s,
    payload: Bytes,
    events: Int64s,
    state: Int64s,
) -> Int:
    """The images of a record that redo restores; NEED_IMAGE if one must be unpacked elsewhere."""
    start, used, first = headers[PAYLOAD_AT], state[USED], state[EVENTS]
    for block in range(blocks):
        slot = BLOCKS + 8 * block
        info, stored = headers[slot + IMAGE], headers[slot + DATA_AT] - start
        at, start = start, headers[slot + DATA_AT] + headers[slot + DATA_LENGTH]
        if info < 0 or not info & wanted.applied:
            continue
        file = _is_followed(headers, slot, wanted)
        if file < 0:
            continue
        n = _event(events, state, file, headers[slot + BLOCK], lsn, PAGE_IMAGE, 0, 0)
        events[n, AT], events[n, LENGTH] = state[USED], PAGE
        if not state[IMAGES_DONE] and (
            info & wanted.compressed or not _plain_image(data, at, stored, info, payload, state[USED])
        ):
            state[USED], state[EVENTS] = used, first
            return NEED_IMAGE
        state[USED] += PAGE
    return DONE


@inline_kernel
def _has_image(headers: Int64s, slot: Int, wanted: WantedFiles) -> bool:
    return bool(headers[slot + IMAGE] >= 0 and headers[slot + IMAGE] & wanted.applied)


@inline_kernel
def _inserted(
    data: Bytes,
    lsn: Int,
    xid: Int,
    file: Int,
    offnum: Int,
    wanted: WantedFiles,
    headers: Int64s,
    payload: Bytes,
    events: Int64s,
    state: Int64s,
) -> Int:
    """The new tuple of an INSERT or UPDATE record in the data of its first block, unless the page's image has it."""
    if _has_image(headers, BLOCKS, wanted):
        return DONE
    length = headers[BLOCKS + DATA_LENGTH]
    if length < HEAP_HEADER_SIZE:
        return MALFORMED
    n = _event(events, state, file, headers[BLOCKS + BLOCK], lsn, INSERTED, offnum, xid)
    _tuple(data, headers[BLOCKS + DATA_AT], length, payload, events, state, n)
    return DONE


@inline_kernel
def _updated(
    data: Bytes,
    lsn: Int,
    xid: Int,
    blocks: Int,
    file: Int,
    wanted: WantedFiles,
    headers: Int64s,
    payload: Bytes,
    events: Int64s,
    state: Int64s,
) -> Int:
    """An UPDATE record: the old tuple lies on the new one's page if no other one is named."""
    main = headers[MAIN_AT]
    if headers[MAIN_LENGTH] < UPDATE_SIZE:
        return MALFORMED
    old = BLOCKS + 8 * (blocks > 1)
    old_file = _is_followed(headers, old, wanted)
    if old_file >= 0:
        _event(events, state, old_file, headers[old + BLOCK], lsn, DELETED, u16(data, main + OLD_OFFNUM_AT), xid)
    if file < 0:
        return DONE
    if data[main + UPDATE_FLAGS_AT] & heap.UPDATE_SHARES_WITH_OLD and not _has_image(headers, BLOCKS, wanted):
        return SHARES_OLD
    offnum = u16(data, main + NEW_OFFNUM_AT)
    return _inserted(data, lsn, xid, file, offnum, wanted, headers, payload, events, state)


@inline_kernel
def _multi_inserted(
    data: Bytes,
    lsn: Int,
    xid: Int,
    is_init: bool,
    file: Int,
    wanted: WantedFiles,
    headers: Int64s,
    payload: Bytes,
    events: Int64s,
    state: Int64s,
) -> Int:
    """A MULTI_INSERT record; of a page that is made anew the offset numbers are not logged."""
    main = headers[MAIN_AT]
    if headers[MAIN_LENGTH] < MULTI_INSERT_SIZE:
        return MALFORMED
    if _has_image(headers, BLOCKS, wanted):
        return DONE
    count, at, length = (
        u16(data, main + MULTI_INSERT_COUNT_AT),
        headers[BLOCKS + DATA_AT],
        headers[BLOCKS + DATA_LENGTH],
    )
    if not is_init and MULTI_INSERT_SIZE + 2 * count > headers[MAIN_LENGTH]:
        return MALFORMED
    p = np.int64(0)
    for k in range(count):
        p = (p + 1) & ~1
        if p + MULTI_TUPLE_SIZE > length or p + MULTI_TUPLE_SIZE + u16(data, at + p) > length:
            return MALFORMED
        size = u16(data, at + p)
        offnum = k + 1 if is_init else u16(data, main + MULTI_INSERT_SIZE + 2 * k)
        n = _event(events, state, file, headers[BLOCKS + BLOCK], lsn, INSERTED, offnum, xid)
        _tuple(data, at + p + 2, size + HEAP_HEADER_SIZE, payload, events, state, n)
        p += MULTI_TUPLE_SIZE + size
    return DONE


@inline_kernel
def _heap_record(
    data: Bytes,
    at: Int,
    lsn: Int,
    blocks: Int,
    wanted: WantedFiles,
    headers: Int64s,
    payload: Bytes,
    events: Int64s,
    state: Int64s,
) -> Int:
    """What a record of HEAP or HEAP2 does to tuples."""
    rmid, info, xid, main = data[at + RMID_AT], data[at + INFO_AT], u32(data, at + XID_AT), headers[MAIN_AT]
    op, is_init, file = info & heap.OPMASK, bool(info & heap.INIT_PAGE), _is_followed(headers, BLOCKS, wanted)
    is_multi = rmid == HEAP2 and op == heap2.MULTI_INSERT
    is_update = rmid == HEAP and (op == heap.UPDATE or op == heap.HOT_UPDATE)
    is_insert = rmid == HEAP and op == heap.INSERT
    if is_init and file >= 0 and (is_multi or is_update or is_insert) and not _has_image(headers, BLOCKS, wanted):
        _event(events, state, file, headers[BLOCKS + BLOCK], lsn, RESET, 0, 0)
    if is_update:
        return _updated(data, lsn, xid, blocks, file, wanted, headers, payload, events, state)
    if file < 0:
        return DONE
    if is_multi:
        return _multi_inserted(data, lsn, xid, is_init, file, wanted, headers, payload, events, state)
    if is_insert:
        if headers[MAIN_LENGTH] < INSERT_SIZE:
            return MALFORMED
        return _inserted(data, lsn, xid, file, u16(data, main), wanted, headers, payload, events, state)
    if rmid == HEAP and op == heap.DELETE:
        if headers[MAIN_LENGTH] < DELETE_SIZE:
            return MALFORMED
        kind = REMOVED if data[main + DELETE_FLAGS_AT] & heap.DELETE_IS_SUPER else DELETED
        offnum = u16(data, main + DELETE_OFFNUM_AT)
        _event(events, state, file, headers[BLOCKS + BLOCK], lsn, kind, offnum, xid)
    return DONE


@inline_kernel
def _storage_record(
    data: Bytes, info: Int, lsn: Int, wanted: WantedFiles, headers: Int64s, cuts: Int64s, state: Int64s
) -> Int:
    """A file is made, or cut off."""
    main, kind = headers[MAIN_AT], info & 0xF0
    if kind == smgr.TRUNCATE and headers[MAIN_LENGTH] >= smgr.TRUNCATE_SIZE:
        at, blocks = main + smgr.TRUNCATE_LOCATOR_AT, u32(data, main)
        if not u32(data, main + smgr.TRUNCATE_SIZE - 4) & smgr.TRUNCATE_HEAP:
            return DONE
    elif kind == smgr.CREATE and headers[MAIN_LENGTH] >= smgr.CREATE_SIZE:
        at, blocks = main, np.int64(0)
        if u32(data, main + smgr.CREATE_FORK_AT) != 0:
            return DONE
    else:
        return DONE
    file = find_locator(u32(data, at), u32(data, at + 4), u32(data, at + 8), wanted.files, wanted.slots)
    if file >= 0:
        n = state[CUTS]
        state[CUTS] = n + 1
        cuts[n, 0], cuts[n, 1], cuts[n, 2] = file, blocks, lsn
    return DONE


@inline_kernel
def _new_multi(data: Bytes, wanted: WantedFiles, headers: Int64s, multis: Int64s, state: Int64s) -> Int:
    """A multixact that one of its members has updated or deleted with."""
    main, length = headers[MAIN_AT], headers[MAIN_LENGTH]
    if length < wanted.multi_at + 4:
        return MALFORMED
    count = u32(data, main + wanted.multi_at)
    if wanted.multi_at + 4 + 8 * count > length:
        return MALFORMED
    n = state[MULTIS]
    state[MULTIS] = n + 1
    multis[n, 0], multis[n, 1] = u32(data, main), 0
    for member in range(count):
        at = main + wanted.multi_at + 4 + 8 * member
        if u32(data, at + 4) >= _FIRST_UPDATE_STATUS:
            multis[n, 1] = u32(data, at)
    return DONE


@borrowing_kernel
def collect_history(
    data: Bytes,
    positions: Int64s,
    lsns: Int64s,
    wanted: WantedFiles,
    headers: Int64s,
    payload: Bytes,
    events: Int64s,
    cuts: Int64s,
    multis: Int64s,
    state: Int64s,
) -> Int:
    """Turn a stretch's records, from ``state[RECORD]`` on, into events of pages.

    Args:
        data: uint8[] record bytes; positions, lsns: int64[n] offsets and starts of the records.
        wanted: the files.
        headers: scratch of :func:`headwater.rmgr.header_slots.header_scratch`.
        payload: uint8[] gets images and tuples.
        events: int64[e, COLUMNS] gets events.
        cuts: int64[n, 3] gets file, first block that is gone, LSN.
        multis: int64[n, 2] gets new multixacts, and who of it updated, 0 for nobody.
        state: int64[STATE_SIZE].

    Returns:
        DONE, or why it stopped at record ``state[RECORD]``.
    """
    while state[RECORD] < len(positions):
        at, lsn = positions[state[RECORD]], lsns[state[RECORD]]
        size, rmid, info = u32(data, at), data[at + RMID_AT], data[at + INFO_AT]
        blocks = parse_headers(data, at, at + size, headers)
        if blocks < 0:
            return MALFORMED
        room = blocks + 4
        if rmid == HEAP2 and blocks > 0 and headers[MAIN_LENGTH] >= MULTI_INSERT_SIZE:
            room += u16(data, headers[MAIN_AT] + MULTI_INSERT_COUNT_AT)
        if state[EVENTS] + room > len(events):
            return NEED_EVENTS
        if state[USED] + size + blocks * PAGE > len(payload):
            return NEED_PAYLOAD
        used, first = state[USED], state[EVENTS]
        status = _images(data, lsn, blocks, wanted, headers, payload, events, state) if blocks > 0 else DONE
        if status == DONE and blocks > 0 and rmid in (HEAP, HEAP2):
            status = _heap_record(data, at, lsn, blocks, wanted, headers, payload, events, state)
        elif rmid == SMGR:
            status = _storage_record(data, info, lsn, wanted, headers, cuts, state)
        elif rmid == MULTIXACT and info & 0xF0 == multixact.CREATE_ID:
            status = _new_multi(data, wanted, headers, multis, state)
        if status != DONE:
            state[USED], state[EVENTS] = used, first
            return status
        state[IMAGES_DONE] = 0
        state[RECORD] += 1
    return DONE


class Fates(NamedTuple):
    """What became of transactions up to an LSN.

    Attributes:
        status: uint8[] two bits a transaction, as in ``pg_xact``.
        oldest: xid of the first; count: how many there are.
        multis: int64[m] sorted multixacts; updaters: int64[m] who of each has updated, 0 for nobody.
    """

    status: Bytes
    oldest: Int
    count: Int
    multis: Int64s
    updaters: Int64s


VISIBLE, GONE, UNKNOWN_XID, UNKNOWN_MULTI = 1, 0, -1, -2


@inline_kernel
def _committed(xid: Int, fates: Fates) -> Int:
    """1 if a transaction has committed, 0 if not (yet), UNKNOWN_XID if ``pg_xact`` does not know of it any more."""
    if xid <= _FROZEN:
        return np.int64(xid != _NONE)
    number = (xid - fates.oldest) & 0xFFFFFFFF
    if number >= fates.count:
        return np.int64(UNKNOWN_XID if number >= _HALF else 0)
    return np.int64((fates.status[number >> 2] >> (2 * (number & 3))) & 3 == 1)


@inline_kernel
def _updater(multi: Int, fates: Fates) -> Int:
    """Who has updated of a multixact, 0 for nobody, UNKNOWN_MULTI."""
    at = np.searchsorted(fates.multis, multi)
    if at < len(fates.multis) and fates.multis[at] == multi:
        return fates.updaters[at]
    return np.int64(UNKNOWN_MULTI)


@inline_kernel
def _deleted(xmax: Int, mask: Int, fates: Fates) -> Int:
    """Whether a tuple was deleted by a transaction that has committed: 1, 0 or an UNKNOWN status."""
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
    """Whether a tuple of a page is visible: VISIBLE, GONE or an UNKNOWN status."""
    bits = mask & HEAP_XMIN_FROZEN
    if bits == HEAP_XMIN_INVALID:
        return np.int64(GONE)
    born = np.int64(1) if bits & HEAP_XMIN_COMMITTED else _committed(xmin, fates)
    if born <= 0:
        return born
    died = _deleted(xmax, mask, fates)
    return died if died < 0 else np.int64(1) - died


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
    """What :func:`visible_tuples` has found, and where it stands.

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
def _load(data: Bytes, base: Int, fates: Fates, slots: Slots, seen: Seen) -> tuple[Int, Int]:
    """The tuples of a page at ``data[base:]``: a status, and the highest offset number."""
    lower = u16(data, base + LOWER_AT)
    slots.length[:] = 0
    if lower == 0 and u16(data, base + _VERSION_AT) == 0:
        return np.int64(DONE), np.int64(0)
    if lower < POINTERS_AT or lower > PAGE or u16(data, base + _VERSION_AT) != PAGE_VERSION:
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
        found = _visible(xmin, xmax, mask, fates)
        if found == UNKNOWN_XID:
            seen.state[BAD_VALUE] = xmin
            return np.int64(LOST_XID), np.int64(0)
        if found == UNKNOWN_MULTI and seen.state[UNKNOWN_MULTIS] < len(seen.multis):
            seen.multis[seen.state[UNKNOWN_MULTIS]] = xmax
            seen.state[UNKNOWN_MULTIS] += 1
        slots.at[offnum], slots.length[offnum] = at + UNLOGGED_SIZE, length - UNLOGGED_SIZE
        slots.is_visible[offnum] = found == VISIBLE
    return np.int64(DONE), count


@inline_kernel
def _replay(data: Bytes, events: Int64s, n: Int, payload_at: Int, fates: Fates, slots: Slots, seen: Seen) -> Int:
    """One event of a tuple."""
    kind, offnum, xid = events[n, KIND], events[n, OFFNUM], events[n, XID]
    if offnum < 1 or offnum >= MOST_TUPLES:
        return BAD_PAGE
    found = _committed(xid, fates)
    if found == UNKNOWN_XID:
        seen.state[BAD_VALUE] = xid
        return LOST_XID
    if kind == INSERTED:
        slots.at[offnum], slots.length[offnum] = payload_at + events[n, AT], events[n, LENGTH]
        slots.is_visible[offnum] = found == 1
    elif slots.length[offnum] == 0:
        seen.state[BAD_VALUE] = events[n, LSN]
        return NO_TUPLE
    elif kind == REMOVED or found == 1:
        slots.is_visible[offnum] = 0
    return DONE


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
    """Which tuples of some pages are visible.

    Args:
        data: uint8[] the pages as the backup has them, and behind them the payload of the events.
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
        base, lo, hi = page * PAGE, starts[page], starts[page + 1]
        seen.state[BAD_BLOCK] = first_block + page
        most: Int = np.int64(0)
        if lo < hi and events[lo, KIND] == PAGE_IMAGE:
            status, most = _load(data, payload_at + events[lo, AT], fates, slots, seen)
            lo += 1
        elif lo < hi and events[lo, KIND] == RESET:
            slots.length[:] = 0
            status = np.int64(DONE)
            lo += 1
        else:
            lsn = u32(data, base + _LSN_AT) << 32 | u32(data, base + _LSN_AT + 4)
            if lsn > (events[lo, LSN] if lo < hi else limit):
                seen.state[BAD_VALUE] = lsn
                return np.int64(YOUNG_PAGE)
            status, most = _load(data, base, fates, slots, seen)
        for n in range(lo, hi):
            if status != DONE:
                break
            status = _replay(data, events, n, payload_at, fates, slots, seen)
            most = max(most, events[n, OFFNUM])
        if status != DONE:
            return status
        found = seen.state[TUPLES]
        if found + most > len(seen.at):
            return np.int64(FULL)
        for offnum in range(1, most + 1):
            if slots.length[offnum] > 0 and slots.is_visible[offnum]:
                seen.at[found], seen.length[found] = slots.at[offnum], slots.length[offnum]
                seen.tid[found] = (first_block + page) * MOST_TUPLES + offnum
                found += 1
        seen.state[TUPLES] = found
    return np.int64(DONE)


@borrowing_kernel
def gather(source: Bytes, at: Int64s, length: Int64s, out: Bytes, out_at: Int64s) -> None:
    """Copy pieces of one array to places in another; whoever calls has seen that they fit."""
    for i in range(len(at)):
        copy(source, at[i], out, out_at[i], length[i])
