"""Rows of Iceberg's files that are deleted beside them are gone for pyiceberg's readers, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFileContent, ManifestContent

from headwater.errors import LakeConflictError, LakeError
from headwater.lakes.deletes.iceberg_snapshots import ChangedFiles
from headwater.lakes.deletes.position_deletes import PATH_ID
from headwater.lakes.iceberg_table import COMMIT_LSN
from headwater.lakes.iceberg_table import SOURCE as SOURCE_PROPERTY
from landing.iceberg_lakes import NAME, SCHEMA, SOURCE, Lake, delete_elsewhere, noted


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(tmp_path)
    yield lake
    lake.format.close()


def test_rows_are_deleted_and_deleted_again(lake: Lake) -> None:
    """A file has one delete file, with all that is deleted of it; it goes when the file goes."""
    first, second = lake.written(1, 2, 3, 4), lake.written(5, 6)
    lake.commit(1, [first, second], {}, ())
    third = lake.written(7)
    lake.commit(2, [third], {first.path: [1], second.path: [0]}, ())
    lake.require([1, 3, 4, 6, 7])
    lake.commit(3, [], {first.path: [0, 3]}, ())
    lake.require([3, 6, 7])
    deletes = lake.entries(ManifestContent.DELETES)
    assert sorted((entry.sequence_number, entry.data_file.record_count) for entry in deletes) == [(2, 1), (3, 3)]
    assert sorted(entry.sequence_number or 0 for entry in lake.entries(ManifestContent.DATA)) == [1, 1, 2]
    lake.commit(4, [lake.written(30)], {}, (first.path,))
    lake.require([6, 7, 30])
    (left,) = lake.entries(ManifestContent.DELETES)
    assert (left.sequence_number, left.data_file.lower_bounds[PATH_ID].decode()) == (2, lake.table.locate(second.path))
    summary = lake.theirs.current_snapshot().summary  # type: ignore[union-attr]  # there is one
    totals: dict[str, str] = summary.additional_properties  # type: ignore[union-attr]
    assert [totals[f"total-{what}"] for what in ("records", "delete-files", "position-deletes")] == ["4", "1", "1"]


def test_manifests_stay_few(lake: Lake) -> None:
    """And their entries have the sequence numbers that they began with."""
    began: dict[str, int] = {}
    for number in range(1, 17):
        file = lake.written(2 * number, 2 * number + 1)
        known = [path for path, there in lake.table.files.items() if there.left == there.rows]
        lake.commit(number, [file], {known[number % len(known)]: [0]} if known else {}, ())
        began[file.path] = number
    lake.require(lake.ids)
    assert len(lake.ids) == 32 - 15
    snapshot = lake.theirs.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(lake.theirs.io)) <= 6
    for entry in lake.entries(ManifestContent.DATA):
        assert entry.sequence_number == began[Path(entry.data_file.file_path).name]


def test_a_commit_writes_what_it_changes(lake: Lake) -> None:
    """However many rows there are: of each file what is deleted of it, and nothing of its rows."""
    sizes = {}
    for number, rows in enumerate((10_000, 1_000_000)):
        file = lake.written(*range(rows))
        lake.commit(2 * number + 1, [file], {}, ())
        before = set(lake.place.rglob("*.*"))
        lake.commit(2 * number + 2, [lake.written(rows)], {file.path: [*range(0, rows, rows // 100)]}, ())
        sizes[rows] = sum(path.stat().st_size for path in set(lake.place.rglob("*.*")) - before)
    assert max(sizes.values()) < 40_000, sizes


def test_another_program_has_deleted_rows_of_two_files_in_one(lake: Lake) -> None:
    """What it names, and we do, is deleted once; its file stays, ours go with their files."""
    files = [lake.written(1, 2, 3), lake.written(4, 5), lake.written(6)]
    lake.commit(1, files, {}, ())
    path = delete_elsewhere(lake, {files[0].path: [0, 2], files[1].path: [1]})
    lake.table = lake.opened()
    lake.require([2, 4, 6])
    lake.written(9)  # as a window does: the table is looked at anew
    lake.commit(2, [], {files[0].path: [1]}, ())
    lake.require([4, 6])
    lake.commit(3, [lake.written(40)], {}, (files[0].path, files[1].path))
    lake.require([6, 40])
    assert [entry.data_file.file_path for entry in lake.entries(ManifestContent.DELETES)] == [path]


def test_somebody_else_writes_while_a_window_lands(lake: Lake) -> None:
    """The commit is refused, and nothing of it is there; its files expire."""
    first = lake.written(1, 2)
    lake.commit(1, [first], {}, ())
    more = lake.written(3)
    lake.theirs.append(pa.table([[8]], schema=SCHEMA))
    with pytest.raises(LakeConflictError, match="refused"):
        lake.commit(2, [more], {first.path: [0]}, ())
    lake.table = lake.opened()
    lake.require([1, 2, 8])
    assert lake.table.landed.commit_lsn == 1
    lake.commit(2, [], {first.path: [0]}, ())
    lake.require([2, 8])
    later = datetime.now(UTC) + timedelta(minutes=1)
    lake.format.expire(lake.place, NAME, (), later)
    lake.require([2, 8])
    assert len(list((lake.place / "data").iterdir())) == 3


def test_a_table_that_was_rolled_back_goes_on_from_there(lake: Lake) -> None:
    """Rows that were deleted since are there again, and can be deleted otherwise."""
    first = lake.written(1, 2, 3)
    lake.commit(1, [first], {}, ())
    lake.commit(2, [lake.written(4)], {first.path: [0]}, ())
    then = lake.table.version
    lake.commit(3, [lake.written(5)], {first.path: [1]}, ())
    lake.theirs.manage_snapshots().rollback_to_snapshot(then).commit()
    with pytest.raises(LakeConflictError, match="has come to"):
        lake.written(6)
    lake.table = lake.opened()
    assert lake.table.landed.commit_lsn == 2
    lake.require([2, 3, 4])
    lake.commit(3, [lake.written(6)], {first.path: [2]}, ())
    lake.require([2, 4, 6])


def test_equality_deletes_of_another_program_are_an_error(lake: Lake) -> None:
    first = lake.written(1, 2, 3)
    lake.commit(1, [first], {}, ())
    (task,) = lake.theirs.scan().plan_files()
    transaction = lake.theirs.transaction()
    with ChangedFiles(transaction, {}) as snapshot:
        snapshot.append_data_file(noted(task.file, task.file.file_path, 1, DataFileContent.EQUALITY_DELETES))
    transaction.commit_transaction()
    with pytest.raises(LakeError, match="equality deletes"):
        assert not lake.opened().files


@pytest.mark.parametrize("damage", ["lost", "cut", "another"])
def test_a_damaged_delete_file_is_an_error(lake: Lake, damage: str) -> None:
    first = lake.written(1, 2, 3)
    lake.commit(1, [first], {}, ())
    lake.commit(2, [], {first.path: [0, 1]}, ())
    (path,) = (lake.place / "data").glob("*-deletes.parquet")
    damages: dict[str, Any] = {
        "lost": path.unlink,
        "cut": lambda: path.write_bytes(path.read_bytes()[:-9]),
        "another": lambda: path.write_bytes((lake.place / "data" / first.path).read_bytes()),
    }
    damages[damage]()
    deleted = lake.opened().files[first.path].deleted
    assert deleted is not None
    with pytest.raises(LakeError, match="a delete file is damaged"):
        deleted.positions()


def test_a_table_of_another_format_is_refused(lake: Lake) -> None:
    properties = {"format-version": "1", SOURCE_PROPERTY: SOURCE, COMMIT_LSN: "0/1"}
    lake.format.catalog.create_table(("public", "t"), SCHEMA, location=str(lake.place), properties=properties)
    with pytest.raises(LakeError, match="a table of format 1"):
        lake.opened()
