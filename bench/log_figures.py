"""Figures of whole commands beside the server's own decoding of the same log.

The server's figure is that of warm runs of ``SELECT count(*), sum(length(data)) FROM
pg_logical_slot_peek_binary_changes(...)``, with memory enough that it need not spill: the best case inside the server.
What a client gets is beside it: ``pg_recvlogical`` writing the same to a file, once. Where both make the same messages,
their number and bytes must agree; of what lands the number of rows must be that of the changes.

Headwater's runs leave Spark's start out and tell it apart; those of several figures on the same log take turns. Of both
the first run does not count: files come into memory, and kernels that were never used are compiled.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from logs import Log, written
from our_runs import check_equal, land, time_headwater
from results import Measurement, Result, Runs, Sitting
from server_runs import OPTIONS, RUNS, Options, time_client, time_server
from workloads import INSERTS, PGBENCH, TABLE_OF_MANY, Workload

HERE = Path(__file__).resolve().parent
BINARY = (*OPTIONS, ("binary", "true"))


@dataclass(frozen=True)
class Run:
    """One run of a command.

    Attributes:
        seconds: it took, without Spark's start; startup_seconds: that.
    """

    seconds: float
    startup_seconds: float


@dataclass(frozen=True)
class Figure:
    """A figure to be measured.

    Attributes:
        name: as in ``bench.json``; about: for people.
        workload: on whose WAL.
        run: runs the command once, and checks what came out.
        target: ratio to reach, if there is one.
        options: of the server's own run; both make the same messages if `is_same`.
    """

    name: str
    about: str
    workload: Workload
    run: Callable[[Log], Run]
    target: float | None = None
    options: Options = OPTIONS
    is_same: bool = True


def decoded(options: Options = OPTIONS, plugin: str = "pgoutput") -> Callable[[Log], Run]:
    """Make a run that decodes messages into part files."""

    def run(log: Log) -> Run:
        stats = time_headwater(log.wal, log.backup, log.start, log.directory, plugin=plugin, options=options)
        return Run(stats["decode_seconds"], stats["startup_seconds"])

    return run


def landed(*flags: str) -> Callable[[Log], Run]:
    """Make a run that lands typed change tables."""

    def run(log: Log) -> Run:
        target = log.directory / "lake"
        shutil.rmtree(target, ignore_errors=True)
        return _landing(log, target, "--snapshot", "never", *flags)

    return run


def landed_current(log: Log) -> Run:
    """Land changes of rows that are there, into Delta tables that have them."""
    target, flags = log.directory / "lake", ("--mode", "current", "--format", "delta")
    ready = log.directory / f"{log.backup.name}.ready"
    if not ready.exists():
        land(log.wal, log.backup, ready, "--end", log.start, *flags)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ready, target)
    return _landing(log, target, *flags)


def _landing(log: Log, target: Path, *flags: str) -> Run:
    stats = land(log.wal, log.backup, target, *flags)
    rows = sum(stats["rows"].values())
    if rows < log.changes:
        raise SystemExit(f"{rows} changes have landed of {log.changes}")
    return Run(stats["land_seconds"], stats["startup_seconds"])


LAND_INSERTS = landed("--format", "parquet")

FIGURES = (
    Figure("decode_pgoutput_inserts", "inserts: pgoutput", INSERTS, decoded(), 2.5),
    Figure("decode_pgoutput_binary", "inserts: pgoutput, binary", INSERTS, decoded(BINARY), options=BINARY),
    Figure("land_parquet_inserts", "inserts: landed as Parquet", INSERTS, LAND_INSERTS, 3, is_same=False),
    Figure("decode_pgoutput_pgbench", "pgbench: pgoutput", PGBENCH, decoded(), 2),
    Figure(
        "decode_callbacks_pgbench",
        "pgbench: callbacks in Python",
        PGBENCH,
        decoded((), f"{HERE / 'callback_plugin.py'}:JsonLines"),
        is_same=False,
    ),
    Figure(
        "land_parquet_pgbench", "pgbench: landed as Parquet", PGBENCH, landed("--format", "parquet"), 2, is_same=False
    ),
    Figure("land_current_pgbench", "pgbench: current Delta tables", PGBENCH, landed_current, 1, is_same=False),
    Figure("decode_pgoutput_filtered", "one table of 50: pgoutput", TABLE_OF_MANY, decoded(), 4),
)


def measure(figures: Sequence[Figure], sitting: Sitting, names: Collection[str]) -> list[Result]:
    """Run the figures' workload, time the server, stop it, time Headwater."""
    chosen = [figure for figure in figures if figure.name in names]
    count = sitting.runs or RUNS
    with written(chosen[0].workload, sitting) as (server, log):
        with sitting.console.status(f"{chosen[0].workload.about}: the server decodes"):
            expected = {
                options: time_server(server, options, count) for options in {figure.options for figure in chosen}
            }
            client_seconds = time_client(server, sitting.directory)
            server.stop()
        runs: dict[str, list[Run]] = {figure.name: [] for figure in chosen}
        for turn in range(count + 1):
            for figure in chosen:
                with sitting.console.status(f"{figure.about}: run {turn} of {count}"):
                    runs[figure.name].append(figure.run(log))
                    if figure.is_same and turn == 0:
                        check_equal(expected[figure.options][0], sitting.directory / "out")
    return [
        _result(figure, log.changes, runs[figure.name][1:], expected[figure.options][1], client_seconds)
        for figure in chosen
    ]


def _result(figure: Figure, changes: int, runs: Sequence[Run], server: Runs, client: float) -> Result:
    return Result(
        figure.name,
        figure.about,
        "changes/s",
        tuple(changes / run.seconds for run in runs),
        {"server": tuple(changes / seconds for seconds in server), "client": (changes / client,)},
        target=figure.target,
        more={"startup_seconds": statistics.median(run.startup_seconds for run in runs)},
    )


MEASUREMENTS = tuple(
    Measurement(tuple(figure.name for figure in figures), partial(measure, figures))
    for figures in (list(some) for _, some in groupby(FIGURES, key=lambda figure: figure.workload))
)
