"""The WAL's index, run by run, in windows of bounded size, ahead of who takes it.

In: a stretch of WAL and a way to run index tasks. Out: the indexed runs of one window after the other. While a window
is gone through, what follows it is indexed: a job has many tasks, so that cores do not wait for the next one to begin,
and its runs come as they are done. A window ends with a run, so that what the tasks did for it is used whole; it has as
many runs as fit its bounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property

from headwater.pipeline.windows.index_job import Indexing, IndexTask, cut_runs
from headwater.rmgr.index.wal_index import Locator, Request, WalIndex, index_bytes
from headwater.wal.segments.directory import WalDirectory

STRETCH_BYTES = 512 << 20
"""WAL that is indexed by one job: when half of it has been taken the next one begins."""

IndexRuns = Callable[[Sequence[IndexTask]], Indexing]
"""Runs tasks somewhere."""


@dataclass(frozen=True)
class WindowBounds:
    """The bounds of a window.

    Attributes:
        wal_bytes: bytes of WAL; index_bytes: bytes of its index's rows. A window has one run at least.
        line_bytes: a window ends at multiples of it, at the latest, if they are where runs end; 0 for none.
    """

    wal_bytes: int = 1 << 30
    index_bytes: int = 32 << 20
    line_bytes: int = 0


DEFAULT_BOUNDS = WindowBounds()


@dataclass(frozen=True)
class Run:
    """A run that was indexed: the task, and its pieces in LSN order."""

    task: IndexTask
    pieces: list[WalIndex]

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of its rows."""
        return sum(map(index_bytes, self.pieces))

    @property
    def is_end(self) -> bool:
        """The log ended inside."""
        return any(piece.end is not None for piece in self.pieces)


class RunIndexer:
    """An indexer of a stretch of WAL.

    Args:
        directory: the WAL.
        lo: LSN where the stretch begins, a record's start; hi: LSN where it ends.
        index: runs index tasks.
        parallel: tasks that can run at once.
        bounds: of a window.
    """

    def __init__(
        self, directory: WalDirectory, lo: int, hi: int, index: IndexRuns, parallel: int, bounds: WindowBounds
    ) -> None:
        self._directory = directory
        self._hi = hi
        self._index = index
        self._parallel = parallel
        self._bounds = bounds
        self._next = lo
        self._jobs: deque[_Job] = deque()
        self._following: Run | None = None

    def close(self) -> None:
        """Begin nothing more, and end what runs."""
        for job in self._jobs:
            job.close()

    def take(self, request: Request, is_enough: Callable[[Sequence[Run]], bool]) -> tuple[list[Run], bool]:
        """Return the runs of the next window.

        Args:
            request: what to look for in it, and, as far as that is known, in the next one.
            is_enough: tells whether a window may end after these runs; it is as large as it takes.

        Returns:
            the runs, none if there is no WAL left; and whether it is the last window.
        """
        taken: list[Run] = []
        while not (taken and taken[-1].is_end):
            run = self._look(request)
            if run is None or (taken and self._is_full([*taken, run]) and is_enough(taken)):
                break
            taken.append(run)
            self._following = None
        is_last = bool(taken and taken[-1].is_end) or not (self._following or self._jobs or self._next < self._hi)
        return self.again(taken, request, {}), is_last

    def again(self, runs: Sequence[Run], request: Request, since: Mapping[Locator | int, int]) -> list[Run]:
        """Return the same runs, those indexed again whose index lacks what a request asks for.

        Args:
            runs: the runs.
            request: what to look for.
            since: LSNs before which nothing is in the WAL about some of the files and databases.
        """
        stale = [number for number, run in enumerate(runs) if not run.task.answers(request, since)]
        tasks = [replace(runs[number].task, request=request) for number in stale]
        fresh = dict(zip(stale, self._run(tasks), strict=True))
        return [fresh.get(number, run) for number, run in enumerate(runs)]

    def stretch(self, lo: int, hi: int, request: Request) -> list[Run]:
        """Return the runs of WAL that was gone through before, indexed once more."""
        return self._run(self._tasks(lo, hi, request))

    def _is_full(self, runs: Sequence[Run]) -> bool:
        rows, line = sum(run.row_bytes for run in runs), self._bounds.line_bytes
        if line and runs[0].task.lo // line != (runs[-1].task.hi - 1) // line:
            return True
        return runs[-1].task.hi - runs[0].task.lo > self._bounds.wal_bytes or rows > self._bounds.index_bytes

    def _look(self, request: Request) -> Run | None:
        """Return the run that follows, which is there until it is taken; None if no WAL is left."""
        if self._following is None:
            self._begin(request)
            if not self._jobs:
                return None
            self._following = self._jobs[0].take()
            if self._jobs[0].is_done:
                self._jobs.popleft().close()
            self._begin(request)
        return self._following

    def _begin(self, request: Request) -> None:
        """Begin to index what follows, unless enough of that is under way."""
        if self._next < self._hi and (not self._jobs or (len(self._jobs) == 1 and self._jobs[0].is_half_taken)):
            low, self._next = self._next, self._stretch_end()
            self._jobs.append(_Job(self._index, self._tasks(low, self._next, request)))

    def _tasks(self, lo: int, hi: int, request: Request) -> list[IndexTask]:
        cut = cut_runs(lo, hi, self._directory.segment_size, self._parallel)
        return [IndexTask(self._directory, low, high, request) for low, high in cut]

    def _stretch_end(self) -> int:
        """Return the end of the next stretch, which is a segment's."""
        size, stretch = self._directory.segment_size, min(self._bounds.wal_bytes, STRETCH_BYTES)
        hi = min(self._hi, (self._next + stretch) // size * size)
        return hi if hi > self._next else min(self._hi, (self._next // size + 1) * size)

    def _run(self, tasks: list[IndexTask]) -> list[Run]:
        """Index all of it, and wait for that."""
        if not tasks:
            return []
        job = _Job(self._index, tasks)
        try:
            return [job.take() for _ in tasks]
        finally:
            job.close()


class _Job:
    """Index tasks that run; their runs are taken in order, each once.

    Attributes:
        is_half_taken: half of them are, or more; is_done: all are.
    """

    def __init__(self, index: IndexRuns, tasks: Sequence[IndexTask]) -> None:
        self._tasks, self._taken = tasks, 0
        self._block = ExitStack()
        self._found = self._block.enter_context(index(tasks))

    @property
    def is_half_taken(self) -> bool:
        return 2 * self._taken >= len(self._tasks)

    @property
    def is_done(self) -> bool:
        return self._taken == len(self._tasks)

    def take(self) -> Run:
        """Return the next run, as soon as it is done."""
        pieces = next(self._found)
        self._taken += 1
        return Run(self._tasks[self._taken - 1], pieces)

    def close(self) -> None:
        """End what still runs."""
        self._block.close()
