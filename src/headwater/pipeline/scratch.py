"""Values that driver and tasks hand each other as files of the scratch directory.

An index or a slice can hold tens of megabytes of flat arrays; as a file it is written once and mapped by its reader,
while through Spark it would be copied by the JVM on its way. A file appears under its name only when it is whole.

The file: the lengths of the pickle and of its arrays' buffers, then these, each from a multiple of 64 bytes on.
"""

from __future__ import annotations

import mmap
import os
import pickle
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from headwater.errors import HeadwaterError

T = TypeVar("T")

_ALIGNED = 64
_ATTEMPTS, _PAUSE_SECONDS = 20, 0.05


@dataclass(frozen=True)
class Stored(Generic[T]):
    """A value in a file; pickles as its name.

    Attributes:
        path: the file.
    """

    path: str

    def load(self) -> T:
        """The value; its arrays are the file, mapped, and stay so when the file is removed."""
        with open(self.path, "rb") as source:
            mapped = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_COPY)
        count = int(np.frombuffer(mapped, np.int64, 1)[0])
        lengths = np.frombuffer(mapped, np.int64, count, 8)
        parts, at = [], _padded(8 + 8 * count)
        for length in lengths.tolist():
            parts.append(memoryview(mapped)[at : at + length])
            at += _padded(length)
        value: T = pickle.loads(parts[0], buffers=parts[1:])
        return value

    def take(self) -> T:
        """The value, whose file is removed."""
        value = self.load()
        os.unlink(self.path)
        return value


def store(value: T, path: str) -> Stored[T]:
    """Write a value.

    Args:
        value: must pickle.
        path: the file.

    Returns:
        what to hand over.

    Raises:
        HeadwaterError: it cannot be written, as the disk is full, or for another reason.
    """
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    part = f"{path}.part"
    try:
        with open(part, "wb") as sink:
            _write(sink, [memoryview(pickled), *(buffer.raw() for buffer in buffers)])
        os.replace(part, path)
    except OSError as error:
        raise HeadwaterError(f"could not write output: {error.strerror or error}", file=part) from None
    return Stored(path)


def _write(sink: BufferedIOBase, parts: Sequence[memoryview]) -> None:
    header = np.array([len(parts), *(part.nbytes for part in parts)], np.int64)
    for part in (header.data, *parts):
        sink.write(part)
        sink.write(bytes(_padded(part.nbytes) - part.nbytes))


def _padded(length: int) -> int:
    return -(-length // _ALIGNED) * _ALIGNED


def remove_directory(path: Path) -> None:
    """Remove a scratch directory, even while a task that was cancelled writes its last file into it."""
    for _ in range(_ATTEMPTS):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(_PAUSE_SECONDS)
