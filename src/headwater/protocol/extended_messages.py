"""Messages of the extended query protocol: bytes of the client into values.

In: the body of a message. Out: a value; bytes that are none are refused as the server does. Strings stay bytes in the
client's encoding, as do values of parameters.

PostgreSQL: postgres.c (PostgresMain, exec_bind_message), protocol-message-formats.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from headwater.errors import SessionError
from headwater.pg.sqlstates import PROTOCOL_VIOLATION
from headwater.protocol.backend_messages import Value

STATEMENT, PORTAL = b"S", b"P"
"""What Describe and Close are about."""


@dataclass(frozen=True)
class Parse:
    """Parse: the name of a statement, its text, OIDs of the types of parameters."""

    name: bytes
    query: bytes
    types: tuple[int, ...]


@dataclass(frozen=True)
class Bind:
    """Bind.

    Attributes:
        portal, statement: names.
        parameter_formats: none, one for all, or one for each.
        parameters: their values.
        result_formats: likewise, of the columns.
    """

    portal: bytes
    statement: bytes
    parameter_formats: tuple[int, ...]
    parameters: tuple[Value, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True)
class Describe:
    """Describe: a statement's or a portal's name."""

    kind: bytes
    name: bytes


@dataclass(frozen=True)
class Close:
    """Close: a statement's or a portal's name."""

    kind: bytes
    name: bytes


@dataclass(frozen=True)
class Execute:
    """Execute: a portal's name, and how many rows it is to return at most; 0 for all."""

    portal: bytes
    row_limit: int


def parse_message(body: bytes) -> Parse:
    """Read Parse.

    Raises:
        SessionError: it is malformed.
    """
    reader = _Reader(body)
    message = Parse(reader.string(), reader.string(), reader.many(">I"))
    reader.end()
    return message


def bind_message(body: bytes) -> Bind:
    """Read Bind.

    Raises:
        SessionError: it is malformed.
    """
    reader = _Reader(body)
    portal, statement, formats = reader.string(), reader.string(), reader.many(">h")
    count = reader.number(">h")
    if len(formats) > 1 and len(formats) != count:
        raise _wrong(f"bind message has {len(formats)} parameter formats but {count} parameters")
    parameters = tuple(reader.value() for _ in range(count))
    message = Bind(portal, statement, formats, parameters, reader.many(">h"))
    reader.end()
    return message


def describe_message(body: bytes) -> Describe:
    """Read Describe.

    Raises:
        SessionError: it is malformed.
    """
    return Describe(*_kind_and_name(body, "DESCRIBE"))


def close_message(body: bytes) -> Close:
    """Read Close.

    Raises:
        SessionError: it is malformed.
    """
    return Close(*_kind_and_name(body, "CLOSE"))


def execute_message(body: bytes) -> Execute:
    """Read Execute.

    Raises:
        SessionError: it is malformed.
    """
    reader = _Reader(body)
    message = Execute(reader.string(), max(0, reader.number(">i")))
    reader.end()
    return message


def _kind_and_name(body: bytes, word: str) -> tuple[bytes, bytes]:
    reader = _Reader(body)
    kind, name = reader.take(1), reader.string()
    reader.end()
    if kind not in (STATEMENT, PORTAL):
        raise _wrong(f"invalid {word} message subtype {kind[0]}")
    return kind, name


def _wrong(text: str) -> SessionError:
    return SessionError(text, sqlstate=PROTOCOL_VIOLATION)


class _Reader:
    """A reader of one message's body (pqformat.c)."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def take(self, size: int) -> bytes:
        if self._at + size > len(self._body):
            raise _wrong("insufficient data left in message")
        self._at += size
        return self._body[self._at - size : self._at]

    def string(self) -> bytes:
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise _wrong("invalid string in message")
        return self.take(end + 1 - self._at)[:-1]

    def number(self, form: str) -> int:
        value: int = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def many(self, form: str) -> tuple[int, ...]:
        """Read numbers, and before them how many there are."""
        return tuple(self.number(form) for _ in range(self.number(">h")))

    def value(self) -> Value:
        size = self.number(">i")
        return None if size == -1 else self.take(max(size, 0))

    def end(self) -> None:
        if self._at != len(self._body):
            raise _wrong("invalid message format")
