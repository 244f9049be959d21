"""Which logical messages the server takes behind the change that follows them in the log.

In: the rows of a window and what is replayed of it. Out: :class:`MessageOrder`. What is queued of a transaction and of
its subtransactions is merged by LSN, where a transactional message has the LSN at which its record ends. If a change of
another (sub)transaction of the same one begins there, the two are equal, and the shape of the server's heap decides
(:mod:`headwater.reorder._queue_order`): then every queued change of the transaction has to be known by its LSN.

PostgreSQL: logicalmsg_decode of decode.c, ReorderBufferIterTXNInit of reorderbuffer.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.reorder._queue_order import merge_queues
from headwater.reorder.changes import has_origin_of
from headwater.reorder.replays import Replays
from headwater.reorder.transactions import CommittedTransactions
from headwater.rmgr.index import GRID
from headwater.rmgr.index_rows import Rows

Int64s = NDArray[np.int64]
Stretch = tuple[int, int]


class MessageOrder(NamedTuple):
    """What was found out.

    Attributes:
        late: int64[k] sorted: starts of records of messages that come behind the change at their end.
        lacking: stretches of which the index must have a row a change, to tell.
    """

    late: Int64s
    lacking: tuple[Stretch, ...]


def message_order(
    rows: Rows, lo: int, txns: Replays, commits: CommittedTransactions, is_filtered: Callable[[int], bool]
) -> MessageOrder:
    """Find them.

    Args:
        rows: the index; lo: where its window begins, behind rows that were left.
        txns: what is replayed.
        commits: transactions that committed in the window: they hand snapshots to those that run.
        is_filtered: whether the plugin leaves an origin out: the server then does not queue it.
    """
    found = rows.messages
    replay = txns.replay_of(found.xid, found.lsn)
    asked = np.flatnonzero(found.transactional & (replay >= 0))
    asked = asked[_has_several_members(rows, txns)[replay[asked]]]
    late: list[int] = []
    lacking: list[Stretch] = []
    for txn in np.unique(replay[asked]).tolist():
        queues = _Queues.of(rows, txns, commits, txn, is_filtered)
        which = asked[replay[asked] == txn]
        some_late, some_lacking = queues.ask(found.lsn[which], found.end[which], found.xid[which], lo)
        late += some_late
        lacking += some_lacking
    return MessageOrder(np.array(sorted(late), np.int64), tuple(lacking))


def _has_several_members(rows: Rows, txns: Replays) -> NDArray[np.bool_]:
    """bool[t]: replays with row changes or messages of several xids."""
    xid = np.concatenate([rows.changes.xid.astype(np.int64), rows.messages.xid])
    if not len(rows.messages):
        return np.zeros(len(txns.xid), np.bool_)
    replay = txns.replay_of(xid, np.concatenate([rows.changes.first, rows.messages.lsn]))
    pairs = np.unique(np.stack([replay, xid])[:, replay >= 0], axis=1)
    found: NDArray[np.bool_] = np.bincount(pairs[0], minlength=len(txns.xid)) > 1
    return found


class _Queues(NamedTuple):
    """What is queued of one transaction, n entries by queue and LSN.

    Attributes:
        starts: int64[q+1] bounds of the queues; lsns: int64[n]; span: int64[n] bytes to the last change of its row.
        xid: int64[n]; is_change: bool[n] it is a row change or a truncate.
        whole: where the transaction lies.
    """

    starts: Int64s
    lsns: Int64s
    span: Int64s
    xid: Int64s
    is_change: NDArray[np.bool_]
    whole: Stretch

    @classmethod
    def of(
        cls, rows: Rows, txns: Replays, commits: CommittedTransactions, txn: int, is_filtered: Callable[[int], bool]
    ) -> _Queues:
        """Those of one replay."""
        parts = list(_entries(rows, txns, txn, is_filtered))
        first, end = int(txns.first_lsn[txn]), int(txns.place[txn])
        base = max(int(txns.base_lsn[txn]), 0 if txns.streamed is None else txns.streamed.begins(txn))
        top = int(txns.xid[txn])
        given = commits.commit_lsn[commits.changes_catalog & (commits.commit_lsn > base) & (commits.commit_lsn < end)]
        parts.append((np.full(len(given), top), given, np.zeros(len(given), np.int64), np.zeros(len(given), np.bool_)))
        xid, lsn, span, is_change = (np.concatenate(column) for column in zip(*parts, strict=True))
        rank = _ranks(rows, top, xid)
        order = np.lexsort((lsn, rank))
        counts = np.bincount(rank, minlength=1)
        starts = np.append(0, np.cumsum(counts))
        return cls(starts, lsn[order], span[order], xid[order], is_change[order], (first, end))

    def ask(self, lsn: Int64s, end: Int64s, xid: Int64s, lo: int) -> tuple[list[int], list[Stretch]]:
        """Starts of those of some messages that are late, and stretches that are not known well enough."""
        lacking: list[Stretch] = []
        doubtful: list[tuple[int, int, int]] = []
        changes = np.flatnonzero(self.is_change)
        changes = changes[np.argsort(self.lsns[changes], kind="stable")]
        # No row of changes crosses the grid.
        bounds = np.searchsorted(self.lsns[changes], np.stack([end // GRID * GRID, end + 1]))
        for one, low, high in zip(zip(lsn.tolist(), end.tolist(), xid.tolist(), strict=True), *bounds, strict=True):
            near = changes[low:high]
            others = near[self.xid[near] != one[2]]
            if (self.lsns[others] == one[1]).any():
                doubtful.append(one)
            elif (self.lsns[others] + self.span[others] >= one[1]).any():
                lacking.append((one[1], one[1] + 1) if one[1] >= lo else self.whole)
        if doubtful and not lacking and self.span.any():
            lacking.append(self.whole)
        return ([], lacking) if lacking or not doubtful else (self._late(doubtful), [])

    def _late(self, doubtful: list[tuple[int, int, int]]) -> list[int]:
        order = np.empty(len(self.lsns), np.int64)
        merge_queues(self.starts, self.lsns, order)
        taken = np.empty(len(order), np.int64)
        taken[order] = np.arange(len(order))
        late = []
        for lsn, end, xid in doubtful:
            at_end = self.lsns == end
            own, other = at_end & (self.xid == xid), at_end & (self.xid != xid) & self.is_change
            if taken[own].min() > taken[other].min():
                late.append(lsn)
        return late


_Entries = tuple[Int64s, Int64s, Int64s, NDArray[np.bool_]]


def _entries(rows: Rows, txns: Replays, txn: int, is_filtered: Callable[[int], bool]) -> Iterator[_Entries]:
    """What tables have of a replay: xid, LSN, span, whether it is a change."""
    changes = rows.changes
    near = slice(*np.searchsorted(changes.first, [txns.first_lsn[txn], txns.place[txn] + 1]))
    which = np.arange(near.start, near.stop)
    which = which[txns.replay_of(changes.xid[near], changes.first[near]) == txn]
    which = which[~has_origin_of(changes.take(which).origin, is_filtered)]
    some = changes.take(which)
    yield some.xid.astype(np.int64), some.first, some.span.astype(np.int64), np.ones(len(some), np.bool_)
    invals = rows.invals.take(np.flatnonzero(np.diff(rows.invals.lsn, prepend=-1)))
    for table, lsn, is_change in (
        (rows.truncates, rows.truncates.lsn, True),
        (rows.commands, rows.commands.lsn, False),
        (invals, invals.lsn, False),
        (rows.messages, rows.messages.end, False),
    ):
        own = np.flatnonzero((txns.replay_of(table.owner, table.lsn) == txn) & (table.owner != 0))
        origin = getattr(table, "origin", None)
        own = own if origin is None else own[~has_origin_of(origin[own], is_filtered)]
        zeros = np.zeros(len(own), np.int64)
        yield table.owner[own], lsn[own], zeros, np.full(len(own), is_change, np.bool_)


def _ranks(rows: Rows, top: int, xid: Int64s) -> Int64s:
    """The number of each xid's queue: the toplevel one's, then those of subtransactions as these became known."""
    members = np.unique(xid)
    known = np.full(len(members), np.iinfo(np.int64).max)
    named = np.flatnonzero(np.isin(rows.assigns.xid, members))
    np.minimum.at(known, np.searchsorted(members, rows.assigns.xid[named]), rows.assigns.lsn[named])
    known[members == top] = -1
    order = np.argsort(known, kind="stable")
    rank = np.empty(len(members), np.int64)
    rank[order] = np.arange(len(members))
    return rank[np.searchsorted(members, xid)]
