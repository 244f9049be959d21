"""Conditions of ``--publish``: each is the expression that the server makes of the same text, or is refused.

The server's is read back from ``pg_publication_rel`` and compiled, so is ours. What such expressions are computed to be
is compared with servers by :mod:`test_filter_oracle`. ``--expressions`` says how many random ones there are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pgparse
import psycopg
import pytest

from headwater.catalog.relation import Column
from headwater.errors import UnsupportedFilterError
from headwater.filters.analysis import analyzed
from headwater.filters.compiling import compile_expression
from headwater.filters.functions import FilterSettings
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from server_versions import release_of
from values import filter_grammar
from values.filter_grammar import COLUMNS, KINDS, Grammar
from values.filter_values import IS_VALID, pool
from values.stored_tuples import schema_of

pytestmark = pytest.mark.server

MAJORS, ALL_MAJORS = (18,), (15, 16, 17, 18)
FEW, TIMES = 300, 2
SPOKEN = (
    "c_int4 IN (1, 2.5, 3)",
    "c_int4 IN (1, NULL, 3) OR c_int4 NOT IN ('1', '2')",
    "c_float4 IN (0.1, 2)",
    "c_int8 IN (1, 2) AND c_numeric IN (1, 2)",
    "c_bpchar IN ('a', 'b') AND c_text NOT IN ('a', 'b', c_varchar)",
    "c_int8 = ANY (ARRAY[1, 2000000000000])",
    "c_int4 < ALL (ARRAY[c_int2 + 1, 30])",
    "c_text LIKE ANY (ARRAY['a%', '%b'])",
    "c_varchar <> ALL (ARRAY['a', c_text])",
    "c_int4 = ANY (c_int4s) OR c_int8 <> ALL (c_int4s)",
    "c_int4 = ANY ('{1, 2,30}')",
    "CASE c_int2 WHEN 1 THEN true WHEN 2.0 THEN c_bool END",
    "CASE WHEN c_bool THEN c_int4 WHEN c_bool IS NULL THEN c_numeric END > 5",
    "CASE c_varchar WHEN 'a' THEN 'x' WHEN 'b' THEN c_text ELSE NULL END = 'x'",
    "COALESCE(NULL, c_varchar, c_text, 'none') = 'none' AND COALESCE(c_int2, c_numeric, 1) = 2",
    "NULLIF(c_int4, 7) IS NULL OR NULLIF(c_int2, 2.0) = 1 OR NULLIF(c_varchar, 'a') IS NULL",
    "GREATEST(c_int4, c_int2, 12.5) = 12.5 OR LEAST(c_numeric, c_float8) < 0.5 OR LEAST(c_date, '2024-01-01') = c_date",
    "length(c_bpchar) = 2 AND length(c_varchar) = 1 AND length(c_bytea) = 3 AND length('a') = 1",
    "substring(c_varchar FROM 2 FOR 1) = 'a' AND trim(BOTH 'a' FROM c_text) = 'b' AND position('a' IN c_text) = 1",
    "extract(month FROM c_date) = 2 AND date_part('day', c_timestamp) = 3",
    "repeat(c_jsonb ->> 0, 3) !~* 'a'",
    "round(c_numeric, 1) = 1.5 AND round(c_float4) = 2 AND abs(c_int2) = 1 AND mod(c_int8, 7) = 3",
)  # fmt: skip
"""What the grammar has not, or seldom."""

MORE_THAN_A_FILTER = ("c_varchar IN ('a', 'b')", "c_varchar NOT IN ('a', c_text, 'b')")
"""The server has these in SELECT, but in no row filter, as one array is taken for another; here they mean the same."""


@dataclass(frozen=True)
class Table:
    """A table with a column of each type, and the publication that filters it."""

    connection: psycopg.Connection[Any]
    columns: Sequence[Column]
    grammar: Grammar
    settings: FilterSettings

    def of_server(self, condition: str) -> str | None:
        """Return the tree that the server makes of a condition; None if it does not take it for a filter."""
        try:
            self.connection.execute(f"alter publication some_rows set table filtered where ({condition})".encode())
        except psycopg.errors.FeatureNotSupported:
            return None
        row = self.connection.execute("select prqual::text from pg_publication_rel").fetchone()
        assert row is not None
        return str(row[0])

    def of_ours(self, condition: str) -> str:
        statement = pgparse.parse(f"select 1 where {condition}")[0]["stmt"]["SelectStmt"]
        return analyzed(statement["whereClause"], self.columns, self.settings.major, self.settings.encoding)

    def compare(self, condition: str) -> str:
        """Compare a condition: ``same``, or ``refused`` here or there."""
        expected = self.of_server(condition)
        try:
            expression = compile_expression(self.of_ours(condition), self.columns, self.settings)
        except UnsupportedFilterError:
            return "refused"
        assert expected is not None, condition
        assert repr(expression) == repr(compile_expression(expected, self.columns, self.settings)), condition
        return "same"


@pytest.fixture(scope="session")
def own_table(server: EmbeddedPostgres) -> Iterator[Table]:
    major = server.programs.major
    with server.connect() as opened:
        opened.execute("create database own_conditions")
    with server.connect("own_conditions") as connection:
        r = random.Random(f"own conditions {major}")
        connection.execute(IS_VALID)
        columns = ", ".join(f"c_{name} {type_name}" for name, type_name in COLUMNS.items())
        connection.execute(f"create table filtered (id int primary key, {columns})".encode())
        pools = {KINDS.get(name, name): pool(connection, name, type, r) for name, type in COLUMNS.items()}
        connection.execute("create publication some_rows with (publish = 'insert')")
        query = "select attnum::int, attcollation::int8 from pg_attribute where attrelid = 'filtered'::regclass"
        collations = dict(connection.execute(query).fetchall())
        schema_columns = schema_of(connection, "filtered", {}).columns
        known = tuple(replace(column, collation=collations[column.number]) for column in schema_columns)
        grammar = Grammar(r, pools, filter_grammar.FUNCTIONS)
        yield Table(
            connection,
            known,
            grammar,
            FilterSettings(major, "UTF8", "C", "C", server_version=release_of(server.programs)),
        )


@pytest.mark.parametrize("condition", SPOKEN)
def test_a_condition(own_table: Table, condition: str) -> None:
    assert own_table.compare(condition) == "same"


@pytest.mark.parametrize("condition", MORE_THAN_A_FILTER)
def test_more_than_a_filter_may_have(own_table: Table, condition: str) -> None:
    assert own_table.of_server(condition) is None
    compile_expression(own_table.of_ours(condition), own_table.columns, own_table.settings)


def test_random_conditions(own_table: Table, request: pytest.FixtureRequest) -> None:
    wanted = request.config.getoption("--expressions") or FEW
    counts = Counter(own_table.compare(own_table.grammar.filter()) for _ in range(wanted))
    print(f"PostgreSQL {own_table.settings.major}: {dict(counts)}")
    assert counts["same"] > wanted / 8


@pytest.mark.parametrize("kind", sorted(filter_grammar.FUNCTIONS))
def test_every_function(own_table: Table, kind: str) -> None:
    """Each template by itself, with columns and with literals."""
    for template, arguments in filter_grammar.FUNCTIONS[kind]:
        for _ in range(TIMES):
            call = template.format(*(own_table.grammar.argument(argument, 0) for argument in arguments))
            own_table.compare(call if kind == "bool" else f"({call}) = {own_table.grammar.column(kind)}")
