"""The messages of a physical stream: bytes to values and back.

All numbers are of big-endian order; times are microseconds since 2000-01-01 UTC.

PostgreSQL: walsender.c (XLogSendPhysical, WalSndKeepalive, ProcessStandbyReplyMessage), protocol-replication.
"""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

from headwater.errors import WalError
from headwater.pg.lsn import Lsn

POSTGRES_EPOCH = 946_684_800
"""Seconds from 1970-01-01 to 2000-01-01."""

_WAL_DATA = struct.Struct(">cQQq")
_KEEPALIVE = struct.Struct(">cQq?")
_STATUS = struct.Struct(">cQQQq?")


class WalData(NamedTuple):
    """Bytes of the WAL.

    Attributes:
        lsn: of the first byte.
        end: how far the server's WAL reaches.
        data: the bytes.
    """

    lsn: int
    end: int
    data: memoryview


class Keepalive(NamedTuple):
    """A sign of life.

    Attributes:
        end: how far the server's WAL reaches.
        wants_reply: the server waits for a status.
    """

    end: int
    wants_reply: bool


def parse_message(message: bytes) -> WalData | Keepalive:
    """Parse a message of the server.

    Raises:
        WalError: it is of an unknown kind, or too short.
    """
    kind = message[:1]
    if kind == b"w" and len(message) >= _WAL_DATA.size:
        _, lsn, end, _ = _WAL_DATA.unpack_from(message)
        return WalData(lsn, end, memoryview(message)[_WAL_DATA.size :])
    if kind == b"k" and len(message) == _KEEPALIVE.size:
        _, end, _, wants_reply = _KEEPALIVE.unpack(message)
        return Keepalive(end, wants_reply)
    raise WalError(
        f"a streaming message of kind {kind!r} has {len(message)} bytes, expected b'w' of at least {_WAL_DATA.size}"
        f" or b'k' of {_KEEPALIVE.size}"
    )


def status_update(written: int, flushed: int, applied: int, wants_reply: bool = False) -> bytes:
    """Make a status (StandbyStatusUpdate).

    Args:
        written: LSN up to which all is written; flushed: up to which it is synced; applied: 0 for an archive.
        wants_reply: the server is asked for a sign of life.
    """
    now = int((time.time() - POSTGRES_EPOCH) * 1_000_000)
    return _STATUS.pack(b"r", Lsn(written), flushed, applied, now, wants_reply)
