# ruff: noqa: SIM300 - asserts read "expected == actual"
"""Cells as Arrow columns, against values made in plain Python."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_tuples import (
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

from headwater.catalog.relation import Column, RelationSchema
from headwater.errors import DecodingError
from headwater.rows import _parse
from headwater.rows.arrow import arrow_schema, change_rows, images, spark_schema, typed_columns
from headwater.rows.items import OLD_IS_KEY, Cells
from headwater.rows.layout import compile_layouts
from headwater.rows.render import render
from headwater.rows.session import SessionSettings

EPOCH_2000 = 946_684_800 * 1_000_000
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def run(made: Slice, *schemas: RelationSchema, session: SessionSettings | None = None) -> Cells:
    return render(made.array(), made.items(), compile_layouts(schemas, session or SessionSettings()))


def column_of(column: Column, datums: list[bytes | None], session: SessionSettings | None = None) -> pa.Array:
    schema = make_schema(column)
    made = Slice()
    for datum in datums:
        made.insert(form_tuple(schema.columns, [datum]))
    batch = typed_columns(run(made, schema, session=session), made.items(), schema)
    batch.validate(full=True)
    return batch.column(0)


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
    found = images(run(made, orders, items), made.items(), [orders, items])
    found.before.validate(full=True)
    found.after.validate(full=True)
    assert [1, 3, 4, 5, 6] == found.rows.tolist()
    assert found.before.to_pylist() == [
        None,
        [("key", "1")],
        [("id", "1"), ("note", None)],
        [("id", "5"), ("note", None)],
        None,
    ]
    assert found.after.to_pylist() == [
        [("id", "1"), ("note", "a")],
        [("key", "2"), ("flag", None)],
        [("id", "1"), ("note", None)],
        None,
        None,
    ]


def test_no_changes_at_all() -> None:
    schema = make_schema(INT4, TEXT_TYPE)
    made = Slice()
    made.literal()
    cells = run(made, schema)
    assert 0 == len(images(cells, made.items(), [schema]).after)
    assert 0 == typed_columns(cells, made.items(), schema).num_rows
    made.delete(None)
    cells = run(made, schema)
    assert [None] == images(cells, made.items(), [schema]).before.to_pylist()
    assert [{"c1": None, "c2": None}] == typed_columns(cells, made.items(), schema).to_pylist()


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
    cells, items = run(made, schema), made.items()
    new, old = typed_columns(cells, items, schema), typed_columns(cells, items, schema, old=True)
    assert {"id": [1, 2, 3, 3], "big": ["a", "from old", None, None]} == new.to_pydict()
    assert {"id": [None, 1, None, 3], "big": [None, "from old", None, None]} == old.to_pydict()
    some = typed_columns(cells, items, schema, rows=np.array([3, 0]))
    assert {"id": [3, 1], "big": [None, "a"]} == some.to_pydict()


def test_older_versions_of_a_table_show_null_for_columns_they_did_not_have() -> None:
    before = make_schema(make_column(1, INT4), make_column(2, INT4))
    after = make_schema(make_column(1, INT4), make_column(2, INT4, dropped=True), make_column(3, TEXT_TYPE, name="new"))
    made = Slice()
    made.insert(form_tuple(before.columns, [struct.pack("<i", 1), struct.pack("<i", 2)]))
    made.insert(form_tuple(after.columns, [struct.pack("<i", 3), None, short(b"x")]), layout=1)
    batch = typed_columns(run(made, before, after), made.items(), after, schemas=[before, after])
    assert {"c1": [1, 3], "new": [None, "x"]} == batch.to_pydict()


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
    found = column_of(make_column(1, type), [None, *(struct.pack(code, value) for value in values)])  # type: ignore[arg-type]
    assert [None, *values] == found.to_pylist()


def test_not_a_number() -> None:
    assert np.isnan(column_of(make_column(1, FLOAT8), [struct.pack("<d", float("nan"))])[0].as_py())


def test_numerics_with_a_precision_are_decimals() -> None:
    column = dataclasses.replace(make_column(1, NUMERIC), typmod=numeric_typmod(8, 2))
    nan = short(struct.pack("<H", 0xC000))
    found = column_of(column, [numeric(0, 2, 0, 12, 3400), numeric(1, 2, 0, 7), nan, None])
    assert pa.decimal128(8, 2) == found.type
    assert [decimal.Decimal("12.34"), decimal.Decimal("-7.00"), None, None] == found.to_pylist()


@pytest.mark.parametrize(
    ("typmod", "name"),
    [
        (-1, "STRING"),
        (numeric_typmod(38, 10), "DECIMAL(38,10)"),
        (numeric_typmod(39, 10), "STRING"),
        (numeric_typmod(5, -2), "STRING"),
        (numeric_typmod(2, 5), "STRING"),
        (numeric_typmod(5, 0), "DECIMAL(5,0)"),
    ],
)
def test_which_numerics_are_decimals(typmod: int, name: str) -> None:
    schema = make_schema(dataclasses.replace(make_column(1, NUMERIC, name="n"), typmod=typmod))
    assert f"`n` {name}" == spark_schema(schema)


def test_a_decimal_that_does_not_fit_is_an_error() -> None:
    column = dataclasses.replace(make_column(1, NUMERIC, name="total"), typmod=numeric_typmod(3, 0))
    with pytest.raises(DecodingError, match='a value of column "total" does not fit type DECIMAL'):
        column_of(column, [numeric(0, 0, 1, 12, 3456)])


FIRST_DAY, LAST_DAY = -719_162 - 10_957, 2_932_896 - 10_957


@given(st.lists(st.none() | st.integers(FIRST_DAY, LAST_DAY), min_size=1))
def test_dates(days: list[int | None]) -> None:
    found = column_of(make_column(1, DATE), [None if day is None else struct.pack("<i", day) for day in days])
    assert [None if day is None else dt.date(2000, 1, 1) + dt.timedelta(day) for day in days] == found.to_pylist()


def test_dates_before_christ_far_off_and_infinite() -> None:
    days = [-2_451_545, FIRST_DAY - 1, LAST_DAY + 1, 2**31 - 1 - 10_957, 2**31 - 1, -(2**31)]
    found = column_of(make_column(1, DATE), [struct.pack("<i", day) for day in days])
    wanted = [day + 10_957 for day in days[:4]]
    assert [*wanted, 2_932_896, -719_162] == found.cast(pa.int32()).to_pylist()


MICROS = st.integers(-211_813_488_000_000_000, 9_223_370_000_000_000_000 - EPOCH_2000)


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


def test_infinite_timestamps_are_sparks_last_and_first() -> None:
    found = column_of(make_column(1, TIMESTAMP), [struct.pack("<q", value) for value in (INT64_MAX, INT64_MIN)])
    assert [dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), dt.datetime(1, 1, 1)] == found.to_pylist()


def test_a_date_beyond_what_32_bits_hold_is_an_error() -> None:
    with pytest.raises(DecodingError, match="does not fit type DATE"):
        column_of(make_column(1, DATE), [struct.pack("<i", 2_147_483_493)])


def test_a_timestamp_beyond_what_64_bits_hold_is_an_error() -> None:
    with pytest.raises(DecodingError, match="does not fit type TIMESTAMP_NTZ"):
        column_of(make_column(1, TIMESTAMP), [struct.pack("<q", 9_223_371_331_199_999_999)])


@pytest.mark.parametrize("output", ["hex", "escape"])
@given(values=st.lists(st.none() | st.binary(max_size=200), min_size=1))
def test_bytea(output: str, values: list[bytes | None]) -> None:
    datums = [None if value is None else packed(value) for value in values]
    found = column_of(make_column(1, BYTEA), datums, SessionSettings(bytea_output=output))
    assert values == found.to_pylist()


@given(st.lists(st.none() | st.text(max_size=40), min_size=1))
def test_texts(values: list[str | None]) -> None:
    found = column_of(
        make_column(1, TEXT_TYPE), [None if value is None else packed(value.encode()) for value in values]
    )
    assert values == found.to_pylist()


def test_text_that_is_not_utf8_is_an_error() -> None:
    schema = make_schema(TEXT_TYPE, TEXT_TYPE)
    made = Slice()
    made.insert(form_tuple(schema.columns, [short(b"\xc3"), short(b"\xa4")]))
    cells = run(made, schema)
    with pytest.raises(DecodingError, match="not valid UTF-8"):
        images(cells, made.items(), [schema])
    with pytest.raises(DecodingError, match='column "c1" is not valid UTF-8'):
        typed_columns(cells, made.items(), schema)


def test_spark_schema_quotes_names_and_leaves_dropped_columns_out() -> None:
    schema = make_schema(
        make_column(1, INT4, name="id"),
        make_column(2, INT4, dropped=True),
        make_column(3, TIMESTAMPTZ, name="odd `name`"),
        make_column(4, UUID, name="u"),
        make_column(5, dataclasses.replace(INT8, oid=16500, name="big", typtype="d", base=INT8), name="domain"),
    )
    assert "`id` INT, `odd ``name``` TIMESTAMP, `u` STRING, `domain` BIGINT" == spark_schema(schema)
    assert ["id", "odd `name`", "u", "domain"] == arrow_schema(schema).names


@pytest.mark.parametrize("text", [b"", b"-", b"+1", b"1x", b"9223372036854775808", b"-9223372036854775809", b"9" * 30])
def test_no_whole_numbers(text: bytes) -> None:
    data, one = np.frombuffer(bytearray(text), dtype=np.uint8), np.array([0])
    length = np.array([len(text)], dtype=np.int32)
    assert 0 == _parse.parse_numbers(_parse.INTEGERS, data, one, length, one, np.zeros(1, dtype=np.int64))


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
        assert _parse.parse_numbers(form, data, start, length, picks, np.zeros(1, dtype=dtype)) in (_parse.DONE, 0)
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
        assert _parse.parse_numbers(form, data, start, length, picks, np.zeros(1, dtype=dtype)) in (_parse.DONE, 0)


def test_change_rows_leave_literals_and_chunks_out() -> None:
    schema = make_schema(INT4)
    made = Slice()
    made.literal()
    made.insert(form_tuple(schema.columns, [struct.pack("<i", 1)]))
    made.chunk(1, 0, b"x")
    made.delete(None)
    assert [1, 3] == change_rows(made.items()).tolist()
