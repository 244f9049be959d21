"""Kernels: what the log did to heap pages of some files, as *events* of these pages.

PostgreSQL: heap_redo and heap2_redo (heapam.c, 18: heapam_xlog.c). Records that only move or remove tuples that nobody
sees (prune, vacuum, freeze, locks, hint bits) are no events. A line pointer is used again only when no transaction
could see what was there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
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
    UPDATE_FLAGS_AT,
    UPDATE_SIZE,
)
from headwater.rmgr.registry import HEAP, HEAP2, MULTIXACT, SMGR
from headwater.rows._copy import copy
from headwater.rows.collect._page_tuples import LOWER_AT, PAGE, POINTERS_AT
from headwater.wal.layout import BKPIMAGE_HAS_HOLE, INFO_AT, RMID_AT, XID_AT

Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

FILE, AT_BLOCK, LSN, KIND, OFFNUM, XID, AT, LENGTH, COLUMNS = range(9)
"""Columns of an event: the file's number, the page, start of the record, what happened, to which line pointer, by
which transaction; where the page's image, or the new tuple from its ``xl_heap_header`` on, lies in the payload, and its
bytes."""

RESET, PAGE_IMAGE, INSERTED, DELETED, REMOVED = range(5)
"""Kinds: the page is made new; comes whole; a tuple comes, goes, or goes whatever becomes of the transaction."""

DONE, NEED_EVENTS, NEED_PAYLOAD, NEED_IMAGE, MALFORMED, SHARES_OLD = 0, -1, -2, -3, 1, 2
"""Statuses of :func:`collect_history`."""

RECORD, EVENTS, USED, CUTS, MULTIS, IMAGES_DONE, STATE_SIZE = range(7)
"""Indexes into its state; IMAGES_DONE is 1 if the record's images are in the payload already."""

_FIRST_UPDATE_STATUS = 4


class WantedFiles(NamedTuple):
    """The files whose pages are followed.

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
    """Return the number of a block's file, -1 if it is not a page of the main fork of one that is wanted."""
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
    """Take the images of a record that redo restores; NEED_IMAGE if one must be unpacked elsewhere."""
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
    """Take the new tuple of an INSERT or UPDATE record in its first block's data, unless the page's image has it."""
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
    """Take an UPDATE record: the old tuple lies on the new one's page if no other one is named.

    Pages of the visibility map may be named also, behind those of the heap.
    """
    main = headers[MAIN_AT]
    if headers[MAIN_LENGTH] < UPDATE_SIZE:
        return MALFORMED
    old = BLOCKS + 8 * (blocks > 1 and headers[BLOCKS + 8 + FORK] == 0)
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
    """Take a MULTI_INSERT record; of a page that is made new the offset numbers are not logged."""
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
    """Take what a record of HEAP or HEAP2 does to tuples."""
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
    """Take a record of a file that is made, or cut off."""
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
    """Take a multixact that one of its members has updated or deleted with."""
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
