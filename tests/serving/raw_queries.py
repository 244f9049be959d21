"""A client that sends messages of the extended query protocol as it is told to, and shows all that comes back."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

Shown = tuple[str, object]
"""The letter of a message, and what it says."""


def message(kind: bytes, body: bytes = b"") -> bytes:
    """Return a message."""
    return kind + struct.pack(">I", len(body) + 4) + body


def parse(query: str, name: str = "", types: Sequence[int] = ()) -> bytes:
    """Return Parse."""
    return message(b"P", f"{name}\0{query}\0".encode() + struct.pack(f">h{len(types)}I", len(types), *types))


def bind(
    parameters: Sequence[bytes | None] = (),
    formats: Sequence[int] = (),
    results: Sequence[int] = (),
    portal: str = "",
    statement: str = "",
) -> bytes:
    """Return Bind."""
    body = f"{portal}\0{statement}\0".encode() + struct.pack(f">h{len(formats)}h", len(formats), *formats)
    body += struct.pack(">h", len(parameters))
    for value in parameters:
        body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return message(b"B", body + struct.pack(f">h{len(results)}h", len(results), *results))


def describe(kind: str = "P", name: str = "") -> bytes:
    """Return Describe."""
    return message(b"D", f"{kind}{name}\0".encode())


def close(kind: str = "P", name: str = "") -> bytes:
    """Return Close."""
    return message(b"C", f"{kind}{name}\0".encode())


def execute(rows: int = 0, portal: str = "") -> bytes:
    """Return Execute."""
    return message(b"E", f"{portal}\0".encode() + struct.pack(">i", rows))


def query(text: str) -> bytes:
    """Return Query."""
    return message(b"Q", text.encode() + b"\0")


SYNC, FLUSH = message(b"S"), message(b"H")


@dataclass
class RawConnection:
    """A connection that has begun."""

    connection: socket.socket
    unread: bytes = b""

    def answers(self, *messages: bytes) -> list[Shown]:
        """Send messages, and return what is answered up to ReadyForQuery, or the end of the connection."""
        self.connection.sendall(b"".join(messages))
        shown: list[Shown] = []
        with suppress(EOFError, ConnectionResetError):
            while not shown or shown[-1][0] != "Z":
                shown.append(_shown(*self.received()))
        return [answer for answer in shown if answer[0] != "S"]

    def received(self) -> tuple[bytes, bytes]:
        """Return the next message."""
        header = self._exactly(5)
        return header[:1], self._exactly(struct.unpack_from(">I", header, 1)[0] - 4)

    def _exactly(self, size: int) -> bytes:
        while len(self.unread) < size:
            data = self.connection.recv(1 << 16)
            if not data:
                raise EOFError
            self.unread += data
        data, self.unread = self.unread[:size], self.unread[size:]
        return data


@contextmanager
def raw_connection(place: Mapping[str, str], parameters: Mapping[str, str]) -> Iterator[RawConnection]:
    """Connect, as a user who needs no password.

    Args:
        place: as libpq has it: host, a directory or an address, and port.
        parameters: of the StartupMessage.
    """
    host, port = place["host"], place["port"]
    if host.startswith("/"):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(f"{host}/.s.PGSQL.{port}")
    else:
        connection = socket.create_connection((host, int(port)))
    with connection:
        pairs = b"".join(f"{name}\0{value}\0".encode() for name, value in parameters.items())
        body = struct.pack(">I", 3 << 16) + pairs + b"\0"
        connection.sendall(struct.pack(">I", len(body) + 4) + body)
        client = RawConnection(connection)
        client.answers()
        yield client


def _shown(kind: bytes, body: bytes) -> Shown:
    letter = kind.decode()
    if kind in b"EN":
        fields = {field[:1].decode(): field[1:].decode() for field in body.split(b"\0") if field}
        return letter, tuple((name, fields[name]) for name in "SCMDHP" if name in fields)
    if kind == b"D":
        return letter, tuple(values_of(body))
    return letter, body


def values_of(body: bytes) -> Iterator[bytes | None]:
    """Give the values of a DataRow."""
    at = 2
    for _ in range(struct.unpack_from(">h", body)[0]):
        (size,) = struct.unpack_from(">i", body, at)
        yield None if size < 0 else body[at + 4 : at + 4 + size]
        at += 4 + max(size, 0)
