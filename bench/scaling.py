"""The gain of landing by a second core, beside the gain of copying memory.

Two cores of a machine share its memory, and of a virtual one often more: so what the second core can give is measured
in the same run, by processes that copy large arrays. With one core the whole command has one (its Java and its driver
too), with two it has two. The first turn does not count.
"""

from __future__ import annotations

import time
from collections.abc import Collection

import numpy as np

from cores import on_cores, workers_on_cores
from log_figures import landed
from logs import Log, written
from results import Measurement, Result, Sitting
from server_runs import RUNS
from workloads import INSERTS

COPY_SECONDS = 2.0
ARRAY_BYTES = 256 << 20


def measure(sitting: Sitting, _names: Collection[str]) -> list[Result]:
    """Land a log with one core and with two, and copy memory, in turns."""
    ours, copying, rates = [], [], []
    runs = sitting.runs or RUNS
    with written(INSERTS, sitting) as (server, log):
        server.stop()
        for turn in range(runs + 1):
            with sitting.console.status(f"scaling: run {turn} of {runs}"):
                with_one, with_two = (land_seconds(log, cores) for cores in (1, 2))
                ours.append(with_one / with_two)
                copied = [copy_rate(cores) for cores in (1, 2)]
                copying.append(copied[1] / copied[0])
                rates.append(log.changes / with_one)
    about = "inserts landed with two cores over one"
    more = {"one_core_changes_per_second": float(np.median(rates[1:]))}
    return [Result("scaling", about, "times", tuple(ours[1:]), {"copying": tuple(copying[1:])}, target=1.2, more=more)]


def land_seconds(log: Log, cores: int) -> float:
    """Land once on so many cores; return the seconds."""
    with on_cores(cores):
        return landed("--format", "parquet", "--master", f"local[{cores}]")(log).seconds


def copy_rate(processes: int) -> float:
    """Measure the bytes a second that so many processes copy together, each on a core."""
    with workers_on_cores(processes) as workers:
        return sum(workers.map(copy, [ARRAY_BYTES] * processes))


def copy(size: int) -> float:
    """Copy an array of so many bytes again and again, in a worker; return bytes a second."""
    source, target = np.ones(size // 8), np.ones(size // 8)
    began, rounds = time.perf_counter(), 0
    while time.perf_counter() - began < COPY_SECONDS:
        np.copyto(target, source)
        rounds += 1
    return rounds * size / (time.perf_counter() - began)


MEASUREMENT = Measurement(("scaling",), measure)
