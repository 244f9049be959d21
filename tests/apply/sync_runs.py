"""Tables, random work on them, stock subscribers and runs of ``headwater apply`` for the tests of initial copies."""

from __future__ import annotations

import random
import signal
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from bad_input.servers import now, run, value
from forked_commands import MAIN, ForkedCommand, run_forked
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import END_SECONDS, backup_of

DRIVER = Path(__file__).with_name("apply_driver.py")

RUN_SECONDS = 200
"""How long a run may take: kernels may have to be compiled in it."""

PACE_SECONDS = 0.02
"""Between two transactions of a thread: a machine with two cores has to come behind them."""

TABLES = ("t", "kept", "narrow", "parts")
DEFINITIONS = (
    "CREATE TABLE t (id int PRIMARY KEY, v text, n numeric)",
    "CREATE TABLE kept (id int PRIMARY KEY, v text, n numeric)",
    "CREATE TABLE narrow (id int PRIMARY KEY, v text, n numeric)",
    "CREATE TABLE parts (id int PRIMARY KEY, v text, n numeric) PARTITION BY RANGE (id)",
    "CREATE TABLE parts_a PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (500)",
    "CREATE TABLE parts_b PARTITION OF parts FOR VALUES FROM (500) TO (MAXVALUE)",
)
SPECIAL = r"E'tab\t back\\ line\n' || "
PUBLICATION = (
    "CREATE PUBLICATION p FOR TABLE t, kept WHERE (id % 2 = 0), narrow (id, n), parts "
    "WITH (publish_via_partition_root = true)"
)
PLAIN_PUBLICATION = "CREATE PUBLICATION p FOR TABLE t, kept, narrow, parts WITH (publish_via_partition_root = true)"
"""Of 14, which has neither row filters nor column lists."""


def address(server: EmbeddedPostgres) -> str:
    """Return the connection string of a server."""
    return " ".join(f"{name}={value}" for name, value in server.connection_info().items())


def make_tables(publisher: EmbeddedPostgres, *targets: EmbeddedPostgres, rows: int) -> None:
    """Make the tables everywhere; the publisher's have rows, and are published."""
    for server in (publisher, *targets):
        run(server, *DEFINITIONS)
    values = f"SELECT g, {SPECIAL} g, nullif(g % 7, 0) / 3.0 FROM generate_series(1, {rows}) g"
    publication = PLAIN_PUBLICATION if publisher.programs.major == 14 else PUBLICATION
    run(publisher, *(f"INSERT INTO {table} {values}" for table in TABLES), publication)


def subscribe(subscriber: EmbeddedPostgres, publisher: EmbeddedPostgres) -> None:
    """Make a stock subscription."""
    run(subscriber, f"CREATE SUBSCRIPTION stock CONNECTION '{address(publisher)}' PUBLICATION p")


def digests(server: EmbeddedPostgres) -> list[str]:
    """Return a digest of each table's rows."""
    query = "SELECT count(*) || ' ' || coalesce(md5(string_agg(x::text, ' ' ORDER BY x.id)), '') FROM {} x"
    with server.connect() as connection:
        return [str(connection.execute(query.format(table).encode()).fetchall()) for table in TABLES]


def states(target: EmbeddedPostgres) -> dict[str, str]:
    """Return the state of each table, as the target's schema headwater has it; none where there is none yet."""
    query = b"SELECT relname, srsubstate::text FROM headwater.subscription_rel"
    with target.connect() as connection:
        try:
            return dict(connection.execute(query).fetchall())
        except psycopg.errors.UndefinedTable:
            return {}


def are_ready(target: EmbeddedPostgres, count: int = 4) -> bool:
    """Tell whether all tables are ready."""
    return list(states(target).values()) == ["r"] * count


def sees_all(publisher: EmbeddedPostgres, target: EmbeddedPostgres) -> None:
    """Assert that the target has what the publisher publishes."""
    expected = digests(publisher)
    queries = ("(SELECT * FROM kept WHERE mod(id, 2) = 0)", "(SELECT id, NULL::text, n FROM narrow)")
    digest = "SELECT count(*) || ' ' || coalesce(md5(string_agg(x::text, ' ' ORDER BY x.id)), '') FROM {} x"
    copied = digests(target)
    assert [copied[0], copied[3]] == [expected[0], expected[3]]
    for query, text in zip(queries, copied[1:3], strict=True):
        assert value(publisher, digest.format(query)) in text


def leftovers(publisher: EmbeddedPostgres, target: EmbeddedPostgres) -> list[str]:
    """List slots and origins of copies that are there."""
    with publisher.connect() as slots, target.connect() as origins:
        rows = slots.execute("SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'hw%'").fetchall()
        rows += origins.execute("SELECT roname FROM pg_replication_origin WHERE roname LIKE 'hw%'").fetchall()
    return [str(name) for (name,) in rows]


@dataclass(frozen=True)
class Log:
    """The WAL of a publisher as the source, with a base backup and a directory of slots."""

    wal: Path
    backup: Path
    slots: Path

    @property
    def flags(self) -> list[str]:
        """The flags that name it."""
        places = ["--wal", str(self.wal), "--catalog", str(self.backup), "--slots", str(self.slots)]
        return [*places, "--database", "postgres"]


def log_of(publisher: EmbeddedPostgres, directory: Path) -> Log:
    """Take a base backup, and return the publisher's log from there on."""
    return Log(publisher.wal_directory, backup_of(publisher, directory / "backup"), directory / "slots")


def arguments(source: str | Log, target: EmbeddedPostgres, *flags: str) -> list[str]:
    """Return the command's arguments."""
    place = source.flags if isinstance(source, Log) else ["--from", source]
    return ["apply", *place, "--to", address(target), "--publication", "p", *flags]


def apply_until_now(
    publisher: EmbeddedPostgres, target: EmbeddedPostgres, *flags: str, source: str | Log | None = None
) -> str:
    """Apply up to now, with all tables ready; return what the command has said."""
    words = arguments(source or address(publisher), target, "--end", now(publisher), "--disable-on-error", *flags)
    now(publisher)  # the next record lets it see that all before is there
    result = run_forked([*MAIN, *words], RUN_SECONDS)
    assert result.returncode == 0, result.stderr
    return result.stderr


class Applying:
    """A ``headwater apply`` that goes on until it is ended, or kills itself; a context manager.

    Args:
        publisher, target: the servers; flags: more of the command's.
        step: at which it kills itself, see ``apply_driver.py``; log: that is the source, instead of the publisher.
    """

    def __init__(
        self,
        publisher: EmbeddedPostgres,
        target: EmbeddedPostgres,
        *flags: str,
        step: str = "0",
        log: Log | None = None,
    ) -> None:
        words = arguments(log or address(publisher), target, "--retry-interval", "0.2", *flags)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - for as long as the process
        self._process = ForkedCommand([str(DRIVER), step, *words], stderr=self._errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM if kind is None else signal.SIGABRT)
        self._process.wait(END_SECONDS)
        with self._errors:
            self._errors.seek(0)
            if kind is not None:
                print(self._errors.read().decode(errors="replace"))

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()


class Work:
    """Random work on the publisher's tables by threads; a context manager, whose end stops it.

    Args:
        publisher: the server; rows: that tables had; seed: of the work.
    """

    def __init__(self, publisher: EmbeddedPostgres, rows: int, seed: int = 0, threads: int = 2) -> None:
        self._publisher, self._rows = publisher, rows
        self._is_ending = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(seed, number)) for number in range(threads)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_ending.set()
        for thread in self._threads:
            thread.join()

    def _run(self, seed: int, number: int) -> None:
        source = random.Random(f"{seed} {number}")
        fresh = 1_000_000 * (number + 1)
        while not self._is_ending.is_set():
            try:
                with self._publisher.connect() as connection:
                    while not self._is_ending.is_set():
                        fresh += 2
                        connection.execute(self._transaction(source, fresh).encode())
                        self._is_ending.wait(PACE_SECONDS)
            except psycopg.Error:
                self._is_ending.wait(0.05)  # two have met each other, or the server is being restarted

    def _transaction(self, source: random.Random, fresh: int) -> str:
        statements = []
        for step in range(source.randint(1, 4)):
            table, row = source.choice(TABLES), source.randint(1, self._rows)
            statements.append(
                source.choice(
                    (
                        f"INSERT INTO {table} VALUES ({fresh * 10 + step}, 'new', {row})",
                        f"UPDATE {table} SET v = v || 'x', n = {row} WHERE id = {row}",
                        f"UPDATE {table} SET id = -id WHERE id = {row}",
                        f"DELETE FROM {table} WHERE id = {row}",
                    )
                )
            )
        return "BEGIN; " + "; ".join(statements) + "; " + source.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK"))
