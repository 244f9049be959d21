"""Kernel: framed records in, the planned changes out, grouped by transaction.

PostgreSQL: DecodeInsert, DecodeUpdate, DecodeDelete, DecodeMultiInsert and DecodeSpecConfirm of decode.c, and the
speculative inserts of reorderbuffer.c.
"""

from __future__ import annotations

import numpy as np

from headwater.kernels import inline_kernel, kernel
from headwater.rmgr._index import find_locator
from headwater.rmgr._record import (
    BLOCKS,
    DATA_AT,
    DATA_LENGTH,
    DB,
    HEADERS_LENGTH,
    MAIN_AT,
    MAIN_LENGTH,
    ORIGIN,
    REL,
    SPC,
    parse_headers,
    u16,
    u32,
)

OK, NEED_SPACE, MALFORMED, UNCONFIRMED = 0, -1, 1, 2
"""Status codes: done; the raw table is full; lengths disagree; a CONFIRM without its speculative insert."""

INSERT, UPDATE, DELETE, LITERAL, TOAST, SKIPPED, PARKED = 1, 2, 3, 4, 10, 11, 12
"""Kinds of items; SKIPPED only drops pending chunks, PARKED is a speculative insert not yet confirmed."""

OLD_IS_KEY, CLEAR_TOAST, SEND_SCHEMA = 1, 2, 4
KIND, UNIT, XID, LSN, LAYOUT, NEW_AT, NEW_LEN, OLD_AT, OLD_LEN, FLAGS, PLACE = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
COLUMNS = 11
"""Rows of the raw table int64[COLUMNS, capacity]: one column an item, in WAL order."""


@kernel
def fill_members(member_xid, slots, xids):  # type: ignore[no-untyped-def]
    """Fill an open-addressing hash from xid to member number.

    Args:
        member_xid: int64[m]; slots: int32[power of two] all -1; xids: int64[power of two] the keys, written here.
    """
    mask = len(slots) - 1
    for i in range(len(member_xid)):
        slot = (member_xid[i] * 2654435761) & mask
        while slots[slot] >= 0 and xids[slot] != member_xid[i]:
            slot = (slot + 1) & mask
        slots[slot] = i
        xids[slot] = member_xid[i]


@inline_kernel
def _member(xid, slots, xids):  # type: ignore[no-untyped-def]
    """The member number of an xid, -1 if it is not of this slice."""
    mask = len(slots) - 1
    slot = (xid * 2654435761) & mask
    while slots[slot] >= 0:
        if xids[slot] == xid:
            return slots[slot]
        slot = (slot + 1) & mask
    return -1


@kernel
def find_relation(spans, unit, file, lsn):  # type: ignore[no-untyped-def]
    """The relation of the last span of (unit, file) that starts at or before ``lsn``, -1 if there is none.

    Args:
        spans: int64[4, s] (unit, file, from LSN, relation), sorted.
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
def _push(raw, n, kind, unit, xid, lsn, layout, flags, place):  # type: ignore[no-untyped-def]
    raw[KIND, n] = kind
    raw[UNIT, n] = unit
    raw[XID, n] = xid
    raw[LSN, n] = lsn
    raw[LAYOUT, n] = layout
    raw[NEW_AT, n] = -1
    raw[NEW_LEN, n] = 0
    raw[OLD_AT, n] = -1
    raw[OLD_LEN, n] = 0
    raw[FLAGS, n] = flags
    raw[PLACE, n] = place


@kernel
def _push_multi(data, raw, n, unit, xid, lsn, layout, headers, toast):  # type: ignore[no-untyped-def]
    """Push every tuple of a MULTI_INSERT record; the new count, or MALFORMED negated minus one."""
    main = headers[MAIN_AT]
    last = data[main] & 0x02
    count = u16(data, main + 2)
    base = headers[BLOCKS + DATA_AT]
    length = headers[BLOCKS + DATA_LENGTH]
    p = np.int64(0)
    for k in range(count):
        p = (p + 1) & ~1
        if p + 7 > length:
            return -2
        size = u16(data, base + p)
        if p + 7 + size > length:
            return -2
        flags = CLEAR_TOAST if last and k == count - 1 else 0
        _push(raw, n, TOAST if toast else INSERT, unit, xid, lsn, layout, flags, lsn)
        raw[NEW_AT, n] = base + p + 2
        raw[NEW_LEN, n] = size + 5
        n += 1
        p += 7 + size
    return n


@kernel
def collect_items(
    data,
    positions,
    lsns,
    slots,
    slot_xids,
    member_unit,
    unit_lo,
    unit_hi,
    unit_own,
    files,
    file_slots,
    spans,
    wants,
    toasts,
    local_only,
    event_unit,
    event_place,
    event_lsn,
    parked,
    pending,
    raw,
    state,
):  # type: ignore[no-untyped-def]
    """Pick the slice's changes out of framed records, from record ``state[0]`` on.

    Args:
        data: uint8[]; positions, lsns: int64[n] the records.
        slots, slot_xids: hash of xids (:func:`fill_members`); member_unit: int64[m].
        unit_lo, unit_hi: int64[u] bounds of LSNs; unit_own: bool[u].
        files: int64[3, f]; file_slots: int32[] its hash; spans: int64[4, s] (:func:`find_relation`).
        wants: int64[r] WANT_* bits per relation; toasts: bool[r].
        local_only: leave out records with a replication origin.
        event_unit, event_place, event_lsn: int64[e] sorted by place.
        parked: int64[u] raw item of a speculative insert, -1 none; pending: bool[u] chunks wait.
        raw: int64[COLUMNS, capacity]; state: int64[3] next record, items, next event.

    Returns:
        OK; NEED_SPACE; MALFORMED or UNCONFIRMED with ``state[0]`` at the record.
    """
    headers = np.zeros(HEADERS_LENGTH, np.int64)
    n = state[1]
    event = state[2]
    status = OK
    i = state[0]
    while i < len(positions):
        at = positions[i]
        rmid = data[at + 17]
        lsn = lsns[i]
        if rmid != 10 and rmid != 9:
            i += 1
            continue
        info = data[at + 16]
        op = info & 0x70
        if (rmid == 9 and op != 0x50) or (rmid == 10 and op in (0x30, 0x60, 0x70)):
            i += 1
            continue
        xid = u32(data, at + 4)
        member = _member(xid, slots, slot_xids)
        if member < 0:
            i += 1
            continue
        unit = member_unit[member]
        if lsn <= unit_lo[unit] or lsn > unit_hi[unit]:
            i += 1
            continue
        blocks = parse_headers(data, at, at + u32(data, at), headers)
        if blocks < 0:
            status = MALFORMED
            break
        if blocks == 0 or (local_only and headers[ORIGIN] != 0):
            i += 1
            continue
        file = find_locator(headers[BLOCKS + SPC], headers[BLOCKS + DB], headers[BLOCKS + REL], files, file_slots)
        if file < 0:
            i += 1
            continue
        relation = find_relation(spans, unit if unit_own[unit] else -1, file, lsn)
        if relation < 0:
            i += 1
            continue
        main = headers[MAIN_AT]
        length = headers[MAIN_LENGTH]
        room = 2
        if rmid == 9:
            if length < 4:
                status = MALFORMED
                break
            room += u16(data, main + 2)
        while event < len(event_place) and event_place[event] < lsn and n < raw.shape[1]:
            _push(raw, n, LITERAL, event_unit[event], 0, event_lsn[event], event, 0, event_place[event])
            n += 1
            event += 1
        if n + room > raw.shape[1]:
            status = NEED_SPACE
            break
        toast = toasts[relation]
        want = wants[relation]
        before = n
        if rmid == 9:
            if data[main] & 0x08:
                if toast or want & 1:
                    n = _push_multi(data, raw, n, unit, xid, lsn, relation, headers, toast)
                    if n < 0:
                        n = before
                        status = MALFORMED
                        break
                elif pending[unit] and data[main] & 0x02:
                    _push(raw, n, SKIPPED, unit, xid, lsn, relation, CLEAR_TOAST, lsn)
                    n += 1
        elif op == 0x00:
            if length < 3:
                status = MALFORMED
                break
            flags = data[main + 2]
            if flags & 0x08:
                kind = PARKED if flags & 0x04 else (TOAST if toast else INSERT)
                clear = CLEAR_TOAST if kind == INSERT else 0
                if kind != INSERT or want & 1:
                    _push(raw, n, kind, unit, xid, lsn, relation, clear, lsn)
                    raw[NEW_AT, n] = headers[BLOCKS + DATA_AT]
                    raw[NEW_LEN, n] = headers[BLOCKS + DATA_LENGTH]
                    if kind == PARKED:
                        parked[unit] = n
                    n += 1
                elif pending[unit]:
                    _push(raw, n, SKIPPED, unit, xid, lsn, relation, clear, lsn)
                    n += 1
        elif op == 0x50:
            if parked[unit] < 0:
                status = UNCONFIRMED
                break
            source = parked[unit]
            parked[unit] = -1
            kind = INSERT if want & 1 else SKIPPED
            _push(raw, n, kind, unit, raw[XID, source], raw[LSN, source], relation, CLEAR_TOAST, lsn)
            raw[NEW_AT, n] = raw[NEW_AT, source]
            raw[NEW_LEN, n] = raw[NEW_LEN, source]
            n += 1
        elif toast:
            pass
        elif op == 0x10:
            if length < 8:
                status = MALFORMED
                break
            flags = data[main + 7]
            if flags & 0x08:
                if parked[unit] >= 0:
                    parked[unit] = -1
                    _push(raw, n, SKIPPED, unit, xid, lsn, relation, CLEAR_TOAST, lsn)
                    n += 1
            elif want & (4 if flags & 0x06 else 8):
                _push(raw, n, DELETE, unit, xid, lsn, relation, CLEAR_TOAST, lsn)
                if flags & 0x06:
                    raw[OLD_AT, n] = main + 8
                    raw[OLD_LEN, n] = length - 8
                if flags & 0x04:
                    raw[FLAGS, n] |= OLD_IS_KEY
                n += 1
            elif pending[unit]:
                _push(raw, n, SKIPPED, unit, xid, lsn, relation, CLEAR_TOAST, lsn)
                n += 1
        elif want & 2:
            if length < 14 or data[main + 7] & 0x60:
                status = MALFORMED
                break
            flags = data[main + 7]
            _push(raw, n, UPDATE, unit, xid, lsn, relation, CLEAR_TOAST, lsn)
            if flags & 0x10:
                raw[NEW_AT, n] = headers[BLOCKS + DATA_AT]
                raw[NEW_LEN, n] = headers[BLOCKS + DATA_LENGTH]
            if flags & 0x0C:
                raw[OLD_AT, n] = main + 14
                raw[OLD_LEN, n] = length - 14
            if flags & 0x08:
                raw[FLAGS, n] |= OLD_IS_KEY
            n += 1
        elif pending[unit]:
            _push(raw, n, SKIPPED, unit, xid, lsn, relation, CLEAR_TOAST, lsn)
            n += 1
        if n > before:
            pending[unit] = raw[KIND, n - 1] == TOAST or (pending[unit] and not raw[FLAGS, n - 1] & CLEAR_TOAST)
        i += 1
    if status == OK:
        while event < len(event_place):
            if n >= raw.shape[1]:
                status = NEED_SPACE
                break
            _push(raw, n, LITERAL, event_unit[event], 0, event_lsn[event], event, 0, event_place[event])
            n += 1
            event += 1
    state[0] = i
    state[1] = n
    state[2] = event
    return status


@kernel
def group_items(raw, count, item_start, item_end, kind, txn, xid, lsn, layout, refs, flags, place):  # type: ignore[no-untyped-def]
    """Sort raw items by unit, keeping the order of the log inside each.

    Args:
        raw: int64[COLUMNS, >= count]; item_start, item_end: int64[u] written here.
        kind: uint8[count]; txn: int32[count]; xid: uint32[count]; lsn: int64[count]; layout: int32[count].
        refs: int64[4, count] new offset and length, old offset and length; flags: uint8[count]; place: int64[count].
    """
    item_end[:] = 0
    for i in range(count):
        item_end[raw[UNIT, i]] += 1
    total = np.int64(0)
    for unit in range(len(item_end)):
        item_start[unit] = total
        total += item_end[unit]
        item_end[unit] = item_start[unit]
    for i in range(count):
        unit = raw[UNIT, i]
        to = item_end[unit]
        item_end[unit] = to + 1
        kind[to] = raw[KIND, i]
        txn[to] = unit
        xid[to] = raw[XID, i]
        lsn[to] = raw[LSN, i]
        layout[to] = raw[LAYOUT, i]
        refs[0, to] = raw[NEW_AT, i]
        refs[1, to] = raw[NEW_LEN, i]
        refs[2, to] = raw[OLD_AT, i]
        refs[3, to] = raw[OLD_LEN, i]
        flags[to] = raw[FLAGS, i]
        place[to] = raw[PLACE, i]


@kernel
def announce(announcements, item_start, item_end, kind, layout, place, flags):  # type: ignore[no-untyped-def]
    """Flag the first change of the relation at or after each announcement (unit, LSN, relation).

    Returns:
        -1, or the number of an announcement that found no change.
    """
    for a in range(announcements.shape[1]):
        unit = announcements[0, a]
        found = False
        low = item_start[unit]
        high = item_end[unit]
        while low < high:
            middle = (low + high) >> 1
            if place[middle] < announcements[1, a]:
                low = middle + 1
            else:
                high = middle
        for i in range(low, item_end[unit]):
            if kind[i] <= DELETE and layout[i] == announcements[2, a]:
                flags[i] |= SEND_SCHEMA
                found = True
                break
        if not found:
            return a
    return -1
