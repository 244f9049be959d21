"""Malformed sessions: the service answers with typed errors, as the server does, goes on, and serves others."""

from __future__ import annotations

import random
from collections.abc import Iterator

import psycopg
import pytest

from bad_input.servers import conninfo_of, run, small_server
from fuzz.live_sessions import (
    WAYS,
    Answers,
    malformed_commands,
    malformed_messages,
    malformed_startup,
    malformed_statuses,
    played,
)
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import Serving, backup_of

pytestmark = pytest.mark.server

SESSIONS, COMPARED = 300, 150
SYNTAX = "42601"


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    """Run a server."""
    with small_server(18) as server:
        run(server, "CREATE TABLE t (a int)")
        yield server


@pytest.fixture(scope="module")
def serving(server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Run a service of its WAL."""
    place = tmp_path_factory.mktemp("malformed")
    catalog = backup_of(server, place / "base")
    with Serving(server.wal_directory, catalog, place / "slots", "-v") as serving:
        for conninfo in (conninfo_of(server), service_of(serving)):
            with psycopg.connect(f"{conninfo} replication=database", autocommit=True) as connection:
                connection.execute(b"CREATE_REPLICATION_SLOT s LOGICAL test_decoding")
        yield serving


def service_of(serving: Serving) -> str:
    return f"host=127.0.0.1 port={serving.port} user=postgres dbname=postgres"


def socket_of(server: EmbeddedPostgres) -> str:
    return f"{server.socket_directory}/.s.PGSQL.{server.port}"


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_typed_errors_and_no_traceback(serving: Serving, way: object) -> None:
    with psycopg.connect(
        f"{service_of(serving)} replication=database", autocommit=True, prepare_threshold=None
    ) as other:
        for seed in range(SESSIONS // len(WAYS)):
            played(("127.0.0.1", serving.port), way(random.Random(seed)))  # type: ignore[operator]
            assert other.execute("SELECT 1").fetchone() == (1,)
    log = serving.log.read_text()
    assert "Traceback" not in log
    assert "a fault of the program" not in log


def both(server: EmbeddedPostgres, serving: Serving, pieces: list[bytes]) -> tuple[Answers, Answers]:
    """Play a session to both."""
    return played(socket_of(server), pieces), played(("127.0.0.1", serving.port), pieces)


def test_start_ups_are_refused_as_by_the_server(server: EmbeddedPostgres, serving: Serving) -> None:
    for seed in range(COMPARED):
        pieces = malformed_startup(random.Random(seed))
        theirs, ours = both(server, serving, pieces)
        assert ours.errors == theirs.errors, pieces


def test_messages_are_refused_as_by_the_server(server: EmbeddedPostgres, serving: Serving) -> None:
    for seed in range(COMPARED):
        pieces = malformed_messages(random.Random(seed))
        theirs, ours = both(server, serving, pieces)
        assert ours.errors == theirs.errors, pieces


def test_commands_are_refused_as_by_the_server(server: EmbeddedPostgres, serving: Serving) -> None:
    for seed in range(COMPARED):
        for piece in malformed_commands(random.Random(seed))[1:]:
            theirs, ours = both(server, serving, [malformed_commands(random.Random(0))[0], piece])
            if any(state == SYNTAX for _, state, text in (*theirs.errors, *ours.errors) if text == "syntax error"):
                assert ours.errors == theirs.errors, piece


def test_statuses_are_refused_as_by_the_server(server: EmbeddedPostgres, serving: Serving) -> None:
    for seed in range(COMPARED // 3):
        pieces = malformed_statuses(random.Random(seed))
        theirs, ours = both(server, serving, pieces)
        assert ours.errors == theirs.errors, pieces
