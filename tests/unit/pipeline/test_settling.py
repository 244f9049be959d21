"""Messages that depend on other slices: what goes out, in memory and in files of every form, is the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.pipeline.slices.message_files import (
    MessageForm,
    message_batches,
    message_table,
    set_apart,
    write_messages,
)
from headwater.pipeline.slices.tentative_messages import Settlement
from headwater.rows.items import COUNTED, DEPENDENT, GIVEN, HELD, Conditions, Messages

Group = tuple[int, int, int]
"""Kind, or -1 for messages without a condition; number; how many messages, or of COUNTED, which has none, what it
counts as."""

GROUPS = st.lists(
    st.tuples(st.sampled_from([-1, -1, GIVEN, HELD, DEPENDENT, COUNTED]), st.integers(1, 4), st.integers(1, 3)),
    max_size=6,
)
SESSIONS = st.lists(GROUPS, max_size=5)


def slice_of(groups: list[Group], first: int) -> Messages:
    """Make the messages of a slice, each with a text of its own."""
    counts = [0 if kind == COUNTED else more for kind, _, more in groups]
    count = sum(counts)
    texts = [f"message {first + number}\n{'x' * (number % 4)}".encode() for number in range(count)]
    offsets = np.cumsum([0, *map(len, texts)])
    lsn = np.arange(first, first + count)
    starts = np.cumsum([0, *counts])
    rows = [
        (kind, number, more if kind == COUNTED else 0, start, count)
        for (kind, number, more), start, count in zip(groups, starts, counts, strict=False)
        if kind >= 0
    ]
    kind, number, counts_as, start, more = np.array(rows, np.int64).reshape(-1, 5).T
    conditions = Conditions(kind.astype(np.uint8), number, counts_as, start, more)
    return Messages(lsn, lsn + 700, offsets, np.frombuffer(b"".join(texts), np.uint8), conditions)


def lsns_out(session: list[list[Group]]) -> list[int]:
    """List the LSNs of what goes out, one message after the other."""
    given_before: set[int] = set()
    lsns, first = [], 1
    for groups in session:
        for kind, number, count in groups:
            if kind == COUNTED:
                given_before |= {count} if number in given_before else set()
                continue
            goes_out = kind in (-1, GIVEN) or (number in given_before) == (kind == DEPENDENT)
            if kind in (GIVEN, HELD):
                given_before.add(number)
            lsns += list(range(first, first + count)) if goes_out else []
            first += count
    return lsns


def slices_of(session: list[list[Group]]) -> list[Messages]:
    """Make the slices of a session."""
    firsts = np.cumsum([1, *(sum(count for kind, _, count in groups if kind != COUNTED) for groups in session)])
    return [slice_of(groups, int(first)) for groups, first in zip(session, firsts, strict=False)]


@given(SESSIONS)
def test_what_goes_out(session: list[list[Group]]) -> None:
    settlement = Settlement()
    settled = [settlement.settled(messages) for messages in slices_of(session)]
    assert [lsn for messages in settled for lsn in messages.lsn.tolist()] == lsns_out(session)


@pytest.mark.parametrize("form", list(MessageForm))
def test_files_are_those_of_what_goes_out(form: MessageForm, tmp_path_factory: pytest.TempPathFactory) -> None:
    @given(SESSIONS)
    def check(session: list[list[Group]]) -> None:
        directory = tmp_path_factory.mktemp("settling")
        in_files, in_memory = Settlement(), Settlement()
        for number, messages in enumerate(slices_of(session)):
            path = str(directory / str(number))
            with open(path, "wb") as sink:
                counts = write_messages(sink, messages, form, True, 8)
            counts = in_files.settle(path, counts, form)
            settled = in_memory.settled(messages)
            assert (counts.messages, counts.size) == (len(settled.lsn), int(settled.offsets[-1]))
            with open(directory / "expected", "wb") as sink:
                write_messages(sink, settled.take(np.arange(len(settled.lsn))), form, True, 8)
            assert content(path, form) == content(str(directory / "expected"), form)

    check()


def content(path: str, form: MessageForm) -> bytes | list[dict[str, object]]:
    """Read what is in a file."""
    if form in (MessageForm.LINES, MessageForm.LINES_WITH_LSN):
        return Path(path).read_bytes()
    table: pa.Table = message_table(path) if form is MessageForm.ARROW else pq.read_table(path)
    rows: list[dict[str, object]] = table.to_pylist()
    return rows


def test_nothing_is_set_apart_without_conditions() -> None:
    messages = slice_of([(-1, 0, 3)], 1)
    rest, tentative = set_apart(messages)
    assert rest is messages
    assert tentative == ()
    assert sum(len(batch) for batch in message_batches(rest, True)) == 3
