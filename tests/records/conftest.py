"""Servers with small segments, their WAL filled by a workload that meets every shape of record."""

from __future__ import annotations

import fcntl
import pickle
import shutil
from pathlib import Path

import pytest

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import ServerPrograms
from packaged_servers import programs_of
from records.records_workload import run_workload
from records.server_records import RecordedWal, block_rows, inspect_records, waldump_records
from run_directory import run_directory

MAJORS = (14, 15, 16, 17, 18, 19)
FEW_OR_ALL = [major if major in (16, 18) else pytest.param(major, marks=pytest.mark.slow) for major in MAJORS]


@pytest.fixture(scope="session", params=FEW_OR_ALL, ids=[f"pg{major}" for major in MAJORS])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RecordedWal:
    """Record WAL once for all files of tests, whichever process runs them."""
    major: int = request.param
    programs, place = programs_of(major), run_directory(tmp_path_factory) / f"records-pg{major}"
    place.mkdir(exist_ok=True)
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = place / "recorded"
        if not made.exists():
            made.write_bytes(pickle.dumps(_record(programs, place / "data")))
        wal: RecordedWal = pickle.loads(made.read_bytes())
    return wal


def _record(programs: ServerPrograms, data: Path) -> RecordedWal:
    settings, major = {"track_commit_timestamp": "on"}, programs.major
    shutil.rmtree(data, ignore_errors=True)
    with EmbeddedPostgres(programs, wal_segment_megabytes=1, settings=settings) as server:
        start, end = run_workload(server)
        inspected = inspect_records(server, start, end)
        blocks = block_rows(server, start, end) if major >= 16 else []
        server.stop()
        server.copy_data_directory(data)
    return RecordedWal(major, data, start, end, inspected, blocks, waldump_records(major, data / "pg_wal"))
