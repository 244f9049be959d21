"""Attacks on logins at the service, each beside a real server: refused alike, nothing leaks, others are served."""

from __future__ import annotations

import ssl
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import pq

from access.certificates import Certificate, self_signed
from access.raw_client import CLIENT_NONCE, Answer, RawClient, initial, raw_client
from access.server_parts import strict_server
from headwater.protocol.scram import Verifier
from headwater.walsender.access.tls import certificate_hash
from headwater.walsender.access.users import User, Users, write_users
from serving.service import Serving, backup_of

pytestmark = pytest.mark.server

PASSWORD = b"correct horse"
VERIFIER = Verifier.make(PASSWORD, b"sixteen bytes...", 4096)
RULES = "hostssl all,replication all 127.0.0.1/32 scram-sha-256\n"
STARTUP = {"user": "reader", "database": "postgres", "replication": "database"}
BARE = b"n=,r=" + CLIENT_NONCE
SCRAM, PLUS = b"SCRAM-SHA-256", b"SCRAM-SHA-256-PLUS"
BOUND = b"p=tls-server-end-point,,"

Address = tuple[str, int]


@dataclass(frozen=True)
class Sides:
    """A server, and a service of its WAL, with the same rules, users and certificate."""

    server: Address
    service: Address
    serving: Serving
    certificate: Certificate

    @property
    def both(self) -> tuple[Address, Address]:
        """Addresses of both."""
        return self.server, self.service


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Run both."""
    place = tmp_path_factory.mktemp("security")
    made, rules, users = self_signed(place, "localhost"), place / "rules", place / "users"
    role = f"CREATE ROLE reader LOGIN REPLICATION PASSWORD '{VERIFIER}'"
    rules.write_text(RULES)
    names = ("reader", "idle")
    write_users(users, Users({name: User(name, VERIFIER, may_replicate=name == "reader") for name in names}))
    more = f"CREATE ROLE idle LOGIN PASSWORD '{VERIFIER}'", "CREATE TABLE secrets (word text)"
    with strict_server(18, RULES, "ALTER SYSTEM SET wal_level = logical", role, *more, certificate=made) as server:
        catalog = backup_of(server, place / "base")
        flags = ["--auth", str(rules), "--users", str(users), "--tls-cert", str(made.certificate)]
        with Serving(server.wal_directory, catalog, place / "s", *flags, "--tls-key", str(made.key), "-v") as serving:
            yield Sides(("127.0.0.1", server.port), ("127.0.0.1", serving.port), serving, made)


Attack = Callable[[RawClient], Iterator[Answer]]


def begun(
    client: RawClient, first: bytes, mechanism: bytes = b"SCRAM-SHA-256", user: str = "reader"
) -> Iterator[Answer]:
    """Begin a login, up to the server's first message."""
    yield client.startup({**STARTUP, "user": user})
    yield client.send(initial(first, mechanism))


def wrong_password(client: RawClient) -> Iterator[Answer]:
    """Prove to know another password."""
    yield from begun(client, b"n,," + BARE)
    yield client.send(client.final(b"battery staple", BARE))


def unknown_user(client: RawClient) -> Iterator[Answer]:
    """Prove something as somebody who does not exist; the salt and the count must not tell that."""
    yield client.startup({**STARTUP, "user": "nobody"})
    kind, _ = client.send(initial(b"n,," + BARE))
    yield kind, (len(client.salt), client.iterations)
    yield client.send(client.final(PASSWORD, BARE))


def downgraded(client: RawClient) -> Iterator[Answer]:
    """Say that the server did not offer the binding, as a client does to whom somebody between has not passed it on."""
    yield from begun(client, b"y,," + BARE)


def bound_without_its_mechanism(client: RawClient) -> Iterator[Answer]:
    """Ask for the binding by the mechanism that has none."""
    yield from begun(client, BOUND + BARE)


def bound_to_another_certificate(client: RawClient) -> Iterator[Answer]:
    """Prove the right password over a connection that ends at somebody else's certificate."""
    yield from begun(client, BOUND + BARE, PLUS)
    yield client.send(client.final(PASSWORD, BARE, BOUND + bytes(32)))


def stripped(client: RawClient) -> Iterator[Answer]:
    """Begin with the binding, and end without."""
    yield from begun(client, BOUND + BARE, PLUS)
    yield client.send(client.final(PASSWORD, BARE))


def a_query_before_the_proof(client: RawClient) -> Iterator[Answer]:
    """Ask something before the login is over."""
    yield from begun(client, b"n,," + BARE)
    yield client.send(b"SELECT 1\0", b"Q")


def without_replication(client: RawClient) -> Iterator[Answer]:
    """Ask for replication as somebody who may not replicate; the password is right."""
    yield from begun(client, b"n,," + BARE, user="idle")
    answer = client.send(client.final(PASSWORD, BARE))
    while answer[0] == "R":
        answer = client.receive()
    yield answer


ATTACKS = (
    *(wrong_password, unknown_user, downgraded, bound_without_its_mechanism, bound_to_another_certificate),
    *(stripped, a_query_before_the_proof, without_replication),
)


def is_served(sides: Sides) -> bool:
    """Tell whether somebody with the right password is let in, bound to the certificate."""
    words = {"host": "127.0.0.1", "port": str(sides.service[1]), "dbname": "postgres", "user": "reader"}
    words |= {"password": PASSWORD.decode(), "channel_binding": "require", "replication": "database"}
    with psycopg.connect(**words, autocommit=True) as connection:  # type: ignore[arg-type]
        return connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_attacks_are_refused_as_by_the_server(sides: Sides, attack: Attack) -> None:
    answers = []
    for address in sides.both:
        with raw_client(address, is_encrypted=True) as client:
            answers.append(list(attack(client)))
    refused = {kind for kind, _ in answers[0]}
    assert "E" in refused
    assert answers[0] == answers[1]
    assert is_served(sides)


def test_a_login_that_was_recorded_is_no_login(sides: Sides) -> None:
    answers = []
    for address in sides.both:
        recorded = list[bytes]()
        for _ in range(2):
            with raw_client(address, is_encrypted=True) as client:
                list(begun(client, b"n,," + BARE))
                recorded.append(client.final(PASSWORD, BARE))
                answer = client.send(recorded[0])
        answers.append(answer)
    assert answers[0][0] == "E"
    assert answers[0] == answers[1]
    assert is_served(sides)


def test_without_encryption_nobody_comes_in(sides: Sides) -> None:
    answers = []
    for address in sides.both:
        with raw_client(address) as client:
            answers.append(client.startup(STARTUP))
    assert answers[0][0] == "E"
    assert answers[0] == answers[1]


def test_unencrypted_bytes_behind_the_request_for_encryption(sides: Sides) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for address in sides.both:
        with raw_client(address) as client:
            client.connection.sendall(b"\0\0\0\x08\x04\xd2\x16\x2f" + b"\0\0\0\x09\0\3\0\0\0")
            answer = client.connection.recv(1000)
            assert b"received unencrypted data after SSL request" in answer or answer == b"S"
    assert is_served(sides)


def test_the_right_password_is_bound_to_the_certificate(sides: Sides) -> None:
    hashed = certificate_hash(ssl.PEM_cert_to_DER_cert(sides.certificate.certificate.read_text()))
    assert hashed is not None
    for address in sides.both:
        with raw_client(address, is_encrypted=True) as client:
            list(begun(client, BOUND + BARE, PLUS))
            assert client.send(client.final(PASSWORD, BARE, BOUND + hashed)) == ("R", (12, b""))


def error_of(address: Address, user: str, statement: str) -> object:
    """Return the error that a statement ends with."""
    words = f"host=127.0.0.1 port={address[1]} dbname=postgres user={user} sslmode=require"
    words += f" password='{PASSWORD.decode()}'"
    connection = pq.PGconn.connect(words.encode())
    answer = connection.exec_(statement.encode())
    fields = pq.DiagnosticField.SQLSTATE, pq.DiagnosticField.MESSAGE_PRIMARY
    error = tuple(answer.error_field(field) for field in fields)
    connection.finish()
    return error


def test_who_may_not_replicate_copies_no_table(sides: Sides) -> None:
    statement = "COPY public.secrets (word) TO STDOUT"
    errors = [error_of(address, "idle", statement) for address in sides.both]
    assert errors == [(b"42501", b"permission denied for table secrets")] * 2
    assert error_of(sides.service, "reader", statement) == (None, None)


def test_cancel_requests_with_guessed_keys_change_nothing(sides: Sides) -> None:
    for address in sides.both:
        for pid, key in ((1000, bytes(4)), (0, bytes(4)), (0xFFFFFFFF, b"\xff" * 4), (1000, bytes(32))):
            with raw_client(address) as client:
                body = struct.pack(">II", 80877102, pid) + key
                client.connection.sendall(struct.pack(">I", len(body) + 4) + body)
                assert client.connection.recv(1) == b""
    assert b"in cancel request" in sides.serving.log.read_bytes()
    assert is_served(sides)


def test_nothing_of_passwords_is_in_the_log(sides: Sides) -> None:
    log = sides.serving.log.read_bytes()
    assert b'password authentication failed for user "reader"' in log
    salt, keys = str(VERIFIER).split("$")[1].split(":")[1], str(VERIFIER).split("$")[2].split(":")
    secrets = [PASSWORD, b"battery staple", CLIENT_NONCE, salt.encode(), *(key.encode() for key in keys)]
    secrets += [b64decode(key) for key in keys]
    assert [secret for secret in secrets if secret in log or b64encode(secret) in log] == []
    assert b"Traceback" not in log
