"""The flow of planning: a request's windows, one after the other, each with its plan and the state behind it.

In: an open request, where to begin, a way to run index tasks. Out: :class:`PlannedWindow` values. The command, the data
source and streams all plan here; what they do with a plan is theirs. One call is one session: inside it the plugin
remembers what it announced.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from headwater.catalog.bootstrap import open_catalog
from headwater.catalog.data_directory import DataDirectory
from headwater.catalog.store import CatalogStore
from headwater.pipeline.abandoned_commits import warn_of_abandoned
from headwater.pipeline.advance import Advanced, Behind, Start, advance
from headwater.pipeline.assemble import Assembly
from headwater.pipeline.collector import collector_put_off
from headwater.pipeline.index_job import index_in_threads, index_start
from headwater.pipeline.named_table import TableNames
from headwater.pipeline.reach import check_reach, reaches
from headwater.pipeline.request import SKIP_GAP, OpenRequest
from headwater.pipeline.run_index import DEFAULT_BOUNDS, IndexRuns, Run, RunIndexer, WindowBounds
from headwater.pipeline.window import (
    Int64s,
    Scope,
    stop_lsn,
    warn_of_custom_records,
    warn_of_gap,
    warn_of_late_start,
    warn_of_prepared,
    warn_of_replica_level,
)
from headwater.reorder.control import Followed
from headwater.reorder.earlier import without_earlier
from headwater.reorder.merge import merge_indexes
from headwater.reorder.state import State
from headwater.reorder.transactions import NEVER
from headwater.rmgr.index import GRID, UNREFINED, Refinement, Request, WalIndex, no_index
from headwater.rmgr.xlog import WAL_LEVEL_LOGICAL
from headwater.wal.record import parse_record


@dataclass(frozen=True)
class PlannedWindow:
    """A window that was gone through.

    Attributes:
        assembly: what is output of it.
        behind: what it leaves behind.
        hi: LSN where its WAL ends.
        custom: int64[128] number of records of each custom resource manager.
        is_last: nothing follows it in this session.
        followed: what its records have told.
    """

    assembly: Assembly
    behind: Behind
    hi: int
    custom: Int64s
    is_last: bool
    followed: Followed


Rolled = Callable[[CatalogStore, int, int, bool], None]


def _nobody_asks(store: CatalogStore, start: int, end: int, is_last: bool) -> None:
    return


@dataclass
class PlanWindows:
    """Plans a request window by window.

    Attributes:
        opened: the request.
        scope: which transactions are wanted.
        index: runs index tasks.
        parallel: tasks that can run at once.
        bounds: of a window.
        goes_on: the session does, behind the last window: what its options name may still come.
        grid: bytes between the LSN lines that a huge transaction may be cut at.
        rolled: called with (catalog rolled forward, LSN where the window begins, LSN behind its last record, whether it
            is the last one) before the plugin is asked anything about a window.
    """

    opened: OpenRequest
    scope: Scope
    index: IndexRuns
    parallel: int
    bounds: WindowBounds = DEFAULT_BOUNDS
    goes_on: bool = False
    grid: int = GRID
    rolled: Rolled = _nobody_asks
    _state: State | None = None

    def __iter__(self) -> Iterator[PlannedWindow]:
        indexer = RunIndexer(self.opened.directory, self._lo, self._hi, self.index, self.parallel, self.bounds)
        try:
            yield from self._windows(indexer)
        finally:
            indexer.close()

    @property
    def _lo(self) -> int:
        return (
            index_start(self.opened.directory, self.opened.store)
            if self.opened.state is None
            else self.opened.state.lsn
        )

    @property
    def _hi(self) -> int:
        directory, end = self.opened.directory, self.opened.request.end
        last = directory.segments[-1].start_lsn + directory.segment_size
        hi = last if end is None else min(last, stop_lsn(end, directory.segment_size))
        return max(hi, self._lo)

    def state_behind(self, behind: Behind) -> State:
        """The state behind a window."""
        if self._state is None or self._state.lsn != behind.lsn:
            self._state = behind.state(self.opened.directory.timeline_at(behind.lsn))
        return self._state

    def _windows(self, indexer: RunIndexer) -> Iterator[PlannedWindow]:
        state, behind, session = self.opened.state, list[Behind](), _Session(self.opened, self.scope)
        while True:
            # What is yielded is not kept here: a plan is large, and the next one is made while this one is decoded.
            planned = [self._window(indexer, state, behind)]
            session.passed(planned[0], planned[0].is_last and not self.goes_on)
            behind, is_last = [planned[0].behind], planned[0].is_last
            yield planned.pop()
            if is_last:
                return
            state = self.state_behind(behind[0])

    def _window(self, indexer: RunIndexer, state: State | None, before: list[Behind]) -> PlannedWindow:
        """Go through the next window, as often as its index proves to lack something.

        Args:
            indexer: gives its runs.
            state: where it begins; None at the catalog.
            before: what the window before it left, which is taken out: its catalog is as large as the next one.
        """
        store = self._store(state, UNREFINED, before.pop().store if before else None)
        request = self._request(store, UNREFINED)
        is_whole = state is not None and not store.origin.is_exported
        runs, is_last = indexer.take(request, lambda runs: is_whole or reaches(store, _pieces(runs)))
        refinement = UNREFINED
        while True:
            pieces = list(_pieces(runs)) if runs else [no_index(self._lo if state is None else state.lsn)]
            index = merge_indexes(pieces) if state is None else merge_indexes(pieces, state.left.rows)
            with collector_put_off():
                advanced = self._advance(state, index, store, is_last and not self.goes_on)
            if isinstance(advanced, Advanced):
                return PlannedWindow(
                    advanced.assembly, advanced.behind, index.hi, index.custom, is_last, advanced.followed
                )
            refinement |= advanced
            store = self._store(state, refinement)
            request = self._request(store, refinement)
            runs = indexer.again(runs, request, dict(refinement.files))
            if state is not None:
                _apply_earlier(indexer, state, store, refinement, request)

    def _advance(
        self, state: State | None, index: WalIndex, store: CatalogStore, is_end: bool
    ) -> Advanced | Refinement:
        plugin, skips_gaps = self.opened.plugin, self.opened.request.on_level_gap == SKIP_GAP
        if state is not None:
            if store.origin.is_exported:
                check_reach(self.opened, store, index)
            return advance(Start.of_state(state), index, store, plugin, self.scope, is_end, self.rolled, skips_gaps)
        check_reach(self.opened, store, index)
        index, whole = without_earlier(index, store)
        start = Start.of_catalog(store, whole, self.opened.request.needed_level)
        return advance(start, index, store, plugin, self.scope, is_end, self.rolled, skips_gaps)

    def _store(self, state: State | None, refinement: Refinement, before: CatalogStore | None = None) -> CatalogStore:
        """The catalog at a window's start; ``before`` is the store that its image was made of."""
        store = self._opened_store(state, refinement, before)
        store.redo.numbers_commands = self._numbers_commands
        return store

    @property
    def _numbers_commands(self) -> bool:
        return self.opened.request.needed_level >= WAL_LEVEL_LOGICAL

    def _opened_store(self, state: State | None, refinement: Refinement, before: CatalogStore | None) -> CatalogStore:
        request, files = self.opened.request, [file for file, _ in refinement.files]
        if state is None:
            # A store is rolled forward once: who goes through a window again begins with another.
            is_first = refinement == UNREFINED
            return self.opened.store if is_first else open_catalog(request.catalog, request.database, files)
        store = CatalogStore.of_image(state.catalog, before)
        # Before the WAL has shown all that a copy may lack, a file of a catalog may be the copy's.
        has_copy = not store.is_complete and not store.origin.is_exported and request.catalog != ""
        copy = DataDirectory(request.catalog) if has_copy else None
        for file in files:
            store.add_extra(file, None if copy is None else copy.heap(file))
        return store

    def _request(self, store: CatalogStore, refinement: Refinement) -> Request:
        cuts = tuple(sorted(refinement.cuts))
        locators = tuple(sorted(store.locators()))
        return Request(store.database_oid, locators, store.major, self.grid, cuts, self._numbers_commands)


def windows_in_threads(
    opened: OpenRequest,
    scope: Scope,
    bounds: WindowBounds,
    *,
    goes_on: bool = False,
    rolled: Rolled = _nobody_asks,
) -> PlanWindows:
    """The windows of a request, indexed in threads of this process: for who has no Spark context, or no need of one.

    Args:
        opened: the request; scope, bounds, goes_on, rolled: as those of :class:`PlanWindows`.
    """
    threads = os.cpu_count() or 1
    return PlanWindows(
        *(opened, scope, partial(index_in_threads, threads=threads), threads), bounds, goes_on=goes_on, rolled=rolled
    )


def _pieces(runs: Sequence[Run]) -> Iterator[WalIndex]:
    return (piece for run in runs for piece in run.pieces)


def _apply_earlier(
    indexer: RunIndexer, state: State, store: CatalogStore, refinement: Refinement, request: Request
) -> None:
    """Give the catalog what the WAL before the window has of files that proved to be catalogs' only in it."""
    since = min((lsn for _, lsn in refinement.files), default=state.lsn)
    if since < state.lsn:
        pieces = _pieces(indexer.stretch(since, state.lsn, request))
        kept = (one for piece in pieces for one in piece.kept)
        store.apply_earlier(parse_record(one.data, one.lsn, one.end_lsn, store.major) for one in kept)


class _Session:
    """What is checked and warned of once for all windows.

    Args:
        opened: the request.
        scope: which transactions are wanted.
    """

    def __init__(self, opened: OpenRequest, scope: Scope) -> None:
        self._directory = opened.directory
        self._start_lsn = opened.store.start_lsn
        self._scope = scope
        self._late: list[Int64s] = []
        self._names: set[str] = set()
        self._custom: Int64s = np.zeros(0, np.int64)
        self._replica: tuple[int, int] | None = None

    def passed(self, window: PlannedWindow, is_end: bool) -> None:
        """One more window was gone through; ``is_end``: the session ends with it.

        Raises:
            CatalogError: the session ends, and a pattern for tables has matched none.
        """
        patterns = self._scope.tables
        self._warn_of_left_out(window, is_end)
        self._note_levels(window)
        if is_end and self._replica is not None:
            warn_of_replica_level(*self._replica)
        self._custom = window.custom + self._custom if len(self._custom) else window.custom
        if window.is_last:
            warn_of_custom_records(self._custom)
        if is_end:
            warn_of_abandoned(self._directory, self._start_lsn, window.behind.lsn)
        start, lsn = max(self._scope.start, self._start_lsn), window.behind.lsn
        if patterns.patterns and (is_end or lsn > start):
            self._names |= TableNames(window.behind.store, start, lsn).with_rows(window.assembly.plan.relations)
        if patterns.patterns and is_end:
            patterns.require_matches(self._names)

    def _note_levels(self, window: PlannedWindow) -> None:
        """Where decoded WAL of a level below logical lies."""
        levels, hi = window.followed.levels, window.behind.lsn
        ends = [*(lsn for lsn, _ in levels[1:]), hi]
        needed = window.behind.control.needed
        low = [(lo, end) for (lo, level), end in zip(levels, ends, strict=True) if needed <= level < WAL_LEVEL_LOGICAL]
        if low:
            self._replica = low[0][0] if self._replica is None else self._replica[0], low[-1][1]

    def _warn_of_left_out(self, window: PlannedWindow, is_end: bool) -> None:
        """Warn of transactions that cannot be decoded, once it is known why and until when."""
        control = window.behind.control
        late = np.concatenate([*self._late, window.assembly.late])
        for gap in window.followed.gaps:
            if gap.hi is not None or is_end:
                inside = (late >= gap.lo) & (late < (NEVER if gap.hi is None else gap.hi))
                warn_of_gap(gap, late[inside], window.behind.lsn)
                late = late[~inside]
        if control.builder.is_consistent:
            early = late < control.builder.start_decoding_at
            warn_of_late_start(control, self._start_lsn, late[early])
            warn_of_prepared(control, late[~early])
            late = late[:0]
        self._late = [late]
