"""Mirrors are what the server's tables are, whatever was done, and whatever windows and runs it comes in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.demo.embedded_postgres import EmbeddedPostgres, find_programs
from headwater.pipeline.request import DecodeRequest
from headwater.pipeline.run_index import WindowBounds
from headwater.sinks.lake import LandingTarget
from headwater.sinks.landing import LandingResult, land
from landing.mirror_workload import SETUP, TABLES, Work
from landing.mirrors import Rows, columns_by_number, mirror_rows, read_table, server_rows

pytestmark = [pytest.mark.server, pytest.mark.spark]

SEGMENT, ALL = 1 << 20, 1 << 30
STEPS = 400


@dataclass(frozen=True)
class Log:
    """A stopped server's files, and what its tables held.

    Attributes:
        backup, wal: files.
        tables: by name, numbers of their columns, and rows.
    """

    backup: Path
    wal: Path
    tables: dict[str, tuple[list[int], Rows]]


def worked(programs: Any, place: Path, seed: int, *, ddl: bool) -> Iterator[Log]:
    with EmbeddedPostgres(programs, autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            for statement in SETUP.split(";\n"):
                connection.execute(statement)
        server.stop()
        backup = server.copy_data_directory(place / "backup")
        server.start()
        Work(server.connect, seed, ddl=ddl).run(STEPS)
        with server.connect() as connection:
            tables = {name: server_rows(connection, name) for name in TABLES}
        server.stop()
        yield Log(backup, server.wal_directory, tables)


@pytest.fixture(scope="module", params=["rows", "ddl"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    yield from worked(find_programs(16), tmp_path_factory.mktemp("mirrors"), 1, ddl=request.param == "ddl")


def landed(spark: SparkSession, log: Log, target: LandingTarget, window: int, **request: Any) -> LandingResult:
    asked = DecodeRequest(str(log.wal), str(log.backup), "postgres", **request)
    return land(spark, asked, target, bounds=WindowBounds(window))


def require_equal(log: Log, target: LandingTarget) -> None:
    for name, (numbers, rows) in log.tables.items():
        place = target.place / f"public.{name}"
        if not place.exists():
            assert not rows
            continue
        names = columns_by_number(place, target.format)
        found = mirror_rows(read_table(place, target.format), [names[number] for number in numbers])
        assert found == rows, name


@pytest.mark.parametrize("window", [SEGMENT, ALL], ids=["segments", "whole"])
@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_mirrors_are_what_the_server_has(
    spark: SparkSession, log: Log, tmp_path: Path, format: str, window: int
) -> None:
    target = LandingTarget(tmp_path / "lake", format, mode="current")
    landed(spark, log, target, window)
    require_equal(log, target)
    assert sum(len(rows) for _, rows in log.tables.values()) > 50
    again = landed(spark, log, target, window)
    assert (again.rows, again.files) == ({}, 0)
