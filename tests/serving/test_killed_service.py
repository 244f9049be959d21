"""A service that is killed, and started again, while a stock subscriber applies a random workload: nothing is lost."""

from __future__ import annotations

import random
import signal
import threading
from pathlib import Path

import psycopg
import pytest

from bad_input.servers import run, small_server
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import Serving, backup_of, wait_until
from serving.subscribing import TABLES, subscribe, sums

pytestmark = pytest.mark.server

KILLS = 6
SESSIONS = 3


class Workload:
    """Sessions that change rows at random, with savepoints, rollbacks and prepared transactions, until the end."""

    def __init__(self, server: EmbeddedPostgres, seed: int) -> None:
        self._server, self._seed = server, seed
        self._is_over = threading.Event()
        self.transactions = 0
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(SESSIONS)]

    def __enter__(self) -> Workload:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        choose = random.Random(self._seed * SESSIONS + number)
        with self._server.connect() as connection:
            while not self._is_over.is_set():
                self._transaction(connection, choose, number)
                self.transactions += 1

    def _transaction(self, connection: psycopg.Connection[object], choose: random.Random, number: int) -> None:
        connection.execute("BEGIN")
        for _ in range(choose.randint(1, 4)):
            first = number * 100_000 + choose.randint(1, 2000)
            connection.execute("SAVEPOINT s")
            connection.execute(
                choose.choice(STATEMENTS).format(first=first, last=first + choose.randint(0, 20)).encode()
            )
            if choose.random() < 0.2:
                connection.execute("ROLLBACK TO s")
        if choose.random() < 0.1:
            connection.execute(f"PREPARE TRANSACTION 'p{number}'".encode())
            connection.execute(f"{choose.choice(('COMMIT', 'ROLLBACK'))} PREPARED 'p{number}'".encode())
        else:
            connection.execute(b"COMMIT" if choose.random() < 0.9 else b"ROLLBACK")


STATEMENTS = (
    "INSERT INTO t SELECT i, 'n', i FROM generate_series({first}, {last}) i ON CONFLICT DO NOTHING",
    "UPDATE t SET name = name || 'x', price = {first} WHERE id BETWEEN {first} AND {last}",
    "DELETE FROM t WHERE id BETWEEN {first} AND {last}",
    "INSERT INTO parts SELECT i, 'a' FROM generate_series({first}, {last}) i ON CONFLICT DO NOTHING",
    "UPDATE parts SET region = CASE region WHEN 'a' THEN 'b' ELSE 'a' END WHERE id BETWEEN {first} AND {last}"
    " AND NOT EXISTS (SELECT FROM parts o WHERE o.id BETWEEN {first} AND {last} AND o.region <> parts.region)",
)


@pytest.mark.parametrize(
    ("major", "options"), [(16, "streaming = on"), pytest.param(18, "two_phase = on", marks=pytest.mark.slow)]
)
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path, major: int, options: str) -> None:
    with small_server(major) as publisher, small_server(major) as subscriber:
        run(publisher, *TABLES, "CREATE PUBLICATION p FOR ALL TABLES")
        run(subscriber, *TABLES)
        catalog = backup_of(publisher, tmp_path / "base")
        with Serving(publisher.wal_directory, catalog, tmp_path / "slots") as serving:
            subscribe(subscriber, serving, f"copy_data = false, {options}")
            with Workload(publisher, major) as workload:
                for _ in range(KILLS):
                    before = workload.transactions
                    wait_until(lambda before=before: workload.transactions > before + 300)  # type: ignore[misc]
                    serving.stop(signal.SIGKILL)
                    serving.start()
            expected = sums(publisher)
            wait_until(lambda: sums(subscriber) == expected)
            run(subscriber, "DROP SUBSCRIPTION s")
            assert serving.stop() == 0
