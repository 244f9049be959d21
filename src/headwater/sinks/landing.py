"""WAL landed in change tables: windows planned as the command does, files written by tasks, commits by the driver.

::

    backup  ->  rows that were there before, as of where decoding begins  (sinks/initial_load.py)
    window  ->  tables it has changes of, their columns in the lake  (driver)
            ->  slices: rows of each table into a file under ``staging``  (tasks, which return names and sizes)
            ->  of mirrors: these merged into groups of files  (tasks)
            ->  one commit a table, with the LSN of the last transaction in it; then the state behind it all  (driver)

What is kept of the source, its changes or its rows, is a value (:mod:`headwater.sinks.modes`); the flow is one.

Exactly once: what a table has landed, it says itself, and tasks leave out transactions up to there. So a run that was
killed anywhere begins at the last state that was kept, and what it lands again is only what is missing. Files that no
commit names are nobody's.

Known gaps: a table that is dropped and made again under its name is an error; so is a column whose type changes inside
a window to one that is not read from the text of the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from headwater.catalog.store import CatalogStore
from headwater.errors import LakeError, UsageError
from headwater.pg.lsn import Lsn
from headwater.pipeline.database_plan import DatabasePlan, PlannedWindow
from headwater.pipeline.decode_job import SliceDecoder
from headwater.pipeline.exchange import Handed, Write
from headwater.pipeline.exchange_choice import open_exchange
from headwater.pipeline.open_output import OpenOutput, scope_of
from headwater.pipeline.planned_ahead import PlannedAhead, StepProgress, start_of, timed
from headwater.pipeline.request import DecodeRequest, OpenRequest, check_database, open_request, settings_together
from headwater.pipeline.row_changes import RowChanges, TableChoice
from headwater.pipeline.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.pipeline.task_run import Progress
from headwater.reorder.cutting import cut_slices
from headwater.reorder.plan import Slice
from headwater.sinks.change_rows import ChangeTable
from headwater.sinks.data_files import write_data_file
from headwater.sinks.existing_rows import ExistingRows, consistent_point, existing_rows
from headwater.sinks.initial_load import InitialLoad, TableLoad
from headwater.sinks.lake import NEVER, Lake, LandingTarget
from headwater.sinks.lake_table import DataFile, LakeTable, Landed, TableCommit, file_name
from headwater.sinks.mirror import Merge, Merged
from headwater.sinks.modes import MODES, Mode, Settled, Written, notes
from headwater.sinks.source_tables import SourceTable
from headwater.slots.kept_state import KeptState

_SLICE_BYTES = 64 << 20
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass
class LandingResult:
    """What has landed.

    Attributes:
        rows: by table; files: how many; bytes: theirs.
        resolved_lsn: LSN up to which all tables have everything; None if there was no window.
        seconds: wall-clock time of each step.
    """

    rows: dict[str, int] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    resolved_lsn: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)


def land(
    spark: SparkSession,
    request: DecodeRequest,
    target: LandingTarget,
    progress: Progress | None = None,
    bounds: WindowBounds = DEFAULT_BOUNDS,
) -> LandingResult:
    """Land the changes of a window of WAL, from where the last run has come to.

    Args:
        spark: the session whose workers write.
        request: the window, and which tables.
        target: where to.
        progress: called with (step, tasks done, tasks in all).
        bounds: of what is committed at a time.

    Raises:
        LakeError: the tables cannot be written, or are another's.
        HeadwaterError: any reason not to decode. What was committed stays.
    """
    with open_exchange(spark.sparkContext) as exchange, Lake(target) as lake:
        kept = lake.kept()
        if kept is not None:
            check_database(kept.state, request, str(target.place))
        mode = MODES[target.mode]
        opened = open_request(request, partial(_row_changes, request, mode), kept)
        told = None if progress is None else StepProgress(progress)
        wants_existing = _wants_existing(opened, target)
        handing = _Handing(exchange.hand, mode, start_of(opened), wants_existing)
        return _Landing(PlannedAhead(spark, exchange, handing, bounds, told), opened, lake, mode, wants_existing).run()


def _wants_existing(opened: OpenRequest, target: LandingTarget) -> bool:
    """Whether rows that were there before have to land yet.

    Raises:
        UsageError: they would, and what follows them is left out.
    """
    if target.snapshot == NEVER:
        return False
    if opened.request.start is not None:
        raise UsageError(
            "existing rows land as of the backup, and changes from a later LSN on would not follow them",
            hint="leave out the start, or land changes only (--snapshot never)",
        )
    return opened.state is None or not opened.state.control.builder.is_consistent


def _row_changes(request: DecodeRequest, mode: Mode, store: CatalogStore) -> RowChanges:
    return RowChanges(TableChoice(request.tables), (), store.major, encoding=store.encoding, mirrors=mode.mirrors)


@dataclass(frozen=True)
class _Part:
    """A window on its way to the tasks.

    Attributes:
        slices: ready for tasks; tables: that they have changes of.
        kept: the state behind it.
        commit_time: of the last transaction up to there; None where that is not known.
        existing: rows that land before its changes, if decoding begins in it; transactions that they have do not land
            again.
    """

    slices: list[Handed[Slice]]
    tables: list[SourceTable]
    kept: KeptState
    commit_time: datetime | None
    existing: ExistingRows | None


@dataclass
class _Handing:
    """Makes parts, in the thread that plans.

    Attributes:
        hand: a slice; mode: what is kept.
        lo: LSN where the next window begins.
        wants_existing: rows that were there before have to land yet.
    """

    hand: Callable[[Slice], Handed[Slice]]
    mode: Mode
    lo: int
    wants_existing: bool

    def __call__(self, plan: DatabasePlan, window: PlannedWindow) -> _Part:
        """See :data:`headwater.pipeline.planned_ahead.Hand`."""
        (assembly,), behind = window.assemblies, window.behind
        view, plugin = behind.store.view(window.hi), plan.opened.plugin
        existing = self._existing(plan, window)
        lo = self.lo if existing is None else existing.lsn + 1
        tables = self.mode.tables(
            assembly.plan, behind.store, lo, window.hi, lambda schema: bool(plugin.wants(schema, view))
        )
        self.lo = behind.lsn  # a record that crosses the end of the window was its last
        slices = [self.hand(one) for one in cut_slices(assembly.plan, _SLICE_BYTES)]
        settings = settings_together(output.opened for output in plan.outputs)
        kept, time = KeptState(plan.state_behind(behind), settings), assembly.plan.last.time
        return _Part(slices, tables, kept, _EPOCH + timedelta(microseconds=time) if time else None, existing)

    def _existing(self, plan: DatabasePlan, window: PlannedWindow) -> ExistingRows | None:
        lsn = consistent_point(window) if self.wants_existing else None
        if lsn is None:
            return None
        self.wants_existing = False
        return existing_rows(window.behind.store, plan.opened.plugin, lsn)


@dataclass
class _Landing:
    """One call of :func:`land`."""

    ahead: PlannedAhead[_Part]
    opened: OpenRequest
    lake: Lake
    mode: Mode
    with_rows: bool
    result: LandingResult = field(default_factory=LandingResult)

    def run(self) -> LandingResult:
        """Window by window."""
        self.lake.require_source(self._source)
        plan = DatabasePlan([OpenOutput(self.opened, scope_of(self.opened))], has_rows=self.with_rows)
        with closing(self.ahead.windows([plan])) as windows:
            for window in windows:
                (part,) = window.parts
                with timed(self.ahead.seconds, "land"):
                    self._land(part)
                self.result.resolved_lsn = window.hi
        self.result.seconds = self.ahead.seconds
        return self.result

    @property
    def _source(self) -> str:
        return f"{self.opened.directory.system_identifier}/{self.opened.store.database_oid}"

    def _land(self, part: _Part) -> None:
        since = -1
        if part.existing is not None:
            self._load(part.existing)
            since = part.existing.lsn
        decoder = self._decoder
        concerned = [one for one in part.tables if self.mode.concerns(one, self.lake)]
        landings = [
            self.mode.landing(number, one, self._table(one), self.lake, decoder) for number, one in enumerate(concerned)
        ]
        forms = [replace(one.changes, landed=max(one.changes.landed, since)) for one in landings]
        written = self._written(decoder, part.slices, forms)
        self.lake.commit([self._commit(one) for one in self.mode.settled(landings, written, self._merged)])
        self.lake.clear_staging()
        self.lake.resolve(part.kept, part.commit_time)

    @property
    def _decoder(self) -> SliceDecoder:
        return SliceDecoder(self.opened.directory, self.opened.plugin, self.opened.session)

    def _table(self, source: SourceTable) -> tuple[str, LakeTable]:
        begins_at = self.opened.store.start_lsn if self.opened.state is None else 0
        return self.lake.table(source.last, self._source, begins_at)

    def _load(self, rows: ExistingRows) -> None:
        """Land rows that were there before, but of tables that have them."""
        loads: list[TableLoad] = []
        for one in rows.tables:
            name, table = self._table(one.source)
            if table.landed.commit_lsn < rows.lsn:
                self._require_new(name, table, rows.lsn)
                landing = self.mode.landing(len(loads), one.source, (name, table), self.lake, self._decoder)
                loads.append(TableLoad.of(one, landing))

        def commit(number: int, files: list[DataFile]) -> None:
            landing = loads[number].landing
            settled = Settled(landing, files, [], rows.lsn, sum(file.rows for file in files))
            self.lake.commit([self._commit(settled)])

        with timed(self.ahead.seconds, "existing rows"):
            load = InitialLoad(self.opened, rows, loads, self.lake.scratch)
            load.run(self.ahead.spark.sparkContext, self.ahead.exchange, commit, self.ahead.job_progress())

    def _require_new(self, name: str, table: LakeTable, lsn: int) -> None:
        """See that a table has no changes from before its rows."""
        if table.landed.commit_lsn >= 0:
            raise LakeError(
                f"table {name} has landed up to {Lsn(table.landed.commit_lsn)}: its rows as of {Lsn(lsn)} would come "
                "twice",
                file=str(self.lake.target.place),
                hint="land to another place",
            )

    def _written(
        self, decoder: SliceDecoder, slices: Sequence[Handed[Slice]], forms: Sequence[ChangeTable]
    ) -> dict[int, list[Written]]:
        """What tasks have written, by table, in the order of the output."""
        found: dict[int, list[Written]] = {}
        progress = self.ahead.job_progress()
        with self.ahead.exchange.run("land", partial(_write, decoder, forms), slices, progress) as arriving:
            for (arrived,) in arriving:
                arrived.remove()
                for one in arrived.summary:
                    found.setdefault(one.table, []).append(one)
        return found

    def _merged(self, merges: Sequence[Merge]) -> list[Merged]:
        """What tasks have merged."""
        found: list[Merged] = []
        with self.ahead.exchange.run("merge", _merge, merges, self.ahead.job_progress()) as arriving:
            for (arrived,) in arriving:
                arrived.remove()
                found.append(arrived.summary)
        return found

    def _commit(self, settled: Settled) -> TableCommit:
        name, added = settled.landing.name, settled.added
        if settled.rows:
            self.result.rows[name] = self.result.rows.get(name, 0) + settled.rows
        self.result.files += len(added)
        self.result.bytes += sum(file.size for file in added)
        landed = Landed(settled.last, settled.landing.schema, self._source)
        return TableCommit(settled.landing.table, added, landed, settled.removed)


def _write(decoder: SliceDecoder, forms: Sequence[ChangeTable], task: Handed[Slice]) -> Iterator[Write[list[Written]]]:
    """Runs once per slice, in a task: one file for each table."""

    def write(_: BinaryIO) -> list[Written]:
        located = decoder.located(task.load())
        found = [(number, form.rows(located)) for number, form in enumerate(forms)]
        return [_file(number, forms[number].staging, rows) for number, rows in found if rows is not None]

    yield write


def _merge(task: Merge) -> Iterator[Write[Merged]]:
    """Runs once per group of a mirror's files, in a task."""
    yield lambda _: task.run()


def _file(number: int, place: str, rows: pa.Table) -> Written:
    """Write rows into a file of a name that no other attempt has."""
    last = pc.max(rows["_commit_lsn"]).as_py()
    return notes(number, write_data_file(rows, place, file_name(last)), last, rows)
