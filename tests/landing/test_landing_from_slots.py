"""Tables that land from a slot of a server are those that land from its WAL: rows, places, times, types, mirrors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.jobs.local_engine import LocalEngine
from headwater.lakes.landing_target import NEVER, LandingTarget
from headwater.landing.landing import land
from headwater.landing.landing_modes import CHANGELOG, CURRENT, HISTORY
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.requests.request import DecodeRequest
from landing.mirrors import read_table
from landing.slot_sources import PUBLICATION, landed_from, without_warnings
from landing.type_matrix import UUID, Matrix, Table, array_of

pytestmark = [pytest.mark.server]

TARGETS = {"parquet": CHANGELOG, "delta": CURRENT, "iceberg": HISTORY, "ducklake": CURRENT}
"""Modes by formats: a slot each, which reads the same."""
FULL = Table("whole", (UUID, array_of(UUID)))
ORDERS = """
CREATE TABLE orders (id int PRIMARY KEY, note text, total numeric(10,2), blob text);
ALTER TABLE orders ALTER blob SET STORAGE EXTERNAL;
CREATE TABLE quiet (id int);
CREATE TABLE changing (id int PRIMARY KEY, note text, n int);
CREATE TABLE copied (id int, note text);
"""
WORK = """
INSERT INTO orders SELECT i, repeat('x', i), i / 4.0, repeat(md5(i::text), 200) FROM generate_series(1, 300) i;
UPDATE orders SET total = total + 1 WHERE id % 3 = 0;
UPDATE orders SET id = id + 1000 WHERE id % 5 = 0;
DELETE FROM orders WHERE id % 7 = 0;
BEGIN; INSERT INTO orders (id) VALUES (6000); SAVEPOINT a; INSERT INTO orders (id) VALUES (6001); ROLLBACK TO a;
INSERT INTO orders (id) VALUES (6002); COMMIT;
BEGIN; INSERT INTO orders (id) VALUES (7000); ROLLBACK;
TRUNCATE quiet;
INSERT INTO quiet VALUES (1), (2);
TRUNCATE quiet, orders;
INSERT INTO orders (id, note) VALUES (1, NULL), (2, '');
BEGIN; INSERT INTO orders VALUES (8000, 'prepared'); PREPARE TRANSACTION 'a';
BEGIN; INSERT INTO orders VALUES (8001, 'rolled back'); PREPARE TRANSACTION 'b';
ROLLBACK PREPARED 'b';
INSERT INTO orders VALUES (8002, 'before it');
COMMIT PREPARED 'a';
SELECT pg_logical_emit_message(true, 'a', 'message'), pg_logical_emit_message(false, 'b', 'other');
SELECT pg_replication_origin_create('north');
SELECT pg_replication_origin_session_setup('north');
INSERT INTO orders VALUES (8003, 'from elsewhere');
SELECT pg_replication_origin_session_reset();
BEGIN; INSERT INTO changing VALUES (1, 'a', 2); ALTER TABLE changing ADD COLUMN d int; INSERT INTO changing VALUES
(2, 'b', 3, 4); ALTER TABLE changing ALTER n TYPE bigint; UPDATE changing SET n = 5 WHERE id = 1; COMMIT;
ALTER TABLE changing DROP COLUMN note;
UPDATE changing SET d = 7;
"""


@dataclass(frozen=True)
class Both:
    """A server's work, which lands from slots and from WAL.

    Attributes:
        server: it runs still; backup: a copy from before the work.
        tables: names of all.
    """

    server: EmbeddedPostgres
    backup: Path
    tables: list[str]

    def from_slot(self, place: Path, format: str) -> LandingTarget:
        target = LandingTarget(place / "slot", format, mode=TARGETS[format], snapshot=NEVER)
        landed_from(self.server, f"of_{format}", target, 1 << (12 if format == "delta" else 30))
        return target

    def from_wal(self, place: Path, format: str) -> LandingTarget:
        target = LandingTarget(place / "wal", format, mode=TARGETS[format], snapshot=NEVER)
        with without_warnings(target):
            wal = str(self.server.wal_directory)
            land(LocalEngine(), DecodeRequest(wal, str(self.backup), "postgres"), target)
        return target


def _setup(matrix: Matrix) -> Iterator[str]:
    yield from matrix.made_by
    for table in matrix.tables:
        yield table.made_by()
    yield FULL.made_by(key="")
    yield "ALTER TABLE whole REPLICA IDENTITY FULL"
    yield from filter(None, map(str.strip, ORDERS.split(";\n")))
    yield f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES"


def _work(matrix: Matrix) -> Iterator[str]:
    for table in (*matrix.tables, FULL):
        yield from (table.inserted(number, number) for number in range(6))
        yield table.updated(1, "id = 0")
        yield f"UPDATE {table.name} SET id = id + 100 WHERE id = 1"
        yield f"DELETE FROM {table.name} WHERE id = 2"
    yield from filter(None, map(str.strip, WORK.split(";\n")))


MAJORS = [16, *(pytest.param(major, marks=pytest.mark.slow) for major in (14, 15, 17, 18))]


@pytest.fixture(scope="module", params=MAJORS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    matrix, place = Matrix(), tmp_path_factory.mktemp("slots")
    with EmbeddedPostgres(find_programs(request.param), autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            for statement in _setup(matrix):
                connection.execute(statement)
        server.stop()
        backup = server.copy_data_directory(place / "backup")
        server.start()
        with server.connect() as connection:
            for format in TARGETS:
                connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [f"of_{format}"])
            for statement in _work(matrix):
                connection.execute(statement)
            with connection.cursor().copy("COPY copied FROM STDIN") as copy:
                copy.write("".join(f"{number}\tcopied\n" for number in range(3000)))
        names = [table.name for table in matrix.tables]
        yield Both(server, backup, [*names, "whole", "orders", "quiet", "changing", "copied"])


ORDER: list[tuple[str, Any]] = [(name, "ascending") for name in ("_commit_lsn", "_lsn", "_seq", "_change_type")]


def _rows(target: LandingTarget, table: str) -> pa.Table:
    rows = read_table(target.place / f"public.{table}", target.format)
    names = set(rows.column_names)
    order = ORDER if target.mode == CHANGELOG else [(name, way) for name, way in [("id", "ascending")] if name in names]
    more: list[tuple[str, Any]] = [("_valid_from_lsn", "ascending")] if target.mode == HISTORY else []
    return rows.sort_by([*order, *more])


EACH = [pytest.param(format, marks=[] if format == "parquet" else pytest.mark.slow) for format in TARGETS]


@pytest.mark.parametrize("format", EACH)
def test_what_lands_is_what_lands_from_wal(both: Both, tmp_path: Path, format: str) -> None:
    ours, expected = both.from_slot(tmp_path, format), both.from_wal(tmp_path, format)
    for table in both.tables:
        landed, wanted = _rows(ours, table), _rows(expected, table)
        assert landed.schema.equals(wanted.schema), table
        for name in wanted.column_names:
            assert landed[name].to_pylist() == wanted[name].to_pylist(), (table, name)
    assert _rows(expected, "orders").num_rows
