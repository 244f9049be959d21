"""The replays to the plugin, and their places: transactions at their commit, or prepared ones at PREPARE already.

Blocks of transactions in progress are put among them by :mod:`headwater.reorder.commits.streamed_replays`.

In: the rows of a window, what committed in it, and whether prepared transactions are decoded at PREPARE. Out:
:class:`Replays`, in the order of the records at which the server replays them (PostgreSQL: DecodeCommit, DecodePrepare
and DecodeAbort of decode.c; ReorderBufferReplay, ReorderBufferFinishPrepared of reorderbuffer.c). Catalogs go by
commits alone (:mod:`headwater.reorder.commits.transactions`).

A transaction that was prepared before ``two_phase_at`` was not replayed then: that is made up for at its COMMIT
PREPARED. One that was prepared after it, and before the window, has been replayed by an earlier window or session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.commits.streamed_blocks import Streamed
from headwater.reorder.commits.transactions import NEVER, CommittedTransactions, Members, first_seen, members_of
from headwater.reorder.commits.wal_levels import Decodable, lies_in
from headwater.reorder.integer_keys import Integers, lookup, stable_order, within_groups
from headwater.rmgr.index.index_codes import ABORT_PREPARED, COMMIT_PREPARED
from headwater.rmgr.index.index_rows import PrepareTable, Rows

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

WHOLE, AT_PREPARE, STREAMS = range(3)
COMMITS_PREPARED, ROLLS_BACK_PREPARED, STREAM_COMMITS, STREAM_PREPARES, STREAM_ABORTS = range(3, 8)
"""Kinds of replays: all of a transaction that committed; all of one that was prepared; a block of one in progress. And
without changes: that a prepared one was committed, or rolled back; that a streamed one committed, was prepared, or that
it or a subtransaction of it was rolled back."""


@dataclass(frozen=True)
class Replays(Members):
    """Replays in order, t of them; for one that commits what :class:`CommittedTransactions` says.

    Attributes:
        kind: uint8[t].
        xid: int64[t] toplevel xid.
        place: int64[t] ascending LSNs of the records at which they are replayed.
        final_lsn: int64[t] start of the record that decided: COMMIT, PREPARE, and so on; end_lsn: its end.
        time: int64[t] of that record, microseconds since 2000-01-01, the origin's if it has one.
        database: int64[t]; origin: int64[t] replication origin, 0 none; origin_lsn: int64[t].
        first_lsn: int64[t] where the transaction first showed.
        base_lsn: int64[t] where it got its base snapshot, NEVER without one: then nothing of it is output.
        changes_catalog: bool[t] it, or a subtransaction of it, changed the catalog.
        prepare: int64[t] its row among the index's prepares, -1 for a WHOLE one.
        member_xid: int64[m] sorted: whose changes are replayed, toplevel xids and subtransactions that had not been
            rolled back; member_txn: int64[m] with which replay. Those of blocks are not among them.
        streamed: the blocks; None if nothing is streamed.
    """

    kind: NDArray[np.uint8]
    xid: Int64s
    place: Int64s
    final_lsn: Int64s
    end_lsn: Int64s
    time: Int64s
    database: Int64s
    origin: Int64s
    origin_lsn: Int64s
    first_lsn: Int64s
    base_lsn: Int64s
    changes_catalog: Bools
    prepare: Int64s
    streamed: Streamed | None = None

    @property
    def has_changes(self) -> Bools:
        """bool[t]: which replay changes."""
        return self.kind <= STREAMS

    @property
    def commits(self) -> Bools:
        """The replays at which others learn what the transaction did to the catalogs: bool[t]."""
        is_commit: Bools = (self.kind == WHOLE) | (self.kind == COMMITS_PREPARED) | (self.kind == STREAM_COMMITS)
        return is_commit

    def replay_of(self, xids: Integers, places: Int64s, numbers: Int64s | int = 0) -> Int64s:
        """Find the replay that has what an xid did at a place, -1 for none.

        Args:
            xids: int64[n]; places: int64[n] starts of the records.
            numbers: int64[n] which change of its record each is.
        """
        replay = self.txn_of(xids)
        if self.streamed is None:
            return replay
        return np.where(self.streamed.is_streamed(xids), self.streamed.replay_of(xids, places, numbers), replay)

    def ends_of(self, tops: Int64s, places: Int64s) -> tuple[Int64s, Int64s]:
        """Find the replays of transactions from a place on.

        Args:
            tops: int64[n] toplevel xids; places: int64[n].

        Returns:
            int64[k] replays, and int64[k] the one of the n that each is for.
        """
        order = stable_order(self._top)
        low, high = (np.searchsorted(self._top[order], tops, side) for side in ("left", "right"))
        counts = high - low
        asker = np.repeat(np.arange(len(tops)), counts)
        replay = order[np.repeat(low, counts) + within_groups(counts)]
        is_later = self.place[replay] >= places[asker]
        return replay[is_later], asker[is_later]

    @cached_property
    def family(self) -> Int64s:
        """int64[t] the first replay that has changes of the same transaction: of a block not always itself."""
        itself = np.arange(len(self.xid))
        return itself if self.streamed is None else self.streamed.firsts(itself)

    def family_of(self, xids: Integers) -> Int64s:
        """Find the first replay that has changes of each xid's transaction, -1 for none."""
        replay = self.txn_of(xids)
        return replay if self.streamed is None else np.where(replay < 0, self.streamed.first_of(xids), replay)

    @cached_property
    def _top(self) -> Int64s:
        """int64[t] toplevel xids, 0 of replays that end a subtransaction."""
        if self.streamed is None:
            return self.xid
        return np.where(self.xid == self.streamed.top, self.xid, 0)

    def members(self, txn: int) -> Int64s:
        """Return the xids whose changes are replayed, the toplevel one included."""
        if self.streamed is None or self.streamed.block[txn] < 0:
            return super().members(txn)
        return self.streamed.members(txn)


@dataclass(frozen=True)
class TwoPhase:
    """The rules for decoding prepared transactions at PREPARE.

    Attributes:
        at: ``two_phase_at``: where this was switched on.
        is_filtered: tells whether the plugin has one with this xid and name decoded at its commit only
            (filter_prepare_cb).
        finishes_empty: the ends of those that have no changes are reported, too.
    """

    at: int
    is_filtered: Callable[[int, bytes], bool]
    finishes_empty: bool = False


def replays_of_commits(commits: CommittedTransactions) -> Replays:
    """Replay each transaction at its commit."""
    count = len(commits.xid)
    return Replays(
        kind=np.full(count, WHOLE, np.uint8),
        xid=commits.xid,
        place=commits.commit_lsn,
        final_lsn=commits.commit_lsn,
        end_lsn=commits.end_lsn,
        time=commits.commit_time,
        database=commits.database,
        origin=commits.origin,
        origin_lsn=commits.origin_lsn,
        first_lsn=commits.first_lsn,
        base_lsn=commits.base_lsn,
        changes_catalog=commits.changes_catalog,
        prepare=np.full(count, -1, np.int64),
        member_xid=commits.member_xid,
        member_txn=commits.member_txn,
    )


def replays_with_prepared(
    rows: Rows, commits: CommittedTransactions, two_phase: TwoPhase, lo: int, decodable: tuple[Decodable, ...]
) -> Replays:
    """Replay prepared transactions at PREPARE, all others at their commit.

    Args:
        rows: of a window, with those of transactions that were open before it.
        commits: transactions that committed in it.
        two_phase: how prepared ones are decoded.
        lo: where the window begins.
        decodable: where output is wanted, and available.
    """
    prepared = _Prepared.of(rows, two_phase)
    if not len(prepared.at):
        return replays_of_commits(commits)
    replayed, made_up = prepared.replayed(lo, decodable), prepared.made_up(two_phase.at)
    others = np.flatnonzero(~np.isin(commits.xid, prepared.table.xid))
    parts = (
        taken(replays_of_commits(commits), others),
        prepared.replays(np.flatnonzero(replayed), prepared.table.lsn),
        prepared.replays(np.flatnonzero(made_up & ~replayed), prepared.end_lsn),
        prepared.finishes(two_phase.finishes_empty),
    )
    return in_order(parts)[0]


@dataclass(frozen=True)
class _Prepared:
    """Transactions of an index that the plugin wants at PREPARE, p of them.

    Attributes:
        rows: the index.
        table: their rows of PREPARE; at: int64[p] the numbers of these.
        end: int64[p] their rows among the ends, -1 while they are prepared.
    """

    rows: Rows
    table: PrepareTable
    at: Int64s
    end: Int64s

    @classmethod
    def of(cls, rows: Rows, two_phase: TwoPhase) -> _Prepared:
        """Take the transactions that are not filtered."""
        table = rows.prepares
        named = zip(table.xid.tolist(), gids(table), strict=True)
        at = np.array([i for i, names in enumerate(named) if not two_phase.is_filtered(*names)], np.int64)
        order = stable_order(rows.ends.xid)
        end = lookup(rows.ends.xid[order], order, table.xid[at])
        return cls(rows, table.take(at), at, end)

    @property
    def end_lsn(self) -> Int64s:
        """int64[p] where COMMIT or ROLLBACK PREPARED starts, NEVER for none."""
        return np.append(self.rows.ends.lsn, NEVER)[self.end]

    @property
    def is_committed(self) -> Bools:
        """The transactions that have been committed: bool[p]."""
        is_commit: Bools = np.append(self.rows.ends.kind, ABORT_PREPARED)[self.end] == COMMIT_PREPARED
        return is_commit

    def replayed(self, lo: int, decodable: tuple[Decodable, ...]) -> Bools:
        """Tell which were prepared in this window, where it is decoded: bool[p]."""
        return (self.table.lsn >= lo) & lies_in(self.table.lsn, decodable)

    def made_up(self, two_phase_at: int) -> Bools:
        """Tell which were committed, and prepared before ``two_phase_at``: bool[p]."""
        is_made_up: Bools = self.is_committed & (self.table.lsn < two_phase_at)
        return is_made_up

    def replays(self, which: Int64s, places: Int64s) -> Replays:
        """Replay all of some of the prepared transactions, as PREPARE says, at places int64[p]."""
        table = self.table.take(which)
        first, base, changes_catalog = first_seen(self.rows, table.xid)
        member_xid, member_txn = members_of(table.xid, table.subs)
        return Replays(
            kind=np.full(len(which), AT_PREPARE, np.uint8),
            xid=table.xid,
            place=places[which],
            final_lsn=table.lsn,
            end_lsn=table.next,
            time=table.time,
            database=table.database,
            origin=table.origin,
            origin_lsn=table.origin_lsn,
            first_lsn=first,
            base_lsn=base,
            changes_catalog=changes_catalog,
            prepare=self.at[which],
            member_xid=member_xid,
            member_txn=member_txn,
        )

    def finishes(self, finishes_empty: bool) -> Replays:
        """Replay the ends of prepared transactions; also of those without a base snapshot, if that is wanted."""
        which = np.flatnonzero(self.end >= 0)
        ends = self.rows.ends.take(self.end[which])
        first, base, changes_catalog = first_seen(self.rows, ends.xid)
        # A commit gives one that has changed the catalog its base snapshot, at the latest (SnapBuildCommitTxn).
        is_given = self.is_committed[which] & changes_catalog
        if finishes_empty:
            # The server has not met one that nothing but PREPARE has the xid of.
            is_given |= (base == NEVER) & (first < self.table.lsn[which])
        nobody = np.empty(0, np.int64)
        return Replays(
            kind=np.where(self.is_committed[which], COMMITS_PREPARED, ROLLS_BACK_PREPARED).astype(np.uint8),
            xid=ends.xid,
            place=ends.lsn,
            final_lsn=ends.lsn,
            end_lsn=ends.next,
            time=np.where(ends.origin != 0, ends.origin_time, ends.time),
            database=ends.database,
            origin=ends.origin,
            origin_lsn=ends.origin_lsn,
            first_lsn=first,
            base_lsn=np.where(is_given, np.minimum(base, ends.lsn), base),
            changes_catalog=changes_catalog,
            prepare=self.at[which],
            member_xid=nobody,
            member_txn=nobody,
        )


def gids(table: PrepareTable) -> list[bytes]:
    """Return the names of prepared transactions."""
    values, starts = table.gid.values.astype(np.uint8).tobytes(), table.gid.starts.tolist()
    return [values[low:high] for low, high in pairwise(starts)]


def taken(replays: Replays, which: Int64s) -> Replays:
    """Take some of the replays, in the same order."""
    number = np.full(len(replays.xid), -1, np.int64)
    number[which] = np.arange(len(which))
    member = number[replays.member_txn]
    columns: dict[str, Any] = {name: getattr(replays, name)[which] for name in _COLUMNS}
    return Replays(**columns, member_xid=replays.member_xid[member >= 0], member_txn=member[member >= 0])


def in_order(parts: Sequence[Replays]) -> tuple[Replays, Int64s]:
    """Merge several by place, of those with one place the earlier part's first; and tell which each was: int64[t]."""
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    order = stable_order(columns["place"])
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    before = np.cumsum([0] + [len(part.xid) for part in parts])
    xids = np.concatenate([part.member_xid for part in parts])
    txns = number[np.concatenate([part.member_txn + at for part, at in zip(parts, before, strict=False)])]
    members = stable_order(xids)
    ordered = {name: column[order] for name, column in columns.items()}
    return Replays(**ordered, member_xid=xids[members], member_txn=txns[members]), order


_COLUMNS = tuple(f.name for f in fields(Replays) if not f.name.startswith(("member_", "streamed", "_")))
