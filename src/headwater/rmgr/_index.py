"""Kernel: framed records in, index rows out (PostgreSQL: LogicalDecodingProcessRecord and the callbacks of decode.c).

Row data is not looked at: a change becomes "xid X touched relation R here: n changes, b bytes". An index row never
crosses a commit with invalidations, a command id, an invalidation or a truncate of its own transaction (as far as that
is known here: :mod:`headwater.rmgr._row_epochs`), nor a line of the LSN grid, so that one row is decoded with one
version of its relation, and a transaction can be cut at the grid.
Rows of one (xid, relation) may still be split at will: the aggregating cache is small and direct-mapped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.kernels import borrowing_kernel, inline_kernel
from headwater.rmgr import heap, heap2, logicalmsg, smgr, standby, xact, xlog
from headwater.rmgr._change_memory import MALFORMED_MEMORY, change_memory
from headwater.rmgr._locators import find_locator
from headwater.rmgr._record import Int, parse_headers, u16, u32, u64
from headwater.rmgr._row_epochs import CLOCK, end_all_rows, end_own_rows, join_family, may_grow
from headwater.rmgr.header_slots import (
    BLOCKS,
    DB,
    FORK,
    MAIN_AT,
    MAIN_LENGTH,
    ORIGIN,
    REL,
    SPC,
    TOPLEVEL_XID,
)
from headwater.rmgr.heap_layout import (
    DELETE_FLAGS_AT,
    DELETE_SIZE,
    INSERT_FLAGS_AT,
    INSERT_SIZE,
    MULTI_INSERT_COUNT_AT,
    MULTI_INSERT_SIZE,
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
from headwater.rmgr.index_codes import (
    CATALOG_CHANGE,
    CONFIRMS,
    DELETES_BARE,
    DELETES_OLD,
    HAS_BASE,
    INSERTS,
    SPECULATIVE,
    SUPER_DELETES,
    UNSETTLED,
    UPDATES,
)
from headwater.rmgr.invalidation import MESSAGE_SIZE
from headwater.rmgr.registry import DBASE, FIRST_CUSTOM, HEAP, HEAP2, LOGICALMSG, RELMAP, SMGR, STANDBY, XACT, XLOG
from headwater.wal.record_layout import INFO_AT, RMID_AT, XID_AT, XLR_RMGR_INFO_MASK

OK, NEED_LOCATORS, MALFORMED, UNKNOWN = 0, -1, 1, 2
"""Status codes: done; the table of files is full; a record's lengths disagree; a kind that is not in the registry."""

KEPT_OF_XLOG = (
    xlog.CHECKPOINT_SHUTDOWN,
    xlog.CHECKPOINT_ONLINE,
    xlog.BACKUP_END,
    xlog.PARAMETER_CHANGE,
    xlog.END_OF_RECOVERY,
    xlog.OVERWRITE_CONTRECORD,
)
"""Kinds of records of XLOG that are kept whole, beside page images of catalogs."""

CACHE = 4096
"""Slots of the direct-mapped caches, a power of two."""

# Indexes into Tables.counts: the next record, rows in use of each table, the current grid line and the next cut; from
# CUSTOM on the number of records of each custom resource manager.
RECORD, N_LOCATORS, N_XIDS, N_CHANGES, N_XACTS, N_ASSIGNS, N_INVALS, N_COMMANDS, N_TRUNCATES, N_MESSAGES = range(10)
N_FILES, N_KEPT, LINE, CUT, CUSTOM = range(10, 15)
COUNTS = CUSTOM + 256 - FIRST_CUSTOM

INVALID_COMMAND_ID = 0xFFFFFFFF

Int64s = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Slots = NDArray[np.int32]


class Wanted(NamedTuple):
    """What the index looks for.

    Attributes:
        known: uint8[4096] the registry, by rmid * 16 + info >> 4.
        database: OID of the database to decode.
        catalogs: the first so many locators are catalogs, whose records are kept whole.
        inplace_is_transactional: INPLACE records mark their transaction as one that changes the catalog.
        dropped_stats_size: bytes of a dropped statistics entry.
        grid: bytes between grid lines.
        cuts: int64[] sorted LSNs of more catalog events.
    """

    known: Bytes
    database: int
    catalogs: int
    inplace_is_transactional: bool
    dropped_stats_size: int
    grid: int
    cuts: Int64s


class Tables(NamedTuple):
    """The rows found so far; n is the number of records.

    Attributes:
        locators: int64[3, m] (tablespace, database, file); slots: int32[] its hash (:func:`find_locator`).
        xids: int64[3, n] xid, LSN, bits: where an xid was first met, and again where it first got HAS_BASE.
        changes: int64[9, n] xid, locator, kinds, origin, count, bytes, first LSN, last LSN, memory; a speculative
            insert counts when it is confirmed.
        xacts: int64[15, n] kind, LSN, record number, xid, then the ten of :func:`parse_xact`; origin.
        assigns: int64[3, n] sub xid, toplevel xid, LSN.
        invals: int64[4, n] LSN, xid, message count, offset in data.
        commands: int64[3, n] xid, LSN, the command that sees what the NEW_CID's one did.
        truncates: int64[6, n] xid, LSN, origin, flags, number of relations, offset of their OIDs in data.
        messages: int64[5, n] xid, LSN, record number, origin, whether transactional.
        files: int64[3, n] xid, LSN, locator.
        kept: int64[n] numbers of the records to be kept whole.
        seen: int64[2, CACHE] xid and its row, direct-mapped.
        open: int64[3, CACHE] key and row of change rows that may still grow, and when they were begun, direct-mapped.
        families: int64[3, FAMILIES]; clocks: int64[CLOCKS] of :mod:`headwater.rmgr._row_epochs`.
        counts: int64[COUNTS] see above.
        headers: int64[HEADERS_LENGTH] scratch of :func:`parse_headers`; parsed: int64[10] of :func:`parse_xact`.
    """

    locators: Int64s
    slots: Slots
    xids: Int64s
    changes: Int64s
    xacts: Int64s
    assigns: Int64s
    invals: Int64s
    commands: Int64s
    truncates: Int64s
    messages: Int64s
    files: Int64s
    kept: Int64s
    seen: Int64s
    open: Int64s
    families: Int64s
    clocks: Int64s
    counts: Int64s
    headers: Int64s
    parsed: Int64s


@inline_kernel
def _slot(xid: Int, locator: Int) -> Int:
    return ((xid * 2654435761) ^ (locator * 40503)) & (CACHE - 1)


@borrowing_kernel
def heap_change(data: NDArray[np.uint8], info: Int, at: Int, length: Int) -> Int:
    """What a HEAP record's flags say: the ``kinds`` bit of its change, or 0 (no logical change)."""
    op = info & heap.OPMASK
    if op == heap.INSERT:
        if length < INSERT_SIZE or not data[at + INSERT_FLAGS_AT] & heap.INSERT_CONTAINS_NEW_TUPLE:
            return 0
        return SPECULATIVE | UNSETTLED if data[at + INSERT_FLAGS_AT] & heap.INSERT_IS_SPECULATIVE else INSERTS
    if op == heap.DELETE:
        if length < DELETE_SIZE:
            return 0
        flags = data[at + DELETE_FLAGS_AT]
        if flags & heap.DELETE_IS_SUPER:
            return SUPER_DELETES
        return DELETES_OLD if flags & heap.DELETE_CONTAINS_OLD else DELETES_BARE
    if op in (heap.UPDATE, heap.HOT_UPDATE):
        return UPDATES
    if op == heap.CONFIRM:
        return CONFIRMS
    return 0


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
def _keep(kept: Int64s, counts: Int64s) -> None:
    """Keep the current record whole."""
    kept[counts[N_KEPT]] = counts[RECORD]
    counts[N_KEPT] += 1


@borrowing_kernel
def _names_catalog(headers: Int64s, blocks: Int, catalogs: Int, locators: Int64s, slots: Slots) -> bool:
    """Whether any block of the record lies in the main fork of a catalog's heap."""
    for block in range(blocks):
        b = BLOCKS + block * 8
        if headers[b + FORK] == 0:
            found = find_locator(headers[b + SPC], headers[b + DB], headers[b + REL], locators, slots)
            if 0 <= found < catalogs:
                return True
    return False


@inline_kernel
def _locator(spc: Int, db: Int, rel: Int, locators: Int64s, slots: Slots, counts: Int64s) -> Int:
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
def _add_change(
    xid: Int,
    locator: Int,
    change: Int,
    count: Int,
    size: Int,
    memory: Int,
    origin: Int,
    lsn: Int,
    changes: Int64s,
    open_rows: Int64s,
    families: Int64s,
    clocks: Int64s,
    counts: Int64s,
) -> None:
    """Let the open row of (xid, locator) grow, or begin one."""
    slot = _slot(xid, locator)
    key = xid << 24 | (locator & 0xFFFFFF)
    row = open_rows[1, slot]
    grows = open_rows[0, slot] == key and changes[3, row] == origin
    if grows and may_grow(open_rows[2, slot], xid, families, clocks):
        changes[2, row] = (changes[2, row] & ~UNSETTLED) | change
        changes[4, row] += count
        changes[5, row] += size
        changes[7, row] = lsn
        changes[8, row] += memory
        return
    row = counts[N_CHANGES]
    counts[N_CHANGES] = row + 1
    open_rows[0, slot] = key
    open_rows[1, slot] = row
    open_rows[2, slot] = clocks[CLOCK]
    changes[0, row] = xid
    changes[1, row] = locator
    changes[2, row] = change
    changes[3, row] = origin
    changes[4, row] = count
    changes[5, row] = size
    changes[6, row] = lsn
    changes[7, row] = lsn
    changes[8, row] = memory


@borrowing_kernel
def _index_truncate(
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
def _index_command(data: Bytes, at: Int, main: Int, lsn: Int, commands: Int64s, counts: Int64s) -> Int:
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
def _index_heap(
    data: Bytes,
    at: Int,
    blocks: Int,
    headers: Int64s,
    lsn: Int,
    wanted: Wanted,
    locators: Int64s,
    slots: Slots,
    changes: Int64s,
    open_rows: Int64s,
    truncates: Int64s,
    kept: Int64s,
    families: Int64s,
    clocks: Int64s,
    counts: Int64s,
) -> Int:
    """A HEAP record, or a MULTI_INSERT of HEAP2; returns the xid's bits, or -1 if it is malformed."""
    op = data[at + INFO_AT] & heap.OPMASK
    xid = u32(data, at + XID_AT)
    main, length = headers[MAIN_AT], headers[MAIN_LENGTH]
    bits = HAS_BASE
    count = 1
    change = 0
    if data[at + RMID_AT] == HEAP2:
        if length < MULTI_INSERT_SIZE:
            return -1
        count = u16(data, main + MULTI_INSERT_COUNT_AT)
        if data[main] & heap.INSERT_CONTAINS_NEW_TUPLE:
            change = INSERTS if data[main] & heap.INSERT_LAST_IN_MULTI else INSERTS | UNSETTLED
    elif op == heap.TRUNCATE:
        if _index_truncate(data, xid, headers, lsn, wanted.database, truncates, counts) != OK:
            return -1
        end_own_rows(xid, families, clocks)
        return bits
    else:
        change = heap_change(data, data[at + INFO_AT], main, length)
        if change & (SPECULATIVE | SUPER_DELETES):
            count = 0
        if op == heap.INPLACE:
            bits = HAS_BASE | CATALOG_CHANGE if xid != 0 and wanted.inplace_is_transactional else 0
        elif op == heap.LOCK:
            bits = 0
    catalogs, database = wanted.catalogs, headers[BLOCKS + DB]
    if blocks == 0 or (database != wanted.database and database != 0):
        return bits
    locator = _locator(headers[BLOCKS + SPC], database, headers[BLOCKS + REL], locators, slots, counts)
    if locator < catalogs:
        _keep(kept, counts)
    # A file followed as a catalog may be a user's: of a table with user_catalog_table, whose rows are decoded too.
    if change != 0 and database != 0 and xid != 0:
        size, memory = u32(data, at), change_memory(data, data[at + RMID_AT], change, headers)
        if memory == MALFORMED_MEMORY:
            return -1
        origin = headers[ORIGIN]
        _add_change(
            xid, locator, change, count, size, memory, origin, lsn, changes, open_rows, families, clocks, counts
        )
    return bits


@borrowing_kernel
def _index_heap2(
    data: Bytes,
    at: Int,
    blocks: Int,
    headers: Int64s,
    lsn: Int,
    database: Int,
    catalogs: Int,
    locators: Int64s,
    slots: Slots,
    commands: Int64s,
    kept: Int64s,
    families: Int64s,
    clocks: Int64s,
    counts: Int64s,
) -> Int:
    """Any other HEAP2 record; returns the xid's bits, or -1 if it is malformed."""
    op = data[at + INFO_AT] & heap.OPMASK
    if op == heap2.NEW_CID:
        if headers[MAIN_LENGTH] < NEW_CID_SIZE:
            return -1
        main = headers[MAIN_AT]
        target = u32(data, main + NEW_CID_DB_AT)
        if target == database or target == 0:
            if _index_command(data, at, main, lsn, commands, counts) != OK:
                return -1
            xid, toplevel = u32(data, at + XID_AT), u32(data, main)
            if toplevel != xid:
                join_family(xid, toplevel, families, clocks)
            end_own_rows(xid, families, clocks)
            file = find_locator(
                u32(data, main + NEW_CID_SPC_AT), target, u32(data, main + NEW_CID_REL_AT), locators, slots
            )
            if 0 <= file < catalogs:
                _keep(kept, counts)
        return CATALOG_CHANGE
    if op != heap2.VISIBLE and (op == heap2.REWRITE or _names_catalog(headers, blocks, catalogs, locators, slots)):
        _keep(kept, counts)
    return 0


@borrowing_kernel
def _index_end(
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
def _index_invalidations(data: Bytes, at: Int, headers: Int64s, lsn: Int, invals: Int64s, counts: Int64s) -> Int:
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
def _index_file(
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
        _keep(kept, counts)
    if creates and db == wanted.database and u32(data, main + smgr.CREATE_FORK_AT) == 0:
        row = counts[N_FILES]
        files[0, row] = u32(data, at + XID_AT)
        files[1, row] = lsn
        files[2, row] = _locator(spc, db, rel, locators, slots, counts)
        counts[N_FILES] = row + 1
    return 0


@borrowing_kernel
def _index_message(
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


@borrowing_kernel
def _index_other(
    data: Bytes,
    at: Int,
    blocks: Int,
    headers: Int64s,
    lsn: Int,
    wanted: Wanted,
    locators: Int64s,
    slots: Slots,
    messages: Int64s,
    files: Int64s,
    kept: Int64s,
    counts: Int64s,
) -> Int:
    """A record of any other resource manager: kept whole if it matters; returns the xid's bits, or -1."""
    info = data[at + INFO_AT] & XLR_RMGR_INFO_MASK
    rmid = data[at + RMID_AT]
    if rmid == XLOG:
        is_image = info in (xlog.FPI_FOR_HINT, xlog.FPI)
        if info in KEPT_OF_XLOG or (is_image and _names_catalog(headers, blocks, wanted.catalogs, locators, slots)):
            _keep(kept, counts)
    elif rmid == SMGR:
        return _index_file(data, at, headers, lsn, wanted, locators, slots, files, kept, counts)
    elif rmid in (DBASE, RELMAP) or (rmid == STANDBY and info == standby.RUNNING_XACTS):
        _keep(kept, counts)
    elif rmid == LOGICALMSG:
        return _index_message(data, at, headers, lsn, wanted.database, messages, counts)
    return 0


@inline_kernel
def _register(xid: Int, bits: Int, lsn: Int, xids: Int64s, seen: Int64s, counts: Int64s) -> None:
    """Note where an xid is met first, and where it first has a base snapshot."""
    slot = _slot(xid, 0)
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
def _assign(xid: Int, toplevel: Int, lsn: Int, assigns: Int64s, counts: Int64s) -> None:
    row = counts[N_ASSIGNS]
    assigns[0, row] = xid
    assigns[1, row] = toplevel
    assigns[2, row] = lsn
    counts[N_ASSIGNS] = row + 1


@borrowing_kernel
def index_records(data: Bytes, positions: Int64s, lsns: Int64s, wanted: Wanted, tables: Tables) -> Int:
    """Index framed records, from record ``counts[RECORD]`` on.

    Args:
        data: uint8[] record bytes.
        positions: int64[n] offsets of the records.
        lsns: int64[n] their starts.
        wanted: what to look for.
        tables: the rows, with room for one more per table and record left.

    Returns:
        OK; NEED_LOCATORS; MALFORMED or UNKNOWN with ``counts[RECORD]`` at the record.
    """
    locators, slots, xids, changes, xacts, assigns, invals = tables[:7]
    commands, truncates, messages, files = tables[7:11]
    kept, seen, open_rows, families, clocks, counts, headers, parsed = tables[11:]
    known, catalogs, cuts = wanted.known, wanted.catalogs, wanted.cuts
    while counts[RECORD] < len(positions):
        at = positions[counts[RECORD]]
        lsn = lsns[counts[RECORD]]
        xid = u32(data, at + XID_AT)
        rmid = np.int64(data[at + RMID_AT])
        # Also xact.OPMASK: what this is compared with depends on the resource manager.
        op = data[at + INFO_AT] & heap.OPMASK
        if known[rmid * 16 + (data[at + INFO_AT] >> 4)] == 0:
            return UNKNOWN
        if counts[N_LOCATORS] == locators.shape[1]:
            return NEED_LOCATORS
        blocks = parse_headers(data, at, at + u32(data, at), headers)
        if blocks < 0:
            return MALFORMED
        if lsn // wanted.grid != counts[LINE]:
            counts[LINE] = lsn // wanted.grid
            end_all_rows(clocks)
        while counts[CUT] < len(cuts) and cuts[counts[CUT]] <= lsn:
            counts[CUT] += 1
            end_all_rows(clocks)
        if headers[TOPLEVEL_XID] != 0 and xid != 0:
            _assign(xid, headers[TOPLEVEL_XID], lsn, assigns, counts)
            join_family(xid, headers[TOPLEVEL_XID], families, clocks)
        registers = xid != 0
        if rmid == HEAP or (rmid == HEAP2 and op == heap2.MULTI_INSERT):
            bits = _index_heap(
                data,
                at,
                blocks,
                headers,
                lsn,
                wanted,
                locators,
                slots,
                changes,
                open_rows,
                truncates,
                kept,
                families,
                clocks,
                counts,
            )
        elif rmid == HEAP2:
            database = wanted.database
            bits = _index_heap2(
                data,
                at,
                blocks,
                headers,
                lsn,
                database,
                catalogs,
                locators,
                slots,
                commands,
                kept,
                families,
                clocks,
                counts,
            )
        elif rmid >= FIRST_CUSTOM:
            counts[CUSTOM + rmid - FIRST_CUSTOM] += 1
            bits = 0
        elif rmid != XACT:
            bits = _index_other(data, at, blocks, headers, lsn, wanted, locators, slots, messages, files, kept, counts)
        elif op == xact.INVALIDATIONS:
            bits = _index_invalidations(data, at, headers, lsn, invals, counts)
            if xid != 0:
                end_own_rows(xid, families, clocks)
        elif op == xact.PREPARE:
            _keep(kept, counts)
            bits = 0
        else:
            registers = False
            stats = wanted.dropped_stats_size
            is_end = op != xact.ASSIGNMENT
            bits = _index_end(data, at, headers, lsn, stats, parsed, xacts, clocks, counts) if is_end else 0
        if bits < 0:
            return MALFORMED
        if registers:
            _register(xid, bits, lsn, xids, seen, counts)
        counts[RECORD] += 1
    return OK
