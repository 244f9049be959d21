"""Find out whether the server's caches were invalidated between two places of the output.

In: where caches are invalidated (:class:`InvalidationPlaces`), what commits distributed, the transactions of a window.
Out: for places of the output, where what the plugin goes by was looked up. What was in the caches before the window
counts as looked up before all places; what is in them at the end is what no place after its look-up has invalidated.

Invalidations that a commit distributes to running transactions (ReorderBufferAddDistributedInvalidations) are not
written out for every receiver: 3,000 transactions side by side that change catalogs would give 9,000,000 places. Of two
places, one after the other, it is asked whether a commit between them distributed an invalidation of the subject:

======================  ==================================================================================
the second place is in  what tells
======================  ==================================================================================
the same transaction    the LSN of the latest such commit lies between the two places
a later transaction     the latest such commit before the first one ended is compared with base snapshots: of
                        both transactions, and of those in between
a block that streams    as above; what came before the block was applied at the end of the block before
======================  ==================================================================================

A transaction that is handed more messages than the server keeps for one forgets everything at its end instead
(ReorderBufferAddDistributedInvalidations; servers from August 2025 on).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.announced_schemas import ANNOUNCED, MEMORIES, Given
from headwater.reorder.commits.invalidation_places import AT_END, AT_START, InvalidationPlaces
from headwater.reorder.commits.replays import Replays
from headwater.reorder.commits.streamed_blocks import Streamed
from headwater.reorder.commits.transactions import NEVER
from headwater.reorder.integer_keys import distinct, distinct_rows, lookup, places_passed, stable_order

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

NO_TRANSACTIONS = np.empty(0, np.int64)

MAX_MESSAGES = (8 << 20) // 16
"""With so many messages handed on to it, a transaction no longer gets them one by one (MAX_DISTR_INVAL_MSG_PER_TXN)."""


class Places(NamedTuple):
    """Places of the output, n of them.

    Attributes:
        txn: int64[n] transactions by number; -1 is before all of them, their count after.
        lsn: int64[n] inside.
        passed: int64[n] how many of :attr:`CacheInvalidation.places` come up to each.
    """

    txn: Int64s
    lsn: Int64s
    passed: Int64s

    def take(self, which: Int64s) -> Places:
        """Return the places that ``which`` names."""
        return Places(self.txn[which], self.lsn[which], self.passed[which])


class LookedUp(NamedTuple):
    """The places at which something that some askers go by was looked up.

    Attributes:
        source: int64[k] for each asker: which of the askers looked it up, or -1 - number of the one that was known.
        kept: int64[d] sorted subjects that are remembered at the end; kept_source: int64[d] likewise.
    """

    source: Int64s
    kept: Int64s
    kept_source: Int64s


class CacheInvalidation:
    """The places at which the plugin and the caches that it asks forget.

    Args:
        forgets: places.
        given: the subjects that are handed on, by commits of before the window too.
        txns: the replays of the window; decoded: bool[t] those replays whose changes the server decodes.
        restarted: int64[n] transactions by number before which everything is forgotten, their count for after all.
        max_messages: with so many handed on to it, a transaction forgets everything at its end.

    Attributes:
        places: int64[p, 2] where something is forgotten by itself (transaction, LSN), sorted, each once.
        given: as given.
    """

    def __init__(
        self,
        forgets: InvalidationPlaces,
        given: Given,
        txns: Replays,
        decoded: Bools,
        restarted: Int64s = NO_TRANSACTIONS,
        max_messages: int = MAX_MESSAGES,
    ) -> None:
        self.given = given
        # One more entry stands for "after all transactions", which receives nothing.
        self._base = np.append(np.where(decoded, txns.base_lsn, NEVER), NEVER)
        self._commit = np.append(txns.final_lsn, NEVER)
        self._inside = self._base if txns.streamed is None else np.maximum(self._base, _streamed_before(txns.streamed))
        # The server keeps no more messages than that for a transaction, and invalidates all caches at its end instead.
        full = np.flatnonzero(self._messages() >= max_messages)
        forgets = _with_everything(forgets, full, AT_END, MEMORIES)
        self._forgets = _with_everything(forgets, restarted, AT_START, (*MEMORIES, ANNOUNCED))
        places, self._place = distinct_rows(np.stack([self._forgets.txn, self._forgets.lsn]))
        self.places = places.T.copy()

    @property
    def transactions(self) -> int:
        """The number of transactions."""
        return len(self._base) - 1

    def _messages(self) -> Int64s:
        """Count the messages that each transaction is handed: int64[t]."""
        before = np.append(0, np.cumsum(self.given.messages))
        first = np.searchsorted(self.given.commit, self._base, "right")
        last = np.maximum(np.searchsorted(self.given.commit, self._commit, "left"), first)
        messages: Int64s = before[last] - before[first]
        return messages[:-1]

    def at(self, txn: Int64s, lsn: Int64s) -> Places:
        """Make places, in order.

        Args:
            txn: int64[n]; lsn: int64[n].
        """
        return Places(txn, lsn, places_passed(txn, lsn, self.places))

    def phases(self, memories: Sequence[int], txn: Int64s, lsn: Int64s, relations: Int64s) -> Int64s:
        """Return numbers that grow wherever something about one of these relations, or all, is forgotten.

        They are one for each place.

        Args:
            memories: memories by relation that matter.
            txn: int64[n]; lsn: int64[n] places in order.
            relations: int64[r] OIDs.
        """
        f, g = self._forgets, self.given
        wanted = np.append(relations, 0)
        which = np.flatnonzero(np.isin(f.memory, memories) & np.isin(f.subject, wanted))
        passed = places_passed(txn, lsn, self.places[np.unique(self._place[which])])
        commits = np.unique(g.lsn[np.isin(g.memory, memories) & np.isin(g.subject, wanted)])
        if not len(commits):
            return passed
        first = np.searchsorted(commits, self._base, "right")
        received = np.maximum(np.searchsorted(commits, self._commit, "left") - first, 0)[:-1]
        # Phases need to differ wherever a cache may have been invalidated, and may differ more often than that. So each
        # receiver counts what came to it, and one more for its end, where it applies all of that again.
        before = np.append(0, np.cumsum(received + (received > 0)))
        first = np.searchsorted(commits, self._inside, "right")
        inside = np.maximum(np.searchsorted(commits, lsn, "left") - first[txn], 0)
        phase: Int64s = passed + before[txn] + inside
        return phase

    def look_up(
        self,
        memory: int,
        known: Int64s,
        subject: Int64s,
        at: Places,
        named: Callable[[Int64s], Int64s] = lambda subjects: subjects,
        is_written: Bools | None = None,
    ) -> LookedUp:
        """Find where things used at some places were looked up: at the first of them since they were forgotten.

        Args:
            memory: the memory that is asked.
            known: int64[m] distinct subjects that were remembered before the window.
            subject: int64[k] the subject asked for at each of some places; at: in order.
            named: from subjects to what they are when they are forgotten.
            is_written: bool[k] where it is looked up again, whatever is remembered.
        """
        # Askers of one subject, in order of their places, with "before the window" in front and "at the end" last:
        #
        #   subject 16384   before   (3, 0/100)   (3, 0/180)   (7, 0/140)   at the end
        #   invalidated            x                         x
        #   looked up by    -        (3, 0/100)   (3, 0/100)   (7, 0/140)   (7, 0/140)
        #
        # The first asker after an invalidation looks up again, and leads all up to the next one.
        subjects = distinct(np.concatenate([known, subject]))
        numbers = np.concatenate([subjects.number, np.arange(len(subjects.values))])
        everything = self._around(len(known), at, len(subjects.values))
        order = stable_order(numbers)
        starts = np.ones(len(order), np.bool_)
        same = np.flatnonzero(numbers[order[1:]] == numbers[order[:-1]])
        earlier, later = everything.take(order[same]), everything.take(order[same + 1])
        starts[same + 1] = self._forgotten(memory, named(subjects.values[numbers[order[same]]]), earlier, later)
        if is_written is not None:
            begins = np.zeros(len(order), np.bool_)
            begins[len(known) : len(known) + len(subject)] = is_written
            starts |= begins[order]
        leader = np.empty(len(order), np.int64)
        leader[order] = order[starts][np.cumsum(starts) - 1]
        ends = len(known) + len(subject)
        source = np.where(leader < len(known), -1 - leader, leader - len(known))
        remembered = np.flatnonzero(leader[ends:] < ends)
        return LookedUp(source[len(known) : ends], subjects.values[remembered], source[ends:][remembered])

    def _around(self, before: int, at: Places, after: int) -> Places:
        """Add places before and after all."""
        edges = ((-1, self.transactions), (AT_START, AT_END), (0, len(self.places)))
        columns = zip(edges, at, strict=True)
        return Places(*(np.concatenate([np.full(before, a), column, np.full(after, b)]) for (a, b), column in columns))

    def _forgotten(self, memory: int, subject: Int64s, earlier: Places, later: Places) -> Bools:
        """Tell whether subjects are forgotten between two places each, itself or with all: bool[n]."""
        f, g = self._forgets, self.given
        of = np.flatnonzero(f.memory == memory)
        places = _Latest.of(f.subject[of], self._place[of])
        of = np.flatnonzero(g.memory == memory)
        given = _Latest.of(g.subject[of], g.lsn[of])
        is_forgotten = np.zeros(len(subject), np.bool_)
        # Subject 0 is everything: a message about it invalidates every subject.
        for named in (subject, np.zeros_like(subject)):
            if len(places.keys):
                is_forgotten |= places.before(named, later.passed) >= earlier.passed
            if len(given.keys) and self.transactions:
                is_forgotten |= self._handed_on(given, named, earlier, later)
        return is_forgotten

    def _handed_on(self, given: _Latest, subject: Int64s, earlier: Places, later: Places) -> Bools:
        """Tell whether a commit hands subjects on between two places each: bool[n]."""
        since = np.where(earlier.txn == later.txn, earlier.lsn, -1)
        # The second place's transaction has received the commit if that came after its base snapshot and before the
        # place; inside one transaction, only what came after the first place counts.
        is_handed_on: Bools = given.before(subject, later.lsn) > np.maximum(self._inside[later.txn], since)
        first = np.maximum(earlier.txn, 0)
        latest = given.before(subject, self._commit[first])
        across = np.flatnonzero((earlier.txn < later.txn) & (latest >= 0))
        # Transactions in between, and the first one itself, apply at their ends what they received: one whose base
        # snapshot is older than the commit has received it. The oldest base snapshot of them all decides.
        bases = least_between(self._base, first[across], later.txn[across])
        is_handed_on[across] |= bases < latest[across]
        return is_handed_on


def _streamed_before(streamed: Streamed) -> Int64s:
    """Return up to where a transaction was streamed in earlier blocks: int64[t + 1].

    Messages that it received come after that.
    """
    return np.append(np.append(streamed.blocks.lo, 0)[streamed.block], 0)


def _with_everything(
    forgets: InvalidationPlaces, txns: Int64s, lsn: int, memories: Sequence[int]
) -> InvalidationPlaces:
    """Return the places, and at one place inside some transactions all of these memories."""
    memory, txn = np.repeat(np.array(memories, np.int64), len(txns)), np.tile(txns, len(memories))
    return InvalidationPlaces(
        np.append(forgets.memory, memory),
        np.append(forgets.subject, np.zeros(len(txn), np.int64)),
        np.append(forgets.txn, txn),
        np.append(forgets.lsn, np.full(len(txn), lsn, np.int64)),
    )


@dataclass(frozen=True)
class _Latest:
    """Values by subject, to find the latest one before another value.

    Attributes:
        subjects: int64[s] sorted, distinct; ranks: int64[v] sorted, distinct values.
        keys: int64[n] sorted: subject's and value's numbers as one; values: int64[n].
    """

    subjects: Int64s
    ranks: Int64s
    keys: Int64s
    values: Int64s

    @classmethod
    def of(cls, subject: Int64s, value: Int64s) -> _Latest:
        """Index pairs in any order."""
        subjects, number = np.unique(subject, return_inverse=True)
        ranks, rank = np.unique(value, return_inverse=True)
        keys = np.unique(number * (len(ranks) + 1) + rank + 1)
        return cls(subjects, ranks, keys, ranks[keys % (len(ranks) + 1) - 1] if len(keys) else keys)

    def before(self, subject: Int64s, value: Int64s) -> Int64s:
        """Find of each subject the latest value below another, -1 if there is none: int64[n]."""
        number = lookup(self.subjects, np.arange(len(self.subjects)), subject)
        first = number * (len(self.ranks) + 1)
        at = np.searchsorted(self.keys, first + np.searchsorted(self.ranks, value, "left"), "right") - 1
        has = (number >= 0) & (at >= 0) & (self.keys[at] > first)
        return np.where(has, self.values[at], -1)


def least_between(values: Int64s, low: Int64s, high: Int64s) -> Int64s:
    """Find the least of ``values[low:high]`` for each pair, NEVER for none, in n log n steps.

    Args:
        values: int64[n].
        low: int64[q]; high: int64[q] in ``[0, n]``.
    """
    least = np.full(len(low), NEVER, np.int64)
    length, width, of_width = high - low, 1, values
    while width <= length.max(initial=0):
        now = np.flatnonzero((length >= width) & (length < 2 * width))
        least[now] = np.minimum(of_width[low[now]], of_width[high[now] - width])
        of_width, width = np.minimum(of_width[:-width], of_width[width:]), 2 * width
    return least
