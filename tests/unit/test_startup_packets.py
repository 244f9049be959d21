"""Start-up packets, taken apart as the server does."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import SessionError
from headwater.pg.version import VERSIONS
from headwater.protocol.startup import (
    CancelRequest,
    GssEncRequest,
    SessionRequest,
    SslRequest,
    StartupMessage,
    negotiated,
    parse_first_packet,
    parsed_bool,
    session_request,
    switches,
)

V17, V18 = VERSIONS[17], VERSIONS[18]


def packet(*texts: str, code: int = 3 << 16) -> bytes:
    """Return the body of a packet of some texts, and the byte that ends it."""
    return struct.pack(">I", code) + b"".join(text.encode() + b"\0" for text in texts) + b"\0"


def test_requests() -> None:
    assert parse_first_packet(struct.pack(">I", 80877103), V18) == SslRequest()
    assert parse_first_packet(struct.pack(">I", 80877104), V18) == GssEncRequest()
    assert parse_first_packet(struct.pack(">III", 80877102, 7, 9), V18) == CancelRequest(7, b"\0\0\0\x09")


def test_a_second_request_for_tls_is_a_version() -> None:
    with pytest.raises(SessionError, match=r"unsupported frontend protocol 1234\.5679: server supports 3\.0 to 3\.2"):
        parse_first_packet(struct.pack(">I", 80877103), V18, may_ask_ssl=False)


def test_a_session_of_logical_replication() -> None:
    body = packet(
        "user", "u", "database", "d", "replication", "database", "DateStyle", "ISO", "options", "-c a-b=c\\ d"
    )
    message = parse_first_packet(body, V18)
    assert isinstance(message, StartupMessage)
    assert session_request(message) == SessionRequest("u", "d", True, (("a_b", "c d"), ("DateStyle", "ISO")))


@pytest.mark.parametrize(
    ("texts", "request_"),
    [
        (("user", "u"), SessionRequest("u", "u", False, ())),
        (("user", "u", "database", "d", "replication", "true"), SessionRequest("u", "", True, ())),
        (("user", "u", "database", "d", "replication", "of"), SessionRequest("u", "d", False, ())),
        (("user", "u" * 70, "database", ""), SessionRequest("u" * 63, "u" * 63, False, ())),
    ],
)
def test_sessions(texts: tuple[str, ...], request_: SessionRequest) -> None:
    message = parse_first_packet(packet(*texts), V18)
    assert isinstance(message, StartupMessage)
    assert session_request(message) == request_


def session_of(body: bytes) -> SessionRequest:
    message = parse_first_packet(body, V18)
    assert isinstance(message, StartupMessage)
    return session_request(message)


@pytest.mark.parametrize(
    ("texts", "sqlstate"),
    [
        (("database", "d"), "28000"),
        (("user", "u", "replication", "o"), "22023"),
        (("user", "u", "options", "-x"), "42601"),
    ],
)
def test_refused_sessions(texts: tuple[str, ...], sqlstate: str) -> None:
    with pytest.raises(SessionError) as refusal:
        session_of(packet(*texts))
    assert refusal.value.sqlstate == sqlstate


@pytest.mark.parametrize("rest", [b"", b"user", b"user\0", b"user\0u", b"user\0u\0", b"user\0u\0\0\0", b"\0x\0"])
def test_layout(rest: bytes) -> None:
    with pytest.raises(SessionError, match="expected terminator as last byte"):
        parse_first_packet(struct.pack(">I", 3 << 16) + rest, V18)


@given(st.binary(min_size=4, max_size=200))
def test_any_bytes_are_a_packet_or_refused(body: bytes) -> None:
    for code in (b"", struct.pack(">I", 3 << 16)):
        with suppress(SessionError):
            message = parse_first_packet(code + body, V18)
            if isinstance(message, StartupMessage):
                session_request(message)


def test_versions_are_negotiated() -> None:
    asked = StartupMessage(9999, {}, ("_pq_.x", "_pq_.y"))
    names = b"_pq_.x\0_pq_.y\0"
    assert negotiated(asked, V17) == (0, struct.pack(">II", 3 << 16, 2) + names)
    assert negotiated(asked, V18) == (2, struct.pack(">II", 3 << 16 | 2, 2) + names)
    assert negotiated(StartupMessage(0, {}, ("_pq_.x",)), V18) == (0, struct.pack(">II", 3 << 16, 1) + b"_pq_.x\0")
    assert negotiated(StartupMessage(2), V18) == (2, b"")


def test_switches() -> None:
    assert list(switches(r" -c datestyle=ISO -cx=1 --search-path=a\ b\\ ")) == [
        ("datestyle", "ISO"),
        ("x", "1"),
        ("search_path", "a b\\"),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [("t", True), ("FALSE", False), ("on", True), ("of", False), ("o", None), ("1", True), ("10", None), ("", None)],
)
def test_booleans(text: str, value: bool | None) -> None:
    assert parsed_bool(text) is value
