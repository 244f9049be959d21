"""Tokens of rows, and transactions that depend on each other, beside plain twins."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.apply.batches.batch import Messages
from headwater.apply.parallel import _dependencies as _d
from headwater.apply.parallel.units import apart
from headwater.remote_slots.framed_messages import frame

Values = Sequence[str | None]
KEYS = {10: [0], 20: [0, 2], 30: [], 40: [1]}
"""Columns of the keys of relations, of which the last one's changes depend on each other."""
WHOLE = 40
VALUES = st.lists(st.sampled_from(["", "a", "b", "ab", "a\x00", None]), min_size=3, max_size=3)
CHANGES = st.lists(st.tuples(st.sampled_from("IUD"), st.sampled_from(sorted(KEYS)), VALUES), max_size=20)


def _message(kind: str, oid: int, values: Values) -> bytes:
    cells = [b"n" if value is None else b"t" + struct.pack(">i", len(value)) + value.encode() for value in values]
    mark = b"K" if kind == "D" else b"N"
    return kind.encode() + struct.pack(">I", oid) + mark + struct.pack(">H", len(values)) + b"".join(cells)


def _framed(bodies: Sequence[bytes]) -> Messages:
    return Messages.parse(b"".join(frame(body, 1) for body in bodies))


def _tokens(messages: Messages) -> list[int] | None:
    oids = sorted(KEYS)
    begins = np.cumsum([0, *(len(KEYS[oid]) for oid in oids)]).astype(np.int32)
    columns = np.array([at for oid in oids for at in KEYS[oid]], np.int32)
    wholes = np.array([oid == WHOLE for oid in oids], np.uint8)
    tokens = np.empty(len(messages.kind), np.int64)
    lying = messages.kind, messages.start, messages.end, messages.oid
    is_told = _d.read_tokens(messages.data, lying, (np.array(oids, np.int64), begins, columns, wholes), tokens)
    return tokens.tolist() if is_told else None


def _row(kind: str, oid: int, values: Values) -> object:
    """Return which row a change is about, plainly; None for none, a ValueError where that cannot be told."""
    if oid == WHOLE:
        return oid
    if not KEYS[oid]:
        if kind != "I":
            raise ValueError
        return None
    key = tuple(values[at] for at in KEYS[oid])
    if None in key:
        raise ValueError
    return oid, key


@given(CHANGES)
def test_tokens(changes: list[tuple[str, int, Values]]) -> None:
    tokens = _tokens(_framed([_message(*change) for change in changes]))
    try:
        rows = [_row(*change) for change in changes]
    except ValueError:
        assert tokens is None
        return
    assert tokens is not None
    assert [token == 0 for token in tokens] == [row is None for row in rows]
    assert len(set(tokens)) == len(set(rows))
    assert len(set(zip(tokens, rows, strict=True))) == len(set(rows))


@given(
    st.lists(st.tuples(st.sampled_from("IUD"), st.sampled_from(sorted(KEYS)), VALUES), min_size=1, max_size=3),
    st.data(),
)
def test_damaged_messages_are_told(changes: list[tuple[str, int, Values]], data: st.DataObject) -> None:
    """Whatever they say, nothing is read beyond them."""
    body = bytearray(_message(*changes[0]))
    for _ in range(3):
        body[data.draw(st.integers(1, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(6, len(body)))
    _tokens(_framed([bytes(body[:cut])]))


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=40))
def test_touched_rows(steps: list[tuple[int, bool]]) -> None:
    """A change of token 0 depends on nothing; a unit begins where a step says so."""
    units = np.cumsum([begins for _, begins in steps]).astype(np.int64)
    tokens = np.array([token for token, _ in steps], np.int64)
    table = np.zeros(32, np.int64), np.empty(32, np.int64), np.empty(32, np.int64)
    last = np.empty(len(steps), np.int64)
    _d.touch(tokens, units, table, last)
    expected = []
    for at, token in enumerate(tokens):
        before = [units[other] for other in range(at) if tokens[other] == token and units[other] < units[at]]
        expected.append(max(before, default=-1) if token else -1)
    assert last.tolist() == expected


@given(st.lists(st.lists(st.integers(0, 12), max_size=4), min_size=1, max_size=12), st.integers(1, 12))
def test_transactions_that_depend_on_each_other(transactions: list[list[int]], most: int) -> None:
    bodies, tokens = [], []
    for rows in transactions:
        bodies += [b"B" + bytes(20), *(_message("I", 10, [str(row), "", ""]) for row in rows), b"C" + bytes(25)]
        tokens += [0, *rows, 0]
    messages = _framed(bodies)
    groups = [group.tolist() for group in apart(messages, np.array(tokens, np.int64), most)]
    assert [sum(flags) for flags in zip(*groups, strict=True)] == [1] * len(bodies)
    of_message = [next(number for number, group in enumerate(groups) if group[at]) for at in range(len(bodies))]
    at = 0
    of_transaction: list[int] = []
    for rows in transactions:
        own = set(of_message[at : at + len(rows) + 2])
        assert len(own) == 1
        of_transaction += own
        at += len(rows) + 2
    of_row: dict[int, int] = {}
    for rows, group in zip(transactions, of_transaction, strict=True):
        for row in filter(None, rows):
            assert of_row.setdefault(row, group) == group
    _require_filled(transactions, of_transaction, most)


def _require_filled(transactions: list[list[int]], groups: list[int], most: int) -> None:
    """Require that a group of more changes than wanted is one cluster."""
    for group in set(groups):
        own = [rows for rows, number in zip(transactions, groups, strict=True) if number == group]
        if sum(map(len, own)) > most:
            assert len(_clusters(own)) == 1


def _clusters(transactions: list[list[int]]) -> list[set[int]]:
    """Return the rows of transactions that depend on each other; of each that has changes."""
    clusters: list[set[int]] = []
    for rows in filter(None, transactions):
        own = set(filter(None, rows))
        joined = [cluster for cluster in clusters if cluster & own]
        clusters = [cluster for cluster in clusters if not cluster & own]
        clusters.append(own.union(*joined))
    return clusters
