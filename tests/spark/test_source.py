"""The ``headwater`` data source against a real server's own word on the same WAL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.source.data_source import HeadwaterDataSource

pytestmark = [pytest.mark.server, pytest.mark.spark]

SETUP = """
CREATE TABLE orders (id int PRIMARY KEY, total numeric(10,2), day date, note text, ok bool, data bytea);
CREATE TABLE other (id int PRIMARY KEY, label text);
CREATE TABLE copied (id int, filler text DEFAULT repeat('x', 300));
CREATE PUBLICATION only_other FOR TABLE other WITH (publish = 'insert');
"""
WORK = """
INSERT INTO orders VALUES (1, 10.50, '2024-02-29', 'first', true, '\\x0001'), (2, NULL, NULL, NULL, NULL, NULL);
INSERT INTO other SELECT g, 'label ' || g FROM generate_series(1, 300) g;
UPDATE orders SET total = 11 WHERE id = 1;
ALTER TABLE orders ADD COLUMN added int DEFAULT 7;
UPDATE orders SET id = 3 WHERE id = 2;
DELETE FROM other WHERE id > 290;
TRUNCATE other;
DELETE FROM orders WHERE id = 1;
BEGIN; COPY copied (id) FROM PROGRAM 'seq 1000'; INSERT INTO copied SELECT generate_series(1001, 20000); COMMIT;
"""


@dataclass(frozen=True)
class Window:
    """A stopped server's files and its own streams."""

    wal: Path
    backup: Path
    start: str
    text: list[tuple[str, str, str]]
    binary: list[tuple[str, str, bytes]]


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    directory = tmp_path_factory.mktemp("source")
    with EmbeddedPostgres(find_programs(16, plugin="test_decoding"), autovacuum=False) as server:
        with server.connect() as connection:
            connection.execute(SETUP)
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        with server.connect() as connection:
            made = "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s)"
            start = [connection.execute(made, [f"s_{p}", p]).fetchall()[0][0] for p in ("test_decoding", "pgoutput")]
            for statement in filter(str.strip, WORK.split(";\n")):
                connection.execute(statement)
            text = connection.execute(
                "SELECT lsn::text, xid::text, data FROM pg_logical_slot_peek_changes('s_test_decoding', NULL, NULL)"
            ).fetchall()
            binary = connection.execute(
                "SELECT lsn::text, xid::text, data FROM pg_logical_slot_peek_binary_changes('s_pgoutput', NULL, NULL, "
                "'proto_version', '1', 'publication_names', 'only_other')"
            ).fetchall()
        server.stop()
        yield Window(server.wal_directory, backup, start[0], text, binary)


def read(spark: SparkSession, window: Window, **options: str) -> DataFrame:
    every = {"path": str(window.wal), "catalog": str(window.backup), "startingLsn": window.start, **options}
    return spark.read.format("headwater").options(**every).load()


def messages(frame: DataFrame) -> list[tuple[str, str, Any]]:
    return [(f"{r.lsn >> 32:X}/{r.lsn & 0xFFFFFFFF:X}", str(r.xid), r.data) for r in frame.collect()]


def test_messages_of_a_text_plugin(spark: Any, window: Window) -> None:
    assert window.text == messages(read(spark, window, plugin="test_decoding"))


def test_messages_of_pgoutput(spark: Any, window: Window) -> None:
    ours = messages(read(spark, window, plugin="pgoutput", publication="only_other"))
    assert window.binary == [(lsn, xid, bytes(data)) for lsn, xid, data in ours]


def test_one_table_is_chosen_of_a_plugin_s_messages_too(spark: Any, window: Window) -> None:
    chosen = messages(read(spark, window, plugin="test_decoding", tables="public.other"))
    assert chosen == messages(read(spark, window, plugin="test_decoding", tables="public.other,public.othe?"))
    changes = [data for _, _, data in chosen if data.startswith("table ")]
    assert changes
    assert all(data.startswith("table public.other: ") for data in changes)


def test_plugin_options_go_through(spark: Any, window: Window) -> None:
    frame = read(spark, window, plugin="test_decoding", **{"plugin.include-xids": "0", "plugin.skip-empty-xacts": "1"})
    assert frame.head(1)[0].data == "BEGIN"


def test_rows_of_changes(spark: Any, window: Window) -> None:
    frame = read(spark, window, ddl="false")
    counts = {(r._table, r._op): r["count"] for r in frame.groupBy("_table", "_op").count().collect()}
    expected = {("orders", "insert"): 2, ("orders", "update"): 2, ("orders", "delete"): 1}
    expected |= {
        ("other", "insert"): 300,
        ("other", "delete"): 10,
        ("other", "truncate"): 1,
        ("copied", "insert"): 20000,
    }
    assert expected == counts
    moved = frame.where("_table = 'orders' AND _op = 'update'").orderBy("_commit_lsn").collect()[1]
    assert moved._before == {"id": "2"}
    assert moved._after == {"id": "3", "total": None, "day": None, "note": None, "ok": None, "data": None, "added": "7"}


def test_changes_are_told_apart_by_their_record_and_their_number_in_it(spark: Any, window: Window) -> None:
    frame = read(spark, window, partitionBytes="1").where("_table = 'copied'")
    rows = frame.select("_commit_lsn", "_lsn", "_seq", "_after.id", f.spark_partition_id().alias("part")).collect()
    assert len({row.part for row in rows}) > 1
    assert len({row._commit_lsn for row in rows}) == 1
    assert [str(n) for n in range(1, 20001)] == [row.id for row in sorted(rows, key=lambda row: (row._lsn, row._seq))]
    assert len({(row._lsn, row._seq) for row in rows}) == 20000 > len({row._lsn for row in rows})


def test_a_single_table_has_its_own_columns(spark: Any, window: Window) -> None:
    frame = read(spark, window, tables="public.orders")
    types = dict(frame.dtypes)
    assert {name: types[name] for name in ("id", "total", "day", "ok", "data", "added")} == {
        "id": "int",
        "total": "decimal(10,2)",
        "day": "date",
        "ok": "boolean",
        "data": "binary",
        "added": "int",
    }
    first = frame.where("_op = 'insert'").orderBy("id").head(1)[0]
    assert (1, Decimal("10.50"), date(2024, 2, 29), "first", True, b"\x00\x01", None) == tuple(first)[12:]


def test_patterns_and_publications_choose_tables(spark: Any, window: Window) -> None:
    assert {"orders", "other"} == {r._table for r in read(spark, window, tables="public.o*").select("_table").collect()}
    assert {"orders"} == {r._table for r in read(spark, window, tables="public.ord*").select("_table").collect()}
    published = read(spark, window, publication="only_other", ddl="false").groupBy("_table", "_op").count().collect()
    assert [tuple(row) for row in published] == [("other", "insert", 300)]


def test_small_partitions_give_the_same_rows(spark: Any, window: Window) -> None:
    whole, small = (read(spark, window, partitionBytes=size).drop("_before", "_after") for size in ("1000000000", "1"))
    assert (whole.rdd.getNumPartitions(), small.rdd.getNumPartitions() > 5) == (1, True)
    assert sorted(map(str, whole.collect())) == sorted(map(str, small.collect()))


def test_a_temporary_view_in_sql(spark: Any, window: Window) -> None:
    options = f"path '{window.wal.as_uri()}', catalog 'file:{window.backup}', tables 'public.orders'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders USING headwater OPTIONS ({options})")
    assert spark.sql("SELECT id FROM orders WHERE _op = 'delete'").collect() == [(1,)]


def test_a_table_in_sql_is_refused_as_spark_would_lose_its_options(spark: Any, window: Window) -> None:
    options = f"path '{window.wal}', catalog '{window.backup}'"
    with pytest.raises(
        Exception, match=r"CREATE TABLE \.\.\. USING headwater is not supported; use CREATE TEMPORARY VIEW"
    ):
        spark.sql(f"CREATE TABLE changes USING headwater OPTIONS ({options})")
    with pytest.raises(Exception, match="if this is a table made with CREATE TABLE, use CREATE TEMPORARY VIEW"):
        HeadwaterDataSource({}).reader(StructType())


def test_addresses_of_files(spark: Any, window: Window) -> None:
    frame = read(spark, window, path=window.wal.as_uri(), catalog=f"file:{window.backup}", ddl="false")
    frame = frame.where("_table = 'orders'")
    assert frame.count() == 5
    with pytest.raises(Exception, match='scheme "s3a" are not supported'):
        read(spark, window, catalog="s3a://bucket/backup", plugin="test_decoding").count()
    with pytest.raises(Exception, match='cannot read addresses of "nosuchstore://"'):
        read(spark, window, path="nosuchstore://bucket/wal", plugin="test_decoding").count()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pluggin": "x"}, "unknown option"),
        ({"startingLsn": "zero"}, "invalid LSN"),
        ({"plugin": "no_such"}, "unknown output plugin"),
        ({"tables": "public.nowhere"}, "no table"),
        ({"catalog": "/nowhere"}, "/nowhere"),
    ],
)
def test_what_is_wrong_is_said(spark: Any, window: Window, options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=words):
        read(spark, window, **options).count()


def test_rows_can_be_landed(spark: Any, window: Window, tmp_path: Path) -> None:
    read(spark, window, tables="public.orders").write.parquet(str(tmp_path / "orders"))
    landed = spark.read.parquet(str(tmp_path / "orders"))
    assert landed.count() == 5
    assert landed.agg(f.max("added")).first()[0] == 7
    assert [tuple(row) for row in landed.where("_op = 'delete'").select("id").collect()] == [(1,)]
