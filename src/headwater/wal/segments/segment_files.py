"""The segment files of one history: a few runs of names that count up.

A directory of a hundred thousand segments is a value of a few numbers, so that every task can be given all of it. A
record may go on for 64 segments after a task's range, and the end of the log is proved by what follows. A segment's
path is arithmetic (PostgreSQL: XLogFileName, access/xlog_internal.h), but for a checksum in its name.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import overload

from headwater.wal.segments.place import Place
from headwater.wal.segments.segment_forms import SegmentForm

PLAIN_FORM = SegmentForm()


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment.

    Attributes:
        path: its file; an asterisk in the name stands for a checksum.
        timeline: timeline in its name.
        number: LSN of its first byte divided by the segment size.
        start_lsn: LSN of its first byte.
        form: how the file is named and packed.
        places: all places, one of which the file lies in.
    """

    path: str
    timeline: int
    number: int
    start_lsn: int
    form: SegmentForm = PLAIN_FORM
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentRun:
    """Segments of one timeline and form without a gap.

    Attributes:
        timeline: in their names.
        first: number of the first one; count: how many there are.
        form: how the files are named and packed.
    """

    timeline: int
    first: int
    count: int
    form: SegmentForm = PLAIN_FORM


def segment_name(timeline: int, number: int, segment_size: int) -> str:
    """Return the file name of a segment (PostgreSQL: XLogFileName)."""
    per_log = (1 << 32) // segment_size
    return f"{timeline:08X}{number // per_log:08X}{number % per_log:08X}"


@dataclass(frozen=True)
class SegmentFiles(Sequence[Segment]):
    """Segments in LSN order; between two runs there may be a gap.

    Attributes:
        places: where they lie.
        segment_size: bytes.
        runs: at least one, in order.
    """

    places: tuple[Place, ...]
    segment_size: int
    runs: tuple[SegmentRun, ...]

    @classmethod
    def of(cls, places: tuple[Place, ...], segment_size: int, segments: Iterable[SegmentRun]) -> SegmentFiles:
        """Join segments to runs.

        Args:
            places: where all of them lie.
            segment_size: bytes.
            segments: runs in LSN order, at least one; such as of one segment each.
        """
        runs: list[SegmentRun] = []
        for run in segments:
            last = runs[-1] if runs else None
            if last is not None and last == replace(run, first=run.first - last.count, count=last.count):
                runs[-1] = replace(last, count=last.count + run.count)
            else:
                runs.append(run)
        return cls(places, segment_size, tuple(runs))

    def where(self, is_wanted: Sequence[bool]) -> SegmentFiles:
        """Return the segments that are wanted, at least one."""
        wanted = (
            SegmentRun(s.timeline, s.number, 1, s.form) for s, wants_it in zip(self, is_wanted, strict=True) if wants_it
        )
        return SegmentFiles.of(self.places, self.segment_size, wanted)

    def numbered(self, number: int) -> Segment | None:
        """Return the segment with this number, None if there is none."""
        run_number = bisect_right(self.runs, number, key=lambda run: run.first) - 1
        if run_number < 0 or number >= self.runs[run_number].first + self.runs[run_number].count:
            return None
        return self._segment(self.runs[run_number], number)

    def following(self, number: int) -> Segment | None:
        """Return the first segment with a higher number, None after the last."""
        for run in self.runs:
            if run.first + run.count > number + 1:
                return self._segment(run, max(run.first, number + 1))
        return None

    def __iter__(self) -> Iterator[Segment]:
        return (self._segment(run, run.first + at) for run in self.runs for at in range(run.count))

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
        name = segment_name(run.timeline, number, self.segment_size)
        form = run.form
        path = self.places[form.place].path(form.folder(name), name + form.ending)
        return Segment(path, run.timeline, number, number * self.segment_size, form, self.places)
