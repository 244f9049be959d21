"""A base backup in tar format: ``base.tar`` and one ``OID.tar`` for each tablespace, as they are or compressed.

Job: a :class:`~headwater.catalog.copy.file_tree.FileTree` over the archives that ``pg_basebackup -F tar`` writes
(PostgreSQL: basebackup.c, astreamer_tar.c). An archive is recognized by its first bytes: tar, gzip, LZ4 frame or
Zstandard.

The reading of archives: a plain one is gone through once, header by header; members are read where they lie. A
compressed one is decompressed once from its beginning to its end, in pieces of a megabyte. The members that decoding
may read are kept in a temporary file: the small files, ``pg_xact``, ``pg_multixact``, and of each database the files
that are numbered as its catalogs are after initdb. A catalog that was rewritten since (VACUUM FULL) lies in a file with
another number, which only ``pg_class`` and the relation maps name. Such files are fetched with one more pass each for
the mapped catalogs and for the others.

The cost: memory for the names and sizes of all members, and for a file that is read; for compressed archives disk space
for the kept members, in the directory of temporary files, until this process ends.

Known gaps: ``pg_wal.tar`` is not looked at. Sparse members and hard links are refused, and a folder above the data
directory's own files, as ``tar -cf x.tar data`` makes it.
"""

from __future__ import annotations

import os
import re
import tarfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa

from headwater.base.system_errors import errors_as, reason_of
from headwater.base.temporary_directories import OwnDirectory
from headwater.catalog.copy.file_tree import TABLESPACES, FileTree, Piece
from headwater.errors import CatalogError
from headwater.pg.catalogs import CATALOG_NAMES, DEFINITION_CATALOGS, PG_DB_ROLE_SETTING
from headwater.wal.segments.unpacking import ArrowStream

PIECE_BYTES = 1 << 20

Codec = Literal["gzip", "lz4", "zstd"]

_CODECS: Mapping[bytes, Codec] = {b"\x1f\x8b": "gzip", b"\x04\x22\x4d\x18": "lz4", b"\x28\xb5\x2f\xfd": "zstd"}
_ARCHIVE = re.compile(r"(?P<what>base|\d+)\.tar(?:\.gz|\.lz4|\.zst)?")
_SEGMENT = re.compile(r"\.\d+$")
_TAR_MAGIC = b"ustar"
_MORE_ROOM = "make room there, set TMPDIR to another directory, or unpack the backup"
_EXTENSIONS = frozenset(b"%c" % kind for kind in b"LKxgX")
"""Types of members that are read whole, as they extend the header of the next member: long names, PAX headers."""

_LONGEST_EXTENSION = 1 << 20
_LARGEST_MEMBER = 1 << 60
_NUMBERS = "|".join(map(str, (*CATALOG_NAMES, *DEFINITION_CATALOGS, PG_DB_ROLE_SETTING)))
_KEPT = re.compile(
    r"PG_VERSION|backup_label|tablespace_map|(?:[^/]+/)?[^/]+\.conf|global/pg_control"
    rf"|(?:global|base/\d+|pg_tblspc/\d+/PG_\w+/\d+)/(?:pg_filenode\.map|(?:{_NUMBERS})(?:\.\d+)?)"
    r"|(?:pg_xact|pg_multixact/offsets|pg_multixact/members|pg_twophase)/[0-9A-F]+"
)


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive file of a backup.

    Attributes:
        path: the file.
        folder: the folder of its members in the data directory: nothing, or ``pg_tblspc/OID/``.
        codec: the archive's compression, None if it is not compressed.
    """

    path: Path
    folder: str
    codec: Codec | None


def base_archive(directory: Path) -> Path | None:
    """Find the archive of the data directory in a directory with a backup in tar format; None if there is none.

    Raises:
        CatalogError: there are several.
    """
    archives = sorted(path for path, what in _archives_in(directory) if what == "base")
    if len(archives) > 1:
        names = ", ".join(path.name for path in archives)
        raise CatalogError(f"more than one base backup: {names}", file=str(directory), hint="name one of them")
    return archives[0] if archives else None


def open_archives(base: Path) -> FileTree:
    """Open the tree of a backup; the tree of the same files is made once.

    Args:
        base: the archive of the data directory. The archives of tablespaces lie beside it.

    Raises:
        CatalogError: an archive cannot be read, or a file is none.
    """
    beside = [(path, what) for path, what in _archives_in(base.parent) if what != "base"]
    is_named_so = _ARCHIVE.fullmatch(base.name) is not None
    archives = [_archive(base, "")]
    archives += [_archive(path, f"{TABLESPACES}{what}/") for path, what in sorted(beside) if is_named_so]
    return _tree(tuple((archive, _signature(archive.path)) for archive in archives))


def _archives_in(directory: Path) -> list[tuple[Path, str]]:
    with errors_as(CatalogError, "read directory", directory):
        paths = list(directory.iterdir())
    return [(path, match["what"]) for path in paths if (match := _ARCHIVE.fullmatch(path.name))]


def _archive(path: Path, folder: str) -> Archive:
    """Describe an archive by its first bytes."""
    with errors_as(CatalogError, "read archive", path), path.open("rb") as file:
        head = file.read(tarfile.BLOCKSIZE)
    codecs = [codec for magic, codec in _CODECS.items() if head.startswith(magic)]
    if not codecs and _TAR_MAGIC not in head and _ARCHIVE.fullmatch(path.name) is None:
        raise CatalogError(
            "not a PostgreSQL data directory, nor an archive of a base backup",
            file=str(path),
            hint="name a data directory, a base backup, or a file of headwater catalog export",
        )
    return Archive(path.absolute(), folder, codecs[0] if codecs else None)


def _signature(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@lru_cache(maxsize=2)
def _tree(archives: tuple[tuple[Archive, tuple[int, ...]], ...]) -> TarTree:
    return TarTree([archive for archive, _ in archives])


class TarTree(FileTree):
    """The archives of a backup as a tree of files.

    Args:
        archives: the archive of the data directory first.

    Raises:
        CatalogError: an archive cannot be read, or a file is none.
    """

    def __init__(self, archives: list[Archive]) -> None:
        self._archives = archives
        self._members: dict[str, Piece | None] = {}
        self._kept: Path | None = None
        self._lock = threading.Lock()
        for archive in archives:
            if archive.codec is None:
                self._members.update(_members(archive))
            else:
                self._keep(archive, lambda name: _KEPT.fullmatch(name) is not None)

    def exists(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str, what: str = "file") -> bytes:
        piece = self._piece(name, what)
        with errors_as(CatalogError, f"read {what}", self.place(name)), piece.path.open("rb") as file:
            file.seek(piece.offset)
            data = file.read(piece.size)
        if len(data) < piece.size:
            raise _broken(piece.path, f"it ends inside {name}")
        return data

    def piece(self, name: str) -> Piece:
        return self._piece(name, "file")

    def _piece(self, name: str, what: str) -> Piece:
        if name not in self._members:
            missing, hint = self.why_missing(name)
            raise CatalogError(f"could not read {what}: {missing}", file=self.place(name), hint=hint)
        self.expect([name])
        piece = self._members[name]
        assert piece is not None
        return piece

    def why_missing(self, name: str, /) -> tuple[str, str | None]:
        if self._archive_of(name) is not None:
            return "no such member", None
        base = self._archives[0].path
        return "no such archive", f"put the tablespace's archive beside {base.name}"

    def names(self, folder: str) -> list[str]:
        start = f"{folder}/"
        inside = (name[len(start) :] for name in self._members if name.startswith(start))
        return sorted(name for name in inside if "/" not in name)

    def place(self, name: str) -> str:
        archive = self._archive_of(name)
        if archive is not None:
            return f"{archive.path}:{name[len(archive.folder) :]}"
        _, tablespace, rest = name.split("/", 2)
        return f"{self._archives[0].path.with_name(f'{tablespace}.tar')}:{rest}"

    def expect(self, names: Iterable[str], /) -> None:
        wanted = set(names)
        with self._lock:
            absent = {name for name, where in self._members.items() if where is None}
            absent = {name for name in absent if name in wanted or _SEGMENT.sub("", name) in wanted}
            for archive in self._archives:
                if any(self._archive_of(name) is archive for name in absent):
                    self._keep(archive, absent.__contains__)

    def _archive_of(self, name: str) -> Archive | None:
        """Find the archive that has a file, or should have it; None if that archive is not there."""
        archives = [archive for archive in self._archives[1:] if name.startswith(archive.folder)]
        if archives:
            return archives[0]
        is_apart = name.startswith(TABLESPACES) and name.count("/") > 1 and name not in self._members
        return None if is_apart else self._archives[0]

    def _keep(self, archive: Archive, is_wanted: Callable[[str], bool]) -> None:
        """Go through a compressed archive, and keep the members that are wanted."""
        with _reading(archive) as tar:
            for name, member in _regular(tar, archive):
                if is_wanted(name):
                    source = tar.extractfile(member)
                    assert source is not None
                    offset = self._append(source)
                    self._members[name] = Piece(self._file(), offset, member.size)
                else:
                    self._members.setdefault(name, None)

    def _append(self, source: IO[bytes]) -> int:
        """Append a member to the kept ones; return the offset where it begins."""
        file = self._file()
        begin = file.stat().st_size
        while piece := source.read(PIECE_BYTES):
            with (
                errors_as(CatalogError, "keep files of a compressed backup", file, _MORE_ROOM),
                file.open("ab") as output,
            ):
                output.write(piece)
        return begin

    def _file(self) -> Path:
        """Return the temporary file, which goes when this tree or the process does."""
        if self._kept is None:
            try:
                directory = OwnDirectory()
            except OSError as error:
                message = f"could not make a temporary directory: {reason_of(error)}"
                raise CatalogError(message, hint="set TMPDIR") from None
            weakref.finalize(self, directory.close)
            self._kept = directory.path / "kept"
            self._kept.touch()
        return self._kept


class _Header(tarfile.TarInfo):
    """A member's header.

    None is passed over: to ``tarfile``, a broken one is the archive's end.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str | None, errors: str) -> _Header:
        """Read a header.

        Raises:
            tarfile.EOFHeaderError: the archive ends here, as it should.
            tarfile.ReadError: the header is broken or cut off, or has impossible values.
        """
        if len(buf) == tarfile.BLOCKSIZE and not any(buf):
            raise tarfile.EOFHeaderError("end of file header")  # type: ignore[attr-defined]
        try:
            header = super().frombuf(buf, encoding, errors)  # type: ignore[arg-type]
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from None
        limit = _LONGEST_EXTENSION if header.type in _EXTENSIONS else _LARGEST_MEMBER
        if not 0 <= header.size <= limit:
            raise tarfile.ReadError(f"found a member of {header.size} bytes, expected at most {limit}")
        return header


def _members(archive: Archive) -> dict[str, Piece | None]:
    """Locate the members of an archive that is not compressed."""
    with _reading(archive) as tar:
        return {name: Piece(archive.path, member.offset_data, member.size) for name, member in _regular(tar, archive)}


def _regular(tar: tarfile.TarFile, archive: Archive) -> Iterator[tuple[str, tarfile.TarInfo]]:
    """Give name in the data directory and header of each file of an archive."""
    before = -1
    while (member := tar.next()) is not None:
        # An extension of a header may give the member another size.
        if not 0 <= member.size <= _LARGEST_MEMBER or member.offset_data <= before:
            raise _broken(archive.path, f"member {member.name} has {member.size} bytes")
        before = member.offset_data
        # Otherwise tarfile remembers all headers, of which there may be millions.
        tar.members.clear()  # type: ignore[attr-defined]
        if member.issparse():
            raise _broken(archive.path, f"member {member.name} is sparse")
        if member.islnk():
            raise _broken(archive.path, f"member {member.name} is a hard link to {member.linkname}")
        if member.isreg():
            yield archive.folder + member.name.removeprefix("./"), member


def _readable(stream: Any) -> Any:
    """Make a stream that tarfile can read, for which ``read`` is enough."""
    return ArrowStream(stream)


@contextmanager
def _reading(archive: Archive) -> Iterator[tarfile.TarFile]:
    """Hold an archive open, to read its headers in order."""
    try:
        if archive.codec is None:
            with tarfile.open(archive.path, "r:", tarinfo=_Header) as tar:
                yield tar
        else:
            with (
                pa.input_stream(str(archive.path), archive.codec, PIECE_BYTES) as stream,
                tarfile.open(fileobj=_readable(stream), mode="r|", bufsize=PIECE_BYTES, tarinfo=_Header) as tar,
            ):
                yield tar
    except (tarfile.TarError, OSError, EOFError, ValueError, OverflowError, RecursionError, pa.ArrowException) as error:
        raise _broken(archive.path, str(error) or type(error).__name__) from None


def _broken(path: Path, reason: str) -> CatalogError:
    reason = " ".join(reason.split())
    return CatalogError(
        f"could not read archive: {reason}",
        file=os.fspath(path),
        hint="give a base backup as pg_basebackup -F tar writes it, or unpack it",
    )
