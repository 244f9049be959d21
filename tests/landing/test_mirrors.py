"""Mirrors are what the server's tables are, whatever was done, and whatever windows and runs it comes in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest

from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.parquet_table import ParquetTable
from headwater.local_servers.server_programs import find_programs
from landing.mirrored_log import ALL, MOMENTS, SEGMENT, Log, landed, require_equal, worked
from landing.mirrors import read_table

pytestmark = [pytest.mark.server, pytest.mark.spark]


@pytest.fixture(scope="module", params=["rows", "ddl"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    yield from worked(find_programs(16), tmp_path_factory.mktemp("mirrors"), 1, ddl=request.param == "ddl")


@pytest.mark.parametrize(
    ("format", "window"),
    [
        ("delta", ALL),
        ("iceberg", SEGMENT),
        pytest.param("parquet", SEGMENT, marks=pytest.mark.slow),
        pytest.param("parquet", ALL, marks=pytest.mark.slow),
        pytest.param("delta", SEGMENT, marks=pytest.mark.slow),
        pytest.param("iceberg", ALL, marks=pytest.mark.slow),
        pytest.param("ducklake", SEGMENT, marks=pytest.mark.slow),
        pytest.param("ducklake", ALL, marks=pytest.mark.slow),
    ],
)
def test_mirrors_are_what_the_server_has(engine: Engine, log: Log, tmp_path: Path, format: str, window: int) -> None:
    target = LandingTarget(tmp_path / "lake", format, mode="current")
    landed(engine, log, target, window)
    require_equal(log, target)
    assert sum(len(rows) for _, rows in log.tables.values()) > 50
    again = landed(engine, log, target, window)
    assert (again.rows, again.files) == ({}, 0)


@pytest.mark.parametrize(
    ("format", "window"),
    [
        ("parquet", SEGMENT),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("delta", ALL), ("iceberg", SEGMENT), ("ducklake", ALL))
        ),
    ],
)
def test_history_has_what_there_was_at_any_time(
    engine: Engine, log: Log, tmp_path: Path, format: str, window: int
) -> None:
    target = LandingTarget(tmp_path / "lake", format, mode="history")
    landed(engine, log, target, window)
    require_equal(log, target)
    if not any(len(columns) > 4 for columns, _ in [log.tables["pair"], log.tables["bag"]]):
        for lsn in log.moments:
            require_equal(log, target, lsn)
    keyed = read_table(target.place / "public.keyed", format)
    assert pc.all(pc.less(keyed["_valid_from_lsn"], keyed["_valid_to_lsn"])).as_py()
    assert pc.all(pc.less_equal(keyed["_valid_from"], keyed["_valid_to"])).as_py()
    assert keyed["_valid_to"].null_count == keyed["_valid_to_lsn"].null_count < len(keyed)


def test_versions_that_have_ended_are_never_rewritten(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake", mode="history")
    landed(engine, log, target, SEGMENT, end=sorted(log.moments)[MOMENTS // 2])
    before = closed_files(target)
    landed(engine, log, target, SEGMENT)
    after = closed_files(target)
    assert before
    assert before < after


def closed_files(target: LandingTarget) -> set[str]:
    with ParquetTable(target.place / "public.keyed", source_of(target)) as table:
        return {path for path, file in table.files.items() if file.nulls["_valid_to_lsn"] == 0}


def source_of(target: LandingTarget) -> str:
    source: str = json.loads((target.place / "_headwater" / "target.json").read_text())["source"]
    return source
