"""Values in files: what is stored comes back, arrays of any kind and layout included."""

from __future__ import annotations

import os
import pwd
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from headwater.errors import HeadwaterError, UntrustedPathError
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


class Mark:
    """Leaves a file when it is loaded, as a planted pickle could do anything."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")


def _second_name(path: Path) -> None:
    os.link(path, path.with_name("second"))


def _writable(path: Path) -> None:
    path.chmod(0o666)


def _given_away(path: Path) -> None:
    os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)


# Only root can give files away.
PLANTED = [_second_name, _writable, *([_given_away] if os.geteuid() == 0 else [])]


@pytest.mark.parametrize("plant", PLANTED)
def test_what_another_user_could_have_written_is_not_loaded(tmp_path, plant) -> None:
    mark = tmp_path / "mark"
    stored = store(Mark(str(mark)), str(tmp_path / "value"))
    plant(tmp_path / "value")
    with pytest.raises(UntrustedPathError):
        stored.load()
    assert not mark.exists()


def test_a_planted_link_is_not_written_through(tmp_path) -> None:
    (tmp_path / "value.part").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HeadwaterError, match="could not write output"):
        store(1, str(tmp_path / "value"))
    assert not (tmp_path / "elsewhere").exists()


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
