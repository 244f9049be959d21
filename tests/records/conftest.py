"""Servers with small segments, their WAL filled by a workload that meets every shape of record."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from records_workload import run_workload
from server_records import RecordedWal, block_rows, inspect_records, waldump_records

from headwater.demo.embedded_postgres import (
    EmbeddedPostgres,
    EmbeddedPostgresError,
    ServerPrograms,
    find_programs,
)

MAJORS = (15, 16, 17, 18)


def programs_of(major: int) -> ServerPrograms:
    """An installation, or skip."""
    try:
        return find_programs(major)
    except EmbeddedPostgresError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session", params=MAJORS, ids=[f"pg{major}" for major in MAJORS])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedWal]:
    major: int = request.param
    settings = {"track_commit_timestamp": "on"}
    with EmbeddedPostgres(programs_of(major), wal_segment_megabytes=1, settings=settings) as server:
        start, end = run_workload(server)
        inspected = inspect_records(server, start, end)
        blocks = block_rows(server, start, end) if major >= 16 else []
        server.stop()
        data = server.copy_data_directory(tmp_path_factory.mktemp(f"pg{major}") / "data")
    yield RecordedWal(major, data, start, end, inspected, blocks, waldump_records(major, data / "pg_wal"))
    shutil.rmtree(data)
