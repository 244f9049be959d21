"""The block of a transaction streamed in pieces that a change belongs to.

In: the blocks of a window (:class:`headwater.reorder.commits.stream_rules.Blocks`), the index's rows. Out:
:class:`Streamed`, which answers by xid and place. A block has the changes of its transaction that no block before it
had, up to the record at which it is streamed. Changes of subtransactions that had been rolled back by then are not
among them. A MULTI_INSERT record may lie in two blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.commits.stream_rules import EVERY, Blocks
from headwater.reorder.commits.transactions import NEVER, toplevel_of
from headwater.reorder.integer_keys import Integers, lookup, stable_order
from headwater.rmgr.index.index_codes import ABORT, ABORT_PREPARED
from headwater.rmgr.index.index_rows import AssignTable, ChangeTable, Rows

Int64s = NDArray[np.int64]

_MANY = 1 << 31
"""More than a record has changes."""


@dataclass(frozen=True)
class Streamed:
    """Blocks among the replays of a window.

    Attributes:
        blocks: b of them, in the order of the output.
        block: int64[t] which of them each replay is, -1 for none.
        top: int64[t] the toplevel xid of each replay.
        ends_stream: bool[t] it ends a streamed transaction, or a subtransaction of one.
        toplevel: from xids to their toplevel xids.
        tops: int64[s] sorted toplevel xids of the blocks.
        keys: int64[b] sorted: transaction and end of a block as one number; replay: int64[b] theirs.
        lsns: int64[l] sorted LSNs at which blocks end.
        assigns: the subtransactions that records have named.
        gone_xid: int64[g] sorted: what was rolled back; gone_lsn: int64[g] start of the record that says so.
    """

    blocks: Blocks
    block: Int64s
    top: Int64s
    ends_stream: NDArray[np.bool_]
    toplevel: Callable[[Int64s], Int64s]
    tops: Int64s
    keys: Int64s
    replay: Int64s
    lsns: Int64s
    assigns: AssignTable
    gone_xid: Int64s
    gone_lsn: Int64s

    @classmethod
    def of(cls, blocks: Blocks, block: Int64s, top: Int64s, ends_stream: NDArray[np.bool_], rows: Rows) -> Streamed:
        """Make the value of blocks, of what the attributes say of the replays, and of the index."""
        tops, family = np.unique(blocks.xid, return_inverse=True)
        lsns, rank = np.unique(blocks.hi, return_inverse=True)
        of_block = np.empty(len(blocks.xid), np.int64)
        of_block[block[block >= 0]] = np.flatnonzero(block >= 0)
        keys = _key(family, rank, len(lsns), blocks.hi_taken)
        order = np.argsort(keys, kind="stable")
        toplevel = toplevel_of(rows)
        columns = keys[order], of_block[order], lsns, rows.assigns, *_gone(rows)
        return cls(blocks, block, top, ends_stream, toplevel, tops, *columns)

    def replay_of(self, xids: Integers, places: Int64s, numbers: Int64s | int = 0) -> Int64s:
        """Find the block that each change is in, as a replay, -1 if it is in none.

        Args:
            xids: int64[n]; places: int64[n] starts of the records.
            numbers: int64[n] which change of its record each is.
        """
        owners: Int64s = xids.astype(np.int64)
        family = lookup(self.tops, np.arange(len(self.tops)), self.toplevel(owners))
        of = np.flatnonzero(family >= 0)
        replay = np.full(len(xids), -1, np.int64)
        if len(of):
            number = np.broadcast_to(np.asarray(numbers, np.int64), owners.shape)[of]
            replay[of] = self._found(owners[of], family[of], places[of], number)
        return replay

    def _found(self, xids: Int64s, family: Int64s, places: Int64s, numbers: Int64s) -> Int64s:
        rank = np.searchsorted(self.lsns, places)
        is_last = np.append(self.lsns, -1)[rank] == places
        at = np.searchsorted(self.keys, _key(family, rank, len(self.lsns), np.where(is_last, numbers + 1, 0)))
        is_own = np.append(self.keys >> 32, -1)[at] // (len(self.lsns) + 1) == family
        replay = np.where(is_own, np.append(self.replay, -1)[at], -1)
        block = np.append(self.block, -1)[replay]
        lo, lo_taken = (np.append(column, NEVER)[block] for column in (self.blocks.lo, self.blocks.lo_taken))
        # What was streamed before the window is before its first block.
        is_behind = (places > lo) | ((places == lo) & (numbers >= lo_taken))
        is_gone = lookup_or(self.gone_xid, self.gone_lsn, xids, NEVER) < np.append(self.blocks.place, NEVER)[block]
        return np.where(is_behind & ~is_gone, replay, -1)

    def first_of(self, xids: Integers) -> Int64s:
        """Find the first block of each xid's transaction, as a replay, -1 for none."""
        order = np.argsort(self.replay, kind="stable")
        tops = self.blocks.xid[self.block[self.replay[order]]]
        keys, at = np.unique(tops, return_index=True)
        return lookup(keys, self.replay[order][at], self.toplevel(xids.astype(np.int64)))

    def firsts(self, replays: Int64s) -> Int64s:
        """Return for each of all replays the first block of the same transaction; itself if it is none."""
        return np.where(self.block >= 0, self.first_of(self.top), replays)

    @property
    def is_empty(self) -> NDArray[np.bool_]:
        """The replays that are blocks of nothing: bool[t]."""
        is_empty: NDArray[np.bool_] = np.append(self.blocks.first, -1)[self.block] == 0
        return is_empty

    def is_streamed(self, xids: Integers) -> NDArray[np.bool_]:
        """Tell which xids are of a transaction that has blocks: bool[n]."""
        has_blocks: NDArray[np.bool_] = np.isin(self.toplevel(xids.astype(np.int64)), self.tops)
        return has_blocks

    def members(self, replay: int) -> Int64s:
        """Return the xids of a block's transaction that had not been rolled back when it was streamed."""
        place, top = self.blocks.place[self.block[replay]], self.top[replay]
        subs = self.assigns.xid[self.assigns.top == top]
        gone = lookup_or(self.gone_xid, self.gone_lsn, subs, NEVER)
        return np.unique(np.append(subs[gone >= place], top))

    def begins(self, replay: int) -> int:
        """Return the LSN up to which a block's transaction was streamed before it; 0 for nothing, and for no block."""
        block = int(self.block[replay])
        return 0 if block < 0 else int(self.blocks.lo[block])

    def of_changes(self, changes: ChangeTable) -> Int64s:
        """Find the block that each row of changes is in, as a replay, -1 if it is in none."""
        return self.replay_of(changes.xid, changes.first, self._numbers(changes))

    def _numbers(self, changes: ChangeTable) -> Int64s:
        """Tell which change of its record each row is, of records that lie in two blocks; 0 of all others: int64[n].

        Of a record that a block of an earlier window has begun, the last row is what that block has not.
        """
        blocks = self.blocks
        ends, begins = blocks.hi[blocks.hi_taken < EVERY], blocks.lo[blocks.lo_taken < EVERY]
        numbers = numbers_at(changes, np.unique(ends))
        which = np.flatnonzero(np.isin(changes.first, np.setdiff1d(begins, ends)))
        is_last = np.append(np.diff(changes.first[which]) != 0, True)[: len(which)]
        numbers[which[is_last]] = _MANY - 1
        return numbers


def numbers_at(changes: ChangeTable, lsns: Int64s) -> Int64s:
    """Tell which change of its record each row begins with: int64[n].

    This is of records at some LSNs, sorted; 0 of all others. The rows of such a record come in its order. One alone is
    what an earlier window has left of it.
    """
    numbers = np.zeros(len(changes), np.int64)
    which = np.flatnonzero(np.isin(changes.first, lsns))
    rows = np.unique(changes.first[which], return_counts=True)[1]
    counts = changes.count[which].astype(np.int64)
    before = np.cumsum(counts) - counts
    starts = np.cumsum(rows) - rows
    numbers[which] = np.where(np.repeat(rows, rows) == 1, _MANY - 1, before - np.repeat(before[starts], rows))
    return numbers


def lookup_or(keys: Int64s, values: Int64s, wanted: Int64s, other: int) -> Int64s:
    """Look up values by sorted distinct keys, and another value where there is none."""
    at = lookup(keys, np.arange(len(keys)), wanted)
    return np.append(values, other)[at]


def _key(family: Int64s, rank: Int64s, lsns: int, taken: Int64s) -> Int64s:
    return (family * (lsns + 1) + rank << 32) | np.minimum(taken, _MANY)


def _gone(rows: Rows) -> tuple[Int64s, Int64s]:
    """Return all that abort records name, by xid, and where they lie."""
    aborts = rows.ends.take(np.flatnonzero((rows.ends.kind == ABORT) | (rows.ends.kind == ABORT_PREPARED)))
    xids = np.append(aborts.xid, aborts.subs.values)
    lsns = np.append(aborts.lsn, np.repeat(aborts.lsn, aborts.subs.counts))
    order = stable_order(xids)
    xids, first = np.unique(xids[order], return_index=True)
    return xids, lsns[order][first]
