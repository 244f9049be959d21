"""Payloads of the REPLORIGIN resource manager (PostgreSQL: ``replication/origin.h``)."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.rmgr.description_parts import Style
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

SET, DROP = 0x00, 0x10


@dataclass(frozen=True, slots=True)
class OriginSet:
    """``xl_replorigin_set``: progress of a replication origin was set by hand."""

    remote_lsn: int
    origin: int
    force: bool


def parse_set(main_data: bytes, lsn: int) -> OriginSet:
    """Read SET.

    Raises:
        RecordError: malformed.
    """
    p = Payload(main_data, "replication origin SET", lsn)
    return OriginSet(p.u64(), p.u16(), p.flag())


def parse_drop(main_data: bytes, lsn: int) -> int:
    """Read DROP and return the origin's id.

    Raises:
        RecordError: malformed.
    """
    return Payload(main_data, "replication origin DROP", lsn).u16()


def describe(record: Record, style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (replorigin_desc).

    Raises:
        RecordError: malformed.
    """
    if record.kind == DROP:
        return f"drop {parse_drop(record.main_data, record.lsn)}"
    progress = parse_set(record.main_data, record.lsn)
    return f"set {progress.origin}; lsn {style.lsn(progress.remote_lsn)}; force: {int(progress.force)}"
