"""The memory of a service and of all that it has started, looked at again and again, and judged."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MOST_BYTES = 1536 << 20
"""At any time (1.5 GB)."""

MOST_GROWTH, ROOM_BYTES = 0.10, 32 << 20
"""Of the memory of the service's last life, from its middle to its end: a tenth of it, or so many bytes."""

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """The memory at a moment.

    Attributes:
        seconds: since the run began; pid: of the service; rss: bytes, of it and of its children.
    """

    seconds: float
    pid: int
    rss: int


@dataclass(frozen=True)
class Judgement:
    """The judgement of all samples.

    Attributes:
        peak: bytes; mean: bytes in the second half of the service's last life.
        growth: bytes in that half, by the straight line that fits best; slope: bytes an hour, by the same line.
    """

    peak: int
    mean: int
    growth: int
    slope: int

    @property
    def is_flat(self) -> bool:
        """Whether memory does not grow."""
        return self.growth <= max(ROOM_BYTES, MOST_GROWTH * self.mean)

    @property
    def is_small(self) -> bool:
        """Whether there is little enough of it."""
        return self.peak <= MOST_BYTES


def judged(samples: Sequence[Sample]) -> Judgement:
    """Judge the samples of a run; its last ones are of one life of the service, long enough to fit a line."""
    last = [sample for sample in samples if sample.pid == samples[-1].pid]
    middle = (last[0].seconds + last[-1].seconds) / 2
    half = [sample for sample in last if sample.seconds >= middle]
    seconds, rss = np.array([[sample.seconds, sample.rss] for sample in half]).T
    slope = float(np.polyfit(seconds, rss, 1)[0]) if len(half) > 2 else 0.0
    growth = slope * float(seconds[-1] - seconds[0])
    return Judgement(max(sample.rss for sample in samples), int(rss.mean()), int(growth), int(slope * 3600))


def rss_of_tree(pid: int) -> int:
    """Return the resident bytes of a process and all below it; 0 once it is gone."""
    children: dict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and (parent := _parent(path)) is not None:
            children[parent].append(int(path.name))
    tree, total = [pid], 0
    while tree:
        number = tree.pop()
        tree += children[number]
        total += _rss(number)
    return total


def _parent(process: Path) -> int | None:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _rss(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0
