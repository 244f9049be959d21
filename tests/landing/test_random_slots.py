"""Random work by sessions in threads, landed from a slot while it is done: in the end what lands from the WAL."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headwater.jobs.local_engine import LocalEngine
from headwater.lakes.landing_target import NEVER, LandingTarget
from headwater.landing.landing import land
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.requests.request import DecodeRequest
from landing.mirrors import read_table
from landing.slot_sources import PUBLICATION, landed_from

pytestmark = [pytest.mark.server]

TABLES = ("plain", "whole", "by_index", "bare")
SETUP = (
    "CREATE TABLE plain (id int PRIMARY KEY, n numeric, t text)",
    "CREATE TABLE whole (id int, n numeric, t text)",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
    "CREATE TABLE by_index (id int NOT NULL, n numeric, t text)",
    "CREATE UNIQUE INDEX by_it ON by_index (id)",
    "ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_it",
    "CREATE TABLE bare (id int, n numeric, t text)",
    *(f"ALTER TABLE {table} ALTER t SET STORAGE EXTERNAL" for table in TABLES),
    f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES",
)
SESSIONS, TRANSACTIONS = 3, 60
ORDER: list[tuple[str, Any]] = [(name, "ascending") for name in ("_commit_lsn", "_lsn", "_seq", "_change_type")]


def statement(rng: random.Random, number: int) -> str:
    table, id = rng.choice(TABLES), rng.randrange(200)
    text = rng.choice(["NULL", "'short'", f"repeat(md5('{id}'), {rng.choice((90, 400))})"])
    kinds = ("insert", "truncate") if table == "bare" else ("insert", "update", "update", "delete", "truncate")
    kind = rng.choice(kinds)
    if kind == "insert":
        count, first = rng.choice((1, 3, 40)), (rng.randrange(1 << 20) * SESSIONS + number) * 100
        return f"INSERT INTO {table} SELECT i, i / 3.0, {text} FROM generate_series({first}, {first + count - 1}) i"
    if kind == "truncate":
        return f"TRUNCATE {table}" if rng.random() < 0.1 else f"DELETE FROM plain WHERE id % 97 = {id % 97}"
    where = f"id % 20 = {id % 20}"
    if kind == "delete":
        return f"DELETE FROM {table} WHERE {where}"
    sets = rng.choice([f"t = {text}", "n = n + 1", f"n = NULL, t = {text}", "id = id + 7"])
    return f"UPDATE {table} SET {sets} WHERE {where}"


def work(server: EmbeddedPostgres, seed: int, number: int) -> None:
    rng = random.Random(f"{seed} {number}")
    with server.connect() as connection:
        connection.execute("SET lock_timeout = '300ms'")
        for transaction in range(TRANSACTIONS):
            with suppress(psycopg.Error):
                for text in _transaction(rng, number, f"{number}_{transaction}"):
                    connection.execute(text.encode())
            connection.execute("ROLLBACK")


def _transaction(rng: random.Random, number: int, gid: str) -> Iterator[str]:
    yield "BEGIN"
    for _ in range(rng.randrange(1, 6)):
        if rng.random() < 0.3:
            yield "SAVEPOINT a"
            yield statement(rng, number)
            yield "ROLLBACK TO a" if rng.random() < 0.5 else "RELEASE a"
        else:
            yield statement(rng, number)
    if rng.random() < 0.15:
        yield f"PREPARE TRANSACTION '{gid}'"
        yield f"{'COMMIT' if rng.random() < 0.7 else 'ROLLBACK'} PREPARED '{gid}'"
        yield "BEGIN"
    yield "COMMIT" if rng.random() < 0.85 else "ROLLBACK"


MAJORS = [16, *(pytest.param(major, marks=pytest.mark.slow) for major in (14, 15, 17, 18))]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("major", MAJORS)
def test_random_work_lands_as_from_wal(tmp_path: Path, major: int) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    slot, wal = (LandingTarget(tmp_path / name, snapshot=NEVER) for name in ("slot", "wal"))
    with EmbeddedPostgres(find_programs(major), wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            for text in SETUP:
                connection.execute(text.encode())
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        with server.connect() as connection:
            connection.execute("SELECT pg_create_logical_replication_slot('slot', 'pgoutput')")
        threads = [Thread(target=work, args=(server, seed, number)) for number in range(SESSIONS)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            landed_from(server, "slot", slot, 100_000)
        landed_from(server, "slot", slot, 100_000)
        land(LocalEngine(), DecodeRequest(str(server.wal_directory), str(backup), "postgres"), wal)
    for table in TABLES:
        ours, expected = (_rows(target, table) for target in (slot, wal))
        assert ours.num_rows == expected.num_rows > 20, table
        for name in expected.column_names:
            assert ours[name].to_pylist() == expected[name].to_pylist(), (table, name)


def _rows(target: LandingTarget, table: str) -> pa.Table:
    return read_table(target.place / f"public.{table}", "parquet").sort_by(ORDER)
