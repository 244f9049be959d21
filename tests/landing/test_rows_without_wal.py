"""Rows that the WAL does not have, of unlogged tables, unlogged and foreign partitions, are not missing in silence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import HeadwaterWarning, LakeError
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.landing.landing import land
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.requests.request import DecodeRequest
from headwater.plugins.table_patterns import TablePatterns
from landing.mirrored_source import Source
from landing.mirrors import Rows, columns_by_number, mirror_rows, read_table

pytestmark = [pytest.mark.server]

ROOTS = "there", "made", "came", "foreign_one", "unlogged_later", "below"
FIRST, SECOND = "FOR VALUES FROM (0) TO (100)", "FOR VALUES FROM (100) TO (200)"
SETUP = [
    "CREATE UNLOGGED TABLE lone (id int PRIMARY KEY, n int)",
    "INSERT INTO lone VALUES (1, 1), (2, 2)",
    "CREATE FOREIGN DATA WRAPPER nothing",
    "CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing",
    *(f"CREATE TABLE {name} (id int) PARTITION BY RANGE (id)" for name in ROOTS),
    *(f"CREATE TABLE {name}_0 PARTITION OF {name} {FIRST}" for name in ROOTS),
    f"CREATE UNLOGGED TABLE there_1 PARTITION OF there {SECOND}",
]
WORK = [
    "ALTER TABLE lone SET LOGGED",
    "INSERT INTO lone VALUES (3, 3)",
    "UPDATE lone SET n = 5 WHERE id = 1",
    f"CREATE UNLOGGED TABLE made_1 PARTITION OF made {SECOND}",
    "CREATE UNLOGGED TABLE came_1 (id int)",
    f"ALTER TABLE came ATTACH PARTITION came_1 {SECOND}",
    f"CREATE FOREIGN TABLE foreign_one_1 PARTITION OF foreign_one {SECOND} SERVER nowhere",
    f"CREATE TABLE unlogged_later_1 PARTITION OF unlogged_later {SECOND}",
    "ALTER TABLE unlogged_later_1 SET UNLOGGED",
    "CREATE TABLE part_below (id int) PARTITION BY RANGE (id)",
    f"CREATE UNLOGGED TABLE below_1 PARTITION OF part_below {SECOND}",
    f"ALTER TABLE below ATTACH PARTITION part_below {SECOND}",
    *(f"INSERT INTO {name} VALUES (1)" for name in ROOTS),
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        yield Source(server, tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def log(source: Source) -> tuple[Path, dict[str, Any]]:
    """Take a backup; return it, and what a table holds in the end."""
    return source.after(SETUP, WORK, ["lone"])


def landed(engine: Engine, source: Source, backup: Path, target: LandingTarget, table: str) -> None:
    tables = TablePatterns((f"public.{table}",))
    land(engine, DecodeRequest(str(source.server.wal_directory), str(backup), "postgres", tables=tables), target)


def mirrored(target: LandingTarget, table: str, numbers: list[int]) -> Rows:
    place = target.place / f"public.{table}"
    names = columns_by_number(place, target.format)
    return mirror_rows(read_table(place, target.format), [names[number] for number in numbers])


def test_a_table_that_is_set_logged(
    engine: Engine, source: Source, log: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """A mirror has all rows of the new heap; a change table has only what follows, and says so."""
    backup, held = log
    numbers, rows = held["lone"]
    target, changes = LandingTarget(tmp_path / "mirror", mode="current"), LandingTarget(tmp_path / "changes")
    landed(engine, source, backup, target, "lone")
    assert mirrored(target, "lone", numbers) == rows
    with pytest.warns(HeadwaterWarning, match=r'"public\.lone" is logged from there on: the rows .* \(at 0/'):
        landed(engine, source, backup, changes, "lone")
    assert read_table(changes.place / "public.lone", "parquet").sort_by("_lsn")["id"].to_pylist() == [3, 1]


@pytest.mark.filterwarnings("ignore:mirrors have only rows")
@pytest.mark.parametrize(("table", "snapshot"), [*((name, "initial") for name in ROOTS), ("there", "never")])
def test_a_partition_without_wal(
    engine: Engine, source: Source, log: tuple[Path, dict[str, Any]], tmp_path: Path, table: str, snapshot: str
) -> None:
    """One that is there before, is made, attached, below one that is attached, foreign, or set unlogged."""
    target = LandingTarget(tmp_path / "lake", mode="current", snapshot=snapshot)
    message = rf'partition "public\.{table}_1" of "public\.{table}" is (unlogged|a foreign table): '
    with pytest.raises(LakeError, match=message) as refused:
        landed(engine, source, log[0], target, table)
    assert refused.value.lsn
    with pytest.warns(HeadwaterWarning, match=message + "the WAL has none of its rows"):
        landed(engine, source, log[0], LandingTarget(tmp_path / "changes", snapshot=snapshot), table)


def test_a_partition_that_is_not_chosen(
    engine: Engine, source: Source, log: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    target = LandingTarget(tmp_path / "lake", mode="current")
    landed(engine, source, log[0], target, "there_0")
    assert mirrored(target, "there", [1]) == {(1,): 1}
