"""One database's part of a pass over the WAL: what it asks of the index, and its plans of one window after the other.

In: the open outputs that are made of the database, the indexed pieces of windows. Out: :class:`PlannedWindow` values
and the state after each. What goes over the WAL, for one database or several at once, is
:mod:`headwater.pipeline.windows.windows`. Each output of a database is a session of its own: inside it the plugin
remembers what it announced. They share the rest: the index, the catalog and what is known of transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.store.bootstrap import open_catalog
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.image_io import store_of
from headwater.errors import errors_of, errors_of_output
from headwater.pipeline.requests.named_table import TableNames
from headwater.pipeline.requests.open_output import OpenOutput
from headwater.pipeline.requests.request import SKIP_GAP
from headwater.pipeline.windows.abandoned_commits import warn_of_abandoned
from headwater.pipeline.windows.advance import Advanced, Behind, Start, Watch, advance, nobody_watches
from headwater.pipeline.windows.assemble import Assembly
from headwater.pipeline.windows.copy_completeness import check_reach, reaches
from headwater.pipeline.windows.gc_pause import collector_put_off
from headwater.pipeline.windows.index_job import index_start
from headwater.pipeline.windows.run_index import Run, RunIndexer
from headwater.pipeline.windows.window_checks import (
    Int64s,
    warn_of_custom_records,
    warn_of_gap,
    warn_of_late_start,
    warn_of_prepared,
    warn_of_replica_level,
    warn_of_short_wal,
    warn_of_waiting,
)
from headwater.reorder.commits.control import Followed
from headwater.reorder.commits.join_indexes import merge_indexes, with_detailed
from headwater.reorder.commits.prepared_before_catalog import without_earlier
from headwater.reorder.commits.state import OutputState, State
from headwater.reorder.commits.transactions import NEVER
from headwater.rmgr.index.index_rows import Rows
from headwater.rmgr.index.wal_index import UNREFINED, Locator, Refinement, Request, WalIndex, no_index
from headwater.rmgr.xlog import WAL_LEVEL_LOGICAL
from headwater.wal.records.record import parse_record
from headwater.wal.segments.directory import WalDirectory

Rolled = Callable[[CatalogStore, int, int, bool], None]
"""Called before the plugin is asked anything about a window.

Arguments: the catalog rolled forward, the LSN where the window begins, the LSN after its last record, and whether it is
the last one.
"""

OpenStore = Callable[[Iterable[Locator]], CatalogStore]
"""Opens a database's catalog, with files that will turn out to be catalogs'."""


NOTHING_SINCE: Mapping[int, int] = MappingProxyType({})
"""The WAL may have something of every database from its beginning on."""


def nobody_asks(store: CatalogStore, start: int, end: int, is_last: bool) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class PlannedWindow:
    """A window that was gone through.

    Attributes:
        assemblies: what is output of it, of each output in their order.
        behind: the state of things after it.
        hi: LSN where its WAL ends.
        custom: int64[128] number of records of each custom resource manager.
        is_last: nothing follows it in this session.
        followed: what its records say.
    """

    assemblies: tuple[Assembly, ...]
    behind: Behind
    hi: int
    custom: Int64s
    is_last: bool
    followed: Followed

    @property
    def assembly(self) -> Assembly:
        """The output of the window, where there is one output."""
        (only,) = self.assemblies
        return only


def pieces_of(runs: Sequence[Run]) -> Iterator[WalIndex]:
    """Give the indexes of runs, in LSN order."""
    return (piece for run in runs for piece in run.pieces)


class DatabaseFold:
    """The planning of one database, window by window.

    Args:
        outputs: what is made of it; one at least.
        goes_on: the session does, after the last window: what its options name may still come.
        rolled: see :data:`Rolled`; watch: see :data:`headwater.pipeline.windows.advance.Watch`.
        sources: OIDs of databases of whose files this one's are copied.
        open_store: opens its catalog once more; None for what the request names.
        since: LSNs before which the WAL has nothing of it and of its sources, by OID.
        expected: files that will probably turn out to be its catalogs', and where each is made.
        is_first: of several databases: it reports what is so for all of them.
        is_named: of several databases: errors name it.
        has_rows: transactions that committed before the consistent point are available in another way: in the rows of
            tables as of then.

    Attributes:
        outputs: what is made of it.
        opened: the first one's request, for what they share.
        database: OID.
        name: its name in errors; None if it is the only one.
        refinement: what the index of the present window must have in addition to what the catalog names at its start.
        store: the catalog at the start of the present window; later at its end.
    """

    def __init__(
        self,
        outputs: Sequence[OpenOutput],
        *,
        goes_on: bool = False,
        rolled: Rolled = nobody_asks,
        watch: Watch = nobody_watches,
        sources: Sequence[int] = (),
        open_store: OpenStore | None = None,
        since: Mapping[int, int] = NOTHING_SINCE,
        expected: frozenset[tuple[Locator, int]] = frozenset(),
        is_first: bool = True,
        is_named: bool = False,
        has_rows: bool = False,
    ) -> None:
        self.outputs = tuple(outputs)
        self.opened = opened = outputs[0].opened
        self.database = opened.store.database_oid
        self.since = since
        self.name = opened.store.database_name if is_named else None
        self.refinement = UNREFINED
        self.store: CatalogStore = opened.store
        self._goes_on = goes_on
        self._rolled = rolled
        self._watch = watch
        self._sources = tuple(sources)
        self._open_store = open_store or self._open_named
        self._expected = expected
        self._state = opened.state
        self._behind: list[Behind] = []
        self._detailed: Rows | None = None
        self._session = _Sessions(self.outputs, is_first, is_named, has_rows)

    @property
    def lo(self) -> int:
        """The LSN where its next window begins."""
        if self._behind:
            return self._behind[-1].lsn
        opened = self.opened
        return index_start(opened.directory, opened.store) if self._state is None else self._state.lsn

    def go_on(self, directory: WalDirectory) -> None:
        """Go on behind the last window, in WAL that has come meanwhile.

        Args:
            directory: the WAL as it is now.
        """
        self.outputs = tuple(
            replace(output, opened=replace(output.opened, directory=directory)) for output in self.outputs
        )
        self.opened = self.outputs[0].opened

    def change_outputs(self, outputs: Sequence[OpenOutput], states: Sequence[OutputState]) -> None:
        """Change what is made of what follows, between two windows, from a state on.

        Args:
            outputs: of the same database and kind of session; one at least.
            states: of each, as of the end of the last window.
        """
        opened = self.opened
        shared = [replace(output.opened, directory=opened.directory, store=opened.store) for output in outputs]
        self.outputs = tuple(replace(output, opened=own) for output, own in zip(outputs, shared, strict=True))
        self._behind = [replace(behind, outputs=tuple(states)) for behind in self._behind]
        if self._state is not None:
            self._state = replace(self._state, outputs=tuple(states))
        self.opened = self.outputs[0].opened
        self._session = _Sessions(self.outputs, self._session.is_first, self.name is not None, self._session.has_rows)

    def table_names(self, output: int) -> frozenset[str]:
        """Return names that tables had after the last window, if patterns of this output ask for tables."""
        return frozenset(self._session.names[output])

    @property
    def databases(self) -> frozenset[int]:
        """OIDs of the databases that the index must have."""
        return frozenset((self.database, *self._sources))

    def begin(self) -> None:
        """Begin a window: where the last one ended, or at the catalog."""
        # The catalog that the window before left is as large as the next one: it is taken out.
        before = self._behind.pop() if self._behind else None
        if before is not None:
            self._state = self.state_behind(before)
        # They are made in one window: what of them is a catalog's is known after it.
        is_past = self._state is not None and all(self._state.lsn > lsn for lsn in self.since.values())
        self.refinement = UNREFINED if is_past else Refinement(self._expected)
        self._detailed = None
        self.store = self._opened_store(None if before is None else before.store)

    def is_reached(self, runs: Sequence[Run]) -> bool:
        """Tell whether a window may end after these runs."""
        is_whole = self._state is not None and not self.store.origin.is_exported
        return is_whole or reaches(self.store, (piece.of_database(self.database) for piece in pieces_of(runs)))

    def plan(self, runs: Sequence[Run], lo: int, is_last: bool) -> PlannedWindow | None:
        """Go through a window.

        Args:
            runs: of it.
            lo: where it begins.
            is_last: the pass ends with it.

        Returns:
            its plan; None if the index lacks something, which :attr:`refinement` has now.
        """
        pieces = [piece.of_database(self.database, self._sources) for piece in pieces_of(runs)] or [no_index(lo)]
        state = self._state
        index = merge_indexes(pieces) if state is None else merge_indexes(pieces, self._detailed or state.left.rows)
        with collector_put_off(), errors_of(self.name):
            advanced = self._advance(index, is_last and not self._goes_on)
        if isinstance(advanced, Refinement):
            self._refine(advanced)
            return None
        self._behind = [advanced.behind]
        custom, followed = index.custom, advanced.followed
        window = PlannedWindow(advanced.assemblies, advanced.behind, index.hi, custom, is_last, followed)
        with errors_of(self.name):
            self._session.passed(window, is_last and not self._goes_on)
        return window

    def look_back(self, indexer: RunIndexer, request: Request) -> None:
        """Read what only this window asks of the WAL before it.

        That is of files that proved to be catalogs' only in it, for the catalog, and changes of open transactions one
        by one.
        """
        state, files = self._state, self.refinement.files
        if state is None:
            return
        early = self.refinement.since
        if early < state.lsn:
            again = pieces_of(indexer.stretch(early, state.lsn, request))
            index = merge_indexes([piece.of_database(self.database) for piece in again])
            self._detailed = with_detailed(state.left.rows, index.rows, early)
        since = min((lsn for _, lsn in files), default=state.lsn)
        if since < state.lsn:
            pieces = pieces_of(indexer.stretch(since, state.lsn, request))
            records = (record for piece in pieces for record in piece.of_database(self.database, self._sources).kept)
            major = self.store.major
            self.store.redo.apply_earlier(
                parse_record(record.data, record.lsn, record.end_lsn, major) for record in records
            )

    def state_behind(self, behind: Behind) -> State:
        """Return the state after a window."""
        if self._state is None or self._state.lsn != behind.lsn:
            self._state = behind.state(self.opened.directory.timeline_at(behind.lsn))
        return self._state

    def _refine(self, refinement: Refinement) -> None:
        self.refinement |= refinement
        self.store = self._opened_store(None)

    def _advance(self, index: WalIndex, is_end: bool) -> Advanced | Refinement:
        opened, store, state = self.opened, self.store, self._state
        if state is None or store.origin.is_exported:
            check_reach(opened, store, index)
        if state is not None:
            start = Start.of_state(state)
        else:
            index, whole = without_earlier(index, store)
            nothing = tuple(OutputState(output.asked) for output in self.outputs)
            start = Start.of_catalog(store, whole, opened.request.needed_level, nothing)
        skips_gaps = opened.request.on_level_gap == SKIP_GAP
        rest = (self.refinement.detailed, skips_gaps, self._watch)
        return advance(start, index, store, self.outputs, is_end, self._rolled, *rest)

    def _opened_store(self, before: CatalogStore | None) -> CatalogStore:
        """Return the catalog at a window's start; ``before`` is the store that its image was made of."""
        store = self._found_store(before)
        store.redo.numbers_commands = self.opened.request.numbers_commands
        store.name_by(self.opened.search_path)
        return store

    def _found_store(self, before: CatalogStore | None) -> CatalogStore:
        request, files = self.opened.request, [file for file, _ in self.refinement.files]
        if self._state is None:
            # A store is rolled forward once: who goes through a window again begins with another.
            return self.opened.store if self.refinement == UNREFINED else self._open_store(files)
        store = store_of(self._state.catalog, before)
        # Before the WAL has shown all that a copy may lack, a file of a catalog may be the copy's.
        has_copy = not store.files.is_complete and not store.origin.is_exported and request.catalog != ""
        copy = DataDirectory(request.catalog) if has_copy else None
        for file in files:
            store.files.add_extra(file, None if copy is None else copy.heap(file))
        return store

    def _open_named(self, files: Iterable[Locator]) -> CatalogStore:
        request = self.opened.request
        with_definitions = any(output.opened.request.with_definitions for output in self.outputs)
        return open_catalog(request.catalog, request.database, files, with_definitions=with_definitions)


class _Sessions:
    """The checks and warnings that are made once for all windows.

    Args:
        outputs: of the database.
        is_first: it reports what is so for all databases.
        is_one_of_several: a pattern for tables need not match one of this database.
        has_rows: see :class:`DatabaseFold`.

    Attributes:
        names: of tables that the patterns of each output may match.
    """

    def __init__(self, outputs: Sequence[OpenOutput], is_first: bool, is_one_of_several: bool, has_rows: bool) -> None:
        self._outputs = outputs
        opened = outputs[0].opened
        self._directory = opened.directory
        self._start_lsn = opened.store.start_lsn
        self._request, self._state = opened.request, opened.state
        self._end = NEVER if opened.request.end is None else opened.request.end
        self.is_first = is_first
        self._late: list[Int64s] = []
        self._is_one_of_several, self.has_rows = is_one_of_several, has_rows
        self.names: list[set[str]] = [set() for _ in outputs]
        self._custom: Int64s = np.zeros(0, np.int64)
        self._replica: tuple[int, int] | None = None

    def passed(self, window: PlannedWindow, is_end: bool) -> None:
        """Take one more window that was gone through; ``is_end``: the session ends with it.

        Raises:
            CatalogError: the session ends, and a pattern for tables has matched none.
        """
        self._warn_of_left_out(window, is_end)
        self._note_levels(window)
        if is_end and self.is_first and self._replica is not None:
            warn_of_replica_level(*self._replica)
        self._custom = window.custom + self._custom if len(self._custom) else window.custom
        if window.is_last and self.is_first:
            warn_of_custom_records(self._custom)
        if is_end and self.is_first:
            state = self._state
            warn_of_abandoned(
                self._directory, self._start_lsn if state is None else state.lsn, self._end, goes_on=state is not None
            )
            if self._state is None:
                warn_of_short_wal(window.hi, self._request.start, self._request.end)
        for output, assembly, names in zip(self._outputs, window.assemblies, self.names, strict=True):
            self._match(output, names, window.behind, assembly, is_end)

    def _match(self, output: OpenOutput, names: set[str], behind: Behind, assembly: Assembly, is_end: bool) -> None:
        """Note the names that an output's patterns may match; at the end they must have matched one."""
        patterns = output.scope.tables
        start, lsn = max(output.scope.start, self._start_lsn), behind.lsn
        if patterns.patterns and (is_end or lsn > start):
            names |= TableNames(behind.store, start, lsn).with_rows(assembly.plan.relations)
        if patterns.patterns and is_end and not self._is_one_of_several:
            with errors_of_output(output.name):
                patterns.require_matches(names)

    def _note_levels(self, window: PlannedWindow) -> None:
        """Note where decoded WAL of a level below logical lies."""
        levels, hi = window.followed.levels, window.behind.lsn
        ends = [*(lsn for lsn, _ in levels[1:]), hi]
        needed = window.behind.control.needed
        low = [(lo, end) for (lo, level), end in zip(levels, ends, strict=True) if needed <= level < WAL_LEVEL_LOGICAL]
        if low:
            self._replica = low[0][0] if self._replica is None else self._replica[0], low[-1][1]

    def _warn_of_left_out(self, window: PlannedWindow, is_end: bool) -> None:
        """Warn of transactions that cannot be decoded, once it is known why and until when."""
        control = window.behind.control
        late = np.unique(np.concatenate([*self._late, *(assembly.late for assembly in window.assemblies)]))
        for gap in window.followed.gaps:
            if gap.hi is not None or is_end:
                inside = (late >= gap.lo) & (late < (NEVER if gap.hi is None else gap.hi))
                warn_of_gap(gap, late[inside], window.behind.lsn)
                late = late[~inside]
        if control.builder.is_consistent:
            early = late < control.builder.start_decoding_at
            if not self.has_rows:
                warn_of_late_start(control, self._start_lsn, late[early])
            warn_of_prepared(control, late[~early])
            late = late[:0]
        elif is_end and control.gap is None:
            warn_of_waiting(control, late)
        self._late = [late]
