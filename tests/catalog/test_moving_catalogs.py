"""Copies of a server while a transaction has written a catalog to another file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from catalog.recording import Recorder, roll_forward, wrong_marks
from catalog.windows import check_windows, cut_at_random
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from packaged_servers import client_of, programs_of

pytestmark = pytest.mark.server

INDEXES = {"pg_enum": "pg_enum_oid_index", "pg_class": "pg_class_oid_index"}


def begun(server: EmbeddedPostgres, catalog: str) -> Recorder:
    """Make sessions of which one has moved a catalog in a transaction that is open, with a checkpoint since."""
    recorder = Recorder(server)
    recorder.quietly("a", "CREATE TYPE mood AS ENUM ('a', 'b'); CREATE TABLE t (m mood)")
    recorder.mark("before")
    recorder.quietly("b", "SELECT 1")
    recorder.quietly("a", "BEGIN")
    recorder.quietly("a", f"CLUSTER {catalog} USING {INDEXES[catalog]}")
    recorder.quietly("b", "CHECKPOINT")
    return recorder


def check(recorder: Recorder, server: EmbeddedPostgres, backup: Path) -> None:
    """Change the catalogs, and compare what is seen of them."""
    for statement in ("ALTER TYPE mood ADD VALUE 'c'", "CREATE TABLE u (m mood)", "CHECKPOINT", "DROP TABLE t"):
        recorder.quietly("b", statement)
        recorder.mark(statement)
    compare(recorder, server, backup, 4)


def compare(recorder: Recorder, server: EmbeddedPostgres, backup: Path, count: int) -> None:
    """Compare what was seen at so many marks after the copy, with all of the WAL at once and in windows."""
    recorder.close()
    server.stop()
    rolled = roll_forward(backup, server.wal_directory)
    marks = [mark for mark in recorder.marks if mark.lsn > rolled.store.start_lsn]
    assert len(marks) == count
    wrong = wrong_marks(marks, rolled)
    assert not wrong, wrong[0]
    wrong = check_windows(cut_at_random(backup, server.wal_directory, rolled, 6, seed=1), marks)
    assert not wrong, wrong[0]


def crashed_copy(recorder: Recorder, server: EmbeddedPostgres, directory: Path) -> Path:
    """Copy what a crash leaves; the server runs again."""
    server.crash()
    recorder.close()
    backup = directory / "backup"
    shutil.copytree(server.data_directory, backup, symlinks=True)
    server.start()
    return backup


def make_server(major: int) -> EmbeddedPostgres:
    return EmbeddedPostgres(programs_of(major), autovacuum=False)


@pytest.mark.parametrize(
    ("major", "catalog"),
    [pytest.param(14, "pg_enum", marks=pytest.mark.slow), (15, "pg_enum"), (18, "pg_enum"), (18, "pg_class")],
)
def test_a_crash_undoes_the_move(major: int, catalog: str, tmp_path: Path) -> None:
    with make_server(major) as server:
        recorder = begun(server, catalog)
        check(recorder, server, crashed_copy(recorder, server, tmp_path))


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_the_move_ends_behind_an_online_backup(end: str, tmp_path: Path) -> None:
    client = client_of("pg_basebackup", 18)
    with make_server(18) as server:
        recorder = begun(server, "pg_enum")
        backup = tmp_path / "backup"
        command = [str(client), "-D", str(backup), "-X", "none", "-c", "fast", "--no-manifest"]
        subprocess.run(command, env=server.client_environment(), check=True, stderr=subprocess.DEVNULL)
        recorder.quietly("a", end)
        check(recorder, server, backup)


def test_a_row_that_a_shared_catalog_left_behind_when_it_moved(tmp_path: Path) -> None:
    """The copy has the new file and its map; only NEW_CID records name the old one."""
    with make_server(18) as server:
        recorder = Recorder(server)
        recorder.quietly("a", "SELECT pg_replication_origin_create('one'), pg_replication_origin_create('two')")
        for statement in (
            "CHECKPOINT",
            "CREATE TABLE t (i int)",
            "SELECT pg_replication_origin_drop('one')",
            "VACUUM FULL pg_replication_origin",
            "CREATE TABLE u (i int)",
        ):
            recorder.quietly("a", statement)
            recorder.mark(statement)
        backup = crashed_copy(recorder, server, tmp_path)
        recorder.quietly("a", "CHECKPOINT")
        compare(recorder, server, backup, 5)
