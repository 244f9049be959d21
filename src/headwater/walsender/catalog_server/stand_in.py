"""A role that may log in, has no secret to read, and is no superuser, in every copy of every cluster: ``pg_monitor``.

Who asks as somebody who is no role of the source, or as a superuser, is served in its name: no superuser's session is
ever given to a client. In the source the role cannot log in. Here it can: one byte of its row in ``pg_authid`` is
another, in the backup's file and in every page image that brings the row again.

Known gap: a compressed page image cannot be changed in place. Behind one, nobody is stood in for.
"""

from __future__ import annotations

import struct

from headwater.catalog.pages import BLCKSZ
from headwater.existing.page_checksum import with_checksums
from headwater.wal.checksum import crc32c
from headwater.wal.layout import RECORD_HEADER_SIZE
from headwater.wal.records.record import Record

STAND_IN = "pg_monitor"
_ROW = struct.pack("<I", 3373) + STAND_IN.encode().ljust(64, b"\0")
"""How its row begins, by ``pg_authid.dat``."""

_MAY_LOG_IN_AT = len(_ROW) + 4
"""Offset of ``rolcanlogin``, behind four other flags."""

_CRC_AT = 20


def letting_in(pages: bytes, has_checksums: bool) -> bytes:
    """Return the pages of ``pg_authid`` with a row by which the role may log in."""
    changed = bytearray(pages)
    touched = {at // BLCKSZ for at in _let_in(changed)}
    return bytes(with_checksums(changed, touched)) if has_checksums else bytes(changed)


def record_letting_in(record: bytes) -> list[tuple[int, bytes]]:
    """Find what is to be changed in a record that may hold the row: offsets, and bytes there."""
    changed = bytearray(record)
    places = _let_in(changed)
    if not places:
        return []
    checksum = crc32c(bytes(changed[RECORD_HEADER_SIZE:]) + bytes(changed[:_CRC_AT]))
    return [*((at, b"\1") for at in places), (_CRC_AT, struct.pack("<I", checksum))]


def hides_row(record: Record) -> bool:
    """Tell whether a record has a page image in which the row cannot be seen."""
    return any(block.image is not None and block.image.method is not None for block in record.blocks)


def _let_in(data: bytearray) -> list[int]:
    places, at = [], data.find(_ROW)
    while at >= 0:
        places.append(at + _MAY_LOG_IN_AT)
        data[at + _MAY_LOG_IN_AT] = 1
        at = data.find(_ROW, at + len(_ROW))
    return places
