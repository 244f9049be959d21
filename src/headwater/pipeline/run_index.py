"""The WAL's index, run by run, in windows of bounded size, a stretch ahead of who takes it.

In: a stretch of WAL and a way to run index tasks. Out: the indexed runs of one window after the other. While a window
is gone through, what follows it is indexed. A window ends with a run, so that what the tasks did for it is used
whole; it has as many runs as fit its bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from headwater.pipeline.index_job import IndexTask, cut_runs
from headwater.rmgr.index import Locator, Request, WalIndex, index_bytes
from headwater.wal.directory import WalDirectory

STRETCH_BYTES = 128 << 20
"""WAL that is indexed by one job: while one stretch is taken, the next is made, and no third one waits in memory."""

IndexRuns = Callable[[Sequence[IndexTask]], list[list[WalIndex]]]
"""Runs tasks somewhere; the pieces of each, in the tasks' order."""


@dataclass(frozen=True)
class WindowBounds:
    """How large a window may be.

    Attributes:
        wal_bytes: bytes of WAL; index_bytes: bytes of its index's rows. A window has one run at least.
    """

    wal_bytes: int = 1 << 30
    index_bytes: int = 32 << 20


DEFAULT_BOUNDS = WindowBounds()


@dataclass(frozen=True)
class Run:
    """A run that was indexed: the task, and its pieces in LSN order."""

    task: IndexTask
    pieces: list[WalIndex]

    @property
    def is_end(self) -> bool:
        """The log ended inside."""
        return any(piece.end is not None for piece in self.pieces)


class RunIndexer:
    """Indexes a stretch of WAL.

    Args:
        directory: the WAL.
        lo: LSN where the stretch begins, a record's start; hi: LSN where it ends.
        index: runs index tasks; called in two threads, that of who takes and one of its own.
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
        self._ready: list[Run] = []
        self._ahead: Future[list[Run]] | None = None
        self._pool = ThreadPoolExecutor(1, "headwater-index")

    def close(self) -> None:
        """Wait for what runs, and begin nothing more."""
        self._pool.shutdown(cancel_futures=True)

    def take(self, request: Request, is_enough: Callable[[Sequence[Run]], bool]) -> tuple[list[Run], bool]:
        """The runs of the next window.

        Args:
            request: what to look for in it, and, as far as that is known, in the next one.
            is_enough: whether a window may end behind these runs; it is as large as it takes.

        Returns:
            them, none if there is no WAL left; and whether it is the last window.
        """
        taken: list[Run] = []
        while not (taken and taken[-1].is_end):
            if not self._ready and not self._refill(request):
                break
            if taken and self._is_full([*taken, self._ready[0]]) and is_enough(taken):
                break
            taken.append(self._ready.pop(0))
        is_last = bool(taken and taken[-1].is_end) or not (self._ready or self._next < self._hi or self._ahead)
        return self.again(taken, request, {}), is_last

    def again(self, runs: Sequence[Run], request: Request, since: Mapping[Locator | int, int]) -> list[Run]:
        """The same runs, those indexed anew whose index lacks what a request asks for.

        Args:
            runs: them.
            request: what to look for.
            since: LSNs before which nothing is in the WAL about some of the files and databases.
        """
        stale = [number for number, run in enumerate(runs) if not run.task.answers(request, since)]
        tasks = [replace(runs[number].task, request=request) for number in stale]
        fresh = dict(zip(stale, self._run(tasks), strict=True))
        return [fresh.get(number, run) for number, run in enumerate(runs)]

    def stretch(self, lo: int, hi: int, request: Request) -> list[Run]:
        """The runs of WAL that was gone through before, indexed once more."""
        cut = cut_runs(lo, hi, self._directory.segment_size, self._parallel)
        return self._run([IndexTask(self._directory, low, high, request) for low, high in cut])

    def _is_full(self, runs: Sequence[Run]) -> bool:
        rows = sum(index_bytes(piece) for run in runs for piece in run.pieces)
        return runs[-1].task.hi - runs[0].task.lo > self._bounds.wal_bytes or rows > self._bounds.index_bytes

    def _refill(self, request: Request) -> bool:
        self._look_ahead(request)
        if self._ahead is None:
            return False
        self._ready, self._ahead = self._ahead.result(), None
        self._look_ahead(request)
        return True

    def _look_ahead(self, request: Request) -> None:
        """Begin to index what follows, unless that is under way or done."""
        if self._ahead is None and self._next < self._hi:
            low, self._next = self._next, self._stretch_end()
            self._ahead = self._pool.submit(self.stretch, low, self._next, request)

    def _stretch_end(self) -> int:
        """Where the next stretch ends: with a segment."""
        size, stretch = self._directory.segment_size, min(self._bounds.wal_bytes, STRETCH_BYTES)
        hi = min(self._hi, (self._next + stretch) // size * size)
        return hi if hi > self._next else min(self._hi, (self._next // size + 1) * size)

    def _run(self, tasks: list[IndexTask]) -> list[Run]:
        if not tasks:
            return []
        return [Run(task, pieces) for task, pieces in zip(tasks, self._index(tasks), strict=True)]
