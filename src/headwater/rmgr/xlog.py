"""Payloads of the XLOG resource manager (PostgreSQL: ``catalog/pg_control.h``, ``access/xlog_internal.h``)."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.pg.version import VERSIONS
from headwater.rmgr.description_parts import Style, full_xid, shown_bytes
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

CHECKPOINT_SHUTDOWN, CHECKPOINT_ONLINE, NOOP, NEXTOID, SWITCH, BACKUP_END = range(0x00, 0x60, 0x10)
PARAMETER_CHANGE, RESTORE_POINT, FPW_CHANGE, END_OF_RECOVERY, FPI_FOR_HINT, FPI = range(0x60, 0xC0, 0x10)
ASSIGN_LSN, OVERWRITE_CONTRECORD, CHECKPOINT_REDO, LOGICAL_DECODING_STATUS_CHANGE = range(0xC0, 0x100, 0x10)

WAL_LEVELS = ("minimal", "replica", "logical")
"""The names of WAL levels, by number."""

WAL_LEVEL_REPLICA, WAL_LEVEL_LOGICAL = 1, 2


@dataclass(frozen=True, slots=True)
class CheckPoint:
    """``CheckPoint``, in a checkpoint record and in ``pg_control``.

    Attributes:
        redo: LSN at which replay of this checkpoint begins.
        timeline: ``ThisTimeLineID``.
        previous_timeline: the timeline before, if this checkpoint begins a timeline, else the same.
        full_page_writes: the setting of that name.
        wal_level: 17 and newer (0 minimal, 1 replica, 2 logical), None where not known.
        decodes_on_demand: 19 and newer: whether logical decoding is on, None where not known.
        next_xid: next transaction id with its epoch, 64 bits.
        next_oid: next OID.
        next_multi, next_multi_offset: next MultiXactId, and the offset for its members.
        oldest_xid, oldest_xid_database: cluster-wide ``datfrozenxid``, and the database that has it.
        oldest_multi, oldest_multi_database: cluster-wide ``datminmxid``, and the database that has it.
        time: seconds since 1970.
        oldest_commit_ts_xid, newest_commit_ts_xid: the first and last xid whose commit times are kept.
        oldest_active_xid: oldest xid running, 0 in a shutdown checkpoint.
    """

    redo: int
    timeline: int
    previous_timeline: int
    full_page_writes: bool
    wal_level: int | None
    decodes_on_demand: bool | None
    next_xid: int
    next_oid: int
    next_multi: int
    next_multi_offset: int
    oldest_xid: int
    oldest_xid_database: int
    oldest_multi: int
    oldest_multi_database: int
    time: int
    oldest_commit_ts_xid: int
    newest_commit_ts_xid: int
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
    """``xl_restore_point``: a named point in the WAL."""

    time: int
    name: bytes


def parse_checkpoint(main_data: bytes, lsn: int, major: int) -> CheckPoint:
    """Read a checkpoint record's payload, or the copy of it in ``pg_control``.

    Args:
        main_data: 88 bytes, 96 from 19 on.
        lsn: the record's LSN.
        major: PostgreSQL's major version.

    Raises:
        RecordError: malformed.
    """
    p, version = Payload(main_data, "CHECKPOINT", lsn), VERSIONS[major]
    head = p.u64(), p.u32(), p.u32(), p.flag()
    p.align(4)
    # Before 17 these four bytes are padding.
    wal_level = p.u32()
    level = wal_level if version.logs_wal_level else None
    decodes = p.flag() if version.switches_decoding else None
    p.align(8)
    next_ids = p.u64(), p.u32(), p.u32(), p.u64() if version.has_wide_members else p.u32()
    oldest = p.u32(), p.u32(), p.u32(), p.u32()
    p.align(8)
    return CheckPoint(*head, level, decodes, *next_ids, *oldest, p.i64(), p.u32(), p.u32(), p.u32())


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
    """Read BACKUP_END and return the LSN where the backup started.

    Raises:
        RecordError: malformed.
    """
    return Payload(main_data, "BACKUP_END", lsn).u64()


def parse_decoding_status(main_data: bytes, lsn: int) -> bool:
    """Read LOGICAL_DECODING_STATUS_CHANGE: tell whether logical decoding is on from here on.

    Raises:
        RecordError: malformed.
    """
    return Payload(main_data, "LOGICAL_DECODING_STATUS_CHANGE", lsn).flag()


def describe(record: Record, style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (xlog_desc).

    Raises:
        RecordError: malformed.
    """
    kind, data, lsn = record.kind, record.main_data, record.lsn
    if kind in (CHECKPOINT_SHUTDOWN, CHECKPOINT_ONLINE):
        checkpoint = parse_checkpoint(data, lsn, style.version.major)
        return f"{_checkpoint_text(checkpoint, style)}; {'shutdown' if kind == CHECKPOINT_SHUTDOWN else 'online'}"
    if kind == NEXTOID:
        return str(Payload(data, "NEXTOID", lsn).u32())
    if kind == RESTORE_POINT:
        return shown_bytes(parse_restore_point(data, lsn).name)
    if kind == BACKUP_END:
        return style.lsn(parse_backup_end(data, lsn))
    if kind == PARAMETER_CHANGE:
        return _parameters_text(parse_parameter_change(data, lsn))
    if kind == FPW_CHANGE:
        return _switch(Payload(data, "FPW_CHANGE", lsn).flag())
    if kind == END_OF_RECOVERY:
        end = parse_end_of_recovery(data, lsn, style.version.major)
        level = "" if end.wal_level is None else f"; wal_level {_level(end.wal_level)}"
        return f"tli {end.timeline}; prev tli {end.previous_timeline}; time {style.stamp(end.time)}{level}"
    if kind == OVERWRITE_CONTRECORD:
        overwritten = parse_overwrite_contrecord(data, lsn)
        return f"lsn {style.lsn(overwritten.overwritten_lsn)}; time {style.stamp(overwritten.time)}"
    if kind == LOGICAL_DECODING_STATUS_CHANGE:
        return _switch(parse_decoding_status(data, lsn))
    return f"wal_level {_level(Payload(data, 'CHECKPOINT_REDO', lsn).i32())}" if kind == CHECKPOINT_REDO else ""


def _switch(value: bool) -> str:
    return "true" if value else "false"


def _level(number: int) -> str:
    return WAL_LEVELS[number] if 0 <= number < len(WAL_LEVELS) else "?"


def _checkpoint_text(c: CheckPoint, style: Style) -> str:
    level = "" if c.wal_level is None else f"wal_level {_level(c.wal_level)}; "
    if c.decodes_on_demand is not None:
        level += f"logical decoding {_switch(c.decodes_on_demand)}; "
    return (
        f"redo {style.lsn(c.redo)}; tli {c.timeline}; prev tli {c.previous_timeline}; "
        f"fpw {_switch(c.full_page_writes)}; {level}"
        f"xid {full_xid(c.next_xid)}; oid {c.next_oid}; multi {c.next_multi}; offset {c.next_multi_offset}; "
        f"oldest xid {c.oldest_xid} in DB {c.oldest_xid_database}; "
        f"oldest multi {c.oldest_multi} in DB {c.oldest_multi_database}; "
        f"oldest/newest commit timestamp xid: {c.oldest_commit_ts_xid}/{c.newest_commit_ts_xid}; "
        f"oldest running xid {c.oldest_active_xid}"
    )


def _parameters_text(change: ParameterChange) -> str:
    return (
        f"max_connections={change.max_connections} max_worker_processes={change.max_worker_processes} "
        f"max_wal_senders={change.max_wal_senders} max_prepared_xacts={change.max_prepared_xacts} "
        f"max_locks_per_xact={change.max_locks_per_xact} wal_level={_level(change.wal_level)} "
        f"wal_log_hints={'on' if change.wal_log_hints else 'off'} "
        f"track_commit_timestamp={'on' if change.track_commit_timestamp else 'off'}"
    )
