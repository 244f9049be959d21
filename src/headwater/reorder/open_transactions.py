"""What a window leaves behind of transactions that have not ended, and the fates of those that have.

In: the rows of a window, with those that the windows before it left behind. Out: the rows that the next window needs;
and for the catalog: which of the xids that changed it committed, and which did not. A transaction that a crash of the
server cut off has no end in the log: it is given up once a RUNNING_XACTS record shows that nothing as old as it runs
(PostgreSQL: ReorderBufferAbortOld, called by standby_decode).

What is left behind does not depend on where windows were cut: rows that an index could have had as one are one. An
index ends its rows of changes at the lines of its grid, at commits that hand invalidations on, and at command ids,
invalidations and truncates of their own transaction; where a run or a window began, and which transactions shared a
slot of its cache, does not show here.

Rows have the low halves of xids that lie within 2^31 of :attr:`Control.next_xid`, which has all 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.snapshot import full_xids
from headwater.catalog.store import CatalogStore
from headwater.reorder.control import Control, Followed
from headwater.reorder.handed_on import NOTHING_HANDED_ON, HandedOn
from headwater.reorder.keys import distinct_rows, lookup, lower
from headwater.reorder.transactions import NEVER, CommittedTransactions, toplevel_of
from headwater.rmgr.index import WalIndex
from headwater.rmgr.index_codes import ABORT, ABORT_PREPARED, HAS_BASE, UNSETTLED
from headwater.rmgr.index_rows import NO_ROWS, ChangeTable, EndTable, Rows, XidTable, join_rows

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class OpenTransactions:
    """What is known of transactions that have not ended.

    Attributes:
        rows: their index rows; no transaction ends in them.
        events: int64[n] the last event before each of their rows of changes, an LSN.
        last_event: the last one of all, an LSN.
        handed_on: what transactions that committed while one of these ran have handed on.
    """

    rows: Rows
    events: Int64s
    last_event: int = 0
    handed_on: HandedOn = NOTHING_HANDED_ON

    @property
    def first_lsn(self) -> int | None:
        """Where the oldest of them first showed, None if there is none."""
        lsns = np.append(self.rows.xids.lsn, self.rows.assigns.lsn)
        return int(lsns.min()) if len(lsns) else None

    @property
    def oldest_base(self) -> int:
        """Where the oldest base snapshot of one was taken, NEVER for none."""
        with_base = self.rows.xids.lsn[self.rows.xids.bits & HAS_BASE != 0]
        return int(with_base.min(initial=NEVER))

    def joined(self, index: WalIndex) -> WalIndex:
        """An index of what follows, with these rows before its own."""
        return replace(index, rows=join_rows([self.rows, index.rows])) if self.first_lsn is not None else index


NOTHING_OPEN = OpenTransactions(NO_ROWS, np.empty(0, np.int64))


def still_open(
    before: OpenTransactions, index: WalIndex, txns: CommittedTransactions, control: Control
) -> OpenTransactions:
    """What a window leaves behind.

    Args:
        before: what those before it left behind.
        index: of the window, joined with that.
        txns: that committed in it.
        control: what is known at its end.
    """
    rows, toplevel = index.rows, toplevel_of(index.rows)
    # Of a subtransaction's first record only the header may be known: it names the toplevel transaction.
    tops = np.setdiff1d(np.append(toplevel(rows.xids.xid), rows.assigns.top), rows.ends.xid)
    tops = tops[full_xids(tops, control.next_xid) >= control.oldest_running_xid]

    def is_open(xids: Int64s) -> NDArray[np.bool_]:
        return np.isin(toplevel(xids), tops)

    left = rows.of_transactions(is_open) if len(tops) else NO_ROWS
    common = np.append(before.last_event, _common_events(rows, index.lo))
    carried = before.events[is_open(rows.changes.owner[: len(before.events)])]
    new = left.changes.take(slice(len(carried), None))
    of_all = common[np.searchsorted(common, new.first, "right") - 1]
    event = np.append(carried, np.maximum(of_all, _last_own_event(left, toplevel(new.owner), new.first)))
    changes, event = _fused_changes(left.changes, event, index.grid)
    left = replace(left, xids=_fused_xids(left.xids), changes=changes)
    found = OpenTransactions(left, event, int(common[-1]))
    return replace(found, handed_on=before.handed_on.followed_by(rows, txns, found.oldest_base))


def _common_events(rows: Rows, lo: int) -> Int64s:
    """LSNs from ``lo`` on that no row of changes crosses: commits that hand invalidations on."""
    giving = np.isin(rows.ends.xid, toplevel_of(rows)(rows.invals.owner))
    found = rows.ends.lsn[(rows.ends.invals > 0) | giving]
    return found[np.searchsorted(found, lo) :]


def _last_own_event(rows: Rows, top: Int64s, first: Int64s) -> Int64s:
    """The last event before rows of changes that no row of the same toplevel transaction crosses, 0 for none.

    Args:
        rows: all that is known of these transactions.
        top: int64[n] toplevel xids; first: int64[n] LSNs.
    """
    tables = (rows.commands, rows.invals, rows.truncates)
    lsn = np.concatenate([table.lsn for table in tables])
    tops, number = np.unique(toplevel_of(rows)(np.concatenate([t.owner for t in tables])), return_inverse=True)
    lsns, rank = np.unique(lsn, return_inverse=True)
    width = len(lsns) + 1
    events = np.unique(number * width + rank)
    mine = lookup(tops, np.arange(len(tops)), top)
    at = np.searchsorted(events, np.maximum(mine, 0) * width + np.searchsorted(lsns, first)) - 1
    found = np.append(events, -width)[at]
    return np.where((mine >= 0) & (found // width == mine), np.append(lsns, 0)[found % width], 0)


def _fused_changes(changes: ChangeTable, event: Int64s, grid: int) -> tuple[ChangeTable, Int64s]:
    """With as few rows as an index can have, and the last event before each of them.

    Args:
        changes: in any order; event: int64[n] the last event before each.
        grid: bytes between the lines that no row crosses.
    """
    columns = (changes.owner, changes.locator, changes.origin, changes.first // grid, event)
    fused, number = distinct_rows(np.stack([column.astype(np.int64) for column in columns]))
    order = np.lexsort((changes.first, number))
    starts = np.searchsorted(number[order], np.arange(fused.shape[1]))
    first, last = changes.take(order[starts]), changes.take(order)

    def total(column: NDArray[np.unsignedinteger[Any]]) -> NDArray[np.unsignedinteger[Any]]:
        return np.add.reduceat(column[order], starts, dtype=column.dtype)

    kinds = np.bitwise_or.reduceat(changes.kinds[order] & ~np.uint8(UNSETTLED), starts)
    ends = np.maximum.reduceat(changes.last[order], starts)
    unsettled = np.zeros(len(starts), np.uint8)
    is_final = last.last == ends[number[order]]
    unsettled[number[order][is_final]] = last.kinds[is_final] & UNSETTLED
    made = replace(
        first,
        kinds=kinds | unsettled,
        count=total(changes.count),
        bytes=total(changes.bytes),
        memory=total(changes.memory),
        last=ends,
    )
    by_lsn = np.argsort(made.first, kind="stable")
    return made.take(by_lsn), fused[4][by_lsn]


def _fused_xids(xids: XidTable) -> XidTable:
    """Where each xid was first met, and where it got its base snapshot, if that was later."""
    found, number = np.unique(xids.xid, return_inverse=True)
    first, base = (np.full(len(found), NEVER, np.int64) for _ in range(2))
    bits = np.zeros(len(found), np.int64)
    lower(first, number, xids.lsn)
    with_base = xids.bits & HAS_BASE != 0
    lower(base, number[with_base], xids.lsn[with_base])
    np.bitwise_or.at(bits, number, xids.bits & ~HAS_BASE)
    later = np.flatnonzero((base != NEVER) & (base > first))
    made = XidTable(
        np.append(found, found[later]),
        np.append(first, base[later]),
        np.append(bits | np.where(base == first, HAS_BASE, 0), np.full(len(later), HAS_BASE)),
    )
    return made.take(np.lexsort((made.xid, made.lsn)))


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
    if control.oldest_running_xid:
        store.settle_before(control.oldest_running_xid & 0xFFFFFFFF)
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
