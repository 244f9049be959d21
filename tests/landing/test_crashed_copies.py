"""Rows of a server that was killed: as recovery of its files finds them, whatever it had cut off or removed by then."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import threading
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from headwater.errors import CatalogError
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from landing.existing_rows import Rows, compare, landed, run, selected, server_of

pytestmark = [pytest.mark.server]

KEYS = {"busy": ["id"], "rebuilt": ["id"], "cut": ["id"], "emptied": ["id"], "kept": ["id"]}

SETUP = """
CREATE TABLE busy (id int PRIMARY KEY, balance int, filler text);
INSERT INTO busy SELECT i, 0, repeat('f', 80) FROM generate_series(1, 5000) i;
CREATE TABLE rebuilt (id int PRIMARY KEY, body text);
ALTER TABLE rebuilt ALTER body SET STORAGE EXTERNAL;
INSERT INTO rebuilt SELECT i, repeat(md5(i::text), 100) FROM generate_series(1, 200) i;
CREATE TABLE cut (id int PRIMARY KEY, note text);
INSERT INTO cut SELECT i, repeat('c', 200) FROM generate_series(1, 2000) i;
CREATE TABLE emptied (id int PRIMARY KEY, note text);
INSERT INTO emptied SELECT i, 'before' FROM generate_series(1, 1000) i;
CREATE TABLE gone AS SELECT generate_series(1, 1000) AS id;
CREATE TABLE kept (id int PRIMARY KEY, note text);
INSERT INTO kept SELECT i, 'kept' FROM generate_series(1, 3000) i;
CHECKPOINT;
"""

SHORTLY_BEFORE = """
VACUUM FULL rebuilt;
DELETE FROM cut WHERE id > 300;
VACUUM cut;
TRUNCATE emptied;
INSERT INTO emptied VALUES (1, 'behind'), (7, 'behind');
DROP TABLE gone;
UPDATE kept SET note = 'changed' WHERE id % 9 = 0;
VACUUM kept;
"""


def kill(server: EmbeddedPostgres) -> None:
    """Kill all processes of a server with SIGKILL, and wait for their end."""
    process, server.process = server.process, None
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    watched = [os.pidfd_open(int(pid)) for pid in children]
    for pid in children:
        os.kill(int(pid), signal.SIGKILL)
    process.kill()
    process.wait()
    for descriptor in watched:
        assert select.select([descriptor], [], [], 60)[0]
        os.close(descriptor)


def pay(server: EmbeddedPostgres, seed: int, has_begun: threading.Barrier) -> None:
    """Commit transactions as pgbench makes them, until the server is killed."""
    chance = random.Random(seed)
    with suppress(psycopg.OperationalError), server.connect() as connection:
        for number in range(1_000_000):
            with connection.transaction():
                for _ in range(2):
                    connection.execute(
                        "UPDATE busy SET balance = balance + %s WHERE id = %s",
                        (chance.randint(-9, 9), chance.randint(1, 2500) * 2 - seed % 2),
                    )
            if number == 50:
                has_begun.wait()


def killed_under_load(server: EmbeddedPostgres) -> None:
    with server.connect() as connection:
        run(connection, SETUP)
    has_begun = threading.Barrier(3)
    paying = [threading.Thread(target=pay, args=(server, seed, has_begun)) for seed in (1, 2)]
    for thread in paying:
        thread.start()
    has_begun.wait()
    with server.connect() as connection:
        run(connection, SHORTLY_BEFORE)
    kill(server)
    for thread in paying:
        thread.join()


def recovered(server: EmbeddedPostgres) -> dict[str, Rows]:
    # The one that was killed is in it as one that takes connections.
    (server.data_directory / "postmaster.pid").unlink()
    server.start()
    with server.connect() as connection:
        return selected(connection, KEYS)


@pytest.mark.parametrize("mode", ["changelog", "current"])
def test_rows_of_a_killed_server(engine: Engine, tmp_path: Path, mode: str) -> None:
    """As of where recovery ends; more WAL, which the recovered server writes, goes on from there."""
    with server_of(16, shared_buffers="256kB") as server:
        killed_under_load(server)
        copy = server.copy_data_directory(tmp_path / "copy")
        expected = recovered(server)
        target = LandingTarget(tmp_path / "lake", mode=mode)
        result = landed(engine, copy / "pg_wal", copy, target)
        assert result.rows == {f"public.{name}": len(rows) for name, rows in expected.items()}
        compare(target, expected, KEYS, server)
        with server.connect() as connection:
            run(connection, "UPDATE kept SET note = 'later' WHERE id = 5;\nDELETE FROM rebuilt WHERE id < 50")
            expected = selected(connection, KEYS)
            connection.execute("SELECT pg_switch_wal()")
        landed(engine, server.wal_directory, copy, target)
        compare(target, expected, KEYS, server)


def test_a_killed_server_that_went_on(engine: Engine, tmp_path: Path) -> None:
    """The WAL goes on behind the crash already when the copy is landed; without its own WAL the copy is refused."""
    with server_of(18, shared_buffers="256kB") as server:
        killed_under_load(server)
        copy = server.copy_data_directory(tmp_path / "copy")
        recovered(server)
        with server.connect() as connection:
            run(connection, "UPDATE kept SET note = 'later' WHERE id = 5;\nDELETE FROM rebuilt WHERE id < 50")
            expected = selected(connection, KEYS)
            connection.execute("SELECT pg_switch_wal()")
        target = LandingTarget(tmp_path / "lake", mode="current")
        landed(engine, server.wal_directory, copy, target)
        compare(target, expected, KEYS, server)
        shutil.rmtree(copy / "pg_wal")
        (copy / "pg_wal").mkdir()
        with pytest.raises(CatalogError, match="without its WAL") as refused:
            landed(engine, server.wal_directory, copy, LandingTarget(tmp_path / "refused", mode="current"))
        assert "pg_basebackup" in (refused.value.hint or "")


def test_a_table_rebuilt_shortly_before(engine: Engine, tmp_path: Path) -> None:
    """No page is younger than where decoding can begin; the file of then is empty, and no change follows."""
    with server_of(16) as server:
        with server.connect() as connection:
            run(connection, SETUP)
            connection.execute("VACUUM FULL rebuilt")
        kill(server)
        copy = server.copy_data_directory(tmp_path / "copy")
        expected = recovered(server)
        target = LandingTarget(tmp_path / "lake", mode="current")
        landed(engine, copy / "pg_wal", copy, target)
        compare(target, expected, KEYS, server)
