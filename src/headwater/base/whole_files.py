"""Files that are whole or not there: written under another name, synced, renamed or linked, their directory synced.

A file whose place is taken is the file that was there, or the new one, even after a loss of power. The other name,
``NAME.part``, is the same for all processes, so each locks it first. What a killed process left under it is written
over. A file that must not take another's place has a name of its own until it is whole.
"""

from __future__ import annotations

import fcntl
import os
import secrets
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
    part = path.with_name(f"{path.name}.part")
    with open(_open_alone(part, mode), "wb") as file, _removed_on_failure(part):
        file.truncate()
        size = _write(file, pieces, is_lasting)
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
    # No name that a killed process can have left: its file may be the one that has the name.
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(os.open(part, _CREATE | os.O_EXCL, 0o666), "wb") as file:
            _write(file, pieces, is_lasting=True)
        os.link(part, path)
    finally:
        with suppress(OSError):
            part.unlink()
    sync_directory(path.parent)


def _open_alone(part: Path, mode: int) -> int:
    """Open the name to write under, made if it is missing, once no other process writes there.

    Returns:
        its descriptor, which holds the lock.
    """
    while True:
        descriptor = os.open(part, _CREATE, mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # The process that was waited for has renamed its file: the name is another file's now, or nobody's.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.lstat(part)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


@contextmanager
def _removed_on_failure(part: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def _write(file: IO[bytes], pieces: Iterable[bytes], is_lasting: bool) -> int:
    size = sum(map(file.write, pieces))
    if is_lasting:
        sync_file(file)
    else:
        file.flush()
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
