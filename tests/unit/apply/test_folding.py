"""Folding by keys, beside a plain twin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwater.apply.batches import _folding as _f
from headwater.apply.batches.batch import Messages
from headwater.remote_slots.framed_messages import Cells, frame
from headwater.rows.items import DELETE, INSERT, NULL, TEXT, UNCHANGED, UPDATE

NATTS = 3
CHANGES = st.lists(
    st.tuples(
        st.sampled_from([INSERT, UPDATE, DELETE]),
        st.integers(0, 3),
        st.lists(st.sampled_from([None, "u", "", "x", 'a"b', "back\\slash\ttab\nline"]), min_size=2, max_size=2),
    ),
    max_size=30,
)
Row = list[str | None]


def _twin(changes: list[tuple[int, int, Row]], required: Sequence[int] = ()) -> dict[int, tuple[int, Row]] | None:
    """Fold as plainly as can be: flags and last values by key; None where a change does not follow."""
    rows: dict[int, tuple[int, Row]] = {}
    for kind, key, values in changes:
        flags, last = rows.get(key, (0 if kind == INSERT else _f.EXISTED | _f.ALIVE, ["u", "u"]))
        flags |= _f.SEVERAL if key in rows else 0
        is_refused = kind != DELETE and any(values[at - 1] is None for at in required)
        if (kind == INSERT) == bool(flags & _f.ALIVE) or is_refused:
            return None
        if kind == DELETE:
            rows[key] = flags & ~_f.ALIVE, last if key in rows else values
            continue
        flags |= _f.ALIVE | (_f.REPLACED if kind == INSERT and flags & _f.EXISTED else 0)
        merged = [old if new == "u" else new for new, old in zip(values, last, strict=True)]
        rows[key] = flags, values if kind == INSERT else merged
    return rows


def _cells(changes: list[tuple[int, int, Row]]) -> tuple[NDArray[np.uint8], Cells]:
    texts: list[bytes] = []
    kinds, starts, lengths, at = [], [], [], 0
    for _, key, values in changes:
        for sent in [f"key {key}", *values]:
            text = b"" if sent in (None, "u") else str(sent).encode()
            kinds.append(NULL if sent is None else UNCHANGED if sent == "u" else TEXT)
            starts.append(at)
            lengths.append(len(text))
            texts.append(text)
            at += len(text)
    data = np.frombuffer(b"".join(texts) or b"-", np.uint8)
    cells = np.array(kinds, np.uint8), np.array(starts, np.int64), np.array(lengths, np.int32)
    return data, cells


def _folded(changes: list[tuple[int, int, Row]], required: Sequence[int] = ()) -> dict[int, tuple[int, Row]] | None:
    data, cells = _cells(changes)
    count = len(changes)
    flags = np.zeros(count, np.uint8)
    room = count * NATTS
    rows = np.zeros(room, np.uint8), np.zeros(room, np.int64), np.zeros(room, np.int32)
    own = np.array([kind for kind, _, _ in changes], np.uint8), np.arange(count, dtype=np.int64) * NATTS
    index = np.full(64, -1, np.int64), np.zeros(count, np.int64)
    number = _f.fold(data, own, np.array([0], np.int32), np.array(required, np.int32), NATTS, cells, index, flags, rows)
    if number < 0:
        return None

    def value(cell: int) -> str | None:
        text = data[rows[1][cell] : rows[1][cell] + rows[2][cell]].tobytes().decode()
        return None if rows[0][cell] == NULL else "u" if rows[0][cell] == UNCHANGED else text

    result = {}
    for row in range(number):
        name, *values = (value(cell) for cell in range(row * NATTS, row * NATTS + NATTS))
        result[int(str(name).split()[1])] = int(flags[row]), values
    return result


@given(CHANGES, st.sampled_from([(), (1,), (1, 2)]))
def test_rows_are_folded_by_their_keys(changes: list[tuple[int, int, Row]], required: tuple[int, ...]) -> None:
    # What is inserted is sent whole.
    whole = [(kind, key, [v if kind != INSERT or v != "u" else "x" for v in values]) for kind, key, values in changes]
    assert _folded(whole, required) == _twin(whole, required)


@given(CHANGES.filter(len))
def test_runs_have_each_row_at_most_once(changes: list[tuple[int, int, Row]]) -> None:
    data, cells = _cells(changes)
    firsts = np.arange(len(changes), dtype=np.int64) * NATTS
    cuts = np.empty(len(changes) + 1, np.int64)
    runs = _f.cut_at_repeats(data, firsts, np.array([0], np.int32), cells, np.full(64, -1, np.int64), cuts)
    expected, seen = [0], set[int]()
    for number, (_, key, _) in enumerate(changes):
        if key in seen:
            expected.append(number)
            seen.clear()
        seen.add(key)
    assert cuts[: runs + 1].tolist() == [*expected, len(changes)]


@given(st.lists(st.integers(-(10**17), 10**17), min_size=1), st.lists(st.text(min_size=1, max_size=12), min_size=1))
def test_places_of_keys(numbers: list[int], texts: list[str]) -> None:
    assert _places([str(number).encode() for number in numbers]) == numbers
    words = [b"k" + text.encode() for text in texts]
    assert _places(words) == [int.from_bytes(word[:7].ljust(7, b"\0"), "big") for word in words]


def test_places_of_odd_keys() -> None:
    """Whatever a key is, it has some place."""
    assert _places([b"-", b"", b"1.5", b"9" * 30, b"12345678901234567890"])[1] == 0


def _places(values: list[bytes]) -> list[int]:
    lengths = np.array([len(value) for value in values], np.int32)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    data = np.frombuffer(b"".join(values) or b"-", np.uint8)
    rows = np.full(len(values), TEXT, np.uint8), starts, lengths
    places = np.empty(len(values), np.int64)
    _f.key_places(data, rows, np.arange(len(values), dtype=np.int64), 1, 0, places)
    return [int(place) for place in places]


def test_relations_of_changes_that_are_cut() -> None:
    """Nothing is read behind the end of a message: such a change is left to who says what is wrong with it."""
    whole = {b"I\0\0\1\2N": 258, b"U\0\0\1\2N": 258, b"U\0\0\1\2O": -1, b"D\0\0\1\2K": 258, b"C\0\0\1\2N": 0}
    for message, relation in whole.items():
        for size in range(1, len(message) + 1):
            # Were more read, the rest would be taken for a part of it.
            data, ends = np.frombuffer(message, np.uint8), np.array([size], np.int64)
            oid = np.full(1, 7, np.int64)
            _f.relations_of(data, data[:1], np.zeros(1, np.int64), ends, oid)
            assert oid[0] == (relation if size == len(message) or not relation else -1)
    cut = Messages.parse(frame(b"I\0\0", 5))
    assert (cut.oid.tolist(), cut.relations) == ([-1], [])
