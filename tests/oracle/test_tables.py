"""Changes of some tables only, against what the server says of a publication of just these tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from arrow_types import values_of
from headwater import DecodeRequest, decode
from headwater.demo.stream_comparison import first_difference, joined, messages_table
from headwater.errors import CatalogError
from headwater.jobs.engine import Engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.plugins.table_patterns import TablePatterns
from oracle.streams import parse_lsn

pytestmark = [pytest.mark.server]

SETUP = """
CREATE SCHEMA shop;
CREATE TABLE shop.orders (id int PRIMARY KEY, note text);
CREATE TABLE shop.items (id int PRIMARY KEY, note text);
CREATE TABLE visits (id int PRIMARY KEY, note text);
CREATE TABLE measured (id int PRIMARY KEY, note text) PARTITION BY RANGE (id);
CREATE TABLE measured_low PARTITION OF measured FOR VALUES FROM (0) TO (100);
CREATE TABLE measured_high PARTITION OF measured FOR VALUES FROM (100) TO (200);
CREATE PUBLICATION everything FOR ALL TABLES;
CREATE PUBLICATION chosen FOR TABLE shop.orders, measured, visits
"""
WORK = """
INSERT INTO shop.orders VALUES (1, 'one'), (2, 'two'); INSERT INTO shop.items VALUES (1, 'an item');
INSERT INTO shop.items VALUES (2, 'alone');
INSERT INTO measured VALUES (5, 'low'), (105, 'high');
UPDATE measured SET id = 106 WHERE id = 5;
ALTER TABLE shop.orders ADD COLUMN added int DEFAULT 7;
ALTER TABLE shop.items ADD COLUMN added int DEFAULT 8;
UPDATE shop.orders SET note = 'more'; UPDATE shop.items SET note = 'more'; DELETE FROM shop.orders WHERE id = 2;
SELECT pg_logical_emit_message(true, 'a', 'message');
INSERT INTO visits VALUES (1, 'a visit');
TRUNCATE shop.items, shop.orders, visits;
TRUNCATE shop.items;
TRUNCATE measured;
ALTER TABLE shop.orders ALTER note TYPE varchar(50);
INSERT INTO shop.orders VALUES (3, 'three');
DROP TABLE visits
"""
PATTERNS = "shop.ord*, public.visits, public.measured"
PGOUTPUT = (("proto_version", "1"), ("messages", "true"))
LINES = (("include-rewrites", "1"),)


class Window:
    """A stopped server's files, and what its plugins said."""

    def __init__(self, major: int, directory: Path) -> None:
        with EmbeddedPostgres(find_programs(major, plugin="test_decoding"), autovacuum=False) as server:
            _run(server, SETUP)
            server.stop()
            self.backup = server.copy_data_directory(directory / "backup")
            server.start()
            self.starts = {plugin: _make_slot(server, plugin) for plugin in ("pgoutput", "test_decoding")}
            _run(server, WORK)
            self.messages = _peek(server, "pgoutput", (*PGOUTPUT, ("publication_names", "chosen")))
            self.lines = _peek(server, "test_decoding", LINES)
            server.stop()
            self.wal = Path(shutil.copytree(server.wal_directory, directory / "pg_wal"))

    def decode(self, engine: Engine, plugin: str, options: tuple[tuple[str, str], ...], tables: str) -> pa.Table:
        """Decode our messages of some tables."""
        request = DecodeRequest(
            wal=str(self.wal),
            catalog=str(self.backup),
            database="postgres",
            plugin=plugin,
            options=options,
            start=self.starts[plugin],
            tables=TablePatterns.parse([tables]),
        )
        with decode(engine, request) as result:
            return joined(result.tables())


def _run(server: EmbeddedPostgres, script: str) -> None:
    with server.connect() as connection:
        for statement in script.split(";\n"):
            connection.execute(statement.encode())


def _make_slot(server: EmbeddedPostgres, plugin: str) -> int:
    with server.connect() as connection:
        made = "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s)"
        row = connection.execute(made, [plugin, plugin]).fetchone()
    assert row is not None
    return parse_lsn(row[0])


def _peek(server: EmbeddedPostgres, slot: str, options: tuple[tuple[str, str], ...]) -> pa.Table:
    words = ", ".join(f"'{part}'" for option in options for part in option)
    call = f"SELECT lsn::text, xid::text, data FROM pg_logical_slot_peek_binary_changes('{slot}', NULL, NULL, {words})"
    with server.connect() as connection:
        rows = connection.execute(call.encode(), binary=True).fetchall()
    return messages_table((parse_lsn(lsn), int(xid), data) for lsn, xid, data in rows)


@pytest.fixture(scope="module", params=[pytest.param(14, marks=pytest.mark.slow), 16, 18])
def window(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Window:
    return Window(request.param, tmp_path_factory.mktemp("tables"))


def test_pgoutput_says_what_it_says_of_a_publication_of_these_tables(engine: Engine, window: Window) -> None:
    options = (*PGOUTPUT, ("publication_names", "everything"))
    assert first_difference(window.messages, window.decode(engine, "pgoutput", options, PATTERNS)) is None
    assert len(window.messages) > 30


def test_test_decoding_leaves_out_lines_of_others(engine: Engine, window: Window) -> None:
    """Their transactions stay, empty; so do logical messages."""
    expected = []
    for row in window.lines.to_pylist():
        line = row["data"].replace(
            b"table shop.items, shop.orders, public.visits:", b"table shop.orders, public.visits:"
        )
        if not line.startswith(b"table shop.items:"):
            expected.append((row["lsn"], row["xid"], line))
    assert first_difference(messages_table(expected), window.decode(engine, "test_decoding", LINES, PATTERNS)) is None
    assert len(expected) < len(window.lines)
    assert any(b"measured_high" in line for _, _, line in expected)
    assert any(line.startswith(b"message:") for _, _, line in expected)


def test_patterns_that_match_nothing(engine: Engine, window: Window) -> None:
    for pattern in ("public.nobody", "shop.order", "pg_catalog.*", "visits"):
        with pytest.raises(CatalogError, match="no table matches"):
            window.decode(engine, "test_decoding", (), f"shop.orders,{pattern}")
    dropped = values_of(window.decode(engine, "test_decoding", (), "public.visits").column("data"))
    assert [line.split(b":")[:2] for line in dropped if line.startswith(b"table")] == [
        [b"table public.visits", b" INSERT"],
        [b"table public.visits", b" TRUNCATE"],
    ]
