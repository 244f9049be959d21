"""Kernel: rows of everything that is no change: ends of transactions, commands, truncates, messages, files, xids.

Each function takes one record and appends a row; offsets into the record have been checked against its length by it or
its caller. PostgreSQL: xactdesc.c, heapam_xlog.h, storage_xlog.h, message.h; SnapBuildProcessNewCid of snapbuild.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.kernels import borrowing_kernel, inline_kernel
from headwater.rmgr import logicalmsg, smgr, xact
from headwater.rmgr._index_tables import (
    CACHE,
    MALFORMED,
    N_ASSIGNS,
    N_COMMANDS,
    N_FILES,
    N_INVALS,
    N_KEPT,
    N_LOCATORS,
    N_MESSAGES,
    N_TRUNCATES,
    N_XACTS,
    N_XIDS,
    OK,
    RECORD,
    Bytes,
    Int64s,
    Slots,
    Wanted,
)
from headwater.rmgr._locators import find_locator
from headwater.rmgr._record import Int, u32, u64
from headwater.rmgr._row_epochs import end_all_rows
from headwater.rmgr.header_slots import MAIN_AT, MAIN_LENGTH, ORIGIN
from headwater.rmgr.heap_layout import (
    NEW_CID_CMAX_AT,
    NEW_CID_CMIN_AT,
    TRUNCATE_COUNT_AT,
    TRUNCATE_FLAGS_AT,
    TRUNCATE_SIZE,
)
from headwater.rmgr.index_codes import CATALOG_CHANGE, HAS_BASE
from headwater.rmgr.invalidation import MESSAGE_SIZE
from headwater.wal.record_layout import INFO_AT, XID_AT, XLR_RMGR_INFO_MASK

INVALID_COMMAND_ID = 0xFFFFFFFF


@inline_kernel
def xid_slot(xid: Int, locator: Int) -> Int:
    return ((xid * 2654435761) ^ (locator * 40503)) & (CACHE - 1)


@borrowing_kernel
def parse_xact(data: NDArray[np.uint8], info: Int, at: Int, length: Int, stats_size: Int, row: Int64s) -> Int:
    """Read a commit or abort record's main data (ParseCommitRecord, ParseAbortRecord, xactdesc.c).

    Args:
        data: uint8[]; info: the record's info byte; at, length: its main data.
        stats_size: bytes of a dropped statistics entry.
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
    xinfo: Int = np.int64(0)
    if info & xact.HAS_INFO:
        if p + 4 > end:
            return MALFORMED
        xinfo = u32(data, p)
        p += 4
    row[9] = xinfo
    if xinfo & xact.HAS_DBINFO:
        if p + 8 > end:
            return MALFORMED
        row[1] = u32(data, p)
        p += 8
    lists = (
        (xact.HAS_SUBXACTS, 4),
        (xact.HAS_RELFILELOCATORS, 12),
        (xact.HAS_DROPPED_STATS, stats_size),
        (xact.HAS_INVALS, MESSAGE_SIZE),
    )
    for flag, size in lists:
        if not xinfo & flag:
            continue
        if p + 4 > end:
            return MALFORMED
        count = u32(data, p)
        p += 4
        if count * size > end - p:
            return MALFORMED
        if flag == xact.HAS_SUBXACTS:
            row[2] = count
            row[3] = p
        elif flag == xact.HAS_INVALS:
            row[4] = count
            row[5] = p
        p += count * size
    if xinfo & xact.HAS_TWOPHASE:
        if p + 4 > end:
            return MALFORMED
        row[6] = u32(data, p)
        p += 4
        if xinfo & xact.HAS_GID:
            while p < end and data[p] != 0:
                p += 1
            p += 1
    if xinfo & xact.HAS_ORIGIN:
        if p + 16 > end:
            return MALFORMED
        row[7] = u64(data, p)
        row[8] = u64(data, p + 8)
    return OK


@inline_kernel
def keep(kept: Int64s, counts: Int64s) -> None:
    """Keep the current record whole."""
    kept[counts[N_KEPT]] = counts[RECORD]
    counts[N_KEPT] += 1


@inline_kernel
def locator_number(spc: Int, db: Int, rel: Int, locators: Int64s, slots: Slots, counts: Int64s) -> Int:
    """The number of a file, a new one if need be; one record may ask for one file."""
    found = find_locator(spc, db, rel, locators, slots)
    if found >= 0:
        return found
    number = counts[N_LOCATORS]
    slots[-1 - found] = number
    locators[0, number] = spc
    locators[1, number] = db
    locators[2, number] = rel
    counts[N_LOCATORS] = number + 1
    return number


@borrowing_kernel
def index_truncate(
    data: Bytes, xid: Int, headers: Int64s, lsn: Int, database: Int, truncates: Int64s, counts: Int64s
) -> Int:
    """A TRUNCATE record: OK, or MALFORMED."""
    main, length = headers[MAIN_AT], headers[MAIN_LENGTH]
    if length < TRUNCATE_SIZE or length != TRUNCATE_SIZE + 4 * u32(data, main + TRUNCATE_COUNT_AT):
        return MALFORMED
    if u32(data, main) != database:
        return OK
    row = counts[N_TRUNCATES]
    truncates[0, row] = xid
    truncates[1, row] = lsn
    truncates[2, row] = headers[ORIGIN]
    truncates[3, row] = data[main + TRUNCATE_FLAGS_AT]
    truncates[4, row] = u32(data, main + TRUNCATE_COUNT_AT)
    truncates[5, row] = main + TRUNCATE_SIZE
    counts[N_TRUNCATES] = row + 1
    return OK


@borrowing_kernel
def index_command(data: Bytes, at: Int, main: Int, lsn: Int, commands: Int64s, counts: Int64s) -> Int:
    """A NEW_CID record of our database (SnapBuildProcessNewCid): OK, or MALFORMED if it names no command."""
    cmin, cmax = u32(data, main + NEW_CID_CMIN_AT), u32(data, main + NEW_CID_CMAX_AT)
    if cmin == INVALID_COMMAND_ID and cmax == INVALID_COMMAND_ID:
        return MALFORMED
    last = cmin if cmax == INVALID_COMMAND_ID else cmax if cmin == INVALID_COMMAND_ID else max(cmin, cmax)
    row = counts[N_COMMANDS]
    commands[0, row] = u32(data, at + XID_AT)
    commands[1, row] = lsn
    commands[2, row] = last + 1
    counts[N_COMMANDS] = row + 1
    return OK


@borrowing_kernel
def index_end(
    data: Bytes,
    at: Int,
    headers: Int64s,
    lsn: Int,
    stats_size: Int,
    parsed: Int64s,
    xacts: Int64s,
    clocks: Int64s,
    counts: Int64s,
) -> Int:
    """A commit or abort record; 0, or -1 if it is malformed."""
    info = data[at + INFO_AT]
    op = np.int64(info & xact.OPMASK)
    row = counts[N_XACTS]
    if parse_xact(data, info, headers[MAIN_AT], headers[MAIN_LENGTH], stats_size, parsed) != OK:
        return -1
    xacts[0, row] = op >> 4
    xacts[1, row] = lsn
    xacts[2, row] = counts[RECORD]
    xacts[3, row] = parsed[6] if op >= xact.COMMIT_PREPARED else u32(data, at + XID_AT)
    for k in range(10):
        xacts[4 + k, row] = parsed[k]
    xacts[14, row] = headers[ORIGIN] if parsed[9] & xact.HAS_ORIGIN else 0
    counts[N_XACTS] = row + 1
    if parsed[4] > 0:
        end_all_rows(clocks)
    return 0


@borrowing_kernel
def index_invalidations(data: Bytes, at: Int, headers: Int64s, lsn: Int, invals: Int64s, counts: Int64s) -> Int:
    """An XACT INVALIDATIONS record; returns the xid's bits, or -1 if it is malformed."""
    main, length = headers[MAIN_AT], headers[MAIN_LENGTH]
    if length < 4 or 4 + MESSAGE_SIZE * u32(data, main) > length:
        return -1
    row = counts[N_INVALS]
    invals[0, row] = lsn
    invals[1, row] = u32(data, at + XID_AT)
    invals[2, row] = u32(data, main)
    invals[3, row] = main + 4
    counts[N_INVALS] = row + 1
    return CATALOG_CHANGE


@borrowing_kernel
def index_file(
    data: Bytes,
    at: Int,
    headers: Int64s,
    lsn: Int,
    wanted: Wanted,
    locators: Int64s,
    slots: Slots,
    files: Int64s,
    kept: Int64s,
    counts: Int64s,
) -> Int:
    """An SMGR record: 0, or -1 if it is malformed."""
    main, creates = headers[MAIN_AT], data[at + INFO_AT] & XLR_RMGR_INFO_MASK == smgr.CREATE
    if headers[MAIN_LENGTH] != (smgr.CREATE_SIZE if creates else smgr.TRUNCATE_SIZE):
        return -1
    place = main if creates else main + smgr.TRUNCATE_LOCATOR_AT
    spc, db, rel = u32(data, place), u32(data, place + 4), u32(data, place + 8)
    if 0 <= find_locator(spc, db, rel, locators, slots) < wanted.catalogs:
        keep(kept, counts)
    if creates and db == wanted.database and u32(data, main + smgr.CREATE_FORK_AT) == 0:
        row = counts[N_FILES]
        files[0, row] = u32(data, at + XID_AT)
        files[1, row] = lsn
        files[2, row] = locator_number(spc, db, rel, locators, slots, counts)
        counts[N_FILES] = row + 1
    return 0


@borrowing_kernel
def index_message(
    data: Bytes, at: Int, headers: Int64s, lsn: Int, database: Int, messages: Int64s, counts: Int64s
) -> Int:
    """A LOGICALMSG record; returns the xid's bits, or -1 if it is malformed."""
    main, length = headers[MAIN_AT], headers[MAIN_LENGTH]
    if length < logicalmsg.PREFIX_AT:
        return -1
    transactional = data[main + logicalmsg.TRANSACTIONAL_AT] != 0
    if u32(data, main) == database:
        row = counts[N_MESSAGES]
        messages[0, row] = u32(data, at + XID_AT)
        messages[1, row] = lsn
        messages[2, row] = counts[RECORD]
        messages[3, row] = headers[ORIGIN]
        messages[4, row] = transactional
        counts[N_MESSAGES] = row + 1
    return HAS_BASE if transactional else 0


@inline_kernel
def register(xid: Int, bits: Int, lsn: Int, xids: Int64s, seen: Int64s, counts: Int64s) -> None:
    """Note where an xid is met first, and where it first has a base snapshot."""
    slot = xid_slot(xid, 0)
    row = seen[1, slot]
    if seen[0, slot] == xid and bits & ~xids[2, row] & HAS_BASE == 0:
        xids[2, row] |= bits
        return
    row = counts[N_XIDS]
    seen[0, slot] = xid
    seen[1, slot] = row
    xids[0, row] = xid
    xids[1, row] = lsn
    xids[2, row] = bits
    counts[N_XIDS] = row + 1


@inline_kernel
def assign(xid: Int, toplevel: Int, lsn: Int, assigns: Int64s, counts: Int64s) -> None:
    row = counts[N_ASSIGNS]
    assigns[0, row] = xid
    assigns[1, row] = toplevel
    assigns[2, row] = lsn
    counts[N_ASSIGNS] = row + 1
