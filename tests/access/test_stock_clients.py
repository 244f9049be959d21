"""Logins of libpq, the library of stock clients, against ours: passwords, channel binding, certificates, sockets."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from select import select

import pytest
from psycopg import pq

from access.certificates import ALGORITHMS, Certificate, self_signed, signed
from access.tiny_server import TinyServer
from headwater.pg.version import VERSIONS
from headwater.protocol.scram import Verifier
from headwater.walsender.access.authentication import Access
from headwater.walsender.access.host_rules import parse_rules
from headwater.walsender.access.peer import system_user_named
from headwater.walsender.access.tls import Encryption, load_encryption
from headwater.walsender.access.users import User, Users

PASSWORD = "pass, wörd =\u00a0'"
USERS = Users({"reader": User("reader", Verifier.make(PASSWORD.encode(), b"sixteen bytes..."))})
ACCESS = Access(parse_rules("host all,replication all all scram-sha-256\n", "rules"), USERS, VERSIONS[18])
WRONG = 'FATAL:  password authentication failed for user "{}"'


def logged_in(server: TinyServer, **options: str) -> str:
    """Log in with libpq; return the user whom the server says it is, or the error.

    Args:
        server: to run.
        options: of the connection; an empty one is left out.
    """
    with server.running() as address:
        if isinstance(address, str):
            path = Path(address)
            where = {"host": str(path.parent), "port": path.name.rpartition(".")[2]}
        else:
            where = {"host": "127.0.0.1", "port": str(address[1])}
        given = {"user": "reader", "dbname": "shop", "password": PASSWORD, "passfile": "/nonexistent"}
        values = {**where, **given, "gssencmode": "disable", **options}
        return _answer({name: value for name, value in values.items() if value})


def _answer(options: Mapping[str, str]) -> str:
    quoted = {name: value.replace("\\", "\\\\").replace("'", "\\'") for name, value in options.items()}
    connection = pq.PGconn.connect_start(" ".join(f"{name}='{value}'" for name, value in quoted.items()).encode())
    try:
        # Connecting in one call would hold the lock of Python, which the server needs.
        while (step := connection.connect_poll()) not in (pq.PollingStatus.OK, pq.PollingStatus.FAILED):
            sockets = [connection.socket]
            reading = step == pq.PollingStatus.READING
            assert any(select(sockets if reading else [], [] if reading else sockets, [], 20))
        if connection.status == pq.ConnStatus.OK:
            return (connection.parameter_status(b"authenticated") or b"").decode()
        return connection.error_message.decode().strip()
    finally:
        connection.finish()


def encrypted(directory: Path, algorithm: str = "rsa-sha256") -> TinyServer:
    """Make a server that has a certificate."""
    certificate = self_signed(directory, "localhost", algorithm)
    encryption = load_encryption(certificate.certificate, certificate.key)
    return TinyServer(replace(ACCESS, binding=encryption.binding), encryption)


def test_a_right_password() -> None:
    assert logged_in(TinyServer(ACCESS)) == "reader"


@pytest.mark.parametrize(
    ("user", "password"), [("reader", "wrong"), ("nobody else", PASSWORD), ("reader", PASSWORD + " ")]
)
def test_a_wrong_password_and_an_unknown_user(user: str, password: str) -> None:
    assert logged_in(TinyServer(ACCESS), user=user, password=password).endswith(WRONG.format(user))


def test_no_password() -> None:
    assert logged_in(TinyServer(ACCESS), password="").endswith("fe_sendauth: no password supplied")


def test_a_password_in_another_form_of_unicode() -> None:
    """A letter and its dots, and a blank: SASLprep makes one of them."""
    assert logged_in(TinyServer(ACCESS), password="pass, wo\u0308rd = '") == "reader"


@pytest.mark.parametrize("replication", ["true", "database"])
def test_users_who_may_not_replicate(replication: str) -> None:
    user = replace(USERS.by_name["reader"], may_replicate=False)
    server = TinyServer(replace(ACCESS, users=USERS.with_user(user)))
    assert logged_in(server, replication=replication).endswith(
        "FATAL:  permission denied to start WAL sender\n"
        "DETAIL:  Only roles with the REPLICATION attribute may start a WAL sender process."
    )
    old = replace(server, access=replace(server.access, version=VERSIONS[15]))
    assert "must be superuser or replication role to start walsender" in logged_in(old, replication=replication)
    assert logged_in(server) == "reader"


def test_physical_replication_is_a_right_of_its_own() -> None:
    assert "DETAIL:  This user may read publications" in logged_in(TinyServer(ACCESS), replication="true")
    assert logged_in(TinyServer(ACCESS), replication="database") == "reader"
    user = replace(USERS.by_name["reader"], may_copy_all=True)
    server = TinyServer(replace(ACCESS, users=USERS.with_user(user)))
    assert logged_in(server, replication="true") == "reader"


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "ed25519"])
def test_channel_binding(tmp_path: Path, algorithm: str) -> None:
    server = encrypted(tmp_path, algorithm)
    for binding in ("require", "prefer", "disable"):
        assert logged_in(server, sslmode="require", channel_binding=binding) == "reader"


def test_channel_binding_with_a_certificate_without_a_hash(tmp_path: Path) -> None:
    """The standard has no binding to such a certificate: a login without goes on."""
    server = encrypted(tmp_path, "ed25519")
    assert server.access.binding is None
    assert logged_in(server, sslmode="require", channel_binding="prefer") == "reader"
    assert "channel binding" in logged_in(server, sslmode="require", channel_binding="require")


def test_channel_binding_without_encryption() -> None:
    answer = logged_in(TinyServer(ACCESS), channel_binding="require")
    assert answer.endswith("channel binding required, but SSL not in use")


def test_channel_binding_to_another_certificate(tmp_path: Path) -> None:
    """So it is where someone in the middle has a certificate of their own."""
    server = encrypted(tmp_path)
    other = replace(server, access=replace(server.access, binding=bytes(32)))
    answer = logged_in(other, sslmode="require", channel_binding="require")
    assert answer.endswith("FATAL:  SCRAM channel binding check failed")


@pytest.mark.parametrize("password", ["wrong", ""])
def test_a_wrong_password_over_tls(tmp_path: Path, password: str) -> None:
    answer = logged_in(encrypted(tmp_path), sslmode="require", password=password)
    assert answer.endswith(WRONG.format("reader") if password else "no password supplied")


def test_direct_tls(tmp_path: Path) -> None:
    """The client does not ask first, and wants the protocol ``postgresql`` agreed on."""
    if pq.version() < 170000:
        pytest.skip("libpq is too old")
    assert logged_in(encrypted(tmp_path), sslmode="require", sslnegotiation="direct") == "reader"


def test_old_tls_is_refused(tmp_path: Path) -> None:
    answer = logged_in(
        encrypted(tmp_path), sslmode="require", ssl_min_protocol_version="TLSv1", ssl_max_protocol_version="TLSv1.1"
    )
    assert answer
    assert answer != "reader"


def test_rules_for_encrypted_connections(tmp_path: Path) -> None:
    rules = parse_rules("hostssl all all all scram-sha-256\nhostnossl all other all scram-sha-256", "rules")
    server = encrypted(tmp_path)
    server = replace(server, access=replace(server.access, rules=rules))
    assert logged_in(server, sslmode="prefer") == "reader"
    answer = logged_in(server, sslmode="disable")
    message = 'no pg_hba.conf entry for host "127.0.0.1", user "reader", database "shop", no encryption'
    assert answer.endswith(f"FATAL:  {message}")


CERT = parse_rules("hostssl all,replication all all cert\n", "rules")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Make an authority that signs certificates of clients."""
    return self_signed(tmp_path_factory.mktemp("authority"), "authority")


def with_authority(directory: Path, authority: Certificate) -> TinyServer:
    """Make a server that lets clients in by their certificates."""
    made = self_signed(directory, "localhost")
    encryption = load_encryption(made.certificate, made.key, authority.certificate)
    return TinyServer(replace(ACCESS, rules=CERT, binding=encryption.binding), encryption)


@pytest.mark.parametrize(
    ("name", "user", "expected"),
    [
        ("reader", "reader", "reader"),
        ("reader", "other", 'FATAL:  certificate authentication failed for user "other"'),
        ("Reader", "reader", 'FATAL:  certificate authentication failed for user "reader"'),
        ("", "reader", 'FATAL:  certificate authentication failed for user "reader"'),
        ("stranger", "stranger", 'FATAL:  role "stranger" does not exist'),
    ],
)
def test_client_certificates(tmp_path: Path, authority: Certificate, name: str, user: str, expected: str) -> None:
    client = signed(tmp_path, name, authority)
    files = {"sslcert": str(client.certificate), "sslkey": str(client.key)}
    server = with_authority(tmp_path, authority)
    assert logged_in(server, user=user, sslmode="require", password="", **files).endswith(expected)


def test_a_client_without_a_certificate(tmp_path: Path, authority: Certificate) -> None:
    server = with_authority(tmp_path, authority)
    answer = logged_in(server, sslmode="require", sslcert="/nonexistent", sslkey="/nonexistent")
    assert answer.endswith("FATAL:  connection requires a valid client certificate")


def test_a_certificate_that_nobody_known_has_signed(tmp_path: Path, authority: Certificate) -> None:
    client = self_signed(tmp_path, "reader")
    files = {"sslcert": str(client.certificate), "sslkey": str(client.key)}
    answer = logged_in(with_authority(tmp_path, authority), sslmode="require", **files)
    assert answer
    assert answer != "reader"


def on_socket(directory: Path, rules: str, **changes: object) -> TinyServer:
    """Make a server on a Unix socket, of the name that clients look for."""
    access = replace(ACCESS, rules=parse_rules(rules, "rules"), **changes)  # type: ignore[arg-type]
    return TinyServer(access, path=directory / ".s.PGSQL.7777")


def test_the_owner_comes_by_the_socket(tmp_path: Path) -> None:
    me = system_user_named(os.geteuid())
    assert me is not None
    server = on_socket(tmp_path, "local all,replication all peer", owner=me)
    assert logged_in(server, user=me, password="") == me
    assert logged_in(server, user=me, password="", replication="true") == me
    answer = logged_in(server, user="reader")
    assert answer.endswith('FATAL:  Peer authentication failed for user "reader"')
    stranger = replace(server, access=replace(server.access, owner=None))
    assert logged_in(stranger, user=me, password="").endswith(f'FATAL:  role "{me}" does not exist')


def test_passwords_on_the_socket(tmp_path: Path) -> None:
    server = on_socket(tmp_path, "local all all scram-sha-256")
    assert logged_in(server) == "reader"
    assert logged_in(server, channel_binding="require").endswith("but SSL not in use")
    answer = logged_in(server, replication="true")
    message = 'no pg_hba.conf entry for replication connection from host "[local]", user "reader", no encryption'
    assert answer.endswith(f"FATAL:  {message}")


def test_the_context_offers_what_it_should(tmp_path: Path) -> None:
    made = self_signed(tmp_path, "localhost")
    encryption: Encryption = load_encryption(made.certificate, made.key)
    assert encryption.context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert encryption.context.verify_mode is ssl.CERT_NONE
