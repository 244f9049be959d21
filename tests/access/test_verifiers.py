"""Verifiers of passwords: those that PostgreSQL makes are ours, and ours let users in there."""

from __future__ import annotations

from base64 import b64decode

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg import pq

from access.server_parts import strict_server
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.protocol.scram import Verifier
from oracle.streamed_runs import since

PASSWORDS = [
    "secret",
    " ",
    "a, b = 'c' \"d\" $1:2",
    "\x01\x7f",
    "wörd",
    "wo\u0308rd",
    "\u00a0\u1680\u3000",
    "soft\u00adhyphen",
    "\u00ad",
    "\u200b",
    "ﬁﬂ①Ⅷ",
    "한국어\u1100\u1161\u11a8",
    "\u1100\u1161\u11a7",
    "שלום",
    "שלום!",
    "שלום\u0061",
    "١٢٣",
    "א1א",
    "\u0221",
    "\U0001f600",
    "\ue000",
    "\U000e0001",
    "\ufdd0",
    "\u0340\u0341\u2028",
    "\u212b\u2126",
    "\ufb1d\u2f00\U0002f800",
    "q\u0307\u0323",
    "x" * 1000,
]
"""Passwords that each rule of SASLprep meets."""


def known(server: EmbeddedPostgres, password: str) -> str:
    """Let a server make a verifier."""
    with server.connect() as connection:
        connection.execute("DROP ROLE IF EXISTS made")
        literal = psycopg.sql.Literal(password).as_string(connection)
        connection.execute(f"CREATE ROLE made LOGIN PASSWORD {literal}".encode())
        row = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'made'").fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.server
@pytest.mark.parametrize("major", since(14))
def test_verifiers_are_the_servers(major: int) -> None:
    with strict_server(major, "host all all all scram-sha-256\n") as server:
        for password in PASSWORDS:
            text = known(server, password)
            verifier = Verifier.parse(text)
            assert verifier is not None
            assert str(verifier) == text
            assert str(Verifier.make(password.encode(), verifier.salt, verifier.iterations)) == text, password
            ours = Verifier.make(password.encode(), b"16 bytes of salt", 5000)
            with server.connect() as connection:
                connection.execute(f"ALTER ROLE made PASSWORD '{ours}'".encode())
            port, host = server.port, "127.0.0.1"
            psycopg.connect(host=host, port=port, user="made", dbname="postgres", password=password).close()


def made_by_libpq(password: bytes) -> str:
    """Let libpq make a verifier, as psql does for a new password."""
    connection = pq.PGconn.connect_start(b"host=/nonexistent")
    try:
        # The encoding matters not: the password is bytes. Nothing is asked of a server.
        return connection.encrypt_password(password, b"user", b"scram-sha-256").decode()
    finally:
        connection.finish()


CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")
TEXTS = st.text(CHARACTERS, min_size=1) | st.text(
    st.sampled_from("a1 \u00adא\u0661\u00a0\u0308\u1100\u1161ﬁ\u0221"), min_size=1
)
BYTES = st.binary(min_size=1).filter(lambda data: b"\0" not in data)


@given(TEXTS.map(str.encode) | BYTES)
@example("\u1100\u1161\u11a7".encode())
@example(b"\xed\xa0\x80")
@example(b"\xf4\x90\x80\x80")
@example(b"\xc0\x80")
def test_passwords_are_prepared_as_by_libpq(password: bytes) -> None:
    text = made_by_libpq(password)
    verifier = Verifier.parse(text)
    assert verifier is not None
    assert str(Verifier.make(password, verifier.salt, verifier.iterations)) == text


@given(st.text() | st.text("SCRAM-SHA-256$4096:=+/$AZaz0"))
def test_any_text_is_a_verifier_or_none(text: str) -> None:
    verifier = Verifier.parse(text)
    assert verifier is None or Verifier.parse(str(verifier)) == verifier


KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "md5aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        f"SCRAM-SHA-1$4096:AAAA${KEY}:{KEY}",
        f"SCRAM-SHA-256$0:AAAA${KEY}:{KEY}",
        f"SCRAM-SHA-256$-1:AAAA${KEY}:{KEY}",
        f"SCRAM-SHA-256$2147483648:AAAA${KEY}:{KEY}",
        f"SCRAM-SHA-256$4096:A${KEY}:{KEY}",
        f"SCRAM-SHA-256$4096:AAAA${KEY}:AAAA",
        f"SCRAM-SHA-256$4096:AAAA$AAAA:{KEY}",
        f"SCRAM-SHA-256$4096:AAAA${KEY}:{KEY} ",
        f"SCRAM-SHA-256$4096:AÄAA${KEY}:{KEY}",
    ],
)
def test_what_is_no_verifier(text: str) -> None:
    assert Verifier.parse(text) is None


def test_a_mock_is_the_same_each_time() -> None:
    first, again, other = (Verifier.mock(name, bytes(32)) for name in ("a", "a", "b"))
    assert first == again
    assert first.salt != other.salt
    assert len(first.salt) == 16
    assert b64decode(KEY) == first.stored_key


def test_no_secret_is_shown() -> None:
    assert "AAAA" not in repr(Verifier.mock("a", bytes(32)))
