"""One run of ``headwater land``, watched: CPU and memory of its processes, and how long tasks of each step took.

The figures are of the time from where landing began to where the last window had landed, by the run's own word
(``--progress json``): Spark's start is left out. Tasks are those of Spark's event log, which the run is made to write;
it has a line for each, some hundreds in all.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cores import on_cores
from logs import Log
from our_runs import land
from processes import KINDS, watched_processes

STEPS = "headwater "
"""What a job's description begins with, before the name of its step."""

BEFORE = ("start",)
"""Steps of before landing begins."""


@dataclass(frozen=True)
class WatchedLanding:
    """The figures of one run that was watched.

    Attributes:
        cores: that it had; seconds: from its first window's beginning to its last one's end.
        rows: that have landed; files: where they are.
        cpu: seconds of CPU, as :meth:`processes.ProcessWatch.cpu_between` has them.
        peaks: bytes that the largest process of each kind held.
        tasks: seconds of tasks, by step.
    """

    cores: int
    seconds: float
    rows: int
    files: tuple[Path, ...]
    cpu: dict[str, float]
    peaks: dict[str, int]
    tasks: dict[str, float]


def watched_landing(log: Log, end: str, cores: int) -> WatchedLanding:
    """Land a log's changes up to an LSN as Parquet, into a new place."""
    target, events = log.directory / "lake", log.directory / "events"
    for place in (target, events):
        shutil.rmtree(place, ignore_errors=True)
    events.mkdir()
    flags = ["--format", "parquet", "--snapshot", "never", "--end", end, "--master", f"local[{cores}]"]
    with on_cores(cores), watched_processes() as watch:
        stats = land(log.wal, log.backup, target, *flags, submit=_event_log(events))
    began, ended = stats["began"], stats["ended"]
    return WatchedLanding(
        cores=cores,
        seconds=ended - began,
        rows=sum(stats["rows"].values()),
        files=tuple(sorted(target.glob("*/*.parquet"))),
        cpu=watch.cpu_between(began, ended),
        peaks={kind: watch.peak(kind) for kind in KINDS},
        tasks=task_seconds(events),
    )


def _event_log(place: Path) -> str:
    """Write the settings that have Spark write its event log, as a plain file."""
    settings = {"enabled": "true", "dir": place.as_uri(), "compress": "false", "rolling.enabled": "false"}
    words = [word for name, value in settings.items() for word in ("--conf", f"spark.eventLog.{name}={value}")]
    return shlex.join([*words, "pyspark-shell"])


def task_seconds(place: Path) -> dict[str, float]:
    """Sum the seconds of all tasks by step, of the event log in a directory."""
    steps: dict[int, str] = {}
    seconds: Counter[str] = Counter()
    for event in _events(place):
        if event["Event"] == "SparkListenerJobStart":
            description = event.get("Properties", {}).get("spark.job.description", "")
            steps |= dict.fromkeys(event["Stage IDs"], description.removeprefix(STEPS))
        elif event["Event"] == "SparkListenerTaskEnd":
            task = event["Task Info"]
            seconds[steps.get(event["Stage ID"], "")] += task["Finish Time"] - task["Launch Time"]
    return {step: millis / 1000 for step, millis in seconds.items() if step and step not in BEFORE}


def _events(place: Path) -> Iterator[dict[str, Any]]:
    for file in place.rglob("*"):
        if file.is_file() and not file.name.startswith("."):
            yield from map(json.loads, file.read_text().splitlines())
