"""Scripts of subscriptions: a publisher, a target, and ``headwater apply`` between databases of theirs.

All scripts of a process share the servers; each has a database of its own on both, and its own names of subscriptions.
Subscriptions run in threads, with what the command's flags come to; commands that alter them run in this process, too.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from headwater.apply.launcher.reports import End
from headwater.apply.launcher.subscription_run import SubscriptionRun
from headwater.cli.apply import apply_command, request_with
from headwater.cli.commands import cli
from headwater.errors import HeadwaterError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from packaged_servers import programs_of
from serving.service import Serving, backup_of, wait_until

LIMITS_ORIGINS = 18
"""From this major on the number of origins is not that of slots."""
SETTINGS = {
    "logical_decoding_work_mem": "64kB",
    "track_commit_timestamp": "on",
    "max_prepared_transactions": "50",
    "max_replication_slots": "200",
    "max_wal_senders": "50",
    "max_connections": "100",
    "log_error_verbosity": "verbose",
}
_NUMBERS = count(1)


def server_of(major: int, **settings: str) -> EmbeddedPostgres:
    """Make a server for either side, not yet started."""
    more = {"max_active_replication_origins": "200"} if major >= LIMITS_ORIGINS else {}
    programs = programs_of(major, plugin="test_decoding")
    return EmbeddedPostgres(
        programs, settings={**SETTINGS, **more, **settings}, autovacuum=False, wal_segment_megabytes=1
    )


@contextmanager
def both_of(major: int, *, is_served: bool = False, **of_target: str) -> Iterator[Servers]:
    """Run both servers of a major.

    Args:
        major: theirs; is_served: see :class:`Servers`; of_target: more settings of the target.
    """
    with server_of(major) as publisher, server_of(major, **of_target) as target:
        yield Servers(publisher, target, is_served)


def run_in(server: EmbeddedPostgres, database: str, *statements: str) -> None:
    """Run statements in one session, each as it stands."""
    with server.connect(database) as session:
        for statement in statements:
            session.execute(statement.encode())


def rows_in(server: EmbeddedPostgres, database: str, query: str, *before: str) -> list[str]:
    """Return the rows of a query as ``psql -At`` prints them; NULL is empty."""
    with server.connect(database) as session, session.cursor() as cursor:
        for statement in before:
            cursor.execute(statement.encode())
        with cursor.copy(f"COPY ({query}) TO STDOUT (DELIMITER '|', NULL '')".encode()) as copy:
            return [line for block in copy for line in bytes(block).decode().splitlines()]


@dataclass(frozen=True)
class Servers:
    """The servers of scripts.

    Attributes:
        publisher, target: run; is_served: a service publishes the publisher's WAL in its place.
    """

    publisher: EmbeddedPostgres
    target: EmbeddedPostgres
    is_served: bool = False

    @property
    def major(self) -> int:
        """The major of both."""
        return self.publisher.programs.major


def place(server: EmbeddedPostgres, database: str, user: str = "postgres") -> str:
    """Return the connection string of a database."""
    info = {**server.connection_info(database), "user": user}
    return " ".join(f"{name}={word}" for name, word in info.items())


def serving_of(publisher: EmbeddedPostgres, directory: Path) -> Serving:
    """Make a service over the WAL of a server, not yet started."""
    backup = backup_of(publisher, directory / "backup")
    return Serving(publisher.wal_directory, backup, directory / "slots")


class Applied:
    """A subscription that is applied in a thread; a context manager that ends it.

    Args:
        words: the command's arguments.

    Attributes:
        errors: after which it has tried again; said: what else it has said.
        failure: the error that it has ended by.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = list(words)
        self.errors: list[HeadwaterError] = []
        self.said: list[str] = []
        self.failure: HeadwaterError | None = None
        self.end: End | None = None
        self._thread = threading.Thread(target=lambda: None)

    def start(self, *flags: str) -> None:
        """Start it, with more flags."""
        values = apply_command.make_context("apply", [*self._words, *flags]).params
        self._run = SubscriptionRun(
            lambda parameters: request_with(values, parameters), self.errors.append, self.said.append
        )
        self.failure, self.end = None, None
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    def _go(self) -> None:
        try:
            self.end = self._run.run()
            if self._run.refusal is not None:
                self.failure = self._run.refusal
        except HeadwaterError as error:
            self.failure = error

    @property
    def has_ended(self) -> bool:
        """Whether it does not run."""
        return not self._thread.is_alive()

    def status(self) -> dict[str, Any]:
        """Return what it shows of itself."""
        return self._run.status()

    def tables(self) -> set[str]:
        """Return the tables that it knows of."""
        return {f"{table['schemaname']}.{table['relname']}" for table in self.status()["tables"]}

    def stop(self) -> None:
        """End it, and wait for that."""
        if self._thread.is_alive():
            self._run.stop()
            self._thread.join()

    def waits(self) -> HeadwaterError | None:
        """Wait until it ends by itself; return the error."""
        self._thread.join()
        return self.failure

    def has_met(self, text: str) -> bool:
        """Tell whether an error has a text, in its message or its details."""
        return any(text in "\n".join([error.one_line(), *error.details()]) for error in [*self.errors])

    def has_said(self, text: str) -> bool:
        """Tell whether something that it has said has a text."""
        return any(text in line for line in [*self.said])

    def wait_for(self, end: int) -> None:
        """Wait until all up to there is durable on the target, with all tables ready, as long as it comes further."""
        far = (0, 0, 0)

        def comes_further() -> bool:
            nonlocal far
            before, far = far, max(far, self._reached())
            return far > before or self.is_at(end)

        while not self.is_at(end):
            wait_until(comes_further)

    def is_at(self, end: int) -> bool:
        """Tell whether all up to there is durable on the target, with all tables ready."""
        status = self.status()
        return self._reached()[0] >= end and all(table["srsubstate"] == "r" for table in status["tables"])

    def _reached(self) -> tuple[int, int, int]:
        """Return what is durable, how many tables are ready, and how much it has said, as of conflicts in between."""
        assert self._thread.is_alive(), self.failure
        status = self.status()
        ready = sum(table["srsubstate"] == "r" for table in status["tables"])
        return int(Lsn.parse(status["durable_lsn"] or "0/0")), ready, len(self.said)


@dataclass
class Script:
    """A script: its databases, and its subscriptions by their names.

    Attributes:
        servers: that it shares; database: on both.
        applied: its subscriptions; serving: publishes, where it is not the publisher itself.
    """

    servers: Servers
    database: str
    applied: dict[str, Applied] = field(default_factory=dict)
    serving: Serving | None = None

    def __enter__(self) -> Self:
        for server in (self.servers.publisher, self.servers.target):
            run_in(server, "postgres", f"CREATE DATABASE {self.database}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for name, applied in self.applied.items():  # Shown where the test fails.
            print(
                name,
                *applied.said,
                *{" ".join([e.one_line(), *e.details()]) for e in applied.errors},
                applied.failure,
                sep="\n",
            )
        drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND database = "
        self.on_source(f"{drop} '{self.database}'")
        if self.servers.is_served:  # The backups of the scripts behind it have it, too.
            run_in(self.servers.publisher, "postgres", f"DROP DATABASE {self.database} WITH (FORCE)")

    def stop(self) -> None:
        """End its subscriptions."""
        for applied in self.applied.values():
            applied.stop()

    @property
    def major(self) -> int:
        """The major of both servers."""
        return self.servers.major

    @property
    def source(self) -> str:
        """The connection string of who publishes."""
        if self.serving is not None:
            return f"host=127.0.0.1 port={self.serving.port} user=postgres dbname={self.database}"
        return place(self.servers.publisher, self.database)

    def end_source(self, *, crashes: bool) -> None:
        """End who publishes: the server, and the service before it, if there is one."""
        if self.serving is not None:
            self.serving.stop(signal.SIGKILL if crashes else signal.SIGINT)
        publisher = self.servers.publisher
        publisher.crash() if crashes else publisher.stop()

    def start_source(self) -> None:
        """Start who publishes again."""
        self.servers.publisher.start()
        if self.serving is not None:
            self.serving.start()

    def on_source(self, *statements: str) -> None:
        """Run statements on the publisher."""
        run_in(self.servers.publisher, self.database, *statements)

    def on_target(self, *statements: str) -> None:
        """Run statements on the target."""
        run_in(self.servers.target, self.database, *statements)

    def everywhere(self, *statements: str) -> None:
        """Run statements on both."""
        self.on_source(*statements)
        self.on_target(*statements)

    def rows(self, query: str, *before: str) -> list[str]:
        """Return the target's rows, each as ``a|b``."""
        return rows_in(self.servers.target, self.database, query, *before)

    def source_rows(self, query: str, *before: str) -> list[str]:
        """Return the publisher's rows, each as ``a|b``."""
        return rows_in(self.servers.publisher, self.database, query, *before)

    def name(self, short: str) -> str:
        """Return the whole name of a subscription."""
        return f"{self.database}_{short}"

    def words(self, short: str, publications: Sequence[str], *flags: str) -> list[str]:
        """Return the arguments of ``headwater apply`` for a subscription."""
        words = ["--from", self.source, "--to", place(self.servers.target, self.database)]
        words += [word for name in publications for word in ("--publication", name)]
        return [*words, "--subscription", self.name(short), "--retry-interval", "0.2", *flags]

    def subscribe(
        self, *publications: str, name: str = "sub", flags: Sequence[str] = (), waits: bool = True
    ) -> Applied:
        """Apply publications, and wait until all tables are copied, if asked for."""
        applied = Applied(self.words(name, publications, *flags))
        self.applied[name] = applied
        applied.start()
        if waits:
            self.catch_up()
        return applied

    def end(self) -> int:
        """Return the end of the publisher's WAL, which is flushed up to there."""
        self.on_source("SELECT pg_logical_emit_message(true, 'now', '')")
        return int(Lsn.parse(self.source_rows("SELECT pg_current_wal_flush_lsn()")[0]))

    def catch_up(self) -> None:
        """Wait until all that the publisher has is on the target, through all subscriptions that run."""
        end = self.end()
        self.on_source("SELECT pg_logical_emit_message(true, 'now', '')")
        for applied in self.applied.values():
            if not applied.has_ended:
                applied.wait_for(end)

    def subscription(self, command: str, name: str, *words: str) -> None:
        """Run ``headwater subscription``."""
        places = ["--to", place(self.servers.target, self.database)]
        if command in ("refresh", "drop"):
            places += ["--from", self.source]
        cli.main(["subscription", command, self.name(name), *words, *places], standalone_mode=False)

    def alter(self, name: str, *words: str) -> None:
        """Set parameters of a subscription, and wait until it goes on with them."""
        applied = self.applied[name]
        applied.said.clear()
        self.subscription("set", name, *words)
        wait_until(lambda: applied.has_said("restart because of a parameter change"))

    def refresh(self, name: str = "sub", *words: str) -> None:
        """Refresh a subscription's tables, and wait until they are copied and all is applied."""
        self.subscription("refresh", name, *words)
        asked = set(self.tables(name))
        wait_until(lambda: self.applied[name].tables() == asked)
        self.catch_up()

    def drop(self, name: str = "sub") -> None:
        """Drop a subscription that runs, or has ended."""
        self.subscription("drop", name)
        self.applied.pop(name).stop()

    def tables(self, name: str = "sub") -> list[str]:
        """Return the tables of a subscription, as the target has them."""
        query = "SELECT format('%s.%s', nspname, relname) FROM headwater.subscription_rel JOIN headwater.subscription "
        return self.rows(f"{query} ON subid = srsubid WHERE subname = '{self.name(name)}' ORDER BY 1")

    def slots(self, query: str) -> list[str]:
        """Return the slots of a query, of who publishes."""
        if self.serving is None:
            return self.source_rows(query)
        with psycopg.connect(self.source) as session:
            return [str(name) for (name,) in session.execute(query.encode())]

    def leftovers(self) -> list[str]:
        """Return slots of the publisher, and origins of the target, that are the script's."""
        slots = f"SELECT slot_name FROM pg_replication_slots WHERE database = '{self.database}'"
        origins = f"SELECT roname FROM pg_replication_origin WHERE roname LIKE '%{self.database}\\_%'"
        return [*self.slots(slots), *self.rows(origins)]

    def conflicts(self, name: str = "sub") -> list[str]:
        """Return the conflicts that a subscription has told of, without when it was, and the context."""
        return [line for line in self.applied[name].said if "conflict detected" in line]


def new_script(servers: Servers) -> Script:
    """Make a script with names of its own."""
    return Script(servers, f"s{next(_NUMBERS)}")
