"""The upkeep of tables beside what lands: the same rows, fewer files, and what was resolved lately can be read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from arrow_types import values_of
from bad_input.running_command import Running
from headwater.lakes.as_of_view import read_as_of, tables_of
from headwater.lakes.lake_table import LakeTable, TableSize
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.target_directory import Lake
from headwater.landing.landing_watch import LandingWatch
from headwater.landing.upkeep import Upkeep, UpkeepOptions
from landing.following import AT_ONCE, Source, end, following, running_source, scraped, until_said
from landing.mirrors import has_landed, read_table

pytestmark = [pytest.mark.server]


class Watched(LandingWatch):
    """A note of what was done."""

    def __init__(self) -> None:
        self.merged: list[tuple[str, int]] = []
        self.removed = self.bytes = 0

    def compacted(self, table: str, files: int) -> None:
        self.merged.append((table, files))

    def expired(self, table: str, files: int, bytes: int) -> None:
        assert table == "public.t"
        self.removed += files
        self.bytes += bytes


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    with running_source(tmp_path) as known:
        yield known


def rows(target: Path, form: str = "parquet") -> list[int]:
    return sorted(values_of(read_table(target / "public.t", form)["id"]))


def has(target: Path, number: int, form: str) -> bool:
    return has_landed(target / "public.t", form) and number in rows(target, form)


def lands_each(source: Source, process: Running, target: Path, numbers: range, form: str = "parquet") -> None:
    """Have rows land, each by a commit of its own."""
    for number in numbers:
        source.run(f"INSERT INTO t VALUES ({number}, 'y')")
        process.until(partial(has, target, number, form))


@pytest.mark.parametrize("form", ["parquet", "ducklake"])
def test_small_files_are_put_together_and_old_ones_removed(source: Source, tmp_path: Path, form: str) -> None:
    target = tmp_path / "lake"
    with following(source, source.server.wal_directory, target, *AT_ONCE, form=form) as process:
        lands_each(source, process, target, range(6), form)
        end(process)
    before, watched = rows(target, form), Watched()
    with Lake(LandingTarget.at(target)) as lake:
        upkeep = Upkeep(lake, watched, UpkeepOptions(timedelta(days=1), 0))
        assert not upkeep.step(), "nothing has been committed since the last round"
        lake.tables.commits += 1
        while upkeep.step():
            pass
        (table,) = [table for _, table in lake.tables.landed()]
        assert_is_one_file(table)
        assert (watched.merged, watched.removed) == ([("public.t", 6)], 0)
        lake.tables.commits += 1
        while upkeep.step():
            pass
        assert watched.merged == [("public.t", 6)], "a file that is large beside the others stays"
    assert rows(target, form) == before == list(range(6))
    assert [view.size.files for view in tables_of(target, read_as_of(target))] == [1]
    with Lake(LandingTarget.at(target)) as lake:
        later = Upkeep(lake, watched, UpkeepOptions(timedelta(days=-1), 0))
        lake.tables.commits += 1
        while later.step():
            pass
    assert watched.removed == 6
    assert watched.bytes > 0
    assert rows(target, form) == before


def assert_is_one_file(table: LakeTable) -> None:
    assert len(table.files) == 1
    assert table.size == TableSize.of(table.files.values())


@pytest.mark.parametrize("form", ["parquet", "ducklake"])
def test_a_run_goes_on_beside_its_upkeep(source: Source, tmp_path: Path, form: str) -> None:
    """Rounds follow one another at once: rows land between pieces of work, and none is there twice or missing."""
    target = tmp_path / "lake"
    flags = (*AT_ONCE, "--maintain", "1h", "--maintain-every", "0", "--metrics", "127.0.0.1:0")
    with following(source, source.server.wal_directory, target, *flags, form=form) as process:
        address = until_said(process, "headwater: metrics: ").removeprefix("headwater: metrics: ")
        lands_each(source, process, target, range(12), form)
        process.until(lambda: scraped(address).get('headwater_land_compacted_files_total{table="public.t"}', 0) >= 4)
        end(process)
    assert rows(target, form) == list(range(12))
