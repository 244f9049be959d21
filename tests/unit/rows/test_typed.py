# ruff: noqa: SIM300 - asserts read "expected == actual"
"""Columns of one table from tuples of its older versions, and of other relations that bore its name."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence

import pytest

from arrow_types import values_of
from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.errors import DecodingError
from headwater.rows.columns.column_types import NULL, STRING
from headwater.rows.columns.table_columns import TypedRows, TypedTable, typed_columns
from headwater.rows.session import SessionSettings
from headwater.rows.tuples.layout import compile_layouts
from headwater.rows.tuples.render import locate
from unit.rows.plain_tuples import (
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    TEXT_TYPE,
    TIMESTAMP,
    TIMESTAMPTZ,
    Slice,
    form_tuple,
    make_column,
    make_schema,
    short,
    toast_pointer,
)


def integer(value: int) -> bytes:
    return struct.pack("<i", value)


def typed(made: Slice, versions: Sequence[RelationSchema], table: TypedTable) -> TypedRows:
    session = SessionSettings()
    located = locate(made.array(), made.items(), compile_layouts(versions, session))
    typed_rows = typed_columns(located, made.items(), table, session, schemas=versions)
    typed_rows.rows.validate(full=True)
    typed_rows.before.validate(full=True)
    typed_rows.unchanged.validate(full=True)
    return typed_rows


def test_columns_are_known_by_number_whatever_their_names() -> None:
    before = make_schema(make_column(1, INT4, name="a"), make_column(2, INT4, name="b"), name="was_named_so")
    after = make_schema(make_column(1, INT4, name="b"), make_column(2, INT4, name="a"))
    made = Slice()
    made.insert(form_tuple(before.columns, [integer(1), integer(100)]))
    assert {"b": [1], "a": [100]} == typed(made, [before], TypedTable(after)).rows.to_pydict()


def test_columns_of_another_relation_are_known_by_name() -> None:
    other = make_schema(
        make_column(1, TEXT_TYPE, name="gone"),
        make_column(2, INT4, name="b"),
        make_column(3, INT4, dropped=True),
        make_column(4, INT2, name="a"),
        oid=16999,
    )
    table = make_schema(make_column(1, INT4, name="a"), make_column(2, INT4, name="b"), make_column(3, INT4, name="c"))
    made = Slice()
    made.insert(form_tuple(other.columns, [short(b"x"), integer(100), None, struct.pack("<h", 1)]))
    made.insert(form_tuple(table.columns, [integer(2), integer(200), integer(3)]), layout=1)
    rows = typed(made, [other, table], TypedTable(table)).rows
    assert {"a": [1, 2], "b": [100, 200], "c": [None, 3]} == rows.to_pydict()


def test_a_column_that_was_made_again_starts_anew() -> None:
    before = make_schema(make_column(1, INT4, name="id"), make_column(2, INT4, name="v"))
    after = make_schema(
        make_column(1, INT4, name="id"), make_column(2, INT4, dropped=True), make_column(3, INT4, name="v")
    )
    made = Slice()
    made.insert(form_tuple(before.columns, [integer(1), integer(5)]))
    made.insert(form_tuple(after.columns, [integer(2), None, integer(6)]), layout=1)
    assert {"id": [1, 2], "v": [None, 6]} == typed(made, [before, after], TypedTable(after)).rows.to_pydict()


def test_unchanged_columns_that_are_not_shown_are_not_named() -> None:
    before = make_schema(make_column(1, INT4, name="id"), make_column(2, TEXT_TYPE, name="x"))
    after = make_schema(make_column(1, INT4, name="id"), make_column(2, TEXT_TYPE, dropped=True))
    made = Slice()
    made.update(form_tuple(before.columns, [integer(1), toast_pointer(8, 9999, 9999)]))
    assert [[]] == typed(made, [before], TypedTable(after)).unchanged.to_pylist()
    assert [["x"]] == typed(made, [before], TypedTable(before)).unchanged.to_pylist()


def test_a_table_without_columns() -> None:
    schema = make_schema(make_column(1, INT4, dropped=True))
    made = Slice()
    made.delete(form_tuple(schema.columns, [None]))
    made.delete(None)
    typed_rows = typed(made, [schema], TypedTable(schema))
    assert (2, [{}, None], [[], []]) == (
        typed_rows.rows.num_rows,
        values_of(typed_rows.before),
        typed_rows.unchanged.to_pylist(),
    )


def altered(old: Column, new: Column) -> tuple[list[RelationSchema], TypedTable]:
    versions = [make_schema(make_column(1, INT4, name="id"), column) for column in (old, new)]
    return versions, TypedTable(versions[1])


def decimal_of(precision: int, scale: int) -> Column:
    return dataclasses.replace(make_column(2, NUMERIC, name="v"), typmod=(precision << 16 | scale) + 4)


TWELVE = short(struct.pack("<HHH", 0x8000 | 2 << 7, 12, 5000))  # 12.50
WHOLE = short(struct.pack("<HH", 0x8000, 12))
READABLE = [
    (make_column(2, INT8, name="v"), struct.pack("<q", 7), make_column(2, INT2, name="v"), 7),
    (make_column(2, INT2, name="v"), struct.pack("<h", 7), make_column(2, FLOAT8, name="v"), 7.0),
    (make_column(2, INT4, name="v"), integer(7), decimal_of(5, 2), 7),
    (make_column(2, FLOAT4, name="v"), struct.pack("<f", 0.1), make_column(2, FLOAT8, name="v"), 0.10000000149011612),
    (decimal_of(5, 2), TWELVE, decimal_of(8, 4), 12.5),
    (decimal_of(5, 0), WHOLE, make_column(2, INT4, name="v"), 12),
    (make_column(2, TIMESTAMPTZ, name="v"), bytes(8), make_column(2, TEXT_TYPE, name="v"), "2000-01-01 00:00:00+00"),
]


@pytest.mark.parametrize(("old", "datum", "new", "value"), READABLE)
def test_a_value_of_an_older_type_that_fits(old: Column, datum: bytes, new: Column, value: object) -> None:
    versions, table = altered(old, new)
    made = Slice()
    made.insert(form_tuple(versions[0].columns, [integer(1), datum]))
    assert [value] == typed(made, versions, table).rows.column("v").to_pylist()


UNREADABLE = [
    (make_column(2, INT8, name="v"), struct.pack("<q", 1 << 40), make_column(2, INT4, name="v")),
    (make_column(2, TEXT_TYPE, name="v"), short(b"7"), make_column(2, INT4, name="v")),
    (make_column(2, TIMESTAMP, name="v"), bytes(8), make_column(2, TIMESTAMPTZ, name="v")),
    (make_column(2, TIMESTAMPTZ, name="v"), bytes(8), make_column(2, DATE, name="v")),
    (decimal_of(6, 4), short(struct.pack("<HHH", 0x8000 | 4 << 7, 12, 5001)), decimal_of(5, 1)),
    (decimal_of(5, 2), TWELVE, make_column(2, INT4, name="v")),
]


@pytest.mark.parametrize(("old", "datum", "new"), UNREADABLE)
@pytest.mark.parametrize("misfits", ["error", NULL])
def test_a_value_of_an_older_type_that_does_not_fit(old: Column, datum: bytes, new: Column, misfits: str) -> None:
    versions, table = altered(old, new)
    made = Slice()
    made.insert(form_tuple(versions[0].columns, [integer(1), None]))
    lsn = made.insert(form_tuple(versions[0].columns, [integer(2), datum]))
    with pytest.raises(DecodingError, match=r'column "v" of table "public\.t", whose type was') as caught:
        typed(made, versions, dataclasses.replace(table, on_unrepresentable=misfits))
    assert lsn == caught.value.lsn
    del made.rows[1]
    assert [None] == typed(made, versions, table).rows.column("v").to_pylist()


@pytest.mark.parametrize("type", [DATE, TIMESTAMP, TIMESTAMPTZ, NUMERIC])
def test_types_that_hold_more_than_sparks_can_be_text(type: TypeInfo) -> None:
    column = make_column(1, type) if type is not NUMERIC else dataclasses.replace(decimal_of(5, 2), number=1)
    table = make_schema(column, make_column(2, INT4))
    assert f"`{column.name}` STRING, `c2` INT" == TypedTable(table, STRING).spark_columns
    assert "STRING" not in TypedTable(table, NULL).spark_columns
