"""Kernel: framed records in, the planned changes out, grouped by transaction.

PostgreSQL: DecodeInsert, DecodeUpdate, DecodeDelete, DecodeMultiInsert and DecodeSpecConfirm of decode.c, and the
speculative inserts of reorderbuffer.c.

The log comes in stretches, whose memory is used again: tuples are copied out of it into one array without gaps.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.reorder.commits.stream_rules import EVERY
from headwater.reorder.wanted_changes import WANT_BARE_DELETE, WANT_DELETE, WANT_INSERT, WANT_UPDATE
from headwater.rmgr import heap, heap2
from headwater.rmgr._locators import find_locator
from headwater.rmgr._record import Int, parse_headers, u16, u32
from headwater.rmgr.header_slots import BLOCKS, DATA_AT, DATA_LENGTH, DB, IMAGE, MAIN_AT, MAIN_LENGTH, ORIGIN, REL, SPC
from headwater.rmgr.heap_layout import (
    DELETE_FLAGS_AT,
    DELETE_OFFNUM_AT,
    DELETE_SIZE,
    HEAP_HEADER_SIZE,
    INSERT_FLAGS_AT,
    INSERT_SIZE,
    MULTI_INSERT_COUNT_AT,
    MULTI_INSERT_SIZE,
    MULTI_TUPLE_SIZE,
    NEW_OFFNUM_AT,
    OLD_OFFNUM_AT,
    SHARED_SIZE,
    UPDATE_FLAGS_AT,
    UPDATE_SIZE,
)
from headwater.rmgr.registry import HEAP, HEAP2
from headwater.rows._copy import copy
from headwater.rows.collect._collect_tables import (
    EVENT,
    FLAGS,
    HAS_NEW,
    HAS_OLD,
    ITEMS,
    KIND,
    LAYOUT,
    LSN,
    MALFORMED,
    NEED_PAGES,
    NEED_ROOM,
    NEED_SPACE,
    NEW,
    NEW_AT,
    NEW_LEN,
    OK,
    OLD,
    OLD_AT,
    OLD_LEN,
    PAGES_OF,
    PLACE,
    RECORD,
    UNCONFIRMED,
    UNIT,
    UNITS_DONE,
    USED,
    XID,
    Bytes,
    Int32s,
    Int64s,
    Wanted,
    Work,
)
from headwater.rows.collect._page_tuples import tuple_on_page
from headwater.rows.items import (
    CLEAR_TOAST,
    DELETE,
    INSERT,
    LITERAL,
    OLD_IS_KEY,
    PARKED,
    SHARES_OLD,
    SKIPPED,
    TOAST,
    UPDATE,
)
from headwater.wal.layout import INFO_AT, RMID_AT, XID_AT


@borrowing_kernel
def fill_members(member_xid: Int64s, slots: Int32s, xids: Int64s, next_member: Int64s) -> bool:
    """Fill an open-addressing hash from xid to the number of its first member.

    Args:
        member_xid: int64[m].
        slots: int32[power of two] all -1.
        xids: int64[power of two] the keys, written here.
        next_member: int64[m] written here: the next member with the same xid, -1 for none.

    Returns:
        Whether an xid has several members.
    """
    mask = len(slots) - 1
    has_several = False
    for i in range(len(member_xid) - 1, -1, -1):
        slot = (member_xid[i] * 2654435761) & mask
        while slots[slot] >= 0 and xids[slot] != member_xid[i]:
            slot = (slot + 1) & mask
        has_several |= slots[slot] >= 0
        next_member[i] = slots[slot]
        slots[slot] = i
        xids[slot] = member_xid[i]
    return has_several


@inline_kernel
def _member(xid: Int, slots: Int32s, xids: Int64s) -> Int:
    """Find the member number of an xid, -1 if it is not of this slice."""
    mask = len(slots) - 1
    slot = (xid * 2654435761) & mask
    while slots[slot] >= 0:
        if xids[slot] == xid:
            return np.int64(slots[slot])
        slot = (slot + 1) & mask
    return np.int64(-1)


@inline_kernel
def _member_at(xid: Int, lsn: Int, wanted: Wanted) -> Int:
    """Find the member that an xid's change at an LSN is of, -1 if it is not of this slice; LSNs ascend.

    Of several, those that a record has passed are left for good.
    """
    member = _member(xid, wanted.slots, wanted.slot_xids)
    if member < 0 or len(wanted.next_member) == 0:
        return member
    current = member
    while wanted.next_member[current] >= 0 and lsn > wanted.unit_hi[wanted.member_unit[current]]:
        current = wanted.next_member[current]
    if current != member:
        mask = len(wanted.slots) - 1
        slot = (xid * 2654435761) & mask
        while wanted.slot_xids[slot] != xid or wanted.slots[slot] < 0:
            slot = (slot + 1) & mask
        wanted.slots[slot] = current
    return current


@inline_kernel
def find_relation(spans: Int64s, unit: Int, file: Int, lsn: Int) -> Int:
    """Find the relation of the last span of (unit, file) that starts at or before ``lsn``, -1 if there is none.

    Args:
        spans: int64[4, s] (unit, file, from LSN, relation), sorted.
        unit: unit, or -1 for those without catalog changes of their own.
        file: index of the file.
        lsn: of the change.
    """
    low = 0
    high = spans.shape[1]
    while low < high:
        middle = (low + high) >> 1
        before = spans[0, middle] < unit or (
            spans[0, middle] == unit
            and (spans[1, middle] < file or (spans[1, middle] == file and spans[2, middle] <= lsn))
        )
        if before:
            low = middle + 1
        else:
            high = middle
    if low == 0 or spans[0, low - 1] != unit or spans[1, low - 1] != file:
        return -1
    return spans[3, low - 1]


@inline_kernel
def _is_passed_over(wanted: Wanted, relation: Int, unit: Int, file: Int) -> bool:
    """Tell whether a record holds a TOAST chunk that no wanted change of its unit can use."""
    if not wanted.toasts[relation]:
        return False
    key = unit * wanted.files.shape[1] + file
    at = np.searchsorted(wanted.chunks, key)
    return bool(at == len(wanted.chunks) or wanted.chunks[at] != key)


@inline_kernel
def _push(raw: Int64s, state: Int64s, kind: Int, unit: Int, xid: Int, lsn: Int, layout: Int, flags: Int) -> Int:
    """Add an item without tuples whose place is its LSN; returns its number."""
    n = state[ITEMS]
    state[ITEMS] = n + 1
    raw[n, KIND] = kind
    raw[n, UNIT] = unit
    raw[n, XID] = xid
    raw[n, LSN] = lsn
    raw[n, LAYOUT] = layout
    raw[n, NEW_AT] = -1
    raw[n, NEW_LEN] = 0
    raw[n, OLD_AT] = -1
    raw[n, OLD_LEN] = 0
    raw[n, FLAGS] = flags
    raw[n, PLACE] = lsn
    return n


@inline_kernel
def _push_events(wanted: Wanted, raw: Int64s, state: Int64s, before: Int) -> bool:
    """Add the events that come before an LSN; whether there was room."""
    while state[EVENT] < len(wanted.event_order) and wanted.event_order[state[EVENT]] < before:
        if state[ITEMS] >= raw.shape[0]:
            return False
        event = state[EVENT]
        n = _push(raw, state, LITERAL, wanted.event_unit[event], 0, wanted.event_lsn[event], event, 0)
        raw[n, PLACE] = wanted.event_order[event]
        state[EVENT] = event + 1
    return True


@inline_kernel
def _refer(raw: Int64s, n: Int, column: Int, at: Int, length: Int) -> None:
    raw[n, column] = at
    raw[n, column + 1] = length


@inline_kernel
def _keep(data: Bytes, at: Int, length: Int, work: Work, raw: Int64s, n: Int, column: Int) -> None:
    """Copy a tuple of item ``n`` out of the log; there is room for all of its record."""
    used = work.state[USED]
    work.state[USED] = copy(data, at, work.tuples, used, length)
    _refer(raw, n, column, used, length)


@inline_kernel
def _keep_on_page(page: Int, offnum: Int, work: Work, raw: Int64s, n: Int, column: Int) -> Int:
    """Keep a tuple of a page image, as :func:`_keep` does: OK or MALFORMED."""
    at, length = tuple_on_page(work.pages, page, offnum)
    if at < 0:
        return MALFORMED
    _keep(work.pages, at, length, work, raw, n, column)
    return OK


@inline_kernel
def _insert(data: Bytes, unit: Int, xid: Int, lsn: Int, relation: Int, wanted: Wanted, work: Work, raw: Int64s) -> Int:
    """Take an INSERT record: a row, a chunk, or a row that waits for its confirmation."""
    headers, state = work.headers, work.state
    if headers[MAIN_LENGTH] < INSERT_SIZE:
        return MALFORMED
    flags = data[headers[MAIN_AT] + INSERT_FLAGS_AT]
    if wanted.is_logical and not flags & heap.INSERT_CONTAINS_NEW_TUPLE:
        return OK
    kind = PARKED if flags & heap.INSERT_IS_SPECULATIVE else TOAST if wanted.toasts[relation] else INSERT
    clear = CLEAR_TOAST if kind == INSERT else 0
    if kind == INSERT and not wanted.wants[relation] & WANT_INSERT:
        if work.pending[unit]:
            _push(raw, state, SKIPPED, unit, xid, lsn, relation, clear)
        return OK
    n = _push(raw, state, kind, unit, xid, lsn, relation, clear)
    if kind == PARKED:
        work.parked[unit] = n
    if headers[BLOCKS + DATA_LENGTH] == 0 and state[HAS_NEW]:
        return _keep_on_page(NEW, u16(data, headers[MAIN_AT]), work, raw, n, NEW_AT)
    _keep(data, headers[BLOCKS + DATA_AT], headers[BLOCKS + DATA_LENGTH], work, raw, n, NEW_AT)
    return OK


@inline_kernel
def _tuples_of(count: Int, lsn: Int, unit: Int, wanted: Wanted) -> tuple[Int, Int]:
    """Find the tuples of a MULTI_INSERT record that are of a unit: from the first number to before the second."""
    first = wanted.unit_lo_taken[unit] if lsn == wanted.unit_lo[unit] else np.int64(0)
    last = min(count, wanted.unit_hi_taken[unit]) if lsn == wanted.unit_hi[unit] else np.int64(count)
    return first, last


@inline_kernel
def _multi_insert_on_page(
    data: Bytes, unit: Int, xid: Int, lsn: Int, relation: Int, wanted: Wanted, work: Work, raw: Int64s
) -> Int:
    """Take a MULTI_INSERT record whose tuples lie in the image of its page."""
    main = work.headers[MAIN_AT]
    count = u16(data, main + MULTI_INSERT_COUNT_AT)
    if MULTI_INSERT_SIZE + 2 * count > work.headers[MAIN_LENGTH]:
        return MALFORMED
    for k in range(count):
        flags = CLEAR_TOAST if data[main] & heap.INSERT_LAST_IN_MULTI and k == count - 1 else 0
        n = _push(raw, work.state, TOAST if wanted.toasts[relation] else INSERT, unit, xid, lsn, relation, flags)
        offnum = u16(data, main + MULTI_INSERT_SIZE + 2 * k)
        if _keep_on_page(NEW, offnum, work, raw, n, NEW_AT) != OK:
            return MALFORMED
    return OK


@inline_kernel
def _multi_insert(
    data: Bytes, unit: Int, xid: Int, lsn: Int, relation: Int, wanted: Wanted, work: Work, raw: Int64s
) -> Int:
    """Take every tuple of a MULTI_INSERT record; only the last one of the last record drops pending chunks."""
    headers, state = work.headers, work.state
    main = headers[MAIN_AT]
    is_last = data[main] & heap.INSERT_LAST_IN_MULTI
    if wanted.is_logical and not data[main] & heap.INSERT_CONTAINS_NEW_TUPLE:
        return OK
    is_toast = wanted.toasts[relation]
    if not is_toast and not wanted.wants[relation] & WANT_INSERT:
        if work.pending[unit] and is_last:
            _push(raw, state, SKIPPED, unit, xid, lsn, relation, CLEAR_TOAST)
        return OK
    count = u16(data, main + MULTI_INSERT_COUNT_AT)
    base, length = headers[BLOCKS + DATA_AT], headers[BLOCKS + DATA_LENGTH]
    if length == 0 and state[HAS_NEW]:
        return _multi_insert_on_page(data, unit, xid, lsn, relation, wanted, work, raw)
    p = np.int64(0)
    first, last = _tuples_of(count, lsn, unit, wanted)
    for k in range(last):
        p = (p + 1) & ~1
        if p + MULTI_TUPLE_SIZE > length or p + MULTI_TUPLE_SIZE + u16(data, base + p) > length:
            return MALFORMED
        size = u16(data, base + p)
        if k >= first:
            flags = CLEAR_TOAST if is_last and k == count - 1 else 0
            n = _push(raw, state, TOAST if is_toast else INSERT, unit, xid, lsn, relation, flags)
            _keep(data, base + p + 2, size + HEAP_HEADER_SIZE, work, raw, n, NEW_AT)
        p += MULTI_TUPLE_SIZE + size
    return OK


@inline_kernel
def _confirm(unit: Int, lsn: Int, relation: Int, wanted: Wanted, work: Work, raw: Int64s) -> Int:
    """Take a CONFIRM record: the parked row comes here, under the LSN and xid of its insert."""
    source = work.parked[unit]
    work.parked[unit] = -1
    if not wanted.wants[relation] & WANT_INSERT:
        if work.pending[unit]:
            _push(raw, work.state, SKIPPED, unit, 0, lsn, relation, CLEAR_TOAST)
        return OK
    if source < 0:
        return UNCONFIRMED
    n = _push(raw, work.state, INSERT, unit, raw[source, XID], raw[source, LSN], relation, CLEAR_TOAST)
    raw[n, PLACE] = lsn
    _refer(raw, n, NEW_AT, raw[source, NEW_AT], raw[source, NEW_LEN])
    return OK


@inline_kernel
def _delete(data: Bytes, unit: Int, xid: Int, lsn: Int, relation: Int, wanted: Wanted, work: Work, raw: Int64s) -> Int:
    """Take a DELETE record: of a row, or of a parked one that lost its race."""
    headers, state = work.headers, work.state
    main, length = headers[MAIN_AT], headers[MAIN_LENGTH]
    if length < DELETE_SIZE:
        return MALFORMED
    flags = data[main + DELETE_FLAGS_AT]
    has_old = flags & heap.DELETE_CONTAINS_OLD
    if flags & heap.DELETE_IS_SUPER:
        if work.parked[unit] >= 0:
            work.parked[unit] = -1
            _push(raw, state, SKIPPED, unit, xid, lsn, relation, CLEAR_TOAST)
    elif wanted.wants[relation] & (WANT_DELETE if has_old else WANT_BARE_DELETE):
        is_key = OLD_IS_KEY if flags & heap.DELETE_CONTAINS_OLD_KEY else 0
        n = _push(raw, state, DELETE, unit, xid, lsn, relation, CLEAR_TOAST | is_key)
        if has_old:
            _keep(data, main + DELETE_SIZE, length - DELETE_SIZE, work, raw, n, OLD_AT)
        elif state[HAS_OLD]:
            return _keep_on_page(OLD, u16(data, main + DELETE_OFFNUM_AT), work, raw, n, OLD_AT)
    elif work.pending[unit]:
        _push(raw, state, SKIPPED, unit, xid, lsn, relation, CLEAR_TOAST)
    return OK


@inline_kernel
def _keep_shared(data: Bytes, flags: Int, work: Work, raw: Int64s, n: Int) -> Int:
    """Keep the new tuple of an UPDATE without the bytes that the old one has at either end: OK or MALFORMED."""
    at, length, used = work.headers[BLOCKS + DATA_AT], work.headers[BLOCKS + DATA_LENGTH], work.state[USED]
    passed = np.int64(0)
    for end in range(2):
        has = flags & (heap.UPDATE_SUFFIX_FROM_OLD if end else heap.UPDATE_PREFIX_FROM_OLD)
        if has and passed + 2 > length:
            return MALFORMED
        for byte in range(2):
            work.tuples[used + 2 * end + byte] = data[at + passed + byte] if has else 0
        passed += 2 if has else 0
    _refer(raw, n, NEW_AT, used, SHARED_SIZE + length - passed)
    raw[n, FLAGS] |= SHARES_OLD
    work.state[USED] = copy(data, at + passed, work.tuples, used + SHARED_SIZE, length - passed)
    return OK


@inline_kernel
def _update(data: Bytes, unit: Int, xid: Int, lsn: Int, relation: Int, wanted: Wanted, work: Work, raw: Int64s) -> Int:
    """Take an UPDATE record; with wal_level logical, prefix and suffix compression occur in catalogs only."""
    headers, state = work.headers, work.state
    main, length = headers[MAIN_AT], headers[MAIN_LENGTH]
    if length < UPDATE_SIZE or (wanted.is_logical and data[main + UPDATE_FLAGS_AT] & heap.UPDATE_SHARES_WITH_OLD):
        return MALFORMED
    if not wanted.wants[relation] & WANT_UPDATE:
        if work.pending[unit]:
            _push(raw, state, SKIPPED, unit, xid, lsn, relation, CLEAR_TOAST)
        return OK
    flags = data[main + UPDATE_FLAGS_AT]
    is_key = OLD_IS_KEY if flags & heap.UPDATE_CONTAINS_OLD_KEY else 0
    n = _push(raw, state, UPDATE, unit, xid, lsn, relation, CLEAR_TOAST | is_key)
    status = OK
    if state[HAS_NEW] and (headers[BLOCKS + DATA_LENGTH] == 0 or flags & heap.UPDATE_SHARES_WITH_OLD):
        status = _keep_on_page(NEW, u16(data, main + NEW_OFFNUM_AT), work, raw, n, NEW_AT)
    elif flags & heap.UPDATE_SHARES_WITH_OLD:
        status = _keep_shared(data, flags, work, raw, n)
    elif flags & heap.UPDATE_CONTAINS_NEW_TUPLE or not wanted.is_logical:
        _keep(data, headers[BLOCKS + DATA_AT], headers[BLOCKS + DATA_LENGTH], work, raw, n, NEW_AT)
    if flags & heap.UPDATE_CONTAINS_OLD:
        _keep(data, main + UPDATE_SIZE, length - UPDATE_SIZE, work, raw, n, OLD_AT)
    elif state[HAS_OLD] and status == OK:
        return _keep_on_page(OLD, u16(data, main + OLD_OFFNUM_AT), work, raw, n, OLD_AT)
    return status


@inline_kernel
def _change(data: Bytes, at: Int, unit: Int, lsn: Int, relation: Int, wanted: Wanted, work: Work, raw: Int64s) -> Int:
    """Take a change of a planned relation."""
    xid = u32(data, at + XID_AT)
    op = data[at + INFO_AT] & heap.OPMASK
    before = work.state[ITEMS]
    if data[at + RMID_AT] == HEAP2:
        status = _multi_insert(data, unit, xid, lsn, relation, wanted, work, raw)
    elif op == heap.INSERT:
        status = _insert(data, unit, xid, lsn, relation, wanted, work, raw)
    elif op == heap.CONFIRM:
        status = _confirm(unit, lsn, relation, wanted, work, raw)
    elif wanted.toasts[relation]:
        status = OK
    elif op == heap.DELETE:
        status = _delete(data, unit, xid, lsn, relation, wanted, work, raw)
    else:
        status = _update(data, unit, xid, lsn, relation, wanted, work, raw)
    last = work.state[ITEMS] - 1
    if last >= before:
        still_pending = work.pending[unit] and not raw[last, FLAGS] & CLEAR_TOAST
        work.pending[unit] = raw[last, KIND] == TOAST or still_pending
    return status


@inline_kernel
def _has_image(headers: Int64s, blocks: Int) -> bool:
    """Tell whether a page of the record comes whole."""
    return bool(headers[BLOCKS + IMAGE] >= 0 or (blocks > 1 and headers[BLOCKS + 8 + IMAGE] >= 0))


@inline_kernel
def _pick_of(
    data: Bytes, at: Int, lsn: Int, unit: Int, file: Int, blocks: Int, wanted: Wanted, work: Work, raw: Int64s
) -> Int:
    """Pick out of a record whose headers were parsed what it has of a unit; return a status."""
    headers, state = work.headers, work.state
    relation = find_relation(wanted.spans, unit if wanted.unit_own[unit] else -1, file, lsn)
    if relation < 0 or _is_passed_over(wanted, relation, unit, file):
        return OK
    is_multi = data[at + RMID_AT] == HEAP2
    room = 1 + (u16(data, headers[MAIN_AT] + MULTI_INSERT_COUNT_AT) if is_multi else 0)
    if not _push_events(wanted, raw, state, lsn) or state[ITEMS] + room > raw.shape[0]:
        return NEED_SPACE
    if not wanted.is_logical and state[PAGES_OF] != lsn and _has_image(headers, blocks):
        return NEED_PAGES
    if state[USED] + u32(data, at) + (0 if wanted.is_logical else len(work.pages)) > len(work.tuples):
        return NEED_ROOM
    if state[PAGES_OF] != lsn:
        state[HAS_NEW] = state[HAS_OLD] = 0
    return _change(data, at, unit, lsn, relation, wanted, work, raw)


@inline_kernel
def _pick(
    data: Bytes, at: Int, lsn: Int, member: Int, file: Int, blocks: Int, wanted: Wanted, work: Work, raw: Int64s
) -> Int:
    """Pick out of a record whose headers were parsed what its unit needs, and later units, if it is in several."""
    done = np.int64(0)
    while member >= 0:
        unit = wanted.member_unit[member]
        if done >= work.state[UNITS_DONE]:
            status = _pick_of(data, at, lsn, unit, file, blocks, wanted, work, raw)
            if status != OK:
                return status
            work.state[UNITS_DONE] = done + 1
        done += 1
        ends_inside = lsn == wanted.unit_hi[unit] and wanted.unit_hi_taken[unit] < EVERY
        member = wanted.next_member[member] if ends_inside and len(wanted.next_member) else np.int64(-1)
    work.state[UNITS_DONE] = 0
    return OK


@borrowing_kernel
def collect_items(data: Bytes, positions: Int64s, lsns: Int64s, wanted: Wanted, work: Work, raw: Int64s) -> Int:
    """Pick the slice's changes out of a stretch's records, from record ``state[RECORD]`` on.

    Args:
        data: uint8[] record bytes of the stretch.
        positions: int64[n] offsets of the records.
        lsns: int64[n] their starts.
        wanted: the slice.
        work: the memory of the pass.
        raw: int64[capacity, COLUMNS].

    Returns:
        OK; NEED_SPACE, NEED_ROOM, NEED_PAGES, MALFORMED or UNCONFIRMED with ``state[RECORD]`` at the record.
    """
    headers, state = work.headers, work.state
    while state[RECORD] < len(positions):
        at, lsn = positions[state[RECORD]], lsns[state[RECORD]]
        rmid, op = data[at + RMID_AT], data[at + INFO_AT] & heap.OPMASK
        state[RECORD] += 1
        is_multi = rmid == HEAP2 and op == heap2.MULTI_INSERT
        if not is_multi and (rmid != HEAP or op in (heap.TRUNCATE, heap.LOCK, heap.INPLACE)):
            continue
        member = _member_at(u32(data, at + XID_AT), lsn, wanted)
        if member < 0:
            continue
        unit = wanted.member_unit[member]
        if lsn <= wanted.unit_lo[unit] - (wanted.unit_lo_taken[unit] < EVERY) or lsn > wanted.unit_hi[unit]:
            continue
        status = OK
        blocks = parse_headers(data, at, at + u32(data, at), headers)
        if blocks < 0 or (is_multi and headers[MAIN_LENGTH] < MULTI_INSERT_SIZE):
            status = MALFORMED
        elif blocks > 0 and not wanted.left_out[headers[ORIGIN]]:
            spc, db, rel = headers[BLOCKS + SPC], headers[BLOCKS + DB], headers[BLOCKS + REL]
            file = find_locator(spc, db, rel, wanted.files, wanted.file_slots)
            if file >= 0:
                status = _pick(data, at, lsn, member, file, blocks, wanted, work, raw)
        if status != OK:
            state[RECORD] -= 1
            return status
    return OK


@borrowing_kernel
def push_rest(wanted: Wanted, work: Work, raw: Int64s) -> Int:
    """Add the events that come after the last record: OK or NEED_SPACE."""
    return OK if _push_events(wanted, raw, work.state, np.int64(0x7FFFFFFFFFFFFFFF)) else NEED_SPACE
