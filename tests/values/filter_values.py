"""Values that row filters are computed of."""

from __future__ import annotations

import random
from typing import Any

import psycopg

from values import generated_values
from values.filter_grammar import RANGES

JSONS = [
    '{"a": 1}',
    '{"a": 1.0, "b": "x"}',
    '{"a": {"b": "c", "c": [1, 2]}, "b": null}',
    '{"a": {"b": null}}',
    '{"a": [1, "a", {"b": 2}], "c": true}',
    '{"a": true}',
    '{"a": "text \\u00e9 \\"quoted\\" \\n"}',
    '{"a": null}',
    '{"": 1, "0": "zero", "-1": [], "a": {}}',
    "[1]",
    '["a", "b", 1.0, null, {"a": 1}]',
    "[]",
    "{}",
    '"a"',
    "1",
    "1.00",
    "null",
    "true",
    "[[1], [2, 3]]",
    ' {"a" : [ 1 , 2 ] , "a" : { "b" : "last" } } ',
    '{"a": 1e3}',
    '{"a": 99999999999}',
]
EDGES = {
    "json": JSONS,
    "jsonb": JSONS,
    "int2": ["1", "2", "-1"],
    "int4": ["1", "2", "3"],
    "int8": ["1", "2"],
    "float8": ["1", "2.5", "-0.5"],
    "float4": ["1", "2.5"],
    "numeric": ["1", "2.50", "1.5"],
    "text": ["a", "abc", "ABC", "abc ", "a%c", "Abcabc"],
    "varchar": ["a", "abc", "ABC"],
    "bpchar": ["a", "a ", "abc"],
    "name": ["a", "abc"],
    "date": ["2024-02-29", "2023-12-31", "2021-01-03", "infinity", "0001-01-01 BC"],
    "timestamp": ["2024-02-29 12:34:56.789", "2021-01-03", "0001-01-01 BC", "-infinity", "2000-12-31 23:59:59.5"],
    "interval": ["1 day", "1 mon", "1 hour"],
}

IS_VALID = """
    create function pg_temp.is_valid(value text, type text) returns bool language plpgsql as $$
    declare found text; begin
        execute format('select %L::%s::text', value, type) into found; return true;
    exception when others then return false;
    end $$;
"""


def pool(connection: psycopg.Connection[Any], kind: str, type_name: str, r: random.Random) -> list[str]:
    """Make some values of a type, among them the first ones that its maker gives: the edges."""
    if type_name.endswith("[]"):
        single = pool(connection, type_name[:-2], type_name[:-2], r)
        values = ["{}", "{NULL}", *generated_values.array_of(lambda _: single[-8:], longest=60)(r)]
    elif type_name in RANGES:
        single = pool(connection, RANGES[type_name], RANGES[type_name], r)
        brackets = ("[]", "[)", "(]", "()")
        pairs = [(r.choice(brackets), r.choice(single), r.choice(single)) for _ in range(80)]
        values = ["empty", "(,)", *(f'{ends[0]}"{low}","{high}"{ends[1]}' for ends, low, high in pairs)]
        values += [f'{ends[0]}"{low}",{ends[1]}' for ends, low, _ in pairs[:4]]
        values += [f'{ends[0]},"{high}"{ends[1]}' for ends, _, high in pairs[:4]]
    else:
        values = generated_values.amounts(r, 0) if kind == "money" else generated_values.VALUES[type_name](r)
    chosen = values if type_name in RANGES else [*values[:14], *r.choices(values, k=12)]
    chosen = [value[:300] for value in chosen if "\0" not in value]
    query = "select array_agg(value order by at) from unnest(%s::text[]) with ordinality as v (value, at)"
    row = connection.execute(f"{query} where pg_temp.is_valid(value, %s)", (chosen, type_name)).fetchone()
    assert row is not None
    more = ["infinity", "-infinity"] if kind == "interval" and connection.info.server_version >= 170000 else []
    return list(row[0]) + EDGES.get(kind, []) + more
