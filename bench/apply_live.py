"""``headwater apply`` beside a stock subscription, live: one huge transaction, how late rows are, the initial copy.

Each contestant has a database of its own on the target's server, in turns. A huge transaction is applied while it runs,
by both; what is timed is from its commit until its last row is visible. How late rows are, they say themselves: a
column that only the target has says when a row was applied, its commit time when it was committed at the source.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from apply_speed import Ends, applying, await_mark, ends, subscription
from results import MEGABYTE, Measurement, Result, Sitting
from serve_speed import RATE, SECONDS, latencies
from server_runs import RUNS, one_row
from subscriber_speed import FILL, LATE, WIDE, late_parts
from workloads import SALE, Workload, prepare_inserts

HUGE_ROWS, SYNC_ROWS, SYNC_RUNS = 5_000_000, 10_000_000, 2
WORK_MEM = {"logical_decoding_work_mem": "64MB"}
LATENCIES = {"apply_latency_p50_ms": (50, 150.0), "apply_latency_p99_ms": (99, 600.0)}
"""By name: which percentile, and what it may be at most."""
MEMORY_MB = 500.0


def measure(sitting: Sitting, names: Collection[str]) -> list[Result]:
    """Run the contestants in turns."""
    results = []
    if {"apply_streamed", "apply_memory_mb"} & set(names):
        results += [result for result in _streamed(sitting) if result.name in names]
    if set(LATENCIES) & set(names):
        results += _latency(sitting, names)
    if "apply_sync" in names:
        results.append(_sync(sitting))
    return results


def _nothing(_server: object, _changes: int) -> None:
    """Write nothing."""


def _streamed(sitting: Sitting) -> list[Result]:
    workload = Workload("streamed", "one transaction", HUGE_ROWS, prepare_inserts, _nothing)
    rows, directory = sitting.changes or HUGE_ROWS, sitting.directory / "streamed"
    directory.mkdir()
    seconds: dict[str, list[float]] = {"ours": [], "stock": []}
    memory = []
    with ends(workload, directory, WORK_MEM) as pair:
        for turn in range(sitting.runs or RUNS):
            for name in seconds:
                with sitting.console.status(f"apply: one transaction of {rows:,} rows, {name}, run {turn + 1}"):
                    with _live(pair, name, f"{name}_{turn}") as (place, process):
                        pair.mark(2 * turn)
                        await_mark(place, 2 * turn, process)
                        seconds[name].append(_commit_to_visible(pair, place, rows, 2 * turn + 1))
                        if process is not None:
                            memory.append(_peak_mb(process.pid))
                    with pair.source.connect() as connection:
                        connection.execute("TRUNCATE mark, sales")
    about = f"one transaction of {rows:,} rows: from its commit to being visible"
    beside = {"stock, streaming = parallel": tuple(seconds["stock"])}
    return [
        Result("apply_streamed", about, "seconds", tuple(seconds["ours"]), beside, is_cost=True, target=1.0),
        Result(
            "apply_memory_mb", "peak of headwater apply meanwhile", "MB", tuple(memory), is_cost=True, target=MEMORY_MB
        ),
    ]


@contextmanager
def _live(pair: Ends, who: str, name: str) -> Iterator[tuple[str, subprocess.Popen[bytes] | None]]:
    """Apply meanwhile, by ours or by the stock worker."""
    with ExitStack() as stack:
        place = stack.enter_context(pair.database(name))
        if who == "stock":
            stack.enter_context(subscription(pair, name, place, ", streaming = parallel"))()
            yield place, None
            return
        yield place, stack.enter_context(applying(pair, name, place, "--streaming", "parallel"))


def _commit_to_visible(pair: Ends, place: str, rows: int, mark: int) -> float:
    with pair.source.connect() as connection, connection.transaction():
        connection.execute(f"INSERT INTO sales SELECT {SALE} FROM generate_series(1, {rows}) g".encode())
        connection.execute(f"INSERT INTO mark VALUES ({mark})".encode())
    began = time.perf_counter()
    await_mark(place, mark)
    return time.perf_counter() - began


def _peak_mb(pid: int) -> float:
    """Return the most memory that a process has had so far (proc(5): VmHWM)."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024 / MEGABYTE


def _prepare_late(server: object) -> None:
    """Make nothing: both ends have tables of their own."""


def _latency(sitting: Sitting, names: Collection[str]) -> list[Result]:
    """Apply from the source's WAL as it is written, while rows are inserted at an even rate."""
    seconds, directory = sitting.seconds or SECONDS, sitting.directory / "late"
    directory.mkdir()
    workload = Workload("late", "rows at an even rate", 0, _prepare_late, _nothing)
    with ends(workload, directory, tables=[LATE.format(more="")]) as pair, pair.database("late") as place:
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute("ALTER TABLE late ADD applied timestamptz DEFAULT clock_timestamp()")
        with applying(pair, "late", place, from_wal=True) as process:
            pair.mark(0)
            await_mark(place, 0, process)
            parts = late_parts(pair.source, place, sitting)
    about = f"commit to applied from the WAL, {RATE:,} transactions/s, p"
    return latencies(LATENCIES, names, about, parts, sum(map(len, parts)) / seconds)


def _sync(sitting: Sitting) -> Result:
    rows, directory = sitting.changes or SYNC_ROWS, sitting.directory / "sync"
    directory.mkdir()
    workload = Workload("sync", "initial copy", rows, _prepare_late, _nothing)
    seconds: dict[str, list[float]] = {"ours": [], "stock": []}
    with ends(workload, directory, tables=[WIDE]) as pair:
        with sitting.console.status(f"apply: write {rows:,} rows"), pair.source.connect() as connection:
            connection.execute(FILL.format(rows=rows).encode())
            connection.execute("CHECKPOINT")
        for turn in range(sitting.runs or SYNC_RUNS):
            for name in seconds:
                with sitting.console.status(f"apply: copy {rows:,} rows, {name}, run {turn + 1}"):
                    seconds[name].append(_copied(pair, name, f"{name}_{turn}", rows))
    rates = {name: tuple(rows / each for each in times) for name, times in seconds.items()}
    about = f"initial copy of {rows:,} rows with a primary key"
    return Result("apply_sync", about, "rows/s", rates["ours"], {"stock": rates["stock"]}, target=2.0)


def _copied(pair: Ends, who: str, name: str, rows: int) -> float:
    with pair.database(name) as place:
        seconds = (_copied_by_stock if who == "stock" else _copied_by_ours)(pair, name, place)
        with psycopg.connect(place) as connection:
            if one_row(connection, "SELECT count(*) FROM wide")[0] != rows:
                raise SystemExit("the copy has not all rows")
        return seconds


def _copied_by_stock(pair: Ends, name: str, place: str) -> float:
    began = time.perf_counter()
    with subscription(pair, name, place, copies=True) as enable, psycopg.connect(place, autocommit=True) as connection:
        enable()
        unready = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'"
        while one_row(connection, unready)[0]:
            time.sleep(0.05)
        return time.perf_counter() - began


def _copied_by_ours(pair: Ends, name: str, place: str) -> float:
    with pair.source.connect() as connection:
        end = one_row(connection, "SELECT pg_current_wal_flush_lsn()::text")[0]
    command = [word for word in pair.command(name, place, from_wal=False) if word != "--no-copy-data"]
    began = time.perf_counter()
    subprocess.run([*command, "--end", end], check=True)
    return time.perf_counter() - began


MEASUREMENT = Measurement(("apply_streamed", "apply_memory_mb", *LATENCIES, "apply_sync"), measure)
