"""A pass over the WAL: one window after the other, each indexed once and planned for every database and output.

In: the plans of databases (:mod:`headwater.pipeline.windows.database_fold`), a way to run index tasks. Out: their
windows. The command, the data source and streams all plan here; what they do with a plan is theirs. One call is one
session.

The index has what all databases ask for. What proves to be lacking is indexed again, for the runs that it concerns, and
those databases go through the window again that lacked it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from headwater.pipeline.requests.open_output import OpenOutput
from headwater.pipeline.requests.open_request import OpenRequest
from headwater.pipeline.requests.scope import Scope, stop_lsn
from headwater.pipeline.windows.advance import Behind, Watch, nobody_watches
from headwater.pipeline.windows.database_fold import DatabaseFold, PlannedWindow, Rolled, nobody_asks
from headwater.pipeline.windows.index_job import index_in_threads
from headwater.pipeline.windows.run_index import DEFAULT_BOUNDS, IndexRuns, Run, RunIndexer, WindowBounds
from headwater.reorder.commits.state import State
from headwater.rmgr.index.wal_index import GRID, Locator, Request, joined_stretches
from headwater.wal.segments.directory import WalDirectory

__all__ = ["NewPlans", "PlanWindows", "PlannedWindow", "Rolled", "WalPass", "windows_in_threads"]

NewPlans = Callable[[Sequence[Run], DatabaseFold], list[DatabaseFold]]
"""Finds the plans of databases that are created in a window, given its runs and a plan that was made of it; they have
not gone through any window."""


def nothing_new(_runs: Sequence[Run], _planned: DatabaseFold) -> list[DatabaseFold]:
    """Ask for no more."""
    return []


class WalPass:
    """A pass over the WAL for several databases at once.

    Args:
        plans: of the databases, at least one; more join it in the order in which they are found.
        index: runs index tasks.
        parallel: tasks that can run at once.
        bounds: of a window.
        grid: bytes between the LSN lines that a huge transaction may be cut at.
        new_plans: finds more.
        end: LSN after which there is no record yet; None if that is not known.
    """

    def __init__(
        self,
        plans: Sequence[DatabaseFold],
        index: IndexRuns,
        parallel: int,
        bounds: WindowBounds = DEFAULT_BOUNDS,
        grid: int = GRID,
        new_plans: NewPlans = nothing_new,
        end: int | None = None,
    ) -> None:
        self.plans = list(plans)
        self._end = end
        self._index, self._parallel, self._bounds = index, parallel, bounds
        self._grid = grid
        self._new_plans = new_plans
        self._passed: list[tuple[int, int]] = []
        self._lo = min(plan.lo for plan in plans)

    def __iter__(self) -> Iterator[dict[DatabaseFold, PlannedWindow]]:
        indexer = RunIndexer(
            self.plans[0].opened.directory, self._lo, self._hi, self._index, self._parallel, self._bounds
        )
        try:
            is_last = False
            while not is_last:
                # What is yielded is not kept here: a plan is large, and the next is made while this one is decoded.
                planned = [self._window(indexer)]
                is_last = any(window.is_last for window in planned[0].values())
                yield planned.pop()
        finally:
            indexer.close()

    @property
    def _hi(self) -> int:
        opened = self.plans[0].opened
        directory, end = opened.directory, opened.request.end
        last = directory.segments[-1].start_lsn + directory.segment_size
        hi = last if end is None else min(last, stop_lsn(end, directory.segment_size))
        hi = hi if self._end is None else min(hi, self._end)
        return max(hi, self._lo)

    def _window(self, indexer: RunIndexer) -> dict[DatabaseFold, PlannedWindow]:
        """Go through the next window, as often as its index proves to lack something."""
        for plan in self.plans:
            plan.begin()
        runs, is_last = indexer.take(self._request(self.plans), lambda some: self._is_reached(some))
        lo = self._passed[-1][1] if self._passed else self._lo
        planned: dict[DatabaseFold, PlannedWindow] = {}
        waiting = self.plans
        while waiting:
            seen = len(planned)
            waiting = [plan for plan in waiting if not _took(plan, plan.plan(runs, lo, is_last), planned)]
            if planned and not seen:
                waiting += self._join(indexer, runs, next(iter(planned)))
            if waiting:
                request = self._request(self.plans)
                runs = indexer.again(runs, request, _since(self.plans))
                for plan in waiting:
                    plan.look_back(indexer, request)
        hi = next(iter(planned.values())).hi
        self._passed.append((lo, hi))
        return planned

    def _is_reached(self, runs: Sequence[Run]) -> bool:
        return all(plan.is_reached(runs) for plan in self.plans)

    def _join(self, indexer: RunIndexer, runs: Sequence[Run], planned: DatabaseFold) -> list[DatabaseFold]:
        """Let the plans of databases that are created in this window go through all windows before it."""
        new = self._new_plans(runs, planned)
        for lo, hi in self._passed if new else ():
            self._catch_up(indexer, new, lo, hi)
        for plan in new:
            plan.begin()
        self.plans += new
        return new

    def _catch_up(self, indexer: RunIndexer, plans: Sequence[DatabaseFold], lo: int, hi: int) -> None:
        """Go through a window that others have gone through.

        It is indexed again for what it has of the files that will be copied.
        """
        for plan in plans:
            plan.begin()
        waiting = list(plans)
        while waiting:
            request = self._request(plans)
            for plan in waiting:
                plan.look_back(indexer, request)
            runs = indexer.stretch(lo, hi, request)
            waiting = [plan for plan in waiting if plan.plan(runs, lo, is_last=False) is None]

    def _request(self, plans: Sequence[DatabaseFold]) -> Request:
        """Return a request for all that the index must have for these databases."""
        return Request(
            tuple(sorted(frozenset().union(*(plan.databases for plan in plans)))),
            tuple(sorted(frozenset().union(*(plan.store.files.locators() for plan in plans)))),
            plans[0].store.major,
            self._grid,
            tuple(sorted(frozenset().union(*(plan.refinement.cuts for plan in plans)))),
            joined_stretches(stretch for plan in plans for stretch in plan.refinement.detailed),
            plans[0].opened.request.numbers_commands,
            plans[0].opened.session.version.change_size,
        )


def _took(
    plan: DatabaseFold, window: PlannedWindow | None, planned: dict[DatabaseFold, PlannedWindow]
) -> PlannedWindow | None:
    if window is not None:
        planned[plan] = window
    return window


def _since(plans: Sequence[DatabaseFold]) -> Mapping[Locator | int, int]:
    """Return the LSNs before which the WAL has nothing of a file, or of a database."""
    since: dict[Locator | int, int] = {}
    for plan in plans:
        since.update(plan.since.items())
        since.update(plan.refinement.files)
    return since


@dataclass
class PlanWindows:
    """The planning of a request of one database, the only output, window by window.

    Attributes:
        opened: the request.
        scope: says which transactions are wanted.
        index: runs index tasks.
        parallel: tasks that can run at once.
        bounds: of a window.
        goes_on: the session does, after the last window: what its options name may still come.
        grid: bytes between the LSN lines that a huge transaction may be cut at.
        rolled: see :data:`headwater.pipeline.windows.database_fold.Rolled`.
        watch: see :data:`headwater.pipeline.windows.advance.Watch`.
    """

    opened: OpenRequest
    scope: Scope
    index: IndexRuns
    parallel: int
    bounds: WindowBounds = DEFAULT_BOUNDS
    goes_on: bool = False
    grid: int = GRID
    rolled: Rolled = nobody_asks
    watch: Watch = nobody_watches
    _plan: DatabaseFold = field(init=False, repr=False)

    def __post_init__(self) -> None:
        output = OpenOutput(self.opened, self.scope)
        self._plan = DatabaseFold([output], goes_on=self.goes_on, rolled=self.rolled, watch=self.watch)

    def __iter__(self) -> Iterator[PlannedWindow]:
        for planned in WalPass([self._plan], self.index, self.parallel, self.bounds, self.grid):
            yield planned.pop(self._plan)

    def go_on(self, directory: WalDirectory) -> None:
        """Let the next iteration go on behind the last window, in WAL as it is now."""
        self._plan.go_on(directory)
        self.opened = self._plan.opened

    def state_behind(self, behind: Behind) -> State:
        """Return the state after a window."""
        return self._plan.state_behind(behind)


def windows_in_threads(
    opened: OpenRequest,
    scope: Scope,
    bounds: WindowBounds,
    *,
    goes_on: bool = False,
    rolled: Rolled = nobody_asks,
    watch: Watch = nobody_watches,
) -> PlanWindows:
    """Return the windows of a request, indexed in threads of this process, which need no Spark context.

    Args:
        opened: the request; scope, bounds, goes_on, rolled, watch: as those of :class:`PlanWindows`.
    """
    threads = os.cpu_count() or 1
    return PlanWindows(
        *(opened, scope, partial(index_in_threads, threads=threads), threads),
        bounds,
        goes_on=goes_on,
        rolled=rolled,
        watch=watch,
    )
