"""A data directory, or a plain base backup, read without a server.

Job: the only file reader of this room. It knows where PostgreSQL keeps things, not what they mean for decoding:
``PG_VERSION``, ``pg_control``, ``backup_label``, relation maps, relation files in any tablespace, ``pg_xact`` and
``pg_multixact``. Mirrors relpath.c, relmapper.c, slru.c, clog.c, multixact.c and xlogbackup.c.

Known gaps: page checksums are not verified; block sizes other than 8192 bytes are refused.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from headwater.catalog.pages import BLCKSZ
from headwater.errors import CatalogError, RecordError
from headwater.pg.catalogs import DEFAULT_TABLESPACE, GLOBAL_TABLESPACE
from headwater.pg.lsn import Lsn
from headwater.pg.version import VERSIONS
from headwater.rmgr.relmap import crc_offset, parse_relation_map
from headwater.wal.checksum import crc32c
from headwater.wal.control import SHUTDOWNED, SHUTDOWNED_IN_RECOVERY, ControlFile, read_control_file

Locator = tuple[int, int, int]

_XACTS_PER_FILE = 32 * BLCKSZ * 4
_OFFSETS_PER_FILE = 32 * BLCKSZ // 4
_MEMBERS_PER_GROUP, _GROUP_SIZE = 4, 20
_GROUPS_PER_PAGE = BLCKSZ // _GROUP_SIZE
_FIRST_UPDATE_STATUS = 4
_IN_PROGRESS, _COMMITTED = 0, 1

_START = re.compile(r"^START WAL LOCATION: ([0-9A-F]+/[0-9A-F]+) \(file ([0-9A-F]{24})\)$", re.M)
_START_TIMELINE = re.compile(r"^START TIMELINE: (\d+)$", re.M)


@dataclass(frozen=True, slots=True)
class BackupLabel:
    """``backup_label``: where an online backup began.

    Attributes:
        start_lsn: START WAL LOCATION, the redo LSN of the backup's checkpoint.
        timeline: START TIMELINE.
    """

    start_lsn: int
    timeline: int


class DataDirectory:
    """A cluster's files.

    Args:
        path: the directory.

    Attributes:
        path: the directory.
        control: ``global/pg_control``.
        label: ``backup_label``, None if the directory is no online backup.

    Raises:
        CatalogError: not a data directory, an unsupported version, a broken control file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._check_version()
        self.control: ControlFile = read_control_file(self.path)
        if self.control.block_size != BLCKSZ:
            raise CatalogError(f"block size is {self.control.block_size}, expected {BLCKSZ}", file=str(self.path))
        self.label = self._read_label()
        self._slru_files: dict[str, bytes] = {}

    @property
    def major(self) -> int:
        """PostgreSQL's major version."""
        return self.control.major

    @property
    def start_lsn(self) -> int:
        """From where on WAL must be replayed: the backup's start, or the latest checkpoint's redo LSN."""
        return self.label.start_lsn if self.label else self.control.redo_lsn

    @property
    def timeline(self) -> int:
        """The timeline at :attr:`start_lsn`."""
        return self.label.timeline if self.label else self.control.timeline

    @property
    def is_shutdown(self) -> bool:
        """:attr:`start_lsn` is a shutdown checkpoint."""
        return self.label is None and self.control.is_shutdown_checkpoint

    @property
    def is_clean(self) -> bool:
        """The copy is that of a server that was shut down: every file is as of :attr:`start_lsn`."""
        return self.label is None and self.control.state in (SHUTDOWNED, SHUTDOWNED_IN_RECOVERY)

    def relation_map(self, database: int = 0, tablespace: int = GLOBAL_TABLESPACE) -> dict[int, int]:
        """OID to file number of mapped catalogs: the shared ones, or those of a database in its default tablespace.

        Raises:
            CatalogError: the map is missing or broken.
        """
        file = self._database_path(tablespace, database) / "pg_filenode.map"
        data = self.read(file)
        try:
            found = parse_relation_map(data)
        except RecordError as error:
            raise CatalogError(error.message, file=str(file)) from None
        at = crc_offset(data)
        expected = int.from_bytes(data[at : at + 4], "little")
        if crc32c(data[:at]) != expected:
            raise CatalogError(
                f"incorrect checksum in relation map, found {crc32c(data[:at]):08X}, expected {expected:08X}",
                file=str(file),
            )
        return found

    def heap(self, locator: Locator) -> bytes | None:
        """A relation's main fork, all segments joined; None if there is no such file.

        Raises:
            CatalogError: it cannot be read, or does not end at a page's end although nothing wrote during the copy.
        """
        first = self.relation_path(locator)
        if not first.exists():
            return None
        parts = [self.read(first)]
        limit = self.control.relation_segment_blocks * BLCKSZ
        while len(parts[-1]) == limit and (more := first.with_name(f"{first.name}.{len(parts)}")).exists():
            parts.append(self.read(more))
        data = b"".join(parts)
        if len(data) % BLCKSZ and self.is_clean:
            raise CatalogError(f"file has {len(data)} bytes, expected a multiple of {BLCKSZ}", file=str(first))
        return data[: len(data) // BLCKSZ * BLCKSZ]

    def relation_path(self, locator: Locator) -> Path:
        """Where a relation's main fork lies (GetRelationPath)."""
        spc, db, rel = locator
        return self._database_path(spc, db) / str(rel)

    def is_committed(self, xid: int) -> bool:
        """Whether ``pg_xact`` has the transaction as committed; False for one that was to come.

        Raises:
            CatalogError: the file that should know of it is missing.
        """
        data = self._slru("pg_xact", xid // _XACTS_PER_FILE)
        if not data and (xid - self.control.next_xid) & 0xFFFFFFFF >= 0x80000000:
            raise CatalogError(
                f"could not read the status of transaction {xid}: no such file",
                file=str(self.path / f"pg_xact/{xid // _XACTS_PER_FILE:04X}"),
                hint="the backup is incomplete; take it again",
            )
        return self._status(xid, data) == _COMMITTED

    def has_ended(self, xid: int) -> bool:
        """Whether ``pg_xact`` has the transaction as committed or aborted."""
        return self._status(xid, self._slru("pg_xact", xid // _XACTS_PER_FILE)) != _IN_PROGRESS

    @staticmethod
    def _status(xid: int, data: bytes) -> int:
        """The two bits of a transaction in its file of ``pg_xact``; those of one to come behind the file's end."""
        at, shift = xid % _XACTS_PER_FILE // 4, xid % 4 * 2
        return data[at] >> shift & 3 if at < len(data) else _IN_PROGRESS

    def update_xid(self, multi: int) -> int:
        """The transaction of a multixact that updated or deleted; 0 if all of them only locked, or it is unknown."""
        first, last = self._multi_offset(multi), self._multi_offset(multi + 1 & 0xFFFFFFFF)
        # The newest multixact has no successor yet; a group of members is enough to look at then.
        for member in range(first, last if last > first else first + 64) if first else ():
            status, xid = self._multi_member(member)
            if xid == 0:
                break
            if status >= _FIRST_UPDATE_STATUS:
                return xid
        return 0

    def _multi_offset(self, multi: int) -> int:
        data = self._slru("pg_multixact/offsets", multi // _OFFSETS_PER_FILE)
        at = multi % _OFFSETS_PER_FILE * 4
        return int.from_bytes(data[at : at + 4], "little")

    def _multi_member(self, member: int) -> tuple[int, int]:
        """Status and xid of a member (mxact_member, multixact.c)."""
        group, place = divmod(member, _MEMBERS_PER_GROUP)
        page, group = divmod(group, _GROUPS_PER_PAGE)
        data = self._slru("pg_multixact/members", page // 32)
        at = page % 32 * BLCKSZ + group * _GROUP_SIZE
        if at + _GROUP_SIZE > len(data):
            return 0, 0
        flags, *xids = struct.unpack_from("<4s4I", data, at)
        return flags[place], xids[place]

    def _slru(self, directory: str, number: int) -> bytes:
        """A file of a simple LRU; empty if it is not there."""
        name = f"{directory}/{number:04X}"
        if name not in self._slru_files:
            file = self.path / name
            self._slru_files[name] = self.read(file) if file.exists() else b""
        return self._slru_files[name]

    def _database_path(self, tablespace: int, database: int) -> Path:
        if tablespace == GLOBAL_TABLESPACE:
            return self.path / "global"
        if tablespace == DEFAULT_TABLESPACE:
            return self.path / "base" / str(database)
        version = f"PG_{self.major}_{self.control.catalog_version}"
        return self.path / "pg_tblspc" / str(tablespace) / version / str(database)

    def _check_version(self) -> None:
        file = self.path / "PG_VERSION"
        if not file.exists():
            raise CatalogError(
                "not a PostgreSQL data directory: it has no PG_VERSION",
                file=str(self.path),
                hint="name a data directory or an unpacked base backup",
            )
        found = self.read(file).decode("ascii", "replace").strip()
        if found not in {str(major) for major in VERSIONS}:
            raise CatalogError(
                f"PostgreSQL {found} is unsupported, expected one of {', '.join(map(str, VERSIONS))}", file=str(file)
            )

    def _read_label(self) -> BackupLabel | None:
        file = self.path / "backup_label"
        if not file.exists():
            return None
        text = self.read(file).decode("utf-8", "replace")
        start = _START.search(text)
        if start is None:
            raise CatalogError("backup_label has no START WAL LOCATION", file=str(file))
        timeline = _START_TIMELINE.search(text)
        return BackupLabel(Lsn.parse(start[1]), int(timeline[1]) if timeline else int(start[2][:8], 16))

    @staticmethod
    def read(file: Path) -> bytes:
        """The bytes of a file.

        Raises:
            CatalogError: it cannot be read.
        """
        try:
            return file.read_bytes()
        except OSError as error:
            raise CatalogError(f"could not read file: {error.strerror}", file=str(file)) from None
