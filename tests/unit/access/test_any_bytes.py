"""Whatever clients send, and whatever files hold: a value, or an error of ours."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import AccessError, SessionError
from headwater.pg.version import VERSIONS
from headwater.protocol.saslprep import prepared_password
from headwater.protocol.scram import Challenge, Login, Verifier, initial_data, split_initial_response
from headwater.protocol.startup import SessionRequest
from headwater.walsender.access.authentication import Access, Pending, new_nonce
from headwater.walsender.access.host_rules import DEFAULT_RULES, Method, method_for, parse_rules
from headwater.walsender.access.peer import LOCAL, Peer, interfaces
from headwater.walsender.access.tls import certificate_hash
from headwater.walsender.access.users import User, Users

LOGIN = Login("user", Verifier.mock("user", bytes(32)), bytes(32), b"nonce", bytes(32))
REQUEST = SessionRequest("user", "shop", False, ())
ACCESS = Access(parse_rules("host all all all scram-sha-256", "rules"), Users({"user": User("user")}), VERSIONS[18])

PARTS = st.sampled_from(
    [b"n", b"y", b"p=tls-server-end-point", b",", b"=", b"r=", b"n=", b"c=biws", b"a", b"m", b"\0", b"\xff"]
)
MESSAGES = st.binary() | st.lists(PARTS).map(b"".join)


@given(MESSAGES, st.booleans(), st.none() | st.just(bytes(32)))
def test_first_messages(message: bytes, is_bound: bool, binding: bytes | None) -> None:
    with suppress(SessionError):
        assert isinstance(replace(LOGIN, is_bound=is_bound, binding=binding).first(message), Challenge)


@given(MESSAGES)
def test_final_messages(message: bytes) -> None:
    for text in (message, b"c=biws,r=abcnonce," + message):
        with pytest.raises(SessionError):
            replace(LOGIN, binding=None).first(b"n,,n=,r=abc").final(text)


@given(st.binary(max_size=40), st.binary(max_size=60))
def test_logins(first: bytes, second: bytes) -> None:
    state = ACCESS.begin(REQUEST, Peer("192.0.2.1"))
    for body in (first, b"SCRAM-SHA-256\0" + first, b"SCRAM-SHA-256\0\0\0\0" + bytes([len(first)]) + first):
        assert isinstance(state, Pending)
        with suppress(SessionError):
            after = state.step(b"p", body)
            assert isinstance(after, Pending)
            after.step(b"p", second)


@given(st.binary())
def test_initial_responses(body: bytes) -> None:
    with suppress(SessionError):
        _, rest = split_initial_response(body)
        assert initial_data(rest) is None or rest[4:] == initial_data(rest)


@given(st.binary())
def test_passwords(password: bytes) -> None:
    assert isinstance(prepared_password(password), bytes)


RULE_WORDS = st.sampled_from(
    ["local", "host", "all", "1.2.3.4", "/8", "::", '"', ",", "\n", "\\", " ", "#", "trust", "@x"]
)


@given(st.binary() | st.text().map(str.encode) | st.lists(RULE_WORDS).map(lambda words: " ".join(words).encode()))
def test_rules(data: bytes) -> None:
    with suppress(AccessError):
        for rule in parse_rules(data, "rules"):
            assert rule.method in Method


@given(st.binary() | st.binary().map(lambda data: b"\x30\x82" + len(data).to_bytes(2, "big") + data))
def test_certificates(data: bytes) -> None:
    assert certificate_hash(data) is None or data


def test_nonces_are_new() -> None:
    assert new_nonce() != new_nonce()
    assert len(new_nonce()) == 24


@pytest.mark.parametrize(
    ("host", "user", "method"),
    [
        (LOCAL, "anybody", Method.PEER),
        ("127.0.0.1", "anybody", Method.SCRAM),
        ("::1", "anybody", Method.SCRAM),
        ("::ffff:127.0.0.1", "anybody", Method.SCRAM),
        ("127.0.0.2", "anybody", None),
        ("192.0.2.1", "anybody", None),
        ("fe80::1%eth0", "anybody", None),
    ],
)
@pytest.mark.parametrize("database", ["shop", ""])
def test_without_a_file_the_rules_are_narrow(host: str, user: str, method: Method | None, database: str) -> None:
    rules = parse_rules(DEFAULT_RULES, "default rules")
    request = SessionRequest(user, database, True, ())
    if method is not None:
        assert method_for(rules, request, Peer(host)) is method
        return
    with pytest.raises(SessionError, match=r"no pg_hba\.conf entry for") as raised:
        method_for(rules, request, Peer(host))
    assert raised.value.sqlstate == "28000"


def test_addresses_of_this_machine() -> None:
    assert any(str(interface.ip) == "127.0.0.1" for interface in interfaces())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("host all all all md5", 'authentication method "md5" is not supported'),
        ("host all all example.com trust", 'host name "example.com" is not supported, expected an address'),
        ("host all +group all trust", '"+group" is not supported, expected names'),
        ("host @file all all trust", '"@file" is not supported, expected names'),
        ("host all /^a all trust", '"/^a" is not supported, expected names'),
        ("host samerole all all trust", '"samerole" is not supported, expected names'),
        ("include other.conf", '"include" is not supported'),
        ("hostgssenc all all all trust", '"hostgssenc" is not supported'),
        ("local all all peer map=m", 'authentication option "map" is not supported'),
    ],
)
def test_what_a_server_knows_and_we_do_not(line: str, message: str) -> None:
    with pytest.raises(AccessError) as raised:
        parse_rules(f"local all all trust\n{line}\n", "rules")
    assert (raised.value.message, raised.value.file) == (f"line 2: {message}", "rules")
