"""Views against the server's catalog over random DDL: from a stopped copy, an online backup, a crashed copy."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from catalog.random_ddl import RandomDdl
from catalog.recording import Recorder, read_records, roll_forward, wrong_marks
from catalog.windows import check_windows, cut_at_random
from headwater.catalog.store.bootstrap import open_catalog
from headwater.errors import CatalogError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.receiver.catalog_export import export_catalog
from headwater.slots.value_file import save_value
from packaged_servers import client_of, programs_of

pytestmark = pytest.mark.server

STEPS = 150
CUTS = 8
EAGER = {"shared_buffers": "1MB", "bgwriter_delay": "10ms"}
"""Dirty catalog pages go to disk at once, so that copies hold pages from the middle of the log."""


def _slow(major: int, seed: int) -> Any:
    """Mark a case as slow: each way of copying once, and each major, is for every day."""
    return pytest.param(major, seed, marks=pytest.mark.slow)


def make_server(major: int) -> EmbeddedPostgres:
    return EmbeddedPostgres(programs_of(major), settings=EAGER, autovacuum=False)


def check(recorder: Recorder, backup: Path, wal: Path, older: frozenset[int] = frozenset()) -> None:
    """Compare all marks in the WAL; what a transaction did before it began, not even it itself can see."""
    rolled = roll_forward(backup, wal)
    start = rolled.store.start_lsn
    older |= {mark.xid for mark in recorder.marks if mark.lsn <= start} - {0}
    marks = [mark for mark in recorder.marks if mark.lsn > start and mark.xid not in older]
    assert len(marks) > STEPS / 2
    wrong = wrong_marks(marks, rolled)
    assert not wrong, wrong[0]
    wrong = check_windows(cut_at_random(backup, wal, rolled, CUTS, seed=len(marks)), marks)
    assert not wrong, wrong[0]


def end_of_log(directory: Path, major: int) -> int:
    """Return the end of a copied server's log: what it had not written at the crash never was."""
    return read_records(directory / "pg_wal", open_catalog(directory, "postgres").start_lsn, major)[-1].end_lsn


@pytest.mark.parametrize(("major", "seed"), [_slow(14, 10), _slow(15, 1), _slow(16, 2), _slow(17, 3), (18, 4)])
def test_from_a_stopped_copy(major: int, seed: int, tmp_path: Path) -> None:
    with make_server(major) as server:
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        recorder = Recorder(server)
        ddl = RandomDdl(recorder, seed)
        ddl.set_up()
        for _ in range(STEPS):
            ddl.step()
        ddl.finish()
        recorder.close()
        server.stop()
        check(recorder, backup, server.wal_directory)


@pytest.mark.parametrize(("major", "seed"), [_slow(15, 5), (16, 6), _slow(18, 7)])
def test_from_an_online_backup(major: int, seed: int, tmp_path: Path) -> None:
    client = client_of("pg_basebackup", major)
    with make_server(major) as server:
        recorder = Recorder(server)
        ddl = RandomDdl(recorder, seed)
        ddl.set_up()
        for _ in range(STEPS // 3):
            ddl.step(mark=False)
        backup = tmp_path / "backup"
        older = frozenset({recorder.open_xid(name) for name in "ab"} - {0})
        command = [str(client), "-D", str(backup), "-X", "none", "-c", "fast", "--max-rate=8M", "--no-manifest"]
        with subprocess.Popen(command, env=server.client_environment(), stderr=subprocess.DEVNULL) as copying:
            while copying.poll() is None:
                ddl.step()
        assert copying.returncode == 0
        for _ in range(STEPS // 2):
            ddl.step()
        ddl.finish()
        recorder.close()
        server.stop()
        check(recorder, backup, server.wal_directory, older)


@pytest.mark.parametrize(("major", "seed"), [_slow(14, 13), _slow(15, 10), _slow(16, 11), _slow(18, 12)])
def test_from_an_exported_catalog(major: int, seed: int, tmp_path: Path) -> None:
    """Marks after the consistent point, of transactions that began after it or that the slot waited for."""
    with make_server(major) as server:
        recorder = Recorder(server)
        ddl = RandomDdl(recorder, seed)
        ddl.set_up()
        for _ in range(STEPS // 3):
            ddl.step(mark=False)
        recorder.quietly("a", "CHECKPOINT") if not recorder.open_xid("a") else None
        with ThreadPoolExecutor(1) as pool:
            while not exporting_done(pool, server, tmp_path / "catalog", ddl):
                pass
        for _ in range(STEPS):
            ddl.step()
        ddl.finish()
        recorder.close()
        server.stop()
        check(recorder, tmp_path / "catalog", server.wal_directory)


def exporting_done(pool: ThreadPoolExecutor, server: EmbeddedPostgres, file: Path, ddl: RandomDdl) -> bool:
    """Export while the work goes on; False if that has rewritten a catalog meanwhile."""
    exporting = pool.submit(export_catalog, dsn_of(server))
    while not exporting.done():
        ddl.step(mark=False)
    try:
        save_value(file, exporting.result())
    except CatalogError as error:
        if error.hint != "export again":
            raise
        return False
    return True


def dsn_of(server: EmbeddedPostgres) -> str:
    return " ".join(f"{name}={word}" for name, word in server.connection_info().items())


@pytest.mark.parametrize(("major", "seed"), [_slow(14, 11), _slow(15, 8), _slow(18, 9)])
def test_from_a_copy_of_a_crashed_server(major: int, seed: int, tmp_path: Path) -> None:
    with make_server(major) as server:
        recorder = Recorder(server)
        ddl = RandomDdl(recorder, seed)
        ddl.set_up()
        for _ in range(STEPS // 2):
            ddl.step()
        server.crash()
        recorder.close()
        backup = tmp_path / "backup"
        shutil.copytree(server.data_directory, backup, symlinks=True)
        recorder.forget_behind(end_of_log(backup, major))
        server.start()
        ddl.sessions_lost()
        for _ in range(STEPS // 2):
            ddl.step()
        ddl.finish()
        recorder.close()
        server.stop()
        check(recorder, backup, server.wal_directory)
