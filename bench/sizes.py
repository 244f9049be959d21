"""Landing over sizes of WAL, with one core and two, and what bounds it: ``make bench-sizes``.

One server writes inserts of six columns, in transactions of 20,000 rows, until there is WAL enough; each size of it is
landed as Parquet from the same start on. Of each run: how long it took, what its processes held at their peak, the CPU
that they took, and how long tasks of each step worked (:mod:`watched_landing`). The server's own decoding of as much
stands beside it (its best case, the second of two runs). So does ``pg_recvlogical``, which writes it to a file.
Debezium's embedded engine on such rows, if it is there, and what the machine allows (:mod:`limits`) are measured once:
the engine on up to a million rows, the limits on the largest size up to 1 GB.

Figures go to ``build/bench-sizes.json``, charts of them beside it. Needs three times the largest size of disk.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console

from debezium_embedded import EVENTS, engine_rate, engine_run, has_engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from limits import limits
from logs import Log, bench_server, prepare, write_until
from results import MEGABYTE
from server_runs import one_row, time_client, time_session
from size_charts import write_size_charts
from watched_landing import WatchedLanding, watched_landing
from workloads import INSERTS, inserts

BUILD = Path(__file__).resolve().parent.parent / "build"
GIGABYTES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
CORES = (1, 2)
RUNS = 3
ROWS_A_TRANSACTION = 20_000
LIMITS_GIGABYTES = 1.0


@dataclass(frozen=True)
class Window:
    """One size.

    Attributes:
        gigabytes: asked for; wal_bytes: that there are; end: LSN.
        server_seconds, client_seconds: what the server took, and pg_recvlogical.
    """

    gigabytes: float
    wal_bytes: int
    end: str
    server_seconds: float
    client_seconds: float


def measure(gigabytes: Sequence[float], runs: int, directory: Path, console: Console) -> dict[str, Any]:
    """Measure all sizes, on one log."""
    with bench_server() as server:
        with console.status("write the WAL"):
            start, backup = prepare(server, INSERTS, directory)
            ends = write_until(server, [int(size * (1 << 30)) for size in gigabytes], insert_more)
        windows = []
        for size, end in zip(gigabytes, ends, strict=True):
            with console.status(f"{size:g} GB: the server decodes"):
                windows.append(window(server, size, start, end, directory))
        server.stop()
        log = Log(backup, server.wal_directory, start, ends[-1], 0, directory)
        return {
            "windows": [_landed(log, entry, runs, console) for entry in windows],
            **_limits(log, windows, console),
        }


def insert_more(connection: psycopg.Connection[Any]) -> None:
    """Write one more transaction."""
    (newest,) = one_row(connection, "SELECT coalesce(max(id), 0) FROM sales")
    (statement,) = inserts(ROWS_A_TRANSACTION, 1, newest + 1)
    connection.execute(statement.encode())


def window(server: EmbeddedPostgres, gigabytes: float, start: str, end: str, directory: Path) -> Window:
    """Measure what the server takes for a size."""
    with server.connect() as connection:
        _, (seconds,) = time_session(connection, 1, end=end)
    client = time_client(server, directory, end)
    return Window(gigabytes, Lsn.parse(end) - Lsn.parse(start), end, seconds, client)


def _landed(log: Log, window: Window, runs: int, console: Console) -> dict[str, Any]:
    landings = []
    for cores in CORES:
        watched = []
        for turn in range(runs):
            with console.status(f"{window.gigabytes:g} GB, cores: {cores}: run {turn + 1} of {runs}"):
                watched.append(watched_landing(log, window.end, cores))
        landings.append(_of_runs(watched))
    console.print(f"{window.gigabytes:g} GB: " + ", ".join(_said(window, landing) for landing in landings))
    return {
        "gigabytes": window.gigabytes,
        "wal_bytes": window.wal_bytes,
        "server_seconds": window.server_seconds,
        "client_seconds": window.client_seconds,
        "landings": landings,
    }


def _of_runs(runs: Sequence[WatchedLanding]) -> dict[str, Any]:
    """Choose the run of the median, with the seconds of all."""
    median = statistics.median_low(run.seconds for run in runs)
    typical = next(run for run in runs if run.seconds == median)
    return {
        "cores": typical.cores,
        "rows": typical.rows,
        "seconds": median,
        "all_seconds": [run.seconds for run in runs],
        "peak_bytes": {kind: max(run.peaks[kind] for run in runs) for kind in typical.peaks},
        "cpu_seconds": typical.cpu,
        "task_seconds": typical.tasks,
    }


def _said(size: Window, landing: dict[str, Any]) -> str:
    rate = size.wal_bytes / MEGABYTE / landing["seconds"]
    return (
        f"{rate:.0f} MB/s (cores: {landing['cores']}, {size.server_seconds / landing['seconds']:.2f} times the server)"
    )


def _limits(log: Log, windows: Sequence[Window], console: Console) -> dict[str, Any]:
    """Measure what the machine allows, and Debezium's engine: MB of WAL a second."""
    fitting = [entry for entry in windows if entry.gigabytes <= LIMITS_GIGABYTES] or windows[:1]
    largest = max(fitting, key=lambda window: window.wal_bytes)
    with console.status("what the machine allows"):
        landed = watched_landing(log, largest.end, max(CORES))
        seconds = limits(log, largest.end, landed.files, CORES)
    rates = {name: largest.wal_bytes / MEGABYTE / took for name, took in seconds.items()}
    figures: dict[str, Any] = {"limits_gigabytes": largest.gigabytes, "limits": rates}
    if has_engine():
        events = min(landed.rows, EVENTS)
        with console.status("Debezium's engine"), tempfile.TemporaryDirectory(dir=log.directory) as name:
            rate = engine_rate(engine_run(events, Path(name)))
        figures["debezium"] = rate * largest.wal_bytes / MEGABYTE / landed.rows
    return figures


def main() -> None:
    """Measure the sizes asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("gigabytes", nargs="*", type=float, default=list(GIGABYTES))
    parser.add_argument("--runs", type=int, default=RUNS, help="of each size and number of cores")
    arguments = parser.parse_args()
    console = Console(highlight=False, width=140)
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
        figures = measure(sorted(arguments.gigabytes), arguments.runs, Path(directory), console)
    BUILD.mkdir(exist_ok=True)
    path = BUILD / "bench-sizes.json"
    path.write_text(json.dumps(figures, indent=2) + "\n")
    console.print(f"written to {', '.join(str(chart) for chart in (path, *write_size_charts(path, BUILD)))}")


if __name__ == "__main__":
    main()
