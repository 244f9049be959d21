"""PostgreSQL's JDBC driver at the service and at a server, in a Java process (``make test-peers``)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psycopg
import pytest

from bad_input.servers import run
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from peers.connector import HERE, JARS
from serving.answers import conninfo_at, places
from serving.service import Serving, backup_of

pytestmark = pytest.mark.server


def asked(place: dict[str, str]) -> str:
    """Ask all that ``AskServer`` asks; return what it prints."""
    (driver,) = JARS.glob("postgresql-*.jar")
    url = f"jdbc:postgresql://{place['host']}:{place['port']}/postgres"
    command = ["java", "-cp", str(driver), str(HERE / "AskServer.java"), url, place["user"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_jdbc_gets_the_same(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--peers"):
        pytest.skip("part of make test-peers")
    programs = find_programs(16, plugin="test_decoding")
    with EmbeddedPostgres(programs, autovacuum=False, wal_segment_megabytes=1, loopback=True) as server:
        run(server, "CREATE TABLE t (a int PRIMARY KEY, b text)")
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            theirs, ours = places(server, serving)
            for place in (ours, theirs):
                with psycopg.connect(conninfo_at(place)) as connection:
                    connection.execute("SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
            run(server, *(f"INSERT INTO t VALUES ({i}, 'b{i}')" for i in range(5)))
            answered = asked(ours)
            assert "data=COMMIT" in answered
            assert answered == asked({**theirs, "host": "127.0.0.1", "port": str(server.port)})
