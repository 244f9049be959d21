"""Random large transactions by threads, with subtransactions that are rolled back, and two subscriptions to them."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg

from bad_input.servers import conninfo_of, value
from forked_commands import MAIN, ForkedCommand
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from packaged_servers import programs_of
from serving.service import END_SECONDS, SHOWN_BYTES, wait_until

STOCK, OURS = "stock", "ours"
"""Databases of the target, and slots."""
SETTINGS = {
    "logical_decoding_work_mem": "64kB",
    "max_prepared_transactions": "100",
    "wal_receiver_status_interval": "1s",
    "wal_retrieve_retry_interval": "200ms",
    "max_logical_replication_workers": "8",
    "max_worker_processes": "16",
}
TABLES = (
    "CREATE TABLE rows (id bigint PRIMARY KEY, writer int NOT NULL, note text)",
    "CREATE TABLE pairs (a int, b int, note text, PRIMARY KEY (a, b))",
    "CREATE TABLE marker (at int PRIMARY KEY)",
)
CONFIRMED = "SELECT slot_name::text, confirmed_flush_lsn::text FROM pg_replication_slots"
CONTENTS = "SELECT md5(coalesce(string_agg(x::text, ' ' ORDER BY x::text), '')), count(*) FROM {} x"


def server_of(major: int, **settings: str) -> EmbeddedPostgres:
    """Make a server for either side, not yet started."""
    programs = programs_of(major, plugin="test_decoding")
    return EmbeddedPostgres(programs, settings={**SETTINGS, **settings}, autovacuum=False)


@contextmanager
def servers_of(publisher: int, target: int) -> Iterator[tuple[EmbeddedPostgres, EmbeddedPostgres]]:
    """Start servers for both sides: a worker of one that fails must not end sessions of the other."""
    with server_of(publisher) as first, server_of(target) as second:
        yield first, second


def place(server: EmbeddedPostgres, database: str) -> str:
    """Return the connection string of a database."""
    return " ".join(f"{name}='{word}'" for name, word in server.connection_info(database).items())


class Applying:
    """``headwater apply`` as a process; a context manager that ends it.

    Args:
        source, target: connection strings; log: file for its standard error.
        flags: more of its flags.

    Attributes:
        process: as it runs.
    """

    def __init__(self, source: str, target: str, log: Path, *flags: str) -> None:
        self.log = log
        self._command = [*MAIN, "apply", "--from", source, "--to", target]
        self._command += ["--publication", "p", "--subscription", OURS, "--retry-interval", "0.2", *flags]
        self._command += ["--no-create-slot", "--no-copy-data"]

    def __enter__(self) -> Applying:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.process.poll() is None:
            self.stop(signal.SIGINT if kind is None else signal.SIGABRT)
        if kind is not None:
            print(self.text()[-SHOWN_BYTES:])

    def start(self) -> None:
        """Start it."""
        with self.log.open("ab") as log:
            self.process = ForkedCommand(self._command, stderr=log)

    def stop(self, number: int = signal.SIGINT) -> int:
        """End it by a signal; return its exit status."""
        self.process.send_signal(number)
        return self.process.wait(END_SECONDS)

    def text(self) -> str:
        """Return what it has written to standard error."""
        return self.log.read_text(errors="replace")


class Pair:
    """A publisher, and a target with a stock subscription and a database for ours; both have slots.

    Args:
        publisher, target: the servers, which run; they may be one.
        options: of the stock subscription; two_phase: of both.
        more: statements for the target's databases alone.
    """

    def __init__(
        self,
        publisher: EmbeddedPostgres,
        target: EmbeddedPostgres,
        options: str,
        *,
        two_phase: bool = False,
        more: Sequence[str] = (),
    ) -> None:
        self.publisher, self.target, self._marks = publisher, target, 0
        run_in(publisher, "postgres", *TABLES, "CREATE PUBLICATION p FOR ALL TABLES")
        run_in(target, "postgres", f"CREATE DATABASE {STOCK}", f"CREATE DATABASE {OURS}")
        for database in (STOCK, OURS):
            run_in(target, database, *TABLES, *more)
            arguments = f"'{database}', 'pgoutput'{', false, true' if two_phase else ''}"
            run_in(publisher, "postgres", f"SELECT pg_create_logical_replication_slot({arguments})")
        options = f"create_slot = false, copy_data = false, slot_name = {STOCK}, {options}"
        text = f"CREATE SUBSCRIPTION stock CONNECTION '{conninfo_of(publisher).replace(chr(39), chr(39) * 2)}' "
        run_in(target, STOCK, f"{text} PUBLICATION p WITH ({options}{', two_phase = true' if two_phase else ''})")

    def applying(self, log: Path, *flags: str) -> Applying:
        """Make ours, not yet started."""
        return Applying(place(self.publisher, "postgres"), place(self.target, OURS), log, *flags)

    def catch_up(self, *slots: str) -> None:
        """Wait until both have confirmed all that the publisher has committed, as long as they come further."""
        self._marks += 1
        run_in(self.publisher, "postgres", f"INSERT INTO marker VALUES ({self._marks})")
        end = Lsn.parse(value(self.publisher, "SELECT pg_current_wal_insert_lsn()::text"))
        names, reached = slots or (STOCK, OURS), dict[str, str]()

        def have_confirmed() -> bool:
            return bool(reached) and all(Lsn.parse(reached[slot]) >= end for slot in names)

        def come_further(session: psycopg.Connection[Any]) -> bool:
            before = dict(reached)
            reached.update(session.execute(CONFIRMED).fetchall())
            return reached != before or have_confirmed()

        with self.publisher.connect() as session:
            while not have_confirmed():
                wait_until(lambda: come_further(session))

    def confirmed(self, slot: str) -> int:
        """Return up to where a slot is confirmed."""
        with self.publisher.connect() as session:
            return Lsn.parse(dict(session.execute(CONFIRMED).fetchall())[slot])

    def compare(self) -> None:
        """Compare all rows, which are the same on all three."""
        assert contents(self.publisher, "postgres") == contents(self.target, STOCK)
        assert contents(self.target, OURS) == contents(self.target, STOCK)

    def streamed(self, slot: str) -> int:
        """Return how many transactions the publisher has streamed for a slot."""
        query = f"SELECT stream_txns FROM pg_stat_replication_slots WHERE slot_name = '{slot}'"
        return int(value(self.publisher, query))

    def drop_subscription(self) -> None:
        """Drop the stock subscription."""
        run_in(self.target, STOCK, "DROP SUBSCRIPTION stock")


def run_in(server: EmbeddedPostgres, database: str, *statements: str) -> None:
    """Run statements, each as a transaction of its own."""
    with server.connect(database) as session:
        for statement in statements:
            session.execute(statement.encode())


def contents(server: EmbeddedPostgres, database: str) -> list[tuple[Any, ...]]:
    """Return digests of all tables."""
    with server.connect(database) as session:
        return [session.execute(CONTENTS.format(table).encode()).fetchall()[0] for table in ("rows", "pairs", "marker")]


class Writer:
    """A session whose transactions are large, and whose subtransactions are often rolled back.

    Args:
        connect: opens it; seed: says what is done; number: among the sessions; prepares: transactions are prepared.
    """

    def __init__(self, connect: Callable[[], Any], seed: int, number: int, *, prepares: bool) -> None:
        self.random, self.number, self.prepares = random.Random(f"{seed} {number}"), number, prepares
        self.session, self.next = connect(), number * 10_000_000
        self.failures: list[BaseException] = []

    def go(self, transactions: int) -> None:
        """Do so many transactions; in a thread."""
        try:
            for count in range(transactions):
                self._transaction(count)
        except BaseException as error:
            self.failures.append(error)
        finally:
            self.session.close()

    def _transaction(self, count: int) -> None:
        self._run("BEGIN")
        if self.random.random() < 0.4:
            self._small()
        else:
            self._nested(0)
        chance = self.random.random()
        if chance < 0.2:
            self._run("ROLLBACK")
        elif chance < 0.5 and self.prepares:
            name = f"w{self.number} {count}"
            self._run(f"PREPARE TRANSACTION '{name}'")
            self._run(f"{self.random.choice(('COMMIT', 'ROLLBACK'))} PREPARED '{name}'")
        else:
            self._run("COMMIT")

    def _nested(self, depth: int) -> None:
        for number in range(self.random.randint(1, 4)):
            self.random.choice((self._many, self._many, self._changes, self._small))()
            if depth < 3 and self.random.random() < 0.6:
                name = f"s{depth}_{number}"
                self._run(f"SAVEPOINT {name}")
                self._nested(depth + 1)
                self._run(f"{self.random.choice(('ROLLBACK TO', 'RELEASE'))} {name}")

    def _many(self) -> None:
        count = self.random.randint(50, 900)
        numbers = f"generate_series({self.next}, {self.next + count})"
        self._run(f"INSERT INTO rows SELECT i, {self.number}, repeat(md5(i::text), 3) FROM {numbers} i")
        self.next += count + 1

    def _changes(self) -> None:
        part = self.random.randint(0, 9)
        own = f"writer = {self.number} AND id % 10 = {part}"
        self._run(
            self.random.choice(
                (
                    f"UPDATE rows SET note = md5(note) || repeat('u', 150) WHERE {own}",
                    f"UPDATE rows SET id = -id WHERE {own} AND id > 0",
                    f"DELETE FROM rows WHERE {own}",
                )
            )
        )

    def _small(self) -> None:
        """Change few rows, which no other session changes."""
        key = self.random.randint(1, 30)
        added = "ON CONFLICT (a, b) DO UPDATE SET note = pairs.note || 'x'"
        self._run(f"INSERT INTO pairs VALUES ({self.number}, {key}, 'n') {added}")

    def _run(self, statement: str) -> None:
        self.session.execute(statement)


def work(server: EmbeddedPostgres, seed: int, transactions: int, *, writers: int = 4, prepares: bool = False) -> None:
    """Let sessions work at once."""

    def connect() -> Any:
        session = psycopg.connect(place(server, "postgres"), autocommit=True)
        session.execute("SET lock_timeout = '20s'")
        return session

    sessions = [Writer(connect, seed, number, prepares=prepares) for number in range(1, writers + 1)]
    threads = [Thread(target=writer.go, args=[transactions]) for writer in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in sessions:
        for failure in writer.failures:
            raise failure
