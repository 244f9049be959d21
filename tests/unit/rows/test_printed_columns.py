"""Arrays, rows and ranges printed as the server prints them, and read back; any bytes give a value or an error."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.catalog.relation import TypeInfo
from headwater.errors import DecodingError, HeadwaterError
from headwater.rows.columns.column_types import PARQUET, ColumnType, Form, list_of
from headwater.rows.columns.columns import Asked
from headwater.rows.columns.printed_columns import printed_array
from headwater.rows.session import SessionSettings

TYPE = TypeInfo(25, "text", "pg_catalog", "text", "b", -1, "i", False)
TEXT = ColumnType(Form.VERBATIM, pa.string(), TYPE, PARQUET)
TEXTS = ColumnType(Form.LIST, list_of(pa.string()), TYPE, PARQUET, parts=(TEXT,))
PAIR_TYPE = pa.struct([("a", pa.string()), ("b", TEXTS.arrow)])
PAIR = ColumnType(Form.STRUCT, PAIR_TYPE, TYPE, PARQUET, parts=(TEXT, TEXTS))
PAIRS = ColumnType(Form.LIST, list_of(PAIR_TYPE), TYPE, PARQUET, parts=(PAIR,))
BOUNDS = ("lower", "upper")
FLAGS = ("lower_inc", "upper_inc", "isempty")
RANGE_TYPE = pa.struct([*((name, pa.string()) for name in BOUNDS), *((name, pa.bool_()) for name in FLAGS)])
RANGE = ColumnType(Form.RANGE, RANGE_TYPE, TYPE, PARQUET, parts=(TEXT,))
RANGES = ColumnType(Form.MULTIRANGE, list_of(RANGE_TYPE), TYPE, PARQUET, parts=(TEXT,))
PLAIN = (Form.TIME, pa.time64("us")), (Form.UUID, pa.uuid()), (Form.WORDS, pa.int32()), (Form.WORDS, pa.float64())
INTERVAL = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())])
VECTOR = ColumnType(Form.VECTOR, list_of(pa.float32()), TYPE, PARQUET)
SCALARS = [ColumnType(form, arrow, TYPE, PARQUET) for form, arrow in (*PLAIN, (Form.INTERVAL, INTERVAL))]

letters = st.text(st.sampled_from('ab ,"\\{}()[]é'), max_size=5)
texts = st.none() | letters
lists = st.none() | st.lists(texts, max_size=4)


def read(column: ColumnType, values: list[bytes | None]) -> list[Any]:
    asked = Asked(SessionSettings(), False, lambda row: f"row {row}", lambda row: row)
    return printed_array(column, pa.array(values, pa.binary()), np.arange(len(values)), asked).to_pylist()


def in_array(text: str | None) -> str:
    """Print an element as array_out does."""
    if text is None:
        return "NULL"
    if text and text.lower() != "null" and not set(text) & set(' ,"\\{}'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def array(values: list[str | None] | None) -> str | None:
    return None if values is None else "{" + ",".join(map(in_array, values)) + "}"


def in_row(text: str | None, special: str = ' ,"\\()') -> str:
    """Print a field as record_out does, or a bound."""
    if text is None:
        return ""
    if text and not set(text) & set(special):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def encoded(printed: list[str | None]) -> list[bytes | None]:
    return [None if text is None else text.encode() for text in printed]


@given(st.lists(lists, max_size=4))
def test_arrays(values: list[list[str | None] | None]) -> None:
    assert read(TEXTS, encoded([array(value) for value in values])) == values


pairs = st.none() | st.tuples(texts, lists)


def row(pair: tuple[str | None, list[str | None] | None] | None) -> str | None:
    return None if pair is None else f"({in_row(pair[0])},{in_row(array(pair[1]))})"


def as_struct(pair: tuple[str | None, list[str | None] | None] | None) -> dict[str, Any] | None:
    return None if pair is None else {"a": pair[0], "b": pair[1]}


@given(st.lists(pairs, max_size=4))
def test_rows(values: list[tuple[str | None, list[str | None] | None] | None]) -> None:
    assert read(PAIR, encoded([row(value) for value in values])) == [as_struct(value) for value in values]
    both = [[row(value) for value in values], None]
    assert read(PAIRS, encoded([array(value) for value in both])) == [[as_struct(value) for value in values], None]


ranges = st.just(None) | st.tuples(texts, texts, st.booleans(), st.booleans())


def range_text(value: tuple[str | None, str | None, bool, bool] | None) -> str:
    if value is None:
        return "empty"
    lower, upper = (in_row(bound, ' ,"\\()[]') for bound in value[:2])
    return f"{'[' if value[2] else '('}{lower},{upper}{']' if value[3] else ')'}"


def as_range(value: tuple[str | None, str | None, bool, bool] | None) -> dict[str, Any]:
    parts = (None, None, False, False, True) if value is None else (*value, False)
    return dict(zip((*BOUNDS, *FLAGS), parts, strict=True))


@given(st.lists(ranges, max_size=4))
def test_ranges(values: list[tuple[str | None, str | None, bool, bool] | None]) -> None:
    assert read(RANGE, [*encoded([range_text(value) for value in values]), None]) == [*map(as_range, values), None]
    there = [value for value in values if value is not None]
    several = "{" + ",".join(map(range_text, there)) + "}"
    assert read(RANGES, [several.encode(), None, b"{}"]) == [[as_range(value) for value in there], None, []]


@given(
    st.sampled_from([TEXTS, PAIR, PAIRS, RANGE, RANGES, VECTOR, *SCALARS]), st.lists(st.binary(max_size=24), max_size=3)
)
def test_any_bytes_are_a_value_or_an_error(column: ColumnType, values: list[bytes | None]) -> None:
    with suppress(HeadwaterError):
        assert len(read(column, values)) == len(values)


@pytest.mark.parametrize(
    ("column", "text", "words"),
    [
        (TEXTS, b"{{a},{b}}", "an array of several dimensions"),
        (TEXTS, b"[0:1]={a,b}", "an array with bounds"),
        (SCALARS[0], b"24:00:00", "24:00:00"),
        (SCALARS[4], b"infinity", "infinity"),
        (PAIR, b"(a)", "does not fit type"),
        (TEXT, b"\xff", "is not valid UTF-8"),
    ],
)
def test_what_does_not_fit_is_told(column: ColumnType, text: bytes, words: str) -> None:
    with pytest.raises(DecodingError, match=words) as raised:
        read(column, [None, text])
    assert raised.value.lsn == 1
