"""Servers that write the same rows at once, and apply each other's changes: where the last one wins, they converge."""

from __future__ import annotations

import random
from contextlib import ExitStack
from threading import Thread

import psycopg
import pytest

from apply.differential import SOURCE_DATABASE, place, rows_of, server_of, source_rows
from headwater.apply.incoming.conflict_rules import ConflictRules
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.worker import ApplyWorker
from headwater.errors import HeadwaterError, ServerError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.remote_slots.slot_address import SlotAddress
from packaged_servers import is_packaged
from serving.service import wait_until

pytestmark = pytest.mark.server

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, writer int, number int, note text)",
    "CREATE TABLE ends (id int PRIMARY KEY, writer int)",
    "INSERT INTO ends SELECT g, -1 FROM generate_series(1, 60) g",
    "CREATE TABLE done (writer int PRIMARY KEY)",
    "CREATE PUBLICATION p FOR ALL TABLES",
)
RULES = (
    "insert_exists=last_update_wins",
    "update_origin_differs=last_update_wins",
    # Of a row that is deleted here and changed there, the delete wins on both.
    "delete_origin_differs=apply_remote",
    "update_missing=keep_local",
    "delete_missing=keep_local",
)
ROUNDS, FEW_ROUNDS, KEYS = 80, 15, 12


def write(server: EmbeddedPostgres, writer: int, rounds: int) -> None:
    """Write rows that others write, too, and say when that is done."""
    chance = random.Random(writer)
    with server.connect() as session:
        for number in range(rounds):
            for statement in _transaction(chance, writer, number):
                try:
                    session.execute(statement.encode())
                except psycopg.errors.DeadlockDetected:
                    session.execute("ROLLBACK")
        session.execute(f"INSERT INTO done VALUES ({writer})".encode())


def _transaction(chance: random.Random, writer: int, number: int) -> list[str]:
    keys = sorted(chance.sample(range(KEYS), 3))
    note = chance.choice(["NULL", f"'{writer}-{number}'", "repeat('long', 900)"])
    upserts = [
        f"INSERT INTO t VALUES ({key}, {writer}, {number}, {note}) ON CONFLICT (id) DO UPDATE "
        f"SET writer = {writer}, number = {number}, note = {note}"
        for key in keys
    ]
    gone = f"DELETE FROM ends WHERE id = {chance.randint(1, 60)}"
    changed = f"UPDATE ends SET writer = {writer} WHERE id = {chance.randint(1, 60)}"
    return [f"BEGIN; {'; '.join(upserts)}; COMMIT", gone if chance.random() < 0.3 else changed]


class Applying:
    """A worker from one server to another, in a thread; a context manager that ends it. Its slot is made before."""

    def __init__(
        self, servers: list[EmbeddedPostgres], source: int, target: int, rules: tuple[str, ...] = RULES
    ) -> None:
        rows_of(servers[source], f"SELECT pg_create_logical_replication_slot('to_{target}', 'pgoutput')")
        from_place, to_place = (place(servers[at], SOURCE_DATABASE) for at in (source, target))
        request = ApplyRequest(
            slot=SlotAddress(conninfo=from_place, slot=f"to_{target}", publications=("p",)),
            target=to_place,
            subscription=f"from_{source}",
            origin="none",
            retry_seconds=0.2,
            copies_data=False,
            conflicts=ConflictRules.parse(rules, log="table"),
        )
        self.errors: list[HeadwaterError] = []
        self._worker = ApplyWorker(request, self.errors.append)
        self._thread = Thread(target=self._worker.run)

    def __enter__(self) -> Applying:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()
        self._thread.join()

    def has_failed(self) -> bool:
        """Tell whether an error was met, but for deadlocks with those who write."""
        return any(not isinstance(error, ServerError) or error.sqlstate != "40P01" for error in self.errors)


def have_all(servers: list[EmbeddedPostgres], workers: list[Applying]) -> bool:
    """Tell whether each server has what all have written."""
    assert [error for worker in workers for error in worker.errors if worker.has_failed()] == []
    return all(rows_of(server, "SELECT count(*) FROM done") == [(len(servers),)] for server in servers)


COUNTS = [
    (18, 2, ROUNDS),
    (18, 3, FEW_ROUNDS),
    *(
        pytest.param(*case, ROUNDS, marks=pytest.mark.slow)
        for case in ((16, 2), (19, 2), (18, 3))
        if is_packaged(case[0])
    ),
]


@pytest.mark.parametrize(("major", "count", "rounds"), COUNTS)
def test_the_last_one_wins_everywhere(major: int, count: int, rounds: int) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(server_of(major)) for _ in range(count)]
        for server in servers:
            with server.connect() as session:
                for statement in TABLES:
                    session.execute(statement.encode())
        pairs = [(source, target) for source in range(count) for target in range(count) if source != target]
        workers = [stack.enter_context(Applying(servers, *pair)) for pair in pairs]
        threads = [Thread(target=write, args=(server, number, rounds)) for number, server in enumerate(servers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_until(lambda: have_all(servers, workers))
        for table in ("t", "ends"):
            contents = [source_rows(server, SOURCE_DATABASE, table) for server in servers]
            assert contents == [contents[0]] * count
        assert sum(rows_of(server, "SELECT count(*) FROM headwater.conflicts")[0][0] for server in servers) > 0


def test_what_each_server_notes() -> None:
    """Both have written before they hear of each other: each notes the same two rows, and what it does is opposite."""
    with ExitStack() as stack:
        servers = [stack.enter_context(server_of(18)) for _ in range(2)]
        for server in servers:
            with server.connect() as session:
                for statement in TABLES:
                    session.execute(statement.encode())
        workers = [Applying(servers, 0, 1), Applying(servers, 1, 0)]
        for number, server in enumerate(servers):
            rows_of(server, f"INSERT INTO t VALUES (1, {number}, 0, 'x')")
            rows_of(server, f"INSERT INTO done VALUES ({number})")
        for worker in workers:
            stack.enter_context(worker)
        wait_until(lambda: have_all(servers, workers))
        noted = "SELECT kind, resolution, local_row, remote_row, local_commit_time, remote_commit_time FROM "
        first, second = (rows_of(server, f"{noted} headwater.conflicts") for server in servers)
        ((kind, done, local, remote, local_time, remote_time),) = first
        assert (kind, done) == ("insert_exists", "apply_remote")
        assert second == [(kind, "keep_local", remote, local, remote_time, local_time)]
        assert [source_rows(server, SOURCE_DATABASE, "t") for server in servers] == [["(1,1,0,x)"]] * 2


@pytest.mark.parametrize("rules", [pytest.param(RULES, marks=pytest.mark.slow), ()])
def test_what_three_servers_note(rules: tuple[str, ...]) -> None:
    """All have written a row before they hear of each other: each notes those of both others.

    Without rules each keeps its own, and says so again and again.
    """
    with ExitStack() as stack:
        servers = [stack.enter_context(server_of(18)) for _ in range(3)]
        for server in servers:
            with server.connect() as session:
                for statement in TABLES:
                    session.execute(statement.encode())
        pairs = [(source, target) for source in range(3) for target in range(3) if source != target]
        workers = [Applying(servers, *pair, rules=rules) for pair in pairs]
        for number, server in enumerate(servers):
            rows_of(server, f"INSERT INTO t VALUES (1, {number}, 0, 'x')")
            rows_of(server, f"INSERT INTO done VALUES ({number})")
        for worker in workers:
            stack.enter_context(worker)
        noted = "SELECT DISTINCT kind, (remote_row->>'writer')::int FROM headwater.conflicts ORDER BY 2"

        def notes_all(number: int, server: EmbeddedPostgres) -> bool:
            others = [other for other in range(3) if other != number]
            try:
                return rows_of(server, noted) == [("insert_exists", other) for other in others]
            except psycopg.errors.UndefinedTable:
                return False

        wait_until(lambda: all(notes_all(*each) for each in enumerate(servers)))
        if rules:
            wait_until(lambda: have_all(servers, workers))
        rows = [source_rows(server, SOURCE_DATABASE, "t") for server in servers]
        assert rows == [[f"(1,{2 if rules else number},0,x)"] for number in range(3)]
