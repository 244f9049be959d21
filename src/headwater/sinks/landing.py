"""WAL landed in change tables: windows planned as the command does, files written by tasks, commits by the driver.

::

    backup  ->  rows that were there before, before the first changes  (sinks/initial_load.py)
    window  ->  tables it has changes of, their columns in the lake  (driver)
            ->  slices: rows of each table into a file under ``staging``  (tasks, which return names and sizes)
            ->  one commit a table, with the LSN of the last transaction in it; then the state behind it all  (driver)

Exactly once: what a table has landed, it says itself, and tasks leave out transactions up to there. So a run that was
killed anywhere begins at the last state that was kept, and what it lands again is only what is missing. Files that no
commit names are nobody's.

Known gaps: not current rows; a table that is dropped and made again under its name is an error; so is a
column whose type changes inside a window to one that is not read from the text of the old one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
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
from headwater.sinks.existing_rows import ExistingRows, consistent_point, existing_rows
from headwater.sinks.initial_load import InitialLoad, TableLoad
from headwater.sinks.lake import NEVER, Lake, LandingTarget
from headwater.sinks.lake_table import DataFile, LakeTable, Landed, file_name
from headwater.sinks.parquet_files import write_parquet
from headwater.sinks.source_tables import SourceTable, change_table, source_tables
from headwater.slots.kept_state import KeptState

_SLICE_BYTES = 64 << 20


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
        opened = open_request(request, partial(_row_changes, request), kept)
        told = None if progress is None else StepProgress(progress)
        wants_existing = _wants_existing(opened, target)
        handing = _Handing(exchange.hand, start_of(opened), wants_existing)
        return _Landing(PlannedAhead(spark, exchange, handing, bounds, told), opened, lake, wants_existing).run()


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


def _row_changes(request: DecodeRequest, store: CatalogStore) -> RowChanges:
    return RowChanges(TableChoice(request.tables), (), store.major, encoding=store.encoding)


@dataclass(frozen=True)
class _Part:
    """A window on its way to the tasks.

    Attributes:
        slices: ready for tasks; tables: that they have changes of.
        kept: the state behind it.
        existing: rows that land before its changes, if decoding begins in it; transactions that they have do not land
            again.
    """

    slices: list[Handed[Slice]]
    tables: list[SourceTable]
    kept: KeptState
    existing: ExistingRows | None


@dataclass
class _Handing:
    """Makes parts, in the thread that plans.

    Attributes:
        hand: a slice; lo: LSN where the next window begins.
        wants_existing: rows that were there before have to land yet.
    """

    hand: Callable[[Slice], Handed[Slice]]
    lo: int
    wants_existing: bool

    def __call__(self, plan: DatabasePlan, window: PlannedWindow) -> _Part:
        """See :data:`headwater.pipeline.planned_ahead.Hand`."""
        (assembly,), behind = window.assemblies, window.behind
        existing = self._existing(plan, window)
        since = -1 if existing is None else existing.lsn
        tables = source_tables(assembly.plan, behind.store, self.lo, window.hi, since)
        self.lo = window.hi
        slices = [self.hand(one) for one in cut_slices(assembly.plan, _SLICE_BYTES)]
        settings = settings_together(output.opened for output in plan.outputs)
        return _Part(slices, tables, KeptState(plan.state_behind(behind), settings), existing)

    def _existing(self, plan: DatabasePlan, window: PlannedWindow) -> ExistingRows | None:
        lsn = consistent_point(window) if self.wants_existing else None
        if lsn is None:
            return None
        self.wants_existing = False
        return existing_rows(window.behind.store, plan.opened.plugin, lsn)


@dataclass(frozen=True)
class _Written:
    """A file that a task has written.

    Attributes:
        table: the number of its table in the window; file: it; last: START of the last commit record in it.
    """

    table: int
    file: DataFile
    last: int


@dataclass
class _Landing:
    """One call of :func:`land`."""

    ahead: PlannedAhead[_Part]
    opened: OpenRequest
    lake: Lake
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
        tables = [self._table(one) for one in part.tables]
        forms = [
            self._form(source, table, name, since) for source, (name, table) in zip(part.tables, tables, strict=True)
        ]
        for number, files in self._written(part.slices, forms).items():
            self._commit(*tables[number], forms[number].schema, files)
        self.lake.resolve(part.kept)

    def _table(self, source: SourceTable) -> tuple[str, LakeTable]:
        begins_at = self.opened.store.start_lsn if self.opened.state is None else 0
        return self.lake.table(source.last, self._source, begins_at)

    def _form(self, source: SourceTable, table: LakeTable, name: str, since: int) -> ChangeTable:
        form = change_table(source, table, name, self.lake.target)
        return replace(form, landed=max(form.landed, since))

    def _load(self, rows: ExistingRows) -> None:
        """Land rows that were there before, but of tables that have them."""
        tables = [(one, *self._table(one.source)) for one in rows.tables]
        waiting = [(one, name, table) for one, name, table in tables if table.landed.commit_lsn < rows.lsn]
        late = next(((name, table) for _, name, table in waiting if table.landed.commit_lsn >= 0), None)
        if late is not None:
            raise LakeError(
                f"table {late[0]} has landed up to {Lsn(late[1].landed.commit_lsn)}, its rows of {Lsn(rows.lsn)} would "
                "come twice",
                file=str(self.lake.target.place),
                hint="land to another place",
            )
        loads = [TableLoad(one, self._form(one.source, table, name, -1)) for one, name, table in waiting]

        def commit(number: int, files: list[DataFile]) -> None:
            _, name, table = waiting[number]
            self._committed(name, table, Landed(rows.lsn, loads[number].form.schema, self._source), files)

        with timed(self.ahead.seconds, "existing rows"):
            load = InitialLoad(self.opened, rows, loads, self.lake.scratch)
            load.run(self.ahead.spark.sparkContext, self.ahead.exchange, commit, self.ahead.job_progress())

    def _written(self, slices: Sequence[Handed[Slice]], forms: Sequence[ChangeTable]) -> dict[int, list[_Written]]:
        """What tasks have written, by table."""
        decoder = SliceDecoder(self.opened.directory, self.opened.plugin, self.opened.session)
        found: dict[int, list[_Written]] = {}
        progress = self.ahead.job_progress()
        with self.ahead.exchange.run("land", partial(_write, decoder, forms), slices, progress) as arriving:
            for (arrived,) in arriving:
                arrived.remove()
                for one in arrived.summary:
                    found.setdefault(one.table, []).append(one)
        return found

    def _commit(self, name: str, table: LakeTable, schema: pa.Schema, files: Sequence[_Written]) -> None:
        last = max(one.last for one in files)
        self._committed(name, table, Landed(last, schema, self._source), [one.file for one in files])

    def _committed(self, name: str, table: LakeTable, landed: Landed, files: list[DataFile]) -> None:
        table.commit(files, landed)
        if files:
            self.result.rows[name] = self.result.rows.get(name, 0) + sum(file.rows for file in files)
        self.result.files += len(files)
        self.result.bytes += sum(file.size for file in files)


def _write(decoder: SliceDecoder, forms: Sequence[ChangeTable], task: Handed[Slice]) -> Iterator[Write[list[_Written]]]:
    """Runs once per slice, in a task: one file for each table."""

    def write(_: BinaryIO) -> list[_Written]:
        located = decoder.located(task.load())
        found = [(number, form.rows(located)) for number, form in enumerate(forms)]
        return [_file(number, forms[number].staging, rows) for number, rows in found if rows is not None]

    yield write


def _file(number: int, place: str, rows: pa.Table) -> _Written:
    """Write rows into a file of a name that no other attempt has; it is on the disk then."""
    first, last = (pc.min_max(rows["_commit_lsn"])[bound].as_py() for bound in ("min", "max"))
    name = file_name(last)
    size = write_parquet(rows, os.path.join(place, name))
    return _Written(number, DataFile(name, rows.num_rows, size, {"_commit_lsn": first}, {"_commit_lsn": last}), last)
