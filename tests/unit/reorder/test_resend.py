"""Invalidation messages: what each is about; and what commits hand on."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.value_codec import read_value, same, value_bytes
from headwater.reorder.announced_schemas import NOTHING_REMEMBERED, Given, SchemaMemory, Subject
from headwater.reorder.commits.invalidation_places import Message, concerns
from headwater.rmgr.index.index_rows import InvalidationTable

DATABASE = 5
HEEDED = {-2, -1, 3, 7}

message = st.tuples(
    st.integers(0, 3),
    st.integers(1, 9),
    st.sampled_from([-6, -3, -2, -1, 0, 3, 7, 100]),
    st.sampled_from([0, DATABASE, 6]),
    st.sampled_from([0, 1, 16400, 0x80000000, 0xFFFFFFFF]),
)


def forgets(about: Message) -> list[Subject]:
    """Return nothing, or one thing, or two, or the same twice."""
    return [(about.id & 3, about.value), (1, about.value & 1), (1, about.value & 1)][: (about.value + about.id) % 4]


@given(st.lists(message))
def test_what_messages_are_about(messages: list[tuple[int, int, int, int, int]]) -> None:
    messages.sort(key=lambda row: row[1])
    columns = np.array(messages, np.int64).reshape(-1, 5).T
    kinds = (np.int64, np.int64, np.int8, np.uint32, np.uint32)
    table = InvalidationTable(*(column.astype(kind) for column, kind in zip(columns, kinds, strict=True)))
    asked: list[Message] = []

    def ask(about: Message) -> list[Subject]:
        asked.append(about)
        return forgets(about)

    concerned = concerns(table, DATABASE, HEEDED, ask)
    ours = [row for row in messages if row[2] in HEEDED and row[3] in (0, DATABASE)]
    expected = [(xid, lsn, *s) for xid, lsn, kind, _, value in ours for s in set(forgets(Message(kind, value)))]
    actual = zip(
        concerned.xid.tolist(),
        concerned.lsn.tolist(),
        concerned.memory.tolist(),
        concerned.subject.tolist(),
        strict=True,
    )
    assert sorted(expected) == sorted(actual)
    assert concerned.lsn.tolist() == sorted(concerned.lsn.tolist())
    assert concerned.message_xid.tolist() == [row[0] for row in messages]
    assert sorted(asked) == sorted({Message(kind, value) for _, _, kind, _, value in ours})


HandedOn = tuple[int, int, int]
handed_on = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 3)))


def make(rows: list[HandedOn]) -> Given:
    """Have each commit hand on as many messages as its LSN says, and one more."""
    commits = sorted({row[0] for row in rows})
    counts = np.array([commits, [commit + 1 for commit in commits]], np.int64).reshape(2, -1)
    return Given.of(np.array(rows, np.int64).reshape(-1, 3).T, counts)


@given(handed_on, handed_on, st.integers(0, 9))
def test_what_is_handed_on_is_sorted_and_told_once(some: list[HandedOn], others: list[HandedOn], lsn: int) -> None:
    assert same(make(some) | make(others), make(sorted({*some, *others})))
    assert same(make(some).since(lsn), make([row for row in some if row[0] > lsn]))
    assert same(make(some) | make([]), make(some))


def test_nothing_in_mind_is_a_value() -> None:
    assert same(read_value(SchemaMemory, value_bytes(NOTHING_REMEMBERED)), NOTHING_REMEMBERED)
