"""The segment files of one history as what they are: a few runs of names that count up.

A directory of a hundred thousand segments is a value of a few numbers, so that every task can be told of all of it: a
record may go on for 64 segments behind a task's range, and where the log ends is proved by what follows. Where a
segment's file lies is arithmetic (PostgreSQL: XLogFileName, access/xlog_internal.h).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import overload

PARTIAL = ".partial"
"""What the name of a segment ends with that was being written when its timeline was left."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment file.

    Attributes:
        path: the file.
        timeline: timeline in its name.
        number: LSN of its first byte divided by the segment size.
        start_lsn: LSN of its first byte.
    """

    path: str
    timeline: int
    number: int
    start_lsn: int


@dataclass(frozen=True, slots=True)
class SegmentRun:
    """Segments of one timeline without a gap.

    Attributes:
        timeline: in their names.
        first: number of the first one; count: how many there are.
        is_partial: their names end with ``.partial``.
    """

    timeline: int
    first: int
    count: int
    is_partial: bool


def segment_name(timeline: int, number: int, segment_size: int) -> str:
    """File name of a segment (PostgreSQL: XLogFileName)."""
    per_log = (1 << 32) // segment_size
    return f"{timeline:08X}{number // per_log:08X}{number % per_log:08X}"


@dataclass(frozen=True)
class SegmentFiles(Sequence[Segment]):
    """Segments in LSN order; between two runs there may be a gap.

    Attributes:
        directory: where they lie.
        segment_size: bytes.
        runs: at least one, in order.
    """

    directory: str
    segment_size: int
    runs: tuple[SegmentRun, ...]

    @classmethod
    def of(cls, directory: str, segment_size: int, segments: Iterable[Segment]) -> SegmentFiles:
        """The same segments as runs.

        Args:
            directory: where all of them lie, under the names that belong to them.
            segment_size: bytes.
            segments: in LSN order, at least one.
        """
        runs: list[SegmentRun] = []
        for segment in segments:
            is_partial = segment.path.endswith(PARTIAL)
            last = runs[-1] if runs else None
            if last is not None and last == SegmentRun(
                segment.timeline, segment.number - last.count, last.count, is_partial
            ):
                runs[-1] = replace(last, count=last.count + 1)
            else:
                runs.append(SegmentRun(segment.timeline, segment.number, 1, is_partial))
        return cls(directory, segment_size, tuple(runs))

    def numbered(self, number: int) -> Segment | None:
        """The segment with this number, None if there is none."""
        at = bisect_right(self.runs, number, key=lambda run: run.first) - 1
        if at < 0 or number >= self.runs[at].first + self.runs[at].count:
            return None
        return self._segment(self.runs[at], number)

    def following(self, number: int) -> Segment | None:
        """The first segment with a higher number, None behind the last."""
        for run in self.runs:
            if run.first + run.count > number + 1:
                return self._segment(run, max(run.first, number + 1))
        return None

    def __len__(self) -> int:
        return sum(run.count for run in self.runs)

    @overload
    def __getitem__(self, at: int) -> Segment: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Segment, ...]: ...

    def __getitem__(self, at: int | slice) -> Segment | tuple[Segment, ...]:
        places = range(len(self))[at]
        if isinstance(places, range):
            return tuple(self[place] for place in places)
        before = [0, *accumulate(run.count for run in self.runs)]
        run = bisect_right(before, places) - 1
        return self._segment(self.runs[run], self.runs[run].first + places - before[run])

    def _segment(self, run: SegmentRun, number: int) -> Segment:
        name = segment_name(run.timeline, number, self.segment_size) + PARTIAL * run.is_partial
        return Segment(os.path.join(self.directory, name), run.timeline, number, number * self.segment_size)
