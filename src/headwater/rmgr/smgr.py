"""Payloads of the SMGR resource manager: files made and cut (PostgreSQL: ``catalog/storage_xlog.h``, ``storage.c``)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from headwater.errors import RecordError
from headwater.rmgr.description_parts import Style, file_path
from headwater.wal.records.record import Record

CREATE, TRUNCATE = 0x10, 0x20
CREATE_FORK_AT, CREATE_SIZE, TRUNCATE_LOCATOR_AT, TRUNCATE_SIZE = 12, 16, 4, 20
"""The offsets of fields that kernels look at: CREATE begins with its file, TRUNCATE with a number of blocks."""

TRUNCATE_HEAP, TRUNCATE_VM, TRUNCATE_FSM = 1, 2, 4

_CREATE = struct.Struct("<IIIi")
_TRUNCATE = struct.Struct("<IIIIi")


@dataclass(frozen=True, slots=True)
class SmgrCreate:
    """``xl_smgr_create``: a relation's file was created."""

    locator: tuple[int, int, int]
    fork: int


@dataclass(frozen=True, slots=True)
class SmgrTruncate:
    """``xl_smgr_truncate``: the forks named in ``flags`` now have ``blocks`` blocks."""

    blocks: int
    locator: tuple[int, int, int]
    flags: int


def parse_create(main_data: bytes, lsn: int) -> SmgrCreate:
    """Read CREATE's main data. Raises RecordError on a wrong size."""
    if len(main_data) != _CREATE.size:
        raise RecordError(f"SMGR CREATE has {len(main_data)} bytes, expected {_CREATE.size}", lsn=lsn)
    spc, db, rel, fork = _CREATE.unpack(main_data)
    return SmgrCreate((spc, db, rel), fork)


def parse_truncate(main_data: bytes, lsn: int) -> SmgrTruncate:
    """Read TRUNCATE's main data. Raises RecordError on a wrong size."""
    if len(main_data) != _TRUNCATE.size:
        raise RecordError(f"SMGR TRUNCATE has {len(main_data)} bytes, expected {_TRUNCATE.size}", lsn=lsn)
    blocks, spc, db, rel, flags = _TRUNCATE.unpack(main_data)
    return SmgrTruncate(blocks, (spc, db, rel), flags)


def describe(record: Record, style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (smgr_desc).

    Raises:
        RecordError: malformed.
    """
    if record.kind == CREATE:
        create = parse_create(record.main_data, record.lsn)
        return file_path(create.locator, create.fork, style.version)
    truncate = parse_truncate(record.main_data, record.lsn)
    return f"{file_path(truncate.locator, 0, style.version)} to {truncate.blocks} blocks flags {truncate.flags}"
