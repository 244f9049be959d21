"""Rows of changes that cross an event that concerns them, where an index could not know that it does.

In: the rows of an index, or of several with those that open transactions brought along. Out: the LSNs of the events;
an index that is made again with these as cuts has no such row. A run of WAL learns which transaction a subtransaction
belongs to from the first record of it; of one that began before the run it does not. So it may let a row grow over a
command id, an invalidation or a truncate of a sibling (:mod:`headwater.rmgr.index._row_epochs`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.commits.transactions import CommittedTransactions, toplevel_of
from headwater.reorder.integer_keys import lookup, stable_order
from headwater.rmgr.index.index_rows import Rows

Int64s = NDArray[np.int64]


def needed_cuts(rows: Rows, txns: CommittedTransactions) -> Int64s:
    """Find where rows of changes must end and do not, whatever the plugin: the rows left may serve another one.

    Args:
        rows: the index.
        txns: its committed transactions.

    Returns:
        int64[k] LSNs, sorted.
    """
    return np.union1d(crossed_events(rows), crossed_commits(rows, txns))


def crossed_events(rows: Rows) -> Int64s:
    """Find command ids, invalidations and truncates that a row of changes of the same toplevel transaction crosses.

    Args:
        rows: the index.

    Returns:
        int64[k] their LSNs, sorted.
    """
    long = np.flatnonzero(rows.changes.span)
    if not len(long):
        return np.empty(0, np.int64)
    records = rows.invals.take(np.flatnonzero(np.diff(rows.invals.lsn, prepend=-1)))
    tables = (rows.commands, records, rows.truncates)
    lsn = np.concatenate([table.lsn for table in tables])
    xid = np.concatenate([table.owner for table in tables])
    if not len(lsn):
        return np.empty(0, np.int64)
    toplevel = toplevel_of(rows)
    tops, top = np.unique(toplevel(xid), return_inverse=True)
    lsns, rank = np.unique(lsn, return_inverse=True)
    events = np.unique(top * (len(lsns) + 1) + rank)
    number = lookup(tops, np.arange(len(tops)), toplevel(rows.changes.owner[long]))
    long, base = long[number >= 0], number[number >= 0] * (len(lsns) + 1)
    # An event of the row's own first record (below wal_level logical) concerns what comes after that.
    start = np.searchsorted(events, base + np.searchsorted(lsns, rows.changes.first[long], "right"))
    stop = np.searchsorted(events, base + np.searchsorted(lsns, rows.changes.last[long]))
    counts = np.maximum(stop - start, 0)
    places = np.repeat(start - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return np.unique(lsns[events[places] % (len(lsns) + 1)])


def crossed_commits(rows: Rows, txns: CommittedTransactions) -> Int64s:
    """Find commits that hand invalidations on without naming any, if rows of changes cross one of them: LSNs.

    What a subtransaction invalidated before it was rolled back is in no commit record. But the server keeps it with the
    toplevel transaction, and hands it on at the commit. The index learns of it too late to end its rows there.

    Args:
        rows: the index.
        txns: its committed transactions.
    """
    nothing = np.empty(0, np.int64)
    if not len(rows.invals):
        return nothing
    toplevel = toplevel_of(rows)(rows.invals.xid)
    order = stable_order(txns.xid)
    givers = np.unique(lookup(txns.xid[order], order, toplevel))
    commits = txns.commit_lsn[givers[givers >= 0]]
    cuts = commits[rows.ends.invals[np.searchsorted(rows.ends.lsn, commits)] == 0]
    if not len(cuts):
        return nothing
    before = np.searchsorted(cuts, rows.changes.first, "right")
    return cuts if (before < np.searchsorted(cuts, rows.changes.last, "left")).any() else nothing
