"""The view ``records`` of the data source against ``pg_walinspect``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as f

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from headwater.wal.segments.directory import WalDirectory

pytestmark = [pytest.mark.server, pytest.mark.spark]

COLUMNS = "start_lsn, end_lsn, prev_lsn, xid, resource_manager, record_type, record_length"
COLUMNS += ", main_data_length, fpi_length"


@dataclass(frozen=True)
class Recorded:
    """A stopped server's WAL, and what it said of the records in ``[start, end)``."""

    wal: Path
    start: str
    end: str
    rows: list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def recorded() -> Iterator[Recorded]:
    programs = find_programs(16, plugin="pg_walinspect")
    with EmbeddedPostgres(programs, wal_segment_megabytes=1, autovacuum=False) as server:
        with server.connect() as connection:
            connection.execute("create extension pg_walinspect")
            start = connection.execute("select pg_current_wal_insert_lsn()::text").fetchone()
            connection.execute("create table t (id int primary key, body text)")
            connection.execute("insert into t select i, repeat('x', 300) from generate_series(1, 20000) i")
            connection.execute("update t set id = -id where id % 10 = 0")
            connection.execute("select pg_logical_emit_message(false, 'größe', '\\x00ff'::bytea)")
            connection.execute("select pg_switch_wal()")
            end = connection.execute("select pg_current_wal_flush_lsn()::text").fetchone()
            assert start is not None
            assert end is not None
            query = f"select {COLUMNS}, description, block_ref from pg_get_wal_records_info(%s, %s)"
            rows = connection.execute(query.encode(), (start[0], end[0])).fetchall()
        server.stop()
        yield Recorded(server.wal_directory, start[0], end[0], rows)


def read(spark: Any, recorded: Recorded, **options: str) -> Any:
    every = {"path": str(recorded.wal), "view": "records", **options}
    return spark.read.format("headwater").options(**every).load()


@pytest.mark.slow
def test_as_pg_walinspect(spark: Any, recorded: Recorded) -> None:
    window = {"startingLsn": recorded.start, "endingLsn": recorded.end}
    frame = read(spark, recorded, **window, partitionBytes="3000000")
    assert frame.rdd.getNumPartitions() > 2
    rows = frame.orderBy("start_lsn").collect()
    assert len(recorded.rows) == len(rows) > 20000
    for ours, theirs in zip(rows, recorded.rows, strict=True):
        lsns = tuple(int(Lsn.parse(lsn)) for lsn in theirs[:3])
        assert tuple(ours[:9]) == (*lsns, int(theirs[3]), *theirs[4:9])
        assert ours.block_ref == (theirs[10] or "")
        if ours.resource_manager != "Transaction":
            assert ours.description == (theirs[9] or "")
    message = next(row for row in rows if row.resource_manager == "LogicalMessage")
    assert message.description.endswith(', prefix "größe"; payload (2 bytes): 00 FF')


def test_everything_there_is_each_record_once(spark: Any, recorded: Recorded) -> None:
    """However it is cut: chains of ``prev_lsn`` have no gap."""
    counts = set()
    for size in ("1", "2500000", "100000000"):
        frame = read(spark, recorded, partitionBytes=size)
        rows = frame.select("start_lsn", "prev_lsn").orderBy("start_lsn").collect()
        assert [row.prev_lsn for row in rows[1:]] == [row.start_lsn for row in rows[:-1]]
        counts.add(len(rows))
    assert len(counts) == 1
    assert rows[0].start_lsn < WalDirectory.scan(recorded.wal).start_lsn + 8192


def test_sums_in_sql(spark: Any, recorded: Recorded) -> None:
    frame = read(spark, recorded, startingLsn=recorded.start, endingLsn=recorded.end)
    by_manager = frame.groupBy("resource_manager").agg(f.count("*"), f.sum("record_length")).collect()
    sums = {row[0]: (row[1], row[2]) for row in by_manager}
    for name in {row[4] for row in recorded.rows}:
        lengths = [row[6] for row in recorded.rows if row[4] == name]
        assert sums[name] == (len(lengths), sum(lengths))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"catalog": "/somewhere"}, 'option "catalog" means nothing for the view "records"'),
        ({"view": "pages"}, 'invalid view "pages", expected changes or records'),
        ({"startingLsn": "0/9", "endingLsn": "0/8"}, "endingLsn 0/8 lies not behind startingLsn 0/9"),
        ({"partitionBytes": "many"}, 'invalid partitionBytes "many"'),
        ({"path": "/nowhere"}, "could not list directory"),
    ],
)
def test_what_cannot_be_read(spark: Any, recorded: Recorded, options: dict[str, str], expected: str) -> None:
    with pytest.raises(Exception, match=r"\w") as caught:
        read(spark, recorded, **options).count()
    assert expected in str(caught.value)
