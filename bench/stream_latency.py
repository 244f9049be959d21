"""The time of a change from its commit on the server to ``foreachBatch`` in Spark, while the server works.

pgbench sends its transactions at an even rate; Spark's stream (docs/guides/streams.md) reads the ``pg_wal`` that the
server is writing, all on one machine. A change's latency is the time from its commit, as the WAL has it. It ends when
the rows of its batch are with the function that ``foreachBatch`` calls. The first seconds do not count: Java compiles
what the stream needs. The figure is the median of the percentiles of five parts of the time, as of five runs elsewhere.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import headwater
from cores import new_process
from headwater.spark.session import spark_session
from logs import bench_server, copied
from results import Measurement, Result, Sitting
from server_runs import RUNS
from workloads import CHANGES_PER_PGBENCH_TRANSACTION, PGBENCH_CLIENTS, prepare_pgbench

RATE = 1000
SECONDS, WARM_UP_SECONDS, PATIENCE_SECONDS = 60.0, 15.0, 300.0
PERCENTILES = {"stream_latency_p50_ms": (50, 400), "stream_latency_p99_ms": (99, 1000)}
"""By name: which percentile, and what it may be at most."""


@dataclass(frozen=True)
class Load:
    """The load that is sent while the stream runs.

    Attributes:
        command: of pgbench, but for how much; environment: its.
        seconds: that count.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    seconds: float


@dataclass(frozen=True)
class Seen:
    """The changes that the stream has given.

    Attributes:
        latency: float64[n] in seconds, of changes in the order of their commits.
        batches: how many there were, with those that do not count.
        rate: transactions a second that were sent.
    """

    latency: NDArray[np.float64]
    batches: int
    rate: float


def measure(sitting: Sitting, names: Collection[str]) -> list[Result]:
    """Start a server, a stream and pgbench."""
    seconds = sitting.seconds or SECONDS
    with bench_server() as server, sitting.console.status(f"stream: {RATE} transactions a second"):
        prepare_pgbench(server)
        backup = copied(server, sitting.directory / "stream")
        command = [str(server.programs.program("pgbench")), "--no-vacuum", "--protocol", "prepared"]
        load = Load(command, server.client_environment(), seconds)
        with new_process() as worker:
            seen = worker.submit(streamed, server.wal_directory, backup, sitting.directory, load).result()
    return [_result(name, *PERCENTILES[name], seen) for name in PERCENTILES if name in names]


def _result(name: str, percentile: int, at_most: float, seen: Seen) -> Result:
    parts = np.array_split(seen.latency * 1000, RUNS)
    runs = tuple(float(np.percentile(part, percentile)) for part in parts)
    about = f"commit to foreachBatch, {RATE:,} transactions/s, p{percentile}"
    more = {"transactions_per_second": seen.rate, "changes": float(len(seen.latency)), "batches": float(seen.batches)}
    return Result(name, about, "ms", runs, is_cost=True, target=at_most, more=more)


def streamed(wal: Path, backup: Path, directory: Path, load: Load) -> Seen:
    """Run the stream, and pgbench beside it, in a process of its own, as its Spark goes on until it ends."""
    spark = spark_session()
    headwater.register(spark)
    stream = spark.readStream.format("headwater").options(path=str(wal), catalog=str(backup), database="postgres")
    arrivals = Arrivals()
    writing = stream.load().writeStream.foreachBatch(arrivals.take)
    with tempfile.TemporaryDirectory(dir=directory) as checkpoint:
        query = writing.option("checkpointLocation", checkpoint).start()
        try:
            first, _ = _send(load, ["--client", "1", "--transactions", "1"])
            arrivals.wait_for(first * CHANGES_PER_PGBENCH_TRANSACTION, query)
            began = time.time()
            sent, rate = _send(load, _steady(load.seconds))
            arrivals.wait_for((first + sent) * CHANGES_PER_PGBENCH_TRANSACTION, query)
        finally:
            query.stop()
            spark.stop()
    return arrivals.seen(began + WARM_UP_SECONDS, rate)


def _steady(seconds: float) -> list[str]:
    lasts = str(round(seconds + WARM_UP_SECONDS))
    return ["--client", str(PGBENCH_CLIENTS), "--rate", str(RATE), "--time", lasts]


def _send(load: Load, flags: Sequence[str]) -> tuple[int, float]:
    """Send transactions with pgbench; return how many it has sent, and how many a second."""
    run = subprocess.run(
        [*load.command, *flags], env=dict(load.environment), check=True, capture_output=True, text=True
    )
    sent = re.search(r"transactions actually processed: (\d+)", run.stdout)
    rate = re.search(r"tps = ([\d.]+)", run.stdout)
    if sent is None or rate is None:
        raise SystemExit(f"pgbench says nothing of what it has sent: {run.stdout}")
    return int(sent[1]), float(rate[1])


@dataclass
class Arrivals:
    """Batches as they come; Spark calls :meth:`take` in a thread of its own."""

    _committed: list[NDArray[np.float64]] = field(default_factory=list)
    _latency: list[NDArray[np.float64]] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, batch: Any, _number: int) -> None:
        """Take all rows of a batch, as Arrow's table."""
        rows = batch.toArrow()
        arrived = time.time()
        micros = rows["_commit_time"].combine_chunks().cast("int64").to_numpy()
        with self._changed:
            self._committed.append(micros / 1e6)
            self._latency.append(arrived - micros / 1e6)
            self._changed.notify_all()

    def wait_for(self, changes: int, query: Any) -> None:
        """Wait until there are so many.

        Raises:
            SystemExit: they do not come.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        with self._changed:
            while not self._changed.wait_for(lambda: self._count >= changes, timeout=1.0):
                if not query.isActive or time.monotonic() > deadline:
                    raise SystemExit(f"{self._count} changes have come of {changes}: {query.exception()}")

    @property
    def _count(self) -> int:
        return sum(map(len, self._committed))

    def seen(self, since: float, rate: float) -> Seen:
        """Return what was committed from a moment on, in seconds since 1970."""
        committed, latency = np.concatenate(self._committed), np.concatenate(self._latency)
        order = np.argsort(committed, kind="stable")
        order = order[committed[order] >= since]
        return Seen(latency[order], len(self._committed), rate)


MEASUREMENT = Measurement(tuple(PERCENTILES), measure)
