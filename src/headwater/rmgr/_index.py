"""Kernel: framed records in, index rows out (PostgreSQL: LogicalDecodingProcessRecord and the callbacks of decode.c).

Row data is not looked at: a change becomes "xid X touched relation R here: n changes, b bytes". An index row never
crosses a catalog event (a command id, an invalidation, a commit with invalidations, a truncate) nor a line of the
LSN grid, so that one row is decoded with one version of its relation, and a transaction can be cut at the grid.
Rows of one (xid, relation) may still be split at will: the aggregating cache is small and direct-mapped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.kernels import inline_kernel, kernel
from headwater.rmgr._record import (
    BLOCKS,
    DB,
    FORK,
    HEADERS_LENGTH,
    MAIN_AT,
    MAIN_LENGTH,
    ORIGIN,
    REL,
    SPC,
    TOPLEVEL_XID,
    parse_headers,
    u16,
    u32,
    u64,
)

OK, MALFORMED, UNKNOWN = 0, 1, 2
"""Status codes: done; a record's lengths disagree; a resource manager or info code is not in the registry."""

INSERTS, UPDATES, DELETES_OLD, DELETES_BARE, SPECULATIVE, CONFIRMS, SUPER_DELETES = 1, 2, 4, 8, 16, 32, 64
"""Bits of a change row's ``kinds``."""

UNSETTLED = 128
"""Bit of ``kinds``: the row's last change leaves TOAST chunks or a speculative insert pending; do not cut after it."""

HAS_BASE, CATALOG_CHANGE = 1, 2
"""Bits of an xid row: something was queued (a base snapshot exists); the catalog was changed."""

COMMIT, ABORT, COMMIT_PREPARED, ABORT_PREPARED, PREPARE = 0, 2, 3, 4, 1
"""Kinds of transaction ends: the opcode of the XACT record, shifted by four."""

CACHE = 4096


@inline_kernel
def _slot(xid: int, locator: int) -> int:
    return ((xid * 2654435761) ^ (locator * 40503)) & (CACHE - 1)


@kernel
def find_locator(spc: int, db: int, rel: int, table: NDArray[np.int64], slots: NDArray[np.int32]) -> int:
    """Index of a relation file in ``table``, or -1 - the free slot where it belongs.

    Args:
        spc: tablespace OID; db: database OID; rel: file number.
        table: int64[3, k] known files.
        slots: int32[power of two] open addressing, -1 free.
    """
    mask = len(slots) - 1
    slot = (rel * 2654435761 + db * 40503 + spc * 9973) & mask
    while True:
        found = slots[slot]
        if found < 0:
            return -1 - slot
        if table[2, found] == rel and table[1, found] == db and table[0, found] == spc:
            return found
        slot = (slot + 1) & mask


@kernel
def heap_change(data: NDArray[np.uint8], info: int, at: int, length: int) -> int:
    """What a HEAP record's flags say: the ``kinds`` bit of its change, or 0 (no logical change)."""
    op = info & 0x70
    if op == 0x00:
        if length < 3 or not data[at + 2] & 0x08:
            return 0
        return SPECULATIVE | UNSETTLED if data[at + 2] & 0x04 else INSERTS
    if op == 0x10:
        if length < 8:
            return 0
        flags = data[at + 7]
        if flags & 0x08:
            return SUPER_DELETES
        return DELETES_OLD if flags & 0x06 else DELETES_BARE
    if op in (0x20, 0x40):
        return UPDATES
    if op == 0x50:
        return CONFIRMS
    return 0


@kernel
def parse_xact(data: NDArray[np.uint8], info: int, at: int, length: int, major: int, row: NDArray[np.int64]) -> int:
    """Read a commit or abort record's main data (ParseCommitRecord, ParseAbortRecord, xactdesc.c).

    Args:
        data: uint8[]; info: the record's info byte; at, length: its main data; major: PostgreSQL's.
        row: int64[10] receives time, database, subxact count and offset, invalidation count and offset, two-phase
            xid, origin LSN, origin time, xinfo.

    Returns:
        OK or MALFORMED.
    """
    row[:] = 0
    end = at + length
    if length < 8:
        return MALFORMED
    row[0] = u64(data, at)
    p = at + 8
    xinfo = np.int64(0)
    if info & 0x80:
        if p + 4 > end:
            return MALFORMED
        xinfo = u32(data, p)
        p += 4
    row[9] = xinfo
    if xinfo & 1:
        if p + 8 > end:
            return MALFORMED
        row[1] = u32(data, p)
        p += 8
    for bit, size in ((1, 4), (2, 12), (8, 16 if major >= 18 else 12), (3, 16)):
        if not xinfo & (1 << bit):
            continue
        if p + 4 > end:
            return MALFORMED
        count = u32(data, p)
        p += 4
        if count * size > end - p:
            return MALFORMED
        if bit == 1:
            row[2] = count
            row[3] = p
        elif bit == 3:
            row[4] = count
            row[5] = p
        p += count * size
    if xinfo & (1 << 4):
        if p + 4 > end:
            return MALFORMED
        row[6] = u32(data, p)
        p += 4
        if xinfo & (1 << 7):
            while p < end and data[p] != 0:
                p += 1
            p += 1
    if xinfo & (1 << 5):
        if p + 16 > end:
            return MALFORMED
        row[7] = u64(data, p)
        row[8] = u64(data, p + 8)
    return OK


@kernel
def _names_catalog(headers, blocks, table, slots, catalogs):  # type: ignore[no-untyped-def]
    """Whether any block of the record lies in the main fork of a catalog's heap."""
    for block in range(blocks):
        b = BLOCKS + block * 8
        if headers[b + FORK] == 0:
            found = find_locator(headers[b + SPC], headers[b + DB], headers[b + REL], table, slots)
            if 0 <= found < catalogs:
                return True
    return False


@kernel
def index_records(
    data,
    positions,
    lsns,
    known,
    database,
    catalogs,
    major,
    grid,
    locators,
    locator_slots,
    xids,
    changes,
    xacts,
    assigns,
    invals,
    kept,
    counts,
):  # type: ignore[no-untyped-def]
    """Index framed records, from record ``counts[0]`` on.

    Args:
        data: uint8[]; positions: int64[n] offsets of the records; lsns: int64[n] their starts.
        known: uint8[4096] registry, by rmid * 16 + info >> 4.
        database: OID of the database to decode.
        catalogs: the first so many rows of ``locators`` are catalogs, whose records are kept whole.
        major: PostgreSQL's; grid: bytes between grid lines.
        locators: int64[3, m] (tablespace, database, file), filled on; locator_slots: int32[] its hash.
        xids: int64[3, n] xid, LSN, bits: where an xid was first met, and again where it first got HAS_BASE.
        changes: int64[8, n] xid, locator, kinds, origin, count, bytes, first LSN, last LSN; a speculative insert counts
            when it is confirmed.
        xacts: int64[14, n] kind, LSN, record number, xid, then the ten of :func:`parse_xact`.
        assigns: int64[3, n] sub xid, toplevel xid, LSN.
        invals: int64[4, n] LSN, xid, message count, offset in data.
        kept: int64[n] record numbers to be kept whole.
        counts: int64[8] next record, then rows in locators, xids, changes, xacts, assigns, invals, kept.

    Returns:
        OK, or with ``counts[0]`` at the record: MALFORMED, UNKNOWN; -1 when ``locators`` is full.
    """
    headers = np.zeros(HEADERS_LENGTH, np.int64)
    row = np.zeros(10, np.int64)
    seen_xid = np.zeros(CACHE, np.int64)
    seen_row = np.zeros(CACHE, np.int64)
    open_key = np.full(CACHE, -1, np.int64)
    open_row = np.zeros(CACHE, np.int64)
    open_epoch = np.zeros(CACHE, np.int64)
    epoch = 1
    line = np.int64(-1)
    n_loc, n_xid, n_chg = counts[1], counts[2], counts[3]
    n_act, n_asg, n_inv, n_kept = counts[4], counts[5], counts[6], counts[7]
    status = OK
    i = counts[0]
    while i < len(positions):
        at = positions[i]
        total = u32(data, at)
        xid = u32(data, at + 4)
        info = data[at + 16]
        rmid = np.int64(data[at + 17])
        lsn = lsns[i]
        if known[rmid * 16 + (info >> 4)] == 0:
            status = UNKNOWN
            break
        blocks = parse_headers(data, at, at + total, headers)
        if blocks < 0:
            status = MALFORMED
            break
        main = headers[MAIN_AT]
        length = headers[MAIN_LENGTH]
        if lsn // grid != line:
            line = lsn // grid
            epoch += 1
        if n_loc + 4 > locators.shape[1]:
            status = -1
            break
        bits = 0
        registers = xid != 0
        op = info & 0x70
        if headers[TOPLEVEL_XID] != 0 and xid != 0:
            assigns[0, n_asg] = xid
            assigns[1, n_asg] = headers[TOPLEVEL_XID]
            assigns[2, n_asg] = lsn
            n_asg += 1
        if rmid == 10 or (rmid == 9 and op == 0x50):
            locator = np.int64(-1)
            change = 0
            count = 1
            if blocks > 0:
                spc, db, rel = headers[BLOCKS + SPC], headers[BLOCKS + DB], headers[BLOCKS + REL]
                if db == database or db == 0:
                    locator = find_locator(spc, db, rel, locators, locator_slots)
                    if locator < 0:
                        locator_slots[-1 - locator] = n_loc
                        locators[0, n_loc] = spc
                        locators[1, n_loc] = db
                        locators[2, n_loc] = rel
                        locator = n_loc
                        n_loc += 1
            if rmid == 10:
                change = heap_change(data, info, main, length)
                if change & (SPECULATIVE | SUPER_DELETES):
                    count = 0
                if op == 0x30:
                    kept[n_kept] = i
                    n_kept += 1
                    epoch += 1
                    bits = HAS_BASE
                elif op == 0x70:
                    if xid != 0 and major < 18:
                        bits = HAS_BASE | CATALOG_CHANGE
                elif op != 0x60:
                    bits = HAS_BASE
            else:
                if length < 4:
                    status = MALFORMED
                    break
                bits = HAS_BASE
                count = u16(data, main + 2)
                if data[main] & 0x08:
                    change = INSERTS if data[main] & 0x02 else INSERTS | UNSETTLED
            if 0 <= locator < catalogs:
                kept[n_kept] = i
                n_kept += 1
            elif change != 0 and locator >= 0 and headers[BLOCKS + DB] == database and xid != 0:
                slot = _slot(xid, locator)
                key = xid << 24 | (locator & 0xFFFFFF)
                r = open_row[slot]
                if open_key[slot] == key and open_epoch[slot] == epoch and changes[3, r] == headers[ORIGIN]:
                    changes[2, r] = (changes[2, r] & ~UNSETTLED) | change
                    changes[4, r] += count
                    changes[5, r] += total
                    changes[7, r] = lsn
                else:
                    open_key[slot] = key
                    open_epoch[slot] = epoch
                    open_row[slot] = n_chg
                    changes[0, n_chg] = xid
                    changes[1, n_chg] = locator
                    changes[2, n_chg] = change
                    changes[3, n_chg] = headers[ORIGIN]
                    changes[4, n_chg] = count
                    changes[5, n_chg] = total
                    changes[6, n_chg] = lsn
                    changes[7, n_chg] = lsn
                    n_chg += 1
        elif rmid == 9:
            if op == 0x70:
                if length < 34:
                    status = MALFORMED
                    break
                target = u32(data, main + 20)
                if target == database or target == 0:
                    kept[n_kept] = i
                    n_kept += 1
                    epoch += 1
                bits = CATALOG_CHANGE
            elif op != 0x40 and (op == 0x00 or _names_catalog(headers, blocks, locators, locator_slots, catalogs)):
                kept[n_kept] = i
                n_kept += 1
        elif rmid == 1:
            if op in (0x00, 0x20, 0x30, 0x40):
                registers = False
                if parse_xact(data, info, main, length, major, row) != OK:
                    status = MALFORMED
                    break
                xacts[0, n_act] = op >> 4
                xacts[1, n_act] = lsn
                xacts[2, n_act] = i
                xacts[3, n_act] = row[6] if op >= 0x30 else xid
                for k in range(10):
                    xacts[4 + k, n_act] = row[k]
                n_act += 1
                if row[4] > 0:
                    epoch += 1
            elif op == 0x60:
                if length < 4 or 4 + 16 * u32(data, main) > length:
                    status = MALFORMED
                    break
                invals[0, n_inv] = lsn
                invals[1, n_inv] = xid
                invals[2, n_inv] = u32(data, main)
                invals[3, n_inv] = main + 4
                n_inv += 1
                epoch += 1
                bits = CATALOG_CHANGE
            elif op == 0x10:
                kept[n_kept] = i
                n_kept += 1
            else:
                registers = False
        elif rmid == 0:
            keep = (op in (0x00, 0x10, 0x60) and info & 0x80 == 0) or info & 0xF0 in (0x90, 0xD0)
            if info & 0xF0 in (0xA0, 0xB0):
                keep = _names_catalog(headers, blocks, locators, locator_slots, catalogs)
            if keep:
                kept[n_kept] = i
                n_kept += 1
        elif rmid == 8:
            if op == 0x10:
                kept[n_kept] = i
                n_kept += 1
        elif rmid == 2:
            if op == 0x20 and length >= 16:
                found = find_locator(
                    u32(data, main + 4), u32(data, main + 8), u32(data, main + 12), locators, locator_slots
                )
                if 0 <= found < catalogs:
                    kept[n_kept] = i
                    n_kept += 1
        elif rmid == 4 or rmid == 7 or rmid == 21:
            kept[n_kept] = i
            n_kept += 1
            if rmid == 21:
                epoch += 1
                if length >= 5 and data[main + 4] != 0 and xid != 0:
                    bits = HAS_BASE
        if registers:
            slot = _slot(xid, 0)
            if seen_xid[slot] == xid and bits & ~xids[2, seen_row[slot]] & HAS_BASE == 0:
                xids[2, seen_row[slot]] |= bits
            else:
                seen_xid[slot] = xid
                seen_row[slot] = n_xid
                xids[0, n_xid] = xid
                xids[1, n_xid] = lsn
                xids[2, n_xid] = bits
                n_xid += 1
        i += 1
    counts[0] = i
    counts[1], counts[2], counts[3] = n_loc, n_xid, n_chg
    counts[4], counts[5], counts[6], counts[7] = n_act, n_asg, n_inv, n_kept
    return status
