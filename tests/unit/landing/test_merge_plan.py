"""Groups of a mirror's files: each change is in one, and so is each file that it may concern."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.lakes.data_files import write_data_file
from headwater.lakes.delta_table import DeltaLakeTable
from headwater.lakes.file_bounds import read_bounds, written_bounds
from headwater.lakes.lake_table import DataFile, Landed
from headwater.landing.mirrors import merge_plan
from headwater.landing.mirrors.merge_plan import groups
from headwater.landing.mirrors.merge_task import FILE_BYTES

BIG, SMALL = FILE_BYTES, 1
INTERVALS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9), st.sampled_from([BIG, SMALL])), max_size=6)


def _files(intervals: list[tuple[int, int, int]]) -> dict[str, DataFile]:
    return {
        str(number): DataFile(str(number), 10, size, {"id": low}, {"id": low + length}, {"id": 0})
        for number, (low, length, size) in enumerate(intervals)
    }


@given(INTERVALS, st.lists(st.integers(-5, 65)), st.booleans())
def test_each_change_meets_the_files_that_it_may_concern(
    intervals: list[tuple[int, int, int]], values: list[int], touches_all: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_plan, "GROUP_BYTES", 2 * BIG)
        patch.setattr(merge_plan, "GROUP_VALUES", 3)
        files = _files(intervals)
        all_groups = groups(files, "id", pa.chunked_array([values], pa.int64()), touches_all=touches_all)
    for value in values:
        own = [candidate for candidate in all_groups if _is_in(value, candidate.above, candidate.upto)]
        assert len(own) == 1
        concerned = {path for path, file in files.items() if file.lower["id"] <= value <= file.upper["id"]}
        assert concerned <= {file.path for file in own[0].files}
    paths = [file.path for group in all_groups for file in group.files]
    assert len(paths) == len(set(paths))
    assert not touches_all or set(paths) == set(files)


def _is_in(value: int, above: pa.Scalar[Any] | None, upto: pa.Scalar[Any] | None) -> bool:
    return (above is None or value > above.as_py()) and (upto is None or value <= upto.as_py())


@pytest.mark.parametrize("lacking", ["lower", "upper"])
def test_a_file_without_one_of_its_bounds_may_be_concerned(lacking: str) -> None:
    files = _files([(0, 5, BIG), (10, 5, BIG)])
    del getattr(files["1"], lacking)["id"]
    (group,) = groups(files, "id", pa.chunked_array([[1]], pa.int64()), touches_all=False)
    assert [file.path for file in group.files] == ["0", "1"]


def test_the_end_of_time_has_no_upper_bound_in_delta(tmp_path: Path) -> None:
    end = datetime.datetime(9999, 12, 31, 23, 59, 59, 999500, datetime.UTC)
    rows = pa.table({"until": pa.array([end], pa.timestamp("us", tz="UTC"))})
    with DeltaLakeTable(tmp_path, "1/5", "public.t") as table:
        file = write_data_file(rows, table.staging, "x.parquet")
        table.commit([file], Landed(1, rows.schema, "1/5"))
    with DeltaLakeTable(tmp_path, "1/5", "public.t") as table:
        (group,) = groups(table.files, "until", rows["until"], touches_all=False)
    assert [concerned.path for concerned in group.files] == ["x.parquet"]


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ([uuid.UUID(int=2), uuid.UUID(int=1 << 127)], pa.uuid()),
        ([Decimal("1.50"), Decimal("20.25")], pa.decimal128(6, 2)),
        (["a", "b"], pa.string()),
        ([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)], pa.date32()),
        ([datetime.datetime(2024, 1, 1, 2, 3, 4, 5, datetime.UTC)] * 2, pa.timestamp("us", tz="UTC")),
        ([datetime.time(1, 2, 3), datetime.time(2)], pa.time64("us")),
        ([-1.5, 2.0], pa.float64()),
        ([False, True], pa.bool_()),
    ],
)
def test_bounds_are_kept_with_their_types(tmp_path: Path, values: list[Any], type: pa.DataType) -> None:
    rows = pa.table({"id": pa.array([None, *reversed(values)], type)})
    file = write_data_file(rows, str(tmp_path), "x.parquet")
    lower, upper = file.lower, file.upper
    assert (lower, upper, file.nulls) == ({"id": values[0]}, {"id": values[1]}, {"id": 1})
    assert (read_bounds(written_bounds(lower)), read_bounds(written_bounds(upper))) == (lower, upper)
