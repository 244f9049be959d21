"""Time and memory for whole schemas, beside the server's: ``make bench-schemas``.

Guards the promise that no shape of a schema makes decoding outside the server slow or large. Two schemas are order
entry and decision support (see :mod:`schema_workloads`). In a catalog of 20,000 tables 3,000 small transactions make
temporary tables. One transaction has 1.25, 2.5 and 5 GB of WAL. Server and Headwater make the same pgoutput messages;
their number and bytes must agree. The server has PostgreSQL's own settings (64 MB until it spills). Its time is the
median of warm runs in one session, its memory what that session's process holds for itself at its peak. Of Headwater it
is the driver's peak (``peak_memory_bytes``), and the peak of the largest worker of Spark, which ``/proc`` tells.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import bundled_programs
from our_runs import check_equal, time_headwater
from processes import WORKER, own_peak, watched_processes
from schema_workloads import SCHEMAS, Schema, execute
from server_runs import make_slot, one_row, time_session

RUNS = 3
TRANSACTIONS_OF_MB = (1_280, 2_560, 5_120)
SETTINGS = {"autovacuum": "off", "max_locks_per_transaction": "1024"}


@dataclass(frozen=True)
class Cost:
    """The time and the memory that decoding took.

    Attributes:
        seconds: of each run.
        peak_bytes: of the server's process, or of the driver.
        worker_runs: of the largest worker of Spark in each run; none for the server.
    """

    seconds: tuple[float, ...]
    peak_bytes: int
    worker_runs: tuple[int, ...] = ()

    @property
    def median(self) -> float:
        """The median of the seconds."""
        return statistics.median(self.seconds)

    @property
    def worker_bytes(self) -> int:
        """The bytes of the largest worker of all runs; 0 for the server."""
        return max(self.worker_runs, default=0)


@dataclass(frozen=True)
class Measured:
    """One schema's figures.

    Attributes:
        name: the schema's, with the size written.
        wal_bytes, changes: of it.
        server, ours: what decoding took.
    """

    name: str
    wal_bytes: int
    changes: int
    server: Cost
    ours: Cost


def measure_schema(schema: Schema, runs: int, directory: Path, console: Console) -> Measured:
    """Run a workload, have the server decode it, stop it, decode it with Headwater."""
    with EmbeddedPostgres(bundled_programs(16), settings=SETTINGS, autovacuum=False) as server:
        with console.status(f"{schema.name}: make the tables"):
            schema.prepare(server)
            execute(server, "CREATE PUBLICATION everything FOR ALL TABLES")
            server.stop()
            backup = server.copy_data_directory(directory / f"{schema.name}-{schema.size}")
            server.start()
        with console.status(f"{schema.name}: write {schema.size:,} {schema.about}"):
            start = make_slot(server)
            schema.run(server, schema.size)
        with console.status(f"{schema.name}: the server decodes"):
            expected, theirs = server_cost(server, runs)
            server.stop()
        with console.status(f"{schema.name}: Headwater decodes"):
            figures, ours = our_cost(server, backup, start, runs, directory)
    check_equal(expected, directory / "out")
    return Measured(
        f"{schema.name}, {schema.size:,} {schema.about}", figures["wal_bytes"], figures["changes"], theirs, ours
    )


def server_cost(server: EmbeddedPostgres, runs: int) -> tuple[tuple[int, int], Cost]:
    """Time the server; return (messages, bytes) of its stream, and what its session took."""
    with server.connect() as connection:
        expected, seconds = time_session(connection, runs)
        peak = own_peak(one_row(connection, "SELECT pg_backend_pid()")[0])
    return expected, Cost(seconds, peak)


def our_cost(
    server: EmbeddedPostgres, backup: Path, start: str, runs: int, directory: Path
) -> tuple[dict[str, Any], Cost]:
    """Decode some times; return the figures of the last run, and what all of them took."""
    figures, workers = [], []
    for _ in range(runs):
        with watched_processes() as watch:
            figures.append(time_headwater(server.wal_directory, backup, start, directory))
        workers.append(watch.peak(WORKER))
    seconds = tuple(run["decode_seconds"] for run in figures)
    return figures[-1], Cost(seconds, max(run["peak_memory_bytes"] for run in figures), tuple(workers))


def chosen(names: list[str], size: int | None) -> Iterator[Schema]:
    """Choose the schemas asked for, the one transaction in several sizes."""
    for schema in SCHEMAS:
        if not names or schema.name in names:
            sizes = TRANSACTIONS_OF_MB if schema.name == "one-transaction" else (schema.size,)
            yield from (replace(schema, size=amount) for amount in ((size,) if size else sizes))


def figures_table(measurements: list[Measured]) -> Table:
    """Make the table of the figures for people."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("schema")
    for heading in (
        "WAL",
        "changes",
        "server",
        "Headwater",
        "ratio",
        "server's memory",
        "driver's",
        "largest worker's",
    ):
        table.add_column(heading, justify="right")
    for measured in measurements:
        times = [f"{cost.median:.1f} s" for cost in (measured.server, measured.ours)]
        sizes = [
            f"{size >> 20} MB"
            for size in (measured.server.peak_bytes, measured.ours.peak_bytes, measured.ours.worker_bytes)
        ]
        ratio = f"{measured.server.median / measured.ours.median:.2f}"
        table.add_row(measured.name, f"{measured.wal_bytes >> 20} MB", f"{measured.changes:,}", *times, ratio, *sizes)
    return table


def main() -> None:
    """Measure all schemas, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help=", ".join(schema.name for schema in SCHEMAS) + "; default: all")
    parser.add_argument("--size", type=int, help="how much is written, instead of each schema's own number")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each, beside the server's first")
    arguments = parser.parse_args()
    console = Console(highlight=False, width=140)
    measurements = []
    for schema in chosen(arguments.names, arguments.size):
        with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
            measurements.append(measure_schema(schema, arguments.runs, Path(directory), console))
        print(measurements[-1], file=sys.stderr)
    console.print(figures_table(measurements))


if __name__ == "__main__":
    main()
