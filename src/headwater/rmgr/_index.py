"""Kernel: framed records in, index rows out (PostgreSQL: LogicalDecodingProcessRecord and the callbacks of decode.c).

Row data is not looked at: a change becomes "xid X touched relation R here: n changes, b bytes". An index row never
crosses a catalog event (a command id, an invalidation, a commit with invalidations, a truncate) nor a line of the
LSN grid, so that one row is decoded with one version of its relation, and a transaction can be cut at the grid.
Rows of one (xid, relation) may still be split at will: the aggregating cache is small and direct-mapped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.kernels import borrowing_kernel, inline_kernel
from headwater.rmgr._locators import find_locator
from headwater.rmgr._record import Int, parse_headers, u16, u32, u64
from headwater.rmgr.header_slots import (
    BLOCKS,
    DATA_AT,
    DATA_LENGTH,
    DB,
    FORK,
    MAIN_AT,
    MAIN_LENGTH,
    ORIGIN,
    REL,
    SPC,
    TOPLEVEL_XID,
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

OK, NEED_LOCATORS, MALFORMED, UNKNOWN = 0, -1, 1, 2
"""Status codes: done; the table of files is full; a record's lengths disagree; a kind that is not in the registry."""

FIRST_CUSTOM = 128
"""From this one on, resource managers are extensions' own."""

CACHE = 4096
"""Slots of the direct-mapped caches, a power of two."""

# Indexes into Tables.counts: the next record, rows in use of each table, the current epoch, grid line and next cut;
# from CUSTOM on the number of records of each custom resource manager.
RECORD, N_LOCATORS, N_XIDS, N_CHANGES, N_XACTS, N_ASSIGNS, N_INVALS, N_COMMANDS, N_TRUNCATES, N_MESSAGES = range(10)
N_FILES, N_KEPT, EPOCH, LINE, CUT, CUSTOM = range(10, 16)
COUNTS = CUSTOM + 256 - FIRST_CUSTOM

INVALID_COMMAND_ID = 0xFFFFFFFF

CHANGE_SIZE = 80
"""sizeof(ReorderBufferChange)."""

TUPLE_SIZE = 24 + 23
"""sizeof(HeapTupleData), and SizeofHeapTupleHeader: what a tuple weighs without its null bitmap and columns."""

HEAP_HEADER, UPDATE_SIZE, DELETE_SIZE, MULTI_TUPLE_HEADER = 5, 14, 8, 7
"""SizeOfHeapHeader, SizeOfHeapUpdate, SizeOfHeapDelete, SizeOfMultiInsertTuple."""

MALFORMED_MEMORY = -1
"""Returned by :func:`change_memory` when the lengths disagree."""

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
        open: int64[3, CACHE] key, row and epoch of change rows that may still grow, direct-mapped.
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
    counts: Int64s
    headers: Int64s
    parsed: Int64s


@inline_kernel
def _slot(xid: Int, locator: Int) -> Int:
    return ((xid * 2654435761) ^ (locator * 40503)) & (CACHE - 1)


@borrowing_kernel
def heap_change(data: NDArray[np.uint8], info: Int, at: Int, length: Int) -> Int:
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


@borrowing_kernel
def _multi_insert_memory(data: NDArray[np.uint8], headers: Int64s) -> Int:
    """What the changes of a MULTI_INSERT weigh, or MALFORMED_MEMORY."""
    count = u16(data, headers[MAIN_AT] + 2)
    base, length = headers[BLOCKS + DATA_AT], headers[BLOCKS + DATA_LENGTH]
    total, p = count * (CHANGE_SIZE + TUPLE_SIZE), np.int64(0)
    for _ in range(count):
        p = (p + 1) & ~1
        if p + MULTI_TUPLE_HEADER > length:
            return MALFORMED_MEMORY
        size = u16(data, base + p)
        total += size
        p += MULTI_TUPLE_HEADER + size
    return total if p <= length else MALFORMED_MEMORY


@borrowing_kernel
def change_memory(data: NDArray[np.uint8], rmid: Int, change: Int, headers: Int64s) -> Int:
    """What the changes of a record weigh in the server's accounting (ReorderBufferChangeSize), alike in 15 to 18.

    Args:
        data: uint8[]; rmid: HEAP or HEAP2.
        change: the ``kinds`` bits of its change, not 0.
        headers: int64[HEADERS_LENGTH] the record's, which has a block.

    Returns:
        bytes, or MALFORMED_MEMORY.
    """
    if rmid == 9:
        return _multi_insert_memory(data, headers)
    length, of_block = headers[MAIN_LENGTH], headers[BLOCKS + DATA_LENGTH]
    if change & (INSERTS | SPECULATIVE):
        return CHANGE_SIZE + TUPLE_SIZE + of_block - HEAP_HEADER
    if change & UPDATES:
        if length < UPDATE_SIZE:
            return MALFORMED_MEMORY
        flags = data[headers[MAIN_AT] + 7]
        new = TUPLE_SIZE + of_block - HEAP_HEADER if flags & 0x10 else 0
        return CHANGE_SIZE + new + (TUPLE_SIZE + length - UPDATE_SIZE - HEAP_HEADER if flags & 0x0C else 0)
    if change & DELETES_OLD:
        return CHANGE_SIZE + TUPLE_SIZE + length - DELETE_SIZE - HEAP_HEADER
    return np.int64(CHANGE_SIZE)


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
    for bit, size in ((1, 4), (2, 12), (8, stats_size), (3, 16)):
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
    counts: Int64s,
) -> None:
    """Let the open row of (xid, locator) grow, or begin one."""
    slot = _slot(xid, locator)
    key = xid << 24 | (locator & 0xFFFFFF)
    row = open_rows[1, slot]
    if open_rows[0, slot] == key and open_rows[2, slot] == counts[EPOCH] and changes[3, row] == origin:
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
    open_rows[2, slot] = counts[EPOCH]
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
    if length < 12 or length != 12 + 4 * u32(data, main + 4):
        return MALFORMED
    if u32(data, main) != database:
        return OK
    row = counts[N_TRUNCATES]
    truncates[0, row] = xid
    truncates[1, row] = lsn
    truncates[2, row] = headers[ORIGIN]
    truncates[3, row] = data[main + 8]
    truncates[4, row] = u32(data, main + 4)
    truncates[5, row] = main + 12
    counts[N_TRUNCATES] = row + 1
    counts[EPOCH] += 1
    return OK


@borrowing_kernel
def _index_command(data: Bytes, at: Int, main: Int, lsn: Int, commands: Int64s, counts: Int64s) -> Int:
    """A NEW_CID record of our database (SnapBuildProcessNewCid): OK, or MALFORMED if it names no command."""
    cmin, cmax = u32(data, main + 4), u32(data, main + 8)
    if cmin == INVALID_COMMAND_ID and cmax == INVALID_COMMAND_ID:
        return MALFORMED
    last = cmin if cmax == INVALID_COMMAND_ID else cmax if cmin == INVALID_COMMAND_ID else max(cmin, cmax)
    row = counts[N_COMMANDS]
    commands[0, row] = u32(data, at + 4)
    commands[1, row] = lsn
    commands[2, row] = last + 1
    counts[N_COMMANDS] = row + 1
    counts[EPOCH] += 1
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
    counts: Int64s,
) -> Int:
    """A HEAP record, or a MULTI_INSERT of HEAP2; returns the xid's bits, or -1 if it is malformed."""
    op = data[at + 16] & 0x70
    xid = u32(data, at + 4)
    main, length = headers[MAIN_AT], headers[MAIN_LENGTH]
    bits = HAS_BASE
    count = 1
    change = 0
    if data[at + 17] == 9:
        if length < 4:
            return -1
        count = u16(data, main + 2)
        if data[main] & 0x08:
            change = INSERTS if data[main] & 0x02 else INSERTS | UNSETTLED
    elif op == 0x30:
        return bits if _index_truncate(data, xid, headers, lsn, wanted.database, truncates, counts) == OK else -1
    else:
        change = heap_change(data, data[at + 16], main, length)
        if change & (SPECULATIVE | SUPER_DELETES):
            count = 0
        if op == 0x70:
            bits = HAS_BASE | CATALOG_CHANGE if xid != 0 and wanted.inplace_is_transactional else 0
        elif op == 0x60:
            bits = 0
    catalogs, database = wanted.catalogs, headers[BLOCKS + DB]
    if blocks == 0 or (database != wanted.database and database != 0):
        return bits
    locator = _locator(headers[BLOCKS + SPC], database, headers[BLOCKS + REL], locators, slots, counts)
    if locator < catalogs:
        _keep(kept, counts)
    # A file followed as a catalog may be a user's: of a table with user_catalog_table, whose rows are decoded too.
    if change != 0 and database != 0 and xid != 0:
        size, memory = u32(data, at), change_memory(data, data[at + 17], change, headers)
        if memory < 0:
            return -1
        _add_change(xid, locator, change, count, size, memory, headers[ORIGIN], lsn, changes, open_rows, counts)
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
    counts: Int64s,
) -> Int:
    """Any other HEAP2 record; returns the xid's bits, or -1 if it is malformed."""
    op = data[at + 16] & 0x70
    if op == 0x70:
        if headers[MAIN_LENGTH] < 34:
            return -1
        main = headers[MAIN_AT]
        target = u32(data, main + 20)
        if target == database or target == 0:
            if _index_command(data, at, main, lsn, commands, counts) != OK:
                return -1
            file = find_locator(u32(data, main + 16), target, u32(data, main + 24), locators, slots)
            if 0 <= file < catalogs:
                _keep(kept, counts)
        return CATALOG_CHANGE
    if op != 0x40 and (op == 0x00 or _names_catalog(headers, blocks, catalogs, locators, slots)):
        _keep(kept, counts)
    return 0


@borrowing_kernel
def _index_end(
    data: Bytes, at: Int, headers: Int64s, lsn: Int, stats_size: Int, parsed: Int64s, xacts: Int64s, counts: Int64s
) -> Int:
    """A commit or abort record; 0, or -1 if it is malformed."""
    info = data[at + 16]
    op = np.int64(info & 0x70)
    row = counts[N_XACTS]
    if parse_xact(data, info, headers[MAIN_AT], headers[MAIN_LENGTH], stats_size, parsed) != OK:
        return -1
    xacts[0, row] = op >> 4
    xacts[1, row] = lsn
    xacts[2, row] = counts[RECORD]
    xacts[3, row] = parsed[6] if op >= 0x30 else u32(data, at + 4)
    for k in range(10):
        xacts[4 + k, row] = parsed[k]
    xacts[14, row] = headers[ORIGIN] if parsed[9] & (1 << 5) else 0
    counts[N_XACTS] = row + 1
    if parsed[4] > 0:
        counts[EPOCH] += 1
    return 0


@borrowing_kernel
def _index_invalidations(data: Bytes, at: Int, headers: Int64s, lsn: Int, invals: Int64s, counts: Int64s) -> Int:
    """An XACT INVALIDATIONS record; returns the xid's bits, or -1 if it is malformed."""
    main, length = headers[MAIN_AT], headers[MAIN_LENGTH]
    if length < 4 or 4 + 16 * u32(data, main) > length:
        return -1
    row = counts[N_INVALS]
    invals[0, row] = lsn
    invals[1, row] = u32(data, at + 4)
    invals[2, row] = u32(data, main)
    invals[3, row] = main + 4
    counts[N_INVALS] = row + 1
    counts[EPOCH] += 1
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
    main, creates = headers[MAIN_AT], data[at + 16] & 0xF0 == 0x10
    if headers[MAIN_LENGTH] != (16 if creates else 20):
        return -1
    place = main if creates else main + 4
    spc, db, rel = u32(data, place), u32(data, place + 4), u32(data, place + 8)
    if 0 <= find_locator(spc, db, rel, locators, slots) < wanted.catalogs:
        _keep(kept, counts)
    if creates and db == wanted.database and u32(data, main + 12) == 0:
        row = counts[N_FILES]
        files[0, row] = u32(data, at + 4)
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
    if length < 24:
        return -1
    transactional = data[main + 4] != 0
    if u32(data, main) == database:
        row = counts[N_MESSAGES]
        messages[0, row] = u32(data, at + 4)
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
    info = data[at + 16] & 0xF0
    rmid = data[at + 17]
    if rmid == 0:
        keep = info in (0x00, 0x10, 0x50, 0x60, 0x90, 0xD0)
        if keep or (info in (0xA0, 0xB0) and _names_catalog(headers, blocks, wanted.catalogs, locators, slots)):
            _keep(kept, counts)
    elif rmid == 2:
        return _index_file(data, at, headers, lsn, wanted, locators, slots, files, kept, counts)
    elif rmid in (4, 7) or (rmid == 8 and info == 0x10):
        _keep(kept, counts)
    elif rmid == 21:
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
    kept, seen, open_rows, counts, headers, parsed = tables[11:]
    known, catalogs, cuts = wanted.known, wanted.catalogs, wanted.cuts
    while counts[RECORD] < len(positions):
        at = positions[counts[RECORD]]
        lsn = lsns[counts[RECORD]]
        xid = u32(data, at + 4)
        rmid = np.int64(data[at + 17])
        op = data[at + 16] & 0x70
        if known[rmid * 16 + (data[at + 16] >> 4)] == 0:
            return UNKNOWN
        if counts[N_LOCATORS] == locators.shape[1]:
            return NEED_LOCATORS
        blocks = parse_headers(data, at, at + u32(data, at), headers)
        if blocks < 0:
            return MALFORMED
        if lsn // wanted.grid != counts[LINE]:
            counts[LINE] = lsn // wanted.grid
            counts[EPOCH] += 1
        while counts[CUT] < len(cuts) and cuts[counts[CUT]] <= lsn:
            counts[CUT] += 1
            counts[EPOCH] += 1
        if headers[TOPLEVEL_XID] != 0 and xid != 0:
            _assign(xid, headers[TOPLEVEL_XID], lsn, assigns, counts)
        registers = xid != 0
        if rmid == 10 or (rmid == 9 and op == 0x50):
            bits = _index_heap(
                data, at, blocks, headers, lsn, wanted, locators, slots, changes, open_rows, truncates, kept, counts
            )
        elif rmid == 9:
            bits = _index_heap2(
                data, at, blocks, headers, lsn, wanted.database, catalogs, locators, slots, commands, kept, counts
            )
        elif rmid >= FIRST_CUSTOM:
            counts[CUSTOM + rmid - FIRST_CUSTOM] += 1
            bits = 0
        elif rmid != 1:
            bits = _index_other(data, at, blocks, headers, lsn, wanted, locators, slots, messages, files, kept, counts)
        elif op == 0x60:
            bits = _index_invalidations(data, at, headers, lsn, invals, counts)
        elif op == 0x10:
            _keep(kept, counts)
            bits = 0
        else:
            registers = False
            stats = wanted.dropped_stats_size
            bits = 0 if op == 0x50 else _index_end(data, at, headers, lsn, stats, parsed, xacts, counts)
        if bits < 0:
            return MALFORMED
        if registers:
            _register(xid, bits, lsn, xids, seen, counts)
        counts[RECORD] += 1
    return OK
