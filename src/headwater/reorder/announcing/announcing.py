"""The changes before which a relation is announced, where some transactions are streamed in blocks.

PostgreSQL: maybe_send_schema, cleanup_rel_sync_cache of pgoutput.c. A streamed transaction announces for itself,
whatever others have announced, as it may be applied later. What it has announced counts for all once it has committed;
from 19 on also once it is prepared, before never if it was. What it had announced before one of its subtransactions was
rolled back, it announces again. A *stretch* is the output between two places at which it is forgotten that a relation
has been announced.

Where a row filter decides whether a change is sent, an announcement before it has a number. Each streamed transaction
has its own; all others go by the number of whatever may have announced a stretch for all first, be it a streamed
transaction that commits. Where more of these commit, theirs count as that number (:attr:`AnnouncedBy.counted`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.announced_schemas import SchemaMemory
from headwater.reorder.commits.replays import STREAM_ABORTS, STREAM_COMMITS, STREAM_PREPARES, Replays
from headwater.reorder.integer_keys import distinct, lookup, lower

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


class RememberedAnnouncements(NamedTuple):
    """The announcements before a window, of m relations, the last one's stretch first.

    Attributes:
        relations: int64[m] distinct OIDs.
        published_as: int64[m] by stretch: the relation that each is announced as for all, 0 if it is not; number:
            int64[m] of the announcement, if it may not have been made, else 0.
        xid: int64[q] toplevel xids of transactions in progress, each with a relation that it has announced for itself;
            stretch, own_published_as, own_number: int64[q] likewise.
    """

    relations: Int64s
    published_as: Int64s
    number: Int64s
    xid: Int64s
    stretch: Int64s
    own_published_as: Int64s
    own_number: Int64s


def remembered_announcements(memory: SchemaMemory) -> RememberedAnnouncements:
    """Read the announcements that a memory holds."""
    announced = {announcement.relation: announcement for announcement in memory.announced}
    relations = sorted({*announced, *(announcement.relation for announcement in memory.streamed)})
    stretch = {relation: len(relations) - 1 - number for number, relation in enumerate(relations)}
    of_all = [announced.get(relation) for relation in reversed(relations)]
    xid, relation, own_published_as, own_number = np.array(memory.streamed, np.int64).reshape(-1, 4).T.copy()
    return RememberedAnnouncements(
        relations=np.array(relations, np.int64),
        published_as=np.array([announcement.published_as if announcement else 0 for announcement in of_all], np.int64),
        number=np.array([announcement.number if announcement else 0 for announcement in of_all], np.int64),
        xid=xid,
        stretch=np.array([stretch[oid] for oid in relation.tolist()], np.int64),
        own_published_as=own_published_as,
        own_number=own_number,
    )


class Announcers(NamedTuple):
    """The announcers: number 0 is all that is not streamed, a others go by themselves.

    Attributes:
        of: int64[t] the announcer of each replay.
        top: int64[a + 1] toplevel xids.
        ends: int64[a + 1] the replay from which on what it has announced counts for all, t for none.
        is_open: bool[a + 1] its transaction goes on after the window, and what it has announced still counts then.
        tops: int64[s] sorted toplevel xids; first: int64[s] the first announcer of each.
    """

    of: Int64s
    top: Int64s
    ends: Int64s
    is_open: Bools
    tops: Int64s
    first: Int64s

    def known(self, xids: Int64s) -> Int64s:
        """Return the first announcer of each of some transactions."""
        return lookup(self.tops, self.first, xids)


def announcers(txns: Replays, before: Int64s, counts_prepared: bool) -> Announcers:
    """Give the announcers of a window their numbers.

    Args:
        txns: its replays.
        before: int64[q] toplevel xids of transactions that have announced something before it.
        counts_prepared: the announcements of one count for all when it is prepared, as if it had committed.
    """
    count = len(txns.xid)
    concerned, own_top, is_sub_abort = _concerned(txns)
    # Transactions without a replay in the window come last, each with a number that is no replay's.
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
    # Nothing is left of what was announced before a subtransaction was rolled back.
    is_over = kind >= STREAM_COMMITS
    is_last = np.append(tops[1:] != tops[:-1], True)[: len(tops)]
    is_open[number[is_last & ~is_over]] = True
    return Announcers(of[:-1], top, ends, is_open, tops[is_new], number[is_new])


def _concerned(txns: Replays) -> tuple[Int64s, Int64s, Bools]:
    """Find the replays of streamed transactions, their toplevel xids, and which of them roll a subtransaction back."""
    if txns.streamed is None:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_)
    which = np.flatnonzero((txns.streamed.block >= 0) | (txns.kind >= STREAM_COMMITS))
    top = txns.streamed.top[which]
    return which, top, (txns.kind[which] == STREAM_ABORTS) & (txns.xid[which] != top)


def announcement_numbers(txns: Replays, txn: Int64s, lsn: Int64s) -> Int64s:
    """Give announcements that are possible from some changes on their numbers: by the LSN, and no two alike.

    A record may lie in several blocks, of which each but the first begins with another change of it.

    Args:
        txns: the replays.
        txn: int64[n]; lsn: int64[n] the changes.
    """
    if txns.streamed is None:
        return lsn
    blocks, block = txns.streamed.blocks, txns.streamed.block[txn]
    lo, taken = (np.append(column, 0)[block] for column in (blocks.lo, blocks.lo_taken))
    return lsn + np.where((block >= 0) & (lo == lsn), taken, 0)


class Touched(NamedTuple):
    """Wanted touches, n of them in order.

    Attributes:
        stretch: int64[n]; txn: int64[n] their replays.
        is_certain: bool[n] they give a message, whatever row filters say.
        number: int64[n] of the announcement that a touch is the first to be possible before.
    """

    stretch: Int64s
    txn: Int64s
    is_certain: Bools
    number: Int64s


class Known(NamedTuple):
    """The announcements before the window, q of them.

    Attributes:
        stretch: int64[q]; announcer: int64[q] that has announced it; each pair once.
        number: int64[q] of the announcement, if it may not have been made, else 0.
    """

    stretch: Int64s
    announcer: Int64s
    number: Int64s


class AnnouncedBy(NamedTuple):
    """The announcements made or possible in a window, by touches or, below 0, by those known before it (last: -1).

    Attributes:
        sends: bool[n] touches before which the schema goes for sure.
        tentative: int64[n] the number of the announcement that may go before a touch, else 0.
        common: int64[c] stretches that are announced for all at the end; by: int64[c]; number: int64[c] of the
            announcement, if it may not have been made, else 0.
        own: int64[2, o] stretches, and the announcer of each for itself; own_by, own_number: int64[o] likewise.
        counted: int64[3, k] replays at which streamed transactions commit; the number of an announcement that one of
            them may have made; and that of the announcement for all that this counts as.
    """

    sends: Bools
    tentative: Int64s
    common: Int64s
    by: Int64s
    number: Int64s
    own: Int64s
    own_by: Int64s
    own_number: Int64s
    counted: Int64s


def announced_by(touched: Touched, who: Announcers, known: Known) -> AnnouncedBy:
    """Find the touches that announce their relation, or may.

    Args:
        touched: the touches; who: the announcers.
        known: their announcements before the window.
    """
    pairs = _pairs(touched, who, known)
    common = _common(pairs, touched.txn, who)
    number, until, leads = pairs.number.copy(), _time(pairs.sure), pairs.announcer > 0
    for_all = np.flatnonzero(~leads)
    at = np.searchsorted(common.stretch, pairs.stretch[for_all])
    number[for_all], until[for_all] = common.number[at], common.until[at]
    leads[for_all] = common.by[at] == pairs.first[for_all]
    sends = np.zeros(len(touched.txn), np.bool_)
    sends[pairs.first[leads & (number == 0) & (pairs.first >= 0)]] = True
    tentative = np.zeros(len(sends), np.int64)
    if number.any():
        tentative = np.where(_time(np.arange(len(sends))) <= until[pairs.of], number[pairs.of], 0)
    own = np.flatnonzero(pairs.announcer > 0)
    return AnnouncedBy(
        sends=sends,
        tentative=tentative,
        common=common.stretch,
        by=common.by,
        number=np.where(common.until < _NEVER, 0, common.number),
        own=np.stack([pairs.stretch[own], pairs.announcer[own]]),
        own_by=pairs.first[own],
        own_number=pairs.left[own],
        counted=common.counted,
    )


_NEVER = int(np.iinfo(np.int64).max)


def _time(touch: Int64s) -> Int64s:
    """Return the times of touches, where a commit before touch i is at 2 i, and all known before is at -1."""
    return np.where(touch < 0, -1, 2 * touch + 1)


class _Pairs(NamedTuple):
    """Stretches and their announcers, p of them.

    Attributes:
        of: int64[n] the pair of each touch.
        stretch: int64[p]; announcer: int64[p].
        first: int64[p] the touch before which it may be announced first or, below 0, an announcement that was known.
        number: int64[p] of that announcement, if it may not be made, else 0; left: int64[p] the same at the end.
        sure: int64[p] the first certain touch, n for none.
    """

    of: Int64s
    stretch: Int64s
    announcer: Int64s
    first: Int64s
    number: Int64s
    left: Int64s
    sure: Int64s


def _pairs(touched: Touched, who: Announcers, known: Known) -> _Pairs:
    before, size, count = len(known.number), len(who.top), len(touched.txn)
    keys = np.append(known.stretch * size + known.announcer, touched.stretch * size + who.of[touched.txn])
    pairs = distinct(keys)
    stretch, announcer = np.divmod(pairs.values, size)
    first, of = pairs.first - before, pairs.number[before:]
    numbers = np.append(np.where(touched.is_certain, 0, touched.number), known.number)
    number, sure = numbers[first], np.full(len(first), count, np.int64)
    if number.any():
        certain = np.flatnonzero(touched.is_certain)
        lower(sure, of[certain], certain)
    return _Pairs(of, stretch, announcer, first, number, np.where(sure < count, 0, number), sure)


class _Common(NamedTuple):
    """Stretches that come to be announced for all, or may, c of them.

    Attributes:
        stretch: int64[c] sorted; by: int64[c] the touch or the known one, as of :class:`AnnouncedBy`.
        number: int64[c] of the announcement, if it may not be made.
        until: int64[c] the time from which on it is sure, :data:`_NEVER` for none.
        counted: see :class:`AnnouncedBy`.
    """

    stretch: Int64s
    by: Int64s
    number: Int64s
    until: Int64s
    counted: Int64s


def _common(pairs: _Pairs, txn: Int64s, who: Announcers) -> _Common:
    """Find the stretches that come to be announced for all.

    That is at a touch of no streamed transaction, or where one that has announced it commits. Whichever may be the
    first of these has the number; what others may have announced when they commit counts as that.
    """
    never, end = len(who.of), who.ends[pairs.announcer]
    for_all, commits = np.flatnonzero(pairs.announcer == 0), np.flatnonzero((pairs.announcer > 0) & (end < never))
    sure = for_all[(pairs.number[for_all] != 0) & (pairs.sure[for_all] < len(txn))]
    pair = np.concatenate([for_all, sure, commits])
    touch, at_commit = np.append(pairs.first[for_all], pairs.sure[sure]), 2 * np.searchsorted(txn, end[commits])
    time = np.append(_time(touch), at_commit)
    replay = np.append(np.full(len(touch), never), end[commits])
    number = np.concatenate([pairs.number[for_all], np.zeros(len(sure), np.int64), pairs.left[commits]])
    order = np.lexsort((replay, time, pairs.stretch[pair]))
    pair, time, replay, number = pair[order], time[order], replay[order], number[order]
    is_leader = np.append(True, np.diff(pairs.stretch[pair]) != 0)[: len(pair)]
    of, leader = np.cumsum(is_leader) - 1, np.flatnonzero(is_leader)
    until = np.full(len(leader), _NEVER, np.int64)
    np.minimum.at(until, of[number == 0], time[number == 0])
    counts = np.flatnonzero((replay < never) & (number != 0) & ~is_leader & (time < until[of]))
    return _Common(
        stretch=pairs.stretch[pair[leader]],
        by=pairs.first[pair[leader]],
        number=number[leader],
        until=until,
        counted=np.stack([replay[counts], number[counts], number[leader[of[counts]]]]),
    )
