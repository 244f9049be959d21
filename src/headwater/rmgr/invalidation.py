"""Invalidation messages, as commits and XACT INVALIDATION records carry them (PostgreSQL: ``storage/sinval.h``)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from headwater.errors import RecordError
from headwater.pg.version import VERSIONS

CATALOG, RELCACHE, SMGR, RELMAP, SNAPSHOT, RELSYNC = -1, -2, -3, -4, -5, -6
"""``SHAREDINVAL..._ID``; from 0 on the id is a catalog cache's. RELSYNC came with 18."""

MESSAGE_SIZE = 16

_MESSAGE = struct.Struct("<b3xII4x")
_SMGR = struct.Struct("<bbHIII")


@dataclass(frozen=True, slots=True)
class Invalidation:
    """One message.

    Attributes:
        id: from 0 on a catalog cache; else one of the constants above.
        db: the database it concerns, 0 all (shared catalogs).
        value: hash value of a catalog cache entry; OID of a catalog (CATALOG) or relation (RELCACHE, SNAPSHOT,
            RELSYNC; 0 all of them); file number (SMGR); 0 (RELMAP).
    """

    id: int
    db: int
    value: int


def parse_invalidations(data: bytes, lsn: int, major: int = 18) -> tuple[Invalidation, ...]:
    """Read an array of messages.

    Args:
        data: 16 bytes each.
        lsn: of the record.
        major: PostgreSQL's major version.

    Raises:
        RecordError: not a whole number of messages, or a kind that the version does not have.
    """
    if len(data) % MESSAGE_SIZE:
        raise RecordError(f"invalidation messages have {len(data)} bytes, expected a multiple of 16", lsn=lsn)
    lowest = RELSYNC if VERSIONS[major].has_relsync_invalidations else SNAPSHOT
    return tuple(_parse(data, at, lowest, lsn) for at in range(0, len(data), MESSAGE_SIZE))


def _parse(data: bytes, at: int, lowest: int, lsn: int) -> Invalidation:
    kind, db, value = _MESSAGE.unpack_from(data, at)
    if kind < lowest:
        raise RecordError(f"unrecognized SI message ID: {kind}", lsn=lsn)
    if kind == SMGR:
        _, _, _, _, db, value = _SMGR.unpack_from(data, at)
    elif kind == RELMAP:
        # The bytes behind the database are not set by the server.
        value = 0
    return Invalidation(kind, db, value)
