"""JDBC's metadata of the service is that of the server, row by row (``make test-peers``)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bad_input.servers import run
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.walsender.access.users import User, Users, write_users
from peers.connector import HERE, JARS
from serving.service import Serving, all_are_let_in, backup_of

pytestmark = pytest.mark.server

DEFINITIONS = (Path(__file__).parent / "definitions.sql").read_text().split(";\n")


def metadata(port: int) -> list[str]:
    """Return what JDBC says of a schema."""
    (driver,) = JARS.glob("postgresql-*.jar")
    url = f"jdbc:postgresql://127.0.0.1:{port}/postgres"
    command = ["java", "-cp", str(driver), str(HERE / "PrintMetaData.java"), url, "reader", "shop"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout.splitlines()


def test_metadata_is_the_servers(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--peers"):
        pytest.skip("part of make test-peers")
    with EmbeddedPostgres(find_programs(16), autovacuum=False, loopback=True) as server:
        run(server, *DEFINITIONS)
        catalog = backup_of(server, tmp_path / "base")
        run(server, "CREATE TABLE shop.later (a int PRIMARY KEY, b shop.mood DEFAULT 'ok')")
        serving = Serving(server.wal_directory, catalog, tmp_path / "slots")
        write_users(Path(all_are_let_in(tmp_path)[-1]), Users().with_user(User("reader", may_copy_all=True)))
        with serving:
            theirs, ours = metadata(server.port), metadata(serving.port)
        assert len(theirs) > 100
        for expected, line in zip(theirs, ours, strict=True):
            assert line == expected
