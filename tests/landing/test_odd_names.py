"""Columns, tables and places whose names mean something else to a library or to a format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.pipeline.request import DecodeRequest
from headwater.pipeline.run_index import WindowBounds
from headwater.sinks.landing import land
from headwater.sinks.landing_target import FORMATS, LandingTarget
from landing.mirrors import read_table
from landing.two_parts import Log, two_parts

pytestmark = [pytest.mark.server, pytest.mark.spark]

KEY = (".x", "[0]", "a.b", "y.", "*", "$.z")
QUOTED = ", ".join(f'"{name}"' for name in KEY)
VALUES = ", ".join("i" for _ in KEY)
DEFINED = ", ".join(f'"{name}" int' for name in KEY)
SETUP = f"CREATE TABLE columns ({DEFINED}, n int, PRIMARY KEY ({QUOTED}));"
FIRST = f"INSERT INTO columns SELECT {VALUES}, i FROM generate_series(1, 9) i;"
SECOND = 'UPDATE columns SET ".x" = -".x", n = 0 WHERE n % 3 = 0;'


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    queries = {"columns": f"SELECT {QUOTED}, n FROM columns ORDER BY 1"}
    with two_parts(tmp_path_factory.mktemp("names"), SETUP, FIRST, SECOND, queries) as found:
        yield found


def landed(spark: SparkSession, log: Log, target: LandingTarget, end: int | None = None) -> None:
    request = DecodeRequest(str(log.wal), str(log.backup), "postgres", end=end)
    land(spark, request, target, bounds=WindowBounds(1 << 20))


@pytest.mark.parametrize("format", FORMATS)
def test_key_columns_that_look_like_paths(spark: SparkSession, log: Log, tmp_path: Path, format: str) -> None:
    target = LandingTarget(tmp_path / "lake", format, mode="current")
    landed(spark, log, target, log.middle)
    landed(spark, log, target)
    held = read_table(target.place / "public.columns", format)
    assert sorted(tuple(row.values()) for row in held.to_pylist()) == log.tables["columns"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_place_that_looks_like_an_address(
    spark: SparkSession, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.chdir(tmp_path)
    target = LandingTarget(Path("re:lative #1 [a]*") / "lake", format, mode="current")
    landed(spark, log, target, log.middle)
    landed(spark, log, target)
    assert len(read_table(tmp_path / "re:lative #1 [a]*" / "lake" / "public.columns", format)) == 9
