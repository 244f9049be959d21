"""Queries of any form: an answer or an error, whatever nests how deep; values that go there and back."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import SessionError
from headwater.pg.version import VERSIONS
from headwater.rows.session import SessionSettings
from headwater.walsender.queries.expressions import NotHereError, ParameterTypes
from headwater.walsender.queries.functions import Known, View, ViewColumn
from headwater.walsender.queries.grammar import MOST_CHARACTERS, parse_statements
from headwater.walsender.queries.select import compile_select
from headwater.walsender.queries.value_types import INT8, NUMERIC, PG_LSN, TEXT_ARRAY, Printing, ValueType

KNOWN = Known({}, lambda _: None, lambda _, value: str(value))
PRINTING = Printing(VERSIONS[16], SessionSettings())


def rows(text: str) -> list[tuple[object, ...]]:
    """Answer a query that reads nothing."""
    (statement,) = parse_statements(text)
    return compile_select(statement.node, KNOWN, ParameterTypes()).rows([])


@pytest.mark.parametrize(
    "deep",
    ["SELECT " + "1+" * 7000 + "1", "SELECT " + "NOT " * 3900 + "true", "SELECT " + "(" * 7000 + "1" + ")" * 7000]
    + ["SELECT 1" + "::int" * 3000, "SELECT " + "(SELECT " * 1500 + "1" + ")" * 1500, "SELECT a" + "[1]" * 4000],
)
def test_deep_queries_are_answered_or_refused(deep: str) -> None:
    assert len(deep) <= MOST_CHARACTERS
    refusal: Exception | None = None
    try:
        rows(deep)
    except (SessionError, NotHereError, RecursionError) as error:
        refusal = error
    assert not isinstance(refusal, SessionError) or refusal.sqlstate.startswith(("54", "42"))


def test_long_queries_are_refused() -> None:
    with pytest.raises(SessionError, match="too long to be parsed"):
        parse_statements("SELECT " + "1," * MOST_CHARACTERS + "1")


@given(number=st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**20), max_value=10**20))
def test_numbers_go_there_and_back(number: Decimal) -> None:
    assert NUMERIC.receive(NUMERIC.send(number, PRINTING)) == number
    assert NUMERIC.read(NUMERIC.write(number, PRINTING)) == number


@pytest.mark.parametrize(("type", "value"), [(INT8, -5), (PG_LSN, 1 << 40), (TEXT_ARRAY, ("a", None, '"x,\\', ""))])
def test_values_go_there_and_back(type: ValueType, value: object) -> None:
    assert type.receive(type.send(value, PRINTING)) == value
    assert type.read(type.write(value, PRINTING)) == value


NUMBERS = ViewColumn("n", INT8, 1)


def view(count: int, check: Callable[[], None] = lambda: None) -> Known:
    """Return what queries know of one view of so many numbers."""
    numbers = View("numbers", 20000, (NUMBERS,), lambda: ({"n": number} for number in range(count)))
    return Known({}, lambda name: numbers if name == "numbers" else None, lambda _, value: str(value), check=check)


def counted(joins: int, known: Known) -> object:
    """Count the rows of a view that is joined with itself."""
    sources = ", ".join(f"numbers v{place}" for place in range(joins))
    (statement,) = parse_statements(f"SELECT count(*) FROM {sources}")
    return compile_select(statement.node, known, ParameterTypes()).rows([])


def test_a_query_without_an_end_ends_when_it_is_to_end() -> None:
    calls = iter(range(100))

    def check() -> None:
        if next(calls, None) is None:
            raise SessionError("canceling statement due to user request", sqlstate="57014")

    with pytest.raises(SessionError, match="canceling statement"):
        counted(30, view(10, check))


def test_rows_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.walsender.queries.select.MOST_ROWS", 1000)
    assert counted(3, view(10)) == [(1000,)]
    with pytest.raises(SessionError, match="more than 1000 rows") as refused:
        counted(4, view(10))
    assert refused.value.sqlstate == "54000"


@pytest.mark.parametrize(
    "number", ["9" * 5000, "1e999999999", "1e-999999999", "1e1000", "-" + "9" * 1200, "1e100000::numeric * 1e100000"]
)
def test_large_numbers_are_left_to_others(number: str) -> None:
    with pytest.raises(NotHereError):
        rows(f"SELECT {number}")


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [("1e131072", "22003"), ("9" * 5000, "0A000"), ("-NaN", "22P02"), ("x", "22P02")],
)
def test_texts_of_numbers(text: str, sqlstate: str) -> None:
    with pytest.raises(SessionError) as refused:
        rows(f"SELECT '{text}'::numeric")
    assert refused.value.sqlstate == sqlstate


def test_products_keep_all_digits_or_are_refused() -> None:
    assert rows("SELECT 1e700 * 1e200 + 1") == [(10**900 + 1,)]
    with pytest.raises(SessionError, match="digits"):
        rows("SELECT 1e700 * 1e700")
    with pytest.raises(SessionError, match="out of range"):
        rows(f"SELECT '{'9' * 6000}'::int4")
    assert rows(f"SELECT '{'0' * 6000}7'::int4") == [(7,)]


@pytest.mark.parametrize("pattern", ["%a" * 3900 + "%b", "%_a" * 2600 + "%b", "%" + "a" * 7900 + "b\\"])
def test_patterns_take_no_longer_than_their_lengths(pattern: str) -> None:
    assert rows(f"SELECT '{'a' * 8000}' LIKE '{pattern}'") == [(False,)]


def test_a_pattern_that_ends_with_its_escape() -> None:
    with pytest.raises(SessionError) as refused:
        rows("SELECT 'ab' LIKE 'a\\'")
    assert refused.value.sqlstate == "22025"
