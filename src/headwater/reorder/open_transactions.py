"""What a window leaves behind of transactions that have not ended, and the fates of those that have.

In: the rows of a window, with those that the windows before it left behind. Out: the rows that the next window needs;
and for the catalog: which of the xids that changed it committed, and which did not. A transaction that a crash of the
server cut off has no end in the log: it is given up once a RUNNING_XACTS record shows that nothing as old as it runs
(PostgreSQL: ReorderBufferAbortOld, called by standby_decode).

Rows have the low halves of xids that lie within 2^31 of :attr:`Control.next_xid`, which has all 64 bits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.snapshot import full_xids
from headwater.catalog.store import CatalogStore
from headwater.reorder.control import Control, Followed
from headwater.reorder.transactions import NEVER, CommittedTransactions, toplevel_of
from headwater.rmgr.index import WalIndex
from headwater.rmgr.index_codes import ABORT, ABORT_PREPARED, HAS_BASE
from headwater.rmgr.index_rows import EndTable, Rows, join_rows

Int64s = NDArray[np.int64]


def joined(left: Rows, index: WalIndex) -> WalIndex:
    """An index, with rows that were left behind before its own."""
    return replace(index, rows=join_rows([left, index.rows])) if len(left.xids) else index


def first_lsn(left: Rows) -> int | None:
    """Where the oldest of the transactions that were left behind first showed, None if there is none."""
    return int(left.xids.lsn.min()) if len(left.xids) else None


def oldest_base(left: Rows) -> int:
    """Where the oldest base snapshot of the transactions that were left behind was taken, NEVER for none."""
    with_base = left.xids.lsn[left.xids.bits & HAS_BASE != 0]
    return int(with_base.min(initial=NEVER))


def still_open(rows: Rows, control: Control) -> Rows:
    """What a window leaves behind: rows of transactions that may still end.

    Args:
        rows: of the window, joined with what those before it left behind.
        control: what is known at its end.
    """
    toplevel = toplevel_of(rows)
    tops = np.setdiff1d(toplevel(rows.xids.xid), rows.ends.xid)
    tops = tops[full_xids(tops, control.next_xid) >= control.oldest_running_xid]
    return rows.of_transactions(lambda xids: np.isin(toplevel(xids), tops))


def settle(
    rows: Rows, txns: CommittedTransactions, before: Control, followed: Followed, store: CatalogStore
) -> Control:
    """Tell the catalog the fate of every xid that changed it, and of those that ran when it was taken.

    Args:
        rows: of the window, joined with what those before it left behind.
        txns: that committed in the window.
        before: what was known at its start; followed: what it has told.
        store: the catalog; changed in place.

    Returns:
        what is known at the window's end.
    """
    control, toplevel = followed.control, toplevel_of(rows)
    touched = np.array(sorted({xid & 0xFFFFFFFF for xid in before.touching} | followed.touched), np.int64)
    settles = np.isin(txns.xid, toplevel(touched)) | began_before(txns, store, control) | txns.changes_catalog
    for txn in np.flatnonzero(settles).tolist():
        store.commit(txns.members(txn).tolist(), int(txns.commit_lsn[txn]))
    committed = txns.txn_of(touched) >= 0
    ended = np.isin(toplevel(touched), rows.ends.xid) | np.isin(touched, _aborted(rows.ends))
    ended |= full_xids(touched, control.next_xid) < control.oldest_running_xid
    store.abort(touched[ended & ~committed].tolist())
    touching = full_xids(touched[~ended & ~committed], control.next_xid)
    return replace(control, touching=tuple(sorted(touching.tolist())))


def _aborted(ends: EndTable) -> Int64s:
    """Transactions and subtransactions that abort records name."""
    aborts = ends.take(np.flatnonzero((ends.kind == ABORT) | (ends.kind == ABORT_PREPARED)))
    return np.concatenate([aborts.xid, aborts.subs.values])


def began_before(txns: CommittedTransactions, store: CatalogStore, control: Control) -> NDArray[np.bool_]:
    """bool[t]: transactions that had their xid already when the catalog was taken."""
    before: NDArray[np.bool_] = full_xids(txns.xid, control.next_xid) < store.origin.next_full_xid
    return before
