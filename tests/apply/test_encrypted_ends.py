"""Both servers by TLS alone, with passwords of a file, named by a service file: every session that there is."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from access.certificates import self_signed
from access.server_parts import strict_server
from forked_commands import MAIN, ForkedCommand
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import END_SECONDS, wait_until

pytestmark = [pytest.mark.server, pytest.mark.slow]

RULES = "hostssl all,replication applier 127.0.0.1/32 scram-sha-256\n"
ROLE = "CREATE ROLE applier SUPERUSER LOGIN PASSWORD 'se cret:\\word'"
TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, n int)",
    "CREATE TABLE large (id int PRIMARY KEY, v text)",
    "CREATE TABLE filtered (id int PRIMARY KEY)",
)
FILL = (
    "INSERT INTO t SELECT g, g FROM generate_series(1, 1000) g",
    "INSERT INTO large SELECT g, repeat('x', 500) FROM generate_series(1, 20000) g",
    "INSERT INTO filtered SELECT g FROM generate_series(1, 1000) g",
    "CREATE PUBLICATION p FOR TABLE t, large, filtered WHERE (id % 2 = 0)",
    "ALTER SYSTEM SET logical_decoding_work_mem = '64kB'",
)
SEEN = "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM large), (SELECT count(*) FROM filtered)"
STREAMED = "SELECT stream_txns > 0 FROM pg_stat_replication_slots WHERE slot_name = 'sub'"
SESSIONS = """
SELECT count(*) FILTER (WHERE s.ssl), count(*) FILTER (WHERE NOT s.ssl) FROM pg_stat_activity a JOIN pg_stat_ssl s
USING (pid) WHERE a.usename = 'applier'
"""


def run(server: EmbeddedPostgres, *statements: str) -> list[tuple[object, ...]]:
    """Run statements by the socket; return the rows of the last."""
    with server.connect() as session:
        cursor = [session.execute(statement.encode()) for statement in statements][-1]
        return cursor.fetchall() if cursor.description else []


def named_by_files(directory: Path, **servers: EmbeddedPostgres) -> dict[str, str]:
    """Write a service file with both servers, and their passwords; return the environment that names the files."""
    services, passwords = directory / "services", directory / "passwords"
    place = "[{}]\nhost=127.0.0.1\nport={}\nuser=applier\ndbname=postgres\nsslmode=require\n"
    services.write_text("".join(place.format(name, server.port) for name, server in servers.items()))
    lines = (f"127.0.0.1:{server.port}:*:applier:se cret\\:\\\\word\n" for server in servers.values())
    passwords.write_text("".join(lines))
    passwords.chmod(0o600)
    return {**os.environ, "PGSERVICEFILE": str(services), "PGPASSFILE": str(passwords)}


def test_both_ends(tmp_path: Path) -> None:
    """Copies in ranges, the stream, sessions beside each other and ahead of ends; no password is shown."""
    certificate, log = self_signed(tmp_path, "localhost"), tmp_path / "log"
    words = ["apply", "--from", "service=source", "--to", "service=target", "--publication", "p"]
    words += ["--subscription", "sub", "--workers", "2", "--streaming", "parallel", "--range-blocks", "200"]
    with (
        strict_server(18, RULES, ROLE, *TABLES, *FILL, certificate=certificate) as source,
        strict_server(18, RULES, ROLE, *TABLES, certificate=certificate) as target,
    ):
        environment = named_by_files(tmp_path, source=source, target=target)
        with log.open("wb") as errors:
            applying = ForkedCommand([*MAIN, *words], stderr=errors, environment=environment)
        try:
            wait_until(lambda: run(target, SEEN) == [(1000, 20000, 500)])
            for first in range(2000, 3000, 100):
                run(source, f"INSERT INTO t SELECT g, 1 FROM generate_series({first}, {first + 99}) g")
            with source.connect() as session:
                session.execute("BEGIN")
                session.execute(b"INSERT INTO large SELECT g, repeat('y', 500) FROM generate_series(30001, 40000) g")
                wait_until(lambda: run(source, STREAMED) == [(True,)])
                session.execute("COMMIT")
            wait_until(lambda: run(target, SEEN) == [(2000, 30000, 500)])
            for server in (source, target):
                ((encrypted, plain),) = run(server, SESSIONS)
                assert (int(str(encrypted)) > 0, plain) == (True, 0)
        finally:
            applying.send_signal(signal.SIGINT)
            assert applying.wait(END_SECONDS) == 0, log.read_text()
        text = log.read_text()
        assert "cret" not in text
        assert not re.search("ERROR|error", text), text
        wrong = {**environment, "PGPASSFILE": str(tmp_path / "none")}
        with log.open("wb") as errors:
            refused = ForkedCommand([*MAIN, *words, "--disable-on-error"], stderr=errors, environment=wrong)
        assert refused.wait(END_SECONDS) == 1
        assert "no password supplied" in log.read_text()
