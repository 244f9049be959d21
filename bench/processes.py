"""The memory of a run's processes at its peak, and their seconds of CPU, as ``/proc`` tells.

A run is the tree of processes below this one: the command (``driver``), Spark's Java (``java``), and the Python
processes that run tasks (``worker``), which are forked from a daemon. Processes are looked at now and then, so what one
does between the last look and its end is lost: a tenth of a second at most.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

SECONDS_BETWEEN_LOOKS = 0.1
DRIVER, WORKER, JAVA = "driver", "worker", "java"
KINDS = (DRIVER, WORKER, JAVA)
SYSTEM = "system"

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """A process when it was last seen.

    Attributes:
        kind: one of KINDS.
        peak_bytes: see :func:`own_peak`.
        user, system: seconds of CPU so far.
    """

    kind: str
    peak_bytes: int
    user: float
    system: float


@dataclass
class ProcessWatch:
    """Processes that were seen.

    Attributes:
        seen: by number.
        looks: seconds since 1970 of each look, and the seconds of CPU so far: of each kind in its own code, of all in
            the system's.
    """

    seen: dict[int, Process] = field(default_factory=dict)
    looks: list[tuple[float, dict[str, float]]] = field(default_factory=list)

    def look(self) -> None:
        """See what there is now."""
        for number in below(os.getpid()):
            current = process(number)
            if current is not None:
                self.seen[number] = current
        cpu = {kind: sum(seen.user for seen in self.seen.values() if seen.kind == kind) for kind in KINDS}
        cpu[SYSTEM] = sum(seen.system for seen in self.seen.values())
        self.looks.append((time.time(), cpu))

    def peak(self, kind: str) -> int:
        """Return the bytes that the largest process of a kind held; 0 if there was none."""
        return max((seen.peak_bytes for seen in self.seen.values() if seen.kind == kind), default=0)

    def cpu_between(self, began: float, ended: float) -> dict[str, float]:
        """Return the seconds of CPU between two moments, in seconds since 1970, as :attr:`looks` has them."""
        times = [when for when, _ in self.looks]
        seconds = {}
        for kind in (*KINDS, SYSTEM):
            sums = [cpu[kind] for _, cpu in self.looks]
            seconds[kind] = float(np.interp(ended, times, sums) - np.interp(began, times, sums))
        return seconds


@contextmanager
def watched_processes() -> Iterator[ProcessWatch]:
    """Watch what runs below this process until the block ends."""
    watch, ended = ProcessWatch(), threading.Event()

    def look() -> None:
        while not ended.wait(SECONDS_BETWEEN_LOOKS):
            watch.look()

    watch.look()
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield watch
    finally:
        ended.set()
        watcher.join()


def below(ancestor: int) -> set[int]:
    """Find the numbers of all processes that a process has started, and that those have started."""
    parents = dict[int, int]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            parents[int(entry.name)] = int(status(int(entry.name)).get("PPid", "0"))
    family = {ancestor}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return family - {ancestor}


def process(number: int) -> Process | None:
    """Read what a process holds and has taken; None if it has ended, or is none of a run."""
    kind = _kind(number)
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    user, system = (int(ticks) / _TICK for ticks in fields[11:13])
    return None if kind is None else Process(kind, own_peak(number), user, system)


def _kind(number: int) -> str | None:
    """Tell a process's kind by its command line; None of a server's processes, and of one that has ended."""
    try:
        words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    program = words[0].rpartition(b"/")[2]
    if program == b"java":
        return JAVA
    if not program.startswith(b"python"):
        return None
    return WORKER if any(word.endswith(b"daemon") for word in words) else DRIVER


def status(number: int) -> dict[str, str]:
    """Read the lines of ``/proc/PID/status``; empty if it has ended."""
    try:
        lines = Path(f"/proc/{number}/status").read_text().splitlines()
    except OSError:
        return {}
    return {
        name: value.split()[0] if value.split() else "" for name, _, value in (line.partition(":") for line in lines)
    }


def own_peak(number: int) -> int:
    """Read the bytes that a process held at its peak, without what it shares with others as a server's buffers are."""
    fields = status(number)
    return (int(fields.get("VmHWM", "0")) - int(fields.get("RssShmem", "0"))) << 10
