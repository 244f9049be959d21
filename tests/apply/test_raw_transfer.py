"""Rows from socket to socket, in pieces of any size: all of them, and nothing else; errors and ends that come early."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator, Sequence

import pytest

from headwater.apply.table_sync import raw_transfer
from headwater.apply.table_sync.raw_transfer import hand_over
from headwater.errors import ConnectionLostError, ServerError

SIZES = [1, 2, 7, 64, 100_000]
Pair = tuple[socket.socket, socket.socket]


def frame(kind: bytes, content: bytes) -> bytes:
    """Return a message of the protocol."""
    return kind + struct.pack(">I", len(content) + 4) + content


RESPONSE = frame(b"H", b"\0\0\1\0\0")
ROWS = b"".join(frame(b"d", f"{'cC' * (number % 50)}\tCOPY {number}\n".encode()) for number in range(8))
READY = frame(b"Z", b"T")
END = frame(b"c", b"") + frame(b"C", b"COPY 8\0") + READY
ERROR = frame(b"E", b"SERROR\0VERROR\0C22P02\0Minvalid input\0\0")


@pytest.fixture
def sockets() -> Iterator[tuple[Pair, Pair]]:
    source, target = socket.socketpair(), socket.socketpair()
    yield source, target
    for end in (*source, *target):
        end.close()


def wait(reading: Sequence[int], writing: Sequence[int]) -> None:
    """Wait for descriptors, which must not take long."""
    assert any(select.select(reading, writing, [], 5))


def handed(sockets: tuple[Pair, Pair], data: bytes) -> bytes:
    """Return what the target gets."""
    (server, source), (target, taker) = sockets
    server.sendall(data)
    server.shutdown(socket.SHUT_WR)
    hand_over(source.fileno(), target.fileno(), wait, lambda: None)
    target.shutdown(socket.SHUT_WR)
    return b"".join(iter(lambda: taker.recv(1 << 20), b""))


@pytest.mark.parametrize("size", SIZES)
def test_all_rows(sockets: tuple[Pair, Pair], size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_transfer, "BLOCK_BYTES", size)
    assert handed(sockets, RESPONSE + ROWS + END) == ROWS


def test_no_rows(sockets: tuple[Pair, Pair]) -> None:
    assert handed(sockets, RESPONSE + END.replace(b"8", b"0")) == b""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("before", [b"", RESPONSE, RESPONSE + ROWS], ids=["nothing", "response", "rows"])
def test_an_error_of_the_publisher(
    sockets: tuple[Pair, Pair], size: int, before: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_transfer, "BLOCK_BYTES", size)
    with pytest.raises(ServerError, match="the server says: invalid input") as caught:
        handed(sockets, before + ERROR + READY)
    assert caught.value.sqlstate == "22P02"


@pytest.mark.parametrize(
    "data", [b"", RESPONSE[:3], RESPONSE + ROWS, RESPONSE + ROWS + END[:8], RESPONSE + ROWS + END[:-1]]
)
def test_an_end_that_comes_early(sockets: tuple[Pair, Pair], data: bytes) -> None:
    with pytest.raises(ConnectionLostError):
        handed(sockets, data)
