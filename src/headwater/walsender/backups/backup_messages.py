"""The answer to BASE_BACKUP, message by message: start, tablespaces, archives, manifest, end.

Runs in a thread: the bytes are of any amount.

PostgreSQL: basebackup_copy.c (15 to 19), basebackup.c, basebackup_throttle.c.

Known gap: a file that is shorter than it was when it was listed ends the backup with an error.
"""

from __future__ import annotations

import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import IO

from headwater.errors import SessionError
from headwater.pg.lsn import lsn_text
from headwater.pg.sqlstates import INTERNAL_ERROR
from headwater.pg.version import Version
from headwater.protocol.backend_messages import (
    COPY_DONE,
    Column,
    command_complete,
    copy_data,
    copy_out_response,
    data_row,
    row_description,
)
from headwater.walsender.backups.backup_at_hand import BackupAtHand, Entry, Tablespace
from headwater.walsender.backups.backup_options import BackupOptions
from headwater.walsender.backups.manifest_writing import FileChecksum, ManifestWriter

_PIECE = 32 << 10
_BLOCK = tarfile.BLOCKSIZE
_END_OF_TAR = bytes(2 * _BLOCK)
_OID, _INT8, _TEXT = 26, 20, 25

WalEntries = Callable[[], Iterator[Entry]]


@dataclass(frozen=True)
class SentBackup:
    """A backup that is sent.

    Attributes:
        backup: the backup at hand; options: of the command.
        version: of the server that is stood for; system_identifier: of the cluster.
        wal: gives the segments that the backup needs, with timelines' histories.
    """

    backup: BackupAtHand
    options: BackupOptions
    version: Version
    system_identifier: int
    wal: WalEntries

    def messages(self) -> Iterator[bytes]:
        """Give the answer, but for the tag of the command.

        Raises:
            SessionError: a file of the backup has changed; OSError: one cannot be read.
        """
        backup, manifest = self.backup, ManifestWriter(self.options, self.version, self.system_identifier)
        spaces = backup.tablespaces()
        yield self._place(backup.start) + self._listed(spaces)
        is_joined = self.version.copies_archives_in_one
        if is_joined:
            yield copy_out_response(0)
        for space in spaces:
            yield self._head(space) if is_joined else copy_out_response(0)
            for data in _throttled(self._archive(space, manifest), self.options.max_rate):
                yield copy_data(b"d" + data if is_joined else data)
            yield copy_data(b"d" + _END_OF_TAR) if is_joined else COPY_DONE
        if self.options.has_manifest:
            yield from self._manifest(manifest.whole(backup.timeline, backup.start, backup.end))
        yield (COPY_DONE if is_joined else b"") + self._place(backup.end)

    def _place(self, lsn: int) -> bytes:
        columns = [Column("recptr", _TEXT, -1), Column("tli", _INT8, 8)]
        row = [lsn_text(lsn, self.version).encode(), str(self.backup.timeline).encode()]
        return row_description(columns) + data_row(row) + command_complete("SELECT")

    def _listed(self, spaces: list[Tablespace]) -> bytes:
        columns = [Column("spcoid", _OID, 4), Column("spclocation", _TEXT, -1), Column("size", _INT8, 8)]
        rows = b"".join(map(self._row, spaces))
        return row_description(columns) + rows + command_complete("SELECT")

    def _row(self, space: Tablespace) -> bytes:
        size = str(space.size >> 10).encode() if self.options.has_progress else None
        oid = None if space.oid is None else str(space.oid).encode()
        location = None if space.location is None else space.location.encode("utf-8", "surrogateescape")
        return data_row([oid, location, size])

    def _head(self, space: Tablespace) -> bytes:
        location = (space.location or "").encode("utf-8", "surrogateescape")
        return copy_data(b"n" + space.archive.encode() + b"\0" + location + b"\0")

    def _archive(self, space: Tablespace, manifest: ManifestWriter) -> Iterator[bytes]:
        """Give the bytes of an archive, but for its end; files are added to the manifest."""
        for entry in self.backup.entries(space, self.options.label, has_map=self.options.has_tablespace_map):
            checksum = FileChecksum(self.options.checksum)
            yield from _entry(entry, checksum)
            if entry.header.isreg():
                manifest.add(entry.path, entry.header.size, float(entry.header.mtime), checksum)
        if space.oid is None and self.options.has_wal:
            for segment in self.wal():
                yield from _entry(segment, None)

    def _manifest(self, data: bytes) -> Iterator[bytes]:
        is_joined = self.version.copies_archives_in_one
        yield copy_data(b"m") if is_joined else copy_out_response(0)
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            yield copy_data(b"d" + piece if is_joined else piece)
        if not is_joined:
            yield COPY_DONE


def _entry(entry: Entry, checksum: FileChecksum | None) -> Iterator[bytes]:
    """Give the header and the bytes of a file, filled up to a block of the archive."""
    yield entry.header.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape")
    if not entry.header.isreg():
        return
    with BytesIO(entry.content) if entry.file is None else entry.file.open("rb") as source:
        for piece in _pieces(source, entry):
            if checksum is not None:
                checksum.add(piece)
            yield piece
    yield bytes(-entry.header.size % _BLOCK)


def _pieces(source: IO[bytes], entry: Entry) -> Iterator[bytes]:
    left = entry.header.size
    while left:
        piece = source.read(min(left, _PIECE))
        if not piece:
            raise SessionError(f'could not read file "{entry.path}": it has become shorter', sqlstate=INTERNAL_ERROR)
        left -= len(piece)
        yield piece


def _throttled(pieces: Iterator[bytes], rate: int) -> Iterator[bytes]:
    """Give pieces not faster than so many kilobytes a second; 0 is as fast as can be."""
    began, count = time.monotonic(), 0
    for piece in pieces:
        yield piece
        count += len(piece)
        early = count / (rate << 10) - (time.monotonic() - began) if rate else 0
        if early > 0:
            time.sleep(early)
