r"""Columns of types that have no text form here: what the three ways to take them make of a real server's WAL.

``pageinspect`` says what a value's stored bytes are; whether the rest is right, ``test_decoding`` says of rows in which
all such columns are NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headwater import DecodeRequest, decode
from headwater.errors import HeadwaterWarning, UnsupportedTypeError
from headwater.jobs.engine import Engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn

pytestmark = [pytest.mark.server, pytest.mark.spark]

VALUES = {
    "odd": "'a fat cat'::odd",
    "odd[]": "'{a,NULL,b}'::odd[]",
    "odd_pair": "ROW(7, 'seven')::odd_pair",
    "odd_pair[]": "ARRAY[ROW(7, 'seven')::odd_pair]",
    "odd_domain": "'a b'::odd_domain",
    "odd_domain[]": "ARRAY['a b'::odd_domain]",
}
LONG = "(SELECT string_agg('w' || g, ' ') FROM generate_series(1, 20000) g)::odd"
SETUP = [
    "CREATE EXTENSION pageinspect",
    "CREATE TYPE odd",
    "CREATE FUNCTION odd_in(cstring) RETURNS odd LANGUAGE internal IMMUTABLE STRICT AS 'textin'",
    "CREATE FUNCTION odd_out(odd) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'brin_bloom_summary_out'",
    "CREATE TYPE odd (INPUT = odd_in, OUTPUT = odd_out, LIKE = text)",
    "CREATE TYPE odd_pair AS (a int, b odd)",
    "CREATE DOMAIN odd_domain AS odd",
]
COLUMNS = ", ".join(f"c{number} {type}" for number, type in enumerate(VALUES))
PUBLISHED = "id, note"


@dataclass(frozen=True)
class Window:
    """A stopped server's files.

    Attributes:
        wal, backup: them.
        lsn: where the rows of each table begin.
        said: what test_decoding printed of table ``nulls``.
        stored: each type's value as hexadecimal digits, without varlena header.
        long: likewise of a value that lies out of line, compressed.
    """

    wal: Path
    backup: Path
    lsn: Mapping[str, int]
    said: tuple[str, ...]
    stored: Mapping[str, str]
    long: str


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    directory = tmp_path_factory.mktemp("unknown")
    with EmbeddedPostgres(find_programs(16, plugin="test_decoding"), autovacuum=False) as server:
        with server.connect() as connection:
            for statement in SETUP:
                connection.execute(statement.encode())
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        with server.connect() as connection:
            connection.execute("SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
            lsn = {"nulls": _position(connection)}
            connection.execute(f"CREATE TABLE nulls (id int PRIMARY KEY, note text, {COLUMNS})".encode())
            connection.execute("ALTER TABLE nulls REPLICA IDENTITY FULL")
            connection.execute("INSERT INTO nulls VALUES (1, 'one'), (2, 'two')")
            connection.execute("UPDATE nulls SET note = 'more' WHERE id = 1")
            connection.execute("DELETE FROM nulls WHERE id = 2")
            query = "SELECT data FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'skip-empty-xacts', '1')"
            lines = tuple(row[0] for row in connection.execute(query.encode()).fetchall())
            lsn["filled"] = _position(connection)
            connection.execute(f"CREATE TABLE filled (id int PRIMARY KEY, note text, {COLUMNS})".encode())
            connection.execute(f"CREATE PUBLICATION id_and_note FOR TABLE filled ({PUBLISHED})".encode())
            connection.execute(f"INSERT INTO filled VALUES (1, 'one', {', '.join(VALUES.values())})".encode())
            connection.execute("INSERT INTO filled VALUES (2, 'two')")
            lsn["long"] = _position(connection)
            connection.execute("CREATE TABLE long (id int PRIMARY KEY, body odd, n int)")
            connection.execute(f"INSERT INTO long VALUES (1, {LONG}, 1)".encode())
            connection.execute("UPDATE long SET n = 2")
            first_row = _stored(connection, "filled")
            long = _stored(connection, "long")[1]
        server.stop()
        stored = dict(zip(VALUES, first_row[2:], strict=True))
        yield Window(server.wal_directory, backup, lsn, lines, stored, long)


def _position(connection: Any) -> int:
    return int(Lsn.parse(connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]))


def _stored(connection: Any, table: str) -> list[str]:
    """Read the attributes of a table's first row, detoasted, in hexadecimal digits.

    They are without headers, as they are bytea.
    """
    query = "SELECT t_attrs FROM heap_page_item_attrs(get_raw_page(%s, 0), %s::regclass, true) WHERE lp = 1"
    return [datum.hex() for datum in connection.execute(query, [table, table]).fetchone()[0]]


def _lines(engine: Engine, window: Window, table: str, unknown_types: str, **more: Any) -> list[Any]:
    options = (("skip-empty-xacts", "1"), ("include-xids", "0"))
    request = DecodeRequest(
        wal=str(window.wal),
        catalog=str(window.backup),
        database="postgres",
        start=window.lsn[table],
        unknown_types=unknown_types,
        **{
            "options": options,
            "end": min((lsn for lsn in window.lsn.values() if lsn > window.lsn[table]), default=None),
        }
        | more,
    )
    with decode(engine, request) as result:
        return [line for messages in result.tables() for line in messages.column("data").to_pylist()]


@pytest.mark.parametrize("unknown_types", ["error", "hex", "null"])
def test_nulls_are_no_matter(engine: Engine, window: Window, unknown_types: str) -> None:
    lines = _lines(engine, window, "nulls", unknown_types, options=(("skip-empty-xacts", "1"),))
    assert tuple(lines) == window.said
    assert sum("odd]:null" in line for line in lines) == 3


def test_a_value_is_refused(engine: Engine, window: Window) -> None:
    with pytest.raises(UnsupportedTypeError) as caught:
        _lines(engine, window, "filled", "error")
    assert (
        caught.value.message == 'values of type odd cannot be printed, needed for column "c0" of table "public.filled"'
    )
    assert "--unknown-types" in str(caught.value.hint)
    assert caught.value.lsn is not None
    assert caught.value.lsn > window.lsn["filled"]


def test_stored_bytes(engine: Engine, window: Window) -> None:
    line = _lines(engine, window, "filled", "hex")[1]
    assert line.startswith("table public.filled: INSERT: id[integer]:1 note[text]:'one' c0[odd]:'\\x")
    assert [part.split(" c")[0] for part in line.split(":'\\x")[1:]] == [
        f"{digits}'" for digits in window.stored.values()
    ]
    assert window.stored["odd"] == b"a fat cat".hex()


def test_null_instead_and_a_warning_for_each_column(engine: Engine, window: Window) -> None:
    with pytest.warns(HeadwaterWarning) as warned:
        lines = _lines(engine, window, "filled", "null")
    wanted = "table public.filled: INSERT: id[integer]:1 note[text]:'one' c0[odd]:null c1[odd[]]:null"
    assert lines[1].startswith(wanted)
    assert "'" not in lines[1].removeprefix(wanted)
    texts = [str(warning.message) for warning in warned if isinstance(warning.message, HeadwaterWarning)]
    assert len(texts) == len(VALUES)
    assert texts[0] == (
        'values of type odd cannot be printed, column "c0" of table "public.filled" has NULL instead of them'
    )


def test_a_value_out_of_line_and_one_not_written_again(engine: Engine, window: Window) -> None:
    lines = _lines(engine, window, "long", "hex")
    assert len(window.long) > 200_000
    assert lines[1] == f"table public.long: INSERT: id[integer]:1 body[odd]:'\\x{window.long}' n[integer]:1"
    assert lines[4] == "table public.long: UPDATE: id[integer]:1 body[odd]:unchanged-toast-datum n[integer]:2"


def test_columns_that_nobody_publishes_are_no_matter(engine: Engine, window: Window) -> None:
    options = (("proto_version", "1"), ("publication_names", "id_and_note"))
    messages = _lines(engine, window, "filled", "error", plugin="pgoutput", options=options)
    assert [message[:1] for message in messages] == [b"B", b"R", b"I", b"C", b"B", b"I", b"C"]
    assert messages[2].endswith(b"N\x00\x02t\x00\x00\x00\x011t\x00\x00\x00\x03one")


def test_rows_in_spark(spark: Any, window: Window) -> None:
    options = {"path": window.wal, "catalog": window.backup, "database": "postgres", "tables": "public.filled"}
    reader = spark.read.format("headwater").options(**options)
    rows = reader.option("unknownTypes", "hex").load().orderBy("id").select("note", "c0", "c2").collect()
    assert [tuple(row) for row in rows] == [
        ("one", f"\\x{window.stored['odd']}", f"\\x{window.stored['odd_pair']}"),
        ("two", None, None),
    ]
    assert {tuple(row) for row in reader.option("unknownTypes", "null").load().select("c0").collect()} == {(None,)}
