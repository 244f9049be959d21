"""The relation mapper: the files that mapped catalogs lie in (PostgreSQL: ``relmapper.c``, ``utils/relmapper.h``).

One format serves the files ``pg_filenode.map`` and the RELMAP UPDATE record, whose data is a whole file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from headwater.errors import RecordError
from headwater.rmgr.description_parts import Style
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

UPDATE = 0x00
MAGIC = 0x592717

_UPDATE = struct.Struct("<IIi")
_HEADER = struct.Struct("<ii")
_MAX_MAPPINGS = {512: 62, 524: 64}
"""MAX_MAPPINGS by the size of the file: 14 and 15 have 62 and padding, 16 and newer have 64."""


@dataclass(frozen=True, slots=True)
class RelmapUpdate:
    """``xl_relmap_update``: the new map of a database, or of the shared catalogs if ``database`` is 0."""

    database: int
    tablespace: int
    mappings: dict[int, int]


def parse_relation_map(data: bytes) -> dict[int, int]:
    """Read the file numbers by OID from the bytes of a ``pg_filenode.map``. The checksum is left to the caller.

    Raises:
        RecordError: not a relation map.
    """
    limit = _MAX_MAPPINGS.get(len(data))
    if limit is None:
        raise RecordError(f"relation map has {len(data)} bytes, expected 512 or 524")
    magic, count = _HEADER.unpack_from(data)
    if magic != MAGIC or not 0 <= count <= limit:
        raise RecordError(f"relation map has magic {magic:#x} and {count} mappings, expected {MAGIC:#x} and at most 64")
    return dict(struct.iter_unpack("<II", data[_HEADER.size : _HEADER.size + 8 * count]))


def crc_offset(data: bytes) -> int:
    """Return the offset in a ``pg_filenode.map`` of the CRC-32C over all bytes before it."""
    return _HEADER.size + 8 * _MAX_MAPPINGS[len(data)]


def parse_update(main_data: bytes, lsn: int) -> RelmapUpdate:
    """Read UPDATE's main data. Raises RecordError on a wrong size or a malformed map."""
    if len(main_data) < _UPDATE.size:
        raise RecordError(f"RELMAP UPDATE has {len(main_data)} bytes, expected at least {_UPDATE.size}", lsn=lsn)
    database, tablespace, size = _UPDATE.unpack_from(main_data)
    if len(main_data) != _UPDATE.size + size:
        raise RecordError(f"RELMAP UPDATE has {len(main_data)} bytes, expected {_UPDATE.size + size}", lsn=lsn)
    try:
        mappings = parse_relation_map(main_data[_UPDATE.size :])
    except RecordError as error:
        raise RecordError(error.message, lsn=lsn) from None
    return RelmapUpdate(database, tablespace, mappings)


def describe(record: Record, _style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (relmap_desc).

    Raises:
        RecordError: malformed.
    """
    p = Payload(record.main_data, "RELMAP UPDATE", record.lsn)
    return f"database {p.u32()} tablespace {p.u32()} size {p.i32()}"
