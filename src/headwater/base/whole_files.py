"""Files that are whole or not there: written under another name, synced, renamed or linked, their directory synced.

What takes a file's place so is the file that was there, or the new one, even after a loss of power. Who writes must be
alone (:mod:`headwater.base.locks`): the other name, ``NAME.part``, is the same for all. What a killed process left
under it is written over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def write_whole(path: Path, pieces: Iterable[bytes], mode: int = 0o666, *, is_lasting: bool = True) -> int:
    """Write a file that takes the place of what is there, if anything is.

    Args:
        path: the file.
        pieces: its bytes.
        mode: who may read and write it, but for the umask.
        is_lasting: it is synced; others, as of caches, may be lost or empty after a loss of power.

    Returns:
        its size in bytes.

    Raises:
        OSError: it cannot be written; what was there is there still.
    """
    with _part(path.with_name(f"{path.name}.part")) as part:
        size = _write(part, os.O_TRUNC, mode, pieces, is_lasting)
        if is_lasting:
            move_whole(part, path)
        else:
            os.replace(part, path)
    return size


def write_if_absent(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file, unless something has its name; of several processes only one writes it.

    Args:
        path: the file.
        pieces: its bytes.

    Raises:
        FileExistsError: something has the name.
        OSError: it cannot be written.
    """
    with _part(path.with_name(f"{path.name}.{os.getpid()}.part")) as part:
        _write(part, os.O_EXCL, 0o666, pieces, is_lasting=True)
        os.link(part, path)
        sync_directory(path.parent)


@contextmanager
def _part(path: Path) -> Iterator[Path]:
    """Give the name to write under; nothing has it afterwards."""
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _write(path: Path, flag: int, mode: int, pieces: Iterable[bytes], is_lasting: bool) -> int:
    with open(os.open(path, _CREATE | flag, mode), "wb") as file:
        size = sum(map(file.write, pieces))
        if is_lasting:
            sync_file(file)
    return size


def move_whole(part: Path, path: Path) -> None:
    """Give a file, or a directory, its place; what is in it is synced (:func:`sync_tree`).

    Raises:
        OSError: it cannot be moved.
    """
    os.replace(part, path)
    sync_directory(path.parent)


def sync_file(file: IO[Any]) -> None:
    """Make what was written into an open file last.

    Raises:
        OSError: it cannot be synced, as the disk is full, or for another reason.
    """
    file.flush()
    os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Make the names in a directory last: files that were made, renamed or removed.

    Raises:
        OSError: it cannot be synced.
    """
    _sync(directory)


def sync_tree(path: Path) -> None:
    """Make a file last, or a directory and all that is in it.

    Raises:
        OSError: it cannot be synced.
    """
    for inside in path.iterdir() if path.is_dir() else ():
        sync_tree(inside)
    _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
