"""The base backup that a service has, as a source of base backups: its places in the log, its tablespaces and files.

A standby that is made of it replays from the backup's start, as if it were made of the backup itself. Files are read
as they are; what no server sends of itself is left out, as the WAL that lies in it.

PostgreSQL: basebackup.c (sendDir, sendTablespace, excludeFiles), xlogbackup.c, backup_label.

Known gaps: a backup in tar format, a copy without backup_label, and a backup without its manifest, are refused.
"""

from __future__ import annotations

import os
import re
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.errors import SessionError
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED

LABEL, MAP, MANIFEST, WAL = "backup_label", "tablespace_map", "backup_manifest", "pg_wal"
_TABLESPACES = "pg_tblspc"
_CONTROL = "global/pg_control"
_LEFT_OUT = {LABEL, MAP, MANIFEST, "postmaster.pid", "postmaster.opts", "current_logfiles", "postgresql.auto.conf.tmp"}
_LABEL_LINE = re.compile(r"^LABEL: .*$", re.M)
_HINT = "give --catalog a base backup in plain format, with its backup_label and backup_manifest"


@dataclass(frozen=True)
class Tablespace:
    """A tablespace of the backup.

    Attributes:
        oid: its OID; None for the data directory.
        location: where the server had it; None for the data directory.
        directory: where its files are here.
        size: bytes of these.
    """

    oid: int | None
    location: str | None
    directory: Path
    size: int

    @property
    def archive(self) -> str:
        """The name of its archive."""
        return "base.tar" if self.oid is None else f"{self.oid}.tar"


@dataclass(frozen=True)
class Entry:
    """A file, folder or link of an archive.

    Attributes:
        header: as in the archive.
        path: of the file in the data directory, as in the manifest.
        file: where its bytes are; None for what has none here.
        content: its bytes, where they are not read from a file.
    """

    header: tarfile.TarInfo
    path: str
    file: Path | None = None
    content: bytes = b""


class BackupAtHand:
    """A backup.

    Args:
        catalog: its directory.

    Attributes:
        start, end, timeline: the LSNs between which WAL makes it consistent, on which timeline.

    Raises:
        SessionError: it is no base backup, or one that cannot be sent; CatalogError: it cannot be read.
    """

    def __init__(self, catalog: Path) -> None:
        if not (catalog / "PG_VERSION").is_file():
            raise _refused("the catalog of the service is not the directory of a base backup")
        directory = DataDirectory(catalog)
        end = directory.manifest_end_lsn()
        if directory.label is None or end is None:
            raise _refused(f"the base backup of the service has no {LABEL if end else MANIFEST}")
        self._root = catalog
        self.start, self.end, self.timeline = directory.label.start_lsn, end, directory.label.timeline

    def tablespaces(self) -> list[Tablespace]:
        """List the tablespaces; the data directory is the last one (do_pg_backup_start)."""
        links = sorted((self._root / _TABLESPACES).iterdir(), key=lambda link: link.name)
        spaces = [_tablespace(link) for link in links if link.name.isdigit()]
        size = sum(_size(entry) for entry in self._base())
        return [*spaces, Tablespace(None, None, self._root, size)]

    def entries(self, space: Tablespace, label: str, *, has_map: bool) -> Iterator[Entry]:
        """Give the entries of a tablespace's archive.

        Args:
            space: the tablespace; label: of the backup that is asked for.
            has_map: the places of tablespaces are in a file of the archive.
        """
        if space.oid is not None:
            yield from _tree(space.directory, "", f"{_TABLESPACES}/{space.oid}/")
            return
        yield self._made(LABEL, self._label(label))
        text = "".join(f"{other.oid} {_escaped(other.location)}\n" for other in self.tablespaces()[:-1])
        if has_map and text:
            yield self._made(MAP, text.encode("utf-8", "surrogateescape"))
        yield from self._base()

    def _base(self) -> Iterator[Entry]:
        """Give the entries of the data directory; pg_control is the last one."""
        last = []
        for entry in _tree(self._root, "", ""):
            if entry.path in _LEFT_OUT or _is_below(entry.path, WAL):
                continue
            if _is_below(entry.path, _TABLESPACES):
                if entry.path.count("/") == 1 and entry.path.rpartition("/")[2].isdigit():
                    yield self._link(entry)
            elif entry.path == _CONTROL:
                last.append(entry)
            else:
                yield entry
        yield _folder(self._root, f"{WAL}/archive_status")
        yield from last

    def _link(self, entry: Entry) -> Entry:
        header = _header(self._root, entry.path)
        header.type, header.linkname = tarfile.SYMTYPE, _location(self._root / entry.path)
        return Entry(header, entry.path)

    def _label(self, label: str) -> bytes:
        text = (self._root / LABEL).read_bytes().decode("utf-8", "surrogateescape")
        return _LABEL_LINE.sub(lambda _: f"LABEL: {label}", text, count=1).encode("utf-8", "surrogateescape")

    def _made(self, name: str, content: bytes) -> Entry:
        header = _header(self._root, name)
        header.type, header.mode, header.size = tarfile.REGTYPE, 0o600, len(content)
        return Entry(header, name, content=content)


def wal_entry(root: Path, name: str, content: bytes) -> Entry:
    """Make the entry of a segment, or of a timeline's history."""
    header = _header(root, f"{WAL}/{name}")
    header.type, header.mode, header.size = tarfile.REGTYPE, 0o600, len(content)
    return Entry(header, header.name, content=content)


def _refused(message: str) -> SessionError:
    return SessionError(message, sqlstate=FEATURE_NOT_SUPPORTED, hint=_HINT)


def _tablespace(link: Path) -> Tablespace:
    directory = link.resolve()
    return Tablespace(int(link.name), _location(link), directory, sum(map(_size, _tree(directory, "", ""))))


def _location(link: Path) -> str:
    """Return where a tablespace is: the target of a link, or the folder that stands for it."""
    return os.readlink(link) if link.is_symlink() else str(link.absolute())


def _size(entry: Entry) -> int:
    return entry.header.size


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _escaped(location: str | None) -> str:
    """Write a place as tablespace_map has it: backslashes and ends of lines behind a backslash."""
    return re.sub(r"([\n\r\\])", r"\\\1", location or "")


def _tree(directory: Path, inside: str, before: str) -> Iterator[Entry]:
    """Give all that is in a directory: folders before what is in them, in the order of names.

    Args:
        directory: where it is; inside: the path of what is given, in there; before: what comes before it in a manifest.
    """
    for item in sorted(os.scandir(directory / inside), key=lambda item: item.name):
        name = f"{inside}{item.name}"
        if item.is_symlink() or item.is_dir():
            yield Entry(_header(directory, name), before + name)
            if not item.is_symlink():
                yield from _tree(directory, f"{name}/", before)
        elif item.is_file():
            yield Entry(_header(directory, name), before + name, directory / name)


def _folder(root: Path, name: str) -> Entry:
    header = _header(root, name)
    header.type, header.size = tarfile.DIRTYPE, 0
    return Entry(header, name)


def _header(root: Path, name: str) -> tarfile.TarInfo:
    """Make a header with what the file system says of a path, or of the data directory in its place."""
    path = root / name
    status = path.stat() if path.exists() else root.stat()
    header = tarfile.TarInfo(name)
    header.mtime, header.uid, header.gid = int(status.st_mtime), os.getuid(), os.getgid()
    is_folder = stat.S_ISDIR(status.st_mode)
    header.type = tarfile.DIRTYPE if is_folder else tarfile.REGTYPE
    header.mode, header.size = (0o700, 0) if is_folder else (0o600, status.st_size)
    return header
