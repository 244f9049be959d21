"""The rows that a window leaves of transactions that have not ended, and the fates of those that have.

In: the rows of a window, with those that the windows before it left. Out: the rows that the next window needs;
and for the catalog: which of the xids that changed it committed, and which did not. A transaction that a crash of the
server cut off has no end in the log: it is given up once a RUNNING_XACTS record shows that nothing as old as it runs
(PostgreSQL: ReorderBufferAbortOld, called by standby_decode).

The rows left do not depend on where windows were cut (:mod:`headwater.reorder.commits.canonical_rows`).

Rows have the low halves of xids that lie within 2^31 of :attr:`Control.next_xid`, which has all 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.snapshot import full_xids
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.reorder.commits.canonical_rows import settled
from headwater.reorder.commits.control import Control, Followed
from headwater.reorder.commits.distributed_invalidations import NOTHING_HANDED_ON, HandedOn
from headwater.reorder.commits.stream_rules import Accounting
from headwater.reorder.commits.streamed_blocks import numbers_at
from headwater.reorder.commits.transactions import NEVER, CommittedTransactions, toplevel_of
from headwater.reorder.integer_keys import lookup
from headwater.rmgr.index.index_codes import ABORT, ABORT_PREPARED, COMMIT, COMMIT_PREPARED, HAS_BASE
from headwater.rmgr.index.index_rows import NO_ROWS, EndTable, Rows, join_rows
from headwater.rmgr.index.wal_index import WalIndex

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class OpenTransactions:
    """The known facts about transactions that have not ended.

    Attributes:
        rows: their index rows; no transaction ends in them.
        last_event: LSN of the last commit that handed invalidations on: no row of changes goes on after it.
        handed_on: the messages that transactions that committed while one of these ran have handed on.
        catalog_commits: int64[n] sorted LSNs of commits after the oldest of them that changed the catalog.
    """

    rows: Rows
    last_event: int = 0
    handed_on: HandedOn = NOTHING_HANDED_ON
    catalog_commits: Int64s = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def first_lsn(self) -> int | None:
        """The LSN where the oldest of them first showed, None if there is none."""
        lsns = np.append(self.rows.xids.lsn, self.rows.assigns.lsn)
        return int(lsns.min()) if len(lsns) else None

    @property
    def oldest_base(self) -> int:
        """The LSN where the oldest base snapshot of one was taken, NEVER for none."""
        with_base = self.rows.xids.lsn[self.rows.xids.bits & HAS_BASE != 0]
        return int(with_base.min(initial=NEVER))

    def commits_behind(self, txns: CommittedTransactions) -> Int64s:
        """Return sorted LSNs of commits that changed the catalog: those known here, and those of a window: int64[n]."""
        return np.sort(np.append(self.catalog_commits, txns.commit_lsn[txns.changes_catalog]))


NOTHING_OPEN = OpenTransactions(NO_ROWS)


def still_open(
    before: OpenTransactions,
    index: WalIndex,
    txns: CommittedTransactions,
    control: Control,
    accounting: Sequence[Accounting] = (),
) -> OpenTransactions:
    """Return what a window leaves of open transactions.

    Args:
        before: the transactions that the windows before it left.
        index: of the window, joined with that.
        txns: transactions that committed in it.
        control: what is known at its end.
        accounting: what is queued at its end, for each output.
    """
    rows, toplevel = index.rows, toplevel_of(index.rows)
    # Of a subtransaction's first record only the header may be known: it names the toplevel transaction.
    tops = np.append(toplevel(rows.xids.xid), rows.assigns.top)
    tops = np.unique(tops[~np.isin(tops, rows.ends.xid)])
    tops = tops[full_xids(tops, control.next_xid) >= control.oldest_running_xid]

    def is_open(xids: Int64s) -> NDArray[np.bool_]:
        return np.isin(toplevel(xids), tops)

    left = rows.of_transactions(is_open) if len(tops) else NO_ROWS
    events = np.append(before.last_event, common_events(rows, index.lo))
    parts = [left]
    for queued in accounting:
        parts = [rows_of for part in parts for rows_of in _by_output(part, queued, toplevel)]
    joined = (settled(part, index.lo, events, index.grid) for part in parts)
    still = OpenTransactions(_together(*joined), int(events[-1]))
    commits = before.commits_behind(txns)
    since = NEVER if still.first_lsn is None else still.first_lsn
    return replace(
        still,
        handed_on=before.handed_on.followed_by(rows, txns, still.oldest_base),
        catalog_commits=commits[commits > since],
    )


def _by_output(left: Rows, accounting: Accounting, toplevel: Callable[[Int64s], Int64s]) -> list[Rows]:
    """Split rows into those with the changes that have been streamed, and with all others: no row may have of both.

    Another session streams all of them again, so none is given up.
    """
    changes = left.changes
    tops = np.flatnonzero(accounting.xid == accounting.top)
    tops = tops[np.argsort(accounting.xid[tops], kind="stable")]
    at = lookup(accounting.xid[tops], tops, toplevel(changes.owner))
    hi, taken = (np.append(column, 0)[at] for column in (accounting.hi, accounting.hi_taken))
    is_out = (changes.first < hi) | ((changes.first == hi) & (numbers_at(changes, np.unique(hi)) < taken))
    if not is_out.any():
        return [left]
    return [replace(left, changes=changes.take(np.flatnonzero(which))) for which in (is_out, ~is_out)]


def _together(first: Rows, *rest: Rows) -> Rows:
    """Return the same rows, with the changes of all of them."""
    if not rest:
        return first
    changes = join_rows([replace(NO_ROWS, changes=part.changes, locators=part.locators) for part in (first, *rest)])
    order = np.argsort(changes.changes.first, kind="stable")
    return replace(rest[0], changes=changes.changes.take(order), locators=changes.locators).with_used_files()


def common_events(rows: Rows, lo: int) -> Int64s:
    """Return the LSNs from ``lo`` on that no row of changes crosses: commits that hand invalidations on."""
    ends = rows.ends
    is_commit = (ends.kind == COMMIT) | (ends.kind == COMMIT_PREPARED)
    giving = is_commit & np.isin(ends.xid, toplevel_of(rows)(rows.invals.owner))
    events: Int64s = ends.lsn[(ends.invals > 0) | giving]
    return events[np.searchsorted(events, lo) :]


def settle(
    rows: Rows, txns: CommittedTransactions, before: Control, followed: Followed, store: CatalogStore
) -> Control:
    """Tell the catalog the fate of every xid that changed it, and of those that ran when it was taken.

    Args:
        rows: of the window, joined with what those before it left.
        txns: transactions that committed in the window.
        before: the facts known at its start; followed: what its records have told.
        store: the catalog; changed in place.

    Returns:
        what is known at the window's end.
    """
    control, toplevel = followed.control, toplevel_of(rows)
    touched = np.array(sorted({xid & 0xFFFFFFFF for xid in before.touching} | followed.touched), np.int64)
    settles = np.isin(txns.xid, toplevel(touched)) | began_before(txns.xid, store, control) | txns.changes_catalog
    for txn in np.flatnonzero(settles).tolist():
        store.commit(txns.members(txn).tolist(), int(txns.commit_lsn[txn]))
    committed = txns.txn_of(touched) >= 0
    ended = np.isin(toplevel(touched), rows.ends.xid) | np.isin(touched, _aborted(rows.ends))
    ended |= full_xids(touched, control.next_xid) < control.oldest_running_xid
    store.abort(touched[ended & ~committed].tolist())
    if control.oldest_running_xid:
        store.settle_before(control.oldest_running_xid & 0xFFFFFFFF)
    touching = full_xids(touched[~ended & ~committed], control.next_xid)
    return replace(control, touching=tuple(sorted(touching.tolist())))


def _aborted(ends: EndTable) -> Int64s:
    """Return the transactions and subtransactions that abort records name."""
    aborts = ends.take(np.flatnonzero((ends.kind == ABORT) | (ends.kind == ABORT_PREPARED)))
    return np.concatenate([aborts.xid, aborts.subs.values])


def began_before(xids: Int64s, store: CatalogStore, control: Control) -> NDArray[np.bool_]:
    """Tell which xids had been given out already when the catalog was taken: bool[t]."""
    before: NDArray[np.bool_] = full_xids(xids, control.next_xid) < store.origin.next_full_xid
    return before
