"""One pass over WAL into a lake: window by window, to the end of what is there.

In: a request that was opened, and where the lake has come to. Out: commits, and the state after the last window. What
is kept of the source, its changes or its rows, is a value (:mod:`headwater.landing.landing_modes`); the flow is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import compress

from headwater.catalog.relation import RelationSchema
from headwater.errors import HeadwaterError, LakeError, errors_of_table
from headwater.jobs.background_step import BackgroundStep
from headwater.jobs.engine import Engine
from headwater.jobs.exchange import Arrived, Exchange, Handed, Work
from headwater.lakes.lake_table import DataFile, LakeTable
from headwater.lakes.paused import PausedTable
from headwater.lakes.target_directory import Lake
from headwater.landing.brought_rows import brought_rows
from headwater.landing.existing_rows import ExistingRows, ExistingTable, consistent_point, existing_rows
from headwater.landing.initial_load import InitialLoad, TableLoad
from headwater.landing.landing_modes import Mode
from headwater.landing.landing_tasks import files_by_table, merged, write_changes
from headwater.landing.landing_watch import CommittedTable, LandedWindow, LandingWatch
from headwater.landing.mirrors.landed_files import Landing, MergeTask, Merging, Settled, Written
from headwater.landing.mirrors.merge_task import Merged
from headwater.landing.modes_by_table import ModesByTable
from headwater.landing.replaced_tables import (
    Arrival,
    Bringing,
    Naming,
    Replacing,
    replace_marker,
    replacing_at,
    require_names,
    warn_of_names_without_table,
)
from headwater.landing.tables.attached_rows import Departure
from headwater.landing.tables.catalog_changes import CatalogWindow
from headwater.landing.tables.column_changes import ColumnChange, column_changes
from headwater.landing.tables.name_changes import NameChange, name_changes
from headwater.landing.tables.renamed_tables import ChoiceChange, choice_changes, require_whole
from headwater.landing.tables.rows_without_wal import WithoutWal, partitions_without_wal, require_wal, rows_without_wal
from headwater.landing.tables.source_tables import SourceTable
from headwater.landing.tables.window_cuts import CrowdedWindowError, WindowChanges, crowded
from headwater.landing.window_commits import commit_tables
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.open_output import OpenOutput, scope_of
from headwater.pipeline.requests.open_request import OpenRequest, settings_together, start_of
from headwater.pipeline.requests.scope import Scope
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.window_pipeline import WindowPipeline, timed
from headwater.pipeline.windows.assemble import Assembly
from headwater.pipeline.windows.database_fold import DatabaseFold, PlannedWindow
from headwater.pipeline.windows.following import Following
from headwater.plugins.rows.plugin import RowChanges, TableChoice
from headwater.plugins.table_patterns import qualified_name
from headwater.reorder.announced_schemas import NO_TIME
from headwater.reorder.plan import Slice
from headwater.reorder.slices.cutting import cut_slices, even_slice
from headwater.slots.kept_state import KeptState
from headwater.wal.records.growing_directory import end_of_log

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass
class LandingResult:
    """The result of a run: what has landed.

    Attributes:
        rows: by table; files: how many; bytes: theirs.
        paused: tables that are paused in the end, though they were asked for.
        resolved_lsn: LSN up to which all tables have everything; None if there was no window.
        seconds: wall-clock time of each step.
    """

    rows: dict[str, int] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    resolved_lsn: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    paused: tuple[PausedTable, ...] = ()

    def count(self, tables: Sequence[CommittedTable]) -> None:
        """Add what was committed."""
        for table in tables:
            if table.rows:
                self.rows[table.name] = self.rows.get(table.name, 0) + table.rows
            self.files += table.files
            self.bytes += table.bytes


@dataclass(frozen=True)
class Part:
    """A window on its way to the tasks.

    Attributes:
        slices: ready for tasks; size: bytes of the records that they are about.
        tables: the tables that they have changes of.
        kept_state: the state after it.
        transactions: how many it has.
        commit_time: the latest of its transactions, or that of the last before; None where that is not known.
        last_commit: the latest of its own, None for none.
        is_last: nothing follows it in the pass.
        existing: rows that land before its changes, if decoding begins in it; transactions that they have do not land
            again.
        renamed: tables that come into the choice in it, or leave it.
        columns: the columns that tables have lost, or call otherwise, where that is not to be.
        without_wal: relations of which not all rows are in the WAL.
        names: what the source does with tables' names; living: OIDs of the tables that there are, if it does anything.
    """

    slices: list[Handed[Slice]]
    size: int
    tables: list[SourceTable]
    kept_state: KeptState
    transactions: int
    commit_time: datetime | None
    last_commit: datetime | None
    is_last: bool
    existing: ExistingRows | None
    renamed: tuple[ChoiceChange, ...]
    columns: tuple[ColumnChange, ...]
    without_wal: tuple[WithoutWal, ...]
    names: tuple[NameChange, ...]
    living: frozenset[int]


@dataclass(frozen=True)
class _Staged:
    """A window whose rows tasks write.

    Attributes:
        part: it; lo, hi: LSNs where it begins and ends; turn: see :meth:`StagingAreas.next_turn`.
        landings: its tables; written: what each task has written for them; block: at its end no task runs any more.
        began: when it was begun, by the monotonic clock.
        before: what had landed before rows that were there before; None if none have come with it.
        replacing: what it begins with; None for nothing. bringing: files of rows that come with that.
    """

    part: Part
    lo: int
    hi: int
    turn: int
    landings: list[Landing]
    written: Iterator[list[Arrived[list[Written]]]]
    block: ExitStack
    began: float
    before: LandingResult | None
    replacing: Replacing | None
    bringing: Bringing


@dataclass
class Handing:
    """A maker of parts, in the thread that plans.

    Attributes:
        hand: a slice; parallel: tasks that can run at once; mode: what is kept.
        keeps_columns: tables in the lake are not to follow those of the source (``--schema-evolution fail``).
        lo: LSN where the next window begins.
        wants_existing: rows that were there before have to land yet.
        looks_back: partitions without WAL that there are already are to be found.
        scope: of what is landed.
    """

    hand: Callable[[Slice], Handed[Slice]]
    parallel: int
    mode: Mode
    keeps_columns: bool
    lo: int
    wants_existing: bool
    looks_back: bool
    scope: Scope

    def __call__(self, plan: DatabaseFold, window: PlannedWindow) -> Part:
        (assembly,), behind = window.assemblies, window.behind
        plugin = plan.opened.plugin
        existing = self._existing(plan, window)
        since = -1 if existing is None else existing.lsn
        # What happens before the rows are read that were there before is in these.
        lo = window.hi if self.wants_existing else max(self.lo, since + 1)
        catalog = CatalogWindow(behind.store, lo, window.hi)
        assert isinstance(plugin, RowChanges)
        tables = self._tables(assembly, catalog, plugin, since)
        renamed = choice_changes(catalog, plugin.choice, assembly.unwanted)
        columns = column_changes(catalog, plugin.choice) if self.keeps_columns else ()
        without = self._without_wal(catalog, plugin.choice)
        names = name_changes(catalog, plugin.choice, assembly)
        self.lo = max(behind.lsn, since + 1)  # a record that crosses the end of the window was its last
        # One for each core: each makes a file of each table.
        size = even_slice([assembly.plan], self.parallel)
        slices = cut_slices(assembly.plan, size)
        settings = settings_together(output.opened for output in plan.outputs)
        times = assembly.plan.units.commit_time[~assembly.plan.units.is_bare]
        # Not the last one's: an origin gives its own time, and a clock may be put back.
        latest = moment(int(times.max())) if len(times) else None
        return Part(
            slices=[self.hand(slice) for slice in slices],
            size=sum(slice.size for slice in slices),
            tables=tables,
            kept_state=KeptState(plan.state_behind(behind), settings),
            transactions=len(times),
            commit_time=_earlier(assembly.plan.before.time) if latest is None else latest,
            last_commit=latest,
            is_last=window.is_last,
            existing=existing,
            renamed=renamed,
            columns=columns,
            without_wal=without,
            names=names,
            living=frozenset(catalog.end.tables()) if names else frozenset(),
        )

    def _tables(self, assembly: Assembly, window: CatalogWindow, plugin: RowChanges, since: int) -> list[SourceTable]:
        """Return the tables of a window, and where their definitions change."""

        def wants(schema: RelationSchema) -> bool:
            return bool(plugin.wants(schema, window.end))

        changes = WindowChanges(window)
        try:
            tables = self.mode.tables(assembly, window, wants, since)
        except LakeError as error:
            raise crowded(error, changes.wanted(wants), self.lo, self.scope) from error
        return [replace(table, changed_at=changes.of(table.relations)) for table in tables]

    def _without_wal(self, window: CatalogWindow, choice: TableChoice) -> tuple[WithoutWal, ...]:
        lost = rows_without_wal(window, choice)
        if not self.looks_back:
            return lost
        self.looks_back = False
        known = {relation.relation.oid for relation in lost}
        there = partitions_without_wal(window.end, choice)
        return *lost, *(relation for relation in there if relation.relation.oid not in known)

    def _existing(self, plan: DatabaseFold, window: PlannedWindow) -> ExistingRows | None:
        lsn = consistent_point(window) if self.wants_existing else None
        if lsn is None:
            return None
        self.wants_existing = False
        return existing_rows(window.behind.store, plan.opened.plugin, lsn)


def moment(micros: int) -> datetime:
    """Return a commit's time, which counts from 2000; Python's first or last moment for one that it has not."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return (datetime.max if micros > 0 else datetime.min).replace(tzinfo=UTC)


def _earlier(micros: int) -> datetime | None:
    """Return the time of a commit before, of which rows changed; None for none."""
    return None if micros == NO_TIME else moment(micros)


@dataclass
class LandingPass:
    """A pass.

    Attributes:
        ahead: plans windows; opened: where it begins.
        lake: where to; mode: what is kept there.
        result: grows; watch: hears of it.
        with_rows: rows that were there before land, too.
        engine: runs the tasks that read these; that of the windows is the planner's.
        kept_state: the state after the last window that all tables have; None before there is one.
        catches_up: the pass is of tables that lag after the others, as the target's own notes say.
    """

    ahead: WindowPipeline[Part]
    opened: OpenRequest
    lake: Lake
    mode: Mode
    result: LandingResult
    watch: LandingWatch
    with_rows: bool
    engine: Engine
    kept_state: KeptState | None = None
    catches_up: bool = False
    _has_other_columns: bool = True

    def run(self, following: Following | None, until: int | None = None, *, goes_on: bool = False) -> KeptState | None:
        """Land window by window.

        Args:
            following: how the log is followed; None where it is not.
            until: LSN at or after which to end early, with a window; None to go on to the end of the WAL.
            goes_on: another pass follows this one.

        Returns:
            the state after the last one; None if there was none.

        Raises:
            CrowdedWindowError: a window is to be cut; what was before it has landed (:attr:`kept_state`).
        """
        self.lake.registry.require_source(self._source)
        output = OpenOutput(self.opened, scope_of(self.opened))
        plan = DatabaseFold([output], goes_on=goes_on or following is not None, has_rows=self.with_rows)
        kept_state: KeptState | None = None
        lo = start_of(self.opened)
        end = self._end(None, lo) if following is None else end_of_log(self.opened.directory, lo)
        self.ahead.end = None if following is None else end
        self.watch.begins(lo, end)
        with self.ahead.driven([plan]) as (windows, behind):
            for window in windows:
                (part,) = window.parts
                with self._cutting(part, lo):
                    staged = self._staged(part, lo, window.hi, behind)
                behind.begin(partial(self._settle, staged, following), staged.block.close)
                kept_state, lo = part.kept_state, window.hi
                is_told = following is not None and following.stopping.is_told
                if is_told or (until is not None and kept_state.state.lsn >= until):
                    break
        return kept_state

    def _staged(self, part: Part, lo: int, hi: int, behind: BackgroundStep) -> _Staged:
        """Have tasks write a window's rows, while the one before is written and committed, unless that matters."""
        if part.existing is not None or part.columns or not self._is_apart(part):
            behind.wait()
        began, before, since, turn = time.monotonic(), None, -1, self.lake.staging.next_turn()
        if part.existing is not None:
            before, since = self._so_far, part.existing.lsn
            self.load(part.existing, self.waiting(part.existing))
        replacing = self._replacing(part, lo, behind)
        renamed = part.renamed if replacing is None else replacing.not_chosen_again(part.renamed)
        for change in renamed:
            require_whole([change], self.lake, is_mirror=self.mode.of(change.root).mirrors)
        self._require_wal(part.without_wal)
        self._require_columns(part.columns)
        tables = part.tables if replacing is None else replacing.sources(part.tables)
        concerned = [table for table in tables if self.mode.concerns(table, self.lake)]
        landings = []
        for number, table in enumerate(concerned):
            with self._cutting(part, lo, table.changed_at):
                landings.append(self._landing(number, table))
        bringing = {} if replacing is None else replacing.rows(landings, self._merged, self._brought)
        has_others = any(landing.schema != landing.table.landed.schema for landing in landings)
        self._has_other_columns = has_others or bool(replacing)
        changes = [replace(landing.changes, landed=max(landing.changes.landed, since)) for landing in landings]
        block = ExitStack()
        written = block.enter_context(self._job(part, partial(write_changes, self._decoder, changes)))
        return _Staged(
            part=part,
            lo=lo,
            hi=hi,
            turn=turn,
            landings=landings,
            written=written,
            block=block,
            began=began,
            before=before,
            replacing=replacing,
            bringing=bringing,
        )

    def _require_wal(self, relations: Iterable[WithoutWal]) -> None:
        for lost in relations:
            require_wal([lost], is_mirror=self.mode.of(lost.root or lost.relation).mirrors)

    def _replacing(self, part: Part, lo: int, behind: BackgroundStep) -> Replacing | None:
        """Return the new names that a window begins with, once a run would begin after the one before it."""
        if not part.names:
            return None
        warn_of_names_without_table(part.names, self.lake, is_mirror=self.mode.mirrors)

        def ready() -> None:
            behind.wait()
            self.lake.progress.write_state()

        living = part.living | {version.oid for table in part.tables for version in table.versions}
        naming = Naming(self.lake, self.mode.mirrors, living, self._left_out)
        if isinstance(self.mode, ModesByTable):
            require_names(naming, part.names)
        return replacing_at(naming, part.names, lo, scope_of(self.opened), ready)

    def _brought(self, arrival: Arrival, landing: Landing) -> list[DataFile]:
        """Stage rows that a table had before it came into the choice."""
        if self.kept_state is not None:  # the catalog is that of where the pass begins
            raise CrowdedWindowError(LakeError("a window is planned once more"), None)
        progress = self.ahead.job_progress()
        places = self.lake.replaced, self.lake.scratch
        with errors_of_table(*landing.changes.source):
            return brought_rows(self.opened, arrival, landing, places, self.engine, progress)

    @contextmanager
    def _cutting(self, part: Part, lo: int, changes: Iterable[int] | None = None) -> Iterator[None]:
        """Let errors of the ``with`` block say where the window can be cut, if that may help.

        Args:
            part: the window; lo: where it begins.
            changes: STARTs of commit records where it can be; None for those that change any of its tables.
        """
        try:
            yield
        except HeadwaterError as error:
            if changes is None:
                changes = {lsn for table in part.tables for lsn in table.changed_at}
            raise crowded(error, changes, lo, scope_of(self.opened)) from error

    def _require_columns(self, changes: Iterable[ColumnChange]) -> None:
        """See that tables that have landed have the same columns still."""
        for change in changes:
            if self.lake.names.has_relation(change.table.oid):
                name, table = self._table(SourceTable(change.table, ()))
                if -1 < table.landed.commit_lsn < change.lsn:
                    with errors_of_table(change.table.oid, name):
                        raise change.refusal(name)

    def _is_apart(self, part: Part) -> bool:
        """Tell whether a window is staged the same way before and after the commit of the one before.

        A transaction of it has committed later than all that were, so tables that have not heard of those yet leave out
        the same: only their columns matter, and which tables there are.
        """
        is_known = all(self.lake.tables.is_open(table.last, table.shape) for table in part.tables)
        return is_known and self.lake.tables.stages_ahead and not self._has_other_columns

    @property
    def _so_far(self) -> LandingResult:
        return replace(self.result, rows=dict(self.result.rows))

    def _settle(self, staged: _Staged, following: Following | None) -> None:
        """Commit a window, when its rows are there; one at a time, in their order."""
        before, part = staged.before or self._so_far, staged.part
        with self._cutting(part, staged.lo):
            with timed(self.ahead.seconds, "land"), staged.block:
                written = files_by_table(staged.written, staged.bringing)
            with timed(self.ahead.seconds, "merge"):
                settled = list(self.mode.settled(staged.landings, written, self._merging))
        with timed(self.ahead.seconds, "commit"):
            self._commit(settled)
            self.lake.staging.clear(staged.turn if self.lake.tables.stages_ahead else None)
            if not self.catches_up:
                self.lake.progress.resolve(part.kept_state, part.commit_time)
            if staged.replacing is not None:
                self.lake.progress.write_state()
                staged.replacing.is_over()
        self.kept_state = part.kept_state
        self.result.resolved_lsn = staged.hi
        seconds = time.monotonic() - staged.began
        self.watch.passed(self._passed(staged.lo, staged.hi, part, before, seconds, following))

    def _end(self, following: Following | None, lsn: int) -> int:
        """Tell where the log ends, as far as that is known."""
        if following is not None:
            return following.end(lsn)
        asked, there = self.opened.request.end, self.opened.directory.stop_lsn
        return max(lsn, there if asked is None else min(asked, there))

    def _passed(
        self, lo: int, hi: int, part: Part, before: LandingResult, seconds: float, following: Following | None
    ) -> LandedWindow:
        return LandedWindow(
            lo=lo,
            hi=hi,
            end=self._end(following, hi) if following is not None or not part.is_last else hi,
            rows=sum(self.result.rows.values()) - sum(before.rows.values()),
            files=self.result.files - before.files,
            bytes=self.result.bytes - before.bytes,
            transactions=part.transactions,
            last_commit=None if part.last_commit is None else part.last_commit.timestamp(),
            landed_at=time.time(),
            seconds=seconds,
        )

    @property
    def _source(self) -> str:
        return f"{self.opened.directory.system_identifier}/{self.opened.store.database_oid}"

    def _landing(self, number: int, source: SourceTable) -> Landing:
        with errors_of_table(source.last.oid, qualified_name(source.last)):
            if source.refusal is not None:
                raise source.refusal
            return self.mode.landing(number, source, self._table(source), self.lake, self._decoder)

    def _table(self, source: SourceTable) -> tuple[str, LakeTable]:
        begins_at = self.opened.store.start_lsn if self.opened.state is None else 0
        # Rows that were there before have no stage of a window, but a shape as well.
        shape = self.mode.shape(source.last) if source.shape is None else source.shape
        return self.lake.tables.of_relation(source.last, begins_at, shape)

    @property
    def _decoder(self) -> SliceDecoder:
        return SliceDecoder(self.opened.directory, self.opened.plugin, self.opened.session)

    @property
    def _left_out(self) -> frozenset[int]:
        """OIDs of tables that are paused."""
        assert isinstance(self.opened.plugin, RowChanges)
        return self.opened.plugin.choice.left_out

    def waiting(self, rows: ExistingRows) -> list[ExistingTable]:
        """Return the tables that have not the rows yet that they had before.

        Raises:
            LakeError: one has others.
        """
        self.lake.registry.require_source(self._source)
        self.lake.tables.name_each(table.source.last for table in rows.tables)
        return [table for table in rows.tables if self._waits(table.source, rows.lsn)]

    def lacking(self, rows: ExistingRows) -> list[ExistingTable]:
        """Return the tables that have not the rows of an LSN, whatever others they have.

        Raises:
            LakeError: one is further than that.
        """
        self.lake.registry.require_source(self._source)
        landed = [self._table(table.source) for table in rows.tables]
        for name, table in landed:
            if table.landed.commit_lsn > rows.lsn:
                raise LakeError(
                    f"table {name} has landed up to {Lsn(table.landed.commit_lsn)}, further than the others",
                    file=str(self.lake.target.where),
                    hint="headwater land brings these there first",
                )
        is_lacking = [table.landed.commit_lsn < rows.lsn for _, table in landed]
        return list(compress(rows.tables, is_lacking))

    def load(self, rows: ExistingRows, waiting: Sequence[ExistingTable], *, replaces: bool = False) -> None:
        """Land rows that were there before.

        Args:
            rows: them; waiting: the tables that do not have them.
            replaces: they take the place of what the tables have.

        Raises:
            HeadwaterError: they cannot be read or written; tables that were committed have theirs.
        """
        self._require_wal(lost for table in waiting for lost in table.without_wal)
        sources = [self._existing(table.source, rows.lsn, replaces) for table in waiting]
        landings = [self._landing(number, source) for number, source in enumerate(sources)]
        loads = [TableLoad(table, landing.changes) for table, landing in zip(waiting, landings, strict=True)]

        def loaded(number: int, files: list[DataFile], merging: Merging) -> Settled:
            landing = landings[number]
            has_marker = landing.source.replaces is not None and landing.mirror is None
            marker = [replace_marker(landing).file] if has_marker else []
            return self.mode.loaded(landing, [*marker, *files], rows.lsn, merging)

        def commit(tables: list[tuple[int, list[DataFile]]], exchange: Exchange) -> None:
            merging = replace(self._merging, run=lambda merges: merged(merges, exchange, self.ahead.job_progress()))
            self._commit([loaded(number, files, merging) for number, files in tables])

        with timed(self.ahead.seconds, "existing rows"):
            load = InitialLoad(self.opened, rows, loads, self.lake.scratch)
            load.run(self.engine, commit, self.ahead.job_progress())
        self.lake.staging.clear()

    def _existing(self, source: SourceTable, lsn: int, replaces: bool) -> SourceTable:
        """Return a table whose rows were there before; what it has ends just before these come, if they replace it."""
        with errors_of_table(source.last.oid, qualified_name(source.last)):
            existing = self.mode.existing(source)
        if not replaces or self._table(source)[1].landed.commit_lsn < 0:
            return existing
        # Without versions: that it has been a partition, and has rows from then, does not matter any more.
        return replace(existing, versions=(), replaces=Departure(source.last.oid, lsn - 1))

    def _waits(self, source: SourceTable, lsn: int) -> bool:
        """Tell whether a table has not the rows of an LSN yet.

        Raises:
            LakeError: it has others.
        """
        name, table = self._table(source)
        if -1 < table.landed.commit_lsn < lsn:
            raise LakeError(
                f"table {name} has landed up to {Lsn(table.landed.commit_lsn)}, rows of {Lsn(lsn)} would come twice",
                file=str(self.lake.target.where),
                hint="land to another place",
            )
        return table.landed.commit_lsn < lsn

    def _job(
        self, part: Part, work: Work[Handed[Slice], list[Written]]
    ) -> AbstractContextManager[Iterator[list[Arrived[list[Written]]]]]:
        """Return the job that writes a window's rows."""
        return self.ahead.exchange_for(part.size).run("land", work, part.slices, self.ahead.job_progress())

    @property
    def _merging(self) -> Merging:
        return Merging(self._merged, self.ahead.parallel, self.lake.indexes, self.lake.target.rewrite_budget)

    def _merged(self, merges: Sequence[MergeTask]) -> list[Merged]:
        """Have tasks merge files."""
        exchange = self.ahead.exchange_for(sum(merge.size for merge in merges))
        return merged(merges, exchange, self.ahead.job_progress())

    def _commit(self, settled: Sequence[Settled]) -> None:
        began = time.monotonic()
        tables = commit_tables(self.lake, settled, self._source)
        self.result.count(tables)
        self.watch.committed(tables, time.monotonic() - began)
