"""The stream of a logical slot as frames: messages of CopyData, many at a time, without an object for each.

A connection that is not encrypted is read past libpq, from the answer to START_REPLICATION on. So libpq never knows
that a stream has begun, and the connection is of no other use afterwards. An encrypted one is libpq's, which gives a
message at a time.

Invariants: frames are whole. What the server says besides ends the stream, or does not matter (notices, parameters).

PostgreSQL: protocol 3 (CopyData, CopyDone), libpqwalreceiver.c, walsender.c.
"""

from __future__ import annotations

import select
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from headwater.errors import ConnectionLostError, ServerError
from headwater.protocol.client_messages import report
from headwater.protocol.copy_frames import whole_frames
from headwater.receiver.replication_connection import ReplicationConnection, refusal

BLOCK_BYTES = 1 << 18

_HEADER = struct.Struct(">cI")
_STARTED, _DATA, _DONE, _ERROR = b"W", b"d", b"c", b"E"


class FrameStream(ABC):
    """A stream that has begun; it belongs to one thread.

    Attributes:
        has_ended: the server has ended it; :meth:`end` says why.
    """

    has_ended: bool

    @abstractmethod
    def frames(self, most_bytes: int) -> bytes:
        """Take the frames that are there, in their order; nothing is waited for.

        Args:
            most_bytes: it ends soon after so many.

        Raises:
            ConnectionLostError: the connection is lost.
        """

    @abstractmethod
    def send(self, message: bytes) -> None:
        """Send a message of ours, as soon as the socket takes it.

        Raises:
            ConnectionLostError: the connection is lost.
        """

    @abstractmethod
    def wait(self, seconds: float, others: Sequence[int] = (), is_reading: bool = True) -> None:
        """Wait; see :meth:`headwater.receiver.replication_connection.ReplicationConnection.wait`."""

    @abstractmethod
    def end(self) -> None:
        """End the stream that the server has ended.

        Raises:
            ServerError: the server has ended it by an error.
            ConnectionLostError: the connection is lost, or the error is one that passes.
        """

    @abstractmethod
    def leave(self) -> None:
        """Tell the server that no more is wanted."""

    @abstractmethod
    def close(self) -> None:
        """End the connection."""


def start_frames(connection: ReplicationConnection, command: str) -> FrameStream:
    """Run START_REPLICATION of a logical slot.

    Raises:
        ServerError: the server refuses.
        ConnectionLostError: the connection is lost, or somebody else reads the slot still.
    """
    if connection.begin_stream(command) == _STARTED and connection.is_plain:
        return SocketFrames(connection.fileno(), connection.close)
    connection.take_started()
    return _LibpqFrames(connection)


class _LibpqFrames(FrameStream):
    """The stream as libpq gives it.

    Args:
        connection: on which it has begun.
    """

    def __init__(self, connection: ReplicationConnection) -> None:
        self._connection, self.has_ended = connection, False

    def frames(self, most_bytes: int) -> bytes:
        parts = list[bytes]()
        for message in self._connection.messages(most_bytes):
            parts += (_HEADER.pack(_DATA, len(message) + 4), message)
        self.has_ended = self._connection.has_ended
        return b"".join(parts)

    def send(self, message: bytes) -> None:
        self._connection.send(message)

    def wait(self, seconds: float, others: Sequence[int] = (), is_reading: bool = True) -> None:
        self._connection.wait(seconds, others, is_reading)

    def end(self) -> None:
        self._connection.end_stream()

    def leave(self) -> None:
        self._connection.leave_stream()

    def close(self) -> None:
        self._connection.close()


class SocketFrames(FrameStream):
    """The stream read from a socket.

    Args:
        descriptor: the socket's, on which the answer to START_REPLICATION has come, and is not read.
        close: ends the connection.
    """

    def __init__(self, descriptor: int, close: Callable[[], None]) -> None:
        self._close, self.has_ended = close, False
        self._socket = socket.socket(fileno=descriptor)
        self._parts, self._size, self._needed = list[bytes](), 0, _HEADER.size
        self._unsent = b""
        self._error: ServerError | None = None

    def frames(self, most_bytes: int) -> bytes:
        self._receive(most_bytes)
        if self._size < self._needed:
            return b""
        data, at = b"".join(self._parts), 0
        taken = list[bytes]()
        while True:
            end = whole_frames(data, at)
            taken.append(data[at:end])
            at = end
            size = self._size_at(data, at)
            if data[at : at + 1] == _DATA or len(data) < at + size:
                break
            self._hear(data[at : at + 1], data[at + _HEADER.size : at + size])
            at += size
        self._parts, self._size, self._needed = [data[at:]], len(data) - at, size
        return b"".join(taken)

    @staticmethod
    def _size_at(data: bytes, at: int) -> int:
        """Return the bytes of a message, as far as they are known."""
        return 1 + _HEADER.unpack_from(data, at)[1] if len(data) >= at + _HEADER.size else _HEADER.size

    def _receive(self, most_bytes: int) -> None:
        """Receive what is there.

        Raises:
            ConnectionLostError: there is nothing, and no more will come.
        """
        received = 0
        while received < most_bytes and not self.has_ended:
            try:
                data = self._socket.recv(BLOCK_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError as error:
                raise _lost(str(error.strerror)) from None
            if not data:
                if received:
                    return
                raise _lost("the server closed the connection")
            self._parts.append(data)
            self._size += len(data)
            received += len(data)

    def _hear(self, kind: bytes, body: bytes) -> None:
        """Take what is no frame."""
        if kind == _DONE:
            self.has_ended = True
        elif kind == _ERROR:
            failure = report(body)
            self._error = refusal(failure.sqlstate, " ".join(failure.message.split()), failure.hint or failure.detail)
            self.has_ended = True

    def send(self, message: bytes) -> None:
        self._unsent += _HEADER.pack(_DATA, len(message) + 4) + message
        self._flush()

    def _flush(self) -> None:
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                self._unsent = self._unsent[sent:]
            except BlockingIOError:
                return
            except OSError as error:
                raise _lost(str(error.strerror)) from None

    def wait(self, seconds: float, others: Sequence[int] = (), is_reading: bool = True) -> None:
        self._flush()
        own = [self._socket.fileno()]
        select.select([*(own if is_reading else ()), *others], own if self._unsent else [], [], max(seconds, 0))

    def end(self) -> None:
        if self._error is not None:
            raise self._error
        self.leave()

    def leave(self) -> None:
        self._unsent += _HEADER.pack(_DONE, 4)
        self._flush()

    def close(self) -> None:
        self._socket.detach()
        self._close()


def _lost(reason: str) -> ConnectionLostError:
    return ConnectionLostError(f"the connection to the server is lost: {reason}")
