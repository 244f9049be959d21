"""WAL landed in a lake: windows planned as the command does, files written by tasks, commits by the driver.

::

    backup  ->  rows that were there before, before the first changes  (landing/initial_load.py)
    window  ->  tables it has changes of, their columns in the lake  (driver)
            ->  slices: rows of each table into a file under ``staging``  (tasks, which return names and sizes)
            ->  of mirrors: these merged into groups of files  (tasks)
            ->  one commit a table, with the LSN of the last transaction in it; then the state behind it all  (driver)

A run is one pass over the WAL (:mod:`headwater.landing.landing_pass`). Where the log is followed it is pass after pass,
each to the end of what is there. A window that is cut begins another pass, so does one that a table is left out of
(:mod:`headwater.landing.paused_tables`).

Exactly once: what a table has landed, it says itself, and tasks leave out transactions up to there. So a run that was
killed anywhere begins at the last state that was kept, and what it lands again is only what is missing. Files that no
commit names are nobody's.

Known gaps: a table that is dropped and made again under its name is an error; so is a column whose type changes inside
a window to one that is not read from the text of the old one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from headwater.catalog.store.catalog_store import CatalogStore
from headwater.errors import (
    AwaitedCatalogError,
    CatalogError,
    HeadwaterError,
    LakeError,
    UsageError,
    WalError,
    warn,
)
from headwater.jobs.engine import Engine
from headwater.jobs.local_engine import LocalExchange
from headwater.jobs.outcome import Progress
from headwater.lakes.lake_schema import FAIL
from headwater.lakes.landing_target import NEVER, LandingTarget
from headwater.lakes.settings.table_settings import TableSettings, require_secret
from headwater.lakes.target_directory import Lake
from headwater.lakes.target_registry import Adding
from headwater.landing.added_tables import (
    added_tables,
    catalog_of_backup,
    is_adding,
    require_all_chosen,
    require_new,
    too_late,
)
from headwater.landing.existing_rows import ExistingRows
from headwater.landing.landing_modes import MODES, Mode
from headwater.landing.landing_pass import Handing, LandingPass, LandingResult
from headwater.landing.landing_watch import NOBODY_WATCHES, LandingWatch
from headwater.landing.modes_by_table import mode_in
from headwater.landing.paused_tables import (
    PAUSE,
    exclude,
    exclude_by_names,
    excluded_tables,
    pause,
    tell_of_paused,
    waiting,
)
from headwater.landing.replaced_tables import take_back
from headwater.landing.settings.column_settings import require_same_settings
from headwater.landing.settings_check import check_settings
from headwater.landing.slot_progress import require_no_slot
from headwater.landing.tables.window_cuts import CrowdedWindowError
from headwater.landing.upkeep import Upkeep, UpkeepOptions
from headwater.pg.lsn import Lsn
from headwater.pipeline.engines import engine_of
from headwater.pipeline.requests.open_output import scope_of
from headwater.pipeline.requests.open_request import OpenRequest, end_of, open_request, start_of
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.request_checks import check_database
from headwater.pipeline.window_pipeline import StepProgress, WindowPipeline
from headwater.pipeline.windows.copy_completeness import complete_at
from headwater.pipeline.windows.following import Following
from headwater.pipeline.windows.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.plugins.rows.plugin import RowChanges, TableChoice
from headwater.plugins.table_patterns import TablePatterns
from headwater.slots.kept_state import KeptState
from headwater.wal.records.growing_directory import GrowingDirectory, unbroken
from headwater.wal.segments.directory import WalDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def land(
    spark: SparkSession | Engine,
    request: DecodeRequest,
    target: LandingTarget,
    progress: Progress | None = None,
    bounds: WindowBounds = DEFAULT_BOUNDS,
    following: Following | None = None,
    watch: LandingWatch = NOBODY_WATCHES,
    on_table_error: str | None = None,
    upkeep: UpkeepOptions | None = None,
) -> LandingResult:
    """Land a window of WAL, from where the last run has come to.

    Args:
        spark: the session whose workers write, or another engine.
        request: the window, and which tables.
        target: where to.
        progress: called with (step, tasks done, tasks in all).
        bounds: of what is committed at a time.
        following: how to go on after the end of the log until the run is told to end; None to end there.
        watch: hears of what has landed.
        on_table_error: one of :data:`~headwater.landing.paused_tables.ON_TABLE_ERROR`; None to pause tables where the
            log is followed, and else to stop.
        upkeep: of the tables, where the log is followed (:mod:`headwater.landing.upkeep`); None for none.

    Raises:
        LakeError: the tables cannot be written, or are another's.
        HeadwaterError: any reason not to decode. What was committed stays.
    """
    pauses = on_table_error == PAUSE if on_table_error is not None else following is not None
    require_no_slot(target)
    require_secret(target.tables, target.mask_secret)
    with Lake(target) as lake:
        require_same_settings(lake)
        kept_state = lake.progress.kept_state()
        if kept_state is not None:
            check_database(kept_state.state, request, str(target.where))
        step_progress = None if progress is None else StepProgress(progress)
        run = LandingRun(
            engine=engine_of(spark),
            request=request,
            lake=lake,
            bounds=bounds,
            step_progress=step_progress,
            watch=watch,
            pauses=pauses,
            upkeep=None if upkeep is None else Upkeep(lake, watch, upkeep),
        )
        tell_of_paused(lake, request.tables)
        run.tell_watch()
        if following is None:
            run.once(kept_state)
        else:
            run.follow(kept_state, following)
        lake.progress.write_state()
        run.result.paused = tuple(waiting(lake))
        return run.result


@dataclass
class LandingRun:
    """One call of :func:`land`: passes over WAL, one if it is not followed and no tables are added.

    Attributes:
        engine: runs the tasks; it may choose one for each pass.
        bounds, step_progress: see :class:`~headwater.pipeline.window_pipeline.WindowPipeline`.
        request: the window.
        lake: where to; watch: hears of what has landed.
        pauses: a table that cannot go on is paused; else the run stops.
        upkeep: of the tables, where the log is followed; None for none.
        only: OIDs of paused tables that catch up with the others; None to land those that are not paused.
        result: of all passes so far.
        tables: that land; those that the request asks for, until when some of them have to wait for their rows.
        until: LSN at or after which these are available; None if it is not known.
        has_warned: that some wait.
    """

    engine: Engine
    request: DecodeRequest
    lake: Lake
    bounds: WindowBounds
    step_progress: StepProgress | None
    watch: LandingWatch
    pauses: bool = False
    upkeep: Upkeep | None = None
    only: frozenset[int] | None = None
    result: LandingResult = field(default_factory=LandingResult)
    tables: TablePatterns | None = None
    until: int | None = None
    has_warned: bool = False

    @cached_property
    def mode(self) -> Mode:
        """The mode: what is kept of the source."""
        return mode_in(self.lake)

    def once(self, kept_state: KeptState | None) -> None:
        """Land up to the end of the WAL; where tables are added, their rows are loaded there first."""
        while not self.has_all(kept_state):
            assert kept_state is not None
            behind = self.go(kept_state)
            if behind is None or self.until is None or behind.state.lsn < self.until:
                self._warn_of_waiting(behind or kept_state)
                return
            kept_state = behind
        self.go(kept_state)

    def follow(self, kept_state: KeptState | None, following: Following) -> None:
        """Pass by pass, each to the end of what is there, until it is told to end."""
        while kept_state is None:
            # An early look may find a copied catalog that is not complete yet: then none of it has landed.
            begun = following.when_there(lambda: self._begin(following))
            if begun is None:
                return
            kept_state = begun
        while (directory := self._more(kept_state, following)) is not None:
            kept_state = self.go(kept_state, directory, following) or kept_state

    def _more(self, kept_state: KeptState, following: Following) -> WalDirectory | None:
        """Return the WAL after a state, once there is some; None if it is told to end before."""
        if following.when_there(lambda: self.has_all(kept_state)) is False and not self.has_warned:
            self._warn_of_waiting(kept_state)
        if self.upkeep is None:
            return following.behind(kept_state)
        self.upkeep.step_if_late()
        return following.behind(kept_state, self.upkeep.step)

    def _begin(self, following: Following) -> KeptState | None:
        self.has_all(None)
        return self.go(None, following.look(None), following)

    def opened(
        self, kept_state: KeptState | None, directory: WalDirectory | None = None, tables: TablePatterns | None = None
    ) -> OpenRequest:
        """Open the request where the last run has come to, or at the backup; of the tables that land, or others."""
        request = self._request_of(tables or self.tables or self.request.tables)
        return open_request(request, partial(self.row_changes, request.tables), kept_state, directory).of_rows()

    def row_changes(self, tables: TablePatterns, store: CatalogStore) -> RowChanges:
        """Return the plugin that says which changes are wanted.

        Args:
            tables: the chosen ones; store: a catalog of the database.
        """
        choice = TableChoice(tables, left_out=self.lake.paused.oids - (self.only or frozenset()), only=self.only)
        return RowChanges(choice, (), store.major, encoding=store.encoding, mirrors=self.mode.mirrors)

    def _request_of(self, tables: TablePatterns) -> DecodeRequest:
        return replace(self.request, tables=tables)

    def go(
        self, kept_state: KeptState | None, directory: WalDirectory | None = None, following: Following | None = None
    ) -> KeptState | None:
        """Land from where the last run has come to, to the end of the WAL or to where tables can be added.

        A window that has too much of a table is cut: it lands up to there, and then the rest. One that a table cannot
        take in lands without it, if tables are to be paused.

        Args:
            kept_state: the state where to begin; None to begin at the backup.
            directory: the WAL as it was just found; None to look.
            following: how it is followed; None where it is not.

        Returns:
            the state after it; None if it was told to end before any.
        """
        cut: CrowdedWindowError | None = None
        causes: dict[int | None, HeadwaterError] = {}
        while True:
            if self.only is not None and not self.only:
                return kept_state  # none of the tables that were to catch up can
            landing_pass = None
            try:
                with self._pass(kept_state, directory, cut, following) as landing_pass:
                    until = self._until(landing_pass, cut)
                    behind = landing_pass.run(following, until, goes_on=cut is not None) or kept_state
            except HeadwaterError as error:
                landed = None if landing_pass is None else landing_pass.kept_state
                kept_state = landed or kept_state
                cut = self._begun_again(_cause(error, cut, causes), None if landed else cut, kept_state)
                continue
            if cut is None or self._is_over(behind, following):
                return behind
            kept_state, cut = behind, None

    def _until(self, landing_pass: LandingPass, cut: CrowdedWindowError | None) -> int | None:
        """Tell where a pass ends early: what is also chosen is so for its first window only."""
        return start_of(landing_pass.opened) + 1 if cut is not None and cut.oids else self.until

    def _begun_again(
        self, error: HeadwaterError, cut: CrowdedWindowError | None, kept_state: KeptState | None
    ) -> CrowdedWindowError | None:
        """Tell how a window is begun once more that could not land; None where a table is left out of it.

        Args:
            error: why; cut: how the same window was cut already.
            kept_state: the state where it begins.

        Raises:
            HeadwaterError: neither would help.
        """
        if isinstance(error, CrowdedWindowError):
            return error.beside(cut)
        self._pause(error, kept_state)
        return None

    def _pause(self, error: HeadwaterError, kept_state: KeptState | None) -> None:
        """Leave the table out from here on that stands in the way.

        Args:
            error: why; kept_state: the state where it stands, None if it may lack rows that it had at first.

        Raises:
            HeadwaterError: no table does alone, or none is to be paused.
        """
        is_left_out = error.table is not None and error.table[0] in self.lake.paused.oids - (self.only or frozenset())
        if not self.pauses or is_left_out:
            raise error
        oid = pause(self.lake, error, kept_state)
        take_back(self.lake, oid, 0 if kept_state is None else kept_state.state.lsn)
        if self.only is not None:
            self.only -= {oid}
        self.tell_watch()

    def tell_watch(self) -> None:
        """Tell who watches which tables are paused."""
        self.watch.paused(waiting(self.lake))

    def _is_over(self, behind: KeptState | None, following: Following | None) -> bool:
        """Tell whether a run is to end before the end of the WAL."""
        is_told = following is not None and following.stopping.is_told
        return is_told or behind is None or (self.until is not None and behind.state.lsn >= self.until)

    @contextmanager
    def _pass(
        self,
        kept_state: KeptState | None,
        directory: WalDirectory | None,
        cut: CrowdedWindowError | None,
        following: Following | None,
    ) -> Iterator[LandingPass]:
        """Begin a pass from a state on, to the end or to where its first window is cut."""
        tables = self.tables or self.request.tables
        opened = self.opened(kept_state, directory, tables if cut is None else replace(tables, oids=cut.oids))
        if cut is not None and cut.cut is not None:
            end = Lsn(scope_of(opened).end_before(cut.cut))
            opened = replace(opened, request=replace(opened.request, end=end))
        wants_existing = _wants_existing(opened, self.lake.target)
        with self.passing(opened, wants_existing, is_followed=following is not None) as landing_pass:
            self._check_settings(opened)
            yield landing_pass

    def _check_settings(self, opened: OpenRequest) -> None:
        """See, once a run, that settings fit the tables that there are where it begins."""
        if self.result.resolved_lsn is None and self.only is None:
            view = opened.store.view(start_of(opened))
            check_settings(self.lake, view, view.tables(), opened.plugin, self.mode)
            self.lake.registry.note_entries()

    @contextmanager
    def passing(self, opened: OpenRequest, wants_existing: bool, *, is_followed: bool) -> Iterator[LandingPass]:
        """Begin a pass, with what hands work to tasks.

        Args:
            opened: from where; wants_existing: rows that were there before have to land yet.
            is_followed: the log is.
        """
        with ExitStack() as stack:
            engine = self.engine.for_bytes(max(0, end_of(opened) - start_of(opened)))
            exchange = stack.enter_context(engine.open_exchange())
            near = stack.enter_context(LocalExchange()) if is_followed else None
            keeps_columns = self.lake.target.schema_evolution == FAIL
            # Once a run: a mirror may be of before it heard of these, and a changelog has no rows to be read.
            is_first = self.result.resolved_lsn is None
            looks_back = is_first and (self.mode.mirrors or (opened.state is None and not wants_existing))
            handing = Handing(
                hand=exchange.hand,
                parallel=engine.parallel,
                mode=self.mode,
                keeps_columns=keeps_columns,
                lo=start_of(opened),
                wants_existing=wants_existing,
                looks_back=looks_back,
                scope=scope_of(opened),
            )
            ahead = WindowPipeline(
                engine, exchange, handing, self.bounds, self.step_progress, self.result.seconds, near
            )
            yield LandingPass(
                ahead=ahead,
                opened=opened,
                lake=self.lake,
                mode=self.mode,
                result=self.result,
                watch=self.watch,
                with_rows=wants_existing,
                engine=self.engine,
                catches_up=self.only is not None,
            )

    def has_all(self, kept_state: KeptState | None) -> bool:
        """Tell whether all tables land that are asked for; others are added, if that can be done at a state.

        Args:
            kept_state: the state; None before there is any.

        Raises:
            LakeError: what has landed would not go on, or another choice is being made.
            HeadwaterError: rows of tables cannot be read or written.
        """
        if self.tables is not None and self.tables == self.request.tables:
            return True
        known, adding, asked = self.lake.registry.chosen, self.lake.registry.adding, self.request.tables
        if adding is not None and adding.tables.as_text != asked.as_text:
            raise is_adding(adding)
        if known is not None and (adding is not None or known.as_text != asked.as_text):
            if kept_state is None or not kept_state.state.control.builder.is_consistent:
                require_all_chosen(self.lake, asked)
                exclude_by_names(self.lake, asked)
            elif not self._added(kept_state, known, adding):
                self.tables = known
                return False
        self.lake.registry.choose(asked)
        self.tables, self.until = asked, None
        return True

    def _added(self, kept_state: KeptState, known: TablePatterns, adding: Adding | None) -> bool:
        """Add tables, as they were where a state is; whether that could be done."""
        lsn = kept_state.state.lsn
        directory = unbroken(GrowingDirectory(self.request.source).look(None), lsn)
        opened = self.opened(kept_state, directory, self.request.tables)
        before = self.row_changes(known, opened.store)
        for oid, name in excluded_tables(opened.store.view(lsn), before, opened.plugin, self.lake):
            exclude(self.lake, oid, name, kept_state)
        tables = added_tables(opened.store, before, opened.plugin, lsn - 1)
        if not tables:
            return True
        if self.lake.target.snapshot == NEVER:
            require_new(self.lake, tables)
            _warn_of_mirrors(self.lake.target)
            return True
        try:
            copy = catalog_of_backup(opened.request, opened.store.database_oid, directory)
            complete = complete_at(copy, directory)
        except AwaitedCatalogError:
            complete = None
        if complete is None or complete > lsn or not self.lake.tables.is_together(lsn):
            if adding is not None:
                raise too_late(adding)
            self.until = None if complete is None else max(complete, lsn + 1)
            return False
        self._load(opened, known, ExistingRows(lsn - 1, copy.start_lsn, tables))
        return True

    def _load(self, opened: OpenRequest, known: TablePatterns, rows: ExistingRows) -> None:
        is_there = False
        while not is_there:
            try:
                self._load_all(opened, known, rows)
                is_there = True
            except HeadwaterError as error:
                self._pause(error, None)
                rest = (table for table in rows.tables if table.source.last.oid not in self.lake.paused.oids)
                rows = replace(rows, tables=tuple(rest))
        self.lake.progress.note_added(rows.lsn + 1)

    def _load_all(self, opened: OpenRequest, known: TablePatterns, rows: ExistingRows) -> None:
        with self.passing(opened, wants_existing=False, is_followed=False) as landing_pass:
            lacking = landing_pass.waiting(rows)
            self.lake.progress.write_state()
            self.lake.registry.note_adding(Adding(self.request.tables, rows.lsn + 1))
            try:
                landing_pass.load(rows, lacking)
            except (CatalogError, WalError):
                # Another backup may be of another LSN, which only tables that have landed rule out.
                if len(landing_pass.waiting(rows)) == len(rows.tables):
                    self.lake.registry.choose(known)
                raise

    def _warn_of_waiting(self, kept_state: KeptState) -> None:
        self.has_warned = True
        where = "that is not in the WAL yet" if self.until is None else f"at {Lsn(self.until)}"
        warn(
            f"tables that are added wait until the backup was complete, {where}; the others have landed up to "
            f"{Lsn(kept_state.state.lsn)}",
            hint="run it again when there is more WAL",
        )


def _cause(
    error: HeadwaterError, cut: CrowdedWindowError | None, causes: dict[int | None, HeadwaterError]
) -> HeadwaterError:
    """Return the error that tells most of why a window cannot land.

    Args:
        error: what has ended a pass; cut: how that was cut.
        causes: why windows were cut so far, by LSNs; gets one more.
    """
    if isinstance(error, CrowdedWindowError):
        if error.cause.hint is not None:  # a refusal, and no mere place for a cut
            causes.setdefault(error.cause.lsn, error.cause)
    elif isinstance(error, AwaitedCatalogError) and cut is not None and cut.cut is not None:
        # A copied catalog is complete after the cut only: so the window cannot be cut.
        return cut.cause
    elif isinstance(error, LakeError) and error.lsn in causes and error.lsn is not None:
        # What was known of the window as a whole says more of a refusal than what is known after the cut.
        cause = causes[error.lsn]
        cause.table = cause.table or error.table
        return cause
    return error


def _wants_existing(opened: OpenRequest, target: LandingTarget) -> bool:
    """Tell whether rows that were there before have to land yet.

    Raises:
        UsageError: they would, and what follows them is left out.
    """
    if target.snapshot == NEVER:
        if opened.state is None:
            _warn_of_mirrors(target)
        return False
    if opened.request.start is not None:
        raise UsageError(
            "existing rows land as of the backup, and changes from a later LSN on would not follow them",
            hint="leave out the start, or land changes only (--snapshot never)",
        )
    return opened.state is None or not opened.state.control.builder.is_consistent


def _warn_of_mirrors(target: LandingTarget) -> None:
    if any(MODES[entry.mode or target.mode].mirrors for entry in (TableSettings(("*",)), *target.tables)):
        warn(
            "mirrors have only rows that came behind the backup: those that tables had before are missing",
            hint="land them, too (--snapshot initial), unless the tables were empty",
        )
