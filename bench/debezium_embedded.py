"""Rows that land a second, and events of debezium, beside what Debezium's embedded engine makes of the same inserts.

The engine's time is that between its first event and its last, as the events themselves tell, so its start is left out;
each event becomes JSON and is written to a file meanwhile (``tests/peers/PrintEvents.java``). ``make bench-peers``
compares ``decode`` writing the same lines: the median of three runs, Spark's start left out; both leave schemas out.
Figures go to ``build/bench-peers.json``, under ``debezium_embedded``. ``make bench`` compares landing the rows
(``debezium`` in ``build/bench.json``), if Debezium is there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

from pyspark.sql import SparkSession

from headwater import DecodeRequest, decode
from headwater.local_servers.server_programs import find_programs
from headwater.spark.session import spark_session, warm_up
from log_figures import LAND_INSERTS
from logs import written
from results import Measurement, Result, Sitting
from workloads import INSERTS, SALES, inserts

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from peers.connector import DATABASE, JARS, PREFIX, WAYS, PeerRun, run_peer  # noqa: E402

MAJOR, WAY, RUNS, TRANSACTIONS = 16, "schemas off", 3, 20
EVENTS = 1_000_000
"""The engine's events are held in memory."""


def has_engine() -> bool:
    """Tell whether ``make build/peers`` has brought the engine."""
    return JARS.is_dir()


def engine_run(events: int, directory: Path) -> PeerRun:
    """Insert so many rows and have the engine read them."""
    return run_peer(
        find_programs(MAJOR), [f"CREATE TABLE sales ({SALES})"], inserts(events, TRANSACTIONS), [WAY], directory
    )


def engine_rate(run: PeerRun) -> float:
    """Return the events a second, from the first event of the engine to its last."""
    first, last = (json.loads(run.events[WAY][at])["value"]["ts_us"] for at in (0, -1))
    return len(run.events[WAY]) / (float(last - first) / 1e6)


def our_seconds(spark: SparkSession, run: PeerRun, directory: Path) -> float:
    """Measure some runs; return the median of their seconds."""
    options = (("topic.prefix", PREFIX), *WAYS[WAY].items())
    times = []
    for number in range(RUNS):
        request = DecodeRequest(str(run.wal), str(run.backup), DATABASE, plugin="debezium", options=options)
        start = time.monotonic()
        with decode(spark, request) as result, (directory / f"ours-{number}").open("wb") as out:
            for table in result.tables():
                for chunk in table.column("data").chunks:
                    out.write(chunk.buffers()[2])  # type: ignore[arg-type]  # a buffer is bytes
        times.append(time.monotonic() - start)
    return statistics.median(times)


def measure(sitting: Sitting, _names: Collection[str]) -> list[Result]:
    """Land the inserts; have the engine tell a part of them, as many times."""
    if not has_engine():
        sitting.console.print("debezium: left out, as there is no Debezium here (make build/peers)")
        return []
    rates, runs = [], sitting.runs or RUNS
    for turn in range(runs):
        with (
            sitting.console.status(f"debezium: the engine, run {turn + 1} of {runs}"),
            tempfile.TemporaryDirectory(dir=sitting.directory) as name,
        ):
            rates.append(engine_rate(engine_run(min(sitting.changes or EVENTS, EVENTS), Path(name))))
    with written(INSERTS, sitting) as (server, log):
        server.stop()
        ours = []
        for turn in range(runs + 1):
            with sitting.console.status(f"debezium: land, run {turn} of {runs}"):
                ours.append(log.changes / LAND_INSERTS(log).seconds)
    about = "inserts: landed, beside Debezium's JSON"
    return [Result("debezium", about, "rows/s", tuple(ours[1:]), {"debezium": tuple(rates)}, target=30)]


MEASUREMENT = Measurement(("debezium",), measure)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=EVENTS)
    events = parser.parse_args().events
    with tempfile.TemporaryDirectory() as name:
        run = engine_run(events, Path(name))
        spark = spark_session("local[*]")
        warm_up(spark)
        count = len(run.events[WAY])
        theirs, ours = engine_rate(run), count / our_seconds(spark, run, Path(name))
    figures = {"events": count, "engine": round(theirs), "headwater": round(ours)}
    (ROOT / "build" / "bench-peers.json").write_text(json.dumps({"debezium_embedded": figures}, indent=1))
    print(f"{count} events: the engine {figures['engine']}/s, Headwater {figures['headwater']}/s")


if __name__ == "__main__":
    main()
