"""The files of a cluster, from which :class:`~headwater.catalog.copy.data_directory.DataDirectory` reads.

Job: the bytes of a file by its name inside the data directory, such as ``base/5/1259``; nothing of what they mean. A
directory is one such tree, the archives of a backup in tar format are another
(:mod:`headwater.catalog.copy.tar_backup`).

Invariant: a tree is read only, and has only the files of the copy itself. ``tablespace_map`` names directories of the
machine that the backup was taken from, and is not followed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headwater.base.system_errors import errors_as, system_error
from headwater.errors import CatalogError, HeadwaterError

TABLESPACES = "pg_tblspc/"


@dataclass(frozen=True)
class Piece:
    """The place of a file's bytes.

    Attributes:
        path: a file on this machine; offset: of the first byte in it; size: bytes.
    """

    path: Path
    offset: int
    size: int


class FileTree(ABC):
    """The files of a data directory, by name; names have ``/`` between their parts."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Tell whether there is a file of this name.

        Raises:
            CatalogError: the tree cannot tell.
        """

    @abstractmethod
    def read(self, name: str, what: str = "file") -> bytes:
        """Read all bytes of a file.

        Args:
            name: the file's name.
            what: the kind of file, for errors.

        Raises:
            CatalogError: the file is not there, or cannot be read.
        """

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """List the names of the files in a folder, sorted, without the folder's; none if the folder is not there."""

    @abstractmethod
    def place(self, name: str) -> str:
        """Name a file as errors do, whether it is there or not."""

    @abstractmethod
    def piece(self, name: str) -> Piece:
        """Locate the bytes of a file, for tasks that read it.

        Raises:
            CatalogError: the file is not there, or cannot be read.
        """

    def why_missing(self, _name: str, /) -> tuple[str, str | None]:
        """Say why a file is not there though it should be, and what to do about it, for errors."""
        return "no such file", None

    def expect(self, _names: Iterable[str], /) -> None:
        """Announce files that will be read next, with their further segments.

        One pass over the tree may fetch all of them.

        Raises:
            CatalogError: the tree cannot be read.
        """
        return


class DirectoryTree(FileTree):
    """A directory with the files of a cluster.

    Args:
        path: the directory.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def exists(self, name: str) -> bool:
        with errors_as(CatalogError, "look for file", self.place(name)):
            return (self._path / name).exists()

    def read(self, name: str, what: str = "file") -> bytes:
        try:
            return (self._path / name).read_bytes()
        except OSError as error:
            raise self._unreadable(what, name, error) from None

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(path.name for path in (self._path / folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise system_error("read directory", error, CatalogError, file=self.place(folder)) from None

    def place(self, name: str) -> str:
        return str(self._path / name)

    def piece(self, name: str) -> Piece:
        path = (self._path / name).absolute()
        try:
            return Piece(path, 0, path.stat().st_size)
        except OSError as error:
            raise self._unreadable("file", name, error) from None

    def why_missing(self, name: str, /) -> tuple[str, str | None]:
        return "no such file", self._unlinked(name)

    def _unreadable(self, what: str, name: str, error: OSError) -> HeadwaterError:
        place, hint = self.place(name), self._unlinked(name)
        return system_error(f"read {what}", error, CatalogError, file=place, hint=hint)

    def _unlinked(self, name: str) -> str | None:
        """Say what to do about a tablespace that is not where it should be."""
        if not name.startswith(TABLESPACES):
            return None
        link = self._path / TABLESPACES / name.split("/")[1]
        return None if link.exists() else f"make {link} a link to the tablespace's directory in the backup"
