"""Kernel: framed records in, index rows out (PostgreSQL: LogicalDecodingProcessRecord and the callbacks of decode.c).

Row data is not looked at: a change becomes "xid X touched relation R here: n changes, b bytes". An index row never
crosses a commit with invalidations, a command id, an invalidation or a truncate of its own transaction (as far as that
is known here: :mod:`headwater.rmgr._row_epochs`), nor a line of the LSN grid, so that one row is decoded with one
version of its relation, and a transaction can be cut at the grid.
Rows of one (xid, relation) may still be split at will: the aggregating cache is small and direct-mapped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.kernels import borrowing_kernel
from headwater.rmgr import heap, heap2, standby, xact, xlog
from headwater.rmgr._change_memory import MALFORMED_MEMORY, change_memory
from headwater.rmgr._index_events import (
    assign,
    index_command,
    index_end,
    index_file,
    index_invalidations,
    index_message,
    index_truncate,
    keep,
    locator_number,
    register,
    xid_slot,
)
from headwater.rmgr._index_tables import (
    CUSTOM,
    CUT,
    LINE,
    MALFORMED,
    N_CHANGES,
    N_LOCATORS,
    NEED_LOCATORS,
    OK,
    RECORD,
    UNKNOWN,
    Bytes,
    Int64s,
    Slots,
    Tables,
    Wanted,
)
from headwater.rmgr._locators import find_locator
from headwater.rmgr._record import Int, parse_headers, u16, u32
from headwater.rmgr._row_epochs import CLOCK, end_all_rows, end_own_rows, join_family, may_grow
from headwater.rmgr.header_slots import BLOCKS, DB, FORK, MAIN_AT, MAIN_LENGTH, ORIGIN, REL, SPC, TOPLEVEL_XID
from headwater.rmgr.heap_layout import (
    DELETE_FLAGS_AT,
    DELETE_SIZE,
    INSERT_FLAGS_AT,
    INSERT_SIZE,
    MULTI_INSERT_COUNT_AT,
    MULTI_INSERT_SIZE,
    NEW_CID_DB_AT,
    NEW_CID_REL_AT,
    NEW_CID_SIZE,
    NEW_CID_SPC_AT,
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
from headwater.rmgr.registry import DBASE, FIRST_CUSTOM, HEAP, HEAP2, LOGICALMSG, RELMAP, SMGR, STANDBY, XACT, XLOG
from headwater.wal.record_layout import INFO_AT, RMID_AT, XID_AT, XLR_RMGR_INFO_MASK

KEPT_OF_XLOG = (
    xlog.CHECKPOINT_SHUTDOWN,
    xlog.CHECKPOINT_ONLINE,
    xlog.BACKUP_END,
    xlog.PARAMETER_CHANGE,
    xlog.END_OF_RECOVERY,
    xlog.OVERWRITE_CONTRECORD,
)
"""Kinds of records of XLOG that are kept whole, beside page images of catalogs."""


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
def _names_catalog(headers: Int64s, blocks: Int, catalogs: Int, locators: Int64s, slots: Slots) -> bool:
    """Whether any block of the record lies in the main fork of a catalog's heap."""
    for block in range(blocks):
        b = BLOCKS + block * 8
        if headers[b + FORK] == 0:
            found = find_locator(headers[b + SPC], headers[b + DB], headers[b + REL], locators, slots)
            if 0 <= found < catalogs:
                return True
    return False


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
    slot = xid_slot(xid, locator)
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
        if index_truncate(data, xid, headers, lsn, wanted.database, truncates, counts) != OK:
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
    locator = locator_number(headers[BLOCKS + SPC], database, headers[BLOCKS + REL], locators, slots, counts)
    if locator < catalogs:
        keep(kept, counts)
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
            if index_command(data, at, main, lsn, commands, counts) != OK:
                return -1
            xid, toplevel = u32(data, at + XID_AT), u32(data, main)
            if toplevel != xid:
                join_family(xid, toplevel, families, clocks)
            end_own_rows(xid, families, clocks)
            file = find_locator(
                u32(data, main + NEW_CID_SPC_AT), target, u32(data, main + NEW_CID_REL_AT), locators, slots
            )
            if 0 <= file < catalogs:
                keep(kept, counts)
        return CATALOG_CHANGE
    if op != heap2.VISIBLE and (op == heap2.REWRITE or _names_catalog(headers, blocks, catalogs, locators, slots)):
        keep(kept, counts)
    return 0


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
            keep(kept, counts)
    elif rmid == SMGR:
        return index_file(data, at, headers, lsn, wanted, locators, slots, files, kept, counts)
    elif rmid in (DBASE, RELMAP) or (rmid == STANDBY and info == standby.RUNNING_XACTS):
        keep(kept, counts)
    elif rmid == LOGICALMSG:
        return index_message(data, at, headers, lsn, wanted.database, messages, counts)
    return 0


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
            assign(xid, headers[TOPLEVEL_XID], lsn, assigns, counts)
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
            bits = index_invalidations(data, at, headers, lsn, invals, counts)
            if xid != 0:
                end_own_rows(xid, families, clocks)
        elif op == xact.PREPARE:
            keep(kept, counts)
            bits = 0
        else:
            registers = False
            stats = wanted.dropped_stats_size
            is_end = op != xact.ASSIGNMENT
            bits = index_end(data, at, headers, lsn, stats, parsed, xacts, clocks, counts) if is_end else 0
        if bits < 0:
            return MALFORMED
        if registers:
            register(xid, bits, lsn, xids, seen, counts)
        counts[RECORD] += 1
    return OK
