"""The fold of changes against a plain twin: a dict by key, a list of rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.landing.mirrors.fold import (
    CHANGED,
    GONE,
    NEVER,
    NOTHING,
    OLD,
    PUT,
    Events,
    Folded,
    fold_keys,
    fold_wholes,
    sources,
)
from headwater.landing.mirrors.row_codes import row_codes, value_codes

KINDS = st.sampled_from([PUT, PUT, CHANGED, GONE, NOTHING])
EVENTS = st.lists(st.tuples(KINDS, st.integers(0, 4), st.integers(0, 1)), max_size=30)
OLD_ROWS = st.dictionaries(st.integers(0, 4), st.integers(0, 1), max_size=5)
KILLS = st.dictionaries(st.integers(0, 1), st.sets(st.integers(0, 30)), max_size=2)


def _events(old: list[tuple[int, int]], changes: list[tuple[int, int, int]]) -> Events:
    rows = [(OLD, code, relation, -1) for code, relation in old]
    rows += [(kind, code, relation, place) for place, (kind, code, relation) in enumerate(changes)]
    columns = [np.array([row[at] for row in rows], np.int64) for at in range(4)]
    return Events(columns[0].astype(np.uint8), *columns[1:])


def _kills(kills: dict[int, set[int]]) -> dict[int, Any]:
    return {oid: np.array(sorted(places), np.int64) for oid, places in kills.items()}


class Twin:
    """Rows by key, one event after the other; a change of a place that is killed is no row's end but its relation's."""

    def __init__(self) -> None:
        self.there: dict[int, tuple[int, int]] = {}
        self.end: dict[int, int] = {}
        self.found: dict[int, int] = {}
        self.wrong: list[int] = []

    def run(self, old: list[tuple[int, int]], changes: list[tuple[int, int, int]], kills: dict[int, set[int]]) -> None:
        for number, (code, relation) in enumerate(old):
            self._put(number, code, relation)
        for place, (kind, code, relation) in enumerate(changes):
            self._kill(kills, place)
            number = len(old) + place
            if kind == NOTHING:
                continue
            known = self.there.pop(code, None)
            if known is not None:
                self.end[known[0]], self.found[number] = place, known[0]
            if (known is None) == (kind in (CHANGED, GONE)):
                self.wrong.append(number)
            if kind != GONE:
                self._put(number, code, relation)
        for place in range(len(changes), 31):
            self._kill(kills, place)

    def _put(self, number: int, code: int, relation: int) -> None:
        self.there[code], self.end[number] = (number, relation), int(NEVER)

    def _kill(self, kills: dict[int, set[int]], place: int) -> None:
        for code, (number, relation) in list(self.there.items()):
            if place in kills.get(relation, ()):
                self.end[number] = place
                del self.there[code]


def _clear_of_events(kills: dict[int, set[int]], changes: list[tuple[int, int, int]]) -> dict[int, set[int]]:
    """Give kills places of their own: no event stands there."""
    free = {place for place, (kind, _, _) in enumerate(changes) if kind == NOTHING} | set(range(len(changes), 31))
    return {oid: places & free for oid, places in kills.items()}


@given(OLD_ROWS, EVENTS, KILLS)
def test_keys_are_folded_as_a_dict_is(
    old: dict[int, int], changes: list[tuple[int, int, int]], kills: dict[int, set[int]]
) -> None:
    rows, kills = list(old.items()), _clear_of_events(kills, changes)
    twin = Twin()
    twin.run(rows, changes, kills)
    _compare(fold_keys(_events(rows, changes), _kills(kills)), twin)


def _compare(folded: Folded, twin: Twin) -> None:
    ends = {number: end for number, end in enumerate(folded.end.tolist()) if end}
    # A row that came and went at place 0 has ended there.
    assert ends == {number: end for number, end in twin.end.items() if end}
    assert {number: place for number, place in enumerate(folded.found.tolist()) if place >= 0} == twin.found
    assert folded.wrong.tolist() == twin.wrong


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=6), EVENTS, KILLS)
def test_wholes_are_folded_as_a_bag_is(
    old: list[tuple[int, int]], changes: list[tuple[int, int, int]], kills: dict[int, set[int]]
) -> None:
    kills = _clear_of_events(kills, changes)
    known = [(PUT if kind == CHANGED else kind, code, relation) for kind, code, relation in changes]
    # The relation is a part of what distinguishes rows.
    made = _events(
        [(2 * code + relation, relation) for code, relation in old],
        [(kind, 2 * code + relation, relation) for kind, code, relation in known],
    )
    folded = fold_wholes(made, _kills(kills))
    bag: Counter[tuple[int, int]] = Counter(old)
    is_wrong = False
    for place, (kind, code, relation) in enumerate([*known, *[(NOTHING, 0, 0)] * (31 - len(known))]):
        for row in list(bag):
            if place in kills.get(row[1], ()):
                del bag[row]
        if kind == PUT:
            bag[code, relation] += 1
        elif kind == GONE and bag[code, relation] > 0:
            bag[code, relation] -= 1
        elif kind == GONE:
            is_wrong = True
    assert bool(len(folded.wrong)) == is_wrong
    if not is_wrong:
        left = Counter(divmod(code, 2) for code in made.code[folded.is_left].tolist())
        assert left == Counter({row: count for row, count in bag.items() if count})


@given(st.lists(st.tuples(st.booleans(), st.integers(-1, 40)), max_size=40))
def test_a_value_that_was_not_written_again_is_that_of_the_row_before(chain: list[tuple[bool, int]]) -> None:
    unchanged = np.array([is_unchanged for is_unchanged, _ in chain], np.bool_)
    places = np.array([min(at, number - 1) for number, (_, at) in enumerate(chain)], np.int64)
    wanted = []
    for number in range(len(chain)):
        at = number
        while at >= 0 and unchanged[at]:
            at = int(places[at])
        wanted.append(at)
    assert sources(unchanged, places).tolist() == wanted


VALUES = st.none() | st.integers(-3, 3)
ROW = st.tuples(
    VALUES,
    st.none() | st.text("ab", max_size=2),
    st.none() | st.lists(VALUES, max_size=2),
    st.none() | st.builds(lambda x, y: {"x": x, "y": y}, VALUES, st.none() | st.sampled_from([0.0, -0.0, 1.5])),
)
TYPES: tuple[pa.DataType, ...] = (
    pa.int32(),
    pa.string(),
    pa.list_(pa.int64()),
    pa.struct([("x", pa.int16()), ("y", pa.float64())]),
)


@given(st.lists(ROW, max_size=20))
def test_rows_have_one_code_where_they_are_equal(rows: list[tuple[Any, ...]]) -> None:
    columns = [pa.chunked_array([pa.array([row[at] for row in rows], type)]) for at, type in enumerate(TYPES)]
    codes = row_codes(columns, len(rows)).tolist()
    texts = [repr(row) for row in rows]  # tells -0.0 from 0.0
    assert len(set(zip(codes, texts, strict=True))) == len(set(codes)) == len(set(texts))


def test_slices_of_lists_have_codes() -> None:
    lists = pa.array([[1], [2, 3], None, [1], [2, 3], []], pa.list_(pa.int32()))
    codes = value_codes(lists.slice(1))
    assert codes[0] == codes[3]
    assert len(set(codes.tolist())) == 4
