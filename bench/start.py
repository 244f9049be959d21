"""Seconds of a whole command on one segment of WAL, on each engine, beside a bare session of PySpark with one job."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pipeline.engines import LOCAL, SPARK
from logs import bench_server, copied
from results import Measurement, Result, Sitting
from server_runs import RUNS
from workloads import prepare_inserts, run_inserts

ENGINES = (LOCAL, SPARK)
BARE = """
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[*]").getOrCreate()
session.sparkContext.parallelize(range(2), 2).map(lambda x: x).collect()
"""


def measure(sitting: Sitting, _names: Collection[str]) -> list[Result]:
    """Take turns with a bare session, on the WAL of a few thousand rows."""
    with bench_server() as server:
        prepare_inserts(server)
        backup = copied(server, sitting.directory / "start")
        run_inserts(server, 20_000)
        server.stop()
        runs = []

        def decoding(engine: str) -> Callable[[], None]:
            return lambda: decode_segment(server, backup, sitting.directory, engine)

        with sitting.console.status("start: one segment of WAL"):
            for _ in range((sitting.runs or RUNS) + 1):
                runs.append((timed(bare_session), *(timed(decoding(engine)) for engine in ENGINES)))
    bare, *ours = zip(*runs[1:], strict=True)
    return [
        Result(f"start_{engine}", f"one segment, --engine {engine}", "seconds", seconds, {"bare": bare}, is_cost=True)
        for engine, seconds in zip(ENGINES, ours, strict=True)
    ]


def bare_session() -> None:
    """Run PySpark as it comes."""
    subprocess.run([sys.executable, "-c", BARE], check=True, capture_output=True)


def decode_segment(server: EmbeddedPostgres, backup: Path, directory: Path, engine: str) -> None:
    """Run the command with nothing much to do."""
    command = [str(Path(sys.executable).parent / "headwater"), "decode", "--wal", str(server.wal_directory)]
    command += ["--catalog", str(backup), "--database", "postgres", "--out", str(directory / "segment"), "--quiet"]
    command += ["--engine", engine]
    subprocess.run(command, check=True, capture_output=True)


def timed(run: Callable[[], None]) -> float:
    """Measure the seconds of a run."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


MEASUREMENT = Measurement(("start",), measure)
