"""Announcers of a relation where transactions are streamed, and row filters decide what is sent.

Against a plain cache that goes change by change, as the server's does (schema_sent and streamed_txns of
RelationSyncEntry).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.pipeline.slices.tentative_messages import Settlement
from headwater.reorder.announced_schemas import Announced, SchemaMemory, StreamedAnnouncement
from headwater.reorder.announcing.announcing import (
    AnnouncedBy,
    Announcers,
    Known,
    Touched,
    announced_by,
    announcement_numbers,
    announcers,
)
from headwater.reorder.commits.replays import STREAM_ABORTS, STREAM_COMMITS, STREAM_PREPARES, STREAMS, WHOLE
from headwater.rows.items import COUNTED, GIVEN, HELD


def column(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# Replays: 0 a block of A, 1 a commit of another, 2 a block of B, 3 A commits, 4 and 5 commits of others.
WHO = Announcers(
    of=column(1, 0, 2, 0, 0, 0),
    top=column(0, 700, 800),
    ends=column(6, 3, 6),
    is_open=np.array([False, False, True]),
    tops=column(700, 800),
    first=column(1, 2),
)
NOTHING_KNOWN = Known(column(), column(), column())


def touched(txn: np.ndarray, *uncertain: int) -> Touched:
    """Make touches of stretch 7, with numbers from 10 on."""
    at = np.arange(len(txn))
    return Touched(np.full(len(txn), 7), txn, ~np.isin(at, uncertain), at + 10)


def test_each_streamed_transaction_announces_for_itself() -> None:
    result = announced_by(touched(column(0, 1, 2, 4)), WHO, NOTHING_KNOWN)
    assert result.sends.tolist() == [True, True, True, False]
    assert result.own.tolist() == [[7, 7], [1, 2]]
    assert (result.common.tolist(), result.by.tolist()) == ([7], [1])


def test_what_a_streamed_one_announced_counts_once_it_has_committed() -> None:
    result = announced_by(touched(column(0, 4, 5)), WHO, NOTHING_KNOWN)
    assert result.sends.tolist() == [True, False, False]
    assert (result.common.tolist(), result.by.tolist()) == ([7], [0])


def test_what_was_known_is_not_announced_again() -> None:
    result = announced_by(touched(column(2, 4)), WHO, Known(column(7, 7), column(0, 2), column(0, 0)))
    assert result.sends.tolist() == [False, False]
    assert result.own.tolist() == [[7], [2]]
    assert result.own_by.tolist() == [-1]


def test_what_a_streamed_one_may_have_announced_may_count() -> None:
    """Nobody has announced it before A commits: then the others go by the number of A's."""
    result = announced_by(touched(column(0, 4, 5), 0, 1, 2), WHO, NOTHING_KNOWN)
    assert not result.sends.any()
    assert result.tentative.tolist() == [10, 10, 10]
    assert (result.by.tolist(), result.number.tolist()) == ([0], [10])
    assert result.counted.shape == (3, 0)


def test_numbers_of_several_come_to_be_one() -> None:
    """Another may have announced it already: what A has counts as that once it commits."""
    result = announced_by(touched(column(0, 1, 4, 5), 0, 1, 2), WHO, NOTHING_KNOWN)
    assert not result.sends.any()
    assert result.tentative.tolist() == [10, 11, 11, 11]
    assert result.counted.tolist() == [[3], [10], [11]]
    assert result.number.tolist() == [0]


class Change(NamedTuple):
    """A touch: of which stretch, whether it gives a message, and whether that was certain; and its place."""

    stretch: int
    gives: bool
    is_certain: bool
    lsn: int


@dataclass(frozen=True)
class Step:
    """A replay; top: toplevel xid, 0 of one that is not streamed."""

    kind: int
    xid: int
    top: int
    changes: tuple[Change, ...]


def random_steps(rng: Random, count: int) -> Iterator[Step]:
    """Give replays of some transactions side by side; now and then it is forgotten that a relation was announced."""
    epochs, lsn, open_ones, xid = [0, 0], 100, list[int](), 1000
    certainty = rng.choice((0, 0.1, 0.5))
    for _ in range(count):
        changes = []
        for _ in range(rng.randrange(4)):
            relation, lsn = rng.randrange(2), lsn + 1
            epochs[relation] += rng.random() < 0.1
            is_certain = rng.random() < certainty
            changes.append(Change(100 * epochs[relation] + relation, is_certain or rng.random() < 0.3, is_certain, lsn))
        if rng.random() < 0.3:
            open_ones.append(xid := xid + 1)
        if not open_ones or rng.random() < 0.3:
            yield Step(WHOLE, xid := xid + 1, 0, tuple(changes))
            continue
        top = rng.choice(open_ones)
        if rng.random() < 0.6:
            yield Step(STREAMS, top, top, tuple(changes))
        elif rng.random() < 0.2:
            yield Step(STREAM_ABORTS, top + 500_000, top, ())
        else:
            open_ones.remove(top)
            yield Step(rng.choice((STREAM_COMMITS, STREAM_COMMITS, STREAM_ABORTS, STREAM_PREPARES)), top, top, ())


def announced_plainly(steps: Sequence[Step], counts_prepared: bool) -> list[int]:
    """List the LSNs of the changes before which the schema goes."""
    sent, streamed, lsns = set[int](), dict[int, set[int]](), list[int]()
    for step in steps:
        for change in step.changes:
            known = streamed.setdefault(step.top, set()) if step.top else sent
            if change.gives and change.stretch not in known:
                known.add(change.stretch)
                lsns.append(change.lsn)
        if step.kind >= STREAM_COMMITS:
            announced = streamed.pop(step.top, set())
            counts = step.kind == STREAM_COMMITS or (step.kind == STREAM_PREPARES and counts_prepared)
            sent |= announced if counts else set()
    return lsns


@dataclass(frozen=True)
class _Blocks:
    lo: np.ndarray
    lo_taken: np.ndarray


@dataclass(frozen=True)
class _Streamed:
    """The part of streamed replays that is asked for; nothing lies in two blocks."""

    block: np.ndarray
    top: np.ndarray

    @property
    def blocks(self) -> _Blocks:
        nothing = np.zeros(len(self.block), np.int64)
        return _Blocks(nothing, nothing)


@dataclass(frozen=True)
class _Replays:
    """The part of replays that is asked for."""

    kind: np.ndarray
    xid: np.ndarray
    streamed: _Streamed

    @classmethod
    def of(cls, steps: Sequence[Step]) -> _Replays:
        kind, xid, top = np.array([(step.kind, step.xid, step.top) for step in steps], np.int64).reshape(-1, 3).T.copy()
        is_block = kind == STREAMS
        return cls(kind, xid, _Streamed(np.where(is_block, np.cumsum(is_block) - 1, -1), top))


@dataclass
class Windows:
    """Steps, window by window.

    Attributes:
        counts_prepared: see :func:`announcers`.
        known: stretch, toplevel xid and number of what was announced, 0 for all that is not streamed.
        said: LSNs of the changes before which the schema goes.
    """

    counts_prepared: bool
    known: list[tuple[int, int, int]] = field(default_factory=list)
    said: list[int] = field(default_factory=list)
    _settlement: Settlement = field(default_factory=Settlement)

    def window(self, steps: Sequence[Step]) -> None:
        txns = _Replays.of(steps)
        stretch, xid, number = np.array(self.known, np.int64).reshape(-1, 3).T.copy()
        who = announcers(txns, xid[xid > 0], self.counts_prepared)  # type: ignore[arg-type]
        announcer = np.where(xid > 0, who.known(xid), 0)
        changes = [(txn, change) for txn, step in enumerate(steps) for change in step.changes]
        txn = np.array([txn for txn, _ in changes], np.int64)
        lsn = np.array([change.lsn for _, change in changes], np.int64)
        numbers = announcement_numbers(txns, txn, lsn)  # type: ignore[arg-type]
        is_certain = np.array([change.is_certain for _, change in changes], np.bool_)
        of = Touched(np.array([change.stretch for _, change in changes], np.int64), txn, is_certain, numbers)
        result = announced_by(of, who, Known(stretch, announcer, number))
        self._settle(changes, result)
        common = zip(result.common.tolist(), result.number.tolist(), strict=True)
        own = zip(*result.own.tolist(), result.own_number.tolist(), strict=True)
        self.known = sorted(
            [(stretch, 0, number) for stretch, number in common]
            + [(stretch, int(who.top[by]), number) for stretch, by, number in own if who.is_open[by]]
        )

    def let_it_turn_out(self) -> None:
        """Go on from what has turned out."""
        memory = SchemaMemory(
            announced=tuple(Announced(stretch, 0, number) for stretch, xid, number in self.known if not xid),
            streamed=tuple(StreamedAnnouncement(xid, stretch, 0, number) for stretch, xid, number in self.known if xid),
        )
        memory = self._settlement.end_window(memory, 1 << 40)
        self.known = sorted(
            [(it.relation, 0, it.number) for it in memory.announced]
            + [(it.relation, it.xid, it.number) for it in memory.streamed]
        )

    @property
    def is_without_numbers(self) -> bool:
        """Whether all that is known is so for sure, and nothing else is."""
        return self._settlement == Settlement() and not any(number for _, _, number in self.known)

    def _settle(self, changes: list[tuple[int, Change]], result: AnnouncedBy) -> None:
        """Ask change by change whether the schema goes before it; commits come before what follows them."""
        counted = sorted(result.counted.T.tolist())
        touches = zip(changes, result.sends.tolist(), result.tentative.tolist(), strict=True)
        for (txn, change), sends, number in touches:
            while counted and counted[0][0] < txn:
                self._settlement.goes_out(COUNTED, *counted.pop(0)[1:])
            kind = GIVEN if number == change.lsn else HELD
            if change.gives and (sends or (number and self._settlement.goes_out(kind, number, 0))):
                self.said.append(change.lsn)
        for _, number, counts_as in counted:
            self._settlement.goes_out(COUNTED, number, counts_as)


@settings(max_examples=300)
@given(st.integers(0, 1 << 62), st.sampled_from([5, 20, 80]), st.lists(st.integers(0, 80), max_size=4), st.booleans())
def test_windows_joined_are_what_a_cache_gives(seed: int, count: int, cuts: list[int], counts_prepared: bool) -> None:
    steps = list(random_steps(Random(seed), count))
    whole, cut = Windows(counts_prepared), Windows(counts_prepared)
    whole.window(steps)
    for low, high in pairwise([0, *sorted(min(at, count) for at in cuts), count]):
        cut.window(steps[low:high])
    assert whole.said == cut.said == announced_plainly(steps, counts_prepared)
    assert whole.known == cut.known


@settings(max_examples=300)
@given(st.integers(0, 1 << 62), st.sampled_from([5, 20, 80]), st.lists(st.integers(0, 80), max_size=4), st.booleans())
def test_what_has_turned_out_in_a_window_is_remembered_as_it_is(
    seed: int, count: int, cuts: list[int], counts_prepared: bool
) -> None:
    """Nothing else of what was given needs to be known then: memories of sessions become equal."""
    steps = list(random_steps(Random(seed), count))
    cut = Windows(counts_prepared)
    for low, high in pairwise([0, *sorted(min(at, count) for at in cuts), count]):
        cut.window(steps[low:high])
        cut.let_it_turn_out()
        assert cut.is_without_numbers
    assert cut.said == announced_plainly(steps, counts_prepared)
