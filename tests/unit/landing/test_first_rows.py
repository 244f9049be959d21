"""First rows of a mirror: each is of one group, whose files have it; groups do not grow with the table."""

from __future__ import annotations

import random
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.lakes.data_files import write_data_file
from headwater.lakes.file_bounds import comparable
from headwater.landing.mirrors import first_rows
from headwater.landing.mirrors.first_rows import first_groups
from headwater.landing.mirrors.landed_files import Written
from headwater.landing.mirrors.staged_changes import in_range, staged_rows

ROWS, FILES, MOST_KEYS, GROUP = 4000, 16, 256, 300
KEYS: dict[str, tuple[pa.DataType, Any]] = {
    "numbers": (pa.int64(), lambda number: number * 3),
    "texts": (pa.string(), lambda number: f"{number:08}"),
    "uuids": (pa.uuid(), lambda number: uuid.UUID(int=number << 64)),
}


def _staged(place: Path, values: list[Any], type: pa.DataType) -> list[Written]:
    """Write rows into files of about as many."""
    step = -(-len(values) // FILES)
    parts = [values[start : start + step] for start in range(0, len(values), step)]
    files = [
        write_data_file(pa.table({"id": pa.array(part, type)}), str(place), f"{number}.parquet")
        for number, part in enumerate(parts)
    ]
    return [Written(0, file, 1, was_there=True) for file in files]


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("is_in_order", [True, False])
def test_each_row_is_of_one_group(
    tmp_path: Path, kind: str, is_in_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_rows, "MOST_KEYS", MOST_KEYS)
    monkeypatch.setattr(first_rows, "GROUP_VALUES", GROUP)
    type, value = KEYS[kind]
    numbers = list(range(ROWS))
    if not is_in_order:
        random.Random(1).shuffle(numbers)
    files = _staged(tmp_path, [value(number) for number in numbers], type)
    counts, read = [], 0
    for group, own in first_groups(files, str(tmp_path), pa.field("id", type)):
        keys = staged_rows([f"{tmp_path}/{file.file.path}" for file in own], ["id"])["id"]
        counts.append(int(in_range(keys, group.above, group.upto).sum()))
        read += len(own)
    assert sum(counts) == ROWS, "a row of a group is in none of its files, or is of two groups"
    assert max(counts) < 2 * GROUP
    assert read < (2 * len(counts) + FILES if is_in_order else FILES * len(counts) + 1)


@pytest.mark.parametrize("key", [None, pa.field("id", pa.float64()), pa.field("id", pa.list_(pa.int64()))])
def test_rows_without_an_order_go_file_by_file(
    tmp_path: Path, key: pa.Field[Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _staged(tmp_path, list(range(ROWS)), pa.int64())
    monkeypatch.setattr(first_rows, "GROUP_BYTES", 3 * files[0].file.size)
    grouped = list(first_groups(files, str(tmp_path), key))
    assert [file for _, own in grouped for file in own] == files
    assert all(group.above is group.upto is None for group, _ in grouped)
    assert max(len(own) for _, own in grouped) <= 4 < len(grouped)


def test_a_key_that_is_null_everywhere_is_of_a_group(tmp_path: Path) -> None:
    files = _staged(tmp_path, [None] * 20, pa.int64())
    ((group, own),) = first_groups(files, str(tmp_path), pa.field("id", pa.int64()))
    keys = staged_rows([f"{tmp_path}/{file.file.path}" for file in own], ["id"])["id"]
    assert in_range(comparable(keys), group.above, group.upto).sum() == 20
