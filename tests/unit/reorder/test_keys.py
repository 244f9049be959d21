"""Look-ups over columns, dense or not, against dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.reorder.integer_keys import (
    distinct,
    distinct_rows,
    grouped_places,
    lookup,
    lower,
    or_together,
    places_passed,
    reaches,
    stable_order,
)

values = st.one_of(st.integers(0, 20), st.integers(0, 2**62))


@given(st.lists(values), st.lists(values))
def test_lookup(keys: list[int], wanted: list[int]) -> None:
    keys = sorted(keys)
    first = {key: i for i, key in reversed(list(enumerate(keys)))}
    places = lookup(np.array(keys, np.int64), np.arange(len(keys)), np.array(wanted + keys, np.int64))
    assert places.tolist() == [first.get(key, -1) for key in wanted + keys]


@given(st.lists(values))
def test_distinct(column: list[int]) -> None:
    distinct_values = distinct(np.array(column, np.int64))
    assert distinct_values.values.tolist() == sorted(set(column))
    assert distinct_values.first.tolist() == [column.index(value) for value in sorted(set(column))]
    assert [int(distinct_values.values[i]) for i in distinct_values.number] == column


@given(st.lists(st.tuples(values, st.integers(0, 3))))
def test_distinct_rows(rows: list[tuple[int, int]]) -> None:
    distinct_keys, number = distinct_rows(np.array(rows, np.int64).reshape(-1, 2).T)
    assert list(map(tuple, distinct_keys.T.tolist())) == sorted(set(rows))
    assert [tuple(distinct_keys[:, i].tolist()) for i in number] == rows


@given(st.lists(values))
def test_stable_order(column: list[int]) -> None:
    expected = sorted(range(len(column)), key=lambda i: column[i])
    assert stable_order(np.array(column, np.int64)).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 7))))
def test_or_together(pairs: list[tuple[int, int]]) -> None:
    number, value = np.array(pairs, np.int64).reshape(-1, 2).T.copy()
    expected = [0] * 4
    for group, bits in pairs:
        expected[group] |= bits
    assert or_together(value, number, 4).tolist() == expected


PLACES = st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 4)))


@given(PLACES, PLACES)
def test_places_passed(pairs: list[tuple[int, int]], places: list[tuple[int, int]]) -> None:
    pairs = sorted(pairs)
    major, minor = np.array(pairs, np.int64).reshape(-1, 2).T.copy()
    expected = [sum(place <= pair for place in places) for pair in pairs]
    assert places_passed(major, minor, np.array(places, np.int64).reshape(-1, 2)).tolist() == expected


GROUPS = st.lists(st.integers(-1, 4))


@given(GROUPS)
def test_grouped_places(group: list[int]) -> None:
    places, groups = grouped_places(np.array(group, np.int64), 5)
    expected = sorted((g, i) for i, g in enumerate(group) if g >= 0)
    assert list(zip(groups.tolist(), places.tolist(), strict=True)) == expected


@given(st.lists(st.tuples(st.integers(-1, 4), values)))
def test_lower(pairs: list[tuple[int, int]]) -> None:
    into = np.full(5, 10, np.int64)
    place, value = np.array(pairs, np.int64).reshape(-1, 2).T.copy()
    lower(into, place, value)
    assert into.tolist() == [min([10, *(v for p, v in pairs if p == at)]) for at in range(5)]


@given(st.lists(st.tuples(st.integers(0, 4), values, values)))
def test_reaches(ranges: list[tuple[int, int, int]]) -> None:
    places = sorted({place for place, _, _ in ranges})
    numbered = [(places.index(place), low, high) for place, low, high in ranges]
    place, low, high = np.array(numbered, np.int64).reshape(-1, 3).T.copy()
    first, last = reaches(place, low, high, len(places))
    assert first.tolist() == [min(low for at, low, _ in numbered if at == number) for number in range(len(places))]
    assert last.tolist() == [max(high for at, _, high in numbered if at == number) for number in range(len(places))]
