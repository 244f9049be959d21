"""Frames of a slot's stream, read from a socket in pieces of any size."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from headwater.errors import ConnectionLostError, ServerError
from headwater.receiver.frame_stream import SocketFrames

Ends = tuple[socket.socket, SocketFrames]


def message(kind: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">cI", kind, len(body) + 4) + body


STARTED = message(b"W", b"\0\0\0")
FRAMES = [message(b"d", bytes([number]) * (number * number)) for number in range(40)]
NOTICE = message(b"N", b"SNOTICE\0VNOTICE\0C00000\0Mhello\0\0")
SETTING = message(b"S", b"TimeZone\0UTC\0")


def error(sqlstate: str) -> bytes:
    return message(b"E", f"SERROR\0VERROR\0C{sqlstate}\0Mno more\0Htry it\0\0".encode())


@pytest.fixture
def ends() -> Iterator[Ends]:
    server, own = socket.socketpair()
    stream = SocketFrames(own.detach(), lambda: None)
    yield server, stream
    server.close()


@pytest.mark.parametrize("size", [1, 3, 100, 1 << 20])
def test_frames_are_whole(ends: Ends, size: int) -> None:
    server, stream = ends
    data, taken = STARTED + b"".join(FRAMES[:20]) + NOTICE + SETTING + b"".join(FRAMES[20:]) + message(b"c"), b""
    for at in range(0, len(data), size):
        server.sendall(data[at : at + size])
        assert not stream.has_ended
        taken += stream.frames(1 << 20)
        assert len(taken) <= at + size
    assert taken == b"".join(FRAMES)
    assert stream.has_ended
    stream.end()
    assert server.recv(100) == message(b"c")


def test_no_more_than_asked_for(ends: Ends) -> None:
    server, stream = ends
    server.sendall(STARTED + message(b"d", bytes(100_000)))
    assert len(stream.frames(1)) == 100_005


def test_an_error_ends_the_stream(ends: Ends) -> None:
    server, stream = ends
    server.sendall(STARTED + FRAMES[3] + error("42704"))
    assert stream.frames(1 << 20) == FRAMES[3]
    assert stream.has_ended
    with pytest.raises(ServerError, match="the server says: no more") as refused:
        stream.end()
    assert (refused.value.sqlstate, refused.value.hint) == ("42704", "try it")


def test_an_error_that_passes(ends: Ends) -> None:
    server, stream = ends
    server.sendall(STARTED + error("57P01"))
    server.close()
    assert stream.frames(1 << 20) == b""
    with pytest.raises(ConnectionLostError):
        stream.end()


def test_a_connection_that_ends(ends: Ends) -> None:
    """What came before is taken first."""
    server, stream = ends
    server.sendall(STARTED + FRAMES[5] + FRAMES[6][:7])
    server.close()
    assert stream.frames(1 << 20) == FRAMES[5]
    with pytest.raises(ConnectionLostError, match="closed the connection"):
        stream.frames(1 << 20)


def test_what_is_sent(ends: Ends) -> None:
    """A server that reads nothing holds up nobody."""
    server, stream = ends
    for _ in range(100):
        stream.send(bytes(10_000))
    expected = message(b"d", bytes(10_000)) * 100
    received = b""
    while len(received) < len(expected):
        received += server.recv(1 << 20)
        stream.wait(0)
    assert received == expected
