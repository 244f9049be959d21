"""Kernel: framed records in, index rows out (PostgreSQL: LogicalDecodingProcessRecord and the callbacks of decode.c).

Row data is not looked at: a change becomes "xid X touched relation R here: n changes, b bytes". An index row never
crosses a line of the LSN grid, a commit with invalidations, or an event of its own transaction. Such events are a
command id, an invalidation or a truncate, as far as they are known here (:mod:`headwater.rmgr.index._row_epochs`). So a
row is decoded with one version of its relation, and a transaction can be cut at the grid. Rows of one (xid, relation)
may still be split at will: the aggregating cache is small and direct-mapped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rmgr import heap, heap2, standby, xact, xlog
from headwater.rmgr._locators import find_locator, is_among
from headwater.rmgr._record import Int, parse_headers, u16, u32
from headwater.rmgr.header_slots import (
    BLOCKS,
    DATA_AT,
    DB,
    FORK,
    IMAGE,
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
)
from headwater.rmgr.index._change_memory import (
    MALFORMED_MEMORY,
    TUPLE_SIZE,
    change_memory,
    next_tuple,
)
from headwater.rmgr.index._index_events import (
    add_command,
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
from headwater.rmgr.index._index_tables import (
    CUSTOM,
    CUT,
    DETAILED,
    LINE,
    MALFORMED,
    MOST_TUPLES,
    N_CHANGES,
    N_LOCATORS,
    NEED_CHANGES,
    NEED_LOCATORS,
    OK,
    RECORD,
    UNKNOWN,
    Bytes,
    Int64s,
    Tables,
    Wanted,
)
from headwater.rmgr.index._row_epochs import CLOCK, end_all_rows, may_grow
from headwater.rmgr.index.index_codes import (
    CATALOG_CHANGE,
    CHUNKS,
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
from headwater.wal.layout import INFO_AT, RMID_AT, XID_AT, XLR_RMGR_INFO_MASK

KEPT_OF_XLOG = (
    xlog.CHECKPOINT_SHUTDOWN,
    xlog.CHECKPOINT_ONLINE,
    xlog.BACKUP_END,
    xlog.PARAMETER_CHANGE,
    xlog.END_OF_RECOVERY,
    xlog.LOGICAL_DECODING_STATUS_CHANGE,
    xlog.OVERWRITE_CONTRECORD,
)
"""Kinds of records of XLOG that are kept whole, beside page images of catalogs."""


@borrowing_kernel
def heap_change(data: NDArray[np.uint8], info: Int, at: Int, length: Int, is_logical: bool) -> Int:
    """Return the ``kinds`` bit of a HEAP record's change by its flags, or 0 (no logical change).

    Below wal_level logical no flag tells which inserts are logical changes: all are, as their relation decides.
    """
    op = info & heap.OPMASK
    if op == heap.INSERT:
        if length < INSERT_SIZE or (is_logical and not data[at + INSERT_FLAGS_AT] & heap.INSERT_CONTAINS_NEW_TUPLE):
            return 0
        return SPECULATIVE | UNSETTLED if data[at + INSERT_FLAGS_AT] & heap.INSERT_IS_SPECULATIVE else INSERTS
    if op == heap.DELETE:
        if length < DELETE_SIZE:
            return 0
        flags = data[at + DELETE_FLAGS_AT]
        if flags & heap.DELETE_NO_LOGICAL:
            return 0
        if flags & heap.DELETE_IS_SUPER:
            return SUPER_DELETES
        return DELETES_OLD if flags & heap.DELETE_CONTAINS_OLD else DELETES_BARE
    if op in (heap.UPDATE, heap.HOT_UPDATE):
        return UPDATES
    if op == heap.CONFIRM:
        return CONFIRMS
    return 0


@borrowing_kernel
def _catalog_database(blocks: Int, catalogs: Int, t: Tables) -> Int:
    """Find the database of the record's first block in the main fork of a catalog's heap, -1 for none."""
    for block in range(blocks):
        b = BLOCKS + block * 8
        if t.headers[b + FORK] == 0:
            spc, db, rel = t.headers[b + SPC], t.headers[b + DB], t.headers[b + REL]
            if 0 <= find_locator(spc, db, rel, t.locators, t.slots) < catalogs:
                return db
    return -1


@inline_kernel
def _add_change(xid: Int, locator: Int, change: Int, count: Int, size: Int, memory: Int, lsn: Int, t: Tables) -> None:
    """Let the open row of (xid, locator) grow, or begin one."""
    slot = xid_slot(xid, locator)
    key = xid << 24 | (locator & 0xFFFFFF)
    changes, row, origin = t.changes, t.open[1, slot], t.headers[ORIGIN]
    grows = t.open[0, slot] == key and changes.origin[row] == origin
    if grows and may_grow(t.open[2, slot], xid, t.families, t.clocks):
        changes.kinds[row] = (np.int64(changes.kinds[row]) & ~UNSETTLED) | change
        changes.number[row] += count
        changes.bytes[row] += size
        changes.span[row] = lsn - changes.first[row]
        changes.memory[row] += memory
        return
    row = t.counts[N_CHANGES]
    t.counts[N_CHANGES] = row + 1
    t.open[0, slot] = key
    t.open[1, slot] = row
    t.open[2, slot] = t.clocks[CLOCK]
    changes.xid[row] = xid
    changes.locator[row] = locator
    changes.kinds[row] = change
    changes.origin[row] = origin
    changes.number[row] = count
    changes.bytes[row] = size
    changes.first[row] = lsn
    changes.span[row] = 0
    changes.memory[row] = memory


@borrowing_kernel
def _add_tuples(
    data: Bytes, xid: Int, locator: Int, change: Int, count: Int, size: Int, lsn: Int, wanted: Wanted, t: Tables
) -> None:
    """Add a row for each tuple of a MULTI_INSERT, whose lengths agree; the last has the rest of its bytes."""
    base, p = t.headers[BLOCKS + DATA_AT], np.int64(0)
    for number in range(count):
        start, p = next_tuple(data, base, p)
        is_last = number == count - 1
        end_all_rows(t.clocks)
        _add_change(
            xid,
            locator,
            change if is_last else change | UNSETTLED,
            1,
            size - size // count * (count - 1) if is_last else size // count,
            wanted.change_size + TUPLE_SIZE + p - start,
            lsn,
            t,
        )


@inline_kernel
def _index_heap(data: Bytes, at: Int, lsn: Int, blocks: Int, wanted: Wanted, t: Tables) -> Int:
    """Index a HEAP record, or a MULTI_INSERT of HEAP2; return the xid's bits, or -1 if it is malformed."""
    op, rmid = data[at + INFO_AT] & heap.OPMASK, data[at + RMID_AT]
    xid = u32(data, at + XID_AT)
    main, length = t.headers[MAIN_AT], t.headers[MAIN_LENGTH]
    bits = HAS_BASE
    count = 1
    change = 0
    if rmid == HEAP2:
        if length < MULTI_INSERT_SIZE:
            return -1
        count = u16(data, main + MULTI_INSERT_COUNT_AT)
        if data[main] & heap.INSERT_CONTAINS_NEW_TUPLE or not wanted.numbers_commands:
            change = INSERTS if data[main] & heap.INSERT_LAST_IN_MULTI else INSERTS | UNSETTLED
    elif op == heap.TRUNCATE:
        return index_truncate(data, at, lsn, wanted.databases, t)
    else:
        change = heap_change(data, data[at + INFO_AT], main, length, wanted.numbers_commands)
        if change & (SPECULATIVE | SUPER_DELETES):
            count = 0
        elif change == INSERTS and data[main + INSERT_FLAGS_AT] & heap.INSERT_ON_TOAST:
            change |= CHUNKS
        if op == heap.INPLACE:
            bits = HAS_BASE | CATALOG_CHANGE if xid != 0 and wanted.inplace_is_transactional else 0
        elif op == heap.LOCK:
            bits = 0
    database = t.headers[BLOCKS + DB]
    if blocks == 0 or (database != 0 and not is_among(database, wanted.databases)):
        return bits
    locator = locator_number(t.headers[BLOCKS + SPC], database, t.headers[BLOCKS + REL], t)
    if locator < wanted.catalogs:
        keep(database, t)
        is_change = op == heap2.MULTI_INSERT if rmid == HEAP2 else op not in (heap.LOCK, heap.CONFIRM)
        if not wanted.numbers_commands and xid != 0 and is_change:
            add_command(xid, lsn, t)
            bits |= CATALOG_CHANGE
    # A file followed as a catalog may be a user's: of a table with user_catalog_table, whose rows are decoded too.
    if change != 0 and database != 0 and xid != 0:
        # Below logical nobody accounts for memory, and tuples may lie in page images.
        memory = change_memory(data, rmid, change, wanted.change_size, t.headers) if wanted.numbers_commands else 0
        if memory == MALFORMED_MEMORY:
            return -1
        if memory == wanted.change_size and change == UPDATES and not wanted.queues_bare_updates:
            memory = 0
        if t.counts[DETAILED] != 0 and count > 1 and memory > 0:
            _add_tuples(data, xid, locator, change, count, u32(data, at), lsn, wanted, t)
        else:
            _add_change(xid, locator, change, count, u32(data, at), memory, lsn, t)
    return bits


@inline_kernel
def _index_heap2(data: Bytes, at: Int, lsn: Int, blocks: Int, wanted: Wanted, t: Tables) -> Int:
    """Index any other HEAP2 record; return the xid's bits, or -1 if it is malformed."""
    op = data[at + INFO_AT] & heap.OPMASK
    if op == heap2.NEW_CID:
        return index_command(data, at, lsn, wanted, t)
    # With checksums a page's first image may come with a record that says that all see the page.
    if op != heap2.VISIBLE or (blocks > 1 and t.headers[BLOCKS + 8 + IMAGE] >= 0):
        database = 0 if op == heap2.REWRITE else _catalog_database(blocks, wanted.catalogs, t)
        if database >= 0:
            keep(database, t)
    return 0


@inline_kernel
def _index_xact(data: Bytes, at: Int, lsn: Int, wanted: Wanted, t: Tables) -> Int:
    """Index a record of XACT; return the xid's bits, or -1 if it is malformed."""
    op = data[at + INFO_AT] & xact.OPMASK
    if op == xact.INVALIDATIONS:
        return index_invalidations(data, at, lsn, t)
    if op == xact.PREPARE:
        keep(0, t)
    elif op != xact.ASSIGNMENT:
        return index_end(data, at, lsn, wanted.dropped_stats_size, t)
    return 0


@inline_kernel
def _index_other(data: Bytes, at: Int, lsn: Int, blocks: Int, wanted: Wanted, t: Tables) -> Int:
    """Index a record of any other resource manager, kept whole if it matters; return the xid's bits, or -1."""
    info = data[at + INFO_AT] & XLR_RMGR_INFO_MASK
    rmid = np.int64(data[at + RMID_AT])
    if rmid >= FIRST_CUSTOM:
        t.counts[CUSTOM + rmid - FIRST_CUSTOM] += 1
    elif rmid == XLOG:
        database = 0 if info in KEPT_OF_XLOG else -1
        if info in (xlog.FPI_FOR_HINT, xlog.FPI):
            database = _catalog_database(blocks, wanted.catalogs, t)
        if database >= 0:
            keep(database, t)
    elif rmid == SMGR:
        return index_file(data, at, lsn, wanted, t)
    elif rmid in (DBASE, RELMAP) or (rmid == STANDBY and info == standby.RUNNING_XACTS):
        keep(0, t)
    elif rmid == LOGICALMSG:
        return index_message(data, at, lsn, wanted, t)
    return 0


@inline_kernel
def _end_rows_at_lines(lsn: Int, wanted: Wanted, t: Tables) -> None:
    """End rows at lines of the grid and at cuts, which no row crosses; in detailed stretches end each row at once."""
    if lsn >= t.counts[LINE]:
        t.counts[LINE] = (lsn // wanted.grid + 1) * wanted.grid
        end_all_rows(t.clocks)
    while t.counts[CUT] < len(wanted.cuts) and wanted.cuts[t.counts[CUT]] <= lsn:
        if wanted.is_edge[t.counts[CUT]]:
            t.counts[DETAILED] ^= 1
        t.counts[CUT] += 1
        end_all_rows(t.clocks)
    if t.counts[DETAILED] != 0:
        end_all_rows(t.clocks)


@inline_kernel
def _index_record(data: Bytes, at: Int, lsn: Int, blocks: Int, wanted: Wanted, t: Tables) -> Int:
    """Index a record whose headers were parsed: OK or MALFORMED."""
    xid, rmid = u32(data, at + XID_AT), data[at + RMID_AT]
    # Also xact.OPMASK: the resource manager decides which operations this is compared with.
    op = data[at + INFO_AT] & heap.OPMASK
    if t.headers[TOPLEVEL_XID] != 0 and xid != 0:
        assign(xid, t.headers[TOPLEVEL_XID], lsn, t)
    if rmid == HEAP or (rmid == HEAP2 and op == heap2.MULTI_INSERT):
        bits = _index_heap(data, at, lsn, blocks, wanted, t)
    elif rmid == HEAP2:
        bits = _index_heap2(data, at, lsn, blocks, wanted, t)
    elif rmid == XACT:
        bits = _index_xact(data, at, lsn, wanted, t)
    else:
        bits = _index_other(data, at, lsn, blocks, wanted, t)
    if bits < 0:
        return MALFORMED
    if xid != 0 and (rmid != XACT or op in (xact.INVALIDATIONS, xact.PREPARE)):
        register(xid, bits, lsn, t)
    return OK


@borrowing_kernel
def index_records(data: Bytes, positions: Int64s, lsns: Int64s, wanted: Wanted, tables: Tables) -> Int:
    """Index framed records, from record ``counts[RECORD]`` on.

    Args:
        data: uint8[] record bytes.
        positions: int64[n] offsets of the records.
        lsns: int64[n] the LSNs that the records start at.
        wanted: the databases, files and events to look for.
        tables: the rows, with room for one more in each table for each record that is left.

    Returns:
        OK; NEED_LOCATORS or NEED_CHANGES; MALFORMED or UNKNOWN with ``counts[RECORD]`` at the record.
    """
    counts, headers = tables.counts, tables.headers
    while counts[RECORD] < len(positions):
        at, lsn = positions[counts[RECORD]], lsns[counts[RECORD]]
        if wanted.known[np.int64(data[at + RMID_AT]) * 16 + (data[at + INFO_AT] >> 4)] == 0:
            return UNKNOWN
        if counts[N_LOCATORS] == tables.locators.shape[1]:
            return NEED_LOCATORS
        _end_rows_at_lines(lsn, wanted, tables)
        if counts[DETAILED] != 0:
            room = len(tables.changes.xid) - counts[N_CHANGES]
            if room < MOST_TUPLES + len(positions) - counts[RECORD]:
                return NEED_CHANGES
        blocks = parse_headers(data, at, at + u32(data, at), headers)
        if blocks < 0 or _index_record(data, at, lsn, blocks, wanted, tables) != OK:
            return MALFORMED
        counts[RECORD] += 1
    return OK
