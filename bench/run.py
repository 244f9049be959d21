"""Headwater's speed beside PostgreSQL's own, on the same WAL: ``make bench``.

Guards the promise that decoding outside the server is no slower than inside it, on two shapes of WAL of at least a
million changes each: bulk inserts of six columns, and pgbench with 4 clients (small transactions, updates). Server and
Headwater make the same pgoutput messages; their number and bytes must agree. The server's figure is the median of five
warm runs of ``SELECT count(*), sum(length(data)) FROM pg_logical_slot_peek_binary_changes(...)``, with memory enough
that it need not spill. Headwater's is the median of five runs of ``headwater decode --out FILE.parquet``, Spark's
start left out and told apart. Machines differ and are noisy, so the ratio comes with its range: the lowest and the
highest that any run of one makes with any run of the other. Figures go to ``build/bench.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from headwater.demo.embedded_postgres import EmbeddedPostgres, bundled_programs

BUILD = Path(__file__).resolve().parent.parent / "build"
RUNS = 5
OPTIONS = (("proto_version", "1"), ("publication_names", "everything"))
SETTINGS = {"logical_decoding_work_mem": "1GB", "work_mem": "1GB", "shared_buffers": "512MB"}
INSERT_TRANSACTIONS = 4
PGBENCH_CLIENTS = 4
CHANGES_PER_PGBENCH_TRANSACTION = 4
TABLE_WIDTH = 90


@dataclass(frozen=True)
class Workload:
    """What is decoded.

    Attributes:
        name: as in ``bench.json``.
        about: for people.
        prepare: makes tables, before the base copy.
        run: writes at least this many changes.
    """

    name: str
    about: str
    prepare: Callable[[EmbeddedPostgres], None]
    run: Callable[[EmbeddedPostgres, int], None]


@dataclass(frozen=True)
class Measured:
    """One workload's figures.

    Attributes:
        workload: what was decoded.
        changes, messages: how many; wal_bytes: of how much WAL.
        server_runs, our_runs: seconds of each run.
        startup_seconds: median of Spark's start.
    """

    workload: Workload
    changes: int
    messages: int
    wal_bytes: int
    server_runs: tuple[float, ...]
    our_runs: tuple[float, ...]
    startup_seconds: float

    @property
    def server_seconds(self) -> float:
        """The server's median."""
        return statistics.median(self.server_runs)

    @property
    def our_seconds(self) -> float:
        """Headwater's median."""
        return statistics.median(self.our_runs)

    @property
    def ratio(self) -> float:
        """How many times faster than the server, by medians."""
        return self.server_seconds / self.our_seconds

    @property
    def ratio_range(self) -> tuple[float, float]:
        """The lowest and the highest ratio of two runs."""
        return min(self.server_runs) / max(self.our_runs), max(self.server_runs) / min(self.our_runs)


def prepare_inserts(server: EmbeddedPostgres) -> None:
    """A table of six columns."""
    columns = "id bigint PRIMARY KEY, customer integer, name text, amount numeric(12,2), at timestamptz, paid boolean"
    with server.connect() as connection:
        connection.execute(f"CREATE TABLE sales ({columns})".encode())


def run_inserts(server: EmbeddedPostgres, changes: int) -> None:
    """Rows in a few transactions."""
    row = "g, g % 1000, 'customer number ' || g, (g % 99999) / 100.0, '2024-01-01 00:00+00'::timestamptz, g % 3 = 0"
    share = -(-changes // INSERT_TRANSACTIONS)
    with server.connect() as connection:
        for part in range(INSERT_TRANSACTIONS):
            first, last = part * share + 1, (part + 1) * share
            connection.execute(f"INSERT INTO sales SELECT {row} FROM generate_series({first}, {last}) g".encode())


def prepare_pgbench(server: EmbeddedPostgres) -> None:
    """Pgbench's tables, filled."""
    pgbench(server, "--initialize", "--quiet", "--scale", "10")


def run_pgbench(server: EmbeddedPostgres, changes: int) -> None:
    """Pgbench's default transactions: three updates and an insert each."""
    each = -(-changes // (PGBENCH_CLIENTS * CHANGES_PER_PGBENCH_TRANSACTION))
    clients = ("--client", str(PGBENCH_CLIENTS), "--jobs", "2", "--transactions", str(each))
    pgbench(server, "--no-vacuum", "--protocol", "prepared", *clients)


def pgbench(server: EmbeddedPostgres, *arguments: str) -> None:
    """Run the bundled pgbench."""
    command = [str(server.programs.program("pgbench")), *arguments]
    subprocess.run(command, env=server.client_environment(), check=True, capture_output=True)


WORKLOADS = (
    Workload("decode_pgoutput_inserts", "six-column inserts", prepare_inserts, run_inserts),
    Workload("decode_pgoutput_pgbench", "pgbench, 4 clients", prepare_pgbench, run_pgbench),
)


def measure(workload: Workload, changes: int, directory: Path, console: Console) -> Measured:
    """Run a workload, time the server, stop it, time Headwater."""
    settings = {**SETTINGS, "autovacuum": "off"}
    with EmbeddedPostgres(bundled_programs(16), settings=settings, autovacuum=False) as server:
        with console.status(f"{workload.about}: write the WAL"):
            workload.prepare(server)
            with server.connect() as connection:
                connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
            server.stop()
            backup = server.copy_data_directory(directory / workload.name)
            server.start()
            start = make_slot(server)
            workload.run(server, changes)
        with console.status(f"{workload.about}: the server decodes"):
            expected, server_runs = time_server(server)
            server.stop()
        with console.status(f"{workload.about}: Headwater decodes"):
            figures = [time_headwater(server.wal_directory, backup, start, directory) for _ in range(RUNS)]
    check_equal(expected, directory / "out.parquet")
    ours = tuple(run["decode_seconds"] for run in figures)
    startup = statistics.median(run["startup_seconds"] for run in figures)
    last = figures[-1]
    counts = (last["changes"], last["messages"], last["wal_bytes"])
    return Measured(workload, *counts, server_runs, ours, startup)


def make_slot(server: EmbeddedPostgres) -> str:
    """A slot for the server's own decoding; returns where its stream begins."""
    with server.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('bench', 'pgoutput')")
        return str(one_row(connection, "SELECT confirmed_flush_lsn::text FROM pg_replication_slots")[0])


def time_server(server: EmbeddedPostgres) -> tuple[tuple[int, int], tuple[float, ...]]:
    """(messages, bytes) of the server's stream, and the seconds of each run after one to warm up."""
    arguments = ", ".join(f"'{part}'" for option in OPTIONS for part in option)
    peek = f"pg_logical_slot_peek_binary_changes('bench', NULL, NULL, {arguments})"
    seconds = []
    with server.connect() as connection:
        for _ in range(RUNS + 1):
            began = time.perf_counter()
            row = one_row(connection, f"SELECT count(*), sum(length(data))::bigint FROM {peek}")
            seconds.append(time.perf_counter() - began)
    return (row[0], row[1]), tuple(seconds[1:])


def time_headwater(wal: Path, catalog: Path, start: str, directory: Path) -> dict[str, Any]:
    """One run of ``headwater decode``; what it says of itself."""
    stats = directory / "stats.json"
    command = [str(Path(sys.executable).parent / "headwater"), "decode", "--wal", str(wal), "--catalog", str(catalog)]
    command += ["--database", "postgres", "--start", start, "--plugin", "pgoutput"]
    command += [part for name, value in OPTIONS for part in ("-o", f"{name}={value}")]
    command += ["--out", str(directory / "out.parquet"), "--stats-json", str(stats)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"headwater decode failed: {run.stderr.strip()}")
    figures: dict[str, Any] = json.loads(stats.read_text())
    return figures


def check_equal(expected: tuple[int, int], out: Path) -> None:
    """Same number of messages and of bytes, or the figures compare different things."""
    data = pq.read_table(out, columns=["data"]).column("data")
    actual = (len(data), pc.sum(pc.binary_length(data)).as_py())
    if expected != actual:
        raise SystemExit(f"the server made {expected} messages and bytes, Headwater {actual}")


def one_row(connection: psycopg.Connection[Any], query: str) -> tuple[Any, ...]:
    """The only row of a result."""
    row: tuple[Any, ...] | None = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row


def figures_table(measured: list[Measured]) -> Table:
    """The figures for people."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=0)
    table.add_column("decoded by pgoutput", no_wrap=True)
    for heading in ("changes", "WAL", "server", "Headwater", "ratio", "range", "Spark start"):
        table.add_column(heading, justify="right", no_wrap=True)
    for m in measured:
        speeds = [f"{m.changes / seconds / 1e6:.2f} M/s" for seconds in (m.server_seconds, m.our_seconds)]
        ratios = [f"[bold]{m.ratio:.2f}[/]", "{:.2f}-{:.2f}".format(*m.ratio_range)]
        row = [f"{m.changes:,}", f"{m.wal_bytes >> 20} MB", *speeds, *ratios]
        table.add_row(m.workload.about, *row, f"{m.startup_seconds:.1f} s")
    return table


def write_json(measured: list[Measured]) -> Path:
    """``build/bench.json``."""
    BUILD.mkdir(exist_ok=True)
    figures = {
        m.workload.name: {
            "ours": round(m.changes / m.our_seconds),
            "server": round(m.changes / m.server_seconds),
            "ratio": round(m.ratio, 3),
            "ratio_range": [round(ratio, 3) for ratio in m.ratio_range],
            "unit": "changes/s",
        }
        for m in measured
    }
    path = BUILD / "bench.json"
    path.write_text(json.dumps(figures, indent=2) + "\n")
    return path


def main() -> None:
    """Measure all workloads, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="workloads; default: all")
    parser.add_argument("--changes", type=int, default=1_000_000, help="changes of each workload")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    console.width = max(console.width, TABLE_WIDTH)
    chosen = [w for w in WORKLOADS if not arguments.names or w.name in arguments.names]
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
        measured = [measure(workload, arguments.changes, Path(directory), console) for workload in chosen]
    console.print(f"PostgreSQL 16 and Headwater on {os.cpu_count()} cores ({platform.machine()}), medians of {RUNS}")
    console.print(figures_table(measured))
    console.print(f"written to {write_json(measured)}")


if __name__ == "__main__":
    main()
