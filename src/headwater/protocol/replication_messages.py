"""The messages of a stream of replication, inside CopyData: bytes to values and back, of both sides.

All numbers are of big-endian order; times are microseconds since 2000-01-01 UTC.

PostgreSQL: walsender.c (XLogSendPhysical, WalSndPrepareWrite, WalSndKeepalive, ProcessStandbyReplyMessage),
protocol-replication.
"""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

from headwater.errors import SessionError, WalError
from headwater.pg.lsn import Lsn
from headwater.pg.sqlstates import PROTOCOL_VIOLATION
from headwater.pg.version import Version
from headwater.protocol.frontend_messages import BrokenMessageError

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
    return _STATUS.pack(b"r", Lsn(written), flushed, applied, present(), wants_reply)


def present() -> int:
    """Return the time, in microseconds since 2000-01-01 UTC."""
    return int((time.time() - POSTGRES_EPOCH) * 1_000_000)


def keepalive(end: int, wants_reply: bool) -> bytes:
    """Make a sign of life.

    Args:
        end: LSN up to which everything has been sent.
        wants_reply: the client is asked for a status.
    """
    return _KEEPALIVE.pack(b"k", end, present(), wants_reply)


def wal_data(lsn: int, end: int, data: bytes) -> bytes:
    """Make a message of bytes of the WAL.

    Args:
        lsn: of the first byte; end: how far the server's WAL reaches.
        data: the bytes.
    """
    return _WAL_DATA.pack(b"w", lsn, end, present()) + data


class StandbyStatus(NamedTuple):
    """A client's status.

    Attributes:
        written, flushed, applied: LSNs up to which the client has come; 0 where it does not say.
        time: by its clock, microseconds since 2000-01-01 UTC.
        wants_reply: it asks for a sign of life.
    """

    written: int
    flushed: int
    applied: int
    time: int
    wants_reply: bool


class HotStandbyFeedback(NamedTuple):
    """A standby's oldest transactions, which rows are to be kept for.

    Attributes:
        time: as in :class:`StandbyStatus`.
        xmin, xmin_epoch, catalog_xmin, catalog_xmin_epoch: 0 for none.
    """

    time: int
    xmin: int
    xmin_epoch: int
    catalog_xmin: int
    catalog_xmin_epoch: int


class PrimaryStatusRequest(NamedTuple):
    """A question for the primary's status, which subscribers of 19 need where they retain dead tuples.

    Attributes:
        time: as in :class:`StandbyStatus`.
    """

    time: int


ClientMessage = StandbyStatus | HotStandbyFeedback | PrimaryStatusRequest

_STATUS_BODY, _FEEDBACK_BODY, _REQUEST_BODY = struct.Struct(">QQQq?"), struct.Struct(">qIIII"), struct.Struct(">q")


def parse_client_message(data: bytes, version: Version) -> ClientMessage:
    """Parse what a client says inside CopyData.

    Args:
        data: the message; version: the server's, which knows some kinds or not.

    Raises:
        SessionError: it is too short.
        BrokenMessageError: it is of an unknown kind.
    """
    kind, body = data[:1], data[1:]
    if not data:
        raise SessionError("no data left in message", sqlstate=PROTOCOL_VIOLATION)
    if kind == b"r" and len(body) >= _STATUS_BODY.size:
        return StandbyStatus(*_STATUS_BODY.unpack_from(body))
    if kind == b"h" and len(body) >= _FEEDBACK_BODY.size:
        return HotStandbyFeedback(*_FEEDBACK_BODY.unpack_from(body))
    knows_request = version.answers_primary_status
    if kind == b"p" and knows_request and len(body) >= _REQUEST_BODY.size:
        return PrimaryStatusRequest(*_REQUEST_BODY.unpack_from(body))
    if kind in (b"r", b"h") or (kind == b"p" and knows_request):
        raise SessionError("insufficient data left in message", sqlstate=PROTOCOL_VIOLATION)
    raise BrokenMessageError(f'unexpected message type "{kind.decode("latin-1")}"')
