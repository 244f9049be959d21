"""The memory of a schema-sending plugin, window by window, against a plain cache that goes record by record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.base.value_codec import read_value, same, value_bytes
from headwater.catalog.relation import RelationSchema
from headwater.errors import PluginError
from headwater.pg.catcache_hashes import hash_oids
from headwater.reorder.announced_schemas import (
    ANNOUNCED,
    ENTRIES,
    MEMBERS,
    MEMORIES,
    NAMES,
    NOTHING_REMEMBERED,
    RELATIONS,
    ROWS,
    SCHEMAS,
    Announced,
    Entry,
    Given,
    MemberInMind,
    NameInMind,
    RelationInMind,
    RowInMind,
    SchemaInMind,
    SchemaMemory,
    member_subject,
)
from headwater.reorder.announcing.cache_invalidation import CacheInvalidation, least_between
from headwater.reorder.announcing.relation_sync import Touches, sync_rows
from headwater.reorder.commits.invalidation_places import Concerns, find_forgets
from headwater.reorder.commits.replays import Replays, replays_of_commits
from headwater.reorder.commits.transactions import NEVER, CommittedTransactions
from headwater.reorder.plan import RelationUse
from headwater.reorder.slices.changes import Candidates
from headwater.reorder.slices.resolve import Resolved
from headwater.reorder.wanted_changes import Description
from headwater.rmgr.index.index_codes import INSERTS
from unit.reorder.plain_sync import (
    ABORT,
    CHANGE,
    COMMIT,
    DEFINE,
    GIVEN,
    TELL,
    TRUNCATE,
    Event,
    PlainCatalog,
    PlainSync,
    RandomLog,
    Said,
    renewed,
    say,
)
from unit.reorder.sliced import NOTHING_GIVEN

END = 1 << 40


@dataclass
class _Relations:
    """The relations that :func:`sync_rows` asks a resolver for."""

    catalog: PlainCatalog
    txns: Replays
    refuses: bool
    resolutions: list[RelationUse] = field(default_factory=list)

    def view(self, txn: int, lsn: int) -> Any:
        return self.catalog.view(int(self.txns.xid[txn]) if txn >= 0 else 0, lsn)

    def numbered(self, use: RelationUse) -> int:
        if use not in self.resolutions:
            self.resolutions.append(use)
        return self.resolutions.index(use)

    def number(self, txn: int, oid: int, lsn: int) -> int:
        """Return the number of a relation as the change sees it."""
        view = self.view(txn, lsn)
        schema = view.relation(oid)
        try:
            return self.numbered(RelationUse(schema, *_swapped(say(schema, view, self.refuses))))
        except PluginError:
            return self.numbered(RelationUse(schema, 0, is_decided=False))


def _swapped(description: tuple[int, tuple[bytes, ...]]) -> tuple[int, bool, tuple[bytes, ...]]:
    return description[0], False, description[1]


@dataclass
class _Sender:
    """The plugin; notes its warnings."""

    refuses: bool
    warnings: list[str]
    announcements: int
    counts_prepared: bool = False
    publication_names: tuple[str, ...] = GIVEN

    def tracks(self, _schema: RelationSchema) -> bool:
        return True

    def published_as(self, schema: RelationSchema, _messages: Sequence[bytes]) -> int:
        return schema.oid

    def renewed(
        self, schema: RelationSchema, catalog: Any, description: Description, _txn: int, _lsn: int
    ) -> Description:
        assert catalog.relation(schema.oid) == schema
        return description._replace(messages=renewed(schema, description.messages))

    def require_sendable(
        self, schema: RelationSchema, catalog: Any, relations: tuple[int, int], txn: int, lsn: int
    ) -> None:
        raise NotImplementedError

    def loads(self, catalog: Any, _txn: int, lsn: int, warned: frozenset[str]) -> frozenset[str]:
        try:
            missing = [name for name in dict.fromkeys(GIVEN) if catalog.publication(name) is None]
        except PluginError as error:
            error.lsn = lsn
            raise
        self.warnings += [name for name in missing if name not in warned]
        return warned.union(missing)

    def describes(self, schema: RelationSchema, catalog: Any, _txn: int, lsn: int) -> Description:
        try:
            return Description(*say(schema, catalog, self.refuses))
        except PluginError as error:
            error.lsn = lsn
            raise


@dataclass
class Folded:
    """A log, window by window.

    Attributes:
        log: all of it; catalog: of it.
        refuses: a missing publication is an error; passed_over: xids that are not decoded.
        max_messages: with so many handed on to it, a transaction forgets everything.
        is_apart: that a relation was announced is forgotten by itself.
    """

    log: Sequence[Event]
    catalog: PlainCatalog
    refuses: bool
    passed_over: frozenset[int]
    max_messages: int
    is_apart: bool = False
    said: list[Said] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    given: Given = NOTHING_GIVEN

    def fold(self, cuts: Sequence[int]) -> SchemaMemory:
        """Fold all windows; what is remembered goes as bytes from one to the next."""
        memory = value_bytes(NOTHING_REMEMBERED)
        for lo, hi in pairwise([0, *sorted(cuts), END]):
            memory = value_bytes(self._window(lo, hi, read_value(SchemaMemory, memory)))
        return read_value(SchemaMemory, memory)

    def _window(self, lo: int, hi: int, memory: SchemaMemory) -> SchemaMemory:
        commits = [e for e in self.log if e.kind == COMMIT and lo <= e.lsn < hi]
        number = {e.xid: n for n, e in enumerate(commits)}
        steps = [e for e in self.log if e.lsn < hi and (e.xid or e.lsn >= lo)]
        txns = _transactions(commits, self.log)
        decoded = np.array([e.xid not in self.passed_over for e in commits], np.bool_) & (txns.base_lsn != NEVER)
        rows = [(e.xid + 500_000 * e.is_rolled_back, e.lsn, *subject) for e in steps for subject in e.subjects]
        xid, lsn, about, subject = np.array(rows, np.int64).reshape(-1, 4).T.copy()
        concerned = Concerns(xid, lsn, about, subject, message_xid=xid, message_lsn=lsn)
        forgets, handed_on = find_forgets(
            concerned, lambda xids: np.where(xids >= 500_000, xids - 500_000, xids), txns, decoded
        )
        # What no open transaction can have received may go at a window's edge, and makes no difference.
        self.given = self.given.since(_oldest_base(self.log, lo)) | handed_on
        resolver = _Relations(self.catalog, txns, self.refuses)
        ours = [e for e in steps if e.xid in number and decoded[number[e.xid]] and not e.is_rolled_back]
        ours.sort(key=lambda e: (number[e.xid], e.lsn))
        touches = {
            kind: [
                (number[e.xid], e.lsn, oid, resolver.number(number[e.xid], oid, e.lsn))
                for e in ours
                if e.kind == kind
                for oid in e.relations
            ]
            for kind in (CHANGE, TRUNCATE)
        }
        changes, truncates = (np.array(touches[kind], np.int64).reshape(-1, 4).T.copy() for kind in (CHANGE, TRUNCATE))
        count = changes.shape[1]
        sender = _Sender(self.refuses, self.warned, ANNOUNCED if self.is_apart else ENTRIES)
        synced, after = sync_rows(
            Candidates(
                np.arange(count), changes[0], np.zeros(count, np.int32), np.full(count, INSERTS, np.uint8), changes[1]
            ),
            Resolved(changes[3], np.empty((4, 0), np.int64)),
            Touches(truncates[3], truncates[0], truncates[1]),
            resolver,  # type: ignore[arg-type]
            CacheInvalidation(forgets, self.given, txns, decoded, max_messages=self.max_messages),
            sender,
            memory,
            hi,
        )
        taken = np.concatenate([synced.resolved.resolution, synced.others]).tolist()
        sends = np.concatenate([synced.announce.sends, synced.announce_others.sends]).tolist()
        places = [*changes.T.tolist(), *truncates.T.tolist()]
        numbered = [
            (txn, Said(lsn, oid, resolver.resolutions[use].wants, resolver.resolutions[use].messages, sent))
            for (txn, lsn, oid, _), use, sent in zip(places, taken, sends, strict=True)
        ]
        self.said += [entry for _, entry in sorted(numbered, key=lambda pair: (pair[0], pair[1].lsn))]
        return after


def _transactions(commits: Sequence[Event], log: Sequence[Event]) -> Replays:
    xids, lsns = [e.xid for e in commits], [e.lsn for e in commits]
    base: dict[int, int] = {}
    for e in log:
        if e.kind in (CHANGE, TRUNCATE):
            base.setdefault(e.xid, e.lsn)
    defines = {e.xid for e in log if e.subjects}
    bases = [base.get(xid, lsn if xid in defines else NEVER) for xid, lsn in zip(xids, lsns, strict=True)]
    zeros = np.zeros(len(xids), np.int64)
    order = np.argsort(xids)
    names = ("end_lsn", "commit_time", "database", "origin", "origin_lsn", "first_lsn")
    commits_of_log = CommittedTransactions(
        xid=np.array(xids, np.int64),
        commit_lsn=np.array(lsns, np.int64),
        base_lsn=np.array(bases, np.int64),
        **dict.fromkeys(names, zeros),
        changes_catalog=np.array([xid in defines for xid in xids], np.bool_),
        member_xid=np.array(xids, np.int64)[order],
        member_txn=order.astype(np.int64),
    )
    return replays_of_commits(commits_of_log)


def _oldest_base(log: Sequence[Event], hi: int) -> int:
    """Find the oldest base of the transactions that are open at an LSN."""
    ended = {e.xid for e in log if e.kind in (COMMIT, ABORT) and e.lsn < hi}
    return min(
        (e.lsn for e in log if e.kind in (CHANGE, TRUNCATE) and e.lsn < hi and e.xid not in ended), default=NEVER
    )


def in_mind(plain: PlainSync) -> SchemaMemory:
    """Return what a plain cache remembers, as a value."""
    names, rows, relations, members, schemas = (
        sorted(plain.caches[memory].items()) for memory in (NAMES, ROWS, RELATIONS, MEMBERS, SCHEMAS)
    )
    return SchemaMemory(
        entries=tuple(Entry(oid, Description(*entry)) for oid, entry in sorted(plain.entries.items())),
        announced=tuple(Announced(*pair) for pair in sorted(plain.announced.items())),
        loaded=None if plain.loaded is None else tuple(row for _, row in plain.loaded),
        names=tuple(NameInMind(*pair) for pair in names),
        rows=tuple(RowInMind(*pair) for pair in rows),
        relations=tuple(RelationInMind(*pair) for pair in relations),
        members=tuple(MemberInMind(relation, publication, member) for (relation, publication), member in members),
        schemas=tuple(SchemaInMind(*pair) for pair in schemas),
        warned=tuple(sorted(plain.warned)),
        latest=plain.latest,
    )


@settings(max_examples=400)
@given(
    st.integers(0, 1 << 62),
    st.sampled_from([2, 4, 6]),
    st.sampled_from([20, 150]),
    st.sampled_from([False, False, True]),
    st.integers(0, 6),
    st.sampled_from([4, 1000, 1000]),
    st.booleans(),
)
def test_windows_joined_are_what_a_cache_gives(
    seed: int, sessions: int, count: int, refuses: bool, cuts: int, max_messages: int, is_apart: bool
) -> None:
    rng = Random(seed)
    log = list(RandomLog(rng, sessions, is_apart).events(count))
    catalog = PlainCatalog()
    catalog.read(log)
    passed_over = frozenset(e.xid for e in log if e.kind == COMMIT and rng.random() < 0.1)
    plain = PlainSync(catalog, refuses, passed_over, max_messages, is_apart)
    plain.read(log)
    folded = Folded(log, catalog, refuses, passed_over, max_messages, is_apart)
    windows = [rng.choice(log).lsn for _ in range(cuts)]
    if plain.refused is not None:
        with pytest.raises(PluginError) as refused:
            folded.fold(windows)
        assert plain.refused == (refused.value.lsn, refused.value.message)
        assert folded.said == plain.said[: len(folded.said)]
        return
    memory = folded.fold(windows)
    assert folded.said == plain.said
    assert folded.warned == plain.warned
    assert same(memory, in_mind(plain))


def test_what_was_handed_on_before_a_window_is_forgotten_at_the_end_of_a_receiver() -> None:
    """Transaction 1 is open across the cut, and never touches the relation that it has to forget."""
    log = [
        Event(10, DEFINE, 9, key=("publication", 1), value=(True, True, True, True, False)),
        Event(20, DEFINE, 9, key=("members", 101), value=((1, None),)),
        Event(30, COMMIT, 9),
        Event(40, CHANGE, 1, relations=(102,)),
        Event(50, TELL, 2, subjects=((ENTRIES, 101),)),
        Event(60, COMMIT, 2),
        Event(70, CHANGE, 3, relations=(101,)),
        Event(80, COMMIT, 3),
        Event(100, COMMIT, 1),
        Event(110, CHANGE, 4, relations=(101,)),
        Event(120, COMMIT, 4),
    ]
    catalog = PlainCatalog()
    catalog.read(log)
    for cuts in ((), (90,)):
        folded = Folded(log, catalog, False, frozenset(), 1000)
        folded.fold(cuts)
        assert [(entry.lsn, entry.is_announced) for entry in folded.said] == [(70, True), (40, False), (110, True)]


@pytest.mark.parametrize("cuts", [(), (115,)])
def test_a_member_of_a_later_time_is_found_by_its_key(cuts: Sequence[int]) -> None:
    """All but what publication 1 says of relation 101 is read again before the change of transaction 1."""
    everything_else = tuple((memory, 0) for memory in MEMORIES if memory != MEMBERS)
    member = ((ENTRIES, 0), (RELATIONS, 0), (MEMBERS, member_subject(hash_oids(101, 1))))
    log = [
        Event(10, DEFINE, 9, key=("publication", 1), value=(True, True, True, True, False)),
        Event(20, DEFINE, 9, key=("schema", 11), value=(1,)),
        Event(30, COMMIT, 9),
        Event(40, CHANGE, 1, relations=(102,)),
        Event(50, TELL, 2, subjects=everything_else),
        Event(60, COMMIT, 2),
        Event(70, CHANGE, 1, relations=(101,)),
        Event(80, DEFINE, 3, key=("members", 101), value=((1, (2, 1)),), subjects=member),
        Event(90, COMMIT, 3),
        Event(100, CHANGE, 4, relations=(101,)),
        Event(110, COMMIT, 4),
        Event(120, COMMIT, 1),
    ]
    catalog = PlainCatalog()
    catalog.read(log)
    plain = PlainSync(catalog, False, frozenset(), 1000)
    plain.read(log)
    folded = Folded(log, catalog, False, frozenset(), 1000)
    memory = folded.fold(cuts)
    assert folded.said == plain.said
    assert same(memory, in_mind(plain))
    assert {entry.lsn: b"(2, 1)" in entry.messages[0] for entry in folded.said} == {100: True, 40: False, 70: True}


@given(st.lists(st.integers(0, 50), min_size=1), st.data())
def test_least_between(values: list[int], data: st.DataObject) -> None:
    bounds = data.draw(st.lists(st.tuples(st.integers(0, len(values)), st.integers(0, len(values)))))
    low, high = np.array(bounds, np.int64).reshape(-1, 2).T
    expected = [min(values[a:b], default=NEVER) for a, b in bounds]
    assert least_between(np.array(values, np.int64), low, high).tolist() == expected
