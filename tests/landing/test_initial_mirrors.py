"""Mirrors of tables that had rows before: these come from the backup's files, and changes are merged into them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest

from headwater.errors import LakeError
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.local_servers.server_programs import find_programs
from headwater.plugins.table_patterns import TablePatterns
from landing.mirrored_log import ALL, SEGMENT, Log, landed, require_equal, worked
from landing.mirrors import read_table

pytestmark = [pytest.mark.server]


@pytest.fixture(scope="module")
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    place = tmp_path_factory.mktemp("initial-mirrors")
    yield from worked(find_programs(16), place, 2, ddl=request.param == "ddl", before=800)


SLOW = [
    ("rows", "parquet", SEGMENT, "current"),
    ("rows", "parquet", SEGMENT, "history"),
    ("rows", "iceberg", SEGMENT, "current"),
    ("rows", "iceberg", SEGMENT, "history"),
    ("rows", "delta", ALL, "current"),
    ("ddl", "iceberg", ALL, "current"),
    ("ddl", "iceberg", ALL, "history"),
    ("ddl", "parquet", SEGMENT, "history"),
    ("rows", "ducklake", SEGMENT, "current"),
    ("ddl", "ducklake", ALL, "history"),
]


# A Delta table's columns are not widened, so it does not follow the DDL.
@pytest.mark.parametrize(
    ("log", "format", "window", "mode"),
    [
        ("rows", "delta", ALL, "history"),
        ("ddl", "parquet", SEGMENT, "current"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW),
    ],
    indirect=["log"],
)
def test_rows_that_were_there_before_are_followed(
    engine: Engine, log: Log, tmp_path: Path, mode: str, format: str, window: int
) -> None:
    target = LandingTarget(tmp_path / "lake", format, mode=mode)
    landed(engine, log, target, window)
    require_equal(log, target)
    keyed = read_table(target.place / "public.keyed", format)
    if mode == "history":
        first = pc.min(keyed["_valid_from_lsn"])
        loaded = keyed.filter(pc.equal(keyed["_valid_from_lsn"], first))
        assert len(loaded) > 10
        assert loaded["_valid_from"].null_count == len(loaded)


@pytest.mark.parametrize("log", ["rows"], indirect=True)
def test_without_them_a_change_of_one_is_an_error(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake", mode="current", snapshot="never")
    warned = pytest.warns(match="those that tables had before are missing")
    with warned, pytest.raises(LakeError, match="that is not there"):
        landed(engine, log, target, ALL)


@pytest.mark.parametrize("log", ["rows"], indirect=True)
def test_a_target_keeps_its_tables(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake", mode="current")
    landed(engine, log, target, ALL, tables=TablePatterns(("public.keyed",)))
    assert [place.name for place in target.place.glob("public.*")] == ["public.keyed"]
    with pytest.raises(LakeError, match=r"table public\.keyed lands, and would not any more"):
        landed(engine, log, target, ALL, tables=TablePatterns(("public.pair",)))
