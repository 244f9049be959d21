"""Values in files: what is stored comes back, what is planted is not run, and nothing is left of a failure."""

from __future__ import annotations

import os
import pickle
import pwd
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from headwater.base.temporary_directories import remove_directory
from headwater.errors import FlatValueError, HeadwaterError
from headwater.jobs.value_files import load_value, new_file, store_value


@dataclass(frozen=True)
class Value:
    """Something of arrays."""

    name: str
    arrays: tuple[NDArray[np.int64], ...]


def store(value: Value, path: Path, mode: int = 0o600) -> None:
    with new_file(str(path), mode) as sink:
        store_value(sink, value)


@settings(max_examples=25, deadline=None)
@given(st.lists(arrays.arrays(np.int64, arrays.array_shapes(max_dims=2, min_side=0))))
def test_arrays_come_back(tmp_path_factory: pytest.TempPathFactory, values: list[NDArray[np.int64]]) -> None:
    path = tmp_path_factory.mktemp("scratch") / "value"
    store(Value("x" * 100, tuple(values)), path)
    loaded = load_value(str(path), Value)
    assert loaded.name == "x" * 100
    assert [v.tolist() for v in values] == [f.tolist() for f in loaded.arrays]


def test_arrays_outlive_their_file(tmp_path: Path) -> None:
    store(Value("", (np.arange(100_000)[::2],)), tmp_path / "value")
    (loaded,) = load_value(str(tmp_path / "value"), Value).arrays
    (tmp_path / "value").unlink()
    loaded[0] = 7
    assert loaded[[0, 1, -1]].tolist() == [7, 2, 99_998]


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_who_may_read_does_not_depend_on_the_umask(tmp_path: Path, mode: int) -> None:
    for number, umask in enumerate((0, 0o077)):
        before = os.umask(umask)
        try:
            store(Value("", ()), tmp_path / str(number), mode)
        finally:
            os.umask(before)
        assert (tmp_path / str(number)).stat().st_mode & 0o777 == mode


class Mark:
    """An object that leaves a file when it is loaded, as a planted pickle could do anything."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")


@pytest.mark.parametrize("planted", ["pickle", "nothing", "a directory", "a pipe", "a link"])
def test_what_is_planted_is_not_run(tmp_path: Path, planted: str) -> None:
    mark, path = tmp_path / "mark", tmp_path / "value"
    if planted == "pickle":
        path.write_bytes(pickle.dumps(Mark(str(mark))))
    elif planted == "nothing":
        path.touch()
    elif planted == "a directory":
        path.mkdir()
    elif planted == "a pipe":
        os.mkfifo(path)
    else:
        store(Value("", ()), tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises((FlatValueError, OSError), match=r"value|symbolic links"):
        load_value(str(path), Value)
    assert not mark.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_data_of_another_user_is_data(tmp_path: Path) -> None:
    store(Value("theirs", ()), tmp_path / "value", 0o666)
    os.chown(tmp_path / "value", pwd.getpwnam("nobody").pw_uid, -1)
    assert load_value(str(tmp_path / "value"), Value).name == "theirs"


@pytest.mark.parametrize("name", ["value.part", "value"])
def test_a_planted_link_is_not_written_through(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with suppress(HeadwaterError):
        store(Value("", ()), tmp_path / "value")
    assert not (tmp_path / "elsewhere").exists()


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    with pytest.raises(TypeError), new_file(str(tmp_path / "value")) as sink:
        store_value(sink, lambda: None, object)
    with pytest.raises(OSError, match="WAL"), new_file(str(tmp_path / "value")):
        raise OSError("WAL that cannot be read is not output that cannot be written")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(HeadwaterError, match="could not write output: No such file or directory"):
        store(Value("", ()), tmp_path / "nowhere" / "value")


def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(HeadwaterError, match="No space left on device"):
        store_value(full, Value("x", (np.arange(1000),)))


def test_a_directory_goes_though_files_still_come(tmp_path: Path) -> None:
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
