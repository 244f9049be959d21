"""Windows on their way to tasks: while one is worked on, the next is planned, and the one after that is indexed.

In: the plans of databases, and what is kept of a planned window for the tasks (``hand``), which is called in the thread
that plans: a plan itself is large and goes. Out: windows, one after the other. What the tasks do with them is the
caller's: the command writes messages (:mod:`headwater.pipeline.decode`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from headwater.jobs.background_step import BackgroundStep
from headwater.jobs.engine import Engine
from headwater.jobs.exchange import Arrived, Exchange, Write
from headwater.jobs.outcome import Progress
from headwater.jobs.value_files import store_value
from headwater.pipeline.requests.open_request import OpenRequest, end_of, start_of
from headwater.pipeline.windows.database_fold import DatabaseFold, PlannedWindow
from headwater.pipeline.windows.index_job import IndexTask
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.pipeline.windows.windows import NewPlans, WalPass, nothing_new
from headwater.rmgr.index.wal_index import WalIndex

P = TypeVar("P")

NEAR_BYTES = 4 << 20
"""Bytes of WAL, or of files, up to which a job is done in this process where the log is followed."""

Hand = Callable[[DatabaseFold, PlannedWindow], P]
"""Makes what the tasks need of a database's part of a window."""


@dataclass(frozen=True)
class HandedWindow(Generic[P]):
    """A window that is ready for tasks.

    Attributes:
        parts: of each database.
        hi: LSN where its WAL ends.
        is_last: no window follows.
    """

    parts: list[P]
    hi: int
    is_last: bool


@dataclass
class WindowPipeline(Generic[P]):
    """The windows of a run, planned on the driver and indexed in tasks.

    Attributes:
        engine: runs the tasks that index.
        exchange: how they hand indexes over.
        hand: see :data:`Hand`.
        bounds: of a window.
        progress: hears of tasks, and of how much of the WAL has been gone through.
        seconds: wall-clock time of each step.
        near: takes jobs that are too small for the engine; None for none.
        end: LSN after which there is no record yet; None if that is not known.
        indexed: bytes of WAL of each piece of the index.
    """

    engine: Engine
    exchange: Exchange
    hand: Hand[P]
    bounds: WindowBounds
    progress: StepProgress | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    near: Exchange | None = None
    end: int | None = None
    indexed: list[int] = field(default_factory=list)
    _is_long: bool = False

    @property
    def parallel(self) -> int:
        """Tasks that can run at once."""
        return self.engine.parallel

    def exchange_for(self, size: int) -> Exchange:
        """Return the exchange that a job is run with.

        Args:
            size: bytes of WAL, or of files, that it is about.
        """
        return self.exchange if self.near is None or size > NEAR_BYTES else self.near

    def job_progress(self) -> Progress | None:
        """Return the progress of one more job."""
        return None if self.progress is None else self.progress.of_job()

    @contextmanager
    def driven(
        self, plans: Sequence[DatabaseFold], new_plans: NewPlans = nothing_new
    ) -> Iterator[tuple[Iterator[HandedWindow[P]], BackgroundStep]]:
        """Go through the windows of a run, each worked on while the one before it is finished.

        Where a window cannot be planned, what was begun of those before it is finished first.

        Args:
            plans: of the databases; new_plans: finds more.

        Yields:
            the windows, and what finishes the one before the window at hand.

        Raises:
            HeadwaterError: any reason not to plan a window, or what finishing one raised.
        """
        behind = BackgroundStep(self.stop)
        with closing(self._windows(plans, new_plans, behind.wait)) as windows, behind:
            yield windows, behind

    def _windows(
        self, plans: Sequence[DatabaseFold], new_plans: NewPlans, finish: Callable[[], None]
    ) -> Generator[HandedWindow[P], None, None]:
        """Give windows one by one; of one that is done nothing is kept, as the state after it holds a catalog."""
        over = WalPass(plans, self._index, self.parallel, self.bounds, new_plans=new_plans, end=self.end)
        with closing(self._ahead(self._handed(over), finish)) as windows:
            for window in windows:
                yield window
                self._report(plans[0].opened, window)

    def _ahead(
        self, windows: Iterator[HandedWindow[P]], finish: Callable[[], None]
    ) -> Generator[HandedWindow[P], None, None]:
        """Give windows: while one is worked on, the next is planned."""
        with ThreadPoolExecutor(1, "headwater-plan") as planner, self._ending_what_runs():
            planned: Future[HandedWindow[P]] | None = planner.submit(next, windows)
            while planned is not None:
                window = _planned(planned, finish)
                planned = None if window.is_last else planner.submit(next, windows)
                yield window

    @contextmanager
    def _ending_what_runs(self) -> Iterator[None]:
        """End what runs if a window is given up, without waiting until the next one is planned."""
        try:
            yield
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the jobs that run, and begin no more."""
        for exchange in (self.exchange, self.near):
            if exchange is not None:
                exchange.stop()

    def _handed(self, over: WalPass) -> Iterator[HandedWindow[P]]:
        windows = iter(over)
        while True:
            with timed(self.seconds, "plan"):
                planned = next(windows)
                ((hi, is_last),) = {(window.hi, window.is_last) for window in planned.values()}
                handed = HandedWindow([self.hand(plan, planned.pop(plan)) for plan in list(planned)], hi, is_last)
            yield handed

    @contextmanager
    def _index(self, tasks: Sequence[IndexTask]) -> Iterator[Iterator[list[WalIndex]]]:
        exchange = self.exchange_for(sum(task.hi - task.lo for task in tasks))
        with exchange.run("index", _write_index, tasks, self.job_progress()) as arriving:
            yield self._taken(arriving)

    def _taken(self, arriving: Iterator[list[Arrived[None]]]) -> Iterator[list[WalIndex]]:
        """Give the indexes that arrive; each is in memory when it is asked for."""
        while True:
            with timed(self.seconds, "index"):
                arrived = next(arriving, None)
                if arrived is None:
                    return
                (pieces,) = (file.take(PIECES) for file in arrived)
            self.indexed.extend(piece.hi - piece.lo for piece in pieces)
            yield list(pieces)

    def _report(self, opened: OpenRequest, window: HandedWindow[P]) -> None:
        """Report how much of the WAL has been gone through, unless one window holds it all."""
        lo = start_of(opened)
        self._is_long |= not window.is_last
        if self.progress is None or not self._is_long:
            return
        hi = window.hi if window.is_last else end_of(opened)
        self.progress.report("MB of WAL", (window.hi - lo) >> 20, (hi - lo) >> 20)


def _planned(planned: Future[HandedWindow[P]], finish: Callable[[], None]) -> HandedWindow[P]:
    try:
        return planned.result()
    except Exception:
        finish()
        raise


@dataclass
class StepProgress:
    """The progress of a step's tasks in all its jobs, of which some run side by side.

    Attributes:
        report: hears of them.
    """

    report: Progress
    _done: Counter[str] = field(default_factory=Counter)
    _total: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of_job(self) -> Progress:
        """Return the progress of one more job."""
        before = 0, 0

        def report_sums(name: str, done: int, total: int) -> None:
            nonlocal before
            with self._lock:
                self._done[name] += done - before[0]
                self._total[name] += total - before[1]
                before = done, total
                sums = self._done[name], self._total[name]
            self.report(name, *sums)

        return report_sums


PIECES = tuple[WalIndex, ...]
"""What index tasks write."""


def _write_index(task: IndexTask) -> Iterator[Write[None]]:
    yield lambda sink: store_value(sink, tuple(task.run()), PIECES)


class timed:
    """Adds the time spent inside the ``with`` block to ``seconds[name]``."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self.seconds, self.name = seconds, name

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds[self.name] = self.seconds.get(self.name, 0.0) + time.perf_counter() - self.began
