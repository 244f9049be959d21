"""Commits of files to tables of each format: whole or not there, seen by other readers, refused to a second writer."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from arrow_types import values_of
from headwater.errors import LakeConflictError, LakeError
from headwater.lakes.data_files import write_data_file
from headwater.lakes.delta_table import DeltaLakeTable
from headwater.lakes.iceberg_catalog import own_catalog
from headwater.lakes.iceberg_table import IcebergFormat
from headwater.lakes.lake_schema import LakeColumn, LakeSchema
from headwater.lakes.lake_table import DataFile, LakeTable, Landed, file_name
from headwater.lakes.parquet_table import WHOLE_EVERY, ParquetTable, read_parquet_table

SOURCE = "7301234567890123456/5"
ONE = LakeSchema(16384, (LakeColumn("id", 1, pa.int32()),))
TWO = LakeSchema(16384, (*ONE.columns, LakeColumn("note", 2, pa.string())))


def arrow(lake: LakeSchema) -> pa.Schema:
    return pa.schema([pa.field("_lsn", pa.int64()), *lake.fields])


def open_parquet(place: Path, source: str = SOURCE) -> LakeTable:
    return ParquetTable(place, source)


def open_delta(place: Path, source: str = SOURCE) -> LakeTable:
    return DeltaLakeTable(place, source, "public.t")


def read_delta(place: Path) -> pa.Table:
    return DeltaTable(str(place)).to_pyarrow_table()


def open_iceberg(place: Path, source: str = SOURCE) -> LakeTable:
    return IcebergFormat(place.parent).table(place, source, "public.t")


def read_iceberg(place: Path) -> pa.Table:
    with closing(own_catalog(place.parent)) as catalog:
        return catalog.load_table(("public", "t")).scan().to_arrow()


FORMATS = [
    pytest.param(open_parquet, read_parquet_table, id="parquet"),
    pytest.param(open_delta, read_delta, id="delta"),
    pytest.param(open_iceberg, read_iceberg, id="iceberg"),
]
Open = Callable[..., LakeTable]
Read = Callable[[Path], pa.Table]


def add(table: LakeTable, lsn: int, lake: LakeSchema = ONE, **columns: list[object]) -> None:
    """Write a file, and commit it."""
    schema = table.file_schema(arrow(lake))
    count = len(next(iter(columns.values())))
    given: dict[str, list[object]] = {"_lsn": [lsn] * count, **columns}
    name = f"part-{lsn:016X}.parquet"
    path = Path(table.staging) / name
    pq.write_table(pa.table({field.name: given[field.name] for field in schema}, schema), path)
    file = DataFile(name, count, path.stat().st_size, {"_lsn": lsn}, {"_lsn": lsn}, {"_lsn": 0})
    table.commit([file], Landed(lsn, schema, SOURCE))


FIRST, LAST = datetime(1, 1, 1), datetime.max
ENDS = {
    "_lsn": pa.array([1, 1]),
    "f": pa.array([math.inf, 1.5], pa.float32()),
    "g": pa.array([-math.inf, math.inf]),
    "at": pa.array([FIRST, LAST], pa.timestamp("us")),
    "moment": pa.array([FIRST.replace(tzinfo=UTC), LAST.replace(tzinfo=UTC)], pa.timestamp("us", "UTC")),
    "day": pa.array([FIRST.date(), LAST.date()]),
}


@pytest.mark.parametrize(("open_table", "read"), FORMATS)
def test_files_whose_values_are_the_ends_of_their_types(tmp_path: Path, open_table: Open, read: Read) -> None:
    """As bounds not every format can say them."""
    rows = pa.table(ENDS)
    with open_table(tmp_path / "public.t") as table:
        schema = table.file_schema(rows.schema)
        file = write_data_file(rows.cast(schema), table.staging, file_name(1))
        table.commit([file], Landed(1, schema, SOURCE))
    with open_table(tmp_path / "public.t") as table:
        assert table.files[file.path].rows == 2
    assert read(tmp_path / "public.t").select(rows.column_names).to_pydict() == rows.to_pydict()


@pytest.mark.parametrize("left", [(), ("00000000000000000000.json#1",), ("_commit_1d2c.json.tmp",)])
def test_a_delta_log_without_a_commit_is_no_table_yet(tmp_path: Path, left: tuple[str, ...]) -> None:
    """It is what a first commit leaves for which no room was left, or that was killed."""
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    for name in left:
        (tmp_path / "t" / "_delta_log" / name).touch()
    with open_delta(tmp_path / "t") as table:
        assert table.landed == Landed(-1, None, SOURCE)
        add(table, 7, id=[1, 2])
    assert read_delta(tmp_path / "t").num_rows == 2


def landed_as(table: LakeTable) -> tuple[int, LakeSchema]:
    assert table.landed.schema is not None
    return table.landed.commit_lsn, LakeSchema.of(table.landed.schema)


@pytest.mark.parametrize(("open_table", "read"), FORMATS)
def test_commits_are_read_and_say_how_far_the_table_has_come(tmp_path: Path, open_table: Open, read: Read) -> None:
    with open_table(tmp_path / "t") as table:
        assert table.landed == Landed(-1, None, SOURCE)
    with open_table(tmp_path / "t") as table:
        add(table, 100, id=[1, 2])
        add(table, 200, id=[3])
    with open_table(tmp_path / "t") as table:
        assert landed_as(table) == (200, ONE)
        add(table, 300, TWO, id=[4], note=["new"])
    rows = read(tmp_path / "t").sort_by("id").to_pylist()
    assert [row["id"] for row in rows] == [1, 2, 3, 4]
    assert [row["note"] for row in rows] == [None, None, None, "new"]
    with open_table(tmp_path / "t") as table:
        assert landed_as(table) == (300, TWO)


@pytest.mark.parametrize(("open_table", "read"), FORMATS)
def test_files_in_no_commit_are_not_seen(tmp_path: Path, open_table: Open, read: Read) -> None:
    with open_table(tmp_path / "t") as table:
        add(table, 100, id=[1])
        pq.write_table(pa.table({"_lsn": [0], "id": [9]}), Path(table.staging) / "part-orphan.parquet")
    assert read(tmp_path / "t")["id"].to_pylist() == [1]


@pytest.mark.parametrize(("open_table", "read"), FORMATS)
def test_rows_of_another_source_are_refused(tmp_path: Path, open_table: Open, read: Read) -> None:
    with open_table(tmp_path / "t") as table:
        add(table, 100, id=[1])
    with pytest.raises(LakeError, match=r"not of 1/5|no rows of 1/5"):
        open_table(tmp_path / "t", "1/5")
    assert read(tmp_path / "t")["id"].to_pylist() == [1]


@pytest.mark.parametrize("name", ["a place", "100% ünï", "co:lon", "[0-9]*", "hash#and?mark"])
@pytest.mark.parametrize(("open_table", "read"), FORMATS)
def test_places_of_any_name(tmp_path: Path, open_table: Open, read: Read, name: str) -> None:
    (tmp_path / name).mkdir()
    place = tmp_path / name / "public.t"
    for lsn in (100, 200):
        with open_table(place) as table:
            add(table, lsn, id=[lsn])
    assert os.listdir(tmp_path) == [name]
    assert sorted(values_of(read(place)["id"])) == [100, 200]


@pytest.mark.parametrize("name", ["a%20place", "back\\slash", "new\nline"])
def test_places_that_deltalake_misreads_are_refused(tmp_path: Path, name: str) -> None:
    """It would have written to the one, and read from the other."""
    with open_delta(tmp_path / "a place" / "t") as table:
        add(table, 100, id=[1])
    with pytest.raises(LakeError, match=r"deltalake does not find a directory with .* in its path"):
        open_delta(tmp_path / name / "t")
    assert os.listdir(tmp_path) == ["a place"]


def test_two_writers_of_a_delta_table(tmp_path: Path) -> None:
    with open_delta(tmp_path / "t") as table:
        add(table, 100, id=[1])
    first, second = open_delta(tmp_path / "t"), open_delta(tmp_path / "t")
    add(first, 200, id=[2])
    with pytest.raises(LakeConflictError, match="the table has come to 0/C8 meanwhile, it was at 0/64"):
        add(second, 200, id=[2])
    assert read_delta(tmp_path / "t")["id"].to_pylist() == [2, 1]


def test_two_that_make_a_delta_table(tmp_path: Path) -> None:
    first, second = open_delta(tmp_path / "t"), open_delta(tmp_path / "t")
    add(first, 100, id=[1])
    with pytest.raises(LakeError, match="Delta"):
        add(second, 100, id=[1])
    assert read_delta(tmp_path / "t")["id"].to_pylist() == [1]


def test_two_writers_of_a_parquet_table(tmp_path: Path) -> None:
    with open_parquet(tmp_path / "t") as table:
        with pytest.raises(LakeConflictError, match="another process lands"):
            open_parquet(tmp_path / "t")
        add(table, 100, id=[1])
        # A writer on another machine, which no lock shows.
        log = tmp_path / "t" / "_headwater"
        shutil.copy(log / f"{1:020}.json", log / f"{2:020}.json")
        with pytest.raises(LakeConflictError, match="commit 2 was made by somebody else"):
            add(table, 200, id=[2])


def test_a_commit_that_was_not_placed_is_completed(tmp_path: Path) -> None:
    place = tmp_path / "t"
    with open_parquet(place) as table:
        add(table, 100, id=[1])
        staged = Path(table.staging)
        os.replace(place / f"part-{100:016X}.parquet", staged / f"part-{100:016X}.parquet")
        (staged / "part-orphan.parquet").write_bytes(b"torn")
    assert values_of(read_parquet_table(place)["id"]) == [1]
    with open_parquet(place):
        assert os.listdir(staged) == []
    assert [path.name for path in place.glob("*.parquet")] == [f"part-{100:016X}.parquet"]


def test_a_long_log_is_read_from_its_last_whole_manifest(tmp_path: Path) -> None:
    place = tmp_path / "t"
    with open_parquet(place) as table:
        for number in range(1, WHOLE_EVERY + 3):
            add(table, number, id=[number])
    for number in range(1, WHOLE_EVERY):
        (place / "_headwater" / f"{number:020}.json").unlink()
    assert sorted(values_of(read_parquet_table(place)["id"])) == list(range(1, WHOLE_EVERY + 3))
    with open_parquet(place) as table:
        assert table.landed.commit_lsn == WHOLE_EVERY + 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99}'])
def test_damaged_manifests(tmp_path: Path, text: str) -> None:
    with open_parquet(tmp_path / "t") as table:
        add(table, 100, id=[1])
    (tmp_path / "t" / "_headwater" / f"{1:020}.json").write_text(text)
    with pytest.raises(LakeError, match="manifest"):
        open_parquet(tmp_path / "t")


def test_a_delta_table_of_somebody_else_is_refused(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "t"), pa.schema([("id", pa.int32())]))
    with pytest.raises(LakeError, match="the table has no rows of"):
        open_delta(tmp_path / "t")
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / file_name(1)).touch()
    assert open_delta(tmp_path / "v").landed.commit_lsn == -1


@pytest.mark.parametrize("open_table", [open_parquet, open_delta])
def test_a_directory_with_files_of_somebody_else_is_refused(tmp_path: Path, open_table: Open) -> None:
    place = tmp_path / "u"
    place.mkdir()
    pq.write_table(pa.table({"id": [99]}), place / "x.parquet")
    with pytest.raises(LakeError, match="files of something else"):
        open_table(place)
    assert os.listdir(place) == ["x.parquet"]
    (place / "x.parquet").unlink()
    with open_table(place) as table:
        add(table, 100, id=[1])
    pq.write_table(pa.table({"id": [99]}), place / "x.parquet")  # later it is a matter of who reads by glob
    with open_table(place) as table:
        assert table.landed.commit_lsn == 100
