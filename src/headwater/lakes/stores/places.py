"""Places of files: a path of this machine, or one in a store; and what a target does with the files there.

A file is read whole, put in the place of another one, added where none is, or removed. Of a folder with few files the
names can be listed. On this machine these are the system's own calls; in a store, writes on a condition
(:mod:`headwater.lakes.stores.object_store`).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headwater.base.whole_files import sync_directory, sync_file, write_if_absent, write_whole
from headwater.errors import LakeError, UsageError
from headwater.lakes.stores.object_store import PROTOCOLS, Store
from headwater.wal.segments.remote import Options

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/*(.*)")


@dataclass(frozen=True)
class StorePath:
    """A place in a store.

    Attributes:
        store: the store; key: the name there, without a slash at its ends.
    """

    store: Store
    key: str

    def __truediv__(self, name: str) -> StorePath:
        return StorePath(self.store, f"{self.key}/{name}" if self.key else name)

    def __str__(self) -> str:
        return self.store.address(self.key)

    @property
    def name(self) -> str:
        """The last part of it."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> StorePath:
        """The folder that it is in."""
        return StorePath(self.store, self.key.rpartition("/")[0])

    def absolute(self) -> StorePath:
        """Return it: an address is whole."""
        return self


Where = Path | StorePath


NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


def place_of(address: str | os.PathLike[str] | StorePath, options: Options | Mapping[str, str] = ()) -> Where:
    """Return the place of tables that an address means: a path, or one in a store.

    Args:
        address: it, or the place itself; options: fsspec's for the store, (name, value), or by names.

    Raises:
        UsageError: it is of no store that can be written to.
    """
    if isinstance(address, StorePath):
        return address
    pairs = options.items() if isinstance(options, Mapping) else options
    text = os.fspath(address)
    match = _ADDRESS.fullmatch(text)
    if match is None or match[1].lower() == "file":
        return Path(text)
    protocol, bucket, key = match[1].lower(), match[2], match[3].strip("/")
    if protocol not in PROTOCOLS:
        raise UsageError(
            f'tables cannot be in a store of "{protocol}://"', hint="land to s3://BUCKET/FOLDER, or to a directory"
        )
    if not bucket or "@" in bucket or not key:
        raise UsageError(
            "the address of a target in a store is s3://BUCKET/FOLDER",
            hint="credentials are given by --storage-option, or as the store's library finds them",
        )
    return StorePath(Store(protocol, bucket, tuple(pairs)), key)


def require_local(place: Where, what: str, hint: str) -> Path:
    """Return a place of this machine.

    Args:
        place: it; what: cannot be there, in words; hint: what to do.

    Raises:
        LakeError: it is in a store.
    """
    if isinstance(place, StorePath):
        raise LakeError(f"{what} cannot be in a store yet", file=str(place), hint=hint)
    return place


def read_file(path: Where) -> bytes | None:
    """Return a file; None where there is none.

    Raises:
        OSError: it cannot be read.
        LakeError: likewise, in a store.
    """
    if isinstance(path, StorePath):
        return path.store.read(path.key)
    return path.read_bytes() if path.exists() else None


def is_there(path: Where) -> bool:
    """Tell whether there is a file; raises as :func:`read_file`."""
    return path.store.tag(path.key) is not None if isinstance(path, StorePath) else path.exists()


def size_of(path: Where) -> int | None:
    """Return how many bytes a file has; None where there is none. Raises as :func:`read_file`."""
    if isinstance(path, StorePath):
        return path.store.size(path.key)
    return path.stat().st_size if path.exists() else None


def put_file(path: Where, pieces: Sequence[bytes], mode: int = 0o666) -> int:
    """Put a file in the place of what is there, if anything is; returns its bytes.

    Args:
        path: its; pieces: bytes; mode: who may read and write it on this machine, but for the umask.

    Raises:
        OSError: it cannot be written.
        LakeError: likewise, in a store; or somebody else has written it since it was read.
    """
    if isinstance(path, StorePath):
        data = b"".join(pieces)
        path.store.replace(path.key, data)
        return len(data)
    return write_whole(path, pieces, mode)


def add_file(path: Where, pieces: Sequence[bytes]) -> None:
    """Write a file where none is.

    Raises:
        FileExistsError: something has the name.
        OSError: it cannot be written.
        LakeError: likewise, in a store.
    """
    if isinstance(path, StorePath):
        path.store.add(path.key, b"".join(pieces))
    else:
        write_if_absent(path, pieces)


def remove_file(path: Where) -> None:
    """Remove a file, if there is one; raises as :func:`put_file`."""
    if isinstance(path, StorePath):
        path.store.guard()
        path.store.remove(path.key)
    else:
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class FileThere:
    """A file in a folder, or in one below.

    Attributes:
        path: of this machine, or an address.
        name: the last part of it.
        size: bytes.
        time: of its last change, in seconds since 1970.
    """

    path: str
    name: str
    size: int
    time: float


def files_below(folder: Where) -> Iterator[FileThere]:
    """Yield all files below a folder; raises as :func:`read_file`."""
    if isinstance(folder, StorePath):
        for key, size, time in folder.store.listed(f"{folder.key}/"):
            yield FileThere(folder.store.address(key), key.rpartition("/")[2], size, time)
        return
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                yield FileThere(str(path), path.name, status.st_size, status.st_ctime)


def remove_files_of(folder: Where, files: Iterable[FileThere]) -> None:
    """Remove files below a folder; raises as :func:`put_file`."""
    if isinstance(folder, StorePath):
        folder.store.guard()
        for file in files:
            folder.store.remove(file.path.removeprefix(folder.store.address("")))
    else:
        for file in files:
            Path(file.path).unlink(missing_ok=True)


def make_folder(path: Where) -> None:
    """Make a directory, on this machine; raises OSError."""
    if isinstance(path, Path):
        path.mkdir(parents=True, exist_ok=True)


def sync_folder(path: Where) -> None:
    """Make the names in a directory last, and see in a store that nobody else has begun to land.

    Raises:
        OSError: it cannot be synced.
        LakeError: somebody has, or that cannot be seen.
    """
    if isinstance(path, StorePath):
        path.store.guard()
    else:
        sync_directory(path)


def names_in(folder: Where) -> list[str]:
    """List the names in a folder of few files; none where there is no folder. Raises as :func:`read_file`."""
    if isinstance(folder, StorePath):
        return folder.store.names(folder.key)
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


class StoreFolder(str):
    """The address of a folder in a store, for tasks: options for the store come with it to another process."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _known_again, (str(self), tuple(_store_at(str(self)).options))


_KNOWN: dict[str, Store] = {}
"""Stores that this process writes to, by the folders that tables are in."""


def folder_of(place: StorePath) -> StoreFolder:
    """Return the address of a folder that tasks write to, or read from."""
    _KNOWN[str(place)] = place.store
    return StoreFolder(place)


def folder_at(place: Where) -> str:
    """Return a folder for tasks: a path of this machine, or an address."""
    return folder_of(place) if isinstance(place, StorePath) else str(place)


def _known_again(address: str, options: Options) -> StoreFolder:
    place = place_of(address, options)
    assert isinstance(place, StorePath)
    return folder_of(place)


def is_address(path: str) -> bool:
    """Tell whether a path is an address in a store."""
    return _ADDRESS.fullmatch(path) is not None


def _store_at(address: str) -> Store:
    """Return the store of an address in a folder that this process knows."""
    folder = address
    while folder not in _KNOWN:
        folder, slash, _ = folder.rpartition("/")
        assert slash, "a folder that this process was not told of"
    return _KNOWN[folder]


def path_at(address: str) -> StorePath:
    """Return the place of an address in a folder that this process knows."""
    store = _store_at(address)
    return StorePath(store, address.removeprefix(store.address("")))


@contextmanager
def new_file(path: str) -> Iterator[Any]:
    """Open a file of a name that nobody else has, to write bytes; it is on the disk, or in the store, at the end.

    Args:
        path: of this machine, or an address in a folder that this process knows.

    Raises:
        OSError: it cannot be written.
        LakeError: likewise, in a store.
    """
    if is_address(path):
        place = path_at(path)
        with place.store.new_file(place.key) as sink:
            yield sink
        return
    with open(path, "xb") as sink:
        yield sink
        sync_file(sink)


SMALL_BYTES = 32 << 20
"""Of a file that is read whole, in one request."""


def arrow_source(path: str) -> Any:
    """Return a file as Arrow reads one: the path, or an open file of a store.

    Args:
        path: of this machine, or an address in a folder that this process knows.

    Raises:
        LakeError: it cannot be read in a store.
    """
    if not is_address(path):
        return path
    import pyarrow as pa

    data = _small_file(path)
    if data is not None:
        return pa.BufferReader(data)
    place = path_at(path)
    return pa.PythonFile(place.store.files.open(f"{place.store.bucket}/{place.key}", "rb"), mode="r")


@contextmanager
def open_file(path: str) -> Iterator[Any]:
    """Open a file that never changes, to read bytes anywhere in it.

    Args:
        path: of this machine, or an address in a folder that this process knows.

    Raises:
        OSError: it cannot be read.
        LakeError: likewise, in a store.
    """
    with arrow_source(path) if is_address(path) else open(path, "rb") as file:
        yield file


@lru_cache(maxsize=2)  # columns are asked for, then rows; a file never changes
def _small_file(address: str) -> bytes | None:
    place = path_at(address)
    return place.store.small(place.key, SMALL_BYTES)


def readable(paths: Iterable[str]) -> tuple[list[str], Any]:
    """Return paths as Arrow reads them, and the file system that they are on; None for this machine's."""
    known = list(paths)
    if not known or not is_address(known[0]):
        return known, None
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    places = [path_at(path) for path in known]
    # The stubs take it for an abstract class.
    system = PyFileSystem(FSSpecHandler(places[0].store.files))  # type: ignore[abstract]
    return [f"{place.store.bucket}/{place.key}" for place in places], system
