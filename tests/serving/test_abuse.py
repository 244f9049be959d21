"""Clients that are let in, or nearly, and take more than their share: they are bounded, and others are served."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from access.raw_client import raw_client
from bad_input.servers import run, small_server
from headwater.protocol.scram import Verifier
from headwater.walsender.access.users import User, Users, write_users
from serving.raw_queries import FLUSH, SYNC, message, raw_connection
from serving.service import Serving, backup_of, wait_until

pytestmark = pytest.mark.server

RULES = "host all,replication postgres 127.0.0.1/32 trust\nhost all,replication stranger 127.0.0.1/32 scram-sha-256\n"
MOST = 2
STARTUP = {"user": "postgres", "database": "postgres"}
LONG_SECONDS = 300
"""For what a flood has left, on a machine that is busy."""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Run a service with few places, over the backup of a server that has stopped."""
    place = tmp_path_factory.mktemp("abuse")
    with small_server(18) as server:
        run(server, "CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 100)")
        catalog = backup_of(server, place / "base")
    (place / "rules").write_text(RULES)
    verifier = Verifier.make(b"secret", b"sixteen bytes...")
    users = Users({"postgres": User("postgres"), "stranger": User("stranger", verifier)})
    write_users(place / "users", users)
    flags = ["--auth", str(place / "rules"), "--users", str(place / "users")]
    flags += ["--max-wal-senders", str(MOST), "--max-connections", str(2 * MOST)]
    with Serving(catalog / "pg_wal", catalog, place / "slots", *flags) as serving:
        yield serving


@contextmanager
def session(serving: Serving, words: str = "") -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Connect as somebody who is trusted."""
    info = f"host=127.0.0.1 port={serving.port} user=postgres dbname=postgres {words}"
    with psycopg.connect(info, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("mode", [{"replication": "database"}, {}], ids=["replication", "sql"])
def test_who_does_not_prove_who_he_is_keeps_nobody_out(serving: Serving, mode: dict[str, str]) -> None:
    stranger = {"user": "stranger", "database": "postgres", **mode}
    words = " ".join(f"{name}={value}" for name, value in mode.items())
    with ExitStack() as block:
        for _ in range(3 * MOST):
            client = block.enter_context(raw_client(("127.0.0.1", serving.port)))
            assert client.startup(stranger)[0] == "R"
        for _ in range(MOST):
            block.enter_context(session(serving, words))
        # Who has proved it keeps his place.
        if mode:
            with pytest.raises(psycopg.OperationalError, match="number of requested standby connections exceeds"):
                block.enter_context(session(serving, words))


def test_a_message_that_is_too_long(serving: Serving) -> None:
    place = {"host": "127.0.0.1", "port": str(serving.port)}
    for kind in (b"Q", b"P", b"B", b"d"):
        with raw_connection(place, STARTUP) as client:
            ((letter, fields),) = client.answers(kind + struct.pack(">I", 1 << 29))
            assert letter == "E"
            assert ("C", "54000") in fields  # type: ignore[operator]
            assert client.connection.recv(1) == b""


def test_queries_that_would_not_end(serving: Serving) -> None:
    with session(serving, "options='-c statement_timeout=1s'") as connection:
        likes = connection.execute(f"SELECT '{'a' * 5000}' LIKE '{'%a' * 2000}%b'".encode()).fetchone()
        assert likes == (False,)
        for number in range(10):
            connection.execute(f"SELECT pg_create_physical_replication_slot('p{number}')".encode())
        joined = ", ".join(f"pg_replication_slots s{number}" for number in range(12))
        with pytest.raises(errors.QueryCanceled, match="statement timeout"):
            connection.execute(f"SELECT count(*) FROM {joined} WHERE s0.slot_name = s11.plugin".encode())
        for number in range(10):
            connection.execute(f"SELECT pg_drop_replication_slot('p{number}')".encode())


@pytest.mark.slow
@pytest.mark.parametrize("sent", [SYNC, FLUSH, message(b"d")], ids=["sync", "flush", "copy"])
def test_floods_hold_up_nobody(serving: Serving, sent: bytes) -> None:
    with raw_connection({"host": "127.0.0.1", "port": str(serving.port)}, STARTUP) as client:
        threading.Thread(target=_take_all, args=(client.connection,), daemon=True).start()
        client.connection.sendall(sent * 800_000)
        with session(serving) as other:
            longest = 0.0
            for _ in range(100):
                began = time.monotonic()
                assert other.execute("SELECT pg_backend_pid()").fetchone() is not None
                longest = max(longest, time.monotonic() - began)
        client.connection.shutdown(socket.SHUT_RDWR)
    assert longest < 3.0  # Seconds; once it was twenty.
    wait_until(lambda: _sessions(serving) == 1, LONG_SECONDS)


def _sessions(serving: Serving) -> int:
    """Count the sessions, this one among them; 0 where there is no place for it."""
    with suppress(psycopg.OperationalError), session(serving) as connection:
        return len(connection.execute("SELECT pid FROM pg_stat_activity").fetchall())
    return 0


def _take_all(connection: socket.socket) -> None:
    with suppress(OSError):
        while connection.recv(1 << 20):
            pass


HOSTILE = (
    *("COPY pg_class TO PROGRAM 'id'", "COPY pg_class TO '/tmp/x'", "COPY t FROM '/etc/passwd'", "LOAD '/tmp/x.so'"),
    *("COPY (SELECT 1) TO PROGRAM 'id'", "SELECT lo_import('/etc/passwd')", "SELECT pg_read_file('/etc/passwd')"),
    *("SELECT pg_ls_dir('/')", "SELECT * FROM pg_ls_waldir()", "SELECT pg_stat_file('/etc/passwd')"),
    *("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "DO $$ BEGIN END $$", "CREATE EXTENSION dblink"),
    *("SELECT pg_terminate_backend(1)", "SELECT pg_reload_conf()", "SELECT pg_promote()", "SELECT pg_rotate_logfile()"),
    *("SELECT pg_wal_replay_pause()", "SELECT pg_advisory_lock(1)", "SELECT pg_export_snapshot()", "LISTEN x"),
    *("SELECT rolpassword FROM pg_authid", "SELECT passwd FROM pg_shadow", "SELECT subconninfo FROM pg_subscription"),
    *("SELECT * FROM pg_hba_file_rules", "SELECT * FROM pg_file_settings", "SELECT * FROM pg_statistic"),
    *("SELECT query_to_xml('SELECT 1', true, true, '')", "SELECT database_to_xml(true, true, '')", "NOTIFY x"),
    "SELECT setting FROM pg_settings WHERE name = 'data_directory'",
)
"""Statements that reach files, processes, secrets or code where a server runs them."""

SECRET = b"root:", b"SCRAM-SHA-256$", b"/headwater"


@pytest.mark.slow
def test_statements_that_reach_out_are_refused(serving: Serving) -> None:
    with session(serving) as connection:
        for statement in HOSTILE:
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(statement.encode())
            assert refused.value.sqlstate == "0A000", statement
            text = str(refused.value).encode()
            assert not any(secret in text.replace(statement.encode(), b"") for secret in SECRET), statement
        assert connection.execute("SELECT count(*) FROM pg_class WHERE relname = 't'").fetchone() == (1,)


LONG_SUM = f"SELECT ({' + '.join(['factorial(32000)'] * 200)}) % 7"
"""A constant that takes minutes to be computed."""


@pytest.mark.slow
def test_what_the_catalogs_server_computes_is_bounded(serving: Serving) -> None:
    with session(serving) as connection, session(serving) as other:
        assert other.execute("SELECT count(*) FROM pg_class WHERE relname = 't'").fetchone() == (1,)
        for statement, state in (
            ("SELECT length(repeat('x', 700000000))", "53200"),
            ("SELECT length(string_agg(repeat('x', 1000000), '')) FROM generate_series(1, 900)", "53200"),
            ("SELECT repeat('x', 100000000)", "54000"),
        ):
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(statement.encode())
            assert refused.value.sqlstate == state, statement
        # What is constant is computed by the planner, while nothing is replayed.
        with pytest.raises(errors.FeatureNotSupported) as late:
            connection.execute(LONG_SUM)
        assert "takes too long" in str(late.value.diag.message_hint)
        connection.execute("SET statement_timeout = '1s'")
        with pytest.raises(errors.QueryCanceled, match="statement timeout"):
            connection.execute(LONG_SUM)
        assert other.execute("SELECT count(*) FROM pg_class WHERE relname = 't'").fetchone() == (1,)


def test_the_log_has_no_faults(serving: Serving) -> None:
    log = Path(serving.log).read_text(errors="replace")
    assert "Traceback" not in log
    assert "a fault of the program" not in log
