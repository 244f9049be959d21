"""The choice that the index kernels look for, and the tables that they fill."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.rmgr.registry import FIRST_CUSTOM

OK, NEED_LOCATORS, NEED_CHANGES, MALFORMED, UNKNOWN = 0, -1, -2, 1, 2
"""Status codes: done; the table of files is full; the table of changes may not have room for a record's tuples; a
record's lengths disagree; a kind that is not in the registry.
"""

CACHE = 4096
"""Slots of the direct-mapped caches, a power of two."""

MOST_TUPLES = 0xFFFF
"""The largest number of tuples that a MULTI_INSERT can have."""

# Indexes into Tables.counts: the next record, rows in use of each table, the next grid line, the next cut, whether each
# change has a row of its own from the last cut on; from CUSTOM on the number of records of each custom resource
# manager.
RECORD, N_LOCATORS, N_XIDS, N_CHANGES, N_XACTS, N_ASSIGNS, N_INVALS, N_COMMANDS, N_TRUNCATES, N_MESSAGES = range(10)
N_FILES, N_KEPT, LINE, CUT, DETAILED, CUSTOM = range(10, 16)
COUNTS = CUSTOM + 256 - FIRST_CUSTOM

Int64s = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Slots = NDArray[np.int32]


class Wanted(NamedTuple):
    """The databases, files and events that the index looks for.

    Attributes:
        known: uint8[4096] the registry, by rmid * 16 + info >> 4.
        databases: int64[] sorted OIDs of the databases to decode.
        catalogs: number of locators, the first of all, that are catalogs, whose records are kept whole.
        inplace_is_transactional: whether INPLACE records mark their transaction as one that changes the catalog.
        dropped_stats_size: bytes of a dropped statistics entry.
        queues_bare_updates: whether updates without a tuple weigh something.
        change_size: sizeof(ReorderBufferChange).
        grid: bytes between grid lines.
        cuts: int64[] sorted LSNs of more catalog events, and edges of detailed stretches.
        is_edge: bool[] the cuts that begin or end such a stretch.
        numbers_commands: see :class:`headwater.rmgr.index.wal_index.Request`.
    """

    known: Bytes
    databases: Int64s
    catalogs: int
    inplace_is_transactional: bool
    dropped_stats_size: int
    queues_bare_updates: bool
    change_size: int
    grid: int
    cuts: Int64s
    is_edge: NDArray[np.bool_]
    numbers_commands: bool


class ChangeRows(NamedTuple):
    """Rows of changes, n of them: the columns of :class:`headwater.rmgr.index.index_rows.ChangeTable` in their order.

    They are as narrow here as there: they are the bulk of an index, and to pass over memory once more costs more than
    the work on it. A speculative insert counts when it is confirmed.
    """

    xid: NDArray[np.uint32]
    locator: NDArray[np.int32]
    kinds: NDArray[np.uint16]
    origin: NDArray[np.uint16]
    number: NDArray[np.uint32]
    bytes: NDArray[np.uint32]
    first: Int64s
    span: NDArray[np.uint32]
    memory: NDArray[np.uint32]


class Tables(NamedTuple):
    """The rows so far; n is the number of records.

    Attributes:
        locators: int64[3, m] (tablespace, database, file); slots: int32[] its hash (:func:`find_locator`).
        xids: int64[3, n] xid, LSN, bits: where an xid was first met, and again where it first got HAS_BASE.
        changes: n rows.
        xacts: int64[15, n] kind, LSN, record number, xid, then the fields that :func:`parse_xact` reads; origin.
        assigns: int64[3, n] sub xid, toplevel xid, LSN.
        invals: int64[4, n] LSN, xid, message count, offset in data.
        commands: int64[4, n] xid, LSN, the first command that sees what the NEW_CID's command did, database.
        truncates: int64[7, n] xid, LSN, origin, flags, number of relations, offset of their OIDs in data, database.
        messages: int64[7, n] xid, LSN, record number, origin, whether transactional, database, bytes of its change.
        files: int64[3, n] xid, LSN, locator.
        kept: int64[2, n] numbers of the records to be kept whole, and the database of each, 0 for all.
        seen: int64[2, CACHE] xid and its row, direct-mapped.
        open: int64[3, CACHE] key and row of change rows that may still grow, and when they were begun, direct-mapped.
        families: int64[3, FAMILIES]; clocks: int64[CLOCKS] of :mod:`headwater.rmgr.index._row_epochs`.
        counts: int64[COUNTS] see above.
        headers: int64[HEADERS_LENGTH] scratch of :func:`parse_headers`; parsed: int64[PARSED] of :func:`parse_xact`.
    """

    locators: Int64s
    slots: Slots
    xids: Int64s
    changes: ChangeRows
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
