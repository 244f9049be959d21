"""Every stored form of a tuple on a real server: nulls, dropped and added columns, compression, TOAST; all rendered."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.rows.tuples.layout import compile_layouts
from headwater.rows.tuples.render import render
from packaged_servers import WITH_LZ4, is_of_debian
from server_versions import session_of
from values.stored_tuples import rows_of, schema_of, server_rows, stored_items

pytestmark = pytest.mark.server

STORAGES = ("plain", "main", "external", "extended")


@pytest.fixture
def connection(server: EmbeddedPostgres) -> Iterator[psycopg.Connection[Any]]:
    with server.connect() as opened:
        yield opened
        opened.execute("drop table if exists tuples")


def compare(
    server: EmbeddedPostgres, connection: psycopg.Connection[Any], missing: dict[str, bytes] | None = None
) -> None:
    """Render the table's file, as text and in binary form, and compare with queries."""
    schema = schema_of(connection, "tuples", missing or {})
    data, items = stored_items(server, connection, "tuples")
    session = session_of(server)
    for binary in (False, True):
        layouts = compile_layouts([schema], session, binary=binary)
        cells = render(data.copy(), items, layouts, room=1 << 12)
        assert server_rows(connection, "tuples", binary=binary) == rows_of(cells, schema)


def long_text(source: random.Random) -> str | None:
    """Make anything from nothing to far beyond a page, compressible or not."""
    kind, size = source.randrange(6), source.choice([0, 1, 126, 127, 500, 1990, 2100, 9000, 60_000])
    if kind == 0:
        return None
    if kind == 1:
        return "to be, or not to be, " * (size // 20)
    if kind == 2:
        return "x" * size
    letters = "".join(source.choices("abcdefghijklmnopqrstuvwxyz0123456789äß€", k=min(size, 9000)))
    return letters if kind < 5 else letters * 3


def compression_methods(connection: psycopg.Connection[Any]) -> list[str]:
    row = connection.execute("select enumvals from pg_settings where name = 'default_toast_compression'").fetchone()
    return list(row[0]) if row else []


def test_every_storage_and_compression(server: EmbeddedPostgres, connection: psycopg.Connection[Any]) -> None:
    compare_storages(server, connection, ["pglz"])


def test_lz4_values_of_a_server_that_has_it() -> None:
    """Distributions' builds have lz4, the small ones that the other tests run have not."""
    programs = find_programs(WITH_LZ4)
    if not is_of_debian(programs):
        pytest.skip("this machine's servers are not of Debian")
    with EmbeddedPostgres(programs, autovacuum=False) as server, server.connect() as connection:
        assert "lz4" in compression_methods(connection)
        compare_storages(server, connection, ["pglz", "lz4"])


def compare_storages(server: EmbeddedPostgres, connection: psycopg.Connection[Any], methods: list[str]) -> None:
    """Compare values of every length, compressible or not, in columns of every storage."""
    source = random.Random(5)
    columns = [(storage, method) for storage in STORAGES[1:] for method in methods]
    definitions = ", ".join(f"c{i} text compression {method}" for i, (_, method) in enumerate(columns))
    connection.execute(f"create table tuples (id int, {definitions}, b bytea, j jsonb)")
    for i, (storage, _) in enumerate(columns):
        connection.execute(f"alter table tuples alter c{i} set storage {storage}")
    marks = ", ".join(["%s"] * (len(columns) + 3))
    for number in range(150):
        values = [long_text(source) for _ in columns]
        raw = source.randbytes(source.choice([0, 3, 200, 5000])) * source.choice([1, 1, 9])
        document = Jsonb({"key": long_text(source), "n": number})
        connection.execute(f"insert into tuples values ({marks})", [number, *values, raw, document])
    compare(server, connection)


def test_dropped_and_added_columns(server: EmbeddedPostgres, connection: psycopg.Connection[Any]) -> None:
    source = random.Random(6)
    connection.execute(
        "create table tuples (a int2, b bool, gone text, c int8, gone_too int2, d numeric(10,3), e text)"
    )

    def insert(count: int, columns: int) -> None:
        for _ in range(count):
            row = connection.execute("select random() < 0.3, random() < 0.3").fetchone() or (True, True)
            choices = [
                source.randint(-9, 9),
                row[0],
                long_text(source) if row[1] else "gone",
                source.randint(-(2**62), 2**62),
                7,
                source.randint(-(10**9), 10**9) / 1000,
                long_text(source),
                *[source.randint(0, 5)] * 9,
            ]
            values = [None if source.random() < 0.25 else value for value in choices[:columns]]
            marks = ", ".join(["%s"] * columns)
            connection.execute(f"insert into tuples values ({marks})", values)

    insert(40, 7)
    connection.execute("alter table tuples drop gone, drop gone_too")
    connection.execute("insert into tuples values (1, true, 2, 3.5, 'after the drop'), (null, null, null, null, null)")
    connection.execute("alter table tuples add f int default 42, add g text default 'a fast default', add h int8")
    connection.execute("insert into tuples (a, g) values (5, 'not the default'), (6, null)")
    connection.execute("alter table tuples add i int2 default -1, add j text")
    connection.execute("insert into tuples (a, j) values (7, 'last')")
    missing = {"f": struct.pack("<i", 42), "g": bytes([15 << 1 | 1]) + b"a fast default", "i": struct.pack("<h", -1)}
    compare(server, connection, missing)


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 16, 17, 64, 400])
def test_null_bitmaps_of_any_width(server: EmbeddedPostgres, connection: psycopg.Connection[Any], columns: int) -> None:
    source = random.Random(columns)
    types = [source.choice(["int", "int2", "bool", "int8", "text", "uuid"]) for _ in range(columns)]
    values = {
        "int": "7",
        "int2": "3",
        "bool": "true",
        "int8": "-9000000000",
        "text": "'text'",
        "uuid": "'00112233-4455-6677-8899-aabbccddeeff'",
    }
    connection.execute(f"create table tuples ({', '.join(f'c{i} {type}' for i, type in enumerate(types))})")
    for share in (0, 0.5, 0.95, 1):
        for _ in range(5):
            row = ", ".join("null" if source.random() < share else values[type] for type in types)
            connection.execute(f"insert into tuples values ({row})")
    if "text" not in types:
        connection.execute("alter table tuples add toasted text")
    compare(server, connection)


def array_input(items: Sequence[str | None]) -> str:
    """Write input text of an array, every element quoted."""
    quoted = ["NULL" if item is None else '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items]
    return "{" + ",".join(quoted) + "}"


def test_arrays_inside_arrays_of_any_storage(server: EmbeddedPostgres, connection: psycopg.Connection[Any]) -> None:
    """Columns before and after such arrays keep their types, and long ones are compressed or out of line as a whole."""
    source = random.Random(8)
    connection.execute("create domain lines as text[]; create domain pages as lines[]; create domain digits as int2[]")
    connection.execute("create table tuples (a int, gone lines[], b lines[], c bool, d pages[], e int8, f digits[])")
    connection.execute("alter table tuples drop gone; alter table tuples add g text default 'last'")
    connection.execute("alter table tuples alter d set storage external")
    for number in range(60):
        words = array_input([long_text(source) for _ in range(source.randrange(4))])
        page = array_input([words, None, "[3:4]={x,NULL}"])
        digits = array_input([str(source.randrange(-99, 99)) for _ in range(source.choice([0, 1, 5, 3000]))])
        connection.execute(
            "insert into tuples values (%s, %s, true, %s, %s, %s)",
            [number, page, array_input([page, "{}"]), number << 40, array_input([digits, "{}"])],
        )
    connection.execute("insert into tuples (a) values (60)")
    try:
        compare(server, connection, {"g": bytes([5 << 1 | 1]) + b"last"})
    finally:
        connection.execute("drop table tuples; drop domain pages, lines, digits")
