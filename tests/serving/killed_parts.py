"""Parts that are killed: a receiver beside the service, stock subscribers, and the service with its receiver."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from bad_input.servers import run, small_server
from forked_commands import MAIN, ForkedCommand
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.large_work import TABLES, LargeWork, contents
from serving.service import SHOWN_BYTES, Serving, wait_until

DRIVER = str(Path(__file__).with_name("receive_driver.py"))
LONG_SECONDS = 300
"""For what has to catch up, on a machine that does other things, too."""

SETTINGS = {
    "wal_retrieve_retry_interval": "200ms",
    "wal_receiver_status_interval": "1s",
    "max_logical_replication_workers": "20",
    "max_worker_processes": "30",
    "max_prepared_transactions": "50",
}
OPTIONS = ("streaming = on", "two_phase = on", "streaming = on, binary = true", "streaming = parallel")
"""Of the subscriptions, each in a database of its own; the last one is of 16 and newer."""


def options_of(publisher: int, subscriber: int) -> Sequence[str]:
    """Return the options that a pair of majors has."""
    options = OPTIONS if min(publisher, subscriber) >= 16 else OPTIONS[:-1]
    return [text for text in options if "two_phase" not in text or min(publisher, subscriber) >= 15]


def random_failpoint(choose: random.Random) -> tuple[str, str]:
    """Choose where a command that receives dies."""
    kind = choose.choice(("files", "writes"))
    return DRIVER, f"{kind}:{choose.randint(1, 60 if kind == 'files' else 200)}"


class Receiver:
    """``headwater receive`` as a process; a context manager that ends it.

    Args:
        conninfo: of the server; directory: that WAL comes to; flags: more of its flags.

    Attributes:
        program: what Python is started with.
    """

    def __init__(self, conninfo: str, directory: Path, *flags: str) -> None:
        self._words = ["receive", "--from", conninfo, "--to", str(directory), *flags]
        self.log = directory.with_name(f"{directory.name}.log")
        self.program: Sequence[str] = MAIN

    def __enter__(self) -> Receiver:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if kind is not None:
            print(self.log.read_text(errors="replace")[-SHOWN_BYTES:])

    def start(self) -> None:
        """Start it."""
        with self.log.open("ab") as log:
            self._process = ForkedCommand([*self.program, *self._words], stderr=log)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def stop(self, number: int = signal.SIGINT) -> int:
        """End it by a signal; return its exit status."""
        self._process.send_signal(number)
        return self._process.wait(LONG_SECONDS)


class Subscribers:
    """Subscriptions to a service, each in a database of its own, all of one server.

    Args:
        server: theirs, which runs; serving: the service; options: of each.
        copies: rows are copied, which the publisher has already.
    """

    def __init__(
        self, server: EmbeddedPostgres, serving: Serving, options: Sequence[str], *, copies: bool = False
    ) -> None:
        self.server = server
        self._databases = [f"d{number}" for number in range(len(options))]
        place = f"host=127.0.0.1 port={serving.port} dbname=postgres user=postgres"
        place += " options=''-c logical_decoding_work_mem=64kB''"
        for number, text in enumerate(options):
            run(server, f"CREATE DATABASE d{number}")
            made = f"CREATE SUBSCRIPTION s{number} CONNECTION '{place}' PUBLICATION p"
            run(server, *TABLES, f"{made} WITH (copy_data = {copies}, {text})", database=f"d{number}")

    def wait_for_copies(self) -> None:
        """Wait until all tables are copied: what is killed while a table's slot is dropped leaves it without one.

        So it is with a server as the publisher, too (process_syncing_tables_for_sync): the state follows the drop.
        """
        ready = "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel"
        for database in self._databases:
            with self.server.connect(database) as session:
                wait_until(lambda session=session: session.execute(ready).fetchall() == [(True,)], LONG_SECONDS)  # type: ignore[misc]

    def entries(self) -> int:
        """Count the entries that all have together."""
        counts = []
        for database in self._databases:
            with self.server.connect(database) as session:
                counts.extend(session.execute("SELECT count(*) FROM entries").fetchall())
        return sum(count for (count,) in counts)

    def wait_for_equal(self, publisher: EmbeddedPostgres) -> None:
        """Wait until all have what the publisher has."""
        expected = contents(publisher)
        for database in self._databases:
            wait_until(lambda database=database: contents(self.server, database) == expected, LONG_SECONDS)  # type: ignore[misc]

    def drop(self) -> None:
        """Drop all."""
        for number, database in enumerate(self._databases):
            run(self.server, f"DROP SUBSCRIPTION s{number}", database=database)


@contextmanager
def subscriber_of(major: int) -> Iterator[EmbeddedPostgres]:
    """Run a server that subscribes."""
    with small_server(major, **SETTINGS) as server:
        yield server


def kill_service(serving: Serving, work: LargeWork, choose: random.Random, is_amid: bool) -> None:
    """Kill a service, at a moment or by itself amid its files, and start it again."""
    if is_amid:
        serving.stop(signal.SIGKILL)
        serving.program = random_failpoint(choose)
        if serving.starts():
            serving.wait(LONG_SECONDS)
        serving.program = MAIN
    else:
        wait_for_work(work, choose.randint(3, 25))
        assert serving.stop(signal.SIGKILL) == -signal.SIGKILL
    serving.start()


def kill_server(server: EmbeddedPostgres) -> None:
    """Kill each process of a server, as if its machine had stopped; the next start recovers."""
    process = server.process
    assert process is not None
    server.process = None
    children = _children(process.pid)
    for pid in (process.pid, *children):
        _kill(pid)
    process.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
    (server.data_directory / "postmaster.pid").unlink()


def kill_worker(server: EmbeddedPostgres, choose: random.Random) -> None:
    """Kill a worker that applies or copies: the server ends all others, and recovers."""
    with server.connect() as session:
        rows = session.execute("SELECT pid FROM pg_stat_subscription WHERE pid IS NOT NULL ORDER BY pid").fetchall()
    if rows:
        restarts = _restarts(server)
        if _kill(choose.choice(rows)[0]):
            wait_until(lambda: _restarts(server) > restarts, LONG_SECONDS)
            wait_until(lambda: _lets_in(server), LONG_SECONDS)


def _kill(pid: int) -> bool:
    """Kill a process; tell whether it was there still."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _restarts(server: EmbeddedPostgres) -> int:
    """Count how often a server has begun anew after one of its processes was killed."""
    return server.log_file.read_bytes().count(b"all server processes terminated; reinitializing")


def _lets_in(server: EmbeddedPostgres) -> bool:
    with suppress(psycopg.OperationalError), server.connect():
        return True
    return False


def _children(parent: int) -> list[int]:
    """List the processes that one has started."""
    children = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            children += [int(place.name)] if int(fields[1]) == parent else []
    return children


def wait_for_work(work: LargeWork, transactions: int) -> None:
    """Wait until so many more transactions have ended."""
    before = work.transactions
    wait_until(lambda: work.transactions >= before + transactions, LONG_SECONDS)
