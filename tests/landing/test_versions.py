"""Tables of a target belong together: read as of any moment they are what the server had then, whatever reads them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headwater.cli.lake import TablesFlags, tables_command
from headwater.errors import LakeConflictError, LakeError
from headwater.jobs.engine import Engine
from headwater.lakes.as_of_view import read_as_of, tables_of
from headwater.lakes.compaction import compact
from headwater.lakes.landing_target import FORMATS, LandingTarget
from headwater.lakes.parquet_table import read_parquet_table
from headwater.lakes.resolved_log import resolved_states
from headwater.lakes.target_directory import Lake
from headwater.landing.landing_modes import MODES
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from headwater.pipeline.engines import engine_of
from landing.mirrored_log import SEGMENT, Log, landed, worked
from landing.mirrors import columns_by_number, current_files, mirror_rows, read_table

pytestmark = [pytest.mark.server, pytest.mark.spark]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    yield from worked(find_programs(16), tmp_path_factory.mktemp("versions"), 2, ddl=False)


def changes(target: LandingTarget) -> dict[str, list[tuple[object, ...]]]:
    """List the places of all changes of tables, in order."""
    by_table = {}
    for table in tables_of(target.place, read_as_of(target.place)):
        rows = read_table(target.place / table.name, target.format, table.version)
        places = rows.select(["_commit_lsn", "_lsn", "_seq", "_change_type"]).to_pylist()
        by_table[table.name] = sorted(tuple(row.values()) for row in places)
        assert table.size.rows == len(places)
    return by_table


@pytest.mark.parametrize(
    "format", ["delta", *(pytest.param(form, marks=pytest.mark.slow) for form in FORMATS if form != "delta")]
)
def test_tables_as_of_a_moment_are_what_the_server_had(engine: Engine, log: Log, tmp_path: Path, format: str) -> None:
    target = LandingTarget(tmp_path / "lake", format, mode="current")
    for lsn in [*sorted(log.moments)[::3], max(log.moments)]:
        landed(engine, log, target, SEGMENT, end=lsn)
        assert read_as_of(target.place).lsn <= lsn
    for lsn in [*sorted(log.moments)[::3], max(log.moments)]:
        versions = read_as_of(target.place, lsn).tables
        for name, (numbers, rows) in log.moments[lsn].items():
            place, version = target.place / f"public.{name}", versions.get(f"public.{name}")
            if version is None:
                assert not rows
                continue
            names = columns_by_number(place, format)
            assert mirror_rows(read_table(place, format, version), [names[number] for number in numbers]) == rows, name
    resolved = list(resolved_states(target.place / "_headwater"))
    for state in resolved:
        assert state.commit_time is not None
        assert read_as_of(target.place, time=state.commit_time).lsn >= state.lsn
    with pytest.raises(LakeError, match="nothing has been resolved up to"):
        read_as_of(target.place, time=datetime(2000, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("format", ["parquet", *(pytest.param(form, marks=pytest.mark.slow) for form in FORMATS[1:])])
def test_compacted_tables_have_the_same_changes(engine: Engine, log: Log, tmp_path: Path, format: str) -> None:
    target = LandingTarget(tmp_path / "lake", format)
    for lsn in sorted(log.moments)[:6]:
        landed(engine, log, target, SEGMENT, end=lsn)
    before, then = changes(target), read_as_of(target.place)
    sizes = {table.name: table.size.rows for table in tables_of(target.place, then)}
    with Lake(target), pytest.raises(LakeConflictError, match="another process lands there"):
        compact(target.place)
    assert {table.name for table in compact(target.place)} <= before.keys()
    assert compact(target.place) == []
    if format == "delta":
        (last, *_) = DeltaTable(str(target.place / "public.keyed")).history(1)
        text = (target.place / f"public.keyed/_delta_log/{last['version']:020}.json").read_text()
        assert '"dataChange":true' not in text
        assert '"dataChange":false' in text
    assert changes(target) == before
    now = read_as_of(target.place)
    assert now.lsn == then.lsn
    assert {table.size.files for table in tables_of(target.place, now)} == {1}
    files_then = {table.size.files for table in tables_of(target.place, then)}  # readers of it still have them
    assert files_then == {1} if format == "ducklake" else max(files_then) > 1
    assert {table.name: table.size.rows for table in tables_of(target.place, then)} == sizes
    landed(engine, log, target, SEGMENT)
    assert all(len(set(rows)) == len(rows) for rows in changes(target).values())
    after = changes(target)
    with Lake(target) as lake:
        lake.expire(datetime.now(UTC) + timedelta(hours=1))
    assert changes(target) == after
    with pytest.raises(LakeError):
        list(tables_of(target.place, read_as_of(target.place, then.lsn)))


def test_the_command_shows_what_belongs_together(
    engine: Engine, log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = LandingTarget(tmp_path / "lake")
    first, last = min(log.moments), max(log.moments)
    for lsn in (first, last):
        landed(engine, log, target, SEGMENT, end=lsn)
    tables_command.run(TablesFlags(target.place, str(Lsn(first)), as_json=True))
    then = json.loads(capsys.readouterr().out)
    assert then["resolved_lsn"] == str(Lsn(read_as_of(target.place, first).lsn))
    tables_command.run(TablesFlags(target.place, then["commit_time"], as_json=True))
    assert json.loads(capsys.readouterr().out) == then
    tables_command.run(TablesFlags(target.place, None, as_json=False))
    head, names, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith(f"resolved_lsn {Lsn(read_as_of(target.place).lsn)} commit_time 20")
    assert names.split() == ["table", "state", "version", "rows", "files", "bytes"]
    assert len(rows) >= len(then["tables"]) > 0


def test_files_of_a_compacted_table_are_in_order(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake")
    for lsn in sorted(log.moments)[:4]:
        landed(engine, log, target, SEGMENT, end=lsn)
    compact(target.place)
    rows = read_parquet_table(target.place / "public.keyed").to_pylist()
    places = [(row["_commit_lsn"], row["_lsn"], row["_seq"], row["_change_type"] != "update_preimage") for row in rows]
    assert places == sorted(places)
    assert len(places) > 10


KILLED = """
import os, signal, sys
from pathlib import Path
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.spark.session import spark_session
from headwater.lakes.landed_progress import LandedProgress
from headwater.lakes.landing_target import LandingTarget
from headwater.landing.landing import land

LandedProgress.resolve = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
place, format, wal, backup = sys.argv[1:]
request = DecodeRequest(wal, backup, "postgres")
land(spark_session("local[1]"), request, LandingTarget(Path(place), format), bounds=WindowBounds(1 << 20))
"""


@pytest.mark.parametrize("format", ["parquet", *(pytest.param(form, marks=pytest.mark.slow) for form in FORMATS[1:])])
def test_killed_between_the_commits_and_what_they_resolve(
    engine: Engine, log: Log, tmp_path: Path, format: str
) -> None:
    whole, killed = LandingTarget(tmp_path / "whole", format), LandingTarget(tmp_path / "killed", format)
    command = [sys.executable, "-c", KILLED, str(killed.place), format, str(log.wal), str(log.backup)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    with pytest.raises(LakeError, match="nothing has been resolved"):
        read_as_of(killed.place)
    landed(engine, log, killed, SEGMENT)
    landed(engine, log, whole, SEGMENT)
    assert changes(killed) == changes(whole)
    assert [state.lsn for state in resolved_states(killed.place / "_headwater")] == [
        state.lsn for state in resolved_states(whole.place / "_headwater")
    ]


DAILY = {("parquet", "current"), ("iceberg", "history")}


@pytest.mark.parametrize(
    ("format", "mode"),
    [
        pytest.param(format, mode, marks=() if (format, mode) in DAILY else pytest.mark.slow)
        for format in FORMATS
        for mode in MODES
    ],
)
def test_other_readers_see_the_same_rows(spark: SparkSession, log: Log, tmp_path: Path, format: str, mode: str) -> None:
    target = LandingTarget(tmp_path / "lake", format, mode=mode)
    landed(engine_of(spark), log, target, SEGMENT)
    for name in ("public.keyed", "public.pair", "public.bag"):
        rows = read_table(target.place / name, format)
        files = current_files(target.place / name, format)
        shown = [column for column in rows.column_names if rows.schema.field(column).type != pa.uuid()]
        wanted = mirror_rows(rows, shown)
        assert wanted
        sparks = spark.read.option("mergeSchema", "true").parquet(*files).select(*shown).toArrow()
        assert mirror_rows(sparks, shown) == wanted
        with duckdb.connect() as connection:
            ducks = connection.read_parquet(files, union_by_name=True).to_arrow_table()
        assert mirror_rows(ducks.select(shown).cast(rows.select(shown).schema), shown) == wanted
