"""Columns in the memory of one element are the columns that they stand for, wherever they come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwater.base.constant_columns import MAY_BE_CONSTANT, constant, is_constant, joined, memory_bytes, taken
from headwater.base.value_codec import read_value, same, value_bytes
from headwater.errors import FlatValueError

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Columns:
    """One that may be constant, and one that may not."""

    some: Int64s = field(metadata=MAY_BE_CONSTANT)
    all: Int64s


@dataclass(frozen=True)
class Plain:
    """The same without a word on it."""

    some: Int64s
    all: Int64s


lists = st.one_of(
    st.lists(st.integers(0, 2), max_size=6),
    st.tuples(st.integers(0, 3), st.integers(0, 2)).map(lambda pair: [pair[1]] * pair[0]),
)


def column(values: list[int]) -> Int64s:
    return constant(np.array(values, np.int64))


@given(lists)
def test_it_takes_the_memory_of_one_if_all_are_equal(values: list[int]) -> None:
    values_column = column(values)
    assert values_column.tolist() == values
    assert is_constant(values_column) == (len(values) > 1 and len(set(values)) == 1)
    assert memory_bytes(values_column) == (8 if is_constant(values_column) else 8 * len(values))


@given(st.lists(lists, min_size=1, max_size=4))
def test_columns_are_joined(parts: list[list[int]]) -> None:
    assert joined([column(part) for part in parts]).tolist() == [value for part in parts for value in part]


def test_joined_ones_that_agree_stay_constant() -> None:
    assert is_constant(joined([column([7, 7]), column([]), column([7, 7, 7])]))


@given(lists.filter(bool), st.data())
def test_elements_are_taken(values: list[int], data: Any) -> None:
    which = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=5))
    assert taken(column(values), np.array(which, np.int64)).tolist() == [values[place] for place in which]
    assert taken(column(values), slice(1, None)).tolist() == values[1:]


@given(lists, lists)
def test_equal_values_have_equal_bytes(some: list[int], every: list[int]) -> None:
    whole = Columns(np.array(some, np.int64), np.array(every, np.int64))
    narrow = Columns(column(some), column(every))
    assert value_bytes(whole) == value_bytes(narrow)
    assert same(whole, Columns(column([*some, 0])[:-1], narrow.all))
    loaded = read_value(Columns, value_bytes(narrow))
    assert (loaded.some.tolist(), loaded.all.tolist()) == (some, every)
    assert is_constant(loaded.some) == is_constant(narrow.some)
    assert not is_constant(loaded.all)


def test_a_constant_column_is_written_once() -> None:
    many = np.zeros(1 << 20, np.int64)
    nothing = many[:0]
    assert len(value_bytes(Columns(many, nothing))) < 1000 < len(value_bytes(Columns(nothing, many)))


def test_where_none_is_expected_it_is_refused() -> None:
    with pytest.raises(FlatValueError, match="another version"):
        read_value(Plain, value_bytes(Columns(column([1, 1]), column([1, 1]))))
