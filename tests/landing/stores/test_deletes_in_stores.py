"""Rows that are deleted beside files of a store: vectors, checkpoints of the log, and the index of keys."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from arrow_types import values_of
from headwater.errors import LakeConflictError
from headwater.lakes import delta_table
from headwater.lakes.data_files import write_data_file
from headwater.lakes.deletes import deletion_vectors
from headwater.lakes.delta_table import DeltaFormat, DeltaLakeTable
from headwater.lakes.lake_table import Landed, file_name
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.stores import near_indexes
from headwater.lakes.stores.near_indexes import directory_of_indexes
from landing.stores.server import LakeStore
from landing.stores.targets import place, read

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(600)]

SCHEMA = pa.schema([("id", pa.int64())])


def ids(where: LandingTarget) -> list[int]:
    rows = read(where, "public.t")
    assert rows is not None
    return sorted(values_of(rows["id"]))


def test_vectors_and_checkpoints(store: LakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_vectors, "INLINE_BYTES", 0)
    monkeypatch.setattr(delta_table, "CHECKPOINT_EVERY", 3)
    target = LandingTarget(place(store, "vectors"), "delta")
    where = target.where / "public.t"
    table, other = (DeltaLakeTable(where, "1/2", "t", deletes_beside=True) for _ in range(2))
    file = write_data_file(pa.table({"id": range(100)}, schema=SCHEMA), table.staging, file_name(1))
    table.commit([file], Landed(1, SCHEMA, "1/2"))
    with pytest.raises(LakeConflictError, match="committed meanwhile"):
        other.commit([file], Landed(2, SCHEMA, "1/2"))
    for number in range(2, 9):
        table.commit_deleting([], Landed(number, SCHEMA, "1/2"), [], {file.path: np.array([number])})
    assert ids(target) == [0, 1, *range(9, 100)]
    again = DeltaLakeTable(where, "1/2", "t", deletes_beside=True)
    assert again.files == table.files
    assert any(".checkpoint." in key for key in store.keys("vectors"))
    assert vectors(store) == 7
    for older_than, left in ((-1, 7), (1, 1)):
        at = datetime.now(UTC) + timedelta(hours=older_than)
        DeltaFormat(deletes_beside=True).expire(where, "public.t", (), at)
        assert vectors(store) == left
    assert ids(target) == [0, 1, *range(9, 100)]


def vectors(store: LakeStore) -> int:
    return sum("deletion_vector_" in key for key in store.keys("vectors"))


def test_an_index_is_of_one_run(store: LakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_indexes, "lake_cache", lambda: tmp_path / "cache")
    where, otherwise = place(store, "indexed"), tmp_path / "near"
    with ExitStack() as first, ExitStack() as second:
        near = directory_of_indexes(where, otherwise, first)
        assert near.is_relative_to(tmp_path / "cache")
        assert directory_of_indexes(where, otherwise, second) == otherwise / "keys"
        assert directory_of_indexes(place(store, "indexed", "http://elsewhere"), otherwise, second) != near
    with ExitStack() as third:
        assert directory_of_indexes(where, otherwise, third) == near
