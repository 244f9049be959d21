"""Seconds of a whole command on one segment of WAL, beside a bare session of PySpark that runs one job."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from headwater.demo.embedded_postgres import EmbeddedPostgres, bundled_programs
from server_runs import RUNS
from workloads import prepare_inserts, run_inserts


@dataclass(frozen=True)
class Start:
    """Seconds of whole runs.

    Attributes:
        bare_runs: of a PySpark session that runs one job; our_runs: of the command on one segment.
    """

    bare_runs: tuple[float, ...]
    our_runs: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Bare by ours, of medians."""
        return statistics.median(self.bare_runs) / statistics.median(self.our_runs)


BARE = """
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[*]").getOrCreate()
session.sparkContext.parallelize(range(2), 2).map(lambda x: x).collect()
"""


def measure_start(directory: Path, console: Console) -> Start:
    """Take turns with a bare session, on the WAL of a few thousand rows."""
    with EmbeddedPostgres(bundled_programs(16), settings={"autovacuum": "off"}, autovacuum=False) as server:
        prepare_inserts(server)
        server.stop()
        backup = server.copy_data_directory(directory / "start")
        server.start()
        run_inserts(server, 20_000)
        server.stop()
        runs = []
        with console.status("start: one segment of WAL"):
            for _ in range(RUNS + 1):
                runs.append((timed(bare_session), timed(lambda: decode_segment(server, backup, directory))))
    bare, ours = zip(*runs[1:], strict=True)
    return Start(bare, ours)


def bare_session() -> None:
    """PySpark as it comes."""
    subprocess.run([sys.executable, "-c", BARE], check=True, capture_output=True)


def decode_segment(server: EmbeddedPostgres, backup: Path, directory: Path) -> None:
    """The command with nothing much to do."""
    command = [str(Path(sys.executable).parent / "headwater"), "decode", "--wal", str(server.wal_directory)]
    command += ["--catalog", str(backup), "--database", "postgres", "--out", str(directory / "segment"), "--quiet"]
    subprocess.run(command, check=True, capture_output=True)


def timed(run: Callable[[], None]) -> float:
    """Seconds of a run."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
