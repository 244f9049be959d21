# ruff: noqa: SIM300 - asserts read "expected == actual"
"""Relations laid out for the kernels, and those that are refused."""

from __future__ import annotations

import dataclasses

import pytest

from headwater.catalog.relation import Column
from headwater.errors import CatalogError
from headwater.rows.session import SessionSettings
from headwater.rows.tuples._deform import ALIGN_MASK, DROPPED, LENGTH, MISSING_AT
from headwater.rows.tuples.layout import column_label, compile_layouts
from unit.rows.plain_tuples import (
    INT4,
    INT8,
    TEXT_TYPE,
    XML_SCHEMA,
    compressed,
    make_column,
    make_schema,
    plain,
    short,
    toast_pointer,
)

SESSION = SessionSettings()


def test_columns_of_all_relations_lie_one_after_the_other() -> None:
    first = make_schema(INT4, make_column(2, TEXT_TYPE, dropped=True), name="a")
    second = make_schema(make_column(1, INT8, missing=bytes(8), name="n"), name="b")
    layouts = compile_layouts([first, make_schema(), second], SESSION)
    assert [0, 2, 2, 3] == layouts.first_column.tolist()
    assert [4, -1, 8] == layouts.columns[:, LENGTH].tolist()
    assert [3, 3, 7] == layouts.columns[:, ALIGN_MASK].tolist()
    assert [0, 1, 0] == layouts.columns[:, DROPPED].tolist()
    assert [-1, -1, 0] == layouts.columns[:, MISSING_AT].tolist()
    assert 'column "n" of table "public.b"' == column_label(layouts, 2)


def test_no_relations_at_all() -> None:
    assert [0] == compile_layouts([], SESSION).first_column.tolist()


def test_columns_of_unknown_types_are_told_apart() -> None:
    dropped = make_schema(make_column(1, XML_SCHEMA, dropped=True), XML_SCHEMA, name="other")
    layouts = compile_layouts([make_schema(INT4, XML_SCHEMA), dropped], SESSION)
    reason = "values of type no_such_type cannot be printed"
    assert {1: reason, 3: reason} == layouts.unknown
    assert layouts.refuses_unknown
    assert not compile_layouts([dropped], SessionSettings(unknown_types="null")).refuses_unknown
    assert {} == compile_layouts([dropped], SessionSettings(unknown_types="hex")).unknown


def test_columns_that_are_not_shown_are_as_if_dropped() -> None:
    schema = make_schema(INT4, make_column(2, XML_SCHEMA, missing=plain(b"abc")), TEXT_TYPE)
    layouts = compile_layouts([schema, schema, make_schema(INT8)], SESSION, [{1, 3}, {2}, None])
    assert [0, 1, 0, 1, 0, 1, 0] == layouts.columns[:, DROPPED].tolist()
    assert [4, -1, -1, 4, -1, -1, 8] == layouts.columns[:, LENGTH].tolist()
    assert [4] == list(layouts.unknown)
    assert 'column "c2" of table "public.t"' == column_label(layouts, 1)


@pytest.mark.parametrize(
    "column",
    [
        make_column(2, INT4),
        make_column(1, INT4, missing=b"abc"),
        make_column(1, TEXT_TYPE, missing=b""),
        make_column(1, TEXT_TYPE, missing=short(b"abc")[:-1]),
        make_column(1, TEXT_TYPE, missing=plain(b"abc") + b"x"),
        make_column(1, TEXT_TYPE, missing=compressed(b"abc" * 50)[:-1]),
        make_column(1, TEXT_TYPE, missing=toast_pointer(7, 100, 100)),
        dataclasses.replace(make_column(1, INT4), attlen=0),
        dataclasses.replace(make_column(1, INT4), attlen=-2),
        dataclasses.replace(make_column(1, INT4), attalign="x"),
        dataclasses.replace(make_column(1, INT4), type=None),
    ],
)
def test_columns_that_no_relation_could_have_are_refused(column: Column) -> None:
    with pytest.raises(CatalogError, match="column"):
        compile_layouts([make_schema(column)], SESSION)
