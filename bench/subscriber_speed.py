"""Stock subscribers of ``headwater serve``: how late they have applied what was committed, how fast they copy a table.

A subscriber is a server of the same major. How late it is, it says itself: with ``track_commit_timestamp`` a row has
the time of the commit at its origin. A column that only the subscriber has says when the row was applied.
The initial copy is compared with that from the primary, in turns: the service reads its rows in the backup and WAL.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import numpy as np
import psycopg
from numpy.typing import NDArray

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from logs import bench_server
from results import Measurement, Result, Sitting
from serve_speed import RATE, SECONDS, WARM_UP_SECONDS, Peer, conninfo, latencies, serving
from server_runs import RUNS, one_row
from workloads import PGBENCH_CLIENTS

ROWS = 10_000_000
SYNC_RUNS = 2
WORKERS = {"max_logical_replication_workers": "20", "max_worker_processes": "30", "track_commit_timestamp": "on"}
LATENCIES = {"subscribe_latency_p50_ms": (50, 150.0), "subscribe_latency_p99_ms": (99, 600.0)}
"""By name: which percentile, and what it may be at most."""

LATE = "CREATE TABLE late (id bigserial PRIMARY KEY, body text{more})"
LATE_BY = "SELECT extract(epoch FROM applied - pg_xact_commit_timestamp(xmin)) * 1000 FROM late WHERE applied > %s"
WIDE = "CREATE TABLE wide (id int PRIMARY KEY, n int, body text)"
FILL = "INSERT INTO wide SELECT i, i % 1000, 'row ' || i FROM generate_series(1, {rows}) i"


def measure(sitting: Sitting, names: Collection[str]) -> list[Result]:
    """Start a server, a subscriber and a service."""
    rows = sitting.changes or ROWS
    with bench_server({"max_wal_senders": "30"}) as server, bench_server(WORKERS) as subscriber:
        with server.connect() as connection, sitting.console.status(f"subscribers: write {rows:,} rows"):
            connection.execute(LATE.format(more="").encode())
            connection.execute(WIDE)
            if "sync_rows" in names:
                connection.execute(FILL.format(rows=rows).encode())
            connection.execute("CREATE PUBLICATION late FOR TABLE late")
            connection.execute("CREATE PUBLICATION wide FOR TABLE wide")
            connection.execute("CHECKPOINT")
        with subscriber.connect() as connection:
            connection.execute(LATE.format(more=", applied timestamptz DEFAULT clock_timestamp()").encode())
            connection.execute(WIDE)
        with serving(server, sitting.directory) as (theirs, ours):
            results = _latency(server, subscriber, ours, sitting, names) if set(LATENCIES) & set(names) else []
            if "sync_rows" in names:
                results.append(_sync(subscriber, theirs, ours, sitting, rows))
    return results


def _latency(
    server: EmbeddedPostgres, subscriber: EmbeddedPostgres, ours: Peer, sitting: Sitting, names: Collection[str]
) -> list[Result]:
    """Subscribe, and insert rows at an even rate."""
    seconds = sitting.seconds or SECONDS
    with _subscribed(subscriber, ours, "late", "copy_data = false"):
        parts = late_parts(server, conninfo(subscriber), sitting)
    about = f"commit to applied by a stock subscriber, {RATE:,} transactions/s, p"
    return latencies(LATENCIES, names, about, parts, sum(map(len, parts)) / seconds)


def late_parts(server: EmbeddedPostgres, place: str, sitting: Sitting) -> list[NDArray[np.float64]]:
    """Insert rows at an even rate, and return how late they were applied, in milliseconds, for each part of the time.

    Args:
        server: the source; place: connection string of the database in which they are applied.
        sitting: says for how long, and in how many parts.
    """
    seconds = sitting.seconds or SECONDS
    script = sitting.directory / "late.sql"
    script.write_text("INSERT INTO late (body) VALUES (md5(random()::text));\n")
    load = [str(server.programs.program("pgbench")), "--no-vacuum", "--protocol", "prepared", "--file", str(script)]
    load += ["--client", str(PGBENCH_CLIENTS), "--rate", str(RATE), "--time", str(round(seconds + WARM_UP_SECONDS))]
    with psycopg.connect(place) as connection:
        began = one_row(connection, f"SELECT now() + interval '{WARM_UP_SECONDS} s'")[0]
    with sitting.console.status(f"applied: {RATE} transactions a second"):
        subprocess.run(load, env=server.client_environment(), check=True, capture_output=True)
    _wait_for_all(server, place)
    with psycopg.connect(place) as connection:
        late = np.array([float(row[0]) for row in connection.execute(LATE_BY, [began])])
    return np.array_split(late, sitting.runs or RUNS)


def _wait_for_all(server: EmbeddedPostgres, place: str) -> None:
    with server.connect() as connection:
        count = one_row(connection, "SELECT count(*) FROM late")[0]
    with psycopg.connect(place, autocommit=True) as connection:
        while one_row(connection, "SELECT count(*) FROM late")[0] < count:
            time.sleep(0.1)


def _sync(subscriber: EmbeddedPostgres, theirs: Peer, ours: Peer, sitting: Sitting, rows: int) -> Result:
    """Copy a table from the service and from the primary, in turns."""
    seconds: dict[str, list[float]] = {"ours": [], "server": []}
    for turn in range(sitting.runs or SYNC_RUNS):
        for name, peer in {"ours": ours, "server": theirs}.items():
            with subscriber.connect() as connection:
                connection.execute("TRUNCATE wide")
                connection.execute("CHECKPOINT")
            with sitting.console.status(f"subscribers: copy {rows:,} rows, {name}, run {turn + 1}"):
                began = time.perf_counter()
                with _subscribed(subscriber, peer, "wide"):
                    _wait_until_ready(subscriber)
                    seconds[name].append(time.perf_counter() - began)
                    with subscriber.connect() as connection:
                        if one_row(connection, "SELECT count(*) FROM wide")[0] != rows:
                            raise SystemExit("the copy has not all rows")
    rates = {name: tuple(rows / each for each in times) for name, times in seconds.items()}
    about = f"initial copy of {rows:,} rows by a stock subscriber"
    return Result("sync_rows", about, "rows/s", rates["ours"], {"server": rates["server"]}, target=0.9)


def _wait_until_ready(subscriber: EmbeddedPostgres) -> None:
    with subscriber.connect() as connection:
        while one_row(connection, "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'")[0]:
            time.sleep(0.05)


@contextmanager
def _subscribed(
    subscriber: EmbeddedPostgres, peer: Peer, name: str, options: str = "copy_data = true"
) -> Iterator[None]:
    """Let a server subscribe to a publication of the same name meanwhile."""
    with subscriber.connect() as connection:
        create = f"CREATE SUBSCRIPTION {name} CONNECTION '{peer.conninfo}' PUBLICATION {name} WITH ({options})"
        connection.execute(create.encode())
        try:
            yield
        finally:
            connection.execute(f"DROP SUBSCRIPTION {name}".encode())


MEASUREMENT = Measurement(("sync_rows", *LATENCIES), measure)
