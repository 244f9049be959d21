"""The transactions that are output, and their order (PostgreSQL: reorderbuffer.c by_txn, decode.c DecodeTXNNeedSkip).

Toplevel transactions come in the order of their commit records. A subtransaction belongs to its toplevel transaction
because a record of it named the toplevel xid, or because the commit record lists it; an aborted one is known by the
first kind only: its changes vanish, but that it queued something still gives the transaction its base snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.integer_keys import Integers, lookup, lower, stable_order
from headwater.rmgr.index.index_codes import CATALOG_CHANGE, COMMIT, COMMIT_PREPARED, HAS_BASE
from headwater.rmgr.index.index_rows import Ragged, Rows
from headwater.rmgr.xlog import WAL_LEVEL_LOGICAL

Int64s = NDArray[np.int64]
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Members:
    """The xids that belong to each transaction of a table.

    Attributes:
        member_xid: int64[m] sorted: toplevel xids and subtransactions; member_txn: int64[m] the transaction of each.
    """

    member_xid: Int64s
    member_txn: Int64s
    _by_txn: tuple[Int64s, Int64s] | None = field(default=None, init=False, repr=False, compare=False)

    def txn_of(self, xids: Integers) -> Int64s:
        """Find the transaction each xid is of, -1 for none."""
        return lookup(self.member_xid, self.member_txn, xids)

    def members(self, txn: int) -> Int64s:
        """Return the xids of a transaction, its own included."""
        order, starts = self._grouped(txn)
        return self.member_xid[order[starts[txn] : starts[txn + 1]]]

    def _grouped(self, txn: int) -> tuple[Int64s, Int64s]:
        if self._by_txn is None:
            order = stable_order(self.member_txn)
            count = max(txn, int(self.member_txn.max(initial=-1))) + 2
            starts = np.searchsorted(self.member_txn[order], np.arange(count + 1))
            object.__setattr__(self, "_by_txn", (order, starts))
        assert self._by_txn is not None
        return self._by_txn


@dataclass(frozen=True)
class CommittedTransactions(Members):
    """Toplevel transactions that committed, in commit order, t of them, with their committed subtransactions.

    Attributes:
        xid: int64[t] toplevel xid.
        commit_lsn: int64[t] start of the commit record; end_lsn: its end.
        commit_time: int64[t] microseconds since 2000-01-01, the origin's time if the commit has one.
        database: int64[t]; origin: int64[t] replication origin, 0 none; origin_lsn: int64[t].
        first_lsn: int64[t] where the transaction first showed.
        base_lsn: int64[t] where it got its base snapshot, NEVER without one: then nothing of it is output.
        changes_catalog: bool[t] it, or a subtransaction of it, changed the catalog.
    """

    xid: Int64s
    commit_lsn: Int64s
    end_lsn: Int64s
    commit_time: Int64s
    database: Int64s
    origin: Int64s
    origin_lsn: Int64s
    first_lsn: Int64s
    base_lsn: Int64s
    changes_catalog: NDArray[np.bool_]


def committed_transactions(rows: Rows, levels: Sequence[tuple[int, int]] = ()) -> CommittedTransactions:
    """Find all committed transactions of an index, whatever their database.

    Args:
        rows: the index.
        levels: (LSN, wal_level from there on) in order; none if all of it is logical.

    Returns:
        the transactions, in commit order.
    """
    commits = (rows.ends.kind == COMMIT) | (rows.ends.kind == COMMIT_PREPARED)
    ends = rows.ends if commits.all() else rows.ends.take(np.flatnonzero(commits))
    member_xid, member_txn = members_of(ends.xid, ends.subs)
    first, base, catalog = first_seen(rows, ends.xid)
    # Below logical only the commit record reports invalidations.
    catalog |= (_is_below_logical(ends.lsn, levels) | (ends.kind == COMMIT_PREPARED)) & (ends.invals > 0)
    # One that only changed the catalog gets its base snapshot when it commits (SnapBuildCommitTxn).
    base = np.where(catalog, np.minimum(base, ends.lsn), base)
    time = np.where(ends.origin != 0, ends.origin_time, ends.time)
    return CommittedTransactions(
        xid=ends.xid,
        commit_lsn=ends.lsn,
        end_lsn=ends.next,
        commit_time=time,
        database=ends.database,
        origin=ends.origin,
        origin_lsn=ends.origin_lsn,
        first_lsn=first,
        base_lsn=base,
        changes_catalog=catalog,
        member_xid=member_xid,
        member_txn=member_txn,
    )


def _is_below_logical(lsns: Int64s, levels: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Tell which records were written with a wal_level below logical: bool[n]."""
    since, level = np.array([(0, WAL_LEVEL_LOGICAL), *levels], np.int64).T
    below: NDArray[np.bool_] = level[np.searchsorted(since, lsns, "right") - 1] < WAL_LEVEL_LOGICAL
    return below


def members_of(tops: Int64s, subs: Ragged) -> tuple[Int64s, Int64s]:
    """Return the xids of transactions, sorted, and the number of the transaction of each.

    Args:
        tops: int64[t] toplevel xids; subs: t lists of subtransactions.
    """
    itself = np.arange(len(tops))
    keys = np.concatenate([tops, subs.values])
    txns = np.concatenate([itself, np.repeat(itself, subs.counts)])
    order = stable_order(keys)
    return keys[order], txns[order]


def toplevel_of(rows: Rows) -> Callable[[Int64s], Int64s]:
    """Make a function from xids to their toplevel xids, aborted subtransactions included."""
    ends, assigns = rows.ends, rows.assigns
    subs = np.concatenate([assigns.xid, ends.subs.values])
    tops = np.concatenate([assigns.top, np.repeat(ends.xid, ends.subs.counts)])
    if not len(subs):
        return lambda xids: xids
    keys, at = np.unique(subs, return_index=True)
    tops = tops[at]

    def toplevel(xids: Int64s) -> Int64s:
        top = lookup(keys, tops, xids)
        return np.where(top < 0, xids, top)

    return toplevel


def first_seen(rows: Rows, tops: Int64s) -> tuple[Int64s, Int64s, NDArray[np.bool_]]:
    """Find per toplevel xid: first LSN, LSN of its base snapshot (NEVER for none), whether it changed the catalog."""
    toplevel = toplevel_of(rows)
    order = stable_order(tops)
    first = np.full(len(tops), NEVER, np.int64)
    base = np.full(len(tops), NEVER, np.int64)
    catalog = np.zeros(len(tops), np.bool_)
    txn = lookup(tops[order], order, toplevel(rows.xids.xid))
    assigned = lookup(tops[order], order, rows.assigns.top)
    lower(first, txn, rows.xids.lsn)
    lower(first, assigned, rows.assigns.lsn)
    lower(base, np.where(rows.xids.bits & HAS_BASE != 0, txn, -1), rows.xids.lsn)
    changed = txn[rows.xids.bits & CATALOG_CHANGE != 0]
    catalog[changed[changed >= 0]] = True
    return first, base, catalog


def oldest_base(rows: Rows) -> int:
    """Find the LSN where the first base snapshot of some transactions was taken, NEVER if none of them has one.

    Args:
        rows: the rows of these transactions.
    """
    return int(rows.xids.lsn[rows.xids.bits & HAS_BASE != 0].min(initial=NEVER))
