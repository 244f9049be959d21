"""Values in files: what is stored comes back, arrays of any kind and layout included."""

from __future__ import annotations

import threading
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from headwater.pipeline.scratch import store
from headwater.temporary_directories import remove_directory

KINDS = st.sampled_from([np.int64, np.int32, np.uint8, np.bool_])


@settings(max_examples=25, deadline=None)
@given(st.lists(KINDS.flatmap(lambda kind: arrays.arrays(kind, arrays.array_shapes(max_dims=2, min_side=0)))))
def test_arrays_come_back(tmp_path_factory, values) -> None:
    path = tmp_path_factory.mktemp("scratch") / "value"
    found = store({"arrays": values, "name": "x" * 100}, str(path)).load()
    assert found["name"] == "x" * 100
    assert [(v.dtype, v.shape, v.tolist()) for v in values] == [(f.dtype, f.shape, f.tolist()) for f in found["arrays"]]


def test_arrays_outlive_their_file(tmp_path) -> None:
    stored = store(np.arange(100_000)[::2], str(tmp_path / "value"))
    found = stored.take()
    assert list(tmp_path.iterdir()) == []
    found[0] = 7
    assert found[[0, 1, -1]].tolist() == [7, 2, 99_998]


def test_nothing_is_left_of_a_value_that_does_not_pickle(tmp_path) -> None:
    with pytest.raises((AttributeError, TypeError)):
        store(lambda: None, str(tmp_path / "value"))
    assert list(tmp_path.iterdir()) == []


def test_a_directory_goes_though_files_still_come(tmp_path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def write() -> None:
        for number in range(200):
            with suppress(OSError):
                (scratch / str(number)).touch()

    writer = threading.Thread(target=write)
    writer.start()
    remove_directory(scratch)
    writer.join()
    assert not scratch.exists()
