"""Logins at the service itself: by password over TLS, bound to its certificate, direct TLS, and by the socket."""

from __future__ import annotations

import getpass
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from access.certificates import self_signed
from bad_input.servers import run, small_server
from headwater.protocol.scram import SALT_BYTES, Verifier
from headwater.walsender.access.users import User, Users, users_locked, write_users
from serving.service import Serving, backup_of, wait_until

pytestmark = pytest.mark.server

RULES = """
local    all,replication  all                   peer
hostssl  all,replication  all     127.0.0.1/32  scram-sha-256
"""
PASSWORD = "open sesame"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the service's files."""
    return tmp_path_factory.mktemp("logins")


@pytest.fixture(scope="module")
def serving(place: Path) -> Iterator[Serving]:
    """Run a service over the WAL of a server that has stopped."""
    with small_server(18) as server:
        run(server, "CREATE TABLE t (a int)", "CREATE PUBLICATION p FOR TABLE t", "CREATE PUBLICATION q FOR TABLE t")
        catalog = backup_of(server, place / "base")
    rules, users, made = place / "rules", place / "users", self_signed(place, "localhost")
    rules.write_text(RULES)
    reader = User("reader", Verifier.make(PASSWORD.encode(), bytes(SALT_BYTES)), publications=("p",))
    write_users(users, Users().with_user(reader).with_user(User("all", reader.verifier)))
    flags = ["--auth", str(rules), "--users", str(users), "--socket", str(place)]
    flags += ["--tls-cert", str(made.certificate), "--tls-key", str(made.key)]
    with Serving(catalog / "pg_wal", catalog, place / "slots", *flags) as service:
        yield service


def connect(serving: Serving, **words: str) -> psycopg.Connection[tuple[object, ...]]:
    usual = {"host": "127.0.0.1", "port": str(serving.port), "dbname": "postgres", "user": "reader"}
    usual |= {"password": PASSWORD, "sslmode": "require", "replication": "database"}
    return psycopg.connect(**{**usual, **words}, autocommit=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"channel_binding": "require"},
        {"sslnegotiation": "direct", "channel_binding": "require"},
        {"sslmode": "verify-ca", "sslrootcert": "localhost.crt"},
    ],
    ids=["password", "bound", "direct", "verified"],
)
def test_let_in(serving: Serving, place: Path, words: dict[str, str]) -> None:
    words = {name: str(place / value) if name == "sslrootcert" else value for name, value in words.items()}
    with connect(serving, **words) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("postgres",)


def test_not_let_in(serving: Serving) -> None:
    refused = (
        ({"password": "wrong"}, 'password authentication failed for user "reader"'),
        ({"user": "nobody"}, 'password authentication failed for user "nobody"'),
        ({"sslmode": "disable"}, 'no pg_hba.conf entry for host "127.0.0.1", user "reader", database "postgres"'),
        ({"dbname": "nothing"}, 'database "nothing" does not exist'),
        ({"replication": "true"}, "permission denied to start WAL sender"),
    )
    for words, reason in refused:
        with pytest.raises(psycopg.OperationalError, match=reason):
            connect(serving, **words)
    with socket.create_connection(("127.0.0.1", serving.port)) as plain:
        plain.sendall(b"\x16\x03\x01\x00\x04\x01\x00\x00\x00")  # a ClientHello without anything in it
        assert plain.recv(1000)[:1] in (b"", b"\x15")
    with connect(serving) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_owner_comes_by_the_socket(serving: Serving, place: Path) -> None:
    words = {"host": str(place), "port": "5432", "user": getpass.getuser(), "sslmode": "prefer"}
    with connect(serving, **words) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_rights_by_publication(serving: Serving) -> None:
    copy, start = "COPY public.t (a) TO STDOUT", "START_REPLICATION SLOT {} LOGICAL 0/0 (proto_version '1', {})"
    with connect(serving) as reader, connect(serving, user="all") as other:
        reader.execute("CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'nothing')")
        other.execute("CREATE_REPLICATION_SLOT d LOGICAL test_decoding (SNAPSHOT 'nothing')")
        for statement in (start.format("s", "publication_names 'p,q'"), start.format("d", "publication_names 'p'")):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(statement.encode())
        with reader.cursor().copy(copy) as copied:
            assert list(copied) == []


def test_files_of_access_are_loaded_again(serving: Serving, place: Path) -> None:
    new = {"user": "new", "password": "another"}
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(serving, **new)
    with users_locked(place / "users") as users:
        before = users
        write_users(place / "users", users.with_user(User("new", Verifier.make(b"another", bytes(SALT_BYTES)))))
    with connect(serving, **new) as connection:
        (place / "rules").write_text("this is no rule\n")
        os.kill(serving.pid, signal.SIGHUP)
        wait_until(lambda: "files of access were not reloaded" in serving.log.read_text())
        connect(serving, **new).close()
        (place / "rules").write_text(RULES.replace("all     127", "all     128"))
        os.kill(serving.pid, signal.SIGHUP)
        wait_until(lambda: is_refused(serving, new))
        assert connection.execute("SELECT 1").fetchone() == (1,)
    (place / "rules").write_text(RULES)
    write_users(place / "users", before)
    os.kill(serving.pid, signal.SIGHUP)
    wait_until(lambda: not is_refused(serving, {}))
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(serving, **new)


def is_refused(serving: Serving, words: dict[str, str]) -> bool:
    """Tell whether no rule lets somebody in."""
    try:
        connect(serving, **words).close()
    except psycopg.OperationalError as error:
        return "no pg_hba.conf entry" in str(error)
    return False
