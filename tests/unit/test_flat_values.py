"""Values that are written and read again, and bytes that are none."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwater.base.value_codec import read_value, same, value_bytes
from headwater.catalog.copy.commit_log import CommitLog
from headwater.catalog.store.version_rows import VersionRows
from headwater.errors import FlatValueError
from headwater.rmgr.index.index_rows import NO_ROWS, FileTable, Ragged


class Colour(Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    left: int
    right: bytes | None


@dataclass(frozen=True)
class Tree:
    name: str
    child: Tree | None
    pairs: tuple[Pair, ...] = ()


@dataclass(frozen=True)
class Everything:
    number: int
    flag: bool
    text: str
    data: bytes
    place: tuple[int, str, bytes]
    maybe: int | None
    members: frozenset[int]
    named: dict[str, tuple[bytes, ...]]
    colour: Colour
    tree: Tree
    longs: NDArray[np.int64]
    any_numbers: NDArray[np.generic]
    cached: list[int] = field(default_factory=list, compare=False)


trees = st.recursive(
    st.builds(Tree, st.text(), st.none()),
    lambda child: st.builds(Tree, st.text(), child, st.lists(st.builds(Pair, st.integers(), st.none())).map(tuple)),
    max_leaves=4,
)
values = st.builds(
    Everything,
    number=st.integers(),
    flag=st.booleans(),
    text=st.text(st.characters()),
    data=st.binary(),
    place=st.tuples(st.integers(), st.text(), st.binary()),
    maybe=st.none() | st.integers(),
    members=st.frozensets(st.integers()),
    named=st.dictionaries(st.text(), st.lists(st.binary()).map(tuple)),
    colour=st.sampled_from(Colour),
    tree=trees,
    longs=st.lists(st.integers(-(2**63), 2**63 - 1)).map(lambda numbers: np.array(numbers, np.int64)),
    any_numbers=st.sampled_from(
        [np.zeros((2, 3), np.uint8), np.arange(4, dtype=np.float32), np.empty((0, 7), np.int16)]
    ),
)


@given(values)
def test_a_value_comes_back(value: Everything) -> None:
    again = read_value(Everything, value_bytes(value))
    assert same(value, again)
    assert (again.number, again.named, again.tree) == (value.number, value.named, value.tree)
    assert (again.place, again.members) == (value.place, value.members)
    np.testing.assert_array_equal(again.any_numbers, value.any_numbers)
    assert again.any_numbers.dtype == value.any_numbers.dtype


@given(values, values)
def test_same_means_equal_in_every_field(first: Everything, second: Everything) -> None:
    def plain(value: Everything) -> list[object]:
        arrays = [(a.dtype, a.shape, a.tobytes()) for a in (value.longs, value.any_numbers)]
        return [getattr(value, name) for name in list(value.__dataclass_fields__)[:10]] + arrays

    assert same(first, second) == (plain(first) == plain(second))


def value() -> Everything:
    tree = Tree("root", Tree("leaf", None), (Pair(1, b"x"), Pair(2, None)))
    return Everything(
        7, True, "t", b"data", (1, "a", b"b"), None, frozenset({3, 1}), {"k": (b"v",)}, Colour.BLUE, tree,
        np.arange(5), np.arange(3, dtype=np.uint16),
    )  # fmt: skip


@given(st.data())
def test_damaged_bytes_are_refused_or_another_value(data: st.DataObject) -> None:
    whole = bytearray(value_bytes(value()))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with suppress(FlatValueError):
        read_value(Everything, bytes(whole))


@pytest.mark.parametrize("name", [b"<,8", b"<i,", b"i,i", b"<O8", b"<U8"])
def test_elements_of_another_name_are_refused(name: bytes) -> None:
    """NumPy takes a list of types for one, and parses it as Python."""
    whole = value_bytes(value())
    assert b"<i8" in whole
    with pytest.raises(FlatValueError, match="array of"):
        read_value(Everything, whole.replace(b"<i8", name, 1))


@pytest.mark.parametrize("length", [0, 7, 32, 100, -70])
def test_cut_bytes_are_refused(length: int) -> None:
    with pytest.raises(FlatValueError):
        read_value(Everything, value_bytes(value())[:length])


def test_another_type_is_refused() -> None:
    with pytest.raises(FlatValueError, match="another version"):
        read_value(Tree, value_bytes(value()))


def test_arrays_are_aligned_in_the_file() -> None:
    data = value_bytes(value())
    again = read_value(Everything, data)
    offset = again.longs.__array_interface__["data"][0] - np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    assert offset % 64 == 0


@dataclass(frozen=True)
class Objects:
    what: NDArray[np.generic]


def test_objects_are_not_written() -> None:
    with pytest.raises(TypeError):
        value_bytes(Objects(np.array([object()])))


LISTS = Ragged(np.array([0, 2, 2, 5]), np.arange(5))
LOG = CommitLog(np.array([0, 7, 9]), np.array([85, -1, 0], np.int16), 800, 1, False)
VERSIONS = VersionRows(
    *(np.full(2, 3, np.uint32), np.full(2, 3), np.zeros(2, np.uint32), np.zeros(2, np.int64)),
    *(np.array([1]), np.array([900]), np.zeros(1, np.uint32)),
    *(np.zeros(2, np.uint16), np.zeros(2, np.uint16), np.full(2, 24, np.uint8)),
    *(np.array([0, 20]), np.array([20, 20]), np.zeros(40, np.uint8)),
)
FILES = replace(NO_ROWS, files=FileTable(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int32)))


@pytest.mark.parametrize(
    ("value", "field", "wrong"),
    [
        (LISTS, "starts", np.array([0, 2, 2, 6])),
        (LISTS, "starts", np.array([0, 3, 2, 5])),
        (LISTS, "starts", np.array([1, 2, 2, 5])),
        (LISTS, "starts", np.broadcast_to(np.zeros(1, np.int64), 1000)),
        (LOG, "starts", np.array([0, 9, 7])),
        (LOG, "values", np.array([85, -1], np.int16)),
        (VERSIONS, "at", np.array([0, 1 << 50])),
        (VERSIONS, "at", np.array([-1, 20])),
        (VERSIONS, "length", np.array([20, 21])),
        (VERSIONS, "length", np.array([20, -1])),
        (VERSIONS, "hoff", np.array([24, 22], np.uint8)),
        (VERSIONS, "deleter_row", np.array([2])),
        (VERSIONS, "deleter_row", np.array([0, 1])),
        (VERSIONS, "xmin", np.full(3, 3, np.uint32)),
        (replace(FILES, locators=np.zeros((1, 3), np.int64)), "locators", np.empty((0, 3), np.int64)),
        (FILES.files, "lsn", np.zeros(2, np.int64)),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(value: Any, field: str, wrong: np.ndarray[Any, Any]) -> None:
    """Offsets into arrays that a file says: kernels and look-ups go by them."""
    assert same(value, read_value(type(value), value_bytes(value)))
    with pytest.raises(FlatValueError, match=f"not a value of type {type(value).__name__}"):
        read_value(type(value), value_bytes(replace(value, **{field: wrong})))
