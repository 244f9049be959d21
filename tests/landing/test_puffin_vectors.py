"""Tables of Iceberg's format 3: deletion vectors and numbers of rows, as the specification and others have them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import ManifestContent
from pyiceberg.table.puffin import PuffinFile

from headwater.errors import LakeError
from headwater.lakes.iceberg.numbered_manifests import detail, is_vector
from landing.iceberg_lakes import NAME, THIRD, Lake, delete_elsewhere, read_by_duckdb


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(tmp_path, None, **THIRD)
    yield lake
    lake.format.close()


def require(lake: Lake, ids: list[int]) -> None:
    """See that pyiceberg, DuckDB and who opens the table find these rows, each file with one vector at most."""
    lake.require(ids)
    assert sorted(read_by_duckdb(lake.place)["id"].to_numpy().tolist()) == ids
    of = [detail(vector, "referenced_data_file") for vector in vectors(lake)]
    assert len(of) == len(set(of))


def vectors(lake: Lake) -> list[IcebergFile]:
    return [entry.data_file for entry in deletes(lake) if is_vector(entry.data_file)]


def numbers(lake: Lake) -> dict[str, range]:
    """Return the numbers of rows, by the names of files."""
    files = [entry.data_file for entry in lake.entries(ManifestContent.DATA)]
    first = {Path(file.file_path).name: (int(detail(file, "first_row_id")), file.record_count) for file in files}
    return {name: range(begin, begin + count) for name, (begin, count) in first.items()}


def test_rows_are_deleted_and_deleted_again(lake: Lake) -> None:
    """A file has one vector, with all that is deleted of it; those of a commit lie in one file."""
    first, second = lake.written(1, 2, 3, 4), lake.written(5, 6)
    lake.commit(1, [first, second], {}, ())
    begun = numbers(lake)
    third = lake.written(7)
    lake.commit(2, [third], {first.path: [1], second.path: [0]}, ())
    require(lake, [1, 3, 4, 6, 7])
    (path,) = {vector.file_path for vector in vectors(lake)}
    for blob in PuffinFile(Path(path).read_bytes()).footer.blobs:
        assert (blob.type, blob.snapshot_id, blob.sequence_number, blob.compression_codec) == (
            ("deletion-vector-v1", -1, -1, None)
        )
    lake.commit(3, [], {first.path: [0, 3]}, ())
    require(lake, [3, 6, 7])
    assert sorted((entry.sequence_number, entry.data_file.record_count) for entry in deletes(lake)) == [(2, 1), (3, 3)]
    now = numbers(lake)
    assert {name: now[name] for name in begun} == begun
    every = [number for of_file in now.values() for number in of_file]
    assert len(every) == len(set(every)) == 7
    assert max(every) < lake.theirs.metadata.next_row_id  # type: ignore[union-attr,operator]  # of format 3 there is one
    lake.commit(4, [lake.written(30)], {}, (first.path,))
    require(lake, [6, 7, 30])
    (left,) = vectors(lake)
    assert detail(left, "referenced_data_file") == lake.table.locate(second.path)
    summary = lake.theirs.current_snapshot().summary  # type: ignore[union-attr]  # there is one
    totals: dict[str, str] = summary.additional_properties  # type: ignore[union-attr]
    assert [totals[f"total-{what}"] for what in ("records", "delete-files", "position-deletes")] == ["4", "1", "1"]


def deletes(lake: Lake) -> list[Any]:
    return lake.entries(ManifestContent.DELETES)


@pytest.mark.slow
def test_a_table_becomes_one_of_format_three(tmp_path: Path) -> None:
    """Its rows are numbered then; position deletes stay until their file has a vector."""
    lake = Lake(tmp_path)
    files = [lake.written(1, 2, 3), lake.written(4, 5), lake.written(6, 7)]
    lake.commit(1, files, {}, ())
    lake.commit(2, [], {files[0].path: [0]}, ())
    theirs = delete_elsewhere(lake, {files[1].path: [1], files[2].path: [0]})
    lake.properties = THIRD
    lake.table = lake.opened()
    lake.commit(3, [lake.written(8)], {}, ())
    assert lake.theirs.metadata.format_version == 3
    require(lake, [2, 3, 4, 7, 8])
    assert len({number for of_file in numbers(lake).values() for number in of_file}) == 8
    lake.table = lake.opened()
    lake.written(9)
    lake.commit(4, [], {files[0].path: [2], files[1].path: [0]}, ())
    require(lake, [2, 7, 8])
    kinds = sorted(Path(entry.data_file.file_path).suffix for entry in deletes(lake))
    assert kinds == [".parquet", ".puffin", ".puffin"]
    assert theirs in {entry.data_file.file_path for entry in deletes(lake)}
    lake.properties = {"format-version": "2"}
    with pytest.raises(LakeError, match="is of format 3, and format-version = 2 is wanted"):
        lake.opened().file_schema(lake.table.landed.schema)  # type: ignore[arg-type]  # rows have landed


@pytest.mark.slow
def test_files_of_vectors_expire(lake: Lake) -> None:
    first, second = lake.written(*range(100)), lake.written(*range(100, 200))
    lake.commit(1, [first, second], {}, ())
    for number in range(2, 6):
        lake.commit(number, [], {first.path: [number]} | ({second.path: [0]} if number == 2 else {}), ())
    stray = lake.place / "data" / "part-0-of-a-killed-run-deletes.puffin"
    stray.write_bytes(b"PFA1")
    left = [number for number in range(200) if number not in (2, 3, 4, 5, 100)]
    assert len(list((lake.place / "data").glob("*.puffin"))) == 5
    lake.format.expire(lake.place, NAME, (), datetime.now(UTC) + timedelta(minutes=1))
    assert len(list((lake.place / "data").glob("*.puffin"))) == 2
    lake.table = lake.opened()
    require(lake, left)


@pytest.mark.slow
def test_random_deletes(lake: Lake) -> None:
    rng = np.random.default_rng(5)
    left: dict[str, set[int]] = {}
    files: dict[str, int] = {}
    for number in range(1, 25):
        rows = range(1000 * number, 1000 * number + int(rng.integers(1, 300)))
        file = lake.written(*rows)
        deleted = {}
        for path in rng.choice(list(left), min(len(left), 3), replace=False) if left else ():
            gone = rng.choice(sorted(left[path]), int(rng.integers(1, len(left[path]) + 1)), replace=False)
            deleted[str(path)] = sorted(int(row) - files[path] for row in gone)
            left[path] -= set(gone.tolist())
        removed = tuple(path for path in left if not left[path] or (path not in deleted and rng.random() < 0.03))
        deleted = {path: places for path, places in deleted.items() if path not in removed}
        for path in removed:
            del left[path]
        lake.commit(number, [file], deleted, removed)
        left[file.path], files[file.path] = set(rows), rows.start
        if number % 4 == 0:
            require(lake, sorted(row for rows_left in left.values() for row in rows_left))
            of = [number for of_file in numbers(lake).values() for number in of_file]
            assert len(of) == len(set(of))
        if number % 7 == 0:
            lake.table = lake.opened()


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["lost", "cut", "another", "bit"])
def test_a_damaged_vector_is_an_error(lake: Lake, damage: str) -> None:
    first = lake.written(1, 2, 3)
    lake.commit(1, [first], {}, ())
    lake.commit(2, [], {first.path: [0, 1]}, ())
    (path,) = (lake.place / "data").glob("*-deletes.puffin")
    content = path.read_bytes()
    damages: dict[str, Any] = {
        "lost": path.unlink,
        "cut": lambda: path.write_bytes(content[:9]),
        "another": lambda: path.write_bytes((lake.place / "data" / first.path).read_bytes()),
        "bit": lambda: path.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:]),
    }
    damages[damage]()
    deleted = lake.opened().files[first.path].deleted
    assert deleted is not None
    with pytest.raises(LakeError, match="a deletion vector is damaged"):
        deleted.positions()
