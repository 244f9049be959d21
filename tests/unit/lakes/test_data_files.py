"""Footers of files: their bounds are those of the values."""

from __future__ import annotations

import uuid
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from headwater.lakes import data_files
from headwater.lakes.data_files import write_batches, write_data_file

VALUES = {
    "i": pa.array([3, None, 1], pa.int16()),
    "nested": pa.array([{"x": 1, "y": [1, 2]}, None, {"x": 2, "y": None}]),
    "d": pa.array([date(2000, 1, 1), None, date(1, 1, 1)]),
    "at": pa.array([datetime(2020, 1, 1, 1, 2, 3, 4), None, datetime(1800, 1, 1)], pa.timestamp("us", "UTC")),
    "list": pa.array([["z"], None, []]),
    "n": pa.array([Decimal("1.25"), Decimal("-3.50"), None], pa.decimal128(10, 2)),
    "wide": pa.array([Decimal("12345678901234567890123.5"), Decimal("-3.5"), None], pa.decimal128(38, 1)),
    "b": pa.array([True, None, False]),
    "t": pa.array([time(1, 2, 3, 4), None, time(0)], pa.time64("us")),
    "f": pa.array([1.5, None, -0.5]),
    "s": pa.array(["é\U0001f600", "é\uffff", "ab"]),
}


def test_bounds_are_those_of_the_values(tmp_path: Path) -> None:
    rows = pa.table(VALUES)
    file = write_data_file(rows, str(tmp_path), "x.parquet")
    simple = [name for name in VALUES if name not in ("nested", "list")]
    extremes = {name: pc.min_max(rows[name]) for name in simple}
    assert file.lower == {name: bounds["min"].as_py() for name, bounds in extremes.items()}
    assert file.upper == {name: bounds["max"].as_py() for name, bounds in extremes.items()}
    assert file.nulls == {name: rows[name].null_count for name in simple}
    assert (file.rows, file.size) == (3, (tmp_path / "x.parquet").stat().st_size)


def test_bounds_of_uuids(tmp_path: Path) -> None:
    values = [uuid.UUID(int=number) for number in (5, 2, 1 << 127)]
    rows = pa.table({"u": pa.array([value.bytes for value in values], pa.uuid())})
    file = write_data_file(rows, str(tmp_path), "x.parquet")
    assert (file.lower["u"], file.upper["u"]) == (min(values), max(values))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.0, float("nan")]),
        pa.array([None, None], pa.int32()),
        pa.array(["x" * 300, "a"]),
        pa.array(["x" * 5000, "a"]),
        pa.array([1, 5_000_000], pa.int32()).cast(pa.date32()),
        pa.array([1, 1 << 62]).cast(pa.timestamp("us")),
        pa.array([b"a", b"b"]),
    ],
)
def test_columns_without_bounds(tmp_path: Path, values: pa.Array[Any]) -> None:
    file = write_data_file(pa.table({"x": values, "y": [1, 2]}), str(tmp_path), "x.parquet")
    assert (file.lower, file.upper) == ({"y": 1}, {"y": 2})


def test_several_groups_of_rows(tmp_path: Path) -> None:
    count = (1 << 20) + 5
    numbers = pa.array(range(count)).take(pa.array(range(count - 1, -1, -1)))
    late = pc.if_else(pc.less(numbers, pa.scalar(3)), numbers, None)
    file = write_data_file(pa.table({"n": numbers, "late": late}), str(tmp_path), "x.parquet")
    assert (file.lower, file.upper) == ({"n": 0, "late": 0}, {"n": count - 1, "late": 2})
    assert file.nulls == {"n": 0, "late": count - 3}


@pytest.mark.parametrize(("limit", "groups"), [(1 << 20, 1), (1, 3)])
def test_small_batches_share_groups_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, groups: int
) -> None:
    monkeypatch.setattr(data_files, "_ROW_GROUP_BYTES", limit)
    columns: dict[str, pa.DataType] = {"n": pa.int64(), "name": pa.string()}
    schema = pa.schema(columns)
    names: list[list[str | None]] = [["a", "b", "a"], ["b", "c", "b"], ["c", None, "d"]]
    batches = [
        pa.table({"n": [3 * place, 3 * place + 1, 3 * place + 2], "name": pa.array(own).dictionary_encode()})
        for place, own in enumerate(names)
    ]
    file = write_batches(iter(batches), schema, str(tmp_path), "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet").to_pydict() == {"n": list(range(9)), "name": list(chain(*names))}
    assert pq.read_metadata(tmp_path / "x.parquet").num_row_groups == groups
    assert (file.rows, file.lower, file.upper) == (9, {"n": 0, "name": "a"}, {"n": 8, "name": "d"})
    assert file.nulls == {"n": 0, "name": 1}
