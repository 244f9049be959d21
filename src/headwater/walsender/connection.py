"""One connection, as bytes: what has come is taken message by message, what is sent never waits in this module.

Lives in the event loop. An event says that something has happened: bytes have come, there is room to send, the
connection is lost, or another thread has something. Who waits looks at all of them, as a server does at its latch.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
from collections.abc import Callable

from headwater.errors import SessionError
from headwater.pg.sqlstates import PROGRAM_LIMIT_EXCEEDED, PROTOCOL_VIOLATION
from headwater.protocol.frontend_messages import HEADER, BrokenMessageError, Message, body_length
from headwater.walsender.access.peer import Peer, peer_of

log = logging.getLogger("headwater.walsender")

ROOM = 512 << 10
"""Bytes that wait to be sent, above which no more are given."""

_MOST_UNREAD, _MOST_UNTRUSTED = 4 << 20, 16 << 10
"""Bytes that wait to be taken, above which no more are read: of a client that is in, of any other."""

MOST_MESSAGE = 16 << 20
"""Bytes of a client's message: the longest that subscribers send are questions that name all their tables."""

LINGER_SECONDS = 10.0
"""For a client to take what was sent before its connection was closed."""


class ConnectionClosedError(Exception):
    """The client has gone."""


class Connection(asyncio.Protocol):
    """A connection.

    Attributes:
        wake: set when something has happened.
        when_lost: called when the client has gone. when_silent: called when it says no more.
    """

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.when_lost: Callable[[], None] = lambda: None
        self.when_silent: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()
        self._is_lost = self._says_no_more = False
        self._has_room = True
        self._is_paused = False
        self._most_unread = _MOST_UNTRUSTED
        self._interruption: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=ROOM)

    def data_received(self, data: bytes) -> None:
        """Keep what has come; a client that is not listened to is not read without end."""
        self._unread += data
        if len(self._unread) > self._most_unread and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()
        self.wake.set()

    def eof_received(self) -> bool:
        """Note that the client says no more; what it has said before is answered, as far as it can still be told."""
        self._says_no_more = True
        self.wake.set()
        self.when_silent()
        return self.encryption is None

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """Note that the client has gone."""
        self._is_lost = True
        self.wake.set()
        self.when_lost()

    def pause_writing(self) -> None:
        """Note that the client does not take what is sent."""
        self._has_room = False

    def resume_writing(self) -> None:
        """Note that it does again."""
        self._has_room = True
        self.wake.set()

    @property
    def transport(self) -> asyncio.Transport:
        """The transport."""
        assert self._transport is not None
        return self._transport

    @property
    def has_room(self) -> bool:
        """Whether more may be sent now."""
        return self._has_room

    @property
    def is_lost(self) -> bool:
        """Whether the client has gone, or says no more."""
        return self._is_lost or self._says_no_more

    def check_open(self) -> None:
        """Check that answers can still be sent, as a server does before it goes on with what came before the end.

        Raises:
            ConnectionClosedError: the client has gone.
        """
        if self._is_lost:
            raise ConnectionClosedError

    def peer(self) -> Peer:
        """Return who is at the other end.

        Raises:
            ConnectionClosedError: the client has gone.
            SessionError: its certificate is malformed.
        """
        try:
            return peer_of(self.transport.get_extra_info("socket"), self.encryption)
        except OSError:
            raise ConnectionClosedError from None

    @property
    def port(self) -> int:
        """The port that the client comes from; 0 on a Unix socket."""
        place = self.transport.get_extra_info("peername")
        return int(place[1]) if isinstance(place, tuple) else 0

    @property
    def encryption(self) -> ssl.SSLObject | None:
        """The TLS of the connection; None without."""
        encryption: ssl.SSLObject | None = self.transport.get_extra_info("ssl_object")
        return encryption

    async def encrypt(self, context: ssl.SSLContext) -> None:
        """Go on with TLS; whatever was sent before has gone out.

        Raises:
            ConnectionClosedError: client and server agree on nothing.
            SessionError: bytes came that are not encrypted.
        """
        if self._unread:
            raise SessionError(
                "received unencrypted data after SSL request",
                sqlstate=PROTOCOL_VIOLATION,
                detail="This could be either a client-software bug or evidence of an attempted "
                "man-in-the-middle attack.",
            )
        try:
            encrypted = await self._loop.start_tls(self.transport, self, context, server_side=True)
        except (OSError, ssl.SSLError):
            raise ConnectionClosedError from None
        if encrypted is None:
            raise ConnectionClosedError
        self.connection_made(encrypted)

    def trust(self) -> None:
        """Read further ahead, as the client has proved who it is."""
        self._most_unread = _MOST_UNREAD

    def interrupt(self, error: Exception) -> None:
        """Let who waits for the client get an error instead."""
        self._interruption = error
        self.wake.set()

    def wake_from_thread(self) -> None:
        """Set the event, from another thread."""
        # Who waits clears it before looking: where it is set, all that was made before this call will be seen.
        if not self.wake.is_set():
            self._loop.call_soon_threadsafe(self.wake.set)

    def send(self, data: bytes | memoryview) -> None:
        """Send bytes, now or as soon as the client takes them."""
        if not self._is_lost:
            self.transport.write(data)

    def close(self) -> None:
        """Close the connection, once what was sent before has gone out, or does not for seconds."""
        if self._transport is not None:
            self._transport.close()
            self._loop.call_later(LINGER_SECONDS, self._transport.abort)

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def drained(self) -> None:
        """Wait until there is room.

        Raises:
            ConnectionClosedError: the client has gone.
        """
        while not self._has_room:
            if self._is_lost:
                raise ConnectionClosedError
            await self._woken()

    async def first_packet(self, least: int, most: int) -> bytes | None:
        """Return the body of a packet that has a length and no letter; None if its length cannot be.

        Raises:
            ConnectionClosedError: the client has gone.
        """
        (length,) = struct.unpack(">I", await self._exactly(4))
        if not least <= length - 4 <= most:
            return None
        return await self._exactly(length - 4)

    async def message_header(self) -> tuple[bytes, int]:
        """Return the letter and the length of the client's next message, which is not taken.

        Raises:
            ConnectionClosedError: the client has gone.
        """
        while len(self._unread) < HEADER.size:
            await self._happened()
        kind, length = HEADER.unpack_from(self._unread)
        return kind, length

    async def message(self) -> Message:
        """Return the client's next message, when it has come.

        Raises:
            ConnectionClosedError: the client has gone.
            SessionError: it is no message.
        """
        while (message := self.take_message()) is None:
            await self._happened()
        return message

    def take_message(self) -> Message | None:
        """Return the client's next message if it is there.

        Raises:
            SessionError: it is no message, or too long.
        """
        if len(self._unread) < HEADER.size:
            return None
        kind, length = HEADER.unpack_from(self._unread)
        try:
            size = HEADER.size + body_length(kind, length, self._most_unread == _MOST_UNTRUSTED)
        except BrokenMessageError as error:
            log.info("%s", error)
            raise ConnectionClosedError from None
        if size > MOST_MESSAGE:
            raise SessionError(
                f"message of {length} bytes is too long",
                sqlstate=PROGRAM_LIMIT_EXCEEDED,
                detail=f"At most {MOST_MESSAGE} bytes are taken.",
            )
        if len(self._unread) < size:
            self._read_on()
            return None
        body = bytes(self._unread[HEADER.size : size])
        self._took(size)
        return Message(kind, body)

    @property
    def has_unread(self) -> bool:
        """Whether bytes have come that were not taken."""
        return bool(self._unread)

    async def _exactly(self, size: int) -> bytes:
        while len(self._unread) < size:
            await self._happened()
        data = bytes(self._unread[:size])
        self._took(size)
        return data

    def _took(self, size: int) -> None:
        del self._unread[:size]
        if len(self._unread) <= self._most_unread:
            self._read_on()

    def _read_on(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()

    async def _happened(self) -> None:
        if self.is_lost:
            raise ConnectionClosedError
        await self._woken()

    async def _woken(self) -> None:
        if self._interruption is not None:
            raise self._interruption
        self.wake.clear()
        await self.wake.wait()
