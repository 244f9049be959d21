"""Index, transactions, plan and collector against a plain reorder buffer, however the output is cut."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.errors import DecodingError
from headwater.reorder.announced_schemas import LastOutput
from headwater.reorder.plan import Ranges, Slice
from headwater.reorder.slices.cutting import READ_GAP, cut_slices, cut_together
from headwater.reorder.unit_flags import BARE, ENDS_HERE, WROTE_BEFORE
from headwater.rmgr.index.wal_index import GRID, Request, joined_stretches
from headwater.rows.items import TOAST
from headwater.wal.records.frames import Frames
from unit.reorder.plain_reorder import PlainRelation, PlainReorder
from unit.reorder.random_sessions import TABLES, UNKNOWN, random_records
from unit.reorder.sliced import MAJOR, Sliced, collected, index_parts, part
from unit.rmgr import plain_records as plain

OWNERS = {toast: table for table, toast in TABLES.items() if toast}


class Relations:
    """Every file's relation; with ``changing``, which changes are wanted depends on what committed before."""

    def __init__(self, seed: int, changing: bool) -> None:
        self.seed, self.changing = seed, changing
        self.numbers: dict[tuple[int, int, int], int] = {}

    def __call__(self, file: int, committed: int, own: int) -> PlainRelation | None:
        if file == UNKNOWN:
            return None
        is_toast = file in OWNERS
        key = (file, committed, own) if self.changing and not is_toast else (file, 0, 0)
        wants = Random(hash((*key, self.seed))).choice((31, 31, 0, 1, 2, 30, 5)) if self.changing else 31
        number = self.numbers.setdefault(key, len(self.numbers))
        return PlainRelation(number, 0 if is_toast else wants, file, file if is_toast else TABLES[file], is_toast)


@settings(deadline=None, max_examples=250)
@given(
    st.integers(0, 1 << 62),
    st.integers(1, 5),
    st.integers(1, 6),
    st.booleans(),
    st.frozensets(st.sampled_from([0, 1, 2])),
    st.booleans(),
    st.sampled_from([1, 40, 200, 1000, 10**9]),
    st.sampled_from([64, 512, 4096, GRID]),
    st.sampled_from([0, 0, 8, 1 << 16, 1 << 21]),
    st.integers(1, 4),
    st.integers(0, 4),
)
@example(173, 1, 4, False, frozenset(), False, 200, 64, 0, 1, 0)  # a message after a transaction that is cut
def test_slices_joined_are_what_a_reorder_buffer_gives(
    seed: int,
    sessions: int,
    transactions: int,
    changing: bool,
    left_out: frozenset[int],
    sends_schema: bool,
    target: int,
    grid: int,
    step: int,
    parts: int,
    cuts: int,
) -> None:
    rng = Random(seed)
    made = plain.frames(random_records(rng, sessions, transactions), step=step)
    resolve = Relations(seed, changing)
    twin = PlainReorder(resolve, left_out, sends_schema)
    twin.read(made)
    index = index_parts(made, parts, Request((plain.DATABASE,), (), MAJOR, grid))
    windows = [rng.choice(made.lsns.tolist()) for _ in range(cuts)]
    units = Sliced(made, index, resolve, left_out, sends_schema, windows).units(target)
    assert [(u.xid, u.first_lsn, u.commit_lsn) for u in twin.units] == [
        (u.xid, u.first_lsn, u.commit_lsn) for u in units
    ]
    for expected, actual in zip(twin.units, units, strict=True):
        assert expected.items == actual.items


@pytest.mark.parametrize("target", [1, 10**9])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_unit_knows_what_was_output_before_it(seed: int, target: int) -> None:
    made = plain.frames(random_records(Random(seed), 3, 6), step=8)
    index = index_parts(made, 1, Request((plain.DATABASE,), (), MAJOR, 512))
    before = LastOutput(5, -7)
    plan = replace(Sliced(made, index, Relations(seed, False), frozenset(), False).plan(), before=before)
    known = dict[int, tuple[int, int]]()
    for piece in cut_slices(plan, target):
        places = zip(
            piece.units.end_lsn.tolist(), piece.units.last_end.tolist(), piece.units.last_time.tolist(), strict=True
        )
        known |= {end: (last_end, last_time) for end, last_end, last_time in places}
    last = before
    for end, time, is_bare in zip(plan.units.end_lsn, plan.units.commit_time, plan.units.is_bare, strict=True):
        assert known[end] == last
        last = LastOutput(end, last.time if is_bare else time)
    assert plan.last == last


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 1 << 62),
    st.integers(1, 4),
    st.integers(2, 6),
    st.sampled_from([1, 40, 200, 1000]),
    st.sampled_from([64, 512, 4096]),
    st.booleans(),
    st.booleans(),
)
def test_messages_are_where_the_transaction_before_them_is(
    seed: int, sessions: int, transactions: int, target: int, grid: int, cuts: bool, follows_many: bool
) -> None:
    made = plain.frames(random_records(Random(seed), sessions, transactions))
    index = index_parts(made, 2, Request((plain.DATABASE,), (), MAJOR, grid))
    plan = Sliced(made, index, Relations(seed, False), frozenset(), False).plan()
    plan = replace(plan, cuts_transactions=cuts, leads_messages=True, follows_many=follows_many)
    slices = cut_slices(plan, target)
    assert [*plan.units.end_lsn] == [
        end for piece in slices for end in piece.units.end_lsn[piece.units.flags & ENDS_HERE != 0]
    ]
    parts = Counter(int(end) for piece in slices for end in piece.units.end_lsn)
    assert cuts or set(parts.values()) <= {1}
    wanted = Counter(plan.rows.unit[plan.rows.wanted].tolist())
    by_end = {int(end): unit for unit, end in enumerate(plan.units.end_lsn)}
    for before, piece in zip([None, *slices], slices, strict=False):
        is_bare = piece.units.flags & BARE != 0
        led = int(np.argmin(np.append(is_bare, False)))
        assert not (piece.units.flags[led:][is_bare[led:]] & WROTE_BEFORE).any()
        if led == 0:
            continue
        follows_cut = before is not None and parts[int(before.units.end_lsn[-1])] > 1
        assert before is None or follows_cut
        assert (piece.units.flags[:led] & WROTE_BEFORE != 0).all() == (follows_many if before is None else follows_cut)
        assert before is None or wanted[by_end[int(before.units.end_lsn[-1])]] > 1


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 1 << 62),
    st.integers(1, 5),
    st.integers(2, 8),
    st.lists(st.tuples(st.integers(0, 3), st.frozensets(st.sampled_from([0, 1]))), min_size=2, max_size=4),
    st.sampled_from([1, 40, 200, 1000, 10**9]),
    st.sampled_from([64, 512, 4096, GRID]),
    st.sampled_from([0, 8, 1 << 16, 1 << 21]),
)
def test_slices_of_several_outputs_are_read_together(
    seed: int,
    sessions: int,
    transactions: int,
    outputs: list[tuple[int, frozenset[int]]],
    target: int,
    grid: int,
    step: int,
) -> None:
    """Each output has what it has alone, and a group one slice of each at most; of outputs alike all are together."""
    made = plain.frames(random_records(Random(seed), sessions, transactions), step=step)
    index = index_parts(made, 2, Request((plain.DATABASE,), (), MAJOR, grid))
    resolves = [Relations(seed + shift, True) for shift, _ in outputs]
    sliced = [Sliced(made, index, own, out, False) for own, (_, out) in zip(resolves, outputs, strict=True)]
    groups = cut_together([single.plan() for single in sliced], target)
    own: list[list[tuple[Slice, Ranges]]] = [[] for _ in outputs]
    for group in groups:
        numbers = [number for number, _ in group]
        assert len(set(numbers)) == len(numbers)
        for twin, other in combinations(range(len(outputs)), 2):
            assert outputs[twin] != outputs[other] or (twin in numbers) == (other in numbers)
        read = joined_stretches(bounds for _, slice_ in group for bounds in slice_.ranges)
        for number, slice_ in group:
            own[number].append((slice_, read))
    for output, slices, resolve, (_, left_out) in zip(sliced, own, resolves, outputs, strict=True):
        twin_of = PlainReorder(resolve, left_out, False)
        twin_of.read(made)
        assert [part.number for part, _ in slices] == list(range(len(slices)))
        assert [unit.items for unit in output.units_of(slices)] == [unit.items for unit in twin_of.units]


def test_a_stretch_that_begins_inside_a_value_that_nobody_wants() -> None:
    """Of one transaction's value some chunks are not read: they serve an insert, and only updates are published."""
    far = plain.record(11, 0, 702, bytes(2 * READ_GAP))
    records = [
        plain.insert(700, 20002),
        far,
        plain.insert(700, 20001, body=b"first", flags=0x18),
        far,
        plain.insert(701, 20001, body=b"wanted", flags=0x18),
        plain.insert(700, 20001, body=b"second", flags=0x18),
        plain.update(701, 20000),
        plain.insert(700, 20000),
        plain.commit(701),
        plain.commit(700),
    ]

    def resolve(file: int, _committed: int, _own: int) -> PlainRelation:
        is_toast = file in OWNERS
        wants = 0 if is_toast else 2 if file == 20000 else 31
        return PlainRelation(file, wants, file, file if is_toast else TABLES[file], is_toast)

    made = plain.frames(records)
    sliced = Sliced(made, index_parts(made, 1, Request((plain.DATABASE,), (), MAJOR)), resolve, frozenset(), False)
    (slice_,) = cut_slices(sliced.plan(), 10**9)
    assert [low for low, _ in slice_.ranges] == [made.lsns[0], made.lsns[4]]
    changes = collected(slice_, [part(made, *bounds) for bounds in slice_.ranges])
    chunks = changes.items.kind == TOAST
    assert changes.items.xid[chunks].tolist() == [701]
    assert changes.items.xid[~chunks].tolist() == [701, 700]


@pytest.mark.parametrize(
    "records",
    [
        [plain.record(11, 0, 700, b"btree")],
        [plain.commit(700)],
        [plain.insert(700, 20000)],
        [plain.message(0, b"bare", transactional=False)],
        [plain.insert(700, UNKNOWN), plain.commit(700)],
        [plain.insert(700, 20001, flags=0x18), plain.commit(700)],
        [plain.message(700, b"only"), plain.commit(700)],
    ],
    ids=["nothing", "a commit", "never committed", "a bare message", "unknown", "chunks only", "a message only"],
)
def test_windows_with_next_to_nothing(records: list[bytes]) -> None:
    made = plain.frames(records)
    resolve = Relations(0, False)
    twin = PlainReorder(resolve, frozenset(), True)
    twin.read(made)
    units = Sliced(made, index_parts(made, 1, Request((plain.DATABASE,), (), MAJOR)), resolve, frozenset(), True).units(
        1
    )
    assert [u.items for u in twin.units] == [u.items for u in units]


def test_a_transaction_of_messages_is_cut_between_them() -> None:
    records = [plain.message(700, bytes([65 + i]) * 100) for i in range(20)]
    made = plain.frames([*records, plain.commit(700)])
    sliced = Sliced(
        made, index_parts(made, 1, Request((plain.DATABASE,), (), MAJOR)), Relations(0, False), frozenset(), True
    )
    slices = cut_slices(sliced.plan(), 500)
    assert max(len(slice_.events.place) for slice_ in slices) <= 5
    assert [bytes([65 + i]) * 100 for i in range(20)] == [item.new for item in sliced.units(500)[0].items]


def test_a_message_that_is_not_where_it_was_planned() -> None:
    made = plain.frames([plain.insert(700, 20000), plain.message(700, b"there"), plain.commit(700)])
    sliced = Sliced(
        made, index_parts(made, 1, Request((plain.DATABASE,), (), MAJOR)), Relations(0, False), frozenset(), True
    )
    (slice_,) = cut_slices(sliced.plan(), 10**9)
    without = Frames(made.data, made.positions[[0, 2]], made.lsns[[0, 2]], made.end_lsns[[0, 2]], None)
    with pytest.raises(DecodingError, match="logical message is not in the WAL") as raised:
        collected(slice_, [without])
    assert raised.value.lsn == made.lsns[1]
