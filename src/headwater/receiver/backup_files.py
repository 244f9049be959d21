"""A backup's archives as files of a data directory, or as archives on disk; either way each file is summed up.

A tablespace's files lie in the directory itself, below ``pg_tblspc``, not where the server has them: links to there are
left out. No path leads out of the directory.

PostgreSQL: basebackup.c (sendDir, _tarWriteHeader), pg_basebackup's astreamers.
"""

from __future__ import annotations

import gzip
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from headwater.errors import CatalogError
from headwater.receiver.backup_archives import Archive
from headwater.receiver.backup_manifest import FileSum
from headwater.receiver.running_crc import PIECE, RunningCrc

_COMPRESSION_LEVEL = 6
_NOT_LISTED = "pg_wal"
"""WAL and its folders are in no manifest."""


class FilesOnDisk:
    """The files of a data directory.

    Args:
        directory: where they are written.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, archive: Archive) -> dict[str, FileSum]:
        """Write an archive's files.

        Returns:
            what came, by path.

        Raises:
            CatalogError: the archive is malformed.
            OSError: a file cannot be written.
        """
        top = self._directory / archive.folder
        top.mkdir(0o700, parents=True, exist_ok=True)
        sums = {}
        for tar, member in _members_of(archive, archive.name):
            inside = archive.folder / _path_inside(member.name)
            path = self._directory / inside
            if member.isfile():
                sums[str(inside)] = _written(tar, member, path)
            else:
                # A link is one to a tablespace, or to a pg_wal that lies elsewhere.
                path.mkdir(0o700, parents=True, exist_ok=True)
        return _listed(sums)


class ArchivesOnDisk:
    """The archives as they are.

    Args:
        directory: where they are written.
        is_compressed: with gzip.
    """

    def __init__(self, directory: Path, is_compressed: bool) -> None:
        self._directory, self._is_compressed = directory, is_compressed

    def write(self, archive: Archive) -> dict[str, FileSum]:
        """Write an archive, and look at its files on the way.

        Returns:
            what came, by path.

        Raises:
            CatalogError: the archive is malformed.
            OSError: it cannot be written.
        """
        with self._opened(archive.name) as output:
            copied = _Copied(archive, output)
            sums = {}
            for tar, member in _members_of(copied, archive.name):
                inside = archive.folder / _path_inside(member.name)
                if member.isfile():
                    sums[str(inside)] = _summed(tar, member)
            copied.read(-1)
        return _listed(sums)

    def _opened(self, name: str) -> IO[bytes]:
        path = self._directory / name
        if self._is_compressed:
            return cast("IO[bytes]", gzip.GzipFile(path.with_name(f"{name}.gz"), "xb", _COMPRESSION_LEVEL))
        return path.open("xb")


class _Copied:
    """An archive that is written as it is read."""

    def __init__(self, archive: Archive, output: IO[bytes]) -> None:
        self._archive, self._output = archive, output

    def read(self, size: int) -> bytes:
        """Read bytes."""
        data = self._archive.read(size)
        self._output.write(data)
        return data


def _members_of(stream: Any, name: str) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Give the entries of an archive as it comes."""
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 16) as archive:
            for member in archive:
                yield archive, member
    except tarfile.TarError as error:
        raise CatalogError(f"the server's archive is malformed: {error}", file=name) from None


def _path_inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise CatalogError("the server's archive has a path that leads out of it", file=name)
    return path


def _pieces(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    file = tar.extractfile(member)
    while file is not None and (piece := file.read(PIECE)):
        yield piece


def _written(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> FileSum:
    crc = RunningCrc()
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as output:
        for piece in _pieces(tar, member):
            output.write(piece)
            crc.add(piece)
    return FileSum(member.size, crc.value())


def _summed(tar: tarfile.TarFile, member: tarfile.TarInfo) -> FileSum:
    crc = RunningCrc()
    for piece in _pieces(tar, member):
        crc.add(piece)
    return FileSum(member.size, crc.value())


def _listed(sums: dict[str, FileSum]) -> dict[str, FileSum]:
    """Leave out what no manifest lists."""
    return {path: file for path, file in sums.items() if PurePosixPath(path).parts[0] != _NOT_LISTED}
