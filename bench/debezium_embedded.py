"""Events of debezium a second, beside those of Debezium's embedded engine on the same inserts: ``make bench-debezium``.

The engine's time is that between its first event and its last, as the events themselves tell, so its start is left out;
each event becomes JSON and is written to a file meanwhile (``tests/peers/PrintEvents.java``). Headwater's is that of
``decode`` writing the same lines, the median of three runs, Spark's start left out. Both leave schemas out. Figures go
to ``build/bench-debezium.json``, under ``debezium_embedded``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from headwater.demo.embedded_postgres import find_programs
from headwater.pipeline import DecodeRequest, decode
from headwater.pipeline.spark import spark_session, warm_up

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from peers.connector import DATABASE, PREFIX, WAYS, PeerRun, run_peer  # noqa: E402

MAJOR, WAY, RUNS, TRANSACTIONS = 16, "schemas off", 3, 20
COLUMNS = "id bigint PRIMARY KEY, customer integer, name text, amount numeric(12,2), at timestamptz, paid boolean"
ROW = "g, g % 1000, 'customer number ' || g, (g % 99999) / 100.0, '2024-01-01 00:00+00'::timestamptz, g % 3 = 0"


def inserts(events: int) -> list[str]:
    """Statements that make so many rows, or a few more."""
    share = -(-events // TRANSACTIONS)
    spans = ((part * share + 1, (part + 1) * share) for part in range(TRANSACTIONS))
    return [f"INSERT INTO sales SELECT {ROW} FROM generate_series({low}, {high}) g" for low, high in spans]


def engine_seconds(run: PeerRun) -> float:
    """From the first event of the engine to its last."""
    first, last = (json.loads(run.events[WAY][at])["value"]["ts_us"] for at in (0, -1))
    return float(last - first) / 1e6


def our_seconds(spark: object, run: PeerRun, directory: Path) -> float:
    """The median of some runs."""
    options = (("topic.prefix", PREFIX), *WAYS[WAY].items())
    times = []
    for number in range(RUNS):
        request = DecodeRequest(str(run.wal), str(run.backup), DATABASE, plugin="debezium", options=options)
        start = time.monotonic()
        with decode(spark, request) as result, (directory / f"ours-{number}").open("wb") as out:
            for table in result.tables():
                for chunk in table.column("data").chunks:
                    out.write(chunk.buffers()[2])
        times.append(time.monotonic() - start)
    return statistics.median(times)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    events = parser.parse_args().events
    with tempfile.TemporaryDirectory() as name:
        run = run_peer(find_programs(MAJOR), [f"CREATE TABLE sales ({COLUMNS})"], inserts(events), [WAY], Path(name))
        spark = spark_session("local[*]")
        warm_up(spark)
        theirs, ours = engine_seconds(run), our_seconds(spark, run, Path(name))
        count = len(run.events[WAY])
    figures = {"events": count, "engine": round(count / theirs), "headwater": round(count / ours)}
    (ROOT / "build" / "bench-debezium.json").write_text(json.dumps({"debezium_embedded": figures}, indent=1))
    print(f"{count} events: the engine {figures['engine']}/s, Headwater {figures['headwater']}/s")


if __name__ == "__main__":
    main()
