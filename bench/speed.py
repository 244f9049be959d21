"""Headwater's speed beside PostgreSQL's own, on the same WAL: ``make bench``.

Guards the promise that decoding outside the server is no slower than inside it, on windows that users have: 8 million
inserts of six columns, 3 million changes of pgbench with 4 clients (small transactions, updates), and 8 million inserts
into 50 tables of which one is published. Server and
Headwater make the same pgoutput messages; their number and bytes must agree. The server's figure is the median of five
warm runs of ``SELECT count(*), sum(length(data)) FROM pg_logical_slot_peek_binary_changes(...)``, with memory enough
that it need not spill: the best case inside the server. What a client gets is beside it: ``pg_recvlogical`` writing the
same to a file, once. Headwater's is the median of five runs of ``headwater decode --out DIR/``, Spark's start left out
and told apart. ``start`` is the whole of a run on one segment of WAL, beside a bare PySpark session that runs one job.
Machines differ and are noisy, so the ratio comes with its range: the lowest and the highest that any run of one makes
with any run of the other. Figures go to ``build/bench.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
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
from pyarrow.dataset import dataset
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from headwater.demo.embedded_postgres import EmbeddedPostgres, bundled_programs

BUILD = Path(__file__).resolve().parent.parent / "build"
RUNS = 5
OPTIONS = (("proto_version", "1"), ("publication_names", "everything"))
SETTINGS = {"logical_decoding_work_mem": "1GB", "work_mem": "1GB", "shared_buffers": "512MB"}
INSERT_TRANSACTIONS = 4
TABLES = 50
ROWS_A_TRANSACTION = 1000
PGBENCH_CLIENTS = 4
CHANGES_PER_PGBENCH_TRANSACTION = 4
TABLE_WIDTH = 120


@dataclass(frozen=True)
class Workload:
    """What is decoded.

    Attributes:
        name: as in ``bench.json``.
        about: for people.
        changes: how many, unless another number is asked for.
        prepare: makes tables, before the base copy.
        run: writes at least this many changes.
        published: what is in the publication.
    """

    name: str
    about: str
    changes: int
    prepare: Callable[[EmbeddedPostgres], None]
    run: Callable[[EmbeddedPostgres, int], None]
    published: str = "FOR ALL TABLES"


@dataclass(frozen=True)
class Measured:
    """One workload's figures.

    Attributes:
        workload: what was decoded.
        changes: how many, those that are not published among them; messages: how many; wal_bytes: of how much WAL.
        server_runs, our_runs: seconds of each run.
        client_seconds: what pg_recvlogical took.
        startup_seconds: median of Spark's start.
    """

    workload: Workload
    changes: int
    messages: int
    wal_bytes: int
    server_runs: tuple[float, ...]
    our_runs: tuple[float, ...]
    client_seconds: float
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


def prepare_tables(server: EmbeddedPostgres) -> None:
    """Tables of three columns."""
    with server.connect() as connection:
        for number in range(TABLES):
            columns = "id bigint PRIMARY KEY, name text, amount numeric(12,2)"
            connection.execute(f"CREATE TABLE sales_{number} ({columns})".encode())


def run_tables(server: EmbeddedPostgres, changes: int) -> None:
    """Rows in all of them, in transactions of a thousand rows a table."""
    rounds = -(-changes // (TABLES * ROWS_A_TRANSACTION))
    with server.connect() as connection:
        for turn in range(rounds):
            first, last = turn * ROWS_A_TRANSACTION, (turn + 1) * ROWS_A_TRANSACTION - 1
            rows = f"SELECT g, 'customer ' || g, g / 100.0 FROM generate_series({first}, {last}) g"
            statements = (f"INSERT INTO sales_{number} {rows}" for number in range(TABLES))
            connection.execute(f"BEGIN; {'; '.join(statements)}; COMMIT".encode())


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
    Workload("decode_pgoutput_inserts", "six-column inserts", 8_000_000, prepare_inserts, run_inserts),
    Workload("decode_pgoutput_pgbench", "pgbench, 4 clients", 3_000_000, prepare_pgbench, run_pgbench),
    Workload("decode_pgoutput_filtered", "one table of 50", 8_000_000, prepare_tables, run_tables, "FOR TABLE sales_7"),
)


def measure(workload: Workload, changes: int, directory: Path, console: Console) -> Measured:
    """Run a workload, time the server, stop it, time Headwater."""
    settings = {**SETTINGS, "autovacuum": "off"}
    with EmbeddedPostgres(bundled_programs(16), settings=settings, autovacuum=False) as server:
        with console.status(f"{workload.about}: write the WAL"):
            workload.prepare(server)
            with server.connect() as connection:
                connection.execute(f"CREATE PUBLICATION everything {workload.published}".encode())
            server.stop()
            backup = server.copy_data_directory(directory / workload.name)
            server.start()
            start = make_slot(server)
            workload.run(server, changes)
        with console.status(f"{workload.about}: the server decodes"):
            expected, server_runs = time_server(server)
            client_seconds = time_client(server, directory)
            server.stop()
        with console.status(f"{workload.about}: Headwater decodes"):
            figures = [time_headwater(server.wal_directory, backup, start, directory) for _ in range(RUNS)]
    check_equal(expected, directory / "out")
    ours = tuple(run["decode_seconds"] for run in figures)
    startup = statistics.median(run["startup_seconds"] for run in figures)
    last = figures[-1]
    counts = (last["changes"] + last["changes_passed_over"], last["messages"], last["wal_bytes"])
    return Measured(workload, *counts, server_runs, ours, client_seconds, startup)


def make_slot(server: EmbeddedPostgres) -> str:
    """A slot for the server's own decoding; returns where its stream begins."""
    with server.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('bench', 'pgoutput')")
        return str(one_row(connection, "SELECT confirmed_flush_lsn::text FROM pg_replication_slots")[0])


def time_server(server: EmbeddedPostgres) -> tuple[tuple[int, int], tuple[float, ...]]:
    """(messages, bytes) of the server's stream, and the seconds of each run after one to warm up."""
    with server.connect() as connection:
        return time_session(connection, RUNS)


def time_session(connection: psycopg.Connection[Any], runs: int) -> tuple[tuple[int, int], tuple[float, ...]]:
    """:func:`time_server` in one session, so many times."""
    arguments = ", ".join(f"'{part}'" for option in OPTIONS for part in option)
    peek = f"pg_logical_slot_peek_binary_changes('bench', NULL, NULL, {arguments})"
    seconds = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        row = one_row(connection, f"SELECT count(*), sum(length(data))::bigint FROM {peek}")
        seconds.append(time.perf_counter() - began)
    return (row[0], row[1]), tuple(seconds[1:])


def time_client(server: EmbeddedPostgres, directory: Path) -> float:
    """Seconds in which ``pg_recvlogical`` writes the stream to a file."""
    with server.connect() as connection:
        connection.execute("SELECT pg_copy_logical_replication_slot('bench', 'client')")
        end = str(one_row(connection, "SELECT pg_current_wal_flush_lsn()::text")[0])
    out = directory / "client"
    command = [str(server.programs.program("pg_recvlogical")), "--dbname", "postgres", "--slot", "client", "--start"]
    command += ["--endpos", end, "--no-loop", "--file", str(out)]
    command += [part for name, value in OPTIONS for part in ("--option", f"{name}={value}")]
    began = time.perf_counter()
    subprocess.run(command, env=server.client_environment(), check=True, capture_output=True)
    seconds = time.perf_counter() - began
    out.unlink()
    return seconds


def time_headwater(wal: Path, catalog: Path, start: str, directory: Path, end: str | None = None) -> dict[str, Any]:
    """One run of ``headwater decode``; what it says of itself."""
    stats, out = directory / "stats.json", directory / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [str(Path(sys.executable).parent / "headwater"), "decode", "--wal", str(wal), "--catalog", str(catalog)]
    command += ["--database", "postgres", "--start", start, "--plugin", "pgoutput"]
    command += ["--end", end] if end is not None else []
    command += [part for name, value in OPTIONS for part in ("-o", f"{name}={value}")]
    command += ["--out", f"{out}/", "--stats-json", str(stats)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"headwater decode failed: {run.stderr.strip()}")
    figures: dict[str, Any] = json.loads(stats.read_text())
    return figures


def check_equal(expected: tuple[int, int], out: Path) -> None:
    """Same number of messages and of bytes, or the figures compare different things."""
    lengths = (pc.binary_length(batch["data"]) for batch in dataset(out, format="parquet").to_batches(columns=["data"]))
    sums = [(len(some), pc.sum(some).as_py() or 0) for some in lengths]
    actual = (sum(count for count, _ in sums), sum(size for _, size in sums))
    if expected != actual:
        raise SystemExit(f"the server made {expected} messages and bytes, Headwater {actual}")


@dataclass(frozen=True)
class Start:
    """Seconds of whole runs.

    Attributes:
        bare_runs: of a PySpark session that runs one job; our_runs: of the command on one segment.
    """

    bare_runs: tuple[float, ...]
    our_runs: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Bare by ours, of medians."""
        return statistics.median(self.bare_runs) / statistics.median(self.our_runs)


BARE = """
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[*]").getOrCreate()
session.sparkContext.parallelize(range(2), 2).map(lambda x: x).collect()
"""


def measure_start(directory: Path, console: Console) -> Start:
    """Take turns with a bare session, on the WAL of a few thousand rows."""
    with EmbeddedPostgres(bundled_programs(16), settings={"autovacuum": "off"}, autovacuum=False) as server:
        prepare_inserts(server)
        server.stop()
        backup = server.copy_data_directory(directory / "start")
        server.start()
        run_inserts(server, 20_000)
        server.stop()
        runs = []
        with console.status("start: one segment of WAL"):
            for _ in range(RUNS + 1):
                runs.append((timed(bare_session), timed(lambda: decode_segment(server, backup, directory))))
    bare, ours = zip(*runs[1:], strict=True)
    return Start(bare, ours)


def bare_session() -> None:
    """PySpark as it comes."""
    subprocess.run([sys.executable, "-c", BARE], check=True, capture_output=True)


def decode_segment(server: EmbeddedPostgres, backup: Path, directory: Path) -> None:
    """The command with nothing much to do."""
    command = [str(Path(sys.executable).parent / "headwater"), "decode", "--wal", str(server.wal_directory)]
    command += ["--catalog", str(backup), "--database", "postgres", "--out", str(directory / "segment"), "--quiet"]
    subprocess.run(command, check=True, capture_output=True)


def timed(run: Callable[[], None]) -> float:
    """Seconds of a run."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def one_row(connection: psycopg.Connection[Any], query: str) -> tuple[Any, ...]:
    """The only row of a result."""
    row: tuple[Any, ...] | None = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row


def figures_table(measured: list[Measured]) -> Table:
    """The figures for people."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=0)
    table.add_column("decoded by pgoutput", no_wrap=True)
    for heading in ("changes", "WAL", "client", "server", "Headwater", "ratio", "range", "Spark start"):
        table.add_column(heading, justify="right", no_wrap=True)
    for m in measured:
        speeds = [
            f"{m.changes / seconds / 1e6:.2f} M/s" for seconds in (m.client_seconds, m.server_seconds, m.our_seconds)
        ]
        ratios = [f"[bold]{m.ratio:.2f}[/]", "{:.2f}-{:.2f}".format(*m.ratio_range)]
        row = [f"{m.changes:,}", f"{m.wal_bytes >> 20} MB", *speeds, *ratios]
        table.add_row(m.workload.about, *row, f"{m.startup_seconds:.1f} s")
    return table


def write_json(measured: list[Measured], start: Start | None) -> Path:
    """``build/bench.json``."""
    BUILD.mkdir(exist_ok=True)
    figures: dict[str, dict[str, Any]] = {
        m.workload.name: {
            "ours": round(m.changes / m.our_seconds),
            "client": round(m.changes / m.client_seconds),
            "server": round(m.changes / m.server_seconds),
            "ratio": round(m.ratio, 3),
            "ratio_range": [round(ratio, 3) for ratio in m.ratio_range],
            "unit": "changes/s",
        }
        for m in measured
    }
    if start is not None:
        ours, bare = (round(statistics.median(runs), 2) for runs in (start.our_runs, start.bare_runs))
        figures["start"] = {"ours": ours, "bare": bare, "ratio": round(start.ratio, 3), "unit": "seconds"}
    path = BUILD / "bench.json"
    path.write_text(json.dumps(figures, indent=2) + "\n")
    return path


def main() -> None:
    """Measure all workloads, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="workloads, start; default: all")
    parser.add_argument("--changes", type=int, help="changes of each workload, instead of its own number")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    console.width = max(console.width, TABLE_WIDTH)
    chosen = [w for w in WORKLOADS if not arguments.names or w.name in arguments.names]
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
        measured = [measure(w, arguments.changes or w.changes, Path(directory), console) for w in chosen]
        is_asked = not arguments.names or "start" in arguments.names
        start = measure_start(Path(directory), console) if is_asked else None
    console.print(f"PostgreSQL 16 and Headwater on {os.cpu_count()} cores ({platform.machine()}), medians of {RUNS}")
    console.print(figures_table(measured))
    if start is not None:
        ours, bare = (statistics.median(runs) for runs in (start.our_runs, start.bare_runs))
        console.print(
            f"start: {ours:.1f} s for one segment, a bare session {bare:.1f} s: ratio [bold]{start.ratio:.2f}[/]"
        )
    console.print(f"written to {write_json(measured, start)}")


if __name__ == "__main__":
    main()
