"""Mirrors are what the server's tables are, whatever was done, and whatever windows and runs it comes in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from headwater.demo.embedded_postgres import EmbeddedPostgres, find_programs
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.parquet_table import ParquetTable
from headwater.landing.landing import land
from headwater.landing.landing_pass import LandingResult
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from landing.mirror_workload import SETUP, TABLES, Work
from landing.mirrors import Rows, columns_by_number, mirror_rows, read_table, server_rows

pytestmark = [pytest.mark.server]

SEGMENT, ALL = 1 << 20, 1 << 30
STEPS, MOMENTS = 1500, 10


Tables = dict[str, tuple[list[int], Rows]]


@dataclass(frozen=True)
class Log:
    """A stopped server's files, and what its tables held.

    Attributes:
        backup, wal: files.
        moments: by LSN, by name, numbers of their columns, and rows.
    """

    backup: Path
    wal: Path
    moments: dict[int, Tables]

    @property
    def tables(self) -> Tables:
        """At the end."""
        return self.moments[max(self.moments)]


def worked(programs: Any, place: Path, seed: int, *, ddl: bool, before: int = 0, steps: int = STEPS) -> Iterator[Log]:
    """Work on a server: so many statements, and `before` of them before its files are copied."""
    with EmbeddedPostgres(programs, autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            for statement in SETUP.split(";\n"):
                connection.execute(statement)
        work, moments = Work(server.connect, seed, ddl=ddl), {}
        work.run(before)
        server.stop()
        backup = server.copy_data_directory(place / "backup")
        server.start()
        with server.connect() as connection:
            for _ in range(MOMENTS):
                work.run(steps // MOMENTS)
                row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
                assert row is not None
                moments[int(Lsn.parse(row[0]))] = {name: server_rows(connection, name) for name in TABLES}
        server.stop()
        yield Log(backup, server.wal_directory, moments)


@pytest.fixture(scope="module", params=["rows", "ddl"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    yield from worked(find_programs(16), tmp_path_factory.mktemp("mirrors"), 1, ddl=request.param == "ddl")


def landed(engine: Engine, log: Log, target: LandingTarget, window: int, **request: Any) -> LandingResult:
    asked = DecodeRequest(str(log.wal), str(log.backup), "postgres", **request)
    return land(engine, asked, target, bounds=WindowBounds(window))


def require_equal(log: Log, target: LandingTarget, lsn: int | None = None) -> None:
    """See that mirrors are what the server has had at an LSN; at the end."""
    for name in TABLES:
        numbers, rows = log.moments[max(log.moments) if lsn is None else lsn][name]
        place = target.place / f"public.{name}"
        if not place.exists():
            assert not rows
            continue
        columns = columns_by_number(place, target.format)
        held = read_table(place, target.format)
        if target.mode == "history":
            held = held.filter(as_of(lsn))
        found = mirror_rows(held, [columns[number] for number in numbers])
        assert found == rows, name


def as_of(lsn: int | None) -> pc.Expression:
    """The versions that are there, or were at an LSN."""
    begin, end = pc.field("_valid_from_lsn"), pc.field("_valid_to_lsn")
    return end.is_null() if lsn is None else (begin < lsn) & (end.is_null() | (end >= lsn))


@pytest.mark.parametrize(
    ("format", "window"),
    [
        ("delta", ALL),
        ("iceberg", SEGMENT),
        pytest.param("parquet", SEGMENT, marks=pytest.mark.slow),
        pytest.param("parquet", ALL, marks=pytest.mark.slow),
        pytest.param("delta", SEGMENT, marks=pytest.mark.slow),
        pytest.param("iceberg", ALL, marks=pytest.mark.slow),
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
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("delta", ALL), ("iceberg", SEGMENT))),
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
        return {path for path, one in table.files.items() if one.nulls["_valid_to_lsn"] == 0}


def source_of(target: LandingTarget) -> str:
    found: str = json.loads((target.place / "_headwater" / "target.json").read_text())["source"]
    return found
