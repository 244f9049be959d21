"""A data directory, or a base backup, read without a server.

Job: the only reader of a cluster's files in this room, whatever they lie in (:mod:`headwater.catalog.copy.file_tree`).
It knows where PostgreSQL keeps things, not what they mean for decoding: ``PG_VERSION``, ``pg_control``,
``backup_label``, relation maps, relation files in any tablespace, ``pg_xact`` and ``pg_multixact``. Mirrors relpath.c,
relmapper.c, slru.c, clog.c, multixact.c and xlogbackup.c.

Known gaps: checksums of catalogs' pages are not verified; block sizes other than 8192 bytes are refused.
"""

from __future__ import annotations

import itertools
import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headwater.catalog.copy.commit_log import CommitLog, commit_log_of
from headwater.catalog.copy.crashed_copy import WrittenWal, written_wal
from headwater.catalog.copy.file_tree import TABLESPACES, DirectoryTree, FileTree
from headwater.catalog.copy.heap_files import HeapFile
from headwater.catalog.copy.tar_backup import base_archive, open_archives
from headwater.catalog.pages import BLCKSZ
from headwater.catalog.snapshot import xid_precedes
from headwater.errors import CatalogError, RecordError
from headwater.pg.catalogs import DEFAULT_TABLESPACE, GLOBAL_TABLESPACE
from headwater.pg.decimals import decimal
from headwater.pg.lsn import Lsn
from headwater.pg.version import VERSIONS
from headwater.rmgr.relmap import crc_offset, parse_relation_map
from headwater.wal.checksum import crc32c
from headwater.wal.control import (
    IN_ARCHIVE_RECOVERY,
    SHUTDOWNED,
    SHUTDOWNED_IN_RECOVERY,
    ControlFile,
    parse_control_file,
)

Locator = tuple[int, int, int]

_XACTS_PER_FILE = 32 * BLCKSZ * 4
_OFFSETS_FILE_BYTES = 32 * BLCKSZ
_MEMBERS_PER_GROUP, _GROUP_SIZE = 4, 20
_GROUPS_PER_PAGE = BLCKSZ // _GROUP_SIZE
_FIRST_MULTI = 1
_FIRST_UPDATE_STATUS = 4
_IN_PROGRESS, _COMMITTED = 0, 1

_LRU_FILE = re.compile(r"[0-9A-F]{4,15}")
_START = re.compile(r"^START WAL LOCATION: ([0-9A-F]+/[0-9A-F]+) \(file ([0-9A-F]{24})\)$", re.M)
_FROM_STANDBY = re.compile(r"^BACKUP FROM: standby$", re.M)
_MANIFEST_END = re.compile(r'"End-LSN": "([0-9A-F]+/[0-9A-F]+)"')
_INCREMENTAL = re.compile(r"^INCREMENTAL FROM LSN: ([0-9A-F]+/[0-9A-F]+)$", re.M)
_START_TIMELINE = re.compile(r"^START TIMELINE: (\d+)$", re.M)

_FOREIGN = {
    "backup.manifest": (
        "a backup of pgBackRest",
        "restore it with pgbackrest restore, and give that directory",
    ),
    "backup.info": ("a backup of Barman", "give the directory data in it, or restore it with barman recover"),
    "backup.control": ("a backup of pg_probackup", "restore it with pg_probackup restore, and give that directory"),
    "tar_partitions": ("a backup of WAL-G", "restore it with wal-g backup-fetch, and give that directory"),
}
"""Files that other programs leave in the directory of a backup: whose backup it is, and what to do with it."""


@dataclass(frozen=True, slots=True)
class BackupLabel:
    """``backup_label``: the start of an online backup.

    Attributes:
        start_lsn: START WAL LOCATION, the redo LSN of the backup's checkpoint.
        timeline: START TIMELINE.
        is_from_standby: BACKUP FROM: a standby, which writes no WAL of its own to say where the backup ended.
    """

    start_lsn: int
    timeline: int
    is_from_standby: bool = False


def running_server(path: Path) -> int | None:
    """Return the process id of the server that runs in a data directory, None without one.

    PostgreSQL: CreateLockFile, miscinit.c.

    A lock file that was copied along names another directory. A lock file that a crash left names a process that is
    gone, or one that has nothing to do with the directory. Known gap: a server on another machine that shares the
    directory.
    """
    try:
        pid_line, place = (path / "postmaster.pid").read_text("utf-8", "replace").splitlines()[:2]
        pid = abs(decimal(pid_line.strip()))
        is_here = pid != 0 and os.path.samefile(place, path)
    except (OSError, ValueError):
        return None
    return pid if is_here and _works_in(pid, path) else None


def _works_in(pid: int, path: Path) -> bool:
    """Tell whether a process lives whose working directory this is, as a server's is, or may be."""
    try:
        os.kill(pid, 0)
        return os.path.samefile(f"/proc/{pid}/cwd", path)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    except OSError:
        return not os.path.isdir("/proc/self")


def open_tree(path: Path) -> FileTree:
    """Open the files of a cluster: of a directory, or of the archives of a backup in tar format.

    Args:
        path: a data directory or plain base backup, a directory with ``base.tar``, or that archive itself; the archive
            may be compressed and have another name.

    Raises:
        CatalogError: the path is none of these, or an archive cannot be read.
    """
    if path.is_dir() and not (path / "PG_VERSION").exists():
        base = base_archive(path)
        if base is not None:
            return open_archives(base)
        for name, (what, hint) in _FOREIGN.items():
            if (path / name).exists():
                raise CatalogError(f"not a PostgreSQL data directory: {what}", file=str(path), hint=hint)
    return open_archives(path) if path.is_file() else DirectoryTree(path)


class DataDirectory:
    """A cluster's files.

    Args:
        path: the directory, or the archives of a base backup, see :func:`open_tree`.

    Attributes:
        path: the directory, or the archive that stands for it.
        tree: the cluster's files.
        control: ``global/pg_control``.
        label: ``backup_label``, None if the directory is no online backup.

    Raises:
        CatalogError: not a data directory, an unsupported version, a broken control file, an incremental backup.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.tree = open_tree(self.path)
        self._check_version()
        control = "global/pg_control"
        self.control: ControlFile = parse_control_file(
            self.tree.read(control, "control file"), self.tree.place(control)
        )
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
        """The LSN from which on WAL must be replayed: the backup's start, or the latest checkpoint's redo LSN."""
        return self.label.start_lsn if self.label else self.control.redo_lsn

    @property
    def timeline(self) -> int:
        """The timeline at :attr:`start_lsn`."""
        return self.label.timeline if self.label else self.control.timeline

    @property
    def is_shutdown(self) -> bool:
        """Whether :attr:`start_lsn` is a shutdown checkpoint."""
        return self.label is None and self.control.is_shutdown_checkpoint

    @property
    def is_clean(self) -> bool:
        """Whether the copy is that of a server that was shut down: every file is as of :attr:`start_lsn`.

        A standby's files are not, however it was stopped: it replays from an older checkpoint than it has replayed to.
        """
        return self.label is None and self.control.state == SHUTDOWNED

    @property
    def backup_start(self) -> int | None:
        """The start of an online backup of a primary, else None: its end is in the WAL and names this LSN."""
        return self.label.start_lsn if self.label is not None and not self.label.is_from_standby else None

    @property
    def is_crashed(self) -> bool:
        """Whether the copy is of a server that wrote when it was cut off.

        The copy's files are of any moment up to there.
        """
        stopped = SHUTDOWNED, SHUTDOWNED_IN_RECOVERY, IN_ARCHIVE_RECOVERY
        return self.label is None and self.control.state not in stopped

    @cached_property
    def _written(self) -> WrittenWal | None:
        """The WAL that a crashed server had written, as recovery would find it; None if the copy lacks it."""
        return written_wal(self.path / "pg_wal", self.control.redo_lsn) if self.is_crashed else None

    @property
    def reach_lsn(self) -> int:
        """The LSN to which WAL must be replayed before the copy is consistent; 0 if the copy does not say.

        A standby's control file says so, for a crashed server's copy the end of its own ``pg_wal``.

        Raises:
            WalError: the WAL of the copy cannot be read.
        """
        if self._written is not None:
            return max(self._written.end_lsn, self.control.min_recovery_lsn)
        return 0 if self.is_clean else self.control.min_recovery_lsn

    @property
    def reach_timeline(self) -> int:
        """The timeline of :attr:`reach_lsn`, and of everything else in the copy."""
        if self._written is not None:
            return self._written.timeline
        return self.control.min_recovery_timeline if self.reach_lsn else self.control.timeline

    def manifest_end_lsn(self) -> int | None:
        """Read the last LSN that ``backup_manifest`` says a backup needs; None without such a file.

        The file lies beside the archives of a backup in tar format.
        """
        file = (self.path if self.path.is_dir() else self.path.parent) / "backup_manifest"
        try:
            ends = _MANIFEST_END.findall(file.read_text("utf-8", "replace"))
        except OSError:
            return None
        return max((Lsn.parse(end) for end in ends), default=None)

    def relation_map(self, database: int = 0, tablespace: int = GLOBAL_TABLESPACE) -> dict[int, int]:
        """Read the file numbers of mapped catalogs by OID: the shared ones, or a database's in its default tablespace.

        Raises:
            CatalogError: the map is missing or broken.
        """
        name = self._map_name(database, tablespace)
        data = self.tree.read(name)
        try:
            mappings = parse_relation_map(data)
        except RecordError as error:
            raise CatalogError(error.message, file=self.tree.place(name)) from None
        at = crc_offset(data)
        expected = int.from_bytes(data[at : at + 4], "little")
        if crc32c(data[:at]) != expected:
            raise CatalogError(
                f"incorrect checksum in relation map, found {crc32c(data[:at]):08X}, expected {expected:08X}",
                file=self.tree.place(name),
            )
        return mappings

    def has_database(self, database: int, tablespace: int) -> bool:
        """Tell whether there are a database's files. A copy of a server that ran may lack them."""
        return self.is_clean or self.tree.exists(self._map_name(database, tablespace))

    def _map_name(self, database: int, tablespace: int) -> str:
        return f"{self._database_folder(tablespace, database)}/pg_filenode.map"

    def expect_heaps(self, locators: Iterable[Locator]) -> None:
        """Announce that these relations will be read next; relations that are not there are passed over.

        Raises:
            CatalogError: the copy cannot be read.
        """
        self.tree.expect(map(self._relation_name, locators))

    def has_heap(self, locator: Locator) -> bool:
        """Tell whether there is a file of a relation's main fork."""
        return self.tree.exists(self._relation_name(locator))

    def heap(self, locator: Locator) -> bytes | None:
        """Read a relation's main fork, all segments joined; None if there is no such file.

        Raises:
            CatalogError: the fork cannot be read, or does not end at a page's end although nothing wrote during the
                copy.
        """
        first = self._relation_name(locator)
        if not self.tree.exists(first):
            return None
        parts = [self.tree.read(first)]
        limit = self.control.relation_segment_blocks * BLCKSZ
        while len(parts[-1]) == limit and self.tree.exists(more := f"{first}.{len(parts)}"):
            parts.append(self.tree.read(more))
        data = b"".join(parts)
        self._check_size(locator, len(data))
        return data[: len(data) // BLCKSZ * BLCKSZ]

    def heap_file(self, locator: Locator) -> HeapFile:
        """Locate a relation's main fork, for tasks that read it; no segments if there is no such file.

        Raises:
            CatalogError: as :meth:`heap`.
        """
        first = self._relation_name(locator)
        segments = [self.tree.piece(first)] if self.tree.exists(first) else []
        limit = self.control.relation_segment_blocks * BLCKSZ
        while segments and segments[-1].size == limit and self.tree.exists(more := f"{first}.{len(segments)}"):
            segments.append(self.tree.piece(more))
        self._check_size(locator, sum(piece.size for piece in segments))
        return HeapFile(tuple(segments), self.control.relation_segment_blocks)

    def _check_size(self, locator: Locator, size: int) -> None:
        if size % BLCKSZ and self.is_clean:
            raise CatalogError(
                f"file has {size} bytes, expected a multiple of {BLCKSZ}",
                file=self.relation_place(locator),
                hint="the copy is incomplete; take it again",
            )

    def require_heap(self, locator: Locator, what: str) -> None:
        """Check that there is a file of a relation's main fork.

        Args:
            locator: the relation; what: the relation's name, for errors.

        Raises:
            CatalogError: there is no such file.
        """
        if self.has_heap(locator):
            return
        reason, hint = self.tree.why_missing(self._relation_name(locator))
        raise CatalogError(
            f"{what} has no file in the copy ({reason}), and no record since makes one",
            lsn=self.start_lsn,
            file=self.relation_place(locator),
            hint=hint or "the backup is incomplete; take it again",
        )

    def relation_place(self, locator: Locator) -> str:
        """Say where a relation's main fork lies, or should lie, for errors."""
        return self.tree.place(self._relation_name(locator))

    def _relation_name(self, locator: Locator) -> str:
        """Name a relation's main fork (GetRelationPath)."""
        spc, db, rel = locator
        return f"{self._database_folder(spc, db)}/{rel}"

    def is_committed(self, xid: int) -> bool:
        """Tell whether ``pg_xact`` has the transaction as committed; False for one that was to come.

        Raises:
            CatalogError: the file that should know of the transaction is missing, or too short.
        """
        return self._status(xid, xid_precedes(xid, self.control.next_xid)) == _COMMITTED

    def has_ended(self, xid: int) -> bool:
        """Tell whether ``pg_xact`` has the transaction as committed or aborted.

        Raises:
            CatalogError: as :meth:`is_committed`.
        """
        return self._status(xid, xid_precedes(xid, self.control.next_xid)) != _IN_PROGRESS

    def _status(self, xid: int, is_old: bool) -> int:
        """Return the two bits of a transaction in ``pg_xact``."""
        number, at = divmod(xid, _XACTS_PER_FILE)
        byte = self._stored("pg_xact", number, at // 4, 1, f"transaction {xid}", is_old)
        return byte[0] >> at % 4 * 2 & 3 if byte else _IN_PROGRESS

    def status_files(self) -> dict[int, bytes]:
        """Read the files of ``pg_xact``, by their numbers.

        Raises:
            CatalogError: a file cannot be read.
        """
        numbers = [int(name, 16) for name in self.tree.names("pg_xact") if _LRU_FILE.fullmatch(name)]
        return {number: self._slru("pg_xact", number) for number in numbers}

    def commit_log(self) -> CommitLog:
        """Read all of ``pg_xact``.

        Raises:
            CatalogError: a file cannot be read.
        """
        control = self.control
        return commit_log_of(
            self.status_files(), control.next_xid & 0xFFFFFFFF, control.next_multi, self.label is not None
        )

    def update_xid(self, multi: int) -> int:
        """Return the transaction of a multixact that updated or deleted.

        It is 0 if all only locked, or the multixact was to come.

        Raises:
            CatalogError: a file that should know of the multixact is missing, or too short, or has forgotten it.
        """
        is_old = xid_precedes(multi, self.control.next_multi)
        first = self._multi_offset(multi, is_old)
        # An online backup may have copied the file before the multixact was made, and pg_control after that.
        if first == 0 and is_old and self.label is None:
            raise self._lost_multi(multi)
        return self._updater(multi, first, is_old)

    def update_xid_before(self, multi: int) -> int:
        """Return the transaction that updated or deleted, of a multixact that is older than :attr:`start_lsn`.

        The multixact has such a transaction.

        Raises:
            CatalogError: the copy does not know the transaction.
        """
        first = self._multi_offset(multi, True)
        updater = self._updater(multi, first, True)
        if not updater:
            raise self._lost_multi(multi)
        return updater

    def _lost_multi(self, multi: int) -> CatalogError:
        return CatalogError(
            f"could not read who has updated or deleted of multixact {multi}, as a row has it",
            lsn=self.start_lsn,
            file=self.tree.place("pg_multixact"),
            hint="the backup is damaged or incomplete; take it again",
        )

    def _updater(self, multi: int, first: int, is_old: bool) -> int:
        members = self._members(multi, first, is_old) if first else ()
        return next((xid for status, xid in members if status >= _FIRST_UPDATE_STATUS), 0)

    def _members(self, multi: int, first: int, is_old: bool) -> Iterator[tuple[int, int]]:
        """Give status and xid of a multixact's members (GetMultiXactIdMembers).

        For the newest multixact, the start of the next one may not be known: its members end where there is none. There
        is none at 0 either, where their numbers begin again.
        """
        most = (1 << 8 * self._offset_size) - 1
        last = self._multi_offset(max(multi + 1 & 0xFFFFFFFF, _FIRST_MULTI), False)
        for number in range((last - first) & most) if last else itertools.count():
            member = (first + number) & most
            status, xid = self._multi_member(member, f"multixact {multi}", is_old and last != 0)
            if xid:
                yield status, xid
            elif member:
                return

    @property
    def _offset_size(self) -> int:
        return 8 if VERSIONS[self.major].has_wide_members else 4

    def _multi_offset(self, multi: int, is_old: bool) -> int:
        size = self._offset_size
        number, at = divmod(multi, _OFFSETS_FILE_BYTES // size)
        stored = self._stored("pg_multixact/offsets", number, at * size, size, f"multixact {multi}", is_old)
        return int.from_bytes(stored, "little")

    def _multi_member(self, member: int, what: str, is_old: bool) -> tuple[int, int]:
        """Read status and xid of a member (mxact_member, multixact.c)."""
        group, place = divmod(member, _MEMBERS_PER_GROUP)
        page, group = divmod(group, _GROUPS_PER_PAGE)
        at = page % 32 * BLCKSZ + group * _GROUP_SIZE
        data = self._stored("pg_multixact/members", page // 32, at, _GROUP_SIZE, what, is_old)
        if len(data) < _GROUP_SIZE:
            return 0, 0
        flags, *xids = struct.unpack("<4s4I", data)
        return flags[place], xids[place]

    def _stored(self, directory: str, number: int, at: int, size: int, what: str, is_old: bool) -> bytes:
        """Read bytes of a simple LRU's file; short or none if the file ends before.

        Args:
            directory: the LRU's directory; number: the file's number in it.
            at: offset; size: bytes.
            what: the object whose bytes they are, for errors.
            is_old: whether the bytes were written before the copy was made, so that they must be there; an online
                backup's file may have been copied before it grew.
        """
        data = self._slru(directory, number)
        if is_old and at + size > len(data) and (not data or self.label is None):
            reason = f"the file ends at {len(data)} bytes" if data else "no such file"
            raise CatalogError(
                f"could not read the status of {what}: {reason}",
                file=self.tree.place(f"{directory}/{number:04X}"),
                hint="the backup is incomplete; take it again",
            )
        return data[at : at + size]

    def _slru(self, directory: str, number: int) -> bytes:
        """Read a file of a simple LRU; empty if it is not there."""
        name = f"{directory}/{number:04X}"
        if name not in self._slru_files:
            self._slru_files[name] = self.tree.read(name) if self.tree.exists(name) else b""
        return self._slru_files[name]

    def _database_folder(self, tablespace: int, database: int) -> str:
        if tablespace == GLOBAL_TABLESPACE:
            return "global"
        if tablespace == DEFAULT_TABLESPACE:
            return f"base/{database}"
        return f"{TABLESPACES}{tablespace}/PG_{self.major}_{self.control.catalog_version}/{database}"

    def _check_version(self) -> None:
        if not self.tree.exists("PG_VERSION"):
            missing = "it has no PG_VERSION" if self.path.exists() else "no such file or directory"
            raise CatalogError(
                f"not a PostgreSQL data directory: {missing}",
                file=str(self.path),
                hint="name a data directory, or a base backup as pg_basebackup writes it, plain or in tar format",
            )
        version = self.tree.read("PG_VERSION").decode("ascii", "replace").strip()
        if version not in {str(major) for major in VERSIONS}:
            raise CatalogError(
                f"PostgreSQL {version} is unsupported, expected one of {', '.join(map(str, VERSIONS))}",
                file=self.tree.place("PG_VERSION"),
            )

    def _read_label(self) -> BackupLabel | None:
        if not self.tree.exists("backup_label"):
            return None
        text = self.tree.read("backup_label").decode("utf-8", "replace")
        start, earlier = _START.search(text), _INCREMENTAL.search(text)
        if earlier is not None:
            raise CatalogError(
                f"this is an incremental backup: files have only what was changed since {earlier[1]}",
                file=self.tree.place("backup_label"),
                hint="combine it with the backups before it (pg_combinebackup), and give the result",
            )
        if start is None:
            raise CatalogError("backup_label has no START WAL LOCATION", file=self.tree.place("backup_label"))
        timeline = _START_TIMELINE.search(text)
        return BackupLabel(
            Lsn.parse(start[1]),
            decimal(timeline[1]) if timeline else int(start[2][:8], 16),
            _FROM_STANDBY.search(text) is not None,
        )
