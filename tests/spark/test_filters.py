"""Conditions on columns of every change: the same rows come out, and less is planned for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.types import StructType

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.plugins.rows.row_filter import LAST_LSN
from headwater.source.data_source import FilteringReader, HeadwaterDataSource, HeadwaterReader
from headwater.source.options import SourceOptions

pytestmark = [pytest.mark.server, pytest.mark.spark]

SETUP = "CREATE TABLE orders (id int PRIMARY KEY, v int); CREATE TABLE items (id int PRIMARY KEY); CREATE SCHEMA shop;"
WORK = """
INSERT INTO orders SELECT g, g FROM generate_series(1, 50) g;
INSERT INTO items SELECT generate_series(1, 500);
UPDATE orders SET v = 0 WHERE id < 10;
BEGIN; INSERT INTO items VALUES (1000); UPDATE orders SET v = 1 WHERE id = 7; DELETE FROM items WHERE id < 5; COMMIT;
ALTER TABLE items SET SCHEMA shop;
INSERT INTO shop.items VALUES (2000);
TRUNCATE orders, shop.items;
"""
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@dataclass(frozen=True)
class Log:
    """A stopped server's files."""

    wal: Path
    backup: Path

    def options(self, **options: str) -> dict[str, str]:
        return {
            "path": str(self.wal),
            "catalog": str(self.backup),
            "tables": "*.orders,*.items",
            "ddl": "false",
            **options,
        }

    def planned(self, *filters: Filter) -> tuple[int, list[Filter]]:
        """Return the bytes of records that are planned to be decoded, and the filters that Spark gets back."""
        reader = FilteringReader(SourceOptions.parse(self.options()))
        rest = list(reader.pushFilters(list(filters)))
        return sum(piece.size for partition in reader.partitions() for piece in partition.slices), rest


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False) as server:
        with server.connect() as connection:
            connection.execute(SETUP)
        server.stop()
        backup = server.copy_data_directory(tmp_path_factory.mktemp("log") / "backup")
        server.start()
        with server.connect() as connection:
            for statement in filter(str.strip, WORK.split(";\n")):
                connection.execute(statement)
        server.stop()
        yield Log(server.wal_directory, backup)


@pytest.fixture
def pushing(spark: Any) -> Iterator[Any]:
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, "true")
    yield spark
    spark.conf.set(PUSHDOWN, before)


def load(spark: SparkSession, log: Log, **options: str) -> DataFrame:
    return spark.read.format("headwater").options(**log.options(**{"pushFilters": "true", **options})).load()


def keys(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """List what tells rows apart, in output order."""
    return sorted((row._commit_lsn, row._lsn, row._seq, row._table, row._op) for row in rows)


CONDITIONS = [
    "_table = 'orders' AND _op = 'update'",
    "_table IN ('items', 'nowhere') AND _schema = 'shop'",
    "_op <> 'insert'",
    "_schema NOT IN ('shop') AND _op IN ('delete', 'truncate')",
    "_op = 'truncate' AND _table = 'items'",
    "_table = 'orders' AND _after['id'] = '7'",
    "_table IS NULL",
    "_table LIKE 'ord%'",
    "_commit_lsn > {middle}",
    "_commit_lsn <= {middle} AND _lsn >= {low}",
    "_commit_lsn = {middle} OR _op = 'delete'",
    "_lsn < {middle}",
    "_lsn = {low}",
    "_op = 'no such'",
]


@pytest.mark.slow
def test_filters_change_nothing_but_the_work(pushing: Any, log: Log) -> None:
    bounds = load(pushing, log).selectExpr("sort_array(collect_set(_commit_lsn))[2]", "min(_lsn)").head(1)[0]
    conditions = [condition.format(middle=bounds[0], low=bounds[1]) for condition in CONDITIONS]
    pushing.conf.set(PUSHDOWN, "false")
    columns = [f"({condition}) AS c{number}" for number, condition in enumerate(conditions)]
    every = load(pushing, log).selectExpr("*", *columns).collect()
    pushing.conf.set(PUSHDOWN, "true")
    for number, condition in enumerate(conditions):
        expected = keys(row for row in every if row[f"c{number}"])
        assert expected == keys(load(pushing, log).where(condition).collect()), condition


def test_the_readme_example(pushing: Any, log: Log) -> None:
    def asked(frame: DataFrame) -> DataFrame:
        return frame.where("_table = 'orders' AND _op = 'update'").select("_commit_time", "_before", "_after")

    filtered, whole = asked(load(pushing, log)), asked(load(pushing, log, pushFilters="false"))
    assert "Filter (" not in filtered._jdf.queryExecution().executedPlan().toString()
    assert "Filter (" in whole._jdf.queryExecution().executedPlan().toString()
    rows = filtered.collect()
    assert (len(rows), rows) == (10, whole.collect())


@pytest.mark.parametrize(
    "push",
    [
        "false",
        pytest.param("true", marks=pytest.mark.xfail(reason="Spark keeps one plan for each load()", strict=True)),
    ],
)
def test_a_frame_that_is_used_again(pushing: Any, log: Log, push: str) -> None:
    """Once this passes with pushed filters, they can be taken by default."""
    changes = load(pushing, log, pushFilters=push)
    assert changes.where("_op = 'update'").count() == 10
    assert changes.count() == 50 + 500 + 9 + 6 + 1 + 2


def test_what_is_filtered_is_not_planned(pushing: Any, log: Log) -> None:
    small = {"partitionBytes": "1"}
    every = load(pushing, log, **small).rdd.getNumPartitions()
    assert every > load(pushing, log, **small).where("_op = 'update'").rdd.getNumPartitions() > 1
    assert load(pushing, log, tables="public.orders", **small).where("_op = 'delete'").count() == 0


def test_each_filter_that_is_taken_makes_the_plan_smaller(log: Log) -> None:
    whole, rest = log.planned()
    assert rest == []
    for condition in (
        EqualTo(("_table",), "orders"),
        Not(EqualTo(("_table",), "items")),
        In(("_op",), ("delete", "truncate")),
        EqualTo(("_schema",), "shop"),
    ):
        size, rest = log.planned(
            IsNotNull(condition.attribute if not isinstance(condition, Not) else ("_table",)), condition
        )
        assert (rest, 0 < size < whole) == ([], True), condition
    commits = sorted(
        {
            p.slices[0].units.commit_lsn[0]
            for p in HeadwaterReader(SourceOptions.parse(log.options(partitionBytes="1"))).partitions()
        }
    )
    first = int(commits[0])
    sizes = [
        log.planned(kind(("_commit_lsn",), first))
        for kind in (GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, EqualTo)
    ]
    assert [rest for _, rest in sizes] == [[]] * 5
    after, everything, none, upto, only = (size for size, _ in sizes)
    assert (everything, none, upto + after, only) == (whole, 0, whole, upto)


def test_filters_that_are_used_in_part_or_not_at_all_go_back(log: Log) -> None:
    whole, _ = log.planned()
    part = GreaterThanOrEqual(("_lsn",), LAST_LSN - 1)
    assert log.planned(part) == (0, [part])
    for condition in (
        LessThan(("_lsn",), 1),
        Not(GreaterThan(("_commit_lsn",), 5)),
        IsNull(("_table",)),
        Not(IsNotNull(("_table",))),
        IsNotNull(("_origin",)),
        StringStartsWith(("_table",), "ord"),
        EqualTo(("_table", "x"), "orders"),
        EqualTo(("id",), 1),
        In(("_op",), ("insert", None)),
        EqualTo(("_commit_lsn",), True),
        GreaterThan(("_commit_lsn",), 1.5),
    ):
        assert log.planned(condition) == (whole, [condition])


def test_messages_of_a_plugin_are_not_filtered_here(log: Log) -> None:
    reader = FilteringReader(SourceOptions.parse(log.options(plugin="test_decoding")))
    asked = [EqualTo(("_op",), "insert"), GreaterThan(("lsn",), 1)]
    assert list(reader.pushFilters(asked)) == asked


def test_only_a_planner_that_hands_filters_over_gets_such_a_reader(log: Log) -> None:
    assert type(HeadwaterDataSource(log.options(pushFilters="true")).reader(StructType())) is HeadwaterReader
