# ruff: noqa: SIM300 - asserts read "expected == actual"
"""Cells as Arrow columns, against values made in plain Python."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrow_types import values_of
from headwater.catalog.relation import Column, RelationSchema
from headwater.errors import DecodingError
from headwater.rows.columns import _parse
from headwater.rows.columns.arrow import Rows, change_rows, images, old_is_key
from headwater.rows.columns.column_types import NULL, STRING
from headwater.rows.columns.table_columns import TypedRows, TypedTable, typed_columns
from headwater.rows.items import OLD_IS_KEY, Cells
from headwater.rows.session import SessionSettings
from headwater.rows.tuples.layout import compile_layouts
from headwater.rows.tuples.render import locate, render
from unit.rows.plain_tuples import (
    BOOL,
    BYTEA,
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
    UUID,
    Slice,
    form_tuple,
    make_column,
    make_schema,
    packed,
    short,
    toast_pointer,
)

EPOCH_2000 = 946_684_800 * 1_000_000
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def run(made: Slice, *schemas: RelationSchema, session: SessionSettings | None = None) -> Cells:
    return render(made.array(), made.items(), compile_layouts(schemas, session or SessionSettings()))


def typed(
    made: Slice,
    table: TypedTable,
    *versions: RelationSchema,
    session: SessionSettings | None = None,
    rows: Rows | None = None,
) -> TypedRows:
    """Make typed columns of a slice's changes."""
    session, schemas = session or SessionSettings(), versions or (table.schema,)
    located = locate(made.array(), made.items(), compile_layouts(schemas, session))
    return typed_columns(located, made.items(), table, session, schemas=schemas, rows=rows)


def column_of(
    column: Column, datums: list[bytes | None], session: SessionSettings | None = None, *, misfits: str = "error"
) -> pa.Array[Any]:
    schema = make_schema(column)
    made = Slice()
    for datum in datums:
        made.insert(form_tuple(schema.columns, [datum]))
    typed_rows = typed(made, TypedTable(schema, misfits), session=session)
    typed_rows.rows.validate(full=True)
    return typed_rows.rows.column(0)


def numeric(sign: int, scale: int, weight: int, *digits: int) -> bytes:
    return short(
        struct.pack("<HH", 0x8000 | sign << 13 | scale << 7 | weight & 0x7F, digits[0])
        + struct.pack(f"<{len(digits) - 1}H", *digits[1:])
    )


def numeric_typmod(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


def test_images_map_names_to_text() -> None:
    orders = make_schema(make_column(1, INT4, name="id"), make_column(2, TEXT_TYPE, name="note"), name="orders")
    items = make_schema(
        make_column(1, INT8, name="key"),
        make_column(2, INT4, dropped=True),
        make_column(3, TEXT_TYPE, name="big"),
        make_column(4, BOOL, name="flag"),
    )
    made = Slice()
    made.chunk(9, 0, b"unused")
    made.insert(form_tuple(orders.columns, [struct.pack("<i", 1), short(b"a")]))
    made.literal()
    made.update(
        form_tuple(items.columns, [struct.pack("<q", 2), struct.pack("<i", 7), toast_pointer(8, 9999, 9999), None]),
        form_tuple(items.columns, [struct.pack("<q", 1), None, None, None]),
        layout=1,
        flags=OLD_IS_KEY,
    )
    made.update(
        form_tuple(orders.columns, [struct.pack("<i", 1), None]),
        form_tuple(orders.columns, [struct.pack("<i", 1), None]),
    )
    made.delete(form_tuple(orders.columns, [struct.pack("<i", 5)]))
    made.delete(None)
    cells = run(made, orders, items)
    row_images = images(cells, made.items(), [orders, items])
    row_images.before.validate(full=True)
    row_images.after.validate(full=True)
    assert [1, 3, 4, 5, 6] == row_images.rows.tolist()
    assert values_of(row_images.before) == [
        None,
        [("key", "1")],
        [("id", "1"), ("note", None)],
        [("id", "5"), ("note", None)],
        None,
    ]
    assert values_of(row_images.after) == [
        [("id", "1"), ("note", "a")],
        [("key", "2"), ("flag", None)],
        [("id", "1"), ("note", None)],
        None,
        None,
    ]
    assert [[], ["big"], [], [], []] == row_images.unchanged.to_pylist()
    assert [None, True, False, False, None] == old_is_key(cells.old_first, made.items(), row_images.rows).to_pylist()


def test_images_take_unchanged_values_from_the_old_tuple() -> None:
    schema = make_schema(make_column(1, INT4, name="id"), make_column(2, TEXT_TYPE, name="big"))
    pointer, number = toast_pointer(8, 9999, 9999), struct.pack("<i", 1)
    made = Slice()
    made.update(form_tuple(schema.columns, [number, pointer]), form_tuple(schema.columns, [number, short(b"old")]))
    made.update(
        form_tuple(schema.columns, [number, pointer]), form_tuple(schema.columns, [number, None]), flags=OLD_IS_KEY
    )
    made.update(form_tuple(schema.columns, [number, pointer]))
    made.update(form_tuple(schema.columns, [number, None]))
    row_images = images(run(made, schema), made.items(), [schema])
    after = [[("id", "1"), ("big", "old")], [("id", "1")], [("id", "1")], [("id", "1"), ("big", None)]]
    assert after == values_of(row_images.after)
    assert [[], ["big"], ["big"], []] == row_images.unchanged.to_pylist()


def test_virtual_columns_are_in_neither_form() -> None:
    made_up = dataclasses.replace(make_column(2, INT4, name="double"), generated="v")
    schema = make_schema(make_column(1, INT4, name="id"), made_up)
    made = Slice()
    made.insert(form_tuple(schema.columns, [struct.pack("<i", 1), None]))
    cells = run(made, schema)
    assert [[("id", "1")]] == values_of(images(cells, made.items(), [schema]).after)
    assert ["id"] == typed(made, TypedTable(schema)).rows.schema.names


def test_no_changes_at_all() -> None:
    schema = make_schema(INT4, TEXT_TYPE)
    made = Slice()
    made.literal()
    cells = run(made, schema)
    assert 0 == len(images(cells, made.items(), [schema]).after)
    assert 0 == typed(made, TypedTable(schema)).rows.num_rows
    made.delete(None)
    cells = run(made, schema)
    assert [None] == values_of(images(cells, made.items(), [schema]).before)
    assert [{"c1": None, "c2": None}] == typed(made, TypedTable(schema)).rows.to_pylist()


def test_rows_are_new_tuples_or_deleted_ones_and_unchanged_values_come_from_the_old() -> None:
    schema = make_schema(make_column(1, INT4, name="id"), make_column(2, TEXT_TYPE, name="big"))
    pointer = toast_pointer(8, 9999, 9999)
    made = Slice()
    made.insert(form_tuple(schema.columns, [struct.pack("<i", 1), short(b"a")]))
    made.update(
        form_tuple(schema.columns, [struct.pack("<i", 2), pointer]),
        form_tuple(schema.columns, [struct.pack("<i", 1), short(b"from old")]),
    )
    made.update(form_tuple(schema.columns, [struct.pack("<i", 3), pointer]))
    made.delete(form_tuple(schema.columns, [struct.pack("<i", 3), None]))
    made.update(form_tuple(schema.columns, [struct.pack("<i", 3), None]))
    table = TypedTable(schema)
    typed_rows = typed(made, table)
    assert {"id": [1, 2, 3, 3, 3], "big": ["a", "from old", None, None, None]} == typed_rows.rows.to_pydict()
    old = [None, {"id": 1, "big": "from old"}, None, {"id": 3, "big": None}, None]
    assert old == values_of(typed_rows.before)
    assert [[], [], ["big"], [], []] == typed_rows.unchanged.to_pylist()
    some = typed(made, table, rows=np.array([3, 0]))
    assert {"id": [3, 1], "big": [None, "a"]} == some.rows.to_pydict()


def test_older_versions_of_a_table_show_null_for_columns_they_did_not_have() -> None:
    before = make_schema(make_column(1, INT4), make_column(2, INT4))
    after = make_schema(make_column(1, INT4), make_column(2, INT4, dropped=True), make_column(3, TEXT_TYPE, name="new"))
    made = Slice()
    made.insert(form_tuple(before.columns, [struct.pack("<i", 1), struct.pack("<i", 2)]))
    made.insert(form_tuple(after.columns, [struct.pack("<i", 3), None, short(b"x")]), layout=1)
    typed_rows = typed(made, TypedTable(after), before, after)
    assert {"c1": [1, 3], "new": [None, "x"]} == typed_rows.rows.to_pydict()


@pytest.mark.parametrize(
    ("type", "code", "values"),
    [
        (INT2, "<h", [0, -1, 32767, -32768]),
        (INT4, "<i", [0, -1, 2**31 - 1, -(2**31)]),
        (INT8, "<q", [0, 9, -10, INT64_MAX, INT64_MIN]),
        (BOOL, "<?", [True, False]),
        (FLOAT4, "<f", [0.0, 1.5, -3.4028234663852886e38, float("inf"), float("-inf")]),
        (FLOAT8, "<d", [0.1, -1e-300, 1.7976931348623157e308, float("inf")]),
    ],
)
def test_numbers(type: object, code: str, values: list[object]) -> None:
    actual = column_of(make_column(1, type), [None, *(struct.pack(code, value) for value in values)])  # type: ignore[arg-type]
    assert [None, *values] == actual.to_pylist()


def test_not_a_number() -> None:
    assert np.isnan(column_of(make_column(1, FLOAT8), [struct.pack("<d", float("nan"))])[0].as_py())


def test_numerics_with_a_precision_are_decimals() -> None:
    column = dataclasses.replace(make_column(1, NUMERIC), typmod=numeric_typmod(8, 2))
    actual = column_of(column, [numeric(0, 2, 0, 12, 3400), numeric(1, 2, 0, 7), None])
    assert pa.decimal128(8, 2) == actual.type
    assert [decimal.Decimal("12.34"), decimal.Decimal("-7.00"), None] == actual.to_pylist()


@pytest.mark.parametrize(
    ("typmod", "name"),
    [
        (-1, "STRING"),
        (numeric_typmod(38, 10), "DECIMAL(38,10)"),
        (numeric_typmod(39, 10), "STRING"),
        (numeric_typmod(5, -2), "DECIMAL(7,0)"),
        (numeric_typmod(37, -2), "STRING"),
        (numeric_typmod(2, 5), "DECIMAL(5,5)"),
        (numeric_typmod(5, 0), "DECIMAL(5,0)"),
    ],
)
def test_which_numerics_are_decimals(typmod: int, name: str) -> None:
    schema = make_schema(dataclasses.replace(make_column(1, NUMERIC, name="n"), typmod=typmod))
    assert f"`n` {name}" == TypedTable(schema).spark_columns
    assert "`n` STRING" == TypedTable(schema, STRING).spark_columns


def test_a_decimal_that_does_not_fit_is_an_error() -> None:
    column = dataclasses.replace(make_column(1, NUMERIC, name="total"), typmod=numeric_typmod(3, 0))
    with pytest.raises(DecodingError, match=r'value of column "total" of .* does not fit type DECIMAL'):
        column_of(column, [numeric(0, 0, 1, 12, 3456)])


FIRST_DAY, LAST_DAY = -719_162 - 10_957, 2_932_896 - 10_957


@given(st.lists(st.none() | st.integers(FIRST_DAY, LAST_DAY), min_size=1))
def test_dates(days: list[int | None]) -> None:
    actual = column_of(make_column(1, DATE), [None if day is None else struct.pack("<i", day) for day in days])
    assert [None if day is None else dt.date(2000, 1, 1) + dt.timedelta(day) for day in days] == actual.to_pylist()


FIRST_MICRO, LAST_MICRO = FIRST_DAY * 86_400_000_000, (LAST_DAY + 1) * 86_400_000_000 - 1
MICROS = st.integers(FIRST_MICRO, LAST_MICRO) | st.sampled_from([FIRST_MICRO, LAST_MICRO])


@given(st.lists(st.none() | MICROS, min_size=1), st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "5"]))
def test_timestamps(values: list[int | None], zone: str) -> None:
    datums = [None if value is None else struct.pack("<q", value) for value in values]
    wanted = [None if value is None else value + EPOCH_2000 for value in values]
    plain = column_of(make_column(1, TIMESTAMP), datums)
    assert pa.timestamp("us") == plain.type
    assert wanted == plain.cast(pa.int64()).to_pylist()
    zoned = column_of(make_column(1, TIMESTAMPTZ), datums, SessionSettings(timezone=zone))
    assert pa.timestamp("us", "UTC") == zoned.type
    assert wanted == zoned.cast(pa.int64()).to_pylist()


NAN, POSITIVE, NEGATIVE = (short(struct.pack("<H", header)) for header in (0xC000, 0xD000, 0xF000))
NUMERIC_8_2 = dataclasses.replace(make_column(1, NUMERIC), typmod=numeric_typmod(8, 2))
UNREPRESENTABLE = [
    *[
        (make_column(1, DATE), struct.pack("<i", day), *what)
        for day, *what in (
            (2**31 - 1, "infinity", b"infinity"),
            (-(2**31), "infinity", b"-infinity"),
            (FIRST_DAY - 1, "a date before the year 1", b"0001-12-31 BC"),
            (-2_451_545, "a date before the year 1", b"4714-11-24 BC"),
            (LAST_DAY + 1, "a date after the year 9999", b"10000-01-01"),
            (2_147_483_493, "a date after the year 9999", b"5881610-02-07"),
        )
    ],
    *[
        (make_column(1, type), struct.pack("<q", micros), what, text + zone)
        for micros, what, text in (
            (FIRST_MICRO - 1, "a date before the year 1", b"0001-12-31 23:59:59.999999"),
            (LAST_MICRO + 1, "a date after the year 9999", b"10000-01-01 00:00:00"),
            (9_223_371_331_199_999_999, "a date after the year 9999", b"294276-12-31 23:59:59.999999"),
            (-211_813_488_000_000_000, "a date before the year 1", b"4714-11-24 00:00:00"),
        )
        for type, zone in ((TIMESTAMP, b""), (TIMESTAMPTZ, b"+00"))
    ],
    *[
        (make_column(1, type), struct.pack("<q", micros), "infinity", text)
        for micros, text in ((INT64_MAX, b"infinity"), (INT64_MIN, b"-infinity"))
        for type in (TIMESTAMP, TIMESTAMPTZ)
    ],
    (NUMERIC_8_2, NAN, "NaN", b"NaN"),
    (NUMERIC_8_2, POSITIVE, "infinity", b"Infinity"),
    (NUMERIC_8_2, NEGATIVE, "infinity", b"-Infinity"),
]


@pytest.mark.parametrize(("column", "datum", "what", "text"), UNREPRESENTABLE)
def test_what_spark_cannot_hold_is_an_error_null_or_text(column: Column, datum: bytes, what: str, text: bytes) -> None:
    with pytest.raises(DecodingError, match=f'column "c1" of table "public.t" holds {what}, which') as caught:
        column_of(column, [None, datum])
    assert 0x1040 == caught.value.lsn
    assert text.decode() not in caught.value.message.replace(f"holds {what}", "")
    assert [None, None] == column_of(column, [None, datum], misfits=NULL).to_pylist()
    actual = values_of(column_of(column, [None, datum], misfits=STRING))
    assert actual[0] is None
    assert text.decode().removesuffix(" BC") == actual[1].removesuffix(" BC")


@given(st.lists(st.integers(-2_451_545, 2_145_031_948), min_size=1))
def test_only_dates_that_spark_shows_are_no_nulls(days: list[int]) -> None:
    actual = column_of(make_column(1, DATE), [struct.pack("<i", day) for day in days], misfits=NULL)
    wanted = [dt.date(2000, 1, 1) + dt.timedelta(day) if FIRST_DAY <= day <= LAST_DAY else None for day in days]
    assert wanted == actual.to_pylist()


@given(st.lists(st.integers(-211_813_488_000_000_000, 9_223_371_331_199_999_999), min_size=1))
def test_only_timestamps_that_spark_shows_are_no_nulls(values: list[int]) -> None:
    for type in (TIMESTAMP, TIMESTAMPTZ):
        actual = column_of(make_column(1, type), [struct.pack("<q", value) for value in values], misfits=NULL)
        wanted = [value + EPOCH_2000 if FIRST_MICRO <= value <= LAST_MICRO else None for value in values]
        assert wanted == actual.cast(pa.int64()).to_pylist()


@pytest.mark.parametrize("output", ["hex", "escape"])
@given(values=st.lists(st.none() | st.binary(max_size=200), min_size=1))
def test_bytea(output: str, values: list[bytes | None]) -> None:
    datums = [None if value is None else packed(value) for value in values]
    actual = column_of(make_column(1, BYTEA), datums, SessionSettings(bytea_output=output))
    assert values == actual.to_pylist()


@given(st.lists(st.none() | st.text(max_size=40), min_size=1))
def test_texts(values: list[str | None]) -> None:
    actual = column_of(
        make_column(1, TEXT_TYPE), [None if value is None else packed(value.encode()) for value in values]
    )
    assert values == actual.to_pylist()


def test_text_that_is_not_utf8_is_an_error() -> None:
    schema = make_schema(TEXT_TYPE, TEXT_TYPE)
    made = Slice()
    made.insert(form_tuple(schema.columns, [short(b"\xc3"), short(b"\xa4")]))
    cells = run(made, schema)
    with pytest.raises(DecodingError, match="not valid UTF-8"):
        images(cells, made.items(), [schema])
    with pytest.raises(DecodingError, match=r'column "c1" of table "public\.t" is not valid UTF-8'):
        typed(made, TypedTable(schema))


def test_spark_schema_quotes_names_and_leaves_dropped_columns_out() -> None:
    schema = make_schema(
        make_column(1, INT4, name="id"),
        make_column(2, INT4, dropped=True),
        make_column(3, TIMESTAMPTZ, name="odd `name`"),
        make_column(4, UUID, name="u"),
        make_column(5, dataclasses.replace(INT8, oid=16500, name="big", typtype="d", base=INT8), name="domain"),
    )
    table = TypedTable(schema)
    assert "`id` INT, `odd ``name``` TIMESTAMP, `u` STRING, `domain` BIGINT" == table.spark_columns
    assert "STRUCT<`id`: INT, `odd ``name```: TIMESTAMP, `u`: STRING, `domain`: BIGINT>" == table.spark_struct
    assert ["id", "odd `name`", "u", "domain"] == table.arrow_schema.names


@pytest.mark.parametrize("text", [b"", b"-", b"+1", b"1x", b"9223372036854775808", b"-9223372036854775809", b"9" * 30])
def test_no_whole_numbers(text: bytes) -> None:
    data, single = np.frombuffer(bytearray(text), dtype=np.uint8), np.array([0])
    length = np.array([len(text)], dtype=np.int32)
    fits = np.zeros(1, dtype=np.uint8)
    assert 1 == _parse.parse_numbers(_parse.INTEGERS, data, single, length, single, np.zeros(1, dtype=np.int64), fits)
    assert [_parse.UNREADABLE] == fits.tolist()


NUMBERS: list[tuple[int, type]] = [
    (_parse.INTEGERS, np.int64),
    (_parse.DATES, np.int32),
    (_parse.TIMESTAMPS, np.int64),
]


@given(text=st.text(alphabet="0123456789-+:. BCinfinity\\x", max_size=40).map(str.encode), cut=st.integers(0, 40))
def test_parsers_read_any_text_or_say_so(text: bytes, cut: int) -> None:
    data = np.frombuffer(bytearray(text + b"5" * 20), dtype=np.uint8)
    start, length, picks = np.array([0]), np.array([min(cut, len(text))], dtype=np.int32), np.array([0])
    for form, dtype in NUMBERS:
        fits = np.full(1, 0xEE, dtype=np.uint8)
        misfits = _parse.parse_numbers(form, data, start, length, picks, np.zeros(1, dtype=dtype), fits)
        assert misfits == (fits[0] != _parse.FITS)
        assert fits[0] <= _parse.AFTER_YEAR_9999
    out = np.full(len(text) + 5, 0xEE, dtype=np.uint8)
    offsets = np.zeros(2, dtype=np.int64)
    assert _parse.parse_values(_parse.BYTEA, data, start, length, picks, out, offsets) in (_parse.DONE, 0)
    assert (out[length[0] :] == 0xEE).all()


@given(
    text=st.sampled_from([b"1999-12-31 23:59:59.999999+05:30", b"0044-03-15 12:00:00 BC", b"-1234", b"2024-02-29"]),
    at=st.integers(0, 31),
    byte=st.integers(0, 255),
)
def test_parsers_do_not_stumble_over_mutated_text(text: bytes, at: int, byte: int) -> None:
    mutated = bytearray(text)
    mutated[at % len(text)] = byte
    data = np.frombuffer(mutated, dtype=np.uint8)
    start, length, picks = np.array([0]), np.array([len(text)], dtype=np.int32), np.array([0])
    for form, dtype in NUMBERS:
        fits = np.full(1, 0xEE, dtype=np.uint8)
        misfits = _parse.parse_numbers(form, data, start, length, picks, np.zeros(1, dtype=dtype), fits)
        assert misfits == (fits[0] != _parse.FITS)
        assert fits[0] <= _parse.AFTER_YEAR_9999


def test_change_rows_leave_literals_and_chunks_out() -> None:
    schema = make_schema(INT4)
    made = Slice()
    made.literal()
    made.insert(form_tuple(schema.columns, [struct.pack("<i", 1)]))
    made.chunk(1, 0, b"x")
    made.delete(None)
    assert [1, 3] == change_rows(made.items()).tolist()
