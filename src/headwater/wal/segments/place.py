"""Places where segment files lie: directories of this machine, or addresses in stores that fsspec knows.

In: what a user names. Out: values that go to every task, and the few things that are done with files there: listed,
looked up by the beginning of a name, opened as bytes. A directory of this machine is read by the system's own calls.
Everything else is fsspec's (:mod:`headwater.wal.segments.remote`).

Invariants: a place's options, credentials among them, are in no text that is shown.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from headwater.base.system_errors import errors_as, system_error
from headwater.errors import SegmentError
from headwater.wal.segments import remote


@dataclass(frozen=True, slots=True)
class Place:
    """A directory.

    Attributes:
        address: a path of this machine, or an address with a scheme.
        protocol: fsspec's name of the store, empty for this machine.
        options: fsspec's options for it, (name, value).
    """

    address: str
    protocol: str = ""
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def is_local(self) -> bool:
        """It is a directory of this machine."""
        return not self.protocol

    def path(self, *names: str) -> str:
        """Return the path or address of what lies in it."""
        if self.is_local:
            return os.path.join(self.address, *names)
        return "/".join([self.address.rstrip("/"), *(name for name in names if name)])

    def inside(self, folder: str) -> Place:
        """Return a folder of it."""
        return Place(self.path(folder), self.protocol, self.options)


@dataclass(frozen=True, slots=True)
class WalSource:
    """The WAL to be read: places, of which the first that has a segment gives it, and the timeline.

    Attributes:
        places: at least one.
        timeline: the timeline to follow, None for the newest.
    """

    places: tuple[Place, ...]
    timeline: int | None = None

    @classmethod
    def of(cls, *paths: str | os.PathLike[str], timeline: int | None = None) -> WalSource:
        """Make a source of directories of this machine."""
        return cls(tuple(Place(os.fspath(path)) for path in paths), timeline)

    @property
    def address(self) -> str:
        """All places, for messages."""
        return ", ".join(place.address for place in self.places)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder of a place.

    Attributes:
        folder: the folder it lies in, empty for the place itself.
        name: its name.
        size: bytes.
        is_folder: it is a folder.
    """

    folder: str
    name: str
    size: int
    is_folder: bool = False


def list_place(place: Place) -> list[Entry]:
    """List the contents of a place itself.

    Raises:
        SegmentError: it cannot be listed.
    """
    return list_folder(place, "")


def list_folder(place: Place, folder: str) -> list[Entry]:
    """List the contents of a folder of a place; what vanishes meanwhile is left out.

    Raises:
        SegmentError: it cannot be listed.
    """
    path = place.path(folder) if folder else place.address
    if not place.is_local:
        files = remote.list_files(place.protocol, place.options, path)
        return [Entry(folder, file.name, file.size, file.is_folder) for file in files]
    hint = "name the directory that holds the segments"
    with errors_as(SegmentError, "list directory", path, hint), os.scandir(path) as entries:
        return list(_local_entries(entries, folder))


def _local_entries(entries: Iterable[os.DirEntry[str]], folder: str) -> Iterator[Entry]:
    for entry in entries:
        with suppress(FileNotFoundError):
            is_folder = entry.is_dir()
            yield Entry(folder, entry.name, 0 if is_folder else entry.stat().st_size, is_folder)


def list_folders(place: Place, folders: Sequence[str]) -> list[Entry]:
    """List the contents of some folders of a place.

    Raises:
        SegmentError: one cannot be listed.
    """
    if place.is_local or len(folders) < 2:
        return [entry for folder in folders for entry in list_folder(place, folder)]
    wanted = set(folders)
    files = remote.list_below(place.protocol, place.options, place.address)
    return [Entry(file.folder, file.name, file.size) for file in files if file.folder in wanted]


def names_beginning(place: Place, folder: str, beginning: str) -> list[str]:
    """List the names in a folder that begin so, sorted; none if there is no such folder.

    Raises:
        SegmentError: it cannot be listed.
    """
    if place.is_local:
        try:
            names = os.listdir(place.path(folder))
        except OSError:
            return []
    else:
        names = remote.names_beginning(place.protocol, place.options, place.path(folder), beginning)
    return sorted(name for name in names if name.startswith(beginning))


def open_bytes(place: Place, path: str) -> io.RawIOBase:
    """Open a file of a place as bytes from its first on.

    Raises:
        FileNotFoundError: it is not there.
        SegmentError: it cannot be read.
    """
    if not place.is_local:
        return remote.RangeStream(place.protocol, place.options, path)
    try:
        return open(path, "rb", buffering=0)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise system_error("open WAL segment", error, SegmentError, file=path) from None


def read_start(place: Place, path: str, size: int) -> bytes:
    """Read the first bytes of a file.

    Raises:
        FileNotFoundError: it is not there.
        SegmentError: it cannot be read.
    """
    if not place.is_local:
        return remote.read_range(place.protocol, place.options, path, 0, size)
    with open_bytes(place, path) as file:
        return file.read(size) or b""
