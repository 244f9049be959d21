"""The first packets of a connection: bytes to values, as the server takes them apart.

A packet is a length, itself included, and a body that begins with a code. Names and values are text in whatever
encoding the client has; bytes that are no UTF-8 are kept as surrogates.

PostgreSQL: backend_startup.c (ProcessStartupPacket; postmaster.c before 17), pqcomm.h, postgres.c (pg_split_opts).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headwater.errors import SessionError
from headwater.pg.identifiers import MOST_NAME_BYTES
from headwater.pg.sqlstates import (
    FEATURE_NOT_SUPPORTED,
    INVALID_AUTHORIZATION,
    INVALID_PARAMETER_VALUE,
    PROTOCOL_VIOLATION,
    SYNTAX_ERROR,
)
from headwater.pg.version import Version
from headwater.protocol.frontend_messages import BrokenMessageError

LEAST_PACKET, MOST_PACKET = 4, 10_000
"""Bytes of a start-up packet without its length (MAX_STARTUP_PACKET_LENGTH)."""

CANCEL_REQUEST, _SSL_REQUEST, _GSSENC_REQUEST = 80877102, 80877103, 80877104
_PROTOCOL_OPTION = "_pq_."
_TEXT = "utf-8", "surrogateescape"


@dataclass(frozen=True)
class SslRequest:
    """SSLRequest: the client asks for TLS."""


@dataclass(frozen=True)
class GssEncRequest:
    """GSSENCRequest: the client asks for encryption by GSSAPI."""


@dataclass(frozen=True)
class CancelRequest:
    """CancelRequest: another connection's command is to end.

    Attributes:
        pid: the number that the other connection was told; key: the secret that goes with it.
    """

    pid: int
    key: bytes


@dataclass(frozen=True)
class StartupMessage:
    """StartupMessage: what the client is, and what it asks for.

    Attributes:
        minor: of the protocol's version 3.
        parameters: names and values, of which the last of a name holds.
        unknown: names of protocol options that are unknown, in their order.
    """

    minor: int
    parameters: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


FirstPacket = SslRequest | GssEncRequest | CancelRequest | StartupMessage


def parse_first_packet(
    body: bytes, version: Version, *, may_ask_ssl: bool = True, may_ask_gss: bool = True
) -> FirstPacket:
    """Parse a packet that comes before anything else.

    Args:
        body: without its length, of :data:`LEAST_PACKET` bytes at least.
        version: of the server that is stood for.
        may_ask_ssl: no answer to an SSLRequest has been given yet; may_ask_gss: nor to a GSSENCRequest.

    Raises:
        SessionError: the connection is to be closed with it.
        BrokenMessageError: it is to be closed without a word.
    """
    (code,) = struct.unpack_from(">I", body)
    if code == _SSL_REQUEST and may_ask_ssl:
        return SslRequest()
    if code == _GSSENC_REQUEST and may_ask_gss:
        return GssEncRequest()
    if code == CANCEL_REQUEST:
        return _cancel_request(body)
    return _startup_message(body, code >> 16, code & 0xFFFF, version)


def _cancel_request(body: bytes) -> CancelRequest:
    if not 8 < len(body) <= 8 + 256:
        raise BrokenMessageError("invalid length of cancel request packet")
    return CancelRequest(struct.unpack_from(">I", body, 4)[0], body[8:])


def _startup_message(body: bytes, major: int, minor: int, version: Version) -> StartupMessage:
    if major != 3:
        raise SessionError(
            f"unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.{version.protocol_minor}",
            sqlstate=FEATURE_NOT_SUPPORTED,
        )
    pairs = []
    for name, value in _pairs(body):
        pairs.append((name.decode(*_TEXT), value.decode(*_TEXT)))
        if name == b"replication":
            _replication_mode(pairs[-1][1])  # The server refuses a wrong one before it comes to the packet's end.
    unknown = tuple(name for name, _ in pairs if name.startswith(_PROTOCOL_OPTION))
    return StartupMessage(minor, {name: value for name, value in pairs if name not in unknown}, unknown)


def _pairs(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 4
    while at < len(body) and body[at]:
        end = body.find(b"\0", at)
        if end < 0 or end + 1 >= len(body):
            break
        value, _, _ = body[end + 1 :].partition(b"\0")
        yield body[at:end], value
        at = end + len(value) + 2
    if at != len(body) - 1:
        raise SessionError(
            "invalid startup packet layout: expected terminator as last byte", sqlstate=PROTOCOL_VIOLATION
        )


@dataclass(frozen=True)
class SessionRequest:
    """The session that a client asks for.

    Attributes:
        user: the role.
        database: its name; empty on a connection of physical replication.
        is_replication: commands of replication are understood.
        settings: names, as the client spells them, and values, in their order.
    """

    user: str
    database: str
    is_replication: bool
    settings: tuple[tuple[str, str], ...]


def session_request(message: StartupMessage) -> SessionRequest:
    """Make out the session that a StartupMessage asks for.

    Raises:
        SessionError: it names no user, or has a malformed value.
    """
    parameters = dict(message.parameters)
    user, database = parameters.pop("user", ""), parameters.pop("database", "")
    mode = _replication_mode(parameters.pop("replication", "false"))
    if not user:
        raise SessionError("no PostgreSQL user name specified in startup packet", sqlstate=INVALID_AUTHORIZATION)
    options = parameters.pop("options", "")
    settings = [*switches(options), *parameters.items()]
    named = "" if mode == "physical" else database or user
    return SessionRequest(_cut(user), _cut(named), mode != "", tuple(settings))


def _cut(name: str) -> str:
    return name.encode(*_TEXT)[:MOST_NAME_BYTES].decode(*_TEXT)


def _replication_mode(text: str) -> str:
    if text == "database":
        return text
    value = parsed_bool(text)
    if value is None:
        raise SessionError(
            f'invalid value for parameter "replication": "{text}"',
            sqlstate=INVALID_PARAMETER_VALUE,
            hint='Valid values are: "false", 0, "true", 1, "database".',
        )
    return "physical" if value else ""


def parsed_bool(text: str) -> bool | None:
    """Parse a boolean as the server does, by its beginning where that is unique (bool.c); None for anything else."""
    word = text.lower()
    for value, names in ((True, ("true", "yes", "1")), (False, ("false", "no", "0"))):
        if word and any(name.startswith(word) for name in names):
            return value
    return {"on": True, "of": False, "off": False}.get(word)


def switches(options: str) -> Iterator[tuple[str, str]]:
    """Give the settings that a command line of options has: ``-c name=value`` and ``--name=value``.

    Raises:
        SessionError: there is anything else.
    """
    words = _split_options(options)
    for word in words:
        if word == "-c":
            text = next(words, "")
        elif word.startswith(("--", "-c")):
            text = word[2:]
        else:
            raise SessionError(
                f"invalid command-line argument for server process: {word}",
                sqlstate=SYNTAX_ERROR,
                hint='Try "postgres --help" for more information.',
            )
        name, is_given, value = text.partition("=")
        if not is_given:
            kind = "-c " if word.startswith("-c") else "--"
            raise SessionError(f"{kind}{text} requires a value", sqlstate=SYNTAX_ERROR)
        yield name.replace("-", "_"), value


def _split_options(text: str) -> Iterator[str]:
    """Split at white space; a backslash keeps what follows it (pg_split_opts)."""
    word, is_escaped, is_word = "", False, False
    for character in text:
        if is_escaped or not (character.isspace() or character == "\\"):
            word, is_escaped, is_word = word + character, False, True
        elif character == "\\":
            is_escaped = is_word = True
        elif is_word:
            yield word
            word, is_word = "", False
    if is_word:
        yield word


def negotiated(message: StartupMessage, version: Version) -> tuple[int, bytes]:
    """Return the minor version of the protocol to go on with, and the body of NegotiateProtocolVersion.

    The body is empty if everything is as the client asks.
    """
    newest = version.protocol_minor
    used = min(message.minor, newest)
    if message.minor <= newest and not message.unknown:
        return used, b""
    shown = used if version.negotiates_down else newest
    names = b"".join(name.encode(*_TEXT) + b"\0" for name in message.unknown)
    return used, struct.pack(">II", 3 << 16 | shown, len(message.unknown)) + names
