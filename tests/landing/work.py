"""A server's work that is landed under difficulties: segments, three tables, and what landing it undisturbed gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headwater.demo.embedded_postgres import EmbeddedPostgres, find_programs
from headwater.pipeline.request import DecodeRequest
from headwater.pipeline.run_index import WindowBounds
from headwater.sinks.lake import LandingTarget
from headwater.sinks.landing import LandingResult, land
from headwater.sinks.landing_watch import NOBODY_WATCHES, LandingWatch
from headwater.sinks.parquet_table import read_parquet_table

WINDOW_BYTES = 1 << 20
ORDER = ("_commit_lsn", "_lsn", "_seq", "_change_type")
TABLES = ("public.a", "public.b", "public.c")
SETUP = (
    "CREATE TABLE a (id int PRIMARY KEY, t text)",
    "CREATE TABLE b (id int PRIMARY KEY, n int)",
    "CREATE TABLE c (x int)",
)

Reader = Callable[[LandingTarget, str], pa.Table | None]
"""The rows of a table; None for one that is not there."""


@dataclass(frozen=True)
class Work:
    """Files of a stopped server.

    Attributes:
        backup, wal: directories.
        rows: by table, all changes in order, landed in one window.
    """

    backup: Path
    wal: Path
    rows: Mapping[str, pa.Table]

    def arguments(self, target: LandingTarget) -> list[str]:
        """Of ``headwater land``."""
        found = ["land", "--wal", self.wal, "--catalog", self.backup, "--database", "postgres"]
        found += ["--to", target.place, "--format", target.format, "--window-bytes", WINDOW_BYTES]
        return [str(one) for one in found]

    def land(self, spark: SparkSession, target: LandingTarget, watch: LandingWatch = NOBODY_WATCHES) -> LandingResult:
        """Land it here."""
        request = DecodeRequest(str(self.wal), str(self.backup), "postgres")
        return land(spark, request, target, bounds=WindowBounds(WINDOW_BYTES), watch=watch)

    def check_whole(self, target: LandingTarget, reader: Reader | None = None) -> None:
        """Whether a target has everything once."""
        for name, rows in self.rows.items():
            found = (reader or read)(target, name)
            assert found is not None, name
            assert ordered(found).equals(rows), name

    def check_so_far(self, target: LandingTarget, reader: Reader | None = None) -> int:
        """Whether each table of a target has whole transactions, from the first one on, once; how many rows."""
        count = 0
        for name, rows in self.rows.items():
            found = (reader or read)(target, name)
            if found is not None and len(found):
                some = ordered(found)
                assert some.equals(rows.slice(0, len(some))), name
                behind = rows["_commit_lsn"].slice(len(some), 1).to_pylist()
                assert behind != some["_commit_lsn"].slice(len(some) - 1, 1).to_pylist(), name
                count += len(some)
        return count


def do_work(spark: SparkSession, directory: Path) -> Work:
    """Let a server work, and land what it did."""
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            for statement in SETUP:
                connection.execute(statement.encode())
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        with server.connect() as connection:
            for number in range(12):
                for statement in _statements(number * 1000):
                    connection.execute(statement.encode())
        server.stop()
        wal = directory / "wal"
        wal.mkdir()
        for path in server.wal_directory.iterdir():
            if path.is_file():
                (wal / path.name).write_bytes(path.read_bytes())
    target = LandingTarget(directory / "whole")
    land(spark, DecodeRequest(str(wal), str(backup), "postgres"), target)
    return Work(backup, wal, {name: ordered(read_parquet_table(target.place / name)) for name in TABLES})


def _statements(first: int) -> list[str]:
    last = first + 399
    return [
        f"INSERT INTO a SELECT i, repeat(i::text, 200) FROM generate_series({first}, {last}) i",
        f"WITH b AS (INSERT INTO b SELECT i, i FROM generate_series({first}, {last}) i) INSERT INTO c VALUES ({first})",
        f"UPDATE b SET n = -n WHERE id % 3 = 0 AND id >= {first}",
        f"UPDATE b SET id = -id WHERE id = {first + 1}",
        f"DELETE FROM a WHERE id % 5 = 0 AND id >= {first}",
    ]


def read(target: LandingTarget, name: str) -> pa.Table | None:
    """A table's rows as a reader has them; None for one that is not there."""
    place = target.place / name
    if target.format == "delta":
        is_there = any((place / "_delta_log").glob("*.json"))
        return DeltaTable(str(place)).to_pyarrow_table() if is_there else None
    is_there = any((place / "_headwater").glob("*.json"))
    return read_parquet_table(place) if is_there else None


def ordered(rows: pa.Table) -> pa.Table:
    """Rows in the order of changes."""
    schema = pa.schema([pa.field(one.name, one.type) for one in rows.schema])
    return pa.table(rows.columns, schema=schema).sort_by([(name, "ascending") for name in ORDER]).combine_chunks()
