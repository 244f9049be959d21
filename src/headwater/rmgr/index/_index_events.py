"""Kernel: rows of all records but changes: ends of transactions, commands, truncates, messages, files, xids.

Each function takes a record and appends a row. The function or its caller has checked offsets into the record against
its length. PostgreSQL: xactdesc.c, heapam_xlog.h, storage_xlog.h, message.h; SnapBuildProcessNewCid of snapbuild.c.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rmgr import logicalmsg, smgr, xact
from headwater.rmgr._locators import find_locator, is_among
from headwater.rmgr._record import Int, u32, u64
from headwater.rmgr.header_slots import MAIN_AT, MAIN_LENGTH, ORIGIN
from headwater.rmgr.heap_layout import (
    NEW_CID_CMAX_AT,
    NEW_CID_CMIN_AT,
    NEW_CID_DB_AT,
    NEW_CID_REL_AT,
    NEW_CID_SIZE,
    NEW_CID_SPC_AT,
    TRUNCATE_COUNT_AT,
    TRUNCATE_FLAGS_AT,
    TRUNCATE_SIZE,
)
from headwater.rmgr.index._change_memory import MESSAGE_LENGTHS
from headwater.rmgr.index._index_tables import (
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
    Tables,
    Wanted,
)
from headwater.rmgr.index._row_epochs import end_all_rows, end_own_rows, join_family
from headwater.rmgr.index.index_codes import CATALOG_CHANGE, COMMAND_MASK, COMMAND_SHIFT, HAS_BASE
from headwater.rmgr.invalidation import MESSAGE_SIZE
from headwater.wal.layout import INFO_AT, XID_AT, XLR_RMGR_INFO_MASK

INVALID_COMMAND_ID = 0xFFFFFFFF

# The fields that are read of a commit or abort record: microseconds since 2000-01-01; OID; count and offset of xids;
# count and offset of invalidation messages; xid that was prepared; origin's LSN and time; flags.
TIME, DATABASE, SUBXACTS, SUBXACTS_AT, INVALS, INVALS_AT, TWOPHASE_XID, ORIGIN_LSN, ORIGIN_TIME, XINFO = range(10)
PARSED = 10


@inline_kernel
def xid_slot(xid: Int, locator: Int) -> Int:
    return ((xid * 2654435761) ^ (locator * 40503)) & (CACHE - 1)


@borrowing_kernel
def parse_xact(data: Bytes, info: Int, at: Int, length: Int, stats_size: Int, row: Int64s) -> Int:
    """Read a commit or abort record's main data (ParseCommitRecord, ParseAbortRecord, xactdesc.c).

    Args:
        data: uint8[]; info: the record's info byte; at, length: its main data.
        stats_size: bytes of a dropped statistics entry.
        row: int64[PARSED] receives the fields, by the names above.

    Returns:
        OK or MALFORMED.
    """
    row[:] = 0
    end = at + length
    if length < 8:
        return MALFORMED
    row[TIME] = u64(data, at)
    p = at + 8
    if info & xact.HAS_INFO:
        if p + 4 > end:
            return MALFORMED
        row[XINFO] = u32(data, p)
        p += 4
    if row[XINFO] & xact.HAS_DBINFO:
        if p + 8 > end:
            return MALFORMED
        row[DATABASE] = u32(data, p)
        p += 8
    p = _parse_lists(data, p, end, stats_size, row)
    return MALFORMED if p < 0 else _parse_names(data, p, end, row)


@borrowing_kernel
def _parse_lists(data: Bytes, p: Int, end: Int, stats_size: Int, row: Int64s) -> Int:
    """Pass over the lists of a commit or abort record; return the offset after them, or -1."""
    lists = (
        (xact.HAS_SUBXACTS, 4),
        (xact.HAS_RELFILELOCATORS, 12),
        (xact.HAS_DROPPED_STATS, stats_size),
        (xact.HAS_INVALS, MESSAGE_SIZE),
    )
    for flag, size in lists:
        if not row[XINFO] & flag:
            continue
        if p + 4 > end:
            return -1
        count = u32(data, p)
        p += 4
        if count * size > end - p:
            return -1
        if flag == xact.HAS_SUBXACTS:
            row[SUBXACTS], row[SUBXACTS_AT] = count, p
        elif flag == xact.HAS_INVALS:
            row[INVALS], row[INVALS_AT] = count, p
        p += count * size
    return p


@borrowing_kernel
def _parse_names(data: Bytes, p: Int, end: Int, row: Int64s) -> Int:
    """Read the names of a prepared transaction and of an origin, at the end of a record: OK or MALFORMED."""
    if row[XINFO] & xact.HAS_TWOPHASE:
        if p + 4 > end:
            return MALFORMED
        row[TWOPHASE_XID] = u32(data, p)
        p += 4
        if row[XINFO] & xact.HAS_GID:
            while p < end and data[p] != 0:
                p += 1
            p += 1
    if row[XINFO] & xact.HAS_ORIGIN:
        if p + 16 > end:
            return MALFORMED
        row[ORIGIN_LSN] = u64(data, p)
        row[ORIGIN_TIME] = u64(data, p + 8)
    return OK


@inline_kernel
def keep(database: Int, t: Tables) -> None:
    """Keep the current record whole, for a database or, with 0, for all."""
    t.kept[0, t.counts[N_KEPT]] = t.counts[RECORD]
    t.kept[1, t.counts[N_KEPT]] = database
    t.counts[N_KEPT] += 1


@inline_kernel
def locator_number(spc: Int, db: Int, rel: Int, t: Tables) -> Int:
    """Return the number of a file, a new one if need be; a record may ask for one file."""
    index = find_locator(spc, db, rel, t.locators, t.slots)
    if index >= 0:
        return index
    number = t.counts[N_LOCATORS]
    t.slots[-1 - index] = number
    t.locators[0, number] = spc
    t.locators[1, number] = db
    t.locators[2, number] = rel
    t.counts[N_LOCATORS] = number + 1
    return number


@borrowing_kernel
def index_truncate(data: Bytes, at: Int, lsn: Int, databases: Int64s, t: Tables) -> Int:
    """Index a TRUNCATE record; return the xid's bits, or -1 if it is malformed."""
    main, length = t.headers[MAIN_AT], t.headers[MAIN_LENGTH]
    if length < TRUNCATE_SIZE or length != TRUNCATE_SIZE + 4 * u32(data, main + TRUNCATE_COUNT_AT):
        return -1
    xid = u32(data, at + XID_AT)
    if is_among(u32(data, main), databases):
        row = t.counts[N_TRUNCATES]
        t.truncates[0, row] = xid
        t.truncates[1, row] = lsn
        t.truncates[2, row] = t.headers[ORIGIN]
        t.truncates[3, row] = data[main + TRUNCATE_FLAGS_AT]
        t.truncates[4, row] = u32(data, main + TRUNCATE_COUNT_AT)
        t.truncates[5, row] = main + TRUNCATE_SIZE
        t.truncates[6, row] = u32(data, main)
        t.counts[N_TRUNCATES] = row + 1
    end_own_rows(xid, t.families, t.clocks)
    return HAS_BASE


@borrowing_kernel
def index_command(data: Bytes, at: Int, lsn: Int, wanted: Wanted, t: Tables) -> Int:
    """Index a NEW_CID record (SnapBuildProcessNewCid); return the xid's bits, or -1 if it is malformed."""
    main = t.headers[MAIN_AT]
    if t.headers[MAIN_LENGTH] < NEW_CID_SIZE:
        return -1
    database = u32(data, main + NEW_CID_DB_AT)
    if (database != 0 and not is_among(database, wanted.databases)) or not wanted.numbers_commands:
        return CATALOG_CHANGE
    cmin, cmax = u32(data, main + NEW_CID_CMIN_AT), u32(data, main + NEW_CID_CMAX_AT)
    if cmin == INVALID_COMMAND_ID and cmax == INVALID_COMMAND_ID:
        return -1
    last = cmin if cmax == INVALID_COMMAND_ID else cmax if cmin == INVALID_COMMAND_ID else max(cmin, cmax)
    xid, toplevel, row = u32(data, at + XID_AT), u32(data, main), t.counts[N_COMMANDS]
    t.commands[0, row] = xid
    t.commands[1, row] = lsn
    t.commands[2, row] = last + 1
    t.commands[3, row] = database
    t.counts[N_COMMANDS] = row + 1
    if toplevel != xid:
        join_family(xid, toplevel, t.families, t.clocks)
    end_own_rows(xid, t.families, t.clocks)
    spc, rel = u32(data, main + NEW_CID_SPC_AT), u32(data, main + NEW_CID_REL_AT)
    if 0 <= find_locator(spc, database, rel, t.locators, t.slots) < wanted.catalogs:
        keep(database, t)
    return CATALOG_CHANGE


@inline_kernel
def add_command(xid: Int, lsn: Int, t: Tables) -> None:
    """Add a catalog change of a transaction whose commands are numbered by LSN."""
    row = t.counts[N_COMMANDS]
    t.commands[0, row] = xid
    t.commands[1, row] = lsn
    t.commands[2, row] = (lsn >> COMMAND_SHIFT & COMMAND_MASK) + 1
    t.counts[N_COMMANDS] = row + 1
    end_own_rows(xid, t.families, t.clocks)


@borrowing_kernel
def index_end(data: Bytes, at: Int, lsn: Int, stats_size: Int, t: Tables) -> Int:
    """Index a commit or abort record; return 0, or -1 if it is malformed."""
    info = data[at + INFO_AT]
    op = np.int64(info & xact.OPMASK)
    row, xacts, parsed = t.counts[N_XACTS], t.xacts, t.parsed
    if parse_xact(data, info, t.headers[MAIN_AT], t.headers[MAIN_LENGTH], stats_size, parsed) != OK:
        return -1
    xacts[0, row] = op >> 4
    xacts[1, row] = lsn
    xacts[2, row] = t.counts[RECORD]
    xacts[3, row] = parsed[TWOPHASE_XID] if op >= xact.COMMIT_PREPARED else u32(data, at + XID_AT)
    for k in range(PARSED):
        xacts[4 + k, row] = parsed[k]
    xacts[14, row] = t.headers[ORIGIN] if parsed[XINFO] & xact.HAS_ORIGIN else 0
    t.counts[N_XACTS] = row + 1
    if parsed[INVALS] > 0:
        end_all_rows(t.clocks)
    return 0


@borrowing_kernel
def index_invalidations(data: Bytes, at: Int, lsn: Int, t: Tables) -> Int:
    """Index an XACT INVALIDATIONS record; return the xid's bits, or -1 if it is malformed."""
    main, length = t.headers[MAIN_AT], t.headers[MAIN_LENGTH]
    if length < 4 or 4 + MESSAGE_SIZE * u32(data, main) > length:
        return -1
    xid, row = u32(data, at + XID_AT), t.counts[N_INVALS]
    t.invals[0, row] = lsn
    t.invals[1, row] = xid
    t.invals[2, row] = u32(data, main)
    t.invals[3, row] = main + 4
    t.counts[N_INVALS] = row + 1
    if xid != 0:
        end_own_rows(xid, t.families, t.clocks)
    return CATALOG_CHANGE


@borrowing_kernel
def index_file(data: Bytes, at: Int, lsn: Int, wanted: Wanted, t: Tables) -> Int:
    """Index an SMGR record; return 0, or -1 if it is malformed."""
    main, creates = t.headers[MAIN_AT], data[at + INFO_AT] & XLR_RMGR_INFO_MASK == smgr.CREATE
    if t.headers[MAIN_LENGTH] != (smgr.CREATE_SIZE if creates else smgr.TRUNCATE_SIZE):
        return -1
    place = main if creates else main + smgr.TRUNCATE_LOCATOR_AT
    spc, db, rel = u32(data, place), u32(data, place + 4), u32(data, place + 8)
    if 0 <= find_locator(spc, db, rel, t.locators, t.slots) < wanted.catalogs:
        keep(db, t)
    if creates and is_among(db, wanted.databases) and u32(data, main + smgr.CREATE_FORK_AT) == 0:
        row = t.counts[N_FILES]
        t.files[0, row] = u32(data, at + XID_AT)
        t.files[1, row] = lsn
        t.files[2, row] = locator_number(spc, db, rel, t)
        t.counts[N_FILES] = row + 1
    return 0


@borrowing_kernel
def index_message(data: Bytes, at: Int, lsn: Int, wanted: Wanted, t: Tables) -> Int:
    """Index a LOGICALMSG record; return the xid's bits, or -1 if it is malformed."""
    main, length = t.headers[MAIN_AT], t.headers[MAIN_LENGTH]
    if length < logicalmsg.PREFIX_AT:
        return -1
    transactional = data[main + logicalmsg.TRANSACTIONAL_AT] != 0
    if is_among(u32(data, main), wanted.databases):
        row = t.counts[N_MESSAGES]
        t.messages[0, row] = u32(data, at + XID_AT)
        t.messages[1, row] = lsn
        t.messages[2, row] = t.counts[RECORD]
        t.messages[3, row] = t.headers[ORIGIN]
        t.messages[4, row] = transactional
        t.messages[5, row] = u32(data, main)
        t.messages[6, row] = wanted.change_size + MESSAGE_LENGTHS + length - logicalmsg.PREFIX_AT
        t.counts[N_MESSAGES] = row + 1
    return HAS_BASE if transactional else 0


@inline_kernel
def register(xid: Int, bits: Int, lsn: Int, t: Tables) -> None:
    """Note where an xid is met first, and where it first has a base snapshot."""
    slot = xid_slot(xid, 0)
    row = t.seen[1, slot]
    if t.seen[0, slot] == xid and bits & ~t.xids[2, row] & HAS_BASE == 0:
        t.xids[2, row] |= bits
        return
    row = t.counts[N_XIDS]
    t.seen[0, slot] = xid
    t.seen[1, slot] = row
    t.xids[0, row] = xid
    t.xids[1, row] = lsn
    t.xids[2, row] = bits
    t.counts[N_XIDS] = row + 1


@inline_kernel
def assign(xid: Int, toplevel: Int, lsn: Int, t: Tables) -> None:
    """Note that a record's header names the toplevel transaction of the record's xid."""
    row = t.counts[N_ASSIGNS]
    t.assigns[0, row] = xid
    t.assigns[1, row] = toplevel
    t.assigns[2, row] = lsn
    t.counts[N_ASSIGNS] = row + 1
    join_family(xid, toplevel, t.families, t.clocks)
