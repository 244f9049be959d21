"""Rows that were there before, landed from heap files as Parquet, beside the server's own COPY of them.

The server's figure is the median of warm runs of ``COPY ... TO '/dev/null' (FORMAT binary)`` in one session: its best
case, rows that are read, sent by their types' send functions and written to nobody. Headwater reads a copy of the
stopped server's directory, five times after a first run that does not count; there is nothing in the WAL behind it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection
from pathlib import Path

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from logs import bench_server, copied
from our_runs import land
from results import Measurement, Result, Runs, Sitting
from server_runs import RUNS
from workloads import prepare_inserts, run_inserts

ROWS = 10_000_000
SMALL_LOG = {"wal_keep_size": "0", "max_wal_size": "512MB"}
"""What was written is in the backup's heap files: its WAL need not be copied with them."""


def measure(sitting: Sitting, _names: Collection[str]) -> list[Result]:
    """Fill a table, copy the server, time COPY, stop it, time Headwater."""
    rows, runs = sitting.changes or ROWS, sitting.runs or RUNS
    with bench_server(SMALL_LOG) as server:
        with sitting.console.status(f"{rows:,} rows: write them"):
            prepare_inserts(server)
            run_inserts(server, rows)
            backup = copied(server, sitting.directory / "snapshot")
        with sitting.console.status("rows: the server copies them"):
            theirs = copy_runs(server, runs)
            server.stop()
        ours = []
        for turn in range(runs + 1):
            with sitting.console.status(f"rows: land, run {turn} of {runs}"):
                ours.append(load_seconds(server.wal_directory, backup, sitting.directory / "lake", rows))
    about = "rows of a backup: landed as Parquet"
    rates = [tuple(rows / seconds for seconds in seconds_of) for seconds_of in (ours[1:], theirs)]
    return [Result("snapshot_rows", about, "rows/s", rates[0], {"server": rates[1]}, target=2)]


def copy_runs(server: EmbeddedPostgres, runs: int) -> Runs:
    """Measure the seconds of each COPY after one to warm up."""
    seconds = []
    with server.connect() as connection:
        for _ in range(runs + 1):
            began = time.perf_counter()
            connection.execute("COPY sales TO '/dev/null' (FORMAT binary)")
            seconds.append(time.perf_counter() - began)
    return tuple(seconds[1:])


def load_seconds(wal: Path, backup: Path, target: Path, rows: int) -> float:
    """Run ``headwater land`` once; return its seconds, Spark's start left out."""
    shutil.rmtree(target, ignore_errors=True)
    stats = land(wal, backup, target, "--format", "parquet", "--snapshot", "initial")
    landed = sum(stats["rows"].values())
    if landed < rows:
        raise SystemExit(f"{landed} rows have landed of {rows}")
    return float(stats["land_seconds"])


MEASUREMENT = Measurement(("snapshot_rows",), measure)
