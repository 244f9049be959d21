"""Expressions in SQL are what ``pg_get_expr`` and its kin print with an empty ``search_path``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ddl.copying import recorded
from headwater.definitions.objects import ConstraintDefinition, IndexDefinition, TableDefinition

pytestmark = pytest.mark.server

SETUP = """
CREATE TYPE mood AS ENUM ('sad', 'it''s');
CREATE TYPE pair AS (x int, y text);
CREATE DOMAIN pos AS int CHECK (VALUE > 0);
CREATE SCHEMA "Other";
CREATE FUNCTION "Other".twice(a int, b int DEFAULT 2) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT a * b';
CREATE FUNCTION total(VARIADIC v int[]) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT v[1]';
CREATE OPERATOR "Other".### (leftarg = int, rightarg = int, function = "Other".twice);
CREATE TABLE t (
  i int, b bigint, s smallint, n numeric(8,2), f float8, x text, v varchar(10), c char(4), "Q" text COLLATE "C", d date,
  z timestamptz, w timestamp, iv interval, k boolean, u uuid, j jsonb, a int[], m mood, p pair, o pos, by bytea,
  bb bit(3), r int4range, ne inet, ch "char", na name, tt time, ts tsvector, ta text[]
);
"""

CONDITIONS = [
    *(
        "i > 0",
        "-i < +3",
        "- 5 < i",
        "b > -7000000000",
        "s = 2::smallint",
        "n >= 1.50",
        "n > 1e3",
        "f < 1.5 OR f = 'NaN'",
    ),
    *("x = 'it''s'", "x LIKE 'a%'", "x !~~ 'b\\c'", "x NOT SIMILAR TO 'a|b'", "x ~ '^a' AND NOT x ~* 'b'", "v = 'abc'"),
    *(
        "c = 'ab'",
        "\"Q\" > 'q'",
        "x COLLATE \"POSIX\" < 'z'",
        "d > '2020-01-01'",
        "d + 1 > d",
        "z > '2020-01-01 12:00+02'",
    ),
    *(
        "w BETWEEN '2020-01-01' AND '2021-01-01'",
        "w NOT BETWEEN SYMMETRIC '2020-01-02' AND '2020-01-01'",
        "iv > '1 day'",
    ),
    *(
        "k",
        "NOT k",
        "k IS TRUE",
        "k IS NOT FALSE",
        "k IS UNKNOWN",
        "i IS NULL",
        "i IS NOT NULL AND x IS NULL",
        "p IS NULL",
    ),
    *("(i, x) IS NOT NULL", "(i, b) < (1, 2)", "i IS DISTINCT FROM 3", "i IS NOT DISTINCT FROM b", "i IN (1, 2, 3)"),
    *("i NOT IN (1, 2)", "x IN ('a', 'b')", "v IN ('a', 'b')", "i = ANY (a)", "i > ALL (ARRAY[1, 2])", "a[1] > a[2]"),
    *(
        "a[1:2] = '{1,2}'",
        "a[:2] = a[2:]",
        "ARRAY[[1,2],[3,4]] = ARRAY[[i,i],[i,i]]",
        "ARRAY[]::int[] = a",
        "a @> '{1}'",
    ),
    *(
        "m = 'sad'",
        "m IN ('sad', 'it''s')",
        "m::text = 'sad'",
        "(p).x > 1",
        "(p).y || 'z' <> ''",
        "ROW(1, 'x')::pair = p",
    ),
    *("o > 3", "o::int + 1 > 2", "by = '\\xdead'", "bb = B'101'", "r @> 5", "r && int4range(1, 5)", "lower(r) = 1"),
    *("ne << '10.0.0.0/8'", "ch = 'a'", "na = 'n'", "tt > '10:00'", "ts @@ to_tsquery('english', 'a & b')"),
    *(
        "j @> '{\"a\": 1}'",
        "j ->> 'a' = '1'",
        "j #>> '{a,b}' = 'x'",
        "j ? 'k'",
        "u = '00000000-0000-0000-0000-000000000001'",
    ),
    *("coalesce(i, s, 5) > 1", "nullif(x, 'a') IS NULL", "greatest(i, 3) > least(s, 4)", "i::text = '5'", "x::int = 5"),
    *(
        "CASE WHEN i > 1 THEN true WHEN i < 0 THEN k END",
        "CASE i WHEN 1 THEN 'a' ELSE x END = 'a'",
        "i::numeric(5,1) > 1",
    ),
    *(
        "x::varchar(3) = 'abc'",
        "x::char(2) = 'ab'",
        "(i + 1) * 2 - 3 / 4 % 5 > 6",
        "i # 3 = i & 1 | 2",
        "i << 2 > ~ i",
        "@ i > 1",
    ),
    *("f ^ 2 > |/ f", "x || v || c <> ''", "length(x) > 1", "lower(x) = upper(v)", "substring(x from 2 for 3) = 'a'"),
    *("substring(x from 'a.') = 'b'", "substring(x similar 'a' escape '#') = 'b'", "position('a' in x) > 0"),
    *("overlay(x placing 'b' from 2) = 'c'", "trim(x) = 'a'", "trim(leading 'x' from v) = 'y'", "rtrim(x, 'y') = ''"),
    *(
        "extract(year from d) > 2000",
        "date_part('day', w) = 1",
        "(d, d + 1) OVERLAPS (d, d + 2)",
        "w AT TIME ZONE 'UTC' > z",
    ),
    *(
        "date_trunc('day', w) = w",
        "\"left\"(x, 2) = 'a'",
        "x IS NFC NORMALIZED",
        "normalize(x, NFD) = x",
        "make_date(2020, 1, 1) < d",
    ),
    *(
        '"Other".twice(i) > 1',
        '"Other".twice(b => i, a => 3) = 3',
        'i OPERATOR("Other".###) 3 > 1',
        "total(1, 2, i) > 1",
    ),
    *(
        "total(VARIADIC a) > 0",
        "i::pos > 0",
        "tableoid > 5",
        "now() > z",
        "CURRENT_DATE > d",
        "localtime > tt",
        "current_user = na",
    ),
    *(
        "CURRENT_TIMESTAMP(2) > z",
        "'2020-01-01'::date < d",
        "interval '2' hour < iv",
        "i::bigint::int = 5",
        "'pg_class'::regclass > 5",
    ),
    *(
        "'int4'::regtype = 'text'::regtype",
        "f = 1.5e300",
        "x > E'tab\\t'",
        "regexp_replace(x, 'a', 'b', 'g') = 'c'",
        "ta && '{a,\"b c\"}'",
    ),
    *("format('%s', x, i) = 'a'", "concat(x, i) = 'a'", "string_to_array(x, ',') = ta", "ta[1] COLLATE \"C\" = 'x'"),
    *(
        "array_length(a, 1) = 1",
        "a || 3 = a",
        "jsonb_build_object('a', i) = j",
        "i BETWEEN 1 AND 3 AND k OR NOT (k AND i = 1)",
    ),
    *(
        "to_char(z, 'YYYY') = '2020'",
        "(NULL::int) IS NULL",
        "x = NULL",
        "true",
        "1.5 < n",
        "'a' < x",
        "'-5'::int < i",
        "1 = i",
    ),
]
INDEXED = [
    *(
        "lower(x)",
        "(i + 1) DESC",
        '(x || v) COLLATE "C" text_pattern_ops NULLS FIRST',
        "coalesce(i, 3)",
        "((p).x)",
        "v",
        "ne",
    ),
    *(
        "c bpchar_pattern_ops",
        "m DESC NULLS LAST",
        "(i::text)",
        "a",
        '("Q" || x)',
        '"Q" COLLATE "POSIX"',
        "o",
        "x varchar_pattern_ops",
    ),
    *(
        "(j -> 'a')",
        "date_part('day', w)",
        "(extract(day from w))",
        "(CASE WHEN k THEN i END)",
        "r",
        "(k IS TRUE)",
        "(nullif(i, 2))",
    ),
]
METHODS = [
    "USING gin (a)",
    "USING gin (j jsonb_path_ops)",
    "USING gist (r)",
    "USING hash (x)",
    "USING brin (i) WITH (pages_per_range='4')",
]
METHODS += [
    "USING gist (ne inet_ops)",
    "USING gin (ts)",
    "USING brin (d date_minmax_multi_ops (values_per_range='8'))",
    "USING gist (ts tsvector_ops (siglen='100'))",
]


@dataclass
class Told:
    """The texts of the server and of the WAL, by the names of constraints, indexes and columns."""

    server: dict[str, str]
    wal: dict[str, str | None]


@pytest.fixture(scope="module", params=[*(pytest.param(m, marks=pytest.mark.slow) for m in (14, 15, 16, 17, 19)), 18])
def definitions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    definitions_by_name: dict[str, str] = {}

    def work(session: Any) -> None:
        session.execute(SETUP)
        for number, condition in enumerate(CONDITIONS):
            session.execute(f"ALTER TABLE t ADD CONSTRAINT c{number} CHECK ({condition})")
        for number, indexed in enumerate(INDEXED):
            session.execute(f"CREATE INDEX i{number} ON t ({indexed}) WHERE i > {number}")
        for number, method in enumerate(METHODS):
            session.execute(f"CREATE INDEX m{number} ON t {method}")
        session.execute("SET search_path = ''")
        for query in (
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'public.t'::regclass",
            "SELECT c.relname, pg_get_indexdef(c.oid) FROM pg_class c JOIN pg_index ON indexrelid = c.oid"
            " WHERE indrelid = 'public.t'::regclass",
        ):
            definitions_by_name.update(session.execute(query).fetchall())

    with recorded(request.param, tmp_path_factory.mktemp("expressions"), work) as done:
        definitions = [placed.event.after for placed in done.events()]
        wanted = [
            definition for definition in definitions if isinstance(definition, ConstraintDefinition | IndexDefinition)
        ]
        assert any(isinstance(definition, TableDefinition) for definition in definitions)
        yield Told(
            definitions_by_name,
            {definition.name: definition.definition.sql for definition in wanted if definition.table == "public.t"},
        )


def test_definitions_are_told_as_the_server_tells_them(definitions: Told) -> None:
    """But for white space: the server breaks the lines of CASE."""
    assert len(definitions.server) == len(CONDITIONS) + len(INDEXED) + len(METHODS)
    pairs = {name: (text, definitions.wal.get(name) or "nothing") for name, text in definitions.server.items()}
    assert {name: pair for name, pair in pairs.items() if _bare(pair[0]) != _bare(pair[1])} == {}


def _bare(sql: str) -> str:
    return "".join(sql.split())
