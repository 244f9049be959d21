"""When a relation's schema must be sent again.

PostgreSQL: RelationSyncCache of pgoutput.c, invalidations of reorderbuffer.c and inval.c.

A plugin that sends schemas forgets that it sent one when an invalidation names the relation. Invalidations run at
places of the output: a transaction's own ones where they were logged, all of them again after its commit; those of a
transaction that commits meanwhile where it committed (distributed invalidations, servers from May 2025 on); those
without an xid at once. A place is (unit, LSN inside the unit); changes have places too, so the schema goes before the
first wanted change at or after each place of invalidation.

Known gap: a transaction that receives more than 8 MB of distributed invalidations forgets everything on the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.keys import distinct, lookup, place_order, stable_order
from headwater.reorder.transactions import CommittedTransactions, toplevel_of
from headwater.rmgr.index_rows import InvalidationTable, Rows

Int64s = NDArray[np.int64]

AT_START = -1
"""Place inside a unit before its first change."""

AT_END = np.iinfo(np.int64).max
"""Place inside a unit after its last change."""


ENTRIES, LOADED, ROWS, RELATIONS, SCHEMAS = range(5)
"""What a plugin that sends schemas keeps in mind, and the caches that it asks: its entries of relations, by OID (what
is announced, how it is published); the publications as loaded, as one; their catalog rows, by number from 1 among those
that it was given; which of them relations are in, and which schemas are, each as one."""

Subject = tuple[int, int]
"""What an invalidation concerns: one of these memories, and what in it, 0 for all."""


@dataclass(frozen=True)
class Forget:
    """At a place of the output, something that the plugin keeps in mind is looked up anew.

    Attributes:
        unit: number of the transaction in output order.
        lsn: place inside the unit, bytes, or AT_START, AT_END.
        relation: what is forgotten: an OID (of ROWS a number), or 0 for all.
        memory: where it is kept: ENTRIES and so on.
    """

    unit: int
    lsn: int
    relation: int
    memory: int = ENTRIES


def entry_starts(
    relation: Int64s, unit: Int64s, lsn: Int64s, forgets: Iterable[Forget]
) -> tuple[Int64s, NDArray[np.bool_]]:
    """Which touches of relations are the first since the relation was forgotten.

    Args:
        relation: int64[n] OID touched.
        unit: int64[n] its unit.
        lsn: int64[n] its place inside the unit.
        forgets: where relations are forgotten.

    Returns:
        int64[n] the touches by (relation, unit, LSN), and bool[n], in that order, whether each is such a first one.
    """
    relations = distinct(relation)
    order = place_order(unit, lsn)
    order = order[stable_order(relations.number[order])]
    number, passed = relations.number[order], np.zeros(len(order), np.int64)
    found = np.array([(f.relation, f.unit, f.lsn) for f in forgets], np.int64).reshape(-1, 3)
    if len(found):
        passed = _passed(found, relations.values, number, unit[order], lsn[order])
    starts = np.ones(len(order), np.bool_)
    starts[1:] = (number[1:] != number[:-1]) | (passed[1:] != passed[:-1])
    return order, starts


def _passed(found: Int64s, relations: Int64s, number: Int64s, unit: Int64s, lsn: Int64s) -> Int64s:
    """How many forgets that concern a touch's relation come up to it.

    Args:
        found: int64[f, 3] forgets: (relation or 0, unit, LSN).
        relations: int64[r] sorted OIDs; number: int64[n] which of them each touch is of.
        unit: int64[n]; lsn: int64[n] the touches' places.
    """
    named = lookup(relations, np.arange(len(relations)), found[:, 0])
    everything = np.zeros(len(unit), np.int64)
    passed = np.zeros(len(unit), np.int64)
    for which, forgotten, touched in ((found[:, 0] == 0, named * 0, everything), (named >= 0, named, number)):
        places = np.stack([forgotten[which], found[which, 1], found[which, 2]])
        passed += _forgets_until(places, touched, unit, lsn)
    return passed


def _forgets_until(forgets: Int64s, relation: Int64s, unit: Int64s, lsn: Int64s) -> Int64s:
    """How many forgets have a (relation, unit, LSN) up to each touch's.

    Args:
        forgets: int64[3, f] (relation, unit, LSN).
        relation: int64[n]; unit: int64[n]; lsn: int64[n] touches.
    """
    if not forgets.shape[1]:
        return np.zeros(len(unit), np.int64)
    lsns, rank = np.unique(forgets[2], return_inverse=True)
    ranks, units = len(lsns) + 1, max(int(forgets[1].max()), int(unit.max(initial=0))) + 1
    keys = np.sort((forgets[0] * units + forgets[1]) * ranks + rank + 1)
    return np.searchsorted(
        keys, (relation * units + unit) * ranks + np.searchsorted(lsns, lsn, "right"), "right"
    ).astype(np.int64)


def crossed_commits(rows: Rows, txns: CommittedTransactions) -> Int64s:
    """LSNs of commits that hand invalidations on without naming any, if rows of changes cross one of them.

    What a subtransaction invalidated before it was rolled back is in no commit record, but the server keeps it with the
    toplevel transaction, and hands it on at the commit. The index learns of it too late to end its rows there.

    Args:
        rows: the index.
        txns: its committed transactions.
    """
    nothing = np.empty(0, np.int64)
    if not len(rows.invals):
        return nothing
    toplevel = toplevel_of(rows)(rows.invals.xid)
    order = stable_order(txns.xid)
    givers = np.unique(lookup(txns.xid[order], order, toplevel))
    commits = txns.commit_lsn[givers[givers >= 0]]
    cuts = commits[rows.ends.invals[np.searchsorted(rows.ends.lsn, commits)] == 0]
    if not len(cuts):
        return nothing
    before = np.searchsorted(cuts, rows.changes.first, "right")
    return cuts if (before < np.searchsorted(cuts, rows.changes.last, "left")).any() else nothing


@dataclass(frozen=True)
class ForgetPlaces:
    """Finds where schemas are forgotten, from the invalidation records of an index.

    Attributes:
        rows: the index.
        txns: its committed transactions.
        decoded: bool[t] transactions that the server decodes, even if nothing is output of them.
        unit_of: int64[t] the unit of each transaction, -1 if it is not output.
        unit_lsn: int64[u] ascending: where each unit was triggered (its commit record).
    """

    rows: Rows
    txns: CommittedTransactions
    decoded: NDArray[np.bool_]
    unit_of: Int64s
    unit_lsn: Int64s

    def forgets(self, forgotten: Callable[[InvalidationTable], set[Subject]]) -> Iterator[Forget]:
        """All places, in no order.

        Args:
            forgotten: what the messages of one record concern.
        """
        invals = self.rows.invals
        toplevel, member = self._toplevel, self._member
        received: dict[int, set[Subject]] = {}
        starts = np.flatnonzero(np.diff(invals.lsn, prepend=-1)).tolist()
        for i, stop in pairwise([*starts, len(invals)]):
            lsn = int(invals.lsn[i])
            subjects = forgotten(invals.take(slice(i, stop)))
            if invals.xid[i] == 0:
                yield from _all(self._unit_after(lsn), AT_START, subjects)
            elif toplevel[i] >= 0:
                received.setdefault(int(toplevel[i]), set()).update(subjects)
                if member[i] >= 0 and self.unit_of[member[i]] >= 0:
                    yield from _all(int(self.unit_of[member[i]]), lsn, subjects)
        yield from self._after_own_commit(received)
        yield from self._distributed(received)

    @cached_property
    def _member(self) -> Int64s:
        """The transaction that each invalidation message's xid committed with, -1 if none."""
        return self.txns.txn_of(self.rows.invals.xid)

    @cached_property
    def _toplevel(self) -> Int64s:
        """The committed transaction whose toplevel xid each invalidation message belongs to, -1 if none."""
        order = stable_order(self.txns.xid)
        return lookup(self.txns.xid[order], order, toplevel_of(self.rows)(self.rows.invals.xid))

    def _unit_after(self, lsn: int) -> int:
        return int(np.searchsorted(self.unit_lsn, lsn, "right"))

    def _after_own_commit(self, received: dict[int, set[Subject]]) -> Iterator[Forget]:
        for txn, subjects in received.items():
            yield from self._after_commit(txn, subjects)

    def _after_commit(self, txn: int, subjects: set[Subject]) -> Iterator[Forget]:
        """After a transaction, which may be one of which nothing is output."""
        if self.unit_of[txn] >= 0:
            return _all(int(self.unit_of[txn]), AT_END, subjects)
        return _all(self._unit_after(int(self.txns.commit_lsn[txn])), AT_START, subjects)

    def _distributed(self, received: dict[int, set[Subject]]) -> Iterator[Forget]:
        """What transactions receive from those that commit while they run (SnapBuildDistributeSnapshotAndInval)."""
        givers = sorted(txn for txn, subjects in received.items() if subjects)
        if not givers:
            return
        commits = self.txns.commit_lsn[np.array(givers, np.int64)]
        running = np.flatnonzero(self.decoded)
        first = np.searchsorted(commits, self.txns.base_lsn[running], "right")
        last = np.searchsorted(commits, self.txns.commit_lsn[running], "left")
        for at in np.flatnonzero(first < last):
            txn = int(running[at])
            for giver in givers[first[at] : last[at]]:
                if self.unit_of[txn] >= 0:
                    lsn = int(self.txns.commit_lsn[giver])
                    yield from _all(int(self.unit_of[txn]), lsn, received[giver])
                yield from self._after_commit(txn, received[giver])


def _all(unit: int, lsn: int, subjects: Iterable[Subject]) -> Iterator[Forget]:
    return (Forget(unit, lsn, relation, memory) for memory, relation in subjects)
