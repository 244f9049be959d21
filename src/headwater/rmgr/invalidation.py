"""Invalidation messages, as commits and XACT INVALIDATION records carry them (PostgreSQL: ``storage/sinval.h``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.errors import RecordError
from headwater.pg.version import VERSIONS

MESSAGE_SIZE = 16

CATALOG, RELCACHE, SMGR, RELMAP, SNAPSHOT, RELSYNC = -1, -2, -3, -4, -5, -6
"""Ids of messages (``SHAREDINVAL..._ID``); from 0 on the id is a catalog cache's. RELSYNC came with 18."""


@dataclass(frozen=True, slots=True)
class Invalidation:
    """An invalidation message.

    Attributes:
        id: from 0 on a catalog cache; else one of the ids above.
        db: the database it concerns, 0 all (shared catalogs).
        value: hash value of a catalog cache entry; OID of a catalog (CATALOG) or relation (RELCACHE, SNAPSHOT,
            RELSYNC; 0 all of them); file number (SMGR); 0 (RELMAP).
    """

    id: int
    db: int
    value: int


class MessageColumns(NamedTuple):
    """Messages, one element each; see :class:`Invalidation`.

    Attributes:
        id: int8[n]; db: uint32[n]; value: uint32[n].
    """

    id: NDArray[np.int8]
    db: NDArray[np.uint32]
    value: NDArray[np.uint32]


def message_columns(data: NDArray[np.uint8], lsn: NDArray[np.int64], major: int) -> MessageColumns:
    """Read messages of many records.

    Args:
        data: uint8[16 n] the messages.
        lsn: int64[n] LSNs of their records.
        major: PostgreSQL's major version.

    Raises:
        RecordError: a kind that the version does not have.
    """
    raw = data.reshape(-1, MESSAGE_SIZE)
    kind, words = raw[:, 0].view(np.int8), np.ascontiguousarray(raw).view("<u4")
    unknown = np.flatnonzero(kind < _lowest(major))
    if len(unknown):
        raise _unknown(int(kind[unknown[0]]), int(lsn[unknown[0]]))
    is_file = kind == SMGR
    db = np.where(is_file, words[:, 2], words[:, 1])
    # The server does not set the bytes after the database of RELMAP.
    value = np.where(is_file, words[:, 3], np.where(kind == RELMAP, np.uint32(0), words[:, 2]))
    return MessageColumns(kind.copy(), db, value)


def _lowest(major: int) -> int:
    return RELSYNC if VERSIONS[major].has_relsync_invalidations else SNAPSHOT


def _unknown(kind: int, lsn: int) -> RecordError:
    return RecordError(f"unrecognized SI message ID: {kind}", lsn=lsn)


def parse_invalidations(data: bytes, lsn: int, major: int = 18) -> tuple[Invalidation, ...]:
    """Read an array of messages.

    Args:
        data: 16 bytes each.
        lsn: the record's LSN.
        major: PostgreSQL's major version.

    Raises:
        RecordError: not a whole number of messages, or a kind that the version does not have.
    """
    if len(data) % MESSAGE_SIZE:
        raise RecordError(f"invalidation messages have {len(data)} bytes, expected a multiple of 16", lsn=lsn)
    columns = message_columns(np.frombuffer(data, np.uint8), np.full(len(data) // MESSAGE_SIZE, lsn), major)
    return tuple(Invalidation(*row) for row in zip(*(column.tolist() for column in columns), strict=True))
