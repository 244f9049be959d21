"""Streamed blocks: the kernel against its plain twin, in few passes, wherever windows are cut."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.base.value_codec import same
from headwater.pg.version import VERSIONS
from headwater.reorder.commits.accounting import StreamRules, account
from headwater.reorder.commits.stream_rules import EVERY, NOTHING_QUEUED, Accounting, Blocks, Running, Streams
from headwater.rmgr.index.wal_index import Request, joined_stretches
from headwater.wal.records.frames import Frames
from unit.reorder.plain_accounting import MAJOR, PlainBuffer
from unit.reorder.random_sessions import random_records
from unit.reorder.sliced import first_index, part
from unit.rmgr import plain_records as plain

NO_RUNNING = Running(np.empty(0, np.int64), np.empty(0, np.int64))
WHOLE = ((0, 1 << 62),)


def window(made: Frames, before: Accounting, lo: int, hi: int, parts: int, grid: int, rules: StreamRules) -> Streams:
    """Account for one window, indexed as often as is asked for, three times at most."""
    frames = part(made, lo, hi)
    detailed: tuple[tuple[int, int], ...] = ()
    for _ in range(3):
        rows = first_index(frames, parts, Request((plain.DATABASE,), (), MAJOR, grid, detailed=detailed)).rows
        streams = account(before, rows, NO_RUNNING, lo, hi, grid, detailed, rules)
        if not streams.lacking:
            return streams
        detailed = joined_stretches((*detailed, *streams.lacking))
    raise AssertionError("it is still not known")


def listed(blocks: Blocks) -> list[tuple[object, ...]]:
    columns = (blocks.xid, blocks.place, blocks.lo, blocks.lo_taken, blocks.hi, blocks.hi_taken)
    rest = (blocks.is_first, blocks.is_last, blocks.first, blocks.last, blocks.origin)
    each = zip(*(column.tolist() for column in (*columns, *rest)), strict=True)
    return [(xid, place, (lo, a), (hi, b), *rest) for xid, place, lo, a, hi, b, *rest in each]


def rules_of(limit: int, immediate: bool) -> StreamRules:
    return StreamRules(limit, immediate, VERSIONS[MAJOR], plain.DATABASE, 0)


@settings(deadline=None, max_examples=300)
@example(3451262, 5, 4, 1, 256, 130, False).via("a message ends where the change of another subtransaction begins")
@given(
    st.integers(0, 1 << 62),
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(1, 3),
    st.sampled_from([256, 1024, 1 << 22]),
    st.sampled_from([130, 700, 2000, 6000]),
    st.booleans(),
)
def test_blocks_are_those_of_the_plain_twin(
    seed: int, sessions: int, transactions: int, parts: int, grid: int, limit: int, immediate: bool
) -> None:
    rng = Random(seed)
    records = random_records(rng, sessions, transactions)
    made = plain.frames(records[: rng.randrange(1, len(records) + 1)])
    lo, hi = int(made.lsns[0]), int(made.end_lsns[-1])
    rules = rules_of(limit, immediate)
    twin = PlainBuffer(limit, immediate)
    twin.read(made)
    streams = window(made, NOTHING_QUEUED, lo, hi, parts, grid, rules)
    assert listed(streams.blocks) == twin.blocks
    assert dict(zip(streams.sub_xid.tolist(), streams.sub_since.tolist(), strict=True)) == twin.marked
    open_sizes = dict(zip(streams.accounting.xid.tolist(), streams.accounting.size.tolist(), strict=True))
    assert open_sizes == {xid: txn.size for xid, txn in twin.by_xid.items()}


@settings(deadline=None, max_examples=150)
@given(
    st.integers(0, 1 << 62),
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from([256, 4096]),
    st.sampled_from([130, 2000]),
    st.booleans(),
)
def test_windows_may_be_cut_anywhere(
    seed: int, sessions: int, transactions: int, cuts: int, grid: int, limit: int, immediate: bool
) -> None:
    rng = Random(seed)
    made = plain.frames(random_records(rng, sessions, transactions))
    lo, hi = int(made.lsns[0]), int(made.end_lsns[-1])
    rules = rules_of(limit, immediate)
    whole = window(made, NOTHING_QUEUED, lo, hi, 1, grid, rules)
    inside = sorted({rng.choice(made.lsns.tolist()) for _ in range(cuts)} - {lo})
    blocks, before = [], NOTHING_QUEUED
    for low, high in pairwise([lo, *inside, hi]):
        streams = window(made, before, low, high, 1, grid, rules)
        blocks += listed(streams.blocks)
        before = streams.accounting
    assert blocks == listed(whole.blocks)
    assert same(before, whole.accounting)


def test_one_huge_transaction_is_detailed_where_it_reaches_the_limit() -> None:
    made = plain.frames([plain.insert(700, 20000, body=bytes(60)) for _ in range(4000)])
    lo, hi, grid, limit = int(made.lsns[0]), int(made.end_lsns[-1]), 8192, 200_000
    rows = first_index(made, 1, Request((plain.DATABASE,), (), MAJOR, grid)).rows
    lacking = account(NOTHING_QUEUED, rows, NO_RUNNING, lo, hi, grid, (), rules_of(limit, False)).lacking
    rows = first_index(made, 1, Request((plain.DATABASE,), (), MAJOR, grid, detailed=lacking)).rows
    streams = account(NOTHING_QUEUED, rows, NO_RUNNING, lo, hi, grid, lacking, rules_of(limit, False))
    assert not streams.lacking
    memory = 80 + 24 + 23 + 61
    per_block = -(-limit // memory)
    ends = made.lsns[per_block - 1 :: per_block].tolist()
    assert list(zip(streams.blocks.hi.tolist(), streams.blocks.hi_taken.tolist(), strict=True)) == [
        (lsn, EVERY) for lsn in ends
    ]
    assert sum(high - low for low, high in lacking) < 2 * grid * len(ends)
    assert len(rows.changes) < 1200


def test_changes_that_wait_in_a_new_session_are_not_streamed_before_it_begins() -> None:
    made = plain.frames([plain.insert(700, 20000) for _ in range(20)])
    lsns = made.lsns.tolist()
    rules = StreamRules(600, False, VERSIONS[MAJOR], plain.DATABASE, lsns[10])
    streams = window(made, NOTHING_QUEUED, lsns[0], int(made.end_lsns[-1]), 1, 1 << 22, rules)
    # What was spilled makes it go out with the next change.
    assert streams.blocks.place.tolist()[0] == lsns[10]
    assert streams.blocks.is_first.tolist()[0]
