"""Sessions of the replication protocol, most of them malformed, as bytes; and how a server or a service answers them.

A script is a list of pieces: each is sent, and then all that comes back is read. So it can be played to both sides.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from fuzz.mutations import changed
from fuzz.protocol_kinds import COMMANDS, PACKETS, STATEMENTS, startup_packet
from headwater.protocol.replication_messages import status_update

ANSWER_SECONDS = 60.0
LETTERS = b"RKSZTDCIENWHGdcvtn123As"
"""Kinds of messages that a server may send."""

GOOD = startup_packet("user", "postgres", "database", "postgres", "replication", "database")
TERMINATE = b"X\0\0\0\4"

Error = tuple[str, str, str]
"""Severity, SQLSTATE and text."""


@dataclass(frozen=True)
class Answers:
    """The answers of one session.

    Attributes:
        kinds: letters of all messages; errors: those of them that are errors.
        is_closed: the other side has closed the connection.
    """

    kinds: bytes
    errors: tuple[Error, ...]
    is_closed: bool


def framed(body: bytes, length: int | None = None) -> bytes:
    """Return a start-up packet with its length, or with another one."""
    return struct.pack(">I", (len(body) + 4 if length is None else length) & 0xFFFFFFFF) + body


def message(kind: bytes, body: bytes, length: int | None = None) -> bytes:
    """Return a message with its length, or with another one."""
    return kind + framed(body, length)


def query(text: bytes) -> bytes:
    """Return a simple query."""
    return message(b"Q", text.replace(b"\0", b" ") + b"\0")


def malformed_startup(rng: random.Random) -> list[bytes]:
    """Make a start-up that is malformed more often than not."""
    body = changed(rng, rng.choice(PACKETS), ((0, 4),))
    length = rng.choice((None, None, None, 0, 3, 7, 8, 10_004, 10_005, 0x7FFFFFFF, 0xFFFFFFFF, len(body)))
    return [framed(body, length)]


def malformed_messages(rng: random.Random) -> list[bytes]:
    """Make messages of a session that has begun, one of which is malformed."""
    kind = rng.choice((b"Q", b"d", b"c", b"f", b"S", b"H", b"F", b"P", b"B", b"p", bytes([rng.randrange(256)])))
    body = rng.choice((b"", b"\0", b"x\0y\0", b"SELECT 1", rng.randbytes(rng.randrange(30))))
    length = rng.choice((None, None, 0, 3, 4, 0x7FFFFFFF, 0xFFFFFFFF))
    return [framed(GOOD), message(kind, body, length), message(b"S", b"")]


def malformed_commands(rng: random.Random) -> list[bytes]:
    """Make a few commands that are mutated."""
    texts = [changed(rng, rng.choice((*COMMANDS, *STATEMENTS)).encode()) for _ in range(rng.randrange(1, 12))]
    return [framed(GOOD), *map(query, texts)]


def malformed_statuses(rng: random.Random, slot: str = "s") -> list[bytes]:
    """Make a stream whose client says what is malformed."""
    start = query(f"START_REPLICATION SLOT {slot} LOGICAL 0/0".encode())
    samples = (status_update(0, 0, 0, True), b"h" + bytes(24), b"z", b"")
    statuses = [changed(rng, rng.choice(samples)) for _ in range(rng.randrange(1, 6))]
    return [framed(GOOD), start, *(message(b"d", status) for status in statuses), message(b"c", b"")]


WAYS = (malformed_startup, malformed_messages, malformed_commands, malformed_statuses)


def played(address: str | tuple[str, int], pieces: Sequence[bytes]) -> Answers:
    """Play a session, and read until the other side closes the connection, or has answered all.

    Args:
        address: of a Unix socket, or host and port; pieces: what is sent.

    Raises:
        TimeoutError: nothing comes, and the connection stays open.
    """
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(address)
        received, is_closed = bytearray(), False
        with suppress(ConnectionError):
            connection.sendall(b"".join(pieces) + TERMINATE)
            connection.shutdown(socket.SHUT_WR)
        try:
            while piece := connection.recv(1 << 16):
                received += piece
        except ConnectionError:
            is_closed = True
        return answers_in(bytes(received), is_closed)


def answers_in(data: bytes, is_closed: bool) -> Answers:
    """Take what came apart; bytes that are no whole messages are an AssertionError."""
    at, kinds, errors = 0, bytearray(), []
    while data[at : at + 1] in (b"N", b"S") and not _is_message(data, at):
        at += 1  # The answer to a request for encryption.
    if data[at : at + 6] == b"EFATAL":
        return Answers(b"E", (("FATAL", "", data[at + 1 :].decode()),), is_closed)
    while at < len(data):
        kind, (length,) = data[at : at + 1], struct.unpack_from(">I", data, at + 1)
        assert kind in LETTERS, f"a message of kind {kind!r}"
        body = data[at + 5 : at + 1 + length]
        assert len(body) == length - 4 or is_closed, "half a message"
        kinds += kind
        if kind == b"E":
            errors.append(error_in(body))
        at += 1 + length
    return Answers(bytes(kinds), tuple(errors), is_closed)


def _is_message(data: bytes, at: int) -> bool:
    """Tell whether a message of less than 64 kB begins at a place, not a letter that stands alone."""
    return len(data) > at + 5 and data[at + 1 : at + 3] == b"\0\0" and data[at + 3 : at + 5] > b"\0\3"


def error_in(body: bytes) -> Error:
    """Return severity, SQLSTATE and text of an error."""
    fields = {part[:1]: part[1:].decode("utf-8", "surrogateescape") for part in body.split(b"\0") if part}
    assert {b"S", b"V", b"C", b"M"} <= fields.keys(), body
    assert len(fields[b"C"]) == 5, body
    return fields[b"V"], fields[b"C"], fields[b"M"]
