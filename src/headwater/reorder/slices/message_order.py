"""The logical messages that the server takes after the change that follows them in the log.

In: the rows of a window and what is replayed of it. Out: :class:`MessageOrder`. The queues of a transaction and of its
subtransactions are merged by LSN, where a transactional message has the LSN at which its record ends. If a change of
another (sub)transaction of the same one begins there, the two are equal, and the shape of the server's heap decides
(:mod:`headwater.reorder.slices._queue_order`): then every queued change of the transaction has to be known by its LSN.

PostgreSQL: logicalmsg_decode of decode.c, ReorderBufferIterTXNInit of reorderbuffer.c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.commits.replays import Replays
from headwater.reorder.commits.transactions import CommittedTransactions
from headwater.reorder.slices._queue_order import merge_queues
from headwater.reorder.slices.changes import has_origin_of
from headwater.rmgr.index.index_rows import MessageTable, Rows

Int64s = NDArray[np.int64]
Stretch = tuple[int, int]


class MessageOrder(NamedTuple):
    """The messages that are late.

    Attributes:
        late: int64[k] sorted: starts of records of messages that come after the change at their end.
        lacking: stretches of which the index must have a row a change, to tell.
    """

    late: Int64s
    lacking: tuple[Stretch, ...]


def message_order(
    rows: Rows, lo: int, txns: Replays, commits: CommittedTransactions, is_filtered: Callable[[int], bool]
) -> MessageOrder:
    """Find out which messages the server takes after the change that follows them.

    Args:
        rows: the index; lo: where its window begins, after rows that were left.
        txns: what is replayed.
        commits: transactions that committed in the window: they hand snapshots to those that run.
        is_filtered: whether the plugin leaves an origin out: the server then does not queue it.
    """
    messages = rows.messages
    asked = np.flatnonzero(messages.transactional)
    asked = asked[txns.replay_of(messages.xid[asked], messages.lsn[asked]) >= 0]
    if not len(asked):
        return MessageOrder(np.empty(0, np.int64), ())
    messages = messages.take(asked)
    replay = txns.replay_of(messages.xid, messages.lsn)
    queued = _Queued.of(rows, txns, np.unique(replay), is_filtered)
    begin, cross = queued.of_others(replay, messages.xid, messages.end)
    doubtful, unknown = np.flatnonzero(begin > 0), np.flatnonzero((begin == 0) & (cross > 0))
    lacking = [_near(int(messages.end[at]), lo, txns, int(replay[at])) for at in unknown.tolist()]
    late: list[int] = []
    queued = queued.of_replays(np.unique(replay[doubtful]))
    order = np.argsort(replay[doubtful], kind="stable")
    for which in np.split(doubtful[order], np.flatnonzero(np.diff(replay[doubtful[order]])) + 1) if len(order) else ():
        txn = int(replay[which[0]])
        entries = queued.of_replay(txn)
        if entries.span.any():
            lacking.append(_whole(txns, txn))
        elif not lacking:
            late += _late(entries, rows, txns, commits, txn, messages.take(which))
    return MessageOrder(np.array(sorted(late), np.int64), tuple(lacking))


def _near(end: int, lo: int, txns: Replays, txn: int) -> Stretch:
    """Gather what has to be known to tell whether a change begins where a message ends."""
    return (end, end + 1) if end >= lo else _whole(txns, txn)


def _whole(txns: Replays, txn: int) -> Stretch:
    return int(txns.first_lsn[txn]), int(txns.place[txn])


class _Queued(NamedTuple):
    """The queue of transactions, n entries, sorted by replay; messages that commits hand on are not in it.

    Attributes:
        replay: int64[n]; xid: int64[n]; lsn: int64[n]; span: int64[n] bytes to the last change of its row.
        is_change: bool[n] it is a row change or a truncate.
    """

    replay: Int64s
    xid: Int64s
    lsn: Int64s
    span: Int64s
    is_change: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Rows, txns: Replays, replays: Int64s, is_filtered: Callable[[int], bool]) -> _Queued:
        """Take the entries near some replays."""
        is_asked = np.zeros(len(txns.xid) + 1, np.bool_)
        is_asked[replays] = True
        invals = rows.invals.take(np.flatnonzero(np.diff(rows.invals.lsn, prepend=-1)))
        tables: tuple[tuple[Any, Int64s, bool], ...] = (
            (rows.changes, rows.changes.first, True),
            (rows.truncates, rows.truncates.lsn, True),
            (rows.commands, rows.commands.lsn, False),
            (invals, invals.lsn, False),
            (rows.messages, rows.messages.end, False),
        )
        parts = []
        for table, lsn, is_change in tables:
            replay = np.where(table.owner != 0, txns.replay_of(table.owner, table.lsn), -1)
            replay[~is_asked[replay]] = -1
            origin = getattr(table, "origin", None)
            if origin is not None and (origin.any() or is_filtered(0)):
                replay[has_origin_of(origin, is_filtered)] = -1
            which = np.flatnonzero(replay >= 0)
            span = getattr(table, "span", np.zeros(len(table), np.int64))[which].astype(np.int64)
            parts.append((replay[which], table.owner[which], lsn[which], span, np.full(len(which), is_change)))
        queued = cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        return queued._take(np.argsort(queued.replay, kind="stable"))

    def of_replays(self, replays: Int64s) -> _Queued:
        """Take the entries near some replays."""
        return self._take(np.isin(self.replay, replays))

    def of_replay(self, replay: int) -> _Queued:
        """Take the entries near a replay."""
        return self._take(slice(*np.searchsorted(self.replay, [replay, replay + 1])))

    def _take(self, which: slice | Int64s | NDArray[np.bool_]) -> _Queued:
        return _Queued(self.replay[which], self.xid[which], self.lsn[which], self.span[which], self.is_change[which])

    def of_others(self, replay: Int64s, xid: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
        """Count rows of changes of other xids of the same replay that begin at a place, and those that go over it.

        Args:
            replay: int64[q]; xid: int64[q]; end: int64[q] the place.
        """
        changes = np.flatnonzero(self.is_change)
        first, last = self.lsn[changes], self.lsn[changes] + self.span[changes]
        places = np.unique(np.concatenate([first, last, end]))
        first, last, end = (np.searchsorted(places, column) for column in (first, last, end))
        pairs = np.concatenate([self.replay[changes] << 32 | self.xid[changes], replay << 32 | xid])
        pair = np.unique(pairs, return_inverse=True)[1]
        counts = []
        for group, of in ((self.replay[changes], replay), (pair[: len(changes)], pair[len(changes) :])):
            groups = ((group, first), (group, last), (of, end))
            of_first, of_last, asked = (number * (len(places) + 1) + rank for number, rank in groups)
            of_first.sort()
            of_last.sort()
            begin = np.searchsorted(of_first, asked, "right") - np.searchsorted(of_first, asked)
            counts.append((begin, np.searchsorted(of_first, asked) - np.searchsorted(of_last, asked)))
        return counts[0][0] - counts[1][0], counts[0][1] - counts[1][1]


def _late(
    entries: _Queued, rows: Rows, txns: Replays, commits: CommittedTransactions, txn: int, messages: MessageTable
) -> list[int]:
    """Find those of some messages of a replay that the server takes after the change at their end: places."""
    top = int(txns.xid[txn])
    given = _given(txns, commits, txn)
    xid, lsn = np.append(entries.xid, np.full(len(given), top)), np.append(entries.lsn, given)
    is_change = np.append(entries.is_change, np.zeros(len(given), np.bool_))
    rank = _ranks(rows, top, xid)
    by_queue = np.lexsort((lsn, rank))
    xid, lsn, is_change = xid[by_queue], lsn[by_queue], is_change[by_queue]
    order = np.empty(len(lsn), np.int64)
    merge_queues(np.append(0, np.cumsum(np.bincount(rank))), lsn, order)
    taken = np.empty(len(order), np.int64)
    taken[order] = np.arange(len(order))
    by_lsn = np.argsort(lsn, kind="stable")
    late = []
    for place, end, own in zip(messages.lsn.tolist(), messages.end.tolist(), messages.xid.tolist(), strict=True):
        low, high = np.searchsorted(lsn[by_lsn], [end, end + 1])
        near = by_lsn[low:high]
        others = near[(xid[near] != own) & is_change[near]]
        if taken[near[xid[near] == own]].min() > taken[others].min():
            late.append(place)
    return late


def _given(txns: Replays, commits: CommittedTransactions, txn: int) -> Int64s:
    """Find LSNs of the commits that handed a snapshot to a transaction since it, or this block of it, began."""
    base = max(int(txns.base_lsn[txn]), 0 if txns.streamed is None else txns.streamed.begins(txn))
    is_behind = (commits.commit_lsn > base) & (commits.commit_lsn < int(txns.place[txn]))
    given: Int64s = commits.commit_lsn[commits.changes_catalog & is_behind]
    return given


def _ranks(rows: Rows, top: int, xid: Int64s) -> Int64s:
    """Give each xid's queue its number: the toplevel one's, then those of subtransactions as these became known."""
    members = np.unique(xid)
    known = np.full(len(members), np.iinfo(np.int64).max)
    named = np.flatnonzero(np.isin(rows.assigns.xid, members))
    np.minimum.at(known, np.searchsorted(members, rows.assigns.xid[named]), rows.assigns.lsn[named])
    known[members == top] = -1
    order = np.argsort(known, kind="stable")
    rank = np.empty(len(members), np.int64)
    rank[order] = np.arange(len(members))
    return rank[np.searchsorted(members, xid)]
