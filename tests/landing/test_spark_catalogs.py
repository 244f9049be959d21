"""Tables in catalogs of Spark's, by the real connectors' writers (``make test-lakes``)."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from headwater.errors import LakeConflictError, LakeError
from headwater.lakes.as_of_view import read_as_of, tables_of
from headwater.lakes.compaction import compact
from headwater.lakes.data_files import write_data_file
from headwater.lakes.lake_schema import LakeSchema
from headwater.lakes.lake_table import DataFile, Landed, Sought, file_name
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.spark_catalog import CONNECTORS
from headwater.lakes.spark_table import SparkTable
from headwater.lakes.target_directory import Lake
from headwater.landing.landing import land
from headwater.landing.paused_tables import PAUSE
from headwater.landing.resuming import resume
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.engines import engine_of
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.plugins.table_patterns import TablePatterns
from landing.change_log import DETACHED, folded, landed, log
from landing.connector_catalogs import Catalog, sql_name
from landing.mirror_workload import TABLES
from landing.mirrored_log import Log as MirroredLog
from landing.mirrored_log import as_of, worked
from landing.mirrored_source import Source, source
from landing.mirrors import mirror_rows
from landing.moved_partitions import WINDOWS, WORK, Moved
from landing.replaced_tables import replaced
from landing.two_parts import Log
from landing.work import Work

__all__ = ["log", "mirrored", "replaced", "source"]

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.timeout(1800)]

KEYED = ("keyed", "pair", "full_key", "by_index", "event")
"""Tables whose rows are told by keys."""
MADE = "CREATE TABLE {0} (id int PRIMARY KEY, at timestamptz); INSERT INTO {0} VALUES (1, '2024-01-01')"
FEW_KILLS, MOST_STEPS = 2, 60
DRIVER = Path(__file__).with_name("spark_catalog_driver.py")


@pytest.fixture(scope="session")
def spark(connected: Any) -> Any:
    """Return the connector's session, not that of other tests."""
    return connected


def rows_of(spark: Any, target: LandingTarget, name: str) -> pa.Table:
    """Read a table, by its name in the catalog."""
    rows: pa.Table = spark.table(sql_name(target, name)).toArrow()
    return rows


def test_changes_folded_up_are_what_the_server_has(spark: Any, catalog: Catalog, log: Log, tmp_path: Path) -> None:
    target, tables = catalog.target(tmp_path / "lake", "folded"), TablePatterns.parse(["public.orders,public.event*"])
    first = landed(engine_of(spark), log, target, end=log.middle, tables=tables)
    assert first.rows == {"public.event": 20, "public.orders": 200 + 66 + 28}
    landed(engine_of(spark), log, target, tables=tables)
    again = landed(engine_of(spark), log, target, tables=tables)
    assert (again.rows, again.files) == ({}, 0)
    orders = rows_of(spark, target, "public.orders")
    columns = ["id", "note", "total", "tags", "made", "how", "ref"]
    assert orders.schema.field("total").type == pa.decimal128(10, 2)
    expected = [(*row[:-1], str(row[-1])) for row in log.tables["orders"]]
    assert [(*row[:-1], str(row[-1])) for row in folded(orders, ("id",), columns)] == expected
    event = rows_of(spark, target, "public.event")
    assert folded(event.filter(pc.field("id") != 101), ("id", "region"), ["id", "region"])[-1] == (102, 0)
    detached = rows_of(spark, target, "public.event_0").sort_by([("_commit_lsn", "ascending"), ("_lsn", "ascending")])
    assert [(row["_change_type"], row["id"]) for row in detached.to_pylist()] == DETACHED
    with duckdb.connect() as connection:
        ducks = connection.read_parquet(files_of(spark, target, "public.orders")).to_arrow_table()
    assert folded(ducks, ("id",), ["id"]) == folded(orders, ("id",), ["id"])
    shown = {table.name: table.size.rows for table in tables_of(target.place, read_as_of(target.place))}
    assert shown == {"public.orders": len(orders), "public.event": len(event), "public.event_0": len(detached)}


def files_of(spark: Any, target: LandingTarget, name: str) -> list[str]:
    """List the files that a table consists of."""
    if target.format == "iceberg":
        paths = [row[0] for row in spark.sql(f"SELECT file_path FROM {sql_name(target, name)}.files").collect()]
    else:
        paths = spark.table(sql_name(target, name)).inputFiles()
    return [re.sub("^file:/*", "/", path) for path in paths]


def test_columns_follow_the_sources_by_number(spark: Any, catalog: Catalog, log: Log, tmp_path: Path) -> None:
    target = catalog.target(tmp_path / "lake", "columns")
    landed(engine_of(spark), log, target, end=log.middle)
    landed(engine_of(spark), log, target)
    small = rows_of(spark, target, "public.small")
    before = small.filter(pc.field("_change_type") != "truncate")
    assert folded(before, ("id",), ["id", "was", "gone_2"]) == [(1, "b", None), (70000, "d", 7)]
    assert folded(small, ("id",), ["id"]) == []
    assert {value for value in small["gone"].to_pylist() if value is not None} == {"a", "c"}
    assert small.schema.field("id").type == pa.int32()


def test_a_state_that_is_lost(spark: Any, catalog: Catalog, log: Log, tmp_path: Path) -> None:
    """Another directory knows nothing: the tables say how far they have come."""
    target = catalog.target(tmp_path / "lake", "lost")
    landed(engine_of(spark), log, target, end=log.middle)
    before = rows_of(spark, target, "public.orders")
    landed(engine_of(spark), log, replace(target, where=tmp_path / "other"))
    orders = rows_of(spark, target, "public.orders").to_pylist()
    places = [(row["_commit_lsn"], row["_lsn"], row["_seq"], row["_change_type"]) for row in orders]
    assert len(places) == len(set(places)) > len(before)


def test_two_that_land(spark: Any, catalog: Catalog, tmp_path: Path) -> None:
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog.name}.two")
    schema, connector = pa.schema([pa.field("x", pa.int64())]), CONNECTORS[catalog.format](spark)

    def opened(source: str = "1/2") -> SparkTable:
        return SparkTable(connector, f"{catalog.name}.two.one", tmp_path / "staged", tmp_path / "taken", source)

    first = opened()
    first.commit([], Landed(10, schema, "1/2"))
    other = opened()
    assert other.landed.commit_lsn == 10
    other.commit([], Landed(20, schema, "1/2"))
    with pytest.raises(LakeConflictError, match="has come to 0/14, it should be at 0/A"):
        first.commit([], Landed(15, schema, "1/2"))
    assert opened().landed.commit_lsn == 20
    with pytest.raises(LakeError, match="has rows of 1/2, not of 3/4"):
        opened("3/4")


def test_rows_are_merged_and_replaced(spark: Any, catalog: Catalog, tmp_path: Path) -> None:
    """Rows that are taken from a table go with the commit, but for rows that come again; the others stay."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog.name}.merged")
    name = f"{catalog.name}.merged.one"
    connector = CONNECTORS[catalog.format](spark)
    table = SparkTable(connector, name, tmp_path / "staged", tmp_path / "taken", "1/2")
    schema = pa.schema([("id", pa.int32()), ("of", pa.list_(pa.string())), ("at", pa.timestamp("us", tz="UTC"))])

    def staged(ids: list[int], of: str) -> list[DataFile]:
        rows = pa.table([ids, [[of]] * len(ids), [datetime(1500, 1, 1, tzinfo=UTC)] * len(ids)], schema=schema)
        return [write_data_file(rows, table.staging, file_name(0))]

    def held() -> dict[int, str]:
        spark.catalog.refreshTable(name)
        return {row.id: row.of[0] for row in spark.table(name).collect()}

    table.commit(staged([1, 2, 3, 4], "a"), Landed(10, schema, "1/2"))
    changes = (f"{table.staging}/{staged([2, 3, 9], 'b')[0].path}",)
    taken = table.concerned(Sought(changes, ("id",), is_all=False))
    assert sum(file.rows for file in taken.values()) == 2
    taken_rows = pa.concat_tables([pq.read_table(table.locate(path)) for path in taken])
    assert taken_rows.sort_by("id").cast(schema).to_pylist()[0] == {
        "id": 2,
        "of": ["a"],
        "at": datetime(1500, 1, 1, tzinfo=UTC),
    }
    table.commit(staged([2, 9], "b"), Landed(20, schema, "1/2"), list(taken))
    assert held() == {1: "a", 2: "b", 4: "a", 9: "b"}
    again = SparkTable(connector, name, tmp_path / "staged", tmp_path / "taken", "1/2")
    assert again.landed.commit_lsn == 20
    everything = again.concerned(Sought((), ("id",), is_all=True))
    assert sum(file.rows for file in everything.values()) == 4
    assert (min(file.lower["id"] for file in everything.values()), again.landed.schema) == (1, schema)
    again.commit([], Landed(30, schema, "1/2"), list(everything))
    assert held() == {}
    assert again.concerned(Sought((), ("id",), is_all=True)) == {}
    again.commit([], Landed(40, schema, "1/2"))
    more = schema.append(pa.field("more", pa.int64()))
    again._follow(more, 50)  # and the run ends
    left = SparkTable(connector, name, tmp_path / "staged", tmp_path / "taken", "1/2")
    assert (left.landed.commit_lsn, left.landed.schema) == (40, schema)
    left.commit([], Landed(50, more, "1/2"))
    assert SparkTable(connector, name, tmp_path / "staged", tmp_path / "taken", "1/2").landed.schema == more
    with pytest.raises(LakeError, match="whose files are not kept here"):
        left.commit([], Landed(60, more, "1/2"), list(taken))


def test_what_is_not_there_is_an_error(spark: Any, catalog: Catalog, log: Log, tmp_path: Path) -> None:
    target = catalog.target(tmp_path / "lake", "errors")
    with pytest.raises(LakeError, match="keep tables of Delta or Iceberg"):
        landed(engine_of(spark), log, replace(target, format="parquet", where=tmp_path / "parquet"))
    with pytest.raises(LakeError, match="catalog nowhere: "):
        landed(engine_of(spark), log, replace(target, namespace="nowhere.shop", where=tmp_path / "nowhere"))
    landed(engine_of(spark), log, target, end=log.middle)
    with pytest.raises(LakeError, match="whose files are not kept here"):
        compact(target.place)
    with (
        pytest.raises(LakeError, match="the tables have catalog-impl spark, not python"),
        Lake(LandingTarget(target.place, catalog.format, namespace=target.namespace)),
    ):
        pass


def test_rows_go_with_their_partition(spark: Any, catalog: Catalog, source: Source, tmp_path: Path) -> None:
    moved = Moved(source, f"sparks_{catalog.format}", [*WORK["attached"], *WORK["detached"]])
    target = catalog.target(tmp_path / "lake", "moved", "current")
    moved.land(engine_of(spark), target, WINDOWS["windows"])
    for table, (held, rows) in moved.moments[-1][1].items():
        name = sql_name(target, f"public.{table}")
        if rows or spark.catalog.tableExists(name):
            assert mirror_rows(spark.table(name).toArrow(), [column.name for column in held]) == rows, table


def test_mirrors_are_what_select_says_of_their_names(
    spark: Any, catalog: Catalog, replaced: Any, tmp_path: Path
) -> None:
    """Also where tables are dropped and made again, renamed, swapped."""
    work, backup, tables = replaced
    target = catalog.target(tmp_path / "lake", "named", "current")
    asked = DecodeRequest(str(work.server.wal_directory), str(backup), "postgres")
    land(spark, asked, target, bounds=WindowBounds(1 << 20))
    wrong = []
    for name, (numbers, rows) in tables.items():
        spark.catalog.refreshTable(sql_name(target, name))
        columns = columns_by_number(spark, target, name)
        if mirror_rows(rows_of(spark, target, name), [columns[number] for number in numbers]) != rows:
            wrong.append(name)
    assert wrong == []


@pytest.mark.filterwarnings("ignore:table public.halting:headwater.errors.HeadwaterWarning")
@pytest.mark.parametrize("mode", ["changelog", "current"])
def test_a_paused_table_comes_back(spark: Any, catalog: Catalog, source: Source, tmp_path: Path, mode: str) -> None:
    target = catalog.target(tmp_path / "lake", f"paused_{mode}", mode)
    setup = ["DROP TABLE IF EXISTS halting, going", *map(MADE.format, ("halting", "going"))]
    work = ["INSERT INTO halting VALUES (2, 'infinity')", "INSERT INTO going VALUES (2, '2025-01-01')"]
    backup, _ = source.after(setup, work, [])
    tables = TablePatterns(("public.halting", "public.going"))
    asked = DecodeRequest(str(source.server.wal_directory), str(backup), "postgres", tables=tables)
    result = land(spark, asked, target, on_table_error=PAUSE)
    assert [table.name for table in result.paused] == ["public.halting"]
    assert not resume(spark, replace(asked, database=None), replace(target, on_unrepresentable="null")).paused
    for name in ("halting", "going"):
        rows = rows_of(spark, target, f"public.{name}").to_pylist()
        wanted = [(1, True), (2, name == "going")]
        assert sorted((row["id"], row["at"] is not None) for row in rows) == wanted


@pytest.fixture(scope="module")
def mirrored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredLog]:
    """Work on tables of every replica identity, after some work that the backup has."""
    place = tmp_path_factory.mktemp("mirrored")
    yield from worked(find_programs(16), place, 4, ddl=request.param == "ddl", before=300, steps=400)


@pytest.mark.parametrize("mode", ["current", "history"])
@pytest.mark.parametrize("mirrored", ["rows", "ddl"], indirect=True)
def test_mirrors_are_what_the_server_has(
    spark: Any, catalog: Catalog, mirrored: MirroredLog, tmp_path: Path, request: pytest.FixtureRequest, mode: str
) -> None:
    target = catalog.target(tmp_path / "lake", f"{mode}_{request.node.callspec.params['mirrored']}", mode)
    names = KEYED if mode == "history" else TABLES
    tables = TablePatterns(tuple(f"public.{name}" for name in names))
    asked = DecodeRequest(str(mirrored.wal), str(mirrored.backup), "postgres", tables=tables)
    middle = sorted(mirrored.moments)[len(mirrored.moments) // 2]
    land(spark, replace(asked, end=middle), target)
    require_equal(spark, mirrored, target, middle)
    land(spark, asked, target)
    require_equal(spark, mirrored, target, max(mirrored.moments))
    assert sum(len(rows) for _, rows in mirrored.tables.values()) > 50
    again = land(spark, asked, target)
    assert (again.rows, again.files) == ({}, 0)
    if mode == "history":
        other = replace(asked, tables=TablePatterns(("public.bag",)))
        with pytest.raises(LakeError, match="versions of rows that no key tells"):
            land(spark, other, catalog.target(tmp_path / "other", f"bag_{tmp_path.name}", mode))


def require_equal(spark: Any, log: MirroredLog, target: LandingTarget, lsn: int) -> None:
    """See that mirrors are what the server has had at an LSN."""
    for name, (numbers, rows) in log.moments[lsn].items():
        table = f"public.{name}"
        if target.mode == "history" and name not in KEYED:
            continue
        if not spark.catalog.tableExists(sql_name(target, table)):
            assert not rows
            continue
        spark.catalog.refreshTable(sql_name(target, table))
        held, columns = rows_of(spark, target, table), columns_by_number(spark, target, table)
        if target.mode == "history":
            held = held.filter(as_of(lsn))
        assert mirror_rows(held, [columns[number] for number in numbers]) == rows, name


def columns_by_number(spark: Any, target: LandingTarget, name: str) -> dict[int, str]:
    """Return the names in the lake of the source's columns."""
    place, source = target.place / "_headwater", json.loads((target.place / "_headwater/target.json").read_text())
    connector = CONNECTORS[target.format](spark)
    table = SparkTable(connector, sql_name(target, name), place / "read", place / "taken", source["source"])
    assert table.landed.schema is not None
    return {column.number: column.name for column in LakeSchema.of(table.landed.schema).columns}


def test_streams_into_the_connectors_tables(spark: Any, catalog: Catalog, log: Log, tmp_path: Path) -> None:
    """The data source as a stream, into the connector's sink and from foreachBatch."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog.name}.streams")
    names = [f"{catalog.name}.streams.{name}" for name in ("sink", "batches")]
    changes = spark.read.format("headwater").options(path=log.wal, catalog=log.backup, tables="public.orders").load()
    columns = [name for name in changes.columns if name != "_before"]
    for name in names:
        changes.select(columns).limit(0).writeTo(name).using(catalog.format).create()
    for _ in range(2):  # the second finds nothing new
        for name, how in zip(names, ("sink", "batches"), strict=True):
            stream = spark.readStream.format("headwater").options(path=log.wal, catalog=log.backup)
            rows = stream.option("tables", "public.orders").load().select(columns)
            writer = rows.writeStream.option("checkpointLocation", str(tmp_path / how)).trigger(availableNow=True)
            if how == "batches":
                batches = writer.foreachBatch(lambda batch, _, name=name: batch.writeTo(name).append())
                run_to_end(batches.start)
            else:
                run_to_end(partial(writer.format(catalog.format).outputMode("append").toTable, name))
    order = [(name, "ascending") for name in ("_commit_lsn", "_lsn", "_seq")]
    wanted = changes.select(columns).toArrow().sort_by(order).to_pylist()
    assert len(wanted) > 200
    for name in names:
        assert spark.table(name).toArrow().sort_by(order).to_pylist() == wanted


def run_to_end(start: Callable[[], Any]) -> None:
    """Run a stream; again, from its checkpoint, where a busy machine has not started Spark's reader in its ten seconds.

    Spark gives a process of Python that long to connect, and there is no setting for it.
    """
    for is_last in (False, False, True):
        try:
            start().awaitTermination()
        except StreamingQueryException as error:
            if is_last or "failed to connect back" not in str(error):
                raise
        else:
            return


@pytest.mark.parametrize("mode", ["changelog", "current"])
def test_killed_between_steps_of_commits(
    spark: Any, catalog: Catalog, work: Work, tmp_path: Path, request: pytest.FixtureRequest, mode: str
) -> None:
    """Each process has a catalog that outlives it: of Delta a Hive metastore in a file, of Iceberg directories."""
    asked = request.config.getoption("--kills") or FEW_KILLS
    more = {}
    if catalog.format == "delta":
        url = f"jdbc:derby:;databaseName={tmp_path / 'metastore'};create=true"
        more = {"spark.sql.catalogImplementation": "hive", "spark.hadoop.javax.jdo.option.ConnectionURL": url}
    target = catalog.target(tmp_path / "lake", f"killed_{mode}", mode)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng, environment = random.Random(seed), {**os.environ, "PYSPARK_SUBMIT_ARGS": quoted_arguments(catalog, more)}

    schemas = {name: rows.schema for name, rows in work.whole(mode).items()}

    def read(_: LandingTarget, name: str) -> pa.Table | None:
        return rows_of_files(spark, catalog, f"killed_{mode}", name, schemas[name])

    kills = 0
    while kills < asked and is_killed(work, target, environment, rng.randint(1, MOST_STEPS)):
        kills += 1
        work.check_so_far(target, read)
    assert kills
    assert not is_killed(work, target, environment, 0)
    work.check_whole(target, read)


def quoted_arguments(catalog: Catalog, more: Mapping[str, str]) -> str:
    return catalog.submitted(**{name: f"'{value}'" for name, value in more.items()})


def rows_of_files(spark: Any, catalog: Catalog, namespace: str, name: str, schema: pa.Schema) -> pa.Table | None:
    """Read a table that another process has made."""
    table = name.replace(".", "_")
    if catalog.format == "delta":
        place = catalog.place / f"{namespace}.db" / table
        if not any((place / "_delta_log").glob("*.json")):
            return None
        frame = spark.read.format("delta").load(str(place))
    else:
        if not spark.catalog.tableExists(f"lake.{namespace}.{table}"):
            return None
        spark.catalog.refreshTable(f"lake.{namespace}.{table}")
        frame = spark.table(f"lake.{namespace}.{table}")
    rows: pa.Table = frame.toArrow().cast(schema)
    return rows


def is_killed(work: Work, target: LandingTarget, environment: Mapping[str, str], step: int) -> bool:
    """Land until a step of a commit; whether there were as many. Step 0: to the end."""
    assert target.namespace is not None
    arguments = [*work.arguments(target), "--catalog-impl", "spark", "--namespace", target.namespace, "--quiet"]
    command = [sys.executable, str(DRIVER), str(step), *arguments]
    ended = subprocess.run(command, env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr.decode()
    return ended.returncode != 0
