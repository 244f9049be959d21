"""Rows that manifests of Parquet tables say are deleted are gone for who reads the tables by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.errors import LakeError
from headwater.lakes.data_files import write_data_file
from headwater.lakes.lake_table import DataFile, Landed, TableSize, file_name
from headwater.lakes.parquet_table import WHOLE_EVERY, ParquetFormat, ParquetTable, read_parquet_table

SCHEMA, SOURCE = pa.schema([("id", pa.int64())]), "1/2"


def opened(place: Path) -> ParquetTable:
    return ParquetTable(place, SOURCE, deletes_beside=True)


def written(table: ParquetTable, *ids: int) -> DataFile:
    return write_data_file(pa.table([list(ids)], schema=SCHEMA), table.staging, file_name(ids[0]))


def delete(table: ParquetTable, lsn: int, added: list[DataFile], deleted: dict[str, list[int]]) -> None:
    rows = {path: np.array(positions) for path, positions in deleted.items()}
    table.commit_deleting(added, Landed(lsn, SCHEMA, SOURCE), [], rows)


def ids(place: Path, version: int | None = None) -> list[int]:
    return sorted(read_parquet_table(place, version)["id"].to_numpy().tolist())


def manifest(place: Path, number: int) -> dict[str, Any]:
    known: dict[str, Any] = json.loads((place / "_headwater" / f"{number:020}.json").read_text())
    return known


def test_rows_are_deleted_and_deleted_again(tmp_path: Path) -> None:
    with opened(tmp_path) as table:
        first, second = written(table, 1, 2, 3, 4), written(table, 5, 6)
        table.commit([first, second], Landed(1, SCHEMA, SOURCE))
        delete(table, 2, [written(table, 20)], {first.path: [1], second.path: [0]})
        assert ids(tmp_path) == [1, 3, 4, 6, 20]
        delete(table, 3, [], {first.path: [0, 3]})
        files = dict(table.files)
    with opened(tmp_path) as table:
        assert table.files == files
        assert ids(tmp_path) == [3, 6, 20]
        assert ParquetFormat().size(tmp_path, "t", 3) == TableSize.of(files.values())
        table.commit([written(table, 30)], Landed(4, SCHEMA, SOURCE), [first.path])
    assert [ids(tmp_path, version) for version in (1, 2, 4)] == [[1, 2, 3, 4, 5, 6], [1, 3, 4, 6, 20], [6, 20, 30]]
    assert [manifest(tmp_path, number)["format"] for number in range(1, 5)] == [1, 2, 2, 1]
    assert all("deleted" not in file for number in (1, 4) for file in manifest(tmp_path, number)["files"])


def test_a_whole_manifest_has_what_is_deleted(tmp_path: Path) -> None:
    with opened(tmp_path) as table:
        first = written(table, 1, 2, 3)
        delete(table, 1, [first], {})
        delete(table, 2, [], {first.path: [0]})
        for number in range(3, WHOLE_EVERY + 1):
            table.commit([], Landed(number, SCHEMA, SOURCE))
    assert manifest(tmp_path, WHOLE_EVERY)["format"] == 2
    assert ids(tmp_path) == [2, 3]


@pytest.mark.parametrize(("text", "count"), [("no base64", 1), ("AAAA", 1), (None, 5)])
def test_a_damaged_list_is_an_error(tmp_path: Path, text: str | None, count: int) -> None:
    with opened(tmp_path) as table:
        first = written(table, 1, 2, 3)
        table.commit([first], Landed(1, SCHEMA, SOURCE))
        delete(table, 2, [], {first.path: [0]})
    known = manifest(tmp_path, 2)
    note = known["files"][0]["deleted"]
    known["files"][0]["deleted"] = {"text": note["text"] if text is None else text, "count": count}
    (tmp_path / "_headwater" / f"{2:020}.json").write_text(json.dumps(known))
    with pytest.raises(LakeError, match="a list of deleted rows is damaged"):
        read_parquet_table(tmp_path)
