"""Mirrors of tables that had rows before: these come from the backup's files, and changes are merged into them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from headwater.demo.embedded_postgres import find_programs
from headwater.errors import LakeError
from headwater.sinks.lake import LandingTarget
from landing.mirrors import read_table
from landing.test_mirrors import ALL, SEGMENT, Log, landed, require_equal, worked

pytestmark = [pytest.mark.server, pytest.mark.spark]


@pytest.fixture(scope="module")
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    place = tmp_path_factory.mktemp("initial-mirrors")
    yield from worked(find_programs(16), place, 2, ddl=request.param == "ddl", before=800)


# A Delta table's columns are not widened.
@pytest.mark.parametrize(
    ("log", "format", "window"),
    [
        ("rows", "parquet", SEGMENT),
        ("rows", "delta", ALL),
        ("rows", "iceberg", SEGMENT),
        ("ddl", "parquet", SEGMENT),
        ("ddl", "iceberg", ALL),
    ],
    indirect=["log"],
)
@pytest.mark.parametrize("mode", ["current", "history"])
def test_rows_that_were_there_before_are_followed(
    spark: SparkSession, log: Log, tmp_path: Path, mode: str, format: str, window: int
) -> None:
    target = LandingTarget(tmp_path / "lake", format, mode=mode)
    landed(spark, log, target, window)
    require_equal(log, target)
    keyed = read_table(target.place / "public.keyed", format)
    if mode == "history":
        first = pc.min(keyed["_valid_from_lsn"])
        loaded = keyed.filter(pc.equal(keyed["_valid_from_lsn"], first))
        assert len(loaded) > 10
        assert loaded["_valid_from"].null_count == len(loaded)


@pytest.mark.parametrize("log", ["rows"], indirect=True)
def test_without_them_a_change_of_one_is_an_error(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake", mode="current", snapshot="never")
    with pytest.raises(LakeError, match="that is not there"):
        landed(spark, log, target, ALL)
