"""Limits of a service: refused in the server's words, and nobody else notices who asks for too much or says nothing."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from psycopg import pq

from bad_input.servers import conninfo_of, run, small_server
from headwater.local_servers.server_programs import program_version
from serving.service import Serving, backup_of, wait_until

pytestmark = pytest.mark.server

FEW = {"max_wal_senders": "2", "max_replication_slots": "2", "max_connections": "6"}
HALF_OPEN = 1000
MOST_BYTES = 200 << 20
"""Of memory for what is waited for."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the services' files."""
    return tmp_path_factory.mktemp("limits")


@pytest.fixture(scope="module")
def catalog(place: Path) -> Path:
    """Return the backup of a server that has stopped."""
    with small_server(18) as server:
        return backup_of(server, place / "base")


def refusals(conninfo: str) -> list[tuple[str | None, ...]]:
    """Ask for more than there is: sessions, sessions of replication, slots."""
    refused: list[tuple[str | None, ...]] = []
    for words in ("replication=database", "replication=true", ""):
        with ExitStack() as sessions:
            while True:
                connection = pq.PGconn.connect(f"{conninfo} {words}".encode())
                sessions.callback(connection.finish)
                if connection.status == pq.ConnStatus.BAD:
                    refused.append((words, connection.error_message.decode().partition("FATAL: ")[2]))
                    break
    with psycopg.connect(f"{conninfo} replication=database", autocommit=True) as replication:
        for number in range(3):
            try:
                replication.execute(f"CREATE_REPLICATION_SLOT s{number} LOGICAL test_decoding".encode())
            except psycopg.Error as error:
                diagnostics = error.diag
                refused.append((diagnostics.sqlstate, diagnostics.message_primary, diagnostics.message_hint))
        replication.execute(b"DROP_REPLICATION_SLOT s1")
        replication.execute(b"CREATE_REPLICATION_SLOT s2 PHYSICAL")
    return refused


@pytest.mark.parametrize("major", [16, 18])
def test_too_many_are_refused_as_by_the_server(tmp_path: Path, major: int) -> None:
    with small_server(major, **FEW, superuser_reserved_connections="0") as server:
        catalog = backup_of(server, tmp_path / "base")
        release = program_version(server.programs.program("postgres"))
        flags = [flag for name, value in FEW.items() for flag in (f"--{name.replace('_', '-')}", value)]
        with Serving(server.wal_directory, catalog, tmp_path / "s", *flags, "--server-version", release) as serving:
            theirs = refusals(conninfo_of(server))
            assert [len(refusal) for refusal in theirs] == [2, 2, 2, 3]
            assert refusals(conninfo_of_service(serving)) == theirs


def conninfo_of_service(serving: Serving) -> str:
    return f"host=127.0.0.1 port={serving.port} user=postgres dbname=postgres"


def answers(conninfo: str) -> bool:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


def memory_of(serving: Serving) -> int:
    """Return the bytes that the service has in memory."""
    pages = Path(f"/proc/{serving.pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def test_a_thousand_half_open_connections(place: Path, catalog: Path) -> None:
    wants_ssl = struct.pack(">II", 8, 80877103)
    with Serving(catalog / "pg_wal", catalog, place / "half", "--authentication-timeout", "5") as serving:
        assert answers(conninfo_of_service(serving))
        before = memory_of(serving)
        with ExitStack() as block:
            sockets = [
                block.enter_context(socket.create_connection(("127.0.0.1", serving.port))) for _ in range(HALF_OPEN)
            ]
            for number, half_open in enumerate(sockets):
                half_open.sendall((b"", b"\0", wants_ssl, wants_ssl + b"\0\0\x10")[number % 4])
            began = time.monotonic()
            while time.monotonic() < began + 2:
                assert answers(conninfo_of_service(serving))
            assert memory_of(serving) < before + (100 << 20)
            for half_open in sockets:
                half_open.settimeout(60)
                assert half_open.recv(10) in (b"", b"N")
                if half_open.recv(10) != b"":
                    pytest.fail("a connection that says nothing was not closed")
        assert answers(conninfo_of_service(serving))


def test_more_half_open_connections_than_there_may_be_end_the_oldest(place: Path, catalog: Path) -> None:
    with Serving(catalog / "pg_wal", catalog, place / "more") as serving, ExitStack() as block:
        oldest = block.enter_context(socket.create_connection(("127.0.0.1", serving.port)))
        for _ in range(HALF_OPEN + 10):
            block.enter_context(socket.create_connection(("127.0.0.1", serving.port)))
        oldest.settimeout(60)
        assert oldest.recv(1) == b""
        assert answers(conninfo_of_service(serving))


def test_a_client_that_never_reads(tmp_path: Path) -> None:
    with small_server(18) as server:
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            conninfo = f"{conninfo_of_service(serving)} replication=database options='-c wal_sender_timeout=3s'"
            connection = pq.PGconn.connect(conninfo.encode())
            assert connection.exec_(b"CREATE_REPLICATION_SLOT s LOGICAL test_decoding").ntuples == 1
            before = memory_of(serving)
            run(server, "CREATE TABLE u AS SELECT repeat(a::text, 1000) AS a FROM generate_series(1, 20000) AS a")
            connection.send_query(b"START_REPLICATION SLOT s LOGICAL 0/0")
            connection.flush()
            wait_until(lambda: "due to replication timeout" in serving.log.read_text())
            assert memory_of(serving) < before + MOST_BYTES
            assert answers(conninfo_of_service(serving))
            with psycopg.connect(conninfo, autocommit=True) as other:
                other.execute(b"DROP_REPLICATION_SLOT s WAIT")
            connection.finish()


TIMEOUTS = (
    ("idle_session_timeout=200", ()),
    ("idle_in_transaction_session_timeout=0.2s", ("BEGIN",)),
    ("idle_in_transaction_session_timeout=0.2s", ("BEGIN", "SELECT nothing")),
    ("transaction_timeout=200", ("BEGIN",)),
)


def test_idle_sessions_end_as_on_the_server(place: Path) -> None:
    with small_server(18) as server:
        catalog = backup_of(server, place / "idle")
        with Serving(server.wal_directory, catalog, place / "idle slots") as serving:
            for settings, statements in TIMEOUTS:
                ends = []
                for conninfo in (conninfo_of(server), conninfo_of_service(serving)):
                    words = f"{conninfo} replication=database options='-c {settings}'"
                    with psycopg.connect(words, autocommit=True) as connection:
                        for statement in statements:
                            connection.pgconn.exec_(statement.encode())
                        ends.append(end_of(connection.pgconn))
                assert ends[0] == ends[1], settings
                assert "terminating connection due to" in ends[0]


def end_of(connection: pq.abc.PGconn) -> str:
    """Wait until the other side ends the connection; return what it says."""
    with socket.socket(fileno=socket.dup(connection.socket)) as watched:
        watched.setblocking(True)
        watched.settimeout(60)
        watched.recv(1, socket.MSG_PEEK)
    connection.exec_(b"SELECT 1")
    return connection.error_message.decode()


VALUES = (
    "soon",
    "-1",
    "-0.5",
    "1min",
    "90000",
    "1.5s",
    "  7 ",
    "1 h",
    "2000us",
    "0x10",
    "1e3",
    "3 weeks",
    "99999999999",
)


@pytest.mark.parametrize("major", [16, 18])
def test_values_of_timeouts_are_the_servers(tmp_path: Path, major: int) -> None:
    with small_server(major) as server:
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            shown = []
            for conninfo in (conninfo_of(server), conninfo_of_service(serving)):
                with psycopg.connect(f"{conninfo} replication=database", autocommit=True) as connection:
                    shown.append([value_of(connection, value) for value in VALUES])
            assert shown[0] == shown[1]


def value_of(connection: psycopg.Connection[tuple[object, ...]], value: str) -> object:
    """Set a timeout; return what it is then, or the error."""
    try:
        connection.execute(f"SET statement_timeout TO '{value}'".encode())
        return connection.execute(b"SHOW statement_timeout").fetchone()
    except psycopg.Error as error:
        return error.diag.sqlstate, error.diag.message_primary, error.diag.message_hint
