# ruff: noqa: SIM300 - asserts read "expected == actual"
"""New tuples that lack the bytes they share with the old one, and tuples on page images."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.catalog.relation import RelationSchema, TypeInfo
from headwater.errors import HeadwaterError
from headwater.rows.collect._page_tuples import NORMAL, PAGE, tuple_on_page
from headwater.rows.items import ABSENT, CLEAR_TOAST, NULL, SHARES_OLD, TEXT, UNCHANGED, UNKNOWN
from headwater.rows.tuples.completeness import ABSENT_ROW, COMPLETE, PARTIAL, completeness
from unit.rows.drawn_tuples import draw_tuple, relations, run
from unit.rows.plain_tuples import (
    BOOL,
    INT2,
    INT4,
    INT8,
    TEXT_TYPE,
    UUID,
    Slice,
    cells_at,
    deform_tuple,
    form_tuple,
    make_column,
    make_schema,
)

FIXED = (BOOL, INT2, INT4, INT8, UUID)


def _body_at(logged: bytes) -> int:
    return logged[4] - 18


def _shared(logged: bytes, prefix: int, suffix: int) -> bytes:
    at = _body_at(logged)
    return struct.pack("<HH", prefix, suffix) + logged[:at] + logged[at + prefix : len(logged) - suffix]


def _cells(schema: RelationSchema, logged: bytes, prefix: int, suffix: int) -> list[tuple[int, bytes]]:
    made = Slice()
    made.update(_shared(logged, prefix, suffix), flags=CLEAR_TOAST | SHARES_OLD)
    cells = run(made, schema)
    return cells_at(cells, int(cells.new_first[0]), len(schema.columns))


def _draw_ends(data: st.DataObject, logged: bytes) -> tuple[int, int]:
    size = len(logged) - _body_at(logged)
    prefix = data.draw(st.integers(0, size))
    return prefix, data.draw(st.integers(0, size - prefix))


@settings(max_examples=300)
@given(relation=relations(), data=st.data())
def test_what_is_shown_is_true(relation: tuple[RelationSchema, list[TypeInfo]], data: st.DataObject) -> None:
    """Each value is that of the whole tuple, or is said to be unknown; with no byte missing none is."""
    schema, types = relation
    logged = draw_tuple(data, schema, types)
    true = deform_tuple(schema.columns, logged, {})
    assert _cells(schema, logged, 0, 0) == true
    shown = _cells(schema, logged, *_draw_ends(data, logged))
    assert [cell for cell, known in zip(shown, true, strict=True) if cell != known and cell != (UNKNOWN, b"")] == []
    certain_kinds = [kind for kind, _ in true if kind in (NULL, ABSENT)]
    assert certain_kinds == [shown[at][0] for at, (kind, _) in enumerate(true) if kind in (NULL, ABSENT)]


@settings(max_examples=300)
@given(types=st.lists(st.sampled_from(FIXED), min_size=1, max_size=9), data=st.data())
def test_columns_of_fixed_length_are_shown_if_they_are_whole(types: list[TypeInfo], data: st.DataObject) -> None:
    schema = make_schema(*(make_column(number, type) for number, type in enumerate(types, start=1)))
    values = [data.draw(st.none() | st.binary(min_size=type.typlen, max_size=type.typlen)) for type in types]
    values = [None if value is None else bytes(len(value) - 1) + b"\1" for value in values]
    logged = form_tuple(schema.columns, values)
    prefix, suffix = _draw_ends(data, logged)
    end, off, expected = len(logged) - _body_at(logged) - suffix, 0, []
    for column, value in zip(schema.columns, values, strict=True):
        if value is None:
            expected.append(NULL)
            continue
        off += -off % {"c": 1, "s": 2, "i": 4, "d": 8}[column.attalign]
        expected.append(TEXT if prefix <= off and off + len(value) <= end else UNKNOWN)
        off += len(value)
    assert expected == [kind for kind, _ in _cells(schema, logged, prefix, suffix)]


def test_columns_behind_one_of_unknown_length_are_shown_from_the_end() -> None:
    schema = make_schema(make_column(1, INT4), make_column(2, TEXT_TYPE), make_column(3, INT4), make_column(4, INT4))
    logged = form_tuple(schema.columns, [b"\1\0\0\0", b"\x0bbody", b"\2\0\0\0", b"\3\0\0\0"])
    assert [UNKNOWN, UNKNOWN, TEXT, TEXT] == [kind for kind, _ in _cells(schema, logged, 8, 0)]
    assert [UNKNOWN, UNKNOWN, TEXT, UNKNOWN] == [kind for kind, _ in _cells(schema, logged, 12, 4)]
    assert [TEXT, UNKNOWN, UNKNOWN, UNKNOWN] == [kind for kind, _ in _cells(schema, logged, 0, 12)]


@settings(max_examples=300)
@given(relation=relations(), raw=st.binary(max_size=80))
def test_broken_bytes(relation: tuple[RelationSchema, list[TypeInfo]], raw: bytes) -> None:
    made = Slice()
    made.update(raw, flags=CLEAR_TOAST | SHARES_OLD)
    try:
        run(made, relation[0])
    except HeadwaterError:
        return


def test_completeness_is_of_the_row_that_counts() -> None:
    schema = make_schema(make_column(1, INT4), make_column(2, INT4))
    whole = form_tuple(schema.columns, [b"\1\0\0\0", None])
    made = Slice()
    made.insert(whole)
    made.update(_shared(whole, 2, 0), flags=CLEAR_TOAST | SHARES_OLD)
    made.delete(whole)
    made.delete(None)
    made.literal()
    cells, items = run(made, schema), made.items()
    natts = np.array([2])
    assert [COMPLETE, PARTIAL, COMPLETE, ABSENT_ROW, ABSENT_ROW] == completeness(
        items, cells.kind, (cells.new_first, cells.old_first), natts
    ).tolist()


def test_a_value_of_the_old_row_completes_an_unchanged_one() -> None:
    schema = make_schema(make_column(1, INT4), make_column(2, INT4))
    whole = form_tuple(schema.columns, [b"\1\0\0\0", b"\2\0\0\0"])
    made = Slice()
    made.update(whole, whole)
    cells = run(made, schema)
    kinds, firsts = cells.kind.copy(), (cells.new_first, cells.old_first)
    kinds[cells.new_first[0] + 1] = UNCHANGED
    assert [COMPLETE] == completeness(made.items(), kinds, firsts, np.array([2])).tolist()
    kinds[cells.new_first[0] + 1] = UNKNOWN
    assert [PARTIAL] == completeness(made.items(), kinds, firsts, np.array([2])).tolist()
    kinds[cells.new_first[0] + 1] = UNCHANGED
    kinds[cells.old_first[0] + 1] = UNCHANGED
    assert [PARTIAL] == completeness(made.items(), kinds, firsts, np.array([2])).tolist()


def _page(lower: int, pointers: list[tuple[int, int, int]]) -> np.ndarray:
    page = np.zeros(2 * PAGE, np.uint8)
    page[PAGE + 12 : PAGE + 14] = np.frombuffer(struct.pack("<H", lower), np.uint8)
    for number, (at, flags, length) in enumerate(pointers):
        item = np.frombuffer(struct.pack("<I", at | flags << 15 | length << 17), np.uint8)
        page[PAGE + 24 + 4 * number : PAGE + 28 + 4 * number] = item
    return page


def test_tuples_are_found_on_pages() -> None:
    page = _page(32, [(8000, NORMAL, 60), (7900, 2, 0)])
    assert (PAGE + 8018, 42) == tuple_on_page(page, 1, 1)
    missing = [tuple_on_page(page, 1, offnum)[0] for offnum in (0, 2, 3, 65535)]
    assert [-1] * 4 == missing
    outside = [(8150, NORMAL, 60), (10, NORMAL, 60), (8000, NORMAL, 10)]
    assert [-1] * 3 == [tuple_on_page(_page(28, [pointer]), 1, 1)[0] for pointer in outside]
    assert -1 == tuple_on_page(_page(9000, [(8000, NORMAL, 60)]), 1, 1)[0]


@settings(max_examples=200)
@given(head=st.binary(min_size=64, max_size=64), offnum=st.integers(0, 70000))
def test_any_page(head: bytes, offnum: int) -> None:
    page = np.zeros(2 * PAGE, np.uint8)
    page[PAGE : PAGE + 64] = np.frombuffer(head, np.uint8)
    at, length = tuple_on_page(page, 1, offnum)
    assert at == -1 or (PAGE <= at and length >= 5 and at + length <= 2 * PAGE)
