"""Headwater's speed beside PostgreSQL's own, on the same WAL: ``make bench``.

Guards the promise that decoding outside the server is no slower than inside it, and that landing is faster, on windows
that users have (:mod:`workloads`): 8 million inserts of six columns, 3 million changes of pgbench with 4 clients (small
transactions, updates), and 8 million inserts into 50 tables of which one is published. The server's figure is the
median of five warm runs of ``SELECT count(*), sum(length(data)) FROM pg_logical_slot_peek_binary_changes(...)``, with
memory enough that it need not spill: the best case inside the server. What a client gets is beside it:
``pg_recvlogical`` writing the same to a file, once. Where both make the same messages, their number and bytes must
agree; of what lands the number of rows must be that of the changes.

Headwater's is the median of five runs of the command, Spark's start left out and told apart; runs of several figures
on the same WAL take turns. ``start`` is the whole of a run on one segment of WAL, beside a bare PySpark session that
runs one job. Machines differ and are noisy, so the ratio comes with its range: the lowest and the highest that any run
of one makes with any run of the other. Figures go to ``build/bench.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from charts import write_charts
from headwater.demo.embedded_postgres import EmbeddedPostgres, bundled_programs
from our_runs import check_equal, land, time_headwater
from server_runs import OPTIONS, RUNS, SETTINGS, Options, make_slot, time_client, time_server
from start import Start, measure_start
from workloads import INSERTS, PGBENCH, TABLE_OF_MANY, Workload

ROOT = Path(__file__).resolve().parent
BUILD = ROOT.parent / "build"
TABLE_WIDTH = 120
BINARY = (*OPTIONS, ("binary", "true"))


@dataclass(frozen=True)
class Log:
    """A workload's log, once its server was stopped.

    Attributes:
        backup: a copy from before; wal: the log; start: LSN where the workload begins.
        changes: how many it has.
        directory: for what is written.
    """

    backup: Path
    wal: Path
    start: str
    changes: int
    directory: Path


@dataclass(frozen=True)
class Run:
    """One run of a command.

    Attributes:
        seconds: it took, without Spark's start; startup_seconds: that.
        wal_bytes: that it went through; None where it does not say.
    """

    seconds: float
    startup_seconds: float
    wal_bytes: int | None = None


@dataclass(frozen=True)
class Figure:
    """What is measured.

    Attributes:
        name: as in ``bench.json``; about: for people.
        workload: on whose WAL.
        run: runs the command once, and checks what came out.
        options: of the server's own run; both make the same messages if `is_same`.
    """

    name: str
    about: str
    workload: Workload
    run: Callable[[Log], Run]
    options: Options = OPTIONS
    is_same: bool = True


@dataclass(frozen=True)
class Measured:
    """A figure's.

    Attributes:
        figure: it.
        changes: how many; wal_bytes: of how much WAL, if that is known.
        server_runs, our_runs: seconds of each run.
        client_seconds: what pg_recvlogical took.
        startup_seconds: median of Spark's start.
    """

    figure: Figure
    changes: int
    wal_bytes: int | None
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


def decoded(options: Options = OPTIONS, plugin: str = "pgoutput") -> Callable[[Log], Run]:
    """Messages into part files."""

    def run(log: Log) -> Run:
        said = time_headwater(log.wal, log.backup, log.start, log.directory, plugin=plugin, options=options)
        return Run(said["decode_seconds"], said["startup_seconds"], said["wal_bytes"])

    return run


def landed(*flags: str) -> Callable[[Log], Run]:
    """Typed change tables."""

    def run(log: Log) -> Run:
        target = log.directory / "lake"
        shutil.rmtree(target, ignore_errors=True)
        return _landing(log, target, "--snapshot", "never", *flags)

    return run


def landed_current(log: Log) -> Run:
    """Changes of rows that are there, into Delta tables that have them."""
    target, flags = log.directory / "lake", ("--mode", "current", "--format", "delta")
    ready = log.directory / f"{log.backup.name}.ready"
    if not ready.exists():
        land(log.wal, log.backup, ready, "--end", log.start, *flags)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ready, target)
    return _landing(log, target, *flags)


def _landing(log: Log, target: Path, *flags: str) -> Run:
    said = land(log.wal, log.backup, target, *flags)
    rows = sum(said["rows"].values())
    if rows < log.changes:
        raise SystemExit(f"{rows} changes have landed of {log.changes}")
    return Run(said["land_seconds"], said["startup_seconds"])


FIGURES = (
    Figure("decode_pgoutput_inserts", "inserts: pgoutput", INSERTS, decoded()),
    Figure("decode_pgoutput_binary", "inserts: pgoutput, binary", INSERTS, decoded(BINARY), BINARY),
    Figure("land_parquet_inserts", "inserts: landed as Parquet", INSERTS, landed("--format", "parquet"), is_same=False),
    Figure("decode_pgoutput_pgbench", "pgbench: pgoutput", PGBENCH, decoded()),
    Figure(
        "decode_callbacks_pgbench",
        "pgbench: callbacks in Python",
        PGBENCH,
        decoded((), f"{ROOT / 'callback_plugin.py'}:JsonLines"),
        is_same=False,
    ),
    Figure("land_parquet_pgbench", "pgbench: landed as Parquet", PGBENCH, landed("--format", "parquet"), is_same=False),
    Figure("land_current_pgbench", "pgbench: current Delta tables", PGBENCH, landed_current, is_same=False),
    Figure("decode_pgoutput_filtered", "one table of 50: pgoutput", TABLE_OF_MANY, decoded()),
)


def measure(figures: Sequence[Figure], changes: int, directory: Path, console: Console) -> list[Measured]:
    """Run a workload, time the server, stop it, time Headwater."""
    workload = figures[0].workload
    settings = {**SETTINGS, "autovacuum": "off"}
    with EmbeddedPostgres(bundled_programs(16), settings=settings, autovacuum=False) as server:
        with console.status(f"{workload.about}: write the WAL"):
            start, backup = prepare(server, workload, directory)
            workload.run(server, changes)
        with console.status(f"{workload.about}: the server decodes"):
            expected = {options: time_server(server, options) for options in {one.options for one in figures}}
            client_seconds = time_client(server, directory)
            server.stop()
        log = Log(backup, server.wal_directory, start, changes, directory)
        runs: dict[str, list[Run]] = {one.name: [] for one in figures}
        for turn in range(RUNS):
            for one in figures:
                with console.status(f"{one.about}: run {turn + 1} of {RUNS}"):
                    runs[one.name].append(one.run(log))
                    if one.is_same and turn == 0:
                        check_equal(expected[one.options][0], directory / "out")
    return [_measured(one, changes, runs[one.name], expected[one.options][1], client_seconds) for one in figures]


def _measured(
    figure: Figure, changes: int, runs: Sequence[Run], server_runs: tuple[float, ...], client_seconds: float
) -> Measured:
    seconds = tuple(run.seconds for run in runs)
    startup = statistics.median(run.startup_seconds for run in runs)
    return Measured(figure, changes, runs[-1].wal_bytes, server_runs, seconds, client_seconds, startup)


def prepare(server: EmbeddedPostgres, workload: Workload, directory: Path) -> tuple[str, Path]:
    """Make a workload's tables, and a copy of the server; where its slot begins."""
    workload.prepare(server)
    with server.connect() as connection:
        connection.execute(f"CREATE PUBLICATION everything {workload.published}".encode())
    server.stop()
    backup = server.copy_data_directory(directory / workload.name)
    server.start()
    return make_slot(server), backup


def figures_table(measured: Sequence[Measured]) -> Table:
    """The figures for people."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=0)
    table.add_column("", no_wrap=True)
    for heading in ("changes", "client", "server", "Headwater", "ratio", "range", "Spark start"):
        table.add_column(heading, justify="right", no_wrap=True)
    for m in measured:
        speeds = [
            f"{m.changes / seconds / 1e6:.2f} M/s" for seconds in (m.client_seconds, m.server_seconds, m.our_seconds)
        ]
        ratios = [f"[bold]{m.ratio:.2f}[/]", "{:.2f}-{:.2f}".format(*m.ratio_range)]
        table.add_row(m.figure.about, f"{m.changes:,}", *speeds, *ratios, f"{m.startup_seconds:.1f} s")
    return table


def write_json(measured: Sequence[Measured], start: Start | None) -> Path:
    """``build/bench.json``."""
    BUILD.mkdir(exist_ok=True)
    figures: dict[str, dict[str, Any]] = {
        m.figure.name: {
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
    """Measure all figures, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="figures, start; default: all")
    parser.add_argument("--changes", type=int, help="changes of each workload, instead of its own number")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    console.width = max(console.width, TABLE_WIDTH)
    chosen = [one for one in FIGURES if not arguments.names or one.name in arguments.names]
    measured: list[Measured] = []
    for workload, some in groupby(chosen, key=lambda one: one.workload):
        with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
            measured += measure(list(some), arguments.changes or workload.changes, Path(directory), console)
    start = None
    if not arguments.names or "start" in arguments.names:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
            start = measure_start(Path(directory), console)
    console.print(f"PostgreSQL 16 and Headwater on {os.cpu_count()} cores ({platform.machine()}), medians of {RUNS}")
    console.print(figures_table(measured))
    if start is not None:
        ours, bare = (statistics.median(runs) for runs in (start.our_runs, start.bare_runs))
        console.print(
            f"start: {ours:.1f} s for one segment, a bare session {bare:.1f} s: ratio [bold]{start.ratio:.2f}[/]"
        )
    written = write_json(measured, start)
    console.print(f"written to {', '.join(str(path) for path in (written, *write_charts(written)))}")


if __name__ == "__main__":
    main()
