"""``headwater apply`` beside a stock subscription: how fast it catches up, from a slot and from the WAL itself.

Source and targets are two servers. Each run has a database of its own on the target's server, made from a template
that has the tables as they were. It has a copy of one slot, too. What is timed ends once a row is visible there that
was committed last. Ours is the whole command, with its start. A subscription is made before, and enabled then.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.receiver.base_backup import BackupRequest, take_backup
from logs import bench_server
from results import Measurement, Result, Sitting
from serve_speed import conninfo
from server_runs import RUNS, one_row
from workloads import PGBENCH, Workload, inserts, prepare_inserts

ROWS, ROWS_A_TRANSACTION = 8_000_000, 1000
SOURCE_SETTINGS = {"max_wal_senders": "20", "max_replication_slots": "20"}
TARGET_SETTINGS = {
    "max_logical_replication_workers": "20",
    "max_worker_processes": "30",
    "max_replication_slots": "60",
    "max_wal_size": "8GB",
    "track_commit_timestamp": "on",
}
MARKS, TEMPLATE, SLOT = "CREATE TABLE mark (n int PRIMARY KEY)", "prepared", "bench"
POLL_SECONDS = 0.01


def _run_small_inserts(server: EmbeddedPostgres, changes: int) -> None:
    """Insert rows in transactions of a thousand."""
    with server.connect() as connection:
        for statement in inserts(changes, -(-changes // ROWS_A_TRANSACTION)):
            connection.execute(statement.encode())


INSERTS = Workload("inserts", "six-column inserts, 1,000 a transaction", ROWS, prepare_inserts, _run_small_inserts)
FIGURES: dict[str, tuple[Workload, bool, float]] = {
    "apply_pgbench": (PGBENCH, False, 3.0),
    "apply_pgbench_wal": (PGBENCH, True, 4.0),
    "apply_inserts": (INSERTS, False, 5.0),
    "apply_inserts_wal": (INSERTS, True, 5.0),
}
"""By name: what is behind, whether it is taken from the WAL, the ratio to reach."""


@dataclass(frozen=True)
class Ends:
    """The servers.

    Attributes:
        source: it has the slot :data:`SLOT`; target: it has the database :data:`TEMPLATE`.
        backup: of the source; slots: a directory with a slot over its WAL.
        directory: for what is written.
    """

    source: EmbeddedPostgres
    target: EmbeddedPostgres
    backup: Path
    slots: Path
    directory: Path

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """Make a database on the target, and a copy of the slot, both of one name; give the connection string."""
        with self.source.connect() as connection:
            connection.execute(f"SELECT pg_copy_logical_replication_slot('{SLOT}', '{name}')".encode())
        with self.target.connect() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}".encode())
            connection.execute("CHECKPOINT")
        try:
            yield conninfo(self.target, name)
        finally:
            with self.target.connect() as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
                connection.execute("SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin")
            with self.source.connect() as connection:
                connection.execute(f"SELECT pg_drop_replication_slot('{name}')".encode())

    def command(self, name: str, place: str, *, from_wal: bool) -> list[str]:
        """Return the command that applies to a database what its slot has."""
        words = [sys.executable, "-m", "headwater.cli.main", "apply", "--to", place, "--subscription", name]
        words += ["--publication", "everything", "--no-copy-data", "--disable-on-error"]
        if not from_wal:
            return [*words, "--from", conninfo(self.source), "--no-create-slot"]
        slots = self.directory / name
        shutil.copytree(self.slots, slots)
        words += ["--wal", str(self.source.wal_directory), "--catalog", str(self.backup), "--slot", SLOT]
        return [*words, "--database", "postgres", "--slots", str(slots)]

    def mark(self, number: int) -> None:
        """Commit a row behind all that was written."""
        with self.source.connect() as connection:
            connection.execute(f"INSERT INTO mark VALUES ({number})".encode())
            # The next record lets a reader of the WAL see that the commit is there.
            connection.execute("SELECT pg_log_standby_snapshot()")


@contextmanager
def ends(
    workload: Workload, directory: Path, settings: Mapping[str, str] | None = None, tables: Sequence[str] = ()
) -> Iterator[Ends]:
    """Run both servers, with tables, slots and a publication, before anything is written.

    Args:
        workload: whose tables are made; directory: for what is written.
        settings: more of the source's; tables: statements that make more of them.
    """
    with bench_server({**SOURCE_SETTINGS, **(settings or {})}) as source, bench_server(TARGET_SETTINGS) as target:
        workload.prepare(source)
        with source.connect() as connection:
            for statement in (*tables, MARKS):
                connection.execute(statement.encode())
            connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        _fill_template(source, target)
        backup, slots = directory / "backup", directory / "slots"
        take_backup(BackupRequest(conninfo=conninfo(source), directory=backup))
        with source.connect() as connection:
            connection.execute(f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')".encode())
        pair = Ends(source, target, backup, slots, directory)
        _make_slot(pair)
        yield pair


def _fill_template(source: EmbeddedPostgres, target: EmbeddedPostgres) -> None:
    """Make the source's tables and rows on the target."""
    with target.connect() as connection:
        connection.execute(f"CREATE DATABASE {TEMPLATE}".encode())
    dump = [str(source.programs.program("pg_dump")), "--no-publications", "--dbname", conninfo(source)]
    load = [str(source.programs.program("psql")), "--quiet", "--set", "ON_ERROR_STOP=1", conninfo(target, TEMPLATE)]
    with subprocess.Popen(dump, stdout=subprocess.PIPE) as dumping:
        subprocess.run(load, stdin=dumping.stdout, stdout=subprocess.DEVNULL, check=True)


def _make_slot(pair: Ends) -> None:
    """Make the slot over the source's WAL, where that ends, as the command makes it at its first start."""
    pair.slots.mkdir()
    with pair.source.connect() as connection:
        end = one_row(connection, "SELECT pg_current_wal_insert_lsn()::text")[0]
        connection.execute("SELECT pg_log_standby_snapshot()")
    with pair.database("first") as place:
        command = pair.command("first", place, from_wal=True)
        command[command.index("--slots") + 1] = str(pair.slots)
        subprocess.run([*command, "--end", end], check=True)


def await_mark(place: str, number: int, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until a row is visible; a process that ends before is an error."""
    with psycopg.connect(place, autocommit=True) as connection:
        while one_row(connection, f"SELECT count(*) FROM mark WHERE n = {number}")[0] == 0:
            if process is not None and process.poll() is not None:
                raise SystemExit(f"headwater apply has ended with {process.returncode}")
            time.sleep(POLL_SECONDS)


@contextmanager
def subscription(
    pair: Ends, name: str, place: str, options: str = "", *, copies: bool = False
) -> Iterator[Callable[[], None]]:
    """Make a subscription over a slot of its name; give what enables it."""
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(
            f"CREATE SUBSCRIPTION {name} CONNECTION '{conninfo(pair.source)}' PUBLICATION everything "
            f"WITH (create_slot = false, enabled = false, copy_data = {copies}{options})".encode()
        )
        try:
            yield partial(_run, connection, f"ALTER SUBSCRIPTION {name} ENABLE")
        finally:
            connection.execute(f"ALTER SUBSCRIPTION {name} DISABLE".encode())
            connection.execute(f"ALTER SUBSCRIPTION {name} SET (slot_name = NONE)".encode())
            connection.execute(f"DROP SUBSCRIPTION {name}".encode())
            _await_free(pair.source, name)


def _run(connection: psycopg.Connection[tuple[Any, ...]], statement: str) -> None:
    connection.execute(statement.encode())


def _await_free(source: EmbeddedPostgres, slot: str) -> None:
    with source.connect() as connection:
        active = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{slot}'"
        while one_row(connection, active)[0]:
            time.sleep(POLL_SECONDS)


@contextmanager
def applying(
    pair: Ends, name: str, place: str, *more: str, from_wal: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``headwater apply`` meanwhile."""
    command = [*pair.command(name, place, from_wal=from_wal), *more]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            process.wait()
            _await_free(pair.source, name)


def measure(sitting: Sitting, names: Collection[str]) -> list[Result]:
    """Write each workload, and apply it in turns."""
    results = []
    for workload in (PGBENCH, INSERTS):
        wanted = {name: figure for name, figure in FIGURES.items() if name in names and figure[0] is workload}
        if wanted:
            results += _catching_up(workload, wanted, sitting)
    return results


def _catching_up(workload: Workload, wanted: dict[str, tuple[Workload, bool, float]], sitting: Sitting) -> list[Result]:
    changes = sitting.changes or workload.changes
    directory = sitting.directory / workload.name
    directory.mkdir()
    seconds: dict[str, list[float]] = {name: [] for name in ("stock", *wanted)}
    with ends(workload, directory) as pair:
        with sitting.console.status(f"apply: write {changes:,} changes"):
            workload.run(pair.source, changes)
            pair.mark(0)
        for turn in range(sitting.runs or RUNS):
            with sitting.console.status(f"apply: {workload.about}, run {turn + 1}"):
                seconds["stock"].append(_stock(pair, f"stock_{turn}"))
                for name, (_, from_wal, _) in wanted.items():
                    seconds[name].append(_ours(pair, f"{name}_{turn}", from_wal=from_wal))
    rates = {name: tuple(changes / each for each in runs) for name, runs in seconds.items()}
    return [
        Result(name, _about(workload, from_wal), "changes/s", rates[name], {"stock": rates["stock"]}, target=target)
        for name, (_, from_wal, target) in wanted.items()
    ]


def _about(workload: Workload, from_wal: bool) -> str:
    return f"apply {workload.about} behind, from {'WAL' if from_wal else 'a slot'}"


def _stock(pair: Ends, name: str) -> float:
    with pair.database(name) as place, subscription(pair, name, place) as enable:
        began = time.perf_counter()
        enable()
        await_mark(place, 0)
        return time.perf_counter() - began


def _ours(pair: Ends, name: str, *, from_wal: bool) -> float:
    with pair.database(name) as place:
        began = time.perf_counter()
        with applying(pair, name, place, from_wal=from_wal) as process:
            await_mark(place, 0, process)
            return time.perf_counter() - began


MEASUREMENT = Measurement(tuple(FIGURES), measure)
