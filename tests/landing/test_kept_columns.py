"""Columns that are dropped or renamed, and that the lake has still: ``--schema-evolution fail`` tells of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from arrow_types import values_of
from headwater.errors import LakeError
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.parquet_table import read_parquet_table
from headwater.landing.landing import land
from headwater.landing.resuming import reload
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from landing.mirrored_source import Source

pytestmark = [pytest.mark.server]

NEXT_WINDOW = "SELECT pg_switch_wal()"
SEGMENT = 1 << 20
SETUP = ["CREATE TABLE t (id int PRIMARY KEY, gone int, old int)", "INSERT INTO t VALUES (1, 1, 1)"]
WORK = [
    "ALTER TABLE t ALTER gone SET STATISTICS 5",
    "CREATE TABLE made (id int, x int)",
    "ALTER TABLE made DROP x",
    "INSERT INTO t VALUES (2, 2, 2)",
    NEXT_WINDOW,
    "ALTER TABLE t DROP gone",
    NEXT_WINDOW,
    "INSERT INTO t VALUES (3, 3)",
    "ALTER TABLE t RENAME old TO new",
    NEXT_WINDOW,
    "INSERT INTO t VALUES (4, 4)",
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        yield Source(server, tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def backup(source: Source) -> Path:
    return source.after(SETUP, WORK, [])[0]


@pytest.mark.parametrize("mode", ["changelog", "current"])
def test_a_column_that_goes_or_is_renamed(
    engine: Engine, source: Source, backup: Path, tmp_path: Path, mode: str
) -> None:
    """In windows without changes of rows, too; what a run lets pass is no difference any more."""

    def landed(policy: str, end: int | None = None) -> None:
        target = LandingTarget(tmp_path / "lake", mode=mode, schema_evolution=policy)
        request = DecodeRequest(str(source.server.wal_directory), str(backup), "postgres", end=end)
        land(engine, request, target, bounds=WindowBounds(SEGMENT))

    with pytest.raises(
        LakeError, match=r"table public\.t has other columns than in the lake: gone is dropped"
    ) as raised:
        landed("fail")
    assert read_parquet_table(tmp_path / "lake/public.t")["id"].to_pylist() == [1, 2]
    assert raised.value.lsn is not None
    landed("evolve", Lsn((raised.value.lsn // SEGMENT + 1) * SEGMENT))
    with pytest.raises(LakeError, match=r"table public\.t has other columns than in the lake: old is called new"):
        landed("fail")
    landed("evolve")
    landed("fail")
    assert sorted(values_of(read_parquet_table(tmp_path / "lake/public.t")["old"])) == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["changelog", pytest.param("current", marks=pytest.mark.slow)])
def test_a_table_that_is_reloaded_keeps_its_columns(engine: Engine, source: Source, tmp_path: Path, mode: str) -> None:
    """As a table that goes on does: a renamed one keeps its name, one that is made again gets another."""
    name = f"kept_{mode}"
    setup = [f"CREATE TABLE {name} (id int PRIMARY KEY, old int, gone int)", f"INSERT INTO {name} VALUES (1, 1, 1)"]
    backup, _ = source.after(setup, [f"INSERT INTO {name} VALUES (2, 2, 2)"], [])
    target, wal = LandingTarget(tmp_path / "lake", mode=mode), str(source.server.wal_directory)
    land(engine, DecodeRequest(wal, str(backup), "postgres"), target)
    changed = [f"ALTER TABLE {name} {what}" for what in ("RENAME old TO new", "DROP gone", "ADD gone int")]
    newer, _ = source.after([*changed, f"UPDATE {name} SET gone = 7"], [f"INSERT INTO {name} VALUES (3, 3, 8)"], [])
    land(engine, DecodeRequest(wal, str(backup), "postgres"), target)
    place = tmp_path / f"lake/public.{name}"
    before = read_parquet_table(place)
    reload(engine, DecodeRequest(wal, str(newer)), target, [f"public.{name}"])
    after = read_parquet_table(place)
    assert after.schema.names == before.schema.names
    assert after.schema.names[-4:] == ["id", "old", "gone", "gone_2"]
    rows = zip(*(after[name].to_pylist()[-3:] for name in after.schema.names[-4:]), strict=True)
    assert sorted(rows) == [(1, 1, None, 7), (2, 2, None, 7), (3, 3, None, 8)]
