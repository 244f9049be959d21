"""Changes per second of ``headwater decode --plugin pgoutput``, beside the server's own on the same WAL.

    make bench

Guards the speed of the whole command: index, plan, decode, and the Parquet file at the end. Each figure is the median
of several runs; the server decodes with ``pg_logical_slot_peek_binary_changes``, warm, and is stopped before Headwater
begins. Spark's start-up is left out of the rate and shown apart. Only ratios mean anything across machines.
"""

from __future__ import annotations

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

import click
from rich.console import Console
from rich.table import Table

from headwater.cli.embedded_postgres import EmbeddedPostgres, bundled_programs

ROWS = 1_000_000
PGBENCH_TRANSACTIONS = 62_500
PGBENCH_CLIENTS = 4
PGBENCH_CHANGES = 4 * PGBENCH_TRANSACTIONS * PGBENCH_CLIENTS
"""Each pgbench transaction updates three rows and inserts one."""

SETTINGS = {"max_wal_size": "20GB", "wal_keep_size": "20GB", "shared_buffers": "256MB"}
OPTIONS = {"proto_version": "1", "publication_names": "bench"}

INSERT = f"""
INSERT INTO measurements
SELECT g, g % 1000, 'row number ' || g, timestamp '2024-01-01' + g * interval '1 second', (g % 100000) / 100.0,
    g % 2 = 0
FROM generate_series(1, {ROWS}) g
"""
TABLE = "CREATE TABLE measurements (id bigint PRIMARY KEY, a int, b text, c timestamp, d numeric(10,2), e bool)"


@dataclass(frozen=True)
class Workload:
    """One figure: what is prepared before the backup, and what is then decoded."""

    name: str
    changes: int
    prepare: Callable[[EmbeddedPostgres], None]
    work: Callable[[EmbeddedPostgres], None]


@dataclass(frozen=True)
class Figure:
    """Seconds of each run, ours and the server's, and Spark's start-up beside ours."""

    name: str
    changes: int
    ours: list[float]
    server: list[float]
    startup: list[float]

    def as_json(self) -> dict[str, object]:
        """The entry of ``build/bench.json``."""
        ours, server = (self.changes / statistics.median(runs) for runs in (self.ours, self.server))
        return {"ours": round(ours), "server": round(server), "ratio": round(ours / server, 3), "unit": "changes/s"}


def _pgbench(server: EmbeddedPostgres, *arguments: str) -> None:
    program = str(server.programs.program("pgbench"))
    subprocess.run([program, *arguments], env=server.client_environment(), check=True, capture_output=True)


def _execute(server: EmbeddedPostgres, statement: str) -> None:
    with server.connect() as connection:
        connection.execute(statement.encode())


WORKLOADS = (
    Workload(
        "decode_pgoutput_inserts",
        ROWS,
        lambda server: _execute(server, TABLE),
        lambda server: _execute(server, INSERT),
    ),
    Workload(
        "decode_pgoutput_pgbench",
        PGBENCH_CHANGES,
        lambda server: _pgbench(server, "-i", "-q", "-s", "10"),
        lambda server: _pgbench(server, "-n", "-c", str(PGBENCH_CLIENTS), "-j", "2", "-t", str(PGBENCH_TRANSACTIONS)),
    ),
)


def _server_seconds(server: EmbeddedPostgres, runs: int) -> list[float]:
    """How long the server takes, one run more than asked for first, uncounted."""
    flat = ", ".join(f"'{part}'" for option in OPTIONS.items() for part in option)
    query = f"SELECT count(*), sum(length(data)) FROM pg_logical_slot_peek_binary_changes('bench', NULL, NULL, {flat})"
    seconds = []
    with server.connect() as connection:
        for _ in range(runs + 1):
            began = time.perf_counter()
            connection.execute(query.encode()).fetchone()
            seconds.append(time.perf_counter() - began)
    return seconds[1:]


def _our_seconds(
    wal: Path, backup: Path, start: str, changes: int, scratch: Path, runs: int
) -> tuple[list[float], list[float]]:
    """Decoding and start-up seconds of the command; one run more first, uncounted, as it may compile kernels."""
    stats, options = scratch / "stats.json", [f"-o{name}={value}" for name, value in OPTIONS.items()]
    command = [sys.executable, "-m", "headwater.cli.main", "decode", "--wal", str(wal), "--catalog", str(backup)]
    command += ["--start", start, "--plugin", "pgoutput", *options, "--out", str(scratch / "out.parquet")]
    decoding, startup = [], []
    for _ in range(runs + 1):
        subprocess.run([*command, "--stats-json", str(stats)], check=True)
        found = json.loads(stats.read_text())
        if found["changes"] != changes:
            raise SystemExit(f"decoded {found['changes']} changes, expected {changes}")
        decoding.append(found["decode_seconds"])
        startup.append(found["startup_seconds"])
    return decoding[1:], startup[1:]


def _measure(workload: Workload, runs: int) -> Figure:
    with (
        tempfile.TemporaryDirectory(prefix="headwater-bench-") as temporary,
        EmbeddedPostgres(bundled_programs(16), settings=SETTINGS, autovacuum=False) as server,
    ):
        workload.prepare(server)
        _execute(server, "CREATE PUBLICATION bench FOR ALL TABLES")
        server.stop()
        backup = server.copy_data_directory(Path(temporary) / "backup")
        server.start()
        with server.connect() as connection:
            made = "SELECT lsn::text FROM pg_create_logical_replication_slot('bench', 'pgoutput')"
            start = str(connection.execute(made).fetchone()[0])  # type: ignore[index]
        workload.work(server)
        theirs = _server_seconds(server, runs)
        server.stop()
        ours, startup = _our_seconds(server.wal_directory, backup, start, workload.changes, Path(temporary), runs)
    return Figure(workload.name, workload.changes, ours, theirs, startup)


def _show(figures: list[Figure], console: Console) -> None:
    table = Table(title=f"{platform.machine()}, {os.cpu_count()} cores, PostgreSQL 16")
    for heading in ("figure", "changes", "ours /s", "server /s", "ratio", "our seconds", "server's", "Spark start-up"):
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    for figure in figures:
        entry = figure.as_json()
        medians = (statistics.median(runs) for runs in (figure.ours, figure.server, figure.startup))
        rates = (f"{entry['ours']:,}", f"{entry['server']:,}", f"{entry['ratio']:.2f}")
        table.add_row(figure.name, f"{figure.changes:,}", *rates, *(f"{seconds:.2f}" for seconds in medians))
    console.print(table)


@click.command()
@click.option("--runs", default=3, show_default=True, help="Counted runs of each side.")
@click.option("--out", default="build/bench.json", show_default=True, help="Where the figures go.")
def main(runs: int, out: str) -> None:
    """Measure and write the figures."""
    console = Console()
    figures = []
    for workload in WORKLOADS:
        with console.status(f"{workload.name} ..."):
            figures.append(_measure(workload, runs))
    _show(figures, console)
    path = Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({figure.name: figure.as_json() for figure in figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
