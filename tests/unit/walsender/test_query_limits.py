"""Queries of any form: an answer or an error, whatever nests how deep; values that go there and back."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import SessionError
from headwater.pg.version import VERSIONS
from headwater.rows.session import SessionSettings
from headwater.walsender.queries.expressions import NotHereError, ParameterTypes
from headwater.walsender.queries.functions import Known
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
