"""Files that driver and tasks hand each other, and the values in them.

An index or a slice can hold tens of megabytes of flat arrays; as a file it is written once and mapped by its reader. A
file appears under its name only when it is whole, and none is written over. What it holds is data that is read as the
type that is expected (:mod:`headwater.base.value_codec`): reading it runs nothing, whoever wrote it.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from headwater.base.trusted_paths import check_private
from headwater.base.value_codec import read_value, write_value
from headwater.errors import FlatValueError, HeadwaterError
from headwater.option_names import option, ways

T = TypeVar("T")

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
KEEPS_MODES = ways(
    f"choose a directory with {option('scratch')} whose file system keeps owners and modes",
    "set TMPDIR to one whose file system keeps owners and modes",
)
"""What to do about a directory for values that others may enter."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def check_directory(directory: Path) -> None:
    """Check that nobody else can enter a directory that was just made for values.

    Raises:
        UntrustedPathError: others can, as where the file system keeps no modes.
    """
    check_private(directory, KEEPS_MODES)


@contextmanager
def new_file(path: str, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Open a file that has its name after the ``with`` block, or is gone if that raises.

    Args:
        path: the file.
        mode: who may read and write it, whatever the umask.

    Raises:
        HeadwaterError: it cannot be made or completed, as the disk is full, or for another reason.
    """
    part = f"{path}.part"
    with writing(part):
        sink = open(part, "wb", opener=lambda name, _: os.open(name, _CREATE, mode))  # noqa: SIM115
    try:
        with writing(part):
            os.fchmod(sink.fileno(), mode)
        yield sink
        with writing(part):
            sink.close()
            os.rename(part, path)
    except BaseException:
        with suppress(OSError):
            sink.close()
        with suppress(OSError):
            os.unlink(part)
        raise


@contextmanager
def writing(file: object) -> Iterator[None]:
    """Raise what the system reports inside as an error of output.

    Args:
        file: its path; anything else means one without a name.

    Raises:
        HeadwaterError: it could not be written.
    """
    try:
        yield
    except OSError as error:
        message = os.strerror(error.errno) if error.errno else str(error)
        path = file if isinstance(file, str) else None
        raise HeadwaterError(f"could not write output: {message}", file=path) from None


def store_value(sink: BinaryIO, value: object, kind: Any = None) -> None:
    """Write a value into an open file.

    Args:
        sink: the file.
        value: what :mod:`headwater.base.value_codec` can write.
        kind: its type, None for its class.

    Raises:
        HeadwaterError: it cannot be written, as the disk is full, or for another reason.
    """
    with writing(sink.name):
        write_value(sink, value, kind)


def load_value(path: str, kind: type[T]) -> T:
    """Return the value in a file; its arrays are the file, mapped, and stay so when the file is removed.

    Args:
        path: the file; whoever wrote it.
        kind: the type that is expected.

    Raises:
        OSError: it cannot be read.
        FlatValueError: it holds no such value.
    """
    descriptor = os.open(path, _READ)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            raise FlatValueError("no regular file, or an empty one, expected one with a value", file=path)
        mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
    finally:
        os.close(descriptor)
    try:
        return read_value(kind, memoryview(mapped))
    except FlatValueError as error:
        error.file = error.file or path
        raise
