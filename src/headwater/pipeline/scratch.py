"""Values that driver and tasks hand each other as files of the scratch directory.

An index or a slice can hold tens of megabytes of flat arrays; as a file it is written once and mapped by its reader,
while through Spark it would be copied by the JVM on its way. A file appears under its name only when it is whole.

A value is a pickle, and loading one runs what it says: the directory is one that :class:`OwnDirectory` has made, which
only this user can enter, and a file that belongs to somebody else, or has another name as well, is not loaded. Driver
and tasks must therefore run as the same user. Files of messages are data, not pickles.

The file: the lengths of the pickle and of its arrays' buffers, then these, each from a multiple of 64 bytes on.
"""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from typing import Generic, TypeVar

import numpy as np

from headwater.errors import HeadwaterError
from headwater.trusted_paths import check_open_file

T = TypeVar("T")

_ALIGNED = 64
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW


@dataclass(frozen=True)
class Stored(Generic[T]):
    """A value in a file; pickles as its name.

    Attributes:
        path: the file.
    """

    path: str

    def load(self) -> T:
        """The value; its arrays are the file, mapped, and stay so when the file is removed.

        Raises:
            UntrustedPathError: another user may have written the file.
        """
        with open(self.path, "rb") as source:
            check_open_file(source.fileno(), self.path)
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
        with open(os.open(part, _CREATE, 0o600), "wb") as sink:
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
