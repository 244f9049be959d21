"""Databases that are not UTF-8: names, labels and values in the database's own bytes."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from psycopg.types.string import ByteaBinaryLoader

from headwater.demo.embedded_postgres import EmbeddedPostgres, find_programs
from headwater.demo.stream_comparison import first_difference, joined, messages_table
from headwater.pipeline import DecodeRequest, decode
from oracle.streams import parse_lsn, plugin_of

pytestmark = [pytest.mark.server, pytest.mark.spark]

WORDS = {"LATIN1": "Táblaÿ", "EUC_JP": "表テーブル", "SQL_ASCII": "Tábla"}
"""A word for each encoding; in SQL_ASCII any bytes are."""

STREAMS = {
    "test_decoding": (("include-timestamp", "0"),),
    "pgoutput": (("proto_version", "1"), ("publication_names", "everything")),
    "pgoutput, binary": (("proto_version", "1"), ("publication_names", "everything"), ("binary", "true")),
}
PLUGINS = ("test_decoding", "pgoutput")
SCRIPT = """
CREATE SCHEMA "{word}";
CREATE TYPE "{word}".mood AS ENUM ('{word}', 'plain');
CREATE TABLE "{word}"."{word}" (id int PRIMARY KEY, "{word}" "{word}".mood, note text);
INSERT INTO "{word}"."{word}" VALUES (1, '{word}', '{word}'), (2, 'plain', NULL);
UPDATE "{word}"."{word}" SET id = 3 WHERE id = 1;
TRUNCATE "{word}"."{word}";
CREATE TABLE plain (id int, m "{word}".mood);
INSERT INTO plain VALUES (1, '{word}');
CREATE TABLE documents (x xml);
INSERT INTO documents VALUES ('<{word}/>'), ('<?xml version="1.1" standalone="yes"?><a>{word}</a>')
"""


class Encoded:
    """A stopped server with one database per encoding, and what its plugins said."""

    def __init__(self, major: int, directory: Path) -> None:
        self.expected: dict[tuple[str, str], tuple[int, pa.Table]] = {}
        with EmbeddedPostgres(find_programs(major, plugin="test_decoding"), autovacuum=False) as server:
            for encoding in WORDS:
                options = f"ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
                run(server, "postgres", f"CREATE DATABASE {encoding.lower()} {options}")
                run(server, encoding.lower(), "CREATE PUBLICATION everything FOR ALL TABLES")
            server.stop()
            self.backup = server.copy_data_directory(directory / "backup")
            server.start()
            starts = {(e, plugin): make_slot(server, e, plugin) for e in WORDS for plugin in PLUGINS}
            for encoding, word in WORDS.items():
                run(server, encoding.lower(), *SCRIPT.format(word=word).split(";\n"))
            for encoding, stream in product(WORDS, STREAMS):
                start = starts[encoding, plugin_of(stream)]
                self.expected[encoding, stream] = start, peek(server, encoding, stream)
            server.stop()
            self.wal = Path(shutil.copytree(server.wal_directory, directory / "pg_wal"))


def run(server: EmbeddedPostgres, database: str, *statements: str) -> None:
    with server.connect(database, client_encoding="UTF8") as connection:
        for statement in statements:
            connection.execute(statement.encode())


def make_slot(server: EmbeddedPostgres, encoding: str, plugin: str) -> int:
    make = f"pg_create_logical_replication_slot('{encoding}_{plugin}', '{plugin}')".lower()
    with server.connect(encoding.lower(), client_encoding="UTF8") as connection:
        row = connection.execute(f"SELECT lsn::text FROM {make}".encode()).fetchone()
    assert row is not None
    return parse_lsn(row[0])


def peek(server: EmbeddedPostgres, encoding: str, stream: str) -> pa.Table:
    plugin = plugin_of(stream)
    kind = "" if plugin == "test_decoding" else "_binary"
    options = ", ".join(f"'{part}'" for option in STREAMS[stream] for part in option)
    call = f"pg_logical_slot_peek{kind}_changes('{encoding.lower()}_{plugin}', NULL, NULL, {options})"
    with server.connect(encoding.lower(), client_encoding=encoding) as connection:
        connection.adapters.register_loader("text", ByteaBinaryLoader)
        rows = connection.execute(f"SELECT lsn::text, xid::text, data FROM {call}".encode(), binary=True).fetchall()
    return messages_table((parse_lsn(lsn.decode()), int(xid), data) for lsn, xid, data in rows)


@pytest.fixture(scope="module", params=[pytest.param(14, marks=pytest.mark.slow), 16, 18])
def encoded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Encoded:
    return Encoded(request.param, tmp_path_factory.mktemp("encodings"))


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("encoding", WORDS)
def test_names_have_the_bytes_of_the_database(spark: Any, encoded: Encoded, encoding: str, stream: str) -> None:
    start, expected = encoded.expected[encoding, stream]
    request = DecodeRequest(
        str(encoded.wal), str(encoded.backup), encoding.lower(), plugin_of(stream), STREAMS[stream], start, None, ()
    )
    with decode(spark, request) as result:
        actual = joined(result.tables())
    assert first_difference(expected, actual) is None
    assert len(expected) > 10
