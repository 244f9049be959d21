"""Payloads of the XLOG resource manager (PostgreSQL: ``catalog/pg_control.h``, ``access/xlog_internal.h``)."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.pg.version import VERSIONS
from headwater.rmgr.payload import Payload

CHECKPOINT_SHUTDOWN, CHECKPOINT_ONLINE, NOOP, NEXTOID, SWITCH, BACKUP_END = range(0x00, 0x60, 0x10)
PARAMETER_CHANGE, RESTORE_POINT, FPW_CHANGE, END_OF_RECOVERY, FPI_FOR_HINT, FPI = range(0x60, 0xC0, 0x10)
OVERWRITE_CONTRECORD, CHECKPOINT_REDO = 0xD0, 0xE0

WAL_LEVEL_MINIMAL, WAL_LEVEL_REPLICA, WAL_LEVEL_LOGICAL = 0, 1, 2


@dataclass(frozen=True, slots=True)
class CheckPoint:
    """``CheckPoint``, in a checkpoint record and in ``pg_control``.

    Attributes:
        redo: where replay of this checkpoint begins.
        timeline: ``ThisTimeLineID``.
        previous_timeline: the one before, if this checkpoint begins a timeline, else the same.
        full_page_writes: setting.
        wal_level: 17 and newer (0 minimal, 1 replica, 2 logical), None where not known.
        next_xid: next transaction id with its epoch, 64 bits.
        next_oid: next OID.
        oldest_xid: cluster-wide ``datfrozenxid``.
        time: seconds since 1970.
        oldest_active_xid: oldest xid running, 0 in a shutdown checkpoint.
    """

    redo: int
    timeline: int
    previous_timeline: int
    full_page_writes: bool
    wal_level: int | None
    next_xid: int
    next_oid: int
    oldest_xid: int
    time: int
    oldest_active_xid: int


@dataclass(frozen=True, slots=True)
class ParameterChange:
    """``xl_parameter_change``: settings that a standby must know, as of the server's start."""

    max_connections: int
    max_worker_processes: int
    max_wal_senders: int
    max_prepared_xacts: int
    max_locks_per_xact: int
    wal_level: int
    wal_log_hints: bool
    track_commit_timestamp: bool


@dataclass(frozen=True, slots=True)
class EndOfRecovery:
    """``xl_end_of_recovery``: a promotion without a checkpoint; ``wal_level`` is None before 17."""

    time: int
    timeline: int
    previous_timeline: int
    wal_level: int | None


@dataclass(frozen=True, slots=True)
class OverwriteContrecord:
    """``xl_overwrite_contrecord``: the record at ``overwritten_lsn`` was cut off by a crash and does not count."""

    overwritten_lsn: int
    time: int


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """``xl_restore_point``."""

    time: int
    name: bytes


def parse_checkpoint(main_data: bytes, lsn: int, major: int | None = None) -> CheckPoint:
    """Read a checkpoint record's payload, or the copy of it in ``pg_control``.

    Args:
        main_data: 88 bytes.
        lsn: of the record.
        major: PostgreSQL's major version; without it ``wal_level`` stays None.

    Raises:
        RecordError: malformed.
    """
    p = Payload(main_data, "CHECKPOINT", lsn)
    redo, timeline, previous, full_page_writes = p.u64(), p.u32(), p.u32(), p.flag()
    p.align(4)
    # Before 17 these four bytes are padding.
    wal_level = p.u32()
    next_xid, next_oid, _, _, oldest_xid = p.u64(), p.u32(), p.u32(), p.u32(), p.u32()
    _, _, _ = p.u32(), p.u32(), p.u32()
    p.align(8)
    time, _, _, oldest_active = p.i64(), p.u32(), p.u32(), p.u32()
    level = wal_level if major is not None and VERSIONS[major].logs_wal_level else None
    return CheckPoint(
        redo, timeline, previous, full_page_writes, level, next_xid, next_oid, oldest_xid, time, oldest_active
    )


def parse_parameter_change(main_data: bytes, lsn: int) -> ParameterChange:
    """Read PARAMETER_CHANGE.

    Raises:
        RecordError: malformed.
    """
    p = Payload(main_data, "PARAMETER_CHANGE", lsn)
    return ParameterChange(p.i32(), p.i32(), p.i32(), p.i32(), p.i32(), p.i32(), p.flag(), p.flag())


def parse_end_of_recovery(main_data: bytes, lsn: int, major: int) -> EndOfRecovery:
    """Read END_OF_RECOVERY.

    Raises:
        RecordError: malformed.
    """
    p = Payload(main_data, "END_OF_RECOVERY", lsn)
    return EndOfRecovery(p.i64(), p.u32(), p.u32(), p.i32() if VERSIONS[major].logs_wal_level else None)


def parse_overwrite_contrecord(main_data: bytes, lsn: int) -> OverwriteContrecord:
    """Read OVERWRITE_CONTRECORD.

    Raises:
        RecordError: malformed.
    """
    p = Payload(main_data, "OVERWRITE_CONTRECORD", lsn)
    return OverwriteContrecord(p.u64(), p.i64())


def parse_restore_point(main_data: bytes, lsn: int) -> RestorePoint:
    """Read RESTORE_POINT.

    Raises:
        RecordError: malformed.
    """
    p = Payload(main_data, "RESTORE_POINT", lsn)
    return RestorePoint(p.i64(), p.cstring())


def parse_backup_end(main_data: bytes, lsn: int) -> int:
    """Read BACKUP_END: LSN where the backup started.

    Raises:
        RecordError: malformed.
    """
    return Payload(main_data, "BACKUP_END", lsn).u64()
