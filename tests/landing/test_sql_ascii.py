"""Text of a database in SQL_ASCII, which may be in any encoding, or in none: each choice as a server has the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater.errors import DecodingError, UsageError
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import FORMATS, INITIAL, NEVER, LandingTarget
from headwater.landing.landing import land
from headwater.landing.landing_modes import CHANGELOG, CURRENT
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.request import DecodeRequest
from headwater.rows.columns.column_types import BYTES, NULL, STRING
from landing.mirrors import read_table

pytestmark = [pytest.mark.server, pytest.mark.spark]

SETUP = r"""
CREATE TYPE pair AS (n int, v text);
CREATE TABLE t (id int PRIMARY KEY, v text, a text[], c pair, j jsonb, big text, n numeric);
CREATE TABLE late (k varchar(9) PRIMARY KEY, v text);
CREATE FUNCTION filled(id int, v text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO t VALUES (id, v, ARRAY[v, NULL, 'a\b'], ROW(id, v), to_jsonb(v), repeat(v, 3000), 1.50)
$$;
SELECT filled(1, E'caf\303\251');
SELECT filled(2, E'caf\351');
SELECT filled(3, E'\\ and \377');
SELECT filled(4, NULL);
"""
WORK = r"""
SELECT filled(11, E'\351t\351');
UPDATE t SET v = v || E'\240' WHERE id < 4;
UPDATE t SET id = 12 WHERE id = 3;
DELETE FROM t WHERE id = 2;
INSERT INTO late VALUES ('ascii', 'a');
"""
LATER = r"""
INSERT INTO late VALUES (E'k\351', E'v\351');
"""


@dataclass(frozen=True)
class Log:
    """Files of a stopped server; the bytes that ``t`` held, as the server escapes them, and an LSN before the last."""

    wal: Path
    backup: Path
    middle: int
    held: list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            connection.autocommit = True
            connection.execute(
                "CREATE DATABASE old ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
            )
        with server.connect("old") as connection:
            _run(connection, SETUP)
        server.stop()
        backup = server.copy_data_directory(tmp_path_factory.mktemp("ascii") / "backup")
        server.start()
        with server.connect("old") as connection:
            _run(connection, WORK)
            held = connection.execute(
                "SELECT id, convert_to(v, 'SQL_ASCII'), convert_to((c).v, 'SQL_ASCII'), "
                "convert_to(j::text, 'SQL_ASCII'), convert_to(big, 'SQL_ASCII') FROM t ORDER BY id"
            ).fetchall()
            ((middle,),) = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchall()
            _run(connection, LATER)
        server.stop()
        yield Log(server.wal_directory, backup, int(Lsn.parse(_text(middle))), held)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _run(connection: psycopg.Connection[Any], statements: str) -> None:
    connection.autocommit = True
    connection.execute(statements.encode())


def _landed(
    engine: Engine,
    log: Log,
    place: Path,
    format: str,
    *,
    chosen: str = "error",
    encoding: str = "UTF8",
    mode: str = CURRENT,
    **more: Any,
) -> pa.Table:
    settings = (("client_encoding", encoding),)
    request = DecodeRequest(str(log.wal), str(log.backup), "old", settings=settings, **{"end": log.middle, **more})
    snapshot = INITIAL if mode == CURRENT else NEVER
    land(engine, request, LandingTarget(place, format, chosen, mode=mode, snapshot=snapshot))
    return read_table(place / "public.t", format).sort_by("id")


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _escaped(value: bytes) -> str:
    """Escape bytes as ``encode(value, 'escape')`` does."""
    plain = value.replace(b"\\", b"\\\\")
    return "".join(f"\\{byte:03o}" if byte >= 0x80 else chr(byte) for byte in plain)


CHOICES: dict[str, Callable[[bytes], Any]] = {
    NULL: lambda value: value.decode() if _is_text(value) else None,
    STRING: lambda value: value.decode() if _is_text(value) else _escaped(value),
    BYTES: lambda value: value,
}


def _columns(rows: pa.Table) -> list[list[Any]]:
    columns = rows.to_pydict()
    return [columns["id"], columns["v"], [value["v"] for value in columns["c"]], columns["j"], columns["big"]]


def _expected(log: Log, made: Callable[[bytes], Any]) -> list[list[Any]]:
    ids, *columns = (list(cells) for cells in zip(*log.held, strict=True))
    return [ids, *([None if value is None else made(value) for value in column] for column in columns)]


@pytest.mark.parametrize("chosen", CHOICES)
@pytest.mark.parametrize("format", FORMATS)
def test_what_becomes_of_text_that_is_none(engine: Engine, log: Log, tmp_path: Path, format: str, chosen: str) -> None:
    rows = _landed(engine, log, tmp_path, format, chosen=chosen)
    assert _columns(rows) == _expected(log, CHOICES[chosen])
    assert pa.types.is_binary(rows.schema.field("v").type) == (chosen == BYTES)
    if chosen != STRING:
        first = rows["a"][0].as_py()
        assert first == [log.held[0][1][:5].decode() if chosen == NULL else log.held[0][1][:5], None, first[2]]
        assert first[2] == ("a\\b" if chosen == NULL else b"a\\b")
    assert rows["n"].to_pylist() == ["1.50"] * len(rows)


def test_the_encoding_that_text_is_in(engine: Engine, log: Log, tmp_path: Path) -> None:
    rows = _landed(engine, log, tmp_path, "parquet", encoding="LATIN1")
    assert _columns(rows) == _expected(log, lambda value: value.decode("latin-1"))


def test_errors_tell_where_the_text_is(engine: Engine, log: Log, tmp_path: Path) -> None:
    with pytest.raises(DecodingError) as raised:
        _landed(engine, log, tmp_path / "first", "parquet")
    assert 'column "v" of table "public.t", in the row of ctid (0,2)' in str(raised.value)
    assert "--on-unrepresentable" in str(raised.value)
    with pytest.raises(DecodingError) as raised:
        _landed(engine, log, tmp_path / "second", "parquet", mode=CHANGELOG)
    assert raised.value.lsn is not None


def test_a_key_that_would_be_null_is_refused(engine: Engine, log: Log, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r'column "k" of table public\.late is part of its key, and null'):
        _landed(engine, log, tmp_path / "null", "parquet", chosen=NULL, end=None)
    _landed(engine, log, tmp_path / "bytes", "parquet", chosen=BYTES, end=None)
    rows = read_table(tmp_path / "bytes" / "public.late", "parquet").to_pylist()
    assert sorted((row["k"], row["v"]) for row in rows) == [(b"ascii", b"a"), (b"k\xe9", b"v\xe9")]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_encodings_that_rows_cannot_be_in(engine: Engine, log: Log, tmp_path: Path, encoding: str) -> None:
    database = "old" if encoding == "SQL_ASCII" else "postgres"
    request = DecodeRequest(
        str(log.wal), str(log.backup), database, settings=(("client_encoding", encoding),), end=log.middle
    )
    with pytest.raises(UsageError, match=f"rows are in UTF8, not in {encoding}"):
        land(engine, request, LandingTarget(tmp_path))


@pytest.mark.parametrize("chosen", [*CHOICES, "LATIN1"])
def test_the_data_source_does_the_same(spark: SparkSession, log: Log, chosen: str) -> None:
    options = {"path": str(log.wal), "catalog": str(log.backup), "database": "old", "tables": "public.t"}
    options |= {"set.client_encoding": chosen} if chosen == "LATIN1" else {"onUnrepresentable": chosen}
    made: Callable[[bytes], Any] = CHOICES.get(chosen, lambda value: value.decode("latin-1"))
    rows = spark.read.format("headwater").options(**options).load().where("_op = 'insert'").collect()
    assert [row["v"] if chosen != BYTES else bytes(row["v"]) for row in rows] == [made(b"\xe9t\xe9")]
    images = (
        spark.read.format("headwater").options(**options, images="true").load().where("_op = 'insert' AND _table = 't'")
    )
    if chosen == "LATIN1":
        assert [row["_after"]["v"] for row in images.collect()] == ["\xe9t\xe9"]
