"""A glob over all directories of a Parquet table finds the rows of now, whoever looks: not what is gone, or comes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.dataset import dataset

from arrow_types import values_of
from headwater.lakes.data_files import write_data_file
from headwater.lakes.lake_schema import LakeColumn, LakeSchema
from headwater.lakes.lake_table import DataFile, Landed, file_name
from headwater.lakes.parquet_table import ParquetFormat, ParquetTable, read_parquet_table

pytestmark = pytest.mark.spark

SOURCE = "7301234567890123456/5"
COLUMNS = LakeSchema(16384, (LakeColumn("id", 1, pa.int32()),))
SCHEMA = pa.schema([pa.field("_lsn", pa.int64()), *COLUMNS.fields])
BEHIND = datetime(2100, 1, 1, tzinfo=UTC)


def written(table: ParquetTable, lsn: int, *ids: int) -> DataFile:
    rows = pa.table({"_lsn": [lsn] * len(ids), "id": pa.array(ids, pa.int32())}, table.file_schema(SCHEMA))
    return write_data_file(rows, table.staging, file_name(lsn))


def committed(table: ParquetTable, lsn: int, ids: list[int], removed: list[str]) -> DataFile:
    file = written(table, lsn, *ids)
    table.commit([file], Landed(lsn, table.file_schema(SCHEMA), SOURCE), removed)
    return file


def by_python(place: Path, _spark: Any) -> pa.Table:
    return pa.concat_tables([pq.read_table(path, partitioning=None) for path in place.glob("**/*.parquet")])


def by_duckdb(place: Path, _spark: Any) -> pa.Table:
    with duckdb.connect() as session:
        rows: pa.Table = session.sql(f"SELECT * FROM read_parquet('{place}/**/*.parquet')").to_arrow_table()
        return rows


def by_pyarrow(place: Path, _spark: Any) -> pa.Table:
    return dataset(place, format="parquet").to_table()


def by_spark(place: Path, spark: Any) -> pa.Table:
    rows: pa.Table = spark.read.option("recursiveFileLookup", "true").parquet(str(place)).toArrow()
    return rows


def by_sparks_glob(place: Path, spark: Any) -> pa.Table:
    options = {"recursiveFileLookup": "true", "pathGlobFilter": "*.parquet"}
    rows: pa.Table = spark.read.options(**options).parquet(str(place)).toArrow()
    return rows


READERS: list[Callable[[Path, Any], pa.Table]] = [by_python, by_duckdb, by_pyarrow, by_spark, by_sparks_glob]


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_only_rows_of_now(tmp_path: Path, spark: Any, read: Callable[[Path, Any], pa.Table]) -> None:
    place = tmp_path / "public.t"
    with ParquetTable(place, SOURCE) as table:
        first = committed(table, 100, [1, 2], [])
        committed(table, 200, [1, 3], [first.path])
        written(table, 300, 4)  # in no commit yet
        assert sorted(values_of(read(place, spark)["id"])) == [1, 3]
    assert sorted(values_of(read_parquet_table(place, 1)["id"])) == [1, 2]


def test_tables_of_before(tmp_path: Path) -> None:
    """Files under the names of before are read, put in their place, and removed when they expire."""
    place = tmp_path / "public.t"
    with ParquetTable(place, SOURCE) as table:
        first = committed(table, 100, [1, 2], [])
        second = committed(table, 200, [1, 3], [first.path])
    log = place / "_headwater"
    os.rename(log / f"removed/{first.path}.removed", log / f"removed/{first.path}")
    (log / "staged").mkdir()
    os.rename(place / second.path, log / "staged" / second.path)
    (log / "staged" / file_name(300)).write_bytes(b"torn")
    for version, ids in ((1, [1, 2]), (2, [1, 3]), (None, [1, 3])):
        assert sorted(values_of(read_parquet_table(place, version)["id"])) == ids
    with ParquetTable(place, SOURCE):
        pass
    assert [path.name for path in place.glob("**/*.parquet")] == [second.path]
    assert list((log / "staged").iterdir()) == []
    for version, ids in ((1, [1, 2]), (None, [1, 3])):
        assert sorted(values_of(read_parquet_table(place, version)["id"])) == ids


@pytest.mark.parametrize("suffix", ["", ".removed"])
def test_what_is_gone_expires(tmp_path: Path, suffix: str) -> None:
    place = tmp_path / "public.t"
    with ParquetTable(place, SOURCE) as table:
        first = committed(table, 100, [1, 2], [])
        committed(table, 200, [1, 3], [first.path])
    removed = place / "_headwater/removed"
    os.rename(removed / f"{first.path}.removed", removed / f"{first.path}{suffix}")
    spared = ParquetFormat().expire(place, "public.t", {1, 2}, BEHIND)
    assert (spared.files, len(list(removed.iterdir()))) == (0, 1)
    gone = ParquetFormat().expire(place, "public.t", {2}, BEHIND)
    assert (gone.files, list(removed.iterdir())) == (1, [])
    assert math.isclose(gone.bytes, first.size)
