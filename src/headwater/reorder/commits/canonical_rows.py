"""The rows of an index in one form, however the log was cut into windows and runs.

In: rows of open transactions, those that earlier windows left first. Out: the same, each as long as it may be. An index
begins new rows where a run begins and where a table is full, and writes xids down several times; a state that goes from
window to window must not show that.

Invariant: of rows that were settled at the end of one window, and of what followed, the settled rows are those of both
windows at once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.commits.transactions import toplevel_of
from headwater.reorder.integer_keys import distinct_rows
from headwater.rmgr.index.index_codes import CATALOG_CHANGE, HAS_BASE, UNSETTLED
from headwater.rmgr.index.index_rows import ChangeTable, Rows, XidTable

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


def settled(rows: Rows, lo: int, ended: Int64s, grid: int) -> Rows:
    """Join rows that an index might have kept in one.

    Args:
        rows: with all events of the transactions that they are of.
        lo: LSN where the last window began: rows of before it are settled, but may go on.
        ended: sorted LSNs of events that end everybody's rows (commits with invalidations, and those that hand some on
            without naming any): all of the last window, and the last one of before it.
        grid: the index's.
    """
    return replace(rows, xids=_settled_xids(rows.xids), changes=_settled_changes(rows, lo, ended, grid))


def _settled_xids(table: XidTable) -> XidTable:
    """Return where each xid was met first, and once more where it got HAS_BASE, if later.

    The first row of an xid has the other bits.
    """
    (xid,), number = distinct_rows(table.xid[np.newaxis])
    never = np.iinfo(np.int64).max
    first, base = np.full(len(xid), never), np.full(len(xid), never)
    np.minimum.at(first, number, table.lsn)
    has_base = np.flatnonzero(table.bits & HAS_BASE)
    np.minimum.at(base, number[has_base], table.lsn[has_base])
    changed = np.zeros(len(xid), np.bool_)
    changed[number[table.bits & CATALOG_CHANGE != 0]] = True
    bits = np.where(changed, CATALOG_CHANGE, 0) | np.where(base == first, HAS_BASE, 0)
    later = np.flatnonzero((base != first) & (base != never))
    xids, lsns = np.concatenate([xid, xid[later]]), np.concatenate([first, base[later]])
    order = np.argsort(lsns, kind="stable")
    all_bits = np.concatenate([bits, np.full(len(later), HAS_BASE)]).astype(np.uint8)
    return XidTable(xids[order], lsns[order], all_bits[order])


def _settled_changes(rows: Rows, lo: int, ended: Int64s, grid: int) -> ChangeTable:
    order = np.lexsort((rows.changes.first, rows.changes.locator, rows.changes.xid))
    c = rows.changes.take(order)
    begins = np.ones(len(c), np.bool_)
    begins[1:] = ~_goes_on(rows, c, lo, ended, grid)
    start = np.flatnonzero(begins)
    if len(start) == len(c):
        return rows.changes
    stop = np.append(start[1:], len(c)) - 1
    kinds = c.kinds & ~np.uint16(UNSETTLED)
    kinds[stop] = c.kinds[stop]
    joined = ChangeTable(
        xid=c.xid[start],
        locator=c.locator[start],
        kinds=np.bitwise_or.reduceat(kinds, start),
        origin=c.origin[start],
        count=np.add.reduceat(c.count, start),
        bytes=np.add.reduceat(c.bytes, start),
        first=c.first[start],
        span=(c.last[stop] - c.first[start]).astype(np.uint32),
        memory=np.add.reduceat(c.memory, start),
    )
    return joined.take(np.argsort(joined.first, kind="stable"))


def _goes_on(rows: Rows, c: ChangeTable, lo: int, ended: Int64s, grid: int) -> Bools:
    """Tell which rows, sorted by (xid, file, LSN), could have grown to what the next one holds: bool[n-1]."""
    same: Bools = (c.xid[1:] == c.xid[:-1]) & (c.locator[1:] == c.locator[:-1]) & (c.origin[1:] == c.origin[:-1])
    same &= (c.first[1:] // grid == c.first[:-1] // grid) & (c.first[1:] >= lo)
    same &= np.searchsorted(ended, c.last[:-1]) == np.searchsorted(ended, c.first[1:])
    tables = (rows.commands, rows.invals, rows.truncates)
    lsn, xid = (np.concatenate(columns) for columns in zip(*((t.lsn, t.owner) for t in tables), strict=True))
    if not len(lsn):
        return same
    toplevel = toplevel_of(rows)
    lsns, rank = np.unique(lsn, return_inverse=True)
    events = np.unique(toplevel(xid) * (len(lsns) + 1) + rank)
    base = toplevel(c.owner) * (len(lsns) + 1)
    before = np.searchsorted(events, base[:-1] + np.searchsorted(lsns, c.last[:-1]))
    same &= before == np.searchsorted(events, base[1:] + np.searchsorted(lsns, c.first[1:]))
    return same
