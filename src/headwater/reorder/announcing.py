"""Before which changes a relation is announced, where some transactions are streamed in blocks.

PostgreSQL: maybe_send_schema, cleanup_rel_sync_cache of pgoutput.c. A streamed transaction announces for itself,
whatever others have announced, as it may be applied later. What it has announced counts for all once it has committed,
from 19 on also once it is prepared; what it had announced before one of its subtransactions was rolled back, it
announces again. A *stretch* is what lies between two places at which it is forgotten that a relation was announced.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.keys import distinct_rows, lookup
from headwater.reorder.replays import STREAM_ABORTS, STREAM_COMMITS, STREAM_PREPARES, Replays
from headwater.reorder.schema_memory import SchemaMemory, StreamedAnnouncement

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


class AnnouncedInMind(NamedTuple):
    """What has been announced before a window, of m relations, the last one's stretch first.

    Attributes:
        relations: int64[m] distinct OIDs.
        published_as: int64[m] by stretch: as which relation each is announced for all, 0 if it is not; number: int64[m]
            of the announcement, if it may not have been made, else 0.
        streamed: by transactions in progress, q of them; xid: int64[q] whose; stretch: int64[q].
    """

    relations: Int64s
    published_as: Int64s
    number: Int64s
    streamed: tuple[StreamedAnnouncement, ...]
    xid: Int64s
    stretch: Int64s


def announced_in_mind(memory: SchemaMemory) -> AnnouncedInMind:
    """What a memory says."""
    announced = {one.relation: one for one in memory.announced}
    relations = sorted({*announced, *(one.relation for one in memory.streamed)})
    stretch = {relation: len(relations) - 1 - number for number, relation in enumerate(relations)}
    of_all = [announced.get(relation) for relation in reversed(relations)]
    return AnnouncedInMind(
        relations=np.array(relations, np.int64),
        published_as=np.array([one.published_as if one else 0 for one in of_all], np.int64),
        number=np.array([one.number if one else 0 for one in of_all], np.int64),
        streamed=memory.streamed,
        xid=np.array([one.xid for one in memory.streamed], np.int64),
        stretch=np.array([stretch[one.relation] for one in memory.streamed], np.int64),
    )


class Announcers(NamedTuple):
    """Who announces: number 0 is all that is not streamed, a others go by themselves.

    Attributes:
        of: int64[t] the announcer of each replay.
        top: int64[a + 1] toplevel xids.
        ends: int64[a + 1] the replay from which on what it has announced counts for all, t for none.
        is_open: bool[a + 1] its transaction goes on behind the window, and it is the last one of it.
        tops: int64[s] sorted toplevel xids; first: int64[s] the first announcer of each.
    """

    of: Int64s
    top: Int64s
    ends: Int64s
    is_open: Bools
    tops: Int64s
    first: Int64s

    def known(self, xids: Int64s) -> Int64s:
        """The first announcer of each of some transactions."""
        return lookup(self.tops, self.first, xids)


def announcers(txns: Replays, before: Int64s, counts_prepared: bool) -> Announcers:
    """Those of a window.

    Args:
        txns: its replays.
        before: int64[q] toplevel xids of transactions that have announced something before it.
        counts_prepared: what they have announced counts for all also once they are prepared.
    """
    count = len(txns.xid)
    concerned, own_top, is_sub_abort = _concerned(txns)
    # Those without a replay in the window stand behind, each with one that is no replay.
    others = np.setdiff1d(before, own_top)
    replay, tops = np.append(concerned, np.full(len(others), count)), np.append(own_top, others)
    order = np.argsort(tops, kind="stable")
    replay, tops = replay[order], tops[order]
    kind, is_cut = np.append(txns.kind, 0)[replay], np.append(is_sub_abort, np.zeros(len(others), np.bool_))[order]
    is_new = np.append(True, tops[1:] != tops[:-1])[: len(tops)]
    number = np.cumsum(is_new | np.append(False, is_cut[:-1])[: len(tops)])
    of = np.zeros(count + 1, np.int64)
    of[replay] = number
    size = int(number.max(initial=0)) + 1
    top, ends, is_open = np.zeros(size, np.int64), np.full(size, count, np.int64), np.zeros(size, np.bool_)
    top[number] = tops
    counts = (kind == STREAM_COMMITS) | ((kind == STREAM_PREPARES) & counts_prepared)
    ends[number[counts]] = replay[counts]
    is_over = (kind == STREAM_COMMITS) | (kind == STREAM_PREPARES) | ((kind == STREAM_ABORTS) & ~is_cut)
    is_last = np.append(tops[1:] != tops[:-1], True)[: len(tops)]
    is_open[number[is_last & ~is_over]] = True
    return Announcers(of[:-1], top, ends, is_open, tops[is_new], number[is_new])


def _concerned(txns: Replays) -> tuple[Int64s, Int64s, Bools]:
    """Replays of streamed transactions, their toplevel xids, and which of them roll a subtransaction back."""
    if txns.streamed is None:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_)
    which = np.flatnonzero((txns.streamed.block >= 0) | (txns.kind >= STREAM_COMMITS))
    top = txns.streamed.top[which]
    return which, top, (txns.kind[which] == STREAM_ABORTS) & (txns.xid[which] != top)


class AnnouncedBy(NamedTuple):
    """What is announced in a window, by touches or, below 0, by what was known before it (the last one is -1).

    Attributes:
        sends: int64[k] touches before which the schema goes.
        common: int64[c] stretches that come to be announced for all; by: int64[c].
        own: int64[2, o] stretches, and who has announced each for itself; own_by: int64[o].
    """

    sends: Int64s
    common: Int64s
    by: Int64s
    own: Int64s
    own_by: Int64s


def announced_by(stretch: Int64s, txn: Int64s, who: Announcers, common: Int64s, known: Int64s) -> AnnouncedBy:
    """Which touches announce their relation.

    Args:
        stretch: int64[n] of wanted touches, in order; txn: int64[n] their replays.
        who: the announcers.
        common: int64[c] stretches that were announced for all before the window.
        known: int64[2, q] stretches, and who had announced them for itself before it.
    """
    both = np.concatenate([known, np.stack([stretch, who.of[txn]])], axis=1)
    pairs, number = distinct_rows(both)
    first = np.full(pairs.shape[1], both.shape[1], np.int64)
    np.minimum.at(first, number, np.arange(both.shape[1]))
    first -= known.shape[1]
    is_own = pairs[1] > 0
    # A stretch is announced for all at a touch of no streamed transaction, or where one that has announced it commits.
    since = np.where(is_own, 2 * who.ends[pairs[1]], 2 * np.append(txn, 0)[np.maximum(first, -1)] + 1)
    order = np.lexsort((since, pairs[0]))
    counts = (~is_own | (who.ends[pairs[1]] < len(who.of))) & ~np.isin(pairs[0], common)
    order = order[counts[order]]
    leaders = order[np.append(True, np.diff(pairs[0][order]) != 0)[: len(order)]]
    sends = np.concatenate([first[is_own & (first >= 0)], first[leaders[~is_own[leaders]]]])
    own = np.ascontiguousarray(pairs[:, is_own])
    return AnnouncedBy(sends, pairs[0][leaders], first[leaders], own, first[is_own])
