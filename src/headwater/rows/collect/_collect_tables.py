"""Input, memory and statuses of the collecting kernel (:mod:`headwater.rows.collect._collect`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

OK, NEED_SPACE, NEED_ROOM, NEED_PAGES, MALFORMED, UNCONFIRMED = 0, -1, -2, -3, 1, 2
"""Status codes: done; the raw table is full; the tuples are; the record's page images are needed; lengths disagree;
a CONFIRM without its speculative insert."""

# Columns of the raw table int64[capacity, COLUMNS]: one row of it is an item, in WAL order.
KIND, UNIT, XID, LSN, LAYOUT, NEW_AT, NEW_LEN, OLD_AT, OLD_LEN, FLAGS, PLACE = range(11)
COLUMNS = 11

# Indexes into Work.state: the next record, items so far, the next event, bytes of tuples so far; LSN of the record
# whose pages are at hand, and whether the page of its new tuple is among them, and that of its old one; in how many
# units the next record has been picked from.
RECORD, ITEMS, EVENT, USED, PAGES_OF, HAS_NEW, HAS_OLD, UNITS_DONE = range(8)
STATE_SIZE = 8

NEW, OLD = 0, 1
"""Numbers of the pages."""

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]


class Wanted(NamedTuple):
    """The contents of a slice.

    Attributes:
        slots: int32[], slot_xids: int64[] hash from xids to members (:func:`fill_members`).
        member_unit: int64[m].
        next_member: int64[m] the next member with the same xid, -1 for none; empty if all xids are of one unit each.
        unit_lo, unit_lo_taken, unit_hi, unit_hi_taken: int64[u] bounds of places; unit_own: bool[u].
        files: int64[3, f]; file_slots: int32[] its hash.
        chunks: int64[k] sorted, ``unit * f + file``: whose TOAST chunks are taken.
        spans: int64[4, s] (:func:`find_relation`).
        wants: int64[r] WANT_* bits per relation; toasts: bool[r].
        event_unit, event_order, event_lsn: int64[e] sorted by order: after changes that begin up to there.
        left_out: bool[65536] by replication origin: its records are left out.
        is_logical: all WAL is of wal_level logical; else tuples may lie in page images, or not be there.
    """

    slots: Int32s
    slot_xids: Int64s
    member_unit: Int64s
    next_member: Int64s
    unit_lo: Int64s
    unit_lo_taken: Int64s
    unit_hi: Int64s
    unit_hi_taken: Int64s
    unit_own: Bools
    files: Int64s
    file_slots: Int32s
    chunks: Int64s
    spans: Int64s
    wants: Int64s
    toasts: Bools
    event_unit: Int64s
    event_order: Int64s
    event_lsn: Int64s
    left_out: Bools
    is_logical: bool


class Work(NamedTuple):
    """The memory of the pass.

    Attributes:
        headers: int64[HEADERS_LENGTH] scratch.
        parked: int64[u] raw item of a speculative insert, -1 none.
        pending: bool[u] TOAST chunks wait.
        state: int64[STATE_SIZE] see above.
        tuples: uint8[] the items' tuples.
        pages: uint8[2 * PAGE] page images of a record below wal_level logical.
    """

    headers: Int64s
    parked: Int64s
    pending: Bools
    state: Int64s
    tuples: Bytes
    pages: Bytes
