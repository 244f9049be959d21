"""Sessions that change the tables of subscribers at random."""

from __future__ import annotations

import random

import psycopg

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from working_sessions import WorkingSessions

SESSIONS = 3


class Workload(WorkingSessions):
    """Sessions that change rows at random, with savepoints, rollbacks and prepared transactions, until the end.

    Args:
        server: of the tables of :mod:`serving.subscribing`; seed: of what they choose.
        pause: seconds between two transactions of a session.
    """

    def __init__(self, server: EmbeddedPostgres, seed: int, pause: float = 0.0) -> None:
        super().__init__(range(SESSIONS))
        self._server, self._seed, self._pause = server, seed, pause

    def _run(self, number: int) -> None:
        choose = random.Random(self._seed * SESSIONS + number)
        with self._server.connect() as connection:
            while not self._is_over.is_set():
                self._transaction(connection, choose, number)
                self.transactions += 1
                self._is_over.wait(self._pause)

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
