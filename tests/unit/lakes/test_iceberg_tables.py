"""Tables of Iceberg: what only that format has, all tables of a window at once among it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from headwater.errors import LakeConflictError, LakeError
from headwater.lakes.data_files import write_data_file
from headwater.lakes.iceberg_catalog import own_catalog
from headwater.lakes.iceberg_table import IcebergFormat, IcebergLakeTable
from headwater.lakes.lake_schema import LakeColumn, LakeSchema
from headwater.lakes.lake_table import DataFile, Landed, TableCommit, file_name
from headwater.pg.lsn import Lsn

SOURCE = "7301234567890123456/5"
ID = LakeColumn("id", 1, pa.int32())
PARTS = pa.list_(pa.field("element", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.field("element", pa.string())))])))


@pytest.fixture
def format(tmp_path: Path) -> Iterator[IcebergFormat]:
    with closing(IcebergFormat(tmp_path)) as format:
        yield format


def opened(format: IcebergFormat, place: Path, name: str = "public.t") -> IcebergLakeTable:
    return format.table(place / name, SOURCE, name)


def schema_of(table: IcebergLakeTable, *columns: LakeColumn) -> pa.Schema:
    return table.file_schema(pa.schema([pa.field("_commit_lsn", pa.int64()), *LakeSchema(9, columns or (ID,)).fields]))


def written(table: IcebergLakeTable, schema: pa.Schema, lsn: int, **values: list[Any]) -> DataFile:
    count = len(next(iter(values.values())))
    rows = pa.table({"_commit_lsn": [lsn] * count, **values}, schema)
    return write_data_file(rows, table.staging, file_name(lsn))


def add(table: IcebergLakeTable, lsn: int, *columns: LakeColumn, **values: list[Any]) -> None:
    schema = schema_of(table, *columns)
    table.commit([written(table, schema, lsn, **values)], Landed(lsn, schema, SOURCE))


def loaded(format: IcebergFormat, name: str = "t") -> Table:
    return format.catalog.load_table(("public", name))


def ids(table: Table) -> list[Any]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_snapshots_say_what_was_landed(tmp_path: Path, format: IcebergFormat) -> None:
    table = opened(format, tmp_path)
    add(table, 100, id=[1])
    add(table, 200, id=[2])
    snapshot = loaded(format).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    properties = snapshot.summary.additional_properties
    assert properties["headwater.commit-lsn"] == properties["headwater.first-commit-lsn"] == str(Lsn(200))
    assert properties["headwater.source"] == SOURCE
    assert table.version == snapshot.snapshot_id


def test_tables_of_a_window_are_committed_together_or_not_at_all(tmp_path: Path, format: IcebergFormat) -> None:
    tables = [opened(format, tmp_path, f"public.{name}") for name in "ab"]
    for table in tables:
        add(table, 100, id=[1])
    schemas = [schema_of(table) for table in tables]
    commits = [
        TableCommit(table, [written(table, schema, 200, id=[2])], Landed(200, schema, SOURCE))
        for table, schema in zip(tables, schemas, strict=True)
    ]
    with closing(IcebergFormat(tmp_path)) as other:
        add(opened(other, tmp_path, "public.b"), 150, id=[7])
    with pytest.raises(LakeConflictError, match=r"the commit was refused: .*branch main has changed"):
        format.commit(commits)
    assert [ids(loaded(format, name)) for name in "ab"] == [[1], [1, 7]]
    tables = [opened(format, tmp_path, f"public.{name}") for name in "ab"]
    format.commit(
        [
            TableCommit(table, [written(table, schema, 300, id=[3])], Landed(300, schema, SOURCE))
            for table, schema in zip(tables, schemas, strict=True)
        ]
    )
    assert [ids(loaded(format, name)) for name in "ab"] == [[1, 3], [1, 3, 7]]


def test_a_second_writer_is_told(tmp_path: Path, format: IcebergFormat) -> None:
    add(opened(format, tmp_path), 100, id=[1])
    first, second = opened(format, tmp_path), opened(format, tmp_path)
    add(first, 200, id=[2])
    with pytest.raises(LakeConflictError, match="the table has come to 0/C8 meanwhile, it was at 0/64"):
        add(second, 200, id=[2])
    assert ids(loaded(format)) == [1, 2]


def test_two_that_make_a_table(tmp_path: Path, format: IcebergFormat) -> None:
    first, second = opened(format, tmp_path), opened(format, tmp_path)
    add(first, 100, id=[1])
    with pytest.raises(LakeConflictError, match="the commit was refused"):
        add(second, 100, id=[1])
    assert ids(loaded(format)) == [1]


def test_columns_are_widened_by_icebergs_own_promotion(tmp_path: Path, format: IcebergFormat) -> None:
    narrow = (ID, LakeColumn("f", 2, pa.float32()), LakeColumn("n", 3, pa.decimal128(4, 2)))
    wide = (LakeColumn("id", 1, pa.int64()), LakeColumn("f", 2, pa.float64()), LakeColumn("n", 3, pa.decimal128(9, 2)))
    table = opened(format, tmp_path)
    add(table, 100, *narrow, id=[1], f=[1.5], n=[Decimal("1.25")])
    add(table, 200, *wide, id=[1 << 40], f=[1e300], n=[Decimal("1234567.25")])
    rows = loaded(format).scan().to_arrow().sort_by("id")
    assert [rows[name].to_pylist() for name in ("id", "f", "n")] == [
        [1, 1 << 40],
        [1.5, 1e300],
        [Decimal("1.25"), Decimal("1234567.25")],
    ]
    landed = opened(format, tmp_path).landed.schema
    assert landed is not None
    assert LakeSchema.of(landed).columns == wide
    assert loaded(format).metadata.last_column_id == 4


def test_nested_fields_have_ids_in_files(tmp_path: Path, format: IcebergFormat) -> None:
    table, column = opened(format, tmp_path), LakeColumn("parts", 2, PARTS)
    add(table, 100, id=[1])
    value = [{"a": 1, "b": ["x", None]}, None]
    add(table, 200, ID, column, id=[2], parts=[value])
    (path,) = [path for path in Path(table.staging).iterdir() if f"{200:016X}" in path.name]
    field = pq.read_schema(path).field("parts")
    element = field.type.value_field
    inner = [element, *element.type, element.type.field("b").type.value_field]
    ids = [int(part.metadata[b"PARQUET:field_id"]) for part in (field, *inner)]
    fields = loaded(format).schema()
    wanted = [fields.find_field(f"parts{name}").field_id for name in ("", ".element", ".element.a", ".element.b")]
    assert ids == [*wanted, fields.find_field("parts.element.b.element").field_id]
    assert loaded(format).scan("id = 2").to_arrow()["parts"].to_pylist() == [value]


def test_files_are_passed_over_by_their_bounds(tmp_path: Path, format: IcebergFormat) -> None:
    columns = (ID, LakeColumn("s", 2, pa.string()), LakeColumn("at", 3, pa.timestamp("us", tz="UTC")))
    table, day = opened(format, tmp_path), datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(3):
        moment = [day + timedelta(days=number)]
        add(table, 100 + number, *columns, id=[number], s=["x" * 20 + str(number)], at=moment)
    for wanted in ("id = 1", "at >= '2026-01-03T00:00:00+00:00'", "_commit_lsn < 101"):
        assert len(list(loaded(format).scan(wanted).plan_files())) == 1
    assert loaded(format).scan("s = 'xxxxxxxxxxxxxxxxxxxx1'").to_arrow()["id"].to_pylist() == [1]
    known = {file.lower["id"]: file for file in opened(format, tmp_path).files.values()}
    assert known[1].lower["at"] == known[1].upper["at"] == day + timedelta(days=1)
    assert known[1].nulls == {"_commit_lsn": 0, "id": 0, "s": 0, "at": 0}


def test_files_are_taken_away(tmp_path: Path, format: IcebergFormat) -> None:
    table = opened(format, tmp_path)
    add(table, 100, id=[1])
    add(table, 200, id=[2])
    gone = [path for path, file in table.files.items() if file.lower["id"] == 1]
    schema = schema_of(table)
    table.commit([written(table, schema, 300, id=[3, 4])], Landed(300, schema, SOURCE), gone)
    assert ids(loaded(format)) == [2, 3, 4]
    assert sorted(file.rows for file in table.files.values()) == [1, 2]
    assert table.files == opened(format, tmp_path).files


def test_how_far_a_table_is_outlives_its_snapshots(tmp_path: Path, format: IcebergFormat) -> None:
    columns = pa.schema([("_commit_lsn", pa.int64()), ("id", pa.int32())])
    add(opened(format, tmp_path), 100, id=[1])
    table = loaded(format)
    table.append(pa.table({"_commit_lsn": [0], "id": [9]}, columns))
    assert opened(format, tmp_path).landed.commit_lsn == 100
    table.maintenance.expire_snapshots().by_ids(
        [snapshot.snapshot_id for snapshot in table.snapshots() if snapshot != table.current_snapshot()]
    ).commit()
    assert opened(format, tmp_path).landed.commit_lsn == 100


def test_another_program_between_two_windows(tmp_path: Path, format: IcebergFormat) -> None:
    table = opened(format, tmp_path)
    add(table, 100, id=[1])
    other = loaded(format)
    other.append(other.scan().to_arrow())
    add(table, 200, id=[2])
    assert ids(loaded(format)) == [1, 1, 2]
    schema = schema_of(table)
    file = written(table, schema, 300, id=[3])
    other = loaded(format)
    other.delete("id = 1")
    with pytest.raises(LakeConflictError, match=r"the commit was refused: .*branch main has changed"):
        table.commit([file], Landed(300, schema, SOURCE))


def test_a_table_that_is_rolled_back_lands_again(tmp_path: Path, format: IcebergFormat) -> None:
    table = opened(format, tmp_path)
    add(table, 100, id=[1])
    first = table.version
    add(table, 200, id=[2])
    loaded(format).manage_snapshots().set_current_snapshot(first).commit()
    table = opened(format, tmp_path)
    assert table.landed.commit_lsn == 100
    add(table, 200, id=[2])
    assert ids(loaded(format)) == [1, 2]


def test_a_table_of_somebody_else_is_refused(tmp_path: Path, format: IcebergFormat) -> None:
    columns = pa.schema([("id", pa.int32())])
    format.catalog.create_namespace("public")
    format.catalog.create_table("public.t", columns, location=str(tmp_path / "public.t"))
    with pytest.raises(LakeError, match="the table has rows of something else"):
        opened(format, tmp_path)
    format.catalog.create_table("public.u", columns, location=str(tmp_path / "elsewhere"))
    with pytest.raises(LakeError, match=r"the table public\.u lies in .*elsewhere"):
        opened(format, tmp_path, "public.u")


def test_a_catalog_of_pyicebergs_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/other.db")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # which was read with the module
    with closing(IcebergFormat(tmp_path, "lake", "raw")) as format:
        add(opened(format, tmp_path), 100, id=[1])
        assert format.catalog.list_tables("raw") == [("raw", "public_t")]
    assert not (tmp_path / "iceberg.db").exists()
    with pytest.raises(LakeError, match=r"catalog nobodys: URI missing.*in \.pyiceberg\.yaml"):
        IcebergFormat(tmp_path, "nobodys")


def test_names_are_what_they_are(tmp_path: Path) -> None:
    place = tmp_path / "a b#c%20?d"
    place.mkdir()
    columns = (ID, LakeColumn("x.y", 2, pa.int32()))
    with closing(IcebergFormat(place)) as format:
        add(opened(format, place, "public.t.ä b#c"), 100, *columns, **{"id": [1], "x.y": [2]})
    catalog: Catalog = own_catalog(place)
    with closing(catalog):
        rows = catalog.load_table(("public", "t.ä b#c")).scan().to_arrow()
    assert rows.to_pylist() == [{"_commit_lsn": 100, "id": 1, "x.y": 2}]
