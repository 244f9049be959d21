"""The value oracle: generated values of every type and shape, as a server prints and sends them, and as Headwater does.

How many there are in all, ``--values`` says. Every type of the table of forms takes part that a column can hold values
of: by itself, in arrays with bounds and NULLs, under domains, in composites, and, if it can be ordered, in ranges and
multiranges. A type is stored with long varlena headers and with short ones, by turns.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.rows.session import SessionSettings
from headwater.rows.text_tables import text_code
from server_versions import session_of
from values import extension_values, generated_values, language_values
from values.generated_values import WITHOUT_VALUES, amounts, array_of, taken_by
from values.nested_values import record
from values.stored_tables import compare, file_of, server_text, store, stored_datums
from values.typed_values import compare_typed

pytestmark = pytest.mark.server

Random = random.Random
Make = Callable[[Random, int], list[str]]

MADE_BY_THE_SERVER = frozenset({"pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list"})
"""Their input functions take nothing: ``test_server_binary.py`` compares what the server has made."""

INSIDE_INDEXES = frozenset({"ghstore", "ltree_gist", "intbig_gkey"})
"""Likewise, of extensions."""

STATED = {"char(35)": "bpchar", "varchar(40)": "varchar", '"char"': "char", "bit varying": "varbit", "bit(7)": "bit"}
"""Types by the name under which the table of forms has them, where the values' tables call them otherwise."""

OWN = frozenset(
    {"mood", "positive", "moods", "shortname", "words", "wordlists", "wordbooks", "numbers", "boxes", "numeric(20,6)"}
)
FEW, MANY = 5_000, 200_000
LONGEST = 700
"""Bytes of input: longer values, of which the rung has others, would fill pages."""

IS_VALID = """
    create function pg_temp.is_valid(value text, type text) returns bool language plpgsql as $$
    declare found text; begin
        execute format('select %L::%s::text', value, type) into found; return true;
    exception when others then return false;
    end $$
"""


def _makers() -> dict[str, Make]:
    plain = generated_values.VALUES | extension_values.VALUES
    makers: dict[str, Make] = {
        name: lambda r, _, make=make: make(r)  # type: ignore[misc]
        for name, make in plain.items()
        if name not in OWN
    }
    return makers | {"money": amounts} | language_values.VALUES


MAKERS = _makers()
"""Of types that all majors have."""


def makers_of(major: int) -> dict[str, Make]:
    """Return makers of values by type."""
    newer = {name: make for name, (since, make) in generated_values.NEWER.items() if major >= since}
    return MAKERS | {name: lambda r, _, make=make: make(r) for name, make in newer.items()}


@pytest.fixture(scope="session")
def session(server: EmbeddedPostgres) -> Iterator[psycopg.Connection[Any]]:
    """Hold a session in a database of its own."""
    with server.connect() as opened:
        opened.execute("create database value_oracle")
    with server.connect("value_oracle") as opened:
        opened.execute("set client_encoding = 'utf8'")
        opened.execute("".join(f"create extension {name};" for name in extension_values.EXTENSIONS))
        opened.execute(IS_VALID)
        yield opened


def test_every_type_takes_part(server: EmbeddedPostgres, session: psycopg.Connection[Any]) -> None:
    """None of the server's types, nor of its extensions', is left out silently."""
    query = """
        select typname from pg_type
        where typtype in ('b', 'd') and typsubscript::text <> 'array_subscript_handler' and typrelid = 0
            and typnamespace in ('pg_catalog'::regnamespace, 'public'::regnamespace)
    """
    there = {name for (name,) in session.execute(query).fetchall()}
    made = {STATED.get(name, name) for name in makers_of(server.programs.major)}
    assert there - made == MADE_BY_THE_SERVER | WITHOUT_VALUES | INSIDE_INDEXES


@dataclass(frozen=True)
class _Pool:
    """Valid values of a type, at least one."""

    type_name: str
    values: list[str]

    def take(self, r: Random, count: int) -> list[str]:
        """Take as many values, each once before any comes twice."""
        taken = list[str]()
        while len(taken) < count:
            taken += r.sample(self.values, min(len(self.values), count - len(taken)))
        return taken


def _pool(connection: psycopg.Connection[Any], type_name: str, r: Random, major: int, count: int) -> _Pool:
    """Make values of a type, `count` of them if its makers have so many."""
    make = makers_of(major)[type_name]
    values = dict.fromkeys(taken_by(make(r, major), major))
    for _ in range(20):
        before = len(values)
        if before >= count:
            break
        values |= dict.fromkeys(taken_by(make(r, major), major))
        if len(values) == before:
            break
    short = [value for value in values if len(value.encode()) < LONGEST][: max(count, 100)]
    return _Pool(type_name, _valid(connection, type_name, short))


def _valid(connection: psycopg.Connection[Any], type_name: str, values: list[str]) -> list[str]:
    """Return those of some values that the server takes."""
    query = "select array_agg(value order by at) from unnest(%s::text[]) with ordinality as v (value, at)"
    row = connection.execute(f"{query} where pg_temp.is_valid(value, %s)", (values, type_name)).fetchone()
    assert row is not None
    assert row[0] is not None, f"no value of {type_name} is valid"
    taken: list[str] = row[0]
    return taken


def _is_ordered(connection: psycopg.Connection[Any], type_name: str) -> bool:
    query = """
        select exists (select from pg_opclass join pg_am a on a.oid = opcmethod, pg_type t
        where amname = 'btree' and opcdefault and t.oid = %s::regtype
            and opcintype = coalesce(nullif(typbasetype, 0), t.oid))
    """
    return connection.execute(query, (type_name,)).fetchone() == (True,)


SHAPES = ("", "array", "domain", "domain of arrays", "composite", "range", "multirange")


def _shape(
    connection: psycopg.Connection[Any], pool: _Pool, shape: str, r: Random, count: int
) -> tuple[str, list[str]]:
    """Make a type of the pool's type, and values of it."""
    name, key = pool.type_name, zlib.crc32(pool.type_name.encode())
    if shape == "array":
        return f"{name}[]", _arrays(pool, r, count)
    if shape == "domain":
        connection.execute(f"create domain d{key} as {name}")
        return f"d{key}", pool.take(r, count)
    if shape == "domain of arrays":
        connection.execute(f"create domain a{key} as {name}[]")
        return f"a{key}", _arrays(pool, r, count)
    if shape == "composite":
        connection.execute(f"create type c{key} as (a {name}, b {name}[], c int2, d {name})")
        arrays = [array for array in _arrays(pool, r, count) if len(array) < LONGEST // 2] or ["{}"]
        numbers = [r.choice(["7", None]) for _ in range(count)]
        rows = zip(pool.take(r, count), r.choices(arrays, k=count), numbers, pool.take(r, count), strict=True)
        return f"c{key}", [record([None if r.random() < 0.1 else part for part in row]) for row in rows]
    if "range" in shape:
        return _ranges(connection, pool, shape, r, count)
    return name, pool.take(r, count)


def _arrays(pool: _Pool, r: Random, count: int) -> list[str]:
    """Make arrays of the pool's values, none of them long."""
    make = array_of(lambda _: pool.values, ";" if pool.type_name == "box" else ",", LONGEST // 4)
    arrays = list[str]()
    while len(arrays) < count:
        arrays += [array for array in make(r) if len(array.encode()) < LONGEST]
    return arrays[:count]


def _ranges(
    connection: psycopg.Connection[Any], pool: _Pool, shape: str, r: Random, count: int
) -> tuple[str, list[str]]:
    """Make a range or multirange type over the pool's type, and values that the server has made of two bounds."""
    name, key = pool.type_name, zlib.crc32(pool.type_name.encode())
    if connection.execute("select to_regtype(%s) is null", (f"r{key}",)).fetchone() == (True,):
        connection.execute(f"create type r{key} as range (subtype = {name}, multirange_type_name = m{key})")
    values = [value for value in pool.take(r, 2 * count) if len(value) < LONGEST // 4]
    half = len(values) // 2
    made = f"""
        select textsend((case when odds < 0.05 then 'empty' else r{key}(
            case when odds < 0.9 then least(a::{name}, b::{name}) end,
            case when odds > 0.2 then greatest(a::{name}, b::{name}) end, c) end)::text)
        from unnest(%s::text[], %s::text[], %s::text[], %s::float8[]) as pairs (a, b, c, odds)
    """
    brackets, odds = [r.choice(["[)", "[]", "()", "(]"]) for _ in range(half)], [r.random() for _ in range(half)]
    rows = connection.execute(made, (values[:half], values[half : 2 * half], brackets, odds)).fetchall()
    # 14 shows the bytes of "char" as they are; of a seg something is lost: neither can always be given back.
    ranges = _valid(connection, f"r{key}", [shown.decode() for (shown,) in rows if _is_utf8(shown)])
    if shape == "range":
        return f"r{key}", ranges
    return f"m{key}", ["{" + ",".join(ranges[at : at + 1 + at % 3]) + "}" for at in range(len(ranges))]


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.timeout(3600)
def test_values_of_every_type(
    server: EmbeddedPostgres, session: psycopg.Connection[Any], request: pytest.FixtureRequest
) -> None:
    config = request.config
    wanted = config.getoption("--values") or (MANY if config.getoption("--all-majors") else FEW)
    major, compared = server.programs.major, 0
    settings = session_of(server)
    names = makers_of(major).keys()
    ordered = {name for name in names if _is_ordered(session, name)}
    share = max(wanted // (len(SHAPES) * len(names) - 2 * len(names - ordered)) + 1, 8)
    for name in names:
        r = random.Random(f"{name} {major} {wanted}")
        pool = _pool(session, name, r, major, 3 * share)
        # Of a few values, two shapes of each type.
        for shape in SHAPES if wanted > FEW else r.sample(SHAPES, 2):
            if "range" in shape and name not in ordered:
                continue
            type_name, values = _shape(session, pool, shape, r, share)
            compared += _compare(server, session, type_name, values, settings)
    print(f"PostgreSQL {major}: {compared} values of {len(names)} types")
    assert compared >= (wanted * 0.95 if wanted > FEW else 1000)


def _compare(
    server: EmbeddedPostgres,
    connection: psycopg.Connection[Any],
    type_name: str,
    values: list[str],
    settings: SessionSettings,
) -> int:
    """Compare texts and binary forms of values, stored with long headers and with short ones by turns."""
    table = f"v{zlib.crc32(type_name.encode())}"
    plain = zlib.crc32(table.encode()) % 2 == 0 or type_name in ("int2vector", "oidvector")
    type = store(connection, table, type_name, [*values, None], plain=plain)
    text_code(type)
    count = compare(server, connection, table, type, settings)
    assert count == len(values)
    stored = dict(stored_datums(file_of(server, connection, table), type))
    payloads = {number: payload for number, payload in stored.items() if payload is not None}
    compare_typed(connection, table, type, payloads, server_text(connection, table), settings)
    connection.execute(f"drop table {table}")
    return count
