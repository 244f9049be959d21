"""Sessions whose transactions are large and small, nested, rolled back and prepared, until they are told to end.

A lost connection is opened anew, to the server that is the primary then: what a server has in the end is what counts.
The table ``entries`` has no key: what came twice is there twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from bad_input.servers import run
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from working_sessions import WorkingSessions

SESSIONS = 3
TABLES = (
    "CREATE TABLE rows (id bigint PRIMARY KEY, writer int NOT NULL, note text)",
    "CREATE TABLE pairs (a int, b int, note text, PRIMARY KEY (a, b)) PARTITION BY LIST (a)",
    "CREATE TABLE pairs_0 PARTITION OF pairs FOR VALUES IN (0)",
    "CREATE TABLE pairs_others PARTITION OF pairs DEFAULT",
    "CREATE TABLE entries (writer int, number int, note text)",
)
NAMES = ("rows", "pairs", "entries")
_DIGEST = "SELECT count(*), coalesce(md5(string_agg(x::text, ' ' ORDER BY x::text)), '') FROM {} x"
_PAUSE_SECONDS = 0.1


def contents(server: EmbeddedPostgres, database: str = "postgres") -> list[tuple[Any, ...]]:
    """Return digests of all tables."""
    with server.connect(database) as session:
        return [session.execute(_DIGEST.format(name).encode()).fetchall()[0] for name in NAMES]


class LargeWork(WorkingSessions):
    """The sessions; a context manager that ends them.

    Args:
        primary: returns the server that takes changes now; seed: says what is done.
        first: number of the first session; no two of a number change the same tables.
    """

    def __init__(self, primary: Callable[[], EmbeddedPostgres], seed: int, first: int = 0) -> None:
        super().__init__(range(first, first + SESSIONS))
        self._primary, self._seed = primary, seed

    def _run(self, number: int) -> None:
        writer = _Writer(random.Random(f"{self._seed} {number}"), number)
        while not self._is_over.is_set():
            # The server may be down, and another one not the primary yet.
            with suppress(psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction), self._session() as session:
                while not self._is_over.wait(_PAUSE_SECONDS):
                    writer.transaction(session)
                    self.transactions += 1
            self._is_over.wait(_PAUSE_SECONDS)

    def _session(self) -> psycopg.Connection[Any]:
        return self._primary().connect()


class _Writer:
    """A session's transactions.

    Args:
        choose: what is done; number: the session's.
    """

    def __init__(self, choose: random.Random, number: int) -> None:
        self._random, self._number = choose, number
        self._next_row, self._next_entry = number * 10_000_000, 0

    def transaction(self, session: psycopg.Connection[Any]) -> None:
        """Do one."""
        run_each(session, "BEGIN", self._entry())
        self._nested(session, 0) if self._random.random() < 0.5 else self._few(session)
        chance = self._random.random()
        if chance < 0.15:
            run_each(session, "ROLLBACK")
        elif chance < 0.4:
            name = f"w{self._number} {self._next_entry}"
            end = self._random.choice(("COMMIT", "COMMIT", "ROLLBACK"))
            run_each(session, f"PREPARE TRANSACTION '{name}'", f"{end} PREPARED '{name}'")
        else:
            run_each(session, "COMMIT")

    def _entry(self) -> str:
        self._next_entry += 1
        return f"INSERT INTO entries VALUES ({self._number}, {self._next_entry}, repeat('e', {self._next_entry % 40}))"

    def _nested(self, session: psycopg.Connection[Any], depth: int) -> None:
        for part in range(self._random.randint(1, 3)):
            run_each(session, self._random.choice((self._many, self._many, self._changed))())
            if depth < 2 and self._random.random() < 0.5:
                name = f"s{depth}_{part}"
                run_each(session, f"SAVEPOINT {name}", self._entry())
                self._nested(session, depth + 1)
                run_each(session, f"{self._random.choice(('ROLLBACK TO', 'RELEASE'))} {name}")

    def _many(self) -> str:
        count = self._random.randint(50, 400)
        numbers = f"generate_series({self._next_row}, {self._next_row + count})"
        self._next_row += count + 1
        return f"INSERT INTO rows SELECT i, {self._number}, repeat(md5(i::text), 3) FROM {numbers} i"

    def _changed(self) -> str:
        own = f"writer = {self._number} AND id % 20 = {self._random.randint(0, 19)}"
        changes = (
            f"UPDATE rows SET note = md5(note) || repeat('u', 100) WHERE {own}",
            f"UPDATE rows SET id = -id WHERE {own} AND id > 0",
            f"DELETE FROM rows WHERE {own}",
            f"DELETE FROM rows WHERE {own}",
        )
        return self._random.choice(changes)

    def _few(self, session: psycopg.Connection[Any]) -> None:
        """Change few rows, which no other session changes."""
        added = "ON CONFLICT (a, b) DO UPDATE SET note = left(pairs.note, 50) || 'x'"
        key = self._random.randint(1, 30)
        run_each(session, f"INSERT INTO pairs VALUES ({self._number}, {key}, 'n') {added}")


def run_each(session: psycopg.Connection[Any], *statements: str) -> None:
    """Run statements."""
    for statement in statements:
        session.execute(statement.encode())


def finish_prepared(server: EmbeddedPostgres) -> None:
    """Commit what sessions have left prepared that were cut off."""
    with server.connect() as session:
        for (name,) in session.execute("SELECT gid FROM pg_prepared_xacts ORDER BY gid").fetchall():
            session.execute(f"COMMIT PREPARED '{name}'".encode())


def make_publisher(server: EmbeddedPostgres, *, has_rows: bool = False) -> None:
    """Make the tables, and a publication of all of them; with a few rows, which are to be copied."""
    run(server, *TABLES, "CREATE PUBLICATION p FOR ALL TABLES")
    if has_rows:
        run(server, "INSERT INTO rows SELECT -i - 100000000, -1, 'before' FROM generate_series(1, 500) i")
        run(server, "INSERT INTO entries VALUES (-1, 1, 'before')", "INSERT INTO pairs VALUES (0, 0, 'before')")
