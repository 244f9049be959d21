"""Payloads of the STANDBY resource manager (PostgreSQL: ``storage/standbydefs.h``)."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.rmgr.description_parts import Style, invalidations_text
from headwater.rmgr.invalidation import MESSAGE_SIZE, Invalidation, parse_invalidations
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

LOCK, RUNNING_XACTS, INVALIDATIONS = 0x00, 0x10, 0x20


@dataclass(frozen=True, slots=True)
class RunningXacts:
    """``xl_running_xacts``: the transactions that were running; the snapshot builder lives on these.

    Attributes:
        next_xid: the next xid to be given out.
        oldest_running_xid: the oldest xid running, ``next_xid`` if there is none.
        latest_completed_xid: the newest xid that ended.
        is_overflowed: some subtransactions are missing.
        xids: the toplevel transactions that run.
        subxids: the subtransactions that run.
    """

    next_xid: int
    oldest_running_xid: int
    latest_completed_xid: int
    is_overflowed: bool
    xids: tuple[int, ...]
    subxids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StandbyLock:
    """``xl_standby_lock``: an access exclusive lock."""

    xid: int
    database: int
    relation: int


@dataclass(frozen=True, slots=True)
class StandbyInvalidations:
    """``xl_invalidations``: messages of a commit without an xid, for hot standby (decoding reads XACT INVALIDATION)."""

    database: int
    tablespace: int
    init_file: bool
    messages: tuple[Invalidation, ...]


def parse_running_xacts(main_data: bytes, lsn: int) -> RunningXacts:
    """Read RUNNING_XACTS.

    Raises:
        RecordError: malformed.
    """
    p = Payload(main_data, "RUNNING_XACTS", lsn)
    count, sub_count, is_overflowed = p.i32(), p.i32(), p.flag()
    p.align(4)
    next_xid, oldest, latest = p.u32(), p.u32(), p.u32()
    return RunningXacts(next_xid, oldest, latest, is_overflowed, p.u32s(count), p.u32s(sub_count))


def parse_locks(main_data: bytes, lsn: int) -> tuple[StandbyLock, ...]:
    """Read LOCK.

    Raises:
        RecordError: malformed.
    """
    p = Payload(main_data, "standby LOCK", lsn)
    return tuple(StandbyLock(*lock) for lock in p.locators(p.i32()))


def parse_standby_invalidations(main_data: bytes, lsn: int, major: int) -> StandbyInvalidations:
    """Read INVALIDATIONS.

    Raises:
        RecordError: malformed.
    """
    p = Payload(main_data, "standby INVALIDATIONS", lsn)
    database, tablespace, init_file = p.u32(), p.u32(), p.flag()
    p.align(4)
    messages = parse_invalidations(p.items(p.i32(), MESSAGE_SIZE), lsn, major)
    return StandbyInvalidations(database, tablespace, init_file, messages)


def describe(record: Record, style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (standby_desc).

    Raises:
        RecordError: malformed.
    """
    kind, data, lsn = record.kind, record.main_data, record.lsn
    if kind == LOCK:
        locks = parse_locks(data, lsn)
        return "".join(f"xid {lock.xid} db {lock.database} rel {lock.relation} " for lock in locks)
    if kind == RUNNING_XACTS:
        return _running_text(parse_running_xacts(data, lsn), style.version.lists_running_subxacts)
    invals = parse_standby_invalidations(data, lsn, style.version.major)
    init_file = (invals.database, invals.tablespace) if invals.init_file else None
    return invalidations_text(invals.messages, init_file)


def _running_text(running: RunningXacts, lists_subxacts: bool) -> str:
    text = f"nextXid {running.next_xid} latestCompletedXid {running.latest_completed_xid}"
    text += f" oldestRunningXid {running.oldest_running_xid}{_numbered('xacts', running.xids)}"
    if not lists_subxacts:
        return text + "; subxid ovf" * running.is_overflowed
    return text + "; subxid overflowed" * running.is_overflowed + _numbered("subxacts", running.subxids)


def _numbered(what: str, xids: tuple[int, ...]) -> str:
    return f"; {len(xids)} {what}:{''.join(f' {xid}' for xid in xids)}" if xids else ""
