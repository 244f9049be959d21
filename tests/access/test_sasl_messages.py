"""Messages of SASL, most of them malformed: what a real server answers, and what we do, byte for byte."""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from access.certificates import Certificate, self_signed
from access.raw_client import CLIENT_NONCE, Address, Answer, RawClient, initial, raw_client
from access.server_parts import mock_secret, strict_server, version_of
from access.tiny_server import TinyServer
from headwater.pg.version import Version
from headwater.protocol.scram import SECRET_BYTES, Verifier
from headwater.walsender.access.authentication import Access
from headwater.walsender.access.host_rules import parse_rules
from headwater.walsender.access.tls import Encryption, certificate_hash, load_encryption
from headwater.walsender.access.users import User, Users
from oracle.streamed_runs import since

pytestmark = pytest.mark.server

RULES = "host all all all scram-sha-256\n"
PASSWORD = b"correct horse"
VERIFIER = Verifier.make(PASSWORD, b"sixteen bytes...", 4097)

PLUS = b"SCRAM-SHA-256-PLUS"
BARE = b"n=,r=" + CLIENT_NONCE
FIRST = b"n,," + BARE
BOUND = b"p=tls-server-end-point,,"

FIRSTS = {
    "right": FIRST,
    "empty": b"",
    "absent": None,
    "zero byte": FIRST + b"\0",
    "zero byte inside": b"n,,\0" + BARE,
    "flag y": b"y,," + BARE,
    "flag x": b"x,," + BARE,
    "flag comma": b",," + BARE,
    "flag beyond ASCII": b"\xe4,," + BARE,
    "flag alone": b"n",
    "flag y alone": b"y",
    "no comma": b"nx," + BARE,
    "no comma, a control character": b"n\x07," + BARE,
    "identity": b"n,a=admin," + BARE,
    "other identity": b"n,b=admin," + BARE,
    "end after the flag": b"n,",
    "end after the header": b"n,,",
    "bound": BOUND + BARE,
    "bound by another type": b"p=tls-unique,," + BARE,
    "bound by a long type": b"p=tls-\xc3\xa4\x01 server-end-point-and-much-more-behind-it,," + BARE,
    "bound by nothing": b"p,," + BARE,
    "bound without an end": b"p=tls-server-end-point",
    "bound with an identity": b"p=tls-server-end-point,a=x," + BARE,
    "an extension": b"n,,m=x," + BARE,
    "no name": b"n,,r=" + CLIENT_NONCE,
    "a name": b"n,,n=user,r=" + CLIENT_NONCE,
    "a name without a value": b"n,,n,r=" + CLIENT_NONCE,
    "no nonce": b"n,,n=",
    "nonce without a value": b"n,,n=,r",
    "empty nonce": b"n,,n=,r=",
    "nonce with a blank": b"n,,n=,r=a b",
    "nonce beyond ASCII": b"n,,n=,r=a\xe4b",
    "nonce of DEL": b"n,,n=,r=a\x7f",
    "extensions": FIRST + b",a=1,Z=,q==",
    "a comma at the end": FIRST + b",",
    "malformed extension": FIRST + b",1=2",
    "extension without a value": FIRST + b",a",
    "extension of a control character": FIRST + b",\x01=2",
    "as long as it may be": FIRST + b",a=" + b"x" * (1020 - 18 - len(FIRST) - 3),
    "a byte too long": FIRST + b",a=" + b"x" * (1021 - 18 - len(FIRST) - 3),
}
"""First messages of SCRAM; None for a client that sends none at first."""

BODIES = {
    "nothing": b"",
    "no end of the name": b"SCRAM-SHA-256",
    "no length": b"SCRAM-SHA-256\0",
    "half a length": b"SCRAM-SHA-256\0\0\0",
    "a length too long": b"SCRAM-SHA-256\0\0\0\0\x09n,,n",
    "a length too short": b"SCRAM-SHA-256\0\0\0\0\x02n,,n",
    "a negative length": b"SCRAM-SHA-256\0\xff\xff\xff\xfen,,n",
    "absent, and something": b"SCRAM-SHA-256\0\xff\xff\xff\xffn,,n",
    "another mechanism": initial(FIRST, b"SCRAM-SHA-1"),
    "a mechanism in lower case": initial(FIRST, b"scram-sha-256"),
    "no mechanism": initial(FIRST, b""),
    "another mechanism, and no length": b"SCRAM-SHA-512\0",
}
"""Bodies of SASLInitialResponse."""

Final = Callable[[RawClient], bytes]


def proved(client: RawClient, password: bytes = PASSWORD) -> bytes:
    """Return a final message that is right."""
    return client.final(password, BARE)


def without_proof(client: RawClient) -> bytes:
    """Return a final message up to its proof."""
    return b"c=biws,r=" + client.nonce


FINALS: dict[str, Final] = {
    "right": proved,
    "wrong password": lambda client: client.final(b"battery staple", BARE),
    "empty": lambda _: b"",
    "zero byte": lambda client: proved(client) + b"\0",
    "no binding": lambda client: b"r=" + client.nonce,
    "binding of y": lambda client: proved(client).replace(b"biws", b"eSws"),
    "binding of nothing": lambda client: proved(client).replace(b"biws", b""),
    "binding without an end": lambda _: b"c=biws",
    "no nonce": lambda _: b"c=biws,p=abcd",
    "another nonce": lambda client: b"c=biws,r=" + client.nonce + b"x,p=" + b64encode(bytes(32)),
    "another nonce of the same length": lambda client: (
        b"c=biws,r=" + client.nonce[:-1] + b"~,p=" + b64encode(bytes(32))
    ),
    "another client's nonce": lambda client: b"c=biws,r=" + b"x" + client.nonce[1:] + b",p=" + b64encode(bytes(32)),
    "no proof": without_proof,
    "a comma for a proof": lambda client: without_proof(client) + b",",
    "extensions and no proof": lambda client: without_proof(client) + b",a=b",
    "proof without a value": lambda client: without_proof(client) + b",p",
    "empty proof": lambda client: without_proof(client) + b",p=",
    "short proof": lambda client: without_proof(client) + b",p=" + b64encode(bytes(31)),
    "long proof": lambda client: without_proof(client) + b",p=" + b64encode(bytes(33)),
    "proof of zeros": lambda client: without_proof(client) + b",p=" + b64encode(bytes(32)),
    "proof with a blank": lambda client: proved(client) + b" ",
    "proof without its padding": lambda client: proved(client).rstrip(b"="),
    "proof with an end inside": lambda client: without_proof(client) + b",p=" + b"AA=A" * 32,
    "proof with two bytes of each four": lambda client: without_proof(client) + b",p=" + b"AAA=" * 16,
    "proof with an end and digits behind": lambda client: without_proof(client) + b",p=" + b"AAAA" * 10 + b"AA=AAA==",
    "proof with an end too early": lambda client: without_proof(client) + b",p=A===" + b"AAAA" * 10,
    "proof beyond ASCII": lambda client: without_proof(client) + b",p=\xc3\xa4AA" + b"AAAA" * 9 + b"AAA=",
    "garbage behind the proof": lambda client: proved(client) + b",x=y",
    "a comma behind the proof": lambda client: proved(client) + b",",
    "malformed extension": lambda client: without_proof(client) + b",1=2,p=abcd",
    "as long as it may be": lambda client: without_proof(client) + b",a=" + b"x" * (1020 - 3 - 9 - len(client.nonce)),
    "a byte too long": lambda client: without_proof(client) + b",a=" + b"x" * (1021 - 3 - 9 - len(client.nonce)),
}
"""Final messages, by what the client was told before."""


@contextmanager
def beginning(address: Address, user: str, is_encrypted: bool) -> Iterator[tuple[RawClient, Answer]]:
    """Begin a login; gives the client, and the first answer."""
    with raw_client(address, is_encrypted) as client:
        yield client, client.startup({"user": user, "database": "postgres", "replication": "database"})


def conversations(address: Address, is_encrypted: bool) -> Iterator[tuple[str, list[Answer]]]:
    """Go through all messages, each in a login of its own; give what comes back."""
    for name, body in BODIES.items():
        with beginning(address, "known", is_encrypted) as (client, answer):
            yield f"body: {name}", [answer, client.send(body)]
    for mechanism in (b"SCRAM-SHA-256", PLUS):
        for name, data in FIRSTS.items():
            with beginning(address, "known", is_encrypted) as (client, answer):
                answers = [answer, client.send(initial(data, mechanism))]
                if data is None and answers[-1][0] == "R":
                    answers.append(client.send(FIRST))
                yield f"{mechanism.decode()}, first: {name}", answers
    for user in ("known", "unknown", "without a password"):
        for name, final in FINALS.items():
            with beginning(address, user, is_encrypted) as (client, answer):
                yield f"{user}, final: {name}", [answer, client.send(initial(FIRST)), client.send(final(client))]
    for kind in (b"p", b"Q", b"X", b"\xe4"):
        with beginning(address, "known", is_encrypted) as (client, answer):
            yield f"kind {kind!r}", [answer, client.send(b"SELECT 1\0", kind)]


def bound_conversations(address: Address, certificate: Certificate) -> Iterator[tuple[str, list[Answer]]]:
    """Go through logins that are bound to a certificate, or to another one."""
    der = ssl.PEM_cert_to_DER_cert(certificate.certificate.read_text())
    bindings = {
        "right": BOUND + (certificate_hash(der) or b""),
        "another certificate's": BOUND + bytes(32),
        "no hash": BOUND,
        "another type": b"p=tls-unique,,",
        "none": b"n,,",
    }
    for name, binding in bindings.items():
        for password in (PASSWORD, b"wrong"):
            with beginning(address, "known", True) as (client, answer):
                answers = [answer, client.send(initial(BOUND + BARE, PLUS))]
                yield f"binding: {name}", [*answers, client.send(client.final(password, BARE, binding))]


@contextmanager
def ours(version: Version, secret: bytes, encryption: Encryption | None) -> Iterator[Address]:
    """Run a server of ours with the same users."""
    users = Users(
        {name: User(name, verifier) for name, verifier in (("known", VERIFIER), ("without a password", None))}, secret
    )
    binding = None if encryption is None else encryption.binding
    access = Access(parse_rules(RULES, "rules"), users, version, binding=binding)
    with TinyServer(access, encryption).running() as address:
        yield address


STATEMENTS = (
    f"CREATE ROLE known LOGIN REPLICATION PASSWORD '{VERIFIER}'",
    'CREATE ROLE "without a password" LOGIN REPLICATION',
)


@pytest.mark.parametrize("major", since(14))
def test_answers_are_the_servers(major: int, tmp_path: Path) -> None:
    certificate = self_signed(tmp_path, "localhost")
    encryption = load_encryption(certificate.certificate, certificate.key)
    with strict_server(major, RULES, *STATEMENTS, certificate=certificate) as server:
        theirs = ("127.0.0.1", server.port)
        with beginning(theirs, "unknown", False) as (client, _):
            client.send(initial(FIRST))
            secret = mock_secret(server, "unknown", client.salt)
        assert len(secret) == SECRET_BYTES
        with ours(version_of(server), secret, encryption) as address:
            for is_encrypted in (False, True):
                expected = dict(conversations(theirs, is_encrypted))
                assert dict(conversations(address, is_encrypted)) == expected
            assert list(bound_conversations(address, certificate)) == list(bound_conversations(theirs, certificate))
    messages = {str(answers[-1][1]) for answers in expected.values() if answers[-1][0] == "E"}
    assert len(messages) > 20, messages
    rights = [name for name, answers in expected.items() if answers[-1][1] == (12, b"")]
    assert rights == ["known, final: right", "known, final: a comma behind the proof"]
