"""Payloads of the STANDBY resource manager (PostgreSQL: ``storage/standbydefs.h``)."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.rmgr.invalidation import MESSAGE_SIZE, Invalidation, parse_invalidations
from headwater.rmgr.payload import Payload

LOCK, RUNNING_XACTS, INVALIDATIONS = 0x00, 0x10, 0x20


@dataclass(frozen=True, slots=True)
class RunningXacts:
    """``xl_running_xacts``: which transactions were running; the snapshot builder lives on these.

    Attributes:
        next_xid: the next xid to be given out.
        oldest_running_xid: the oldest one running, ``next_xid`` if there is none.
        latest_completed_xid: the newest one ended.
        is_overflowed: some subtransactions are missing.
        xids: toplevel transactions running.
        subxids: subtransactions running.
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
