"""Servers that apply each other's changes, with ``--origin none``: they converge, and nothing echoes.

Each writes keys of its own. A row that came back would be an insert of a key that is there, or would move the row's
origin; so each row has the origin of the server that wrote it.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from apply.differential import SOURCE_DATABASE, Applying, place, rows_of, server_of, source_rows
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from packaged_servers import is_packaged
from serving.service import wait_until

pytestmark = pytest.mark.server

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, writer int, changes int DEFAULT 0)",
    "CREATE TABLE done (writer int PRIMARY KEY)",
    "CREATE PUBLICATION p FOR ALL TABLES",
)
WITH_ORIGIN = [18, *(pytest.param(major, marks=pytest.mark.slow) for major in (16, 17, 19) if is_packaged(major))]
TRANSACTIONS = 60


def run(server: EmbeddedPostgres, *statements: str) -> None:
    """Run statements, each a transaction of its own."""
    with server.connect() as session:
        for statement in statements:
            session.execute(statement.encode())


def write(server: EmbeddedPostgres, writer: int) -> None:
    """Insert, change and delete rows whose keys are this server's, and say when that is done."""
    with server.connect() as session:
        for number in range(TRANSACTIONS):
            first = number * 30 + writer * 10
            session.execute(
                f"BEGIN; INSERT INTO t SELECT i, {writer} FROM generate_series({first}, {first + 9}) i; "
                f"UPDATE t SET changes = changes + 1 WHERE writer = {writer} AND id % 7 = 0; "
                f"DELETE FROM t WHERE writer = {writer} AND id % 11 = 0; COMMIT".encode()
            )
        session.execute(f"INSERT INTO done VALUES ({writer})".encode())


def write_everywhere(servers: list[EmbeddedPostgres]) -> None:
    """Let all write at once, and wait until all have all."""
    threads = [Thread(target=write, args=(server, number)) for number, server in enumerate(servers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: all(rows_of(server, "SELECT count(*) FROM done") == [(len(servers),)] for server in servers))


def require_the_same(servers: list[EmbeddedPostgres]) -> None:
    """Require that all have the same rows, each with the origin of the server that wrote it."""
    for server in servers:
        assert source_rows(server, SOURCE_DATABASE, "t") == source_rows(servers[0], SOURCE_DATABASE, "t")
    for number, server in enumerate(servers):
        query = """SELECT DISTINCT writer, o.roname FROM t, pg_xact_commit_timestamp_origin(xmin) s
                   LEFT JOIN pg_replication_origin o ON o.roident = s.roident ORDER BY 1"""
        others = {writer: f"headwater_from_{writer}" for writer in range(len(servers)) if writer != number}
        origins = {writer: "stock" if str(name).startswith("pg_") else name for writer, name in rows_of(server, query)}
        assert origins == {number: None, **{writer: origins.get(writer) for writer in others}}
        assert all(origins[writer] in (name, "stock") for writer, name in others.items())


def applying(directory: Path, servers: list[EmbeddedPostgres], source: int, target: int) -> Applying:
    """Make the worker from one server to another; its slot is there."""
    name = f"from_{source}"
    run(servers[source], f"SELECT pg_create_logical_replication_slot('to_{target}', 'pgoutput')")
    source_place, target_place = (place(servers[at], SOURCE_DATABASE) for at in (source, target))
    log = directory / f"{source}-{target}.log"
    flags = ("--origin", "none", "--slot", f"to_{target}")
    return Applying(source_place, target_place, log, *flags, subscription=name)


@pytest.mark.parametrize("major", WITH_ORIGIN)
@pytest.mark.parametrize("count", [2, 3])
def test_all_to_all(tmp_path: Path, count: int, major: int) -> None:
    """Two servers, and three, of which each applies what the others have written themselves."""
    with ExitStack() as stack:
        servers = [stack.enter_context(server_of(major)) for _ in range(count)]
        for server in servers:
            run(server, *TABLES)
        pairs = [(source, target) for source in range(count) for target in range(count) if source != target]
        workers = [applying(tmp_path, servers, *pair) for pair in pairs]
        for worker in workers:
            stack.enter_context(worker)
        write_everywhere(servers)
        require_the_same(servers)
        for worker in workers:
            assert worker.stop() == 0
            assert worker.text() == ""


@pytest.mark.parametrize("major", WITH_ORIGIN)
def test_a_stock_subscription_the_other_way(tmp_path: Path, major: int) -> None:
    """The server's own worker takes our rows for ones of an origin, and we take its rows for such."""
    with ExitStack() as stack:
        servers = [stack.enter_context(server_of(major)) for _ in range(2)]
        for server in servers:
            run(server, *TABLES)
        worker = stack.enter_context(applying(tmp_path, servers, 0, 1))
        # A stock subscription does not pass over what the worker notes in its schema.
        run(servers[1], "DROP PUBLICATION p", "CREATE PUBLICATION p FOR TABLE t, done")
        own = place(servers[1], SOURCE_DATABASE).replace("'", "''")
        options = "copy_data = false, origin = none"
        run(servers[0], f"CREATE SUBSCRIPTION s CONNECTION '{own}' PUBLICATION p WITH ({options})")
        write_everywhere(servers)
        require_the_same(servers)
        assert worker.stop() == 0
        assert worker.text() == ""
        run(servers[0], "DROP SUBSCRIPTION s")


def test_a_ring_that_hands_on_everything(tmp_path: Path) -> None:
    """With ``--origin any`` a row comes back to who wrote it: that is reported, and changes nothing."""
    with ExitStack() as stack:
        servers = [stack.enter_context(server_of(18)) for _ in range(3)]
        for server in servers:
            run(server, *TABLES)
        workers = [applying(tmp_path, servers, at, (at + 1) % 3) for at in range(3)]
        for worker in workers:
            worker.flags += ["--origin", "any"]
            stack.enter_context(worker)
        run(servers[0], "INSERT INTO t VALUES (1, 0)")
        wait_until(lambda: "(SQLSTATE 23505)" in workers[2].text())
        assert [source_rows(server, SOURCE_DATABASE, "t") for server in servers] == [["(1,0,0)"]] * 3
        assert [worker.stop() for worker in workers] == [0, 0, 0]
        assert [worker.text() for worker in workers[:2]] == ["", ""]
