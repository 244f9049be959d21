"""Rows handed from socket to socket, without a Python object a row: for connections that are not encrypted.

A server sends rows to be copied as messages that it also takes: so the bytes of the publisher's socket are written to
the target's as they are. libpq has begun both COPY commands, and ends the target's. The publisher's connection cannot
be used again: libpq does not know what was read.

The end is seen without looking at rows. In text form no row has a byte of zero, and each ends with a line feed. So what
ends the data (CopyDone) stands nowhere else. Rows in binary form are not handed on so.

Invariants: what is not a row never ends the target's COPY well. It is ended only behind CopyDone of the publisher's and
what the publisher says of the whole command; a message of another kind is one that the target refuses.

Known gap: a publisher that sends notices amid rows, as a type's output function may, makes the copy fail.

PostgreSQL: protocol 3 (CopyData, CopyDone), copyto.c (CopySendEndOfRow), copyfromparse.c (CopyGetData).
"""

from __future__ import annotations

import re
import select
import socket
import struct
from collections.abc import Callable

from headwater.errors import ConnectionLostError, ServerError
from headwater.receiver.replication_connection import Wait

BLOCK_BYTES = 1 << 18

_HEADER = struct.Struct(">cI")
_DONE, _READY = b"c\0\0\0\x04C\0\0\0", b"Z\0\0\0\x05"
_END = re.compile(re.escape(_DONE) + rb".COPY [0-9]+\x00" + re.escape(_READY) + rb"[IT]", re.S)
_ERROR = re.compile(rb"V(?:ERROR|FATAL|PANIC)\x00C(.{5})\x00M([^\x00]*)\x00", re.S)
_LONGEST_END = 64
"""Bytes of the end, with the longest count of rows."""


def hand_over(source: int, target: int, wait: Wait, hear: Callable[[], None]) -> None:
    """Hand the rows of a COPY from one server's socket to another's.

    Args:
        source: descriptor of the publisher's, on which a COPY in text form was asked for, and nothing is read.
        target: of the target's, on which one has begun, and nothing is to be sent.
        wait: waits, and raises when all is to end.
        hear: takes what the target says meanwhile.

    Raises:
        ServerError: the publisher refuses.
        ConnectionLostError: one of them is lost.
    """
    with _Socket(source, wait) as reading, _Socket(target, wait, hear) as writing:
        data = _without_response(reading)
        while _DONE not in data:
            if _READY in data:
                raise _refusal(data)
            # The end may have come in part.
            if len(data) > _LONGEST_END:
                writing.send(data[:-_LONGEST_END])
                data = data[-_LONGEST_END:]
            data += reading.receive()
        rows, data = data[: (at := data.index(_DONE))], data[at:]
        while not _END.fullmatch(data):
            if len(data) > _LONGEST_END:
                raise ConnectionLostError("the publisher has ended rows in another way than expected")
            data += reading.receive()
        writing.send(rows)


def _refusal(data: bytes) -> ServerError:
    match = _ERROR.search(data)
    if match is None:
        return ServerError("the publisher has ended the copy of rows by an error")
    return ServerError(f"the server says: {match[2].decode('utf-8', 'replace')}", sqlstate=match[1].decode())


def _without_response(reading: _Socket) -> bytes:
    """Take the message that says that rows will come; return what is behind it."""
    data = reading.receive()
    while len(data) < _HEADER.size:
        data += reading.receive()
    kind, size = _HEADER.unpack_from(data)
    if kind != b"H":
        while _READY not in data:
            data += reading.receive()
        raise _refusal(data)
    while len(data) < size + 1:
        data += reading.receive()
    return data[size + 1 :]


class _Socket:
    """A socket of libpq's, used without it; a context manager that leaves it open.

    Args:
        descriptor: its; wait: waits, and raises when all is to end.
        hear: is called when there is something to be read while it is written to.
    """

    def __init__(self, descriptor: int, wait: Wait, hear: Callable[[], None] = lambda: None) -> None:
        self._socket, self._wait, self._hear = socket.socket(fileno=descriptor), wait, hear

    def __enter__(self) -> _Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.detach()

    def receive(self) -> bytes:
        while True:
            try:
                data = self._socket.recv(BLOCK_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._wait([self._socket.fileno()], [])
                continue
            except OSError as error:
                raise ConnectionLostError(f"the connection to the publisher is lost: {error.strerror}") from None
            if not data:
                raise ConnectionLostError("the connection to the publisher is lost while rows are copied")
            return data

    def send(self, data: bytes) -> None:
        left, own = memoryview(data), [self._socket.fileno()]
        while left:
            if select.select(own, [], [], 0)[0]:
                self._hear()
            try:
                left = left[self._socket.send(left, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                self._wait(own, own)
            except OSError as error:
                raise ConnectionLostError(f"the connection to the target is lost: {error.strerror}") from None
