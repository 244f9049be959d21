"""A base backup over the replication protocol, with the WAL that it needs.

In: a :class:`BackupRequest`. Out: a directory that ``--catalog`` takes. It has the files of the data directory, or its
archives as tar, and in ``pg_wal`` the WAL from the backup's start to its end.

The WAL is received over a second connection, from where the server says that the backup starts. A temporary slot, made
before, keeps it there until then. Each file is summed up as it comes and compared with the manifest. All is synced
under another name before it gets its own.

Invariants: the directory is whole, or not there.

PostgreSQL: basebackup.c, basebackup_copy.c (14 to 19); pg_basebackup.c does the same.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from headwater.base.locks import lock
from headwater.base.system_errors import errors_as
from headwater.base.whole_files import move_whole, sync_tree
from headwater.errors import CatalogError, HeadwaterError, ServerError
from headwater.jobs.unforeseen import unforeseen
from headwater.pg.lsn import Lsn
from headwater.pg.version import Version
from headwater.receiver.backup_archives import archives_of
from headwater.receiver.backup_files import ArchivesOnDisk, FilesOnDisk
from headwater.receiver.backup_manifest import NAME as MANIFEST
from headwater.receiver.backup_manifest import FileSum, check_manifest, check_wal
from headwater.receiver.received_files import name_partial
from headwater.receiver.replication_connection import ReplicationConnection, Row
from headwater.receiver.wal_receiver import Position, ReceiveRequest, WalReceiver

Progress = Callable[[str, int, int], None]

PLAIN, TAR = "plain", "tar"
_WAL = "pg_wal"


@dataclass(frozen=True, kw_only=True)
class BackupRequest:
    """A request for a base backup.

    Attributes:
        conninfo: libpq's connection string or URI.
        directory: is made; must not be there, or be empty.
        form: PLAIN for the files themselves, TAR for an archive a tablespace.
        is_compressed: archives are compressed with gzip.
        is_fast: the server makes its checkpoint at once.
        label: the backup's.
        has_slot: a temporary slot keeps the WAL on the server until it is here.
    """

    conninfo: str
    directory: Path
    form: str = PLAIN
    is_compressed: bool = False
    is_fast: bool = True
    label: str = "headwater base backup"
    has_slot: bool = True


@dataclass(frozen=True)
class Backup:
    """A base backup that was taken.

    Attributes:
        timeline: of the server.
        start, end: LSNs between which WAL makes it consistent.
        size: bytes of its files.
    """

    timeline: int
    start: int
    end: int
    size: int


def take_backup(request: BackupRequest, report: Progress = lambda *_: None) -> Backup:
    """Take a base backup.

    Args:
        request: what is wanted.
        report: called with a step's name, kilobytes done, and kilobytes in all.

    Raises:
        UsageError: the connection string is malformed.
        ServerError: the server refuses.
        ConnectionLostError: there is no server, or there is none any more.
        CatalogError: the directory is not empty, or what came is not what the manifest lists.
        HeadwaterError: a file cannot be written.
    """
    directory = request.directory
    with errors_as(CatalogError, "open directory", directory):
        if directory.exists() and any(directory.iterdir()):
            raise CatalogError("the directory is not empty", file=str(directory), hint="name a new one")
    with _part_of(directory) as part:
        try:
            with errors_as(CatalogError, "write the backup"):
                backup = _taken(request, part, report)
                sync_tree(part)
                move_whole(part, directory)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    return backup


@contextmanager
def _part_of(directory: Path) -> Iterator[Path]:
    """Hold the directory that a backup is taken into before it has its name; it is made, and empty.

    What a process has left there that is not any more goes.

    Raises:
        CatalogError: another process takes a backup there, or it cannot be made.
    """
    part = directory.with_name(f".{directory.name}.part")
    with errors_as(CatalogError, "open directory", part):
        part.mkdir(0o700, parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with errors_as(CatalogError, "lock directory", part):
            is_mine = lock(descriptor) and part.exists() and os.path.samestat(os.fstat(descriptor), part.stat())
        if not is_mine:
            raise CatalogError("another backup is being taken into the directory", file=str(directory))
        with errors_as(CatalogError, "empty directory", part):
            for left in part.iterdir():
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        yield part
    finally:
        os.close(descriptor)


def _taken(request: BackupRequest, part: Path, report: Progress) -> Backup:
    """Take the backup into a directory that is not the last one."""
    with ReplicationConnection(request.conninfo) as connection:
        command = backup_command(connection.postgres, request)
        with _Wal(request, part / _WAL) as wal:
            connection.begin(command)
            start, timeline = _place(connection.next_rows())
            wal.begin_at(Position(timeline, start))
            tablespaces = connection.next_rows()
            total = sum(int(row[2] or 0) for row in tablespaces)
            sums = _copied(connection, request, part, tablespaces, lambda done: report("base backup", done, total))
            end, _ = _place(connection.next_rows())
            connection.finish()
            wal.end_at(end)
    with errors_as(CatalogError, "look at the backup's WAL"):
        check_wal((part / MANIFEST).read_bytes(), part / _WAL)
    return Backup(timeline, start, end, sum(file.size for file in sums.values()))


def _copied(
    connection: ReplicationConnection,
    request: BackupRequest,
    part: Path,
    tablespaces: list[Row],
    report: Callable[[int], None],
) -> dict[str, FileSum]:
    """Copy all archives, and check what came."""
    sums: dict[str, FileSum] = {}
    manifest = b""
    for archive in archives_of(connection, tablespaces, report):
        if archive.is_manifest:
            manifest = archive.read()
        elif request.form == PLAIN:
            sums |= FilesOnDisk(part).write(archive)
        else:
            sums |= ArchivesOnDisk(part, request.is_compressed).write(archive)
    check_manifest(manifest, sums)
    (part / MANIFEST).write_bytes(manifest)
    return sums


def backup_command(version: Version, request: BackupRequest) -> str:
    """Make the command of a version."""
    label = "'" + request.label.replace("'", "''") + "'"
    if version.options_in_parentheses:
        checkpoint = "fast" if request.is_fast else "spread"
        options = f"LABEL {label}, PROGRESS, CHECKPOINT '{checkpoint}', WAIT 0, MANIFEST 'yes'"
        return f"BASE_BACKUP ({options}, MANIFEST_CHECKSUMS 'CRC32C')"
    fast = "FAST " if request.is_fast else ""
    return f"BASE_BACKUP LABEL {label} PROGRESS {fast}NOWAIT MANIFEST 'yes' MANIFEST_CHECKSUMS 'CRC32C'"


def _place(rows: list[Row]) -> tuple[int, int]:
    """Read an LSN and a timeline."""
    if len(rows) != 1 or len(rows[0]) < 2 or rows[0][0] is None or rows[0][1] is None:
        raise ServerError("the server does not say where the backup starts, or ends")
    return int(Lsn.parse(rows[0][0])), int(rows[0][1])


class _Wal:
    """The WAL of a backup, received by a thread; a temporary slot keeps it on the server from before the backup on."""

    def __init__(self, request: BackupRequest, directory: Path) -> None:
        slot = f"headwater_backup_{secrets.token_hex(8)}" if request.has_slot else None
        receive = ReceiveRequest(
            conninfo=request.conninfo,
            directory=directory,
            slot=slot,
            creates_slot=request.has_slot,
            is_temporary=True,
            begins_later=True,
            tries_again=False,
        )
        self._directory, self._receiver = directory, WalReceiver(receive)
        self._error: HeadwaterError | None = None
        self._thread = threading.Thread(target=self._run, name="headwater-receive-wal", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._receiver.has_slot.wait()
        if self._error is not None:
            raise self._error
        return self

    def begin_at(self, position: Position) -> None:
        """Let it begin."""
        self._receiver.begin_at(position)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._receiver.stop()
        self._thread.join()

    def end_at(self, lsn: int) -> None:
        """Wait until all is received up to an LSN; the last segment then has its name."""
        self._receiver.end_at(lsn)
        self._thread.join()
        if self._error is not None:
            raise self._error
        name_partial(self._directory)

    def _run(self) -> None:
        try:
            self._receiver.run()
        except Exception as error:
            self._error = error if isinstance(error, HeadwaterError) else unforeseen("the receiver", error)
        finally:
            self._receiver.has_slot.set()
