"""Messages of the client once it is started up: bytes to values.

PostgreSQL: postgres.c (SocketBackend), pqcomm.c (pq_getmessage), protocol-message-formats.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from headwater.errors import SessionError
from headwater.pg.encodings import decode_name, malformed_text
from headwater.pg.sqlstates import CHARACTER_NOT_IN_REPERTOIRE, PROTOCOL_VIOLATION, UNTRANSLATABLE_CHARACTER

SMALL, LARGE = 10_000, 0x3FFFFFFF - 1
"""Bytes of a message at most: PQ_SMALL_MESSAGE_LIMIT, PQ_LARGE_MESSAGE_LIMIT."""

HEADER = struct.Struct(">cI")
"""A message's letter and its length, which counts itself."""

QUERY, COPY_DATA, COPY_DONE, COPY_FAIL, TERMINATE = b"Q", b"d", b"c", b"f", b"X"
SYNC, FLUSH, PASSWORD, FUNCTION_CALL = b"S", b"H", b"p", b"F"
PARSE, BIND, DESCRIBE, EXECUTE, CLOSE = b"P", b"B", b"D", b"E", b"C"

_LIMITS = {
    **dict.fromkeys((QUERY, FUNCTION_CALL, BIND, PARSE, COPY_DATA), LARGE),
    **dict.fromkeys((EXECUTE, CLOSE, DESCRIBE, SYNC, FLUSH, TERMINATE, COPY_DONE, COPY_FAIL), SMALL),
}


class BrokenMessageError(Exception):
    """Nothing that follows can be understood: the connection is closed, and the client is not told why."""


class Message(NamedTuple):
    """A message of the client: its letter, and its body."""

    kind: bytes
    body: bytes


def body_length(kind: bytes, length: int, is_login: bool = False) -> int:
    """Return the bytes of a message's body, given its length.

    Args:
        kind: its letter; length: as the message says.
        is_login: the client has not proved yet who it is.

    Raises:
        SessionError: the message is of an unknown kind.
        BrokenMessageError: its length cannot be.
    """
    limit = SMALL if is_login and kind == PASSWORD else _LIMITS.get(kind)
    if limit is None:
        raise SessionError(f"invalid frontend message type {kind[0]}", sqlstate=PROTOCOL_VIOLATION)
    if not 4 <= length <= limit:
        raise BrokenMessageError("invalid message length")
    return length - 4


def text_of(body: bytes, encoding: str) -> str:
    """Return the text of a message that is nothing else, such as Query.

    Args:
        body: of the message; encoding: the client's.

    Raises:
        SessionError: it does not end where the message does, or is not of the encoding.
    """
    text, end, rest = body.partition(b"\0")
    if not end:
        raise SessionError("invalid string in message", sqlstate=PROTOCOL_VIOLATION)
    malformed = malformed_text(text, encoding)
    if malformed is not None:
        is_untranslatable = malformed.startswith("character")
        state = UNTRANSLATABLE_CHARACTER if is_untranslatable else CHARACTER_NOT_IN_REPERTOIRE
        raise SessionError(malformed, sqlstate=state)
    if rest:
        raise SessionError("invalid message format", sqlstate=PROTOCOL_VIOLATION)
    return decode_name(text, encoding)
