"""A stock subscription and ``headwater apply`` that get the same stream, and what is compared of both.

A publisher has two slots, made before any work. One is of a subscription in the target's database :data:`STOCK`, the
other of ``headwater apply`` to its database :data:`OURS`. Both have the same tables, so whatever differs is ours.
"""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from apply.noted_conflicts import without_conflicts
from forked_commands import MAIN, ForkedCommand
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from packaged_servers import programs_of
from serving.service import END_SECONDS, SHOWN_BYTES, wait_until

STOCK, OURS = "stock", "ours"
"""Databases of the target, and slots."""
PUBLICATION = "p"
ORIGIN = "headwater_ours"
SOURCE_DATABASE = "postgres"

SETTINGS = {
    "track_commit_timestamp": "on",
    "wal_retrieve_retry_interval": "200ms",
    "wal_receiver_status_interval": "1s",
    "max_logical_replication_workers": "8",
    "max_worker_processes": "16",
    "log_line_prefix": "<%b> %e ",
    "max_connections": "60",
    "max_prepared_transactions": "100",
}
MARKER = "CREATE TABLE marker (at int PRIMARY KEY)"
RETRY_SECONDS = "0.2"


def server_of(major: int, **settings: str) -> EmbeddedPostgres:
    """Make a server for either side, not yet started."""
    programs = programs_of(major, plugin="test_decoding")
    return EmbeddedPostgres(programs, settings={**SETTINGS, **settings}, autovacuum=False, wal_segment_megabytes=1)


def place(server: EmbeddedPostgres, database: str) -> str:
    """Return the connection string of a database."""
    return " ".join(f"{name}='{word}'" for name, word in server.connection_info(database).items())


def rows_of(server: EmbeddedPostgres, query: str, database: str = SOURCE_DATABASE) -> list[tuple[Any, ...]]:
    """Run a query, or a statement, which has no rows."""
    with server.connect(database) as session:
        cursor = session.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


class Applying:
    """``headwater apply`` as a process; a context manager that ends it.

    Args:
        source, target: connection strings.
        log: file for its standard error, which is added to.
        flags: more of its flags.
        subscription: its name, and its slot's.
        publication: that is applied.

    Attributes:
        flags: all of them; process: that runs, or has ended.
        program: what Python is started with, in place of ``-m headwater.cli.main``.
    """

    def __init__(
        self,
        source: str,
        target: str,
        log: Path,
        *flags: str,
        subscription: str = OURS,
        publication: str = PUBLICATION,
    ) -> None:
        self.log = log
        self.flags = ["apply", "--from", source, "--to", target, "--publication", publication]
        self.flags += ["--no-create-slot", "--no-copy-data"]
        self.flags += ["--subscription", subscription, "--retry-interval", RETRY_SECONDS, *flags]
        self.program: Sequence[str] = MAIN

    def __enter__(self) -> Applying:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.process.poll() is None:
            self.stop(signal.SIGINT if kind is None else signal.SIGABRT)
        if kind is not None:
            print(self.log.read_text(errors="replace")[-SHOWN_BYTES:])

    def start(self) -> None:
        """Start it."""
        with self.log.open("ab") as log:
            self.process = ForkedCommand([*self.program, *self.flags], stderr=log)

    def stop(self, number: int = signal.SIGINT) -> int:
        """End it by a signal; return its exit status."""
        self.process.send_signal(number)
        return self.process.wait(END_SECONDS)

    def text(self) -> str:
        """Return what it has written to standard error."""
        return self.log.read_text(errors="replace")


@dataclass
class Differential:
    """A publisher and a target with both subscriptions.

    Attributes:
        publisher, target: the servers, which run.
        is_two_phase: prepared transactions are applied at PREPARE.
        has_refresh: new tables are made known to the stock subscription.
        worker: ``headwater apply``.
        is_batched: it applies several transactions as one, with the commit time of the last of them.
    """

    publisher: EmbeddedPostgres
    target: EmbeddedPostgres
    worker: Applying
    is_two_phase: bool = False
    is_batched: bool = True
    _marks: int = field(default=0, init=False)

    def everywhere(self, *statements: str) -> None:
        """Run statements on the publisher, and on both databases of the target."""
        self.on_source(*statements)
        self.on_targets(*statements)

    def on_source(self, *statements: str) -> None:
        """Run statements on the publisher, each a transaction of its own."""
        _run(self.publisher, SOURCE_DATABASE, statements)

    def on_targets(self, *statements: str) -> None:
        """Run statements on both databases of the target."""
        for database in (STOCK, OURS):
            _run(self.target, database, statements)

    def refresh(self) -> None:
        """Let the stock subscription know the publications' tables, without their rows."""
        _run(self.target, STOCK, ["ALTER SUBSCRIPTION stock REFRESH PUBLICATION WITH (copy_data = false)"])

    def mark(self) -> int:
        """Commit something that is published; return the end of the WAL then."""
        self._marks += 1
        with self.publisher.connect() as session:
            session.execute(f"INSERT INTO marker VALUES ({self._marks})")
            row = session.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        return int(Lsn.parse(row[0]))

    def catch_up(self, *, is_clean: bool = True) -> None:
        """Wait until both have confirmed all that the publisher has committed, as long as they come further.

        Args:
            is_clean: no error of either is on the way.
        """
        end = self.mark()
        confirmed = [0]

        def come_further(session: psycopg.Connection[Any]) -> bool:
            assert self.worker.process.poll() is None
            assert not is_clean or without_conflicts(self.worker.text()) == ""
            assert not is_clean or [entry for entry in stock_log(self.target) if entry.level == "ERROR"] == []
            before = list(confirmed)
            confirmed[:] = [int(Lsn.parse(lsn)) for (lsn,) in session.execute(_BOTH).fetchall()]
            return confirmed != before or min(confirmed) >= end

        with self.publisher.connect() as session:
            while min(confirmed) < end:
                wait_until(lambda: come_further(session))

    def confirmed(self, slot: str) -> int:
        """Return up to where a slot is confirmed."""
        query = f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = '{slot}'"
        return int(Lsn.parse(rows_of(self.publisher, query)[0][0]))

    def compare(self) -> dict[str, list[tuple[Any, ...]]]:
        """Compare all that both have come to, which is the same; return it."""
        stock, ours = (contents_of(self.target, database, self.is_batched) for database in (STOCK, OURS))
        assert ours.keys() == stock.keys()
        for name, rows in stock.items():
            only_stock, only_ours = Counter(rows) - Counter(ours[name]), Counter(ours[name]) - Counter(rows)
            differ = [f"{name}: ours {only_ours}, stock {only_stock}"] if only_ours or only_stock else []
            assert differ == []
        return ours


@contextmanager
def differential(
    directory: Path,
    majors: tuple[int, int],
    tables: Sequence[str],
    *,
    target_tables: Sequence[str] | None = None,
    publication: str = "FOR ALL TABLES",
    flags: Sequence[str] = (),
    options: str = "",
    is_two_phase: bool = False,
    is_apart: bool = False,
    settings: dict[str, str] | None = None,
) -> Iterator[Differential]:
    """Make the servers, tables and slots, and begin both subscriptions.

    Args:
        directory: for the log of ours.
        majors: of the publisher, and of the target; one server is both if they are the same.
        tables: statements that make the publisher's tables.
        target_tables: the same of the target; None for the same ones.
        publication: what is published.
        flags: of ``headwater apply``; options: of the subscription.
        is_two_phase: prepared transactions are applied at PREPARE, from 15 on.
        is_apart: both are servers of their own in any case.
        settings: more of the servers'.
    """
    with ExitStack() as stack:
        publisher = stack.enter_context(server_of(majors[0], **settings or {}))
        is_same = majors[0] == majors[1] and not is_apart
        target = publisher if is_same else stack.enter_context(server_of(majors[1], **settings or {}))
        for database in (STOCK, OURS):
            _run(target, "postgres", [f"CREATE DATABASE {database}"])
        log, flags = directory / "apply.log", [*flags, *(["--two-phase"] if is_two_phase else [])]
        worker = Applying(place(publisher, SOURCE_DATABASE), place(target, OURS), log, *flags)
        pair = Differential(publisher, target, worker, is_two_phase, "--no-batches" not in flags)
        pair.on_source(MARKER, *tables, f"CREATE PUBLICATION {PUBLICATION} {publication}")
        pair.on_targets(MARKER, *(tables if target_tables is None else target_tables))
        make_slots(pair)
        subscribe(pair, options)
        stack.enter_context(worker)
        yield pair
        assert worker.stop() == 0, worker.text()
        _run(target, STOCK, ["ALTER SUBSCRIPTION stock DISABLE"])


def make_slots(pair: Differential) -> None:
    """Make both slots, with nothing between them."""
    two_phase = ", false, true" if pair.is_two_phase else ""
    for slot in (STOCK, OURS):
        pair.on_source(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput'{two_phase})")


def subscribe(pair: Differential, options: str) -> None:
    """Make the stock subscription, whose slot is there."""
    own = ["create_slot = false", "slot_name = stock", "copy_data = false", *filter(None, [options])]
    own += ["two_phase = true"] if pair.is_two_phase else []
    source = place(pair.publisher, SOURCE_DATABASE).replace("'", "''")
    statement = f"CREATE SUBSCRIPTION stock CONNECTION '{source}' PUBLICATION {PUBLICATION} WITH ({', '.join(own)})"
    _run(pair.target, STOCK, [statement])


@dataclass(frozen=True)
class Logged:
    """An entry of the stock worker's in its server's log.

    Attributes:
        sqlstate, level, message: as they stand there; context: the last of its CONTEXT.
    """

    sqlstate: str
    level: str
    message: str
    context: str


_ENTRY = re.compile(
    r"^<logical replication [a-z ]*worker> (?P<sqlstate>\w{5}) (?P<level>LOG|ERROR|WARNING):  (?P<message>.*)\n"
    r"(?:(?!^<).*\n|^<[^>]*> \w{5} (?!LOG|ERROR|WARNING|CONTEXT).*\n)*"
    r"(?:^<[^>]*> \w{5} CONTEXT:  (?:(?!processing|<).*\n\t)*(?P<context>.*)\n)?",
    re.MULTILINE,
)


def stock_log(server: EmbeddedPostgres) -> list[Logged]:
    """Read what stock workers have logged."""
    text = server.log_file.read_text(errors="replace")
    return [Logged(**{name: word or "" for name, word in at.groupdict().items()}) for at in _ENTRY.finditer(text)]


_BOTH = f"""
SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name IN ('{STOCK}', '{OURS}') ORDER BY slot_name
"""
_TABLES = """
SELECT c.oid::regclass::text FROM pg_class c
WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND relpersistence = 'p' ORDER BY 1
"""
_ROWS = """
SELECT x::text, CASE WHEN s.roident <> 0 THEN s.timestamp END,
    coalesce(regexp_replace(o.roname, '^(pg_|headwater_).*', 'subscription'), s.roident::text)
FROM ONLY {} x, pg_xact_commit_timestamp_origin(x.xmin) s LEFT JOIN pg_replication_origin o ON o.roident = s.roident
ORDER BY 1, 2
"""
_SEQUENCES = "SELECT sequencename::text, last_value FROM pg_sequences WHERE schemaname <> 'headwater' ORDER BY 1"
_PREPARED = """
SELECT regexp_replace(gid, '^pg_gid_[0-9]+_', '') FROM pg_prepared_xacts WHERE database = current_database() ORDER BY 1
"""
_PLACE = "SELECT remote_lsn::text FROM pg_replication_origin_status WHERE external_id = {}"
_OF_STOCK = "(SELECT 'pg_' || oid FROM pg_subscription WHERE subname = 'stock')"


def contents_of(
    server: EmbeddedPostgres, database: str, without_times: bool = False
) -> dict[str, list[tuple[Any, ...]]]:
    """Return what a database of the target has: rows with their commit times and origins, and all else by its name."""
    with server.connect(database) as session:
        # What a prepared transaction has emptied nobody can read.
        session.execute("SET lock_timeout = '2s'")
        tables = [name for (name,) in session.execute(_TABLES).fetchall()]
        contents = {name: _rows(session, name, without_times) for name in tables}
        contents |= {"sequences": session.execute(_SEQUENCES).fetchall()}
        contents |= {"prepared": session.execute(_PREPARED).fetchall()}
        origin = _OF_STOCK if database == STOCK else f"'{ORIGIN}'"
        contents |= {"origin": session.execute(_PLACE.format(origin).encode()).fetchall()}
    return contents


def _rows(session: psycopg.Connection[Any], table: str, without_times: bool) -> list[tuple[Any, ...]]:
    # Of rows that are equal any may be changed, and those of zeros of both signs are.
    try:
        rows = session.execute(_ROWS.format(table).encode()).fetchall()
    except psycopg.errors.LockNotAvailable:
        return [("locked",)]
    return sorted((text.replace(",-0,", ",0,"), None if without_times else time, origin) for text, time, origin in rows)


def source_rows(server: EmbeddedPostgres, database: str, table: str) -> list[str]:
    """Return the rows of a table as text, in order."""
    return sorted(text for (text,) in rows_of(server, f"SELECT x::text FROM {table} x", database))


def _run(server: EmbeddedPostgres, database: str, statements: Sequence[str]) -> None:
    with server.connect(database) as session:
        for statement in statements:
            session.execute(statement.encode())
