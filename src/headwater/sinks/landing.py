"""WAL landed in change tables: windows planned as the command does, files written by tasks, commits by the driver.

::

    window  ->  tables it has changes of, their columns in the lake  (driver)
            ->  slices: rows of each table into a file under ``staging``  (tasks, which return names and sizes)
            ->  one commit a table, with the LSN of the last transaction in it; then the state behind it all  (driver)

Exactly once: what a table has landed, it says itself, and tasks leave out transactions up to there. So a run that was
killed anywhere begins at the last state that was kept, and what it lands again is only what is missing. Files that no
commit names are nobody's.

Known gaps: changes only, not current rows; a table that is dropped and made again under its name is an error; so is a
column whose type changes inside a window to one that is not read from the text of the old one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from headwater.catalog.store import CatalogStore
from headwater.pipeline.database_plan import DatabasePlan, PlannedWindow
from headwater.pipeline.decode_job import SliceDecoder
from headwater.pipeline.exchange import Handed, Write
from headwater.pipeline.exchange_choice import open_exchange
from headwater.pipeline.following import Following
from headwater.pipeline.open_output import OpenOutput, scope_of
from headwater.pipeline.planned_ahead import PlannedAhead, StepProgress, start_of, timed
from headwater.pipeline.request import DecodeRequest, OpenRequest, check_database, open_request, settings_together
from headwater.pipeline.row_batches import POSTGRES_EPOCH
from headwater.pipeline.row_changes import RowChanges, TableChoice
from headwater.pipeline.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.pipeline.task_run import Progress
from headwater.reorder.cutting import cut_slices
from headwater.reorder.plan import Slice
from headwater.sinks.change_rows import ChangeTable
from headwater.sinks.lake import Lake, LandingTarget
from headwater.sinks.lake_table import DataFile, LakeTable, Landed, file_name
from headwater.sinks.landing_watch import NOBODY_WATCHES, CommittedTable, LandedWindow, LandingWatch
from headwater.sinks.source_tables import SourceTable, change_table, source_tables
from headwater.slots.kept_state import KeptState
from headwater.wal.directory import WalDirectory

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
    following: Following | None = None,
    watch: LandingWatch = NOBODY_WATCHES,
) -> LandingResult:
    """Land the changes of a window of WAL, from where the last run has come to.

    Args:
        spark: the session whose workers write.
        request: the window, and which tables.
        target: where to.
        progress: called with (step, tasks done, tasks in all).
        bounds: of what is committed at a time.
        following: how to go on behind the end of the log until the run is told to end; None to end there.
        watch: told of what has landed.

    Raises:
        LakeError: the tables cannot be written, or are another's.
        HeadwaterError: any reason not to decode. What was committed stays.
    """
    with Lake(target) as lake:
        kept = lake.kept()
        if kept is not None:
            check_database(kept.state, request, str(target.place))
        told = None if progress is None else StepProgress(progress)
        run = _Run(spark, lake, bounds, told, watch)
        if following is None:
            run.go(_opened(request, kept))
            return run.result
        return _followed(run, request, kept, following)


def _opened(request: DecodeRequest, kept: KeptState | None, directory: WalDirectory | None = None) -> OpenRequest:
    return open_request(request, partial(_row_changes, request), kept, directory)


def _followed(run: _Run, request: DecodeRequest, kept: KeptState | None, following: Following) -> LandingResult:
    """Pass by pass, each to the end of what is there, until it is told to end."""
    while kept is None:
        # An early look may find a copied catalog that is not complete yet: then none of it has landed.
        made = following.when_there(lambda: run.go(_opened(request, None, following.look(None)), following))
        if made is None:
            return run.result
        kept = made
    while (directory := following.behind(kept)) is not None:
        kept = run.go(_opened(request, kept, directory), following) or kept
    return run.result


def _row_changes(request: DecodeRequest, store: CatalogStore) -> RowChanges:
    return RowChanges(TableChoice(request.tables), (), store.major, encoding=store.encoding)


@dataclass(frozen=True)
class _Part:
    """A window on its way to the tasks.

    Attributes:
        slices: ready for tasks; tables: that they have changes of.
        kept: the state behind it.
        transactions: how many it has; last_commit: when the last of them committed, in seconds since 1970, None for
            none.
        is_last: nothing follows it in the pass.
    """

    slices: list[Handed[Slice]]
    tables: list[SourceTable]
    kept: KeptState
    transactions: int
    last_commit: float | None
    is_last: bool


@dataclass
class _Handing:
    """Makes parts, in the thread that plans.

    Attributes:
        hand: a slice; lo: LSN where the next window begins.
    """

    hand: Callable[[Slice], Handed[Slice]]
    lo: int

    def __call__(self, plan: DatabasePlan, window: PlannedWindow) -> _Part:
        """See :data:`headwater.pipeline.planned_ahead.Hand`."""
        (assembly,), behind = window.assemblies, window.behind
        tables = source_tables(assembly.plan, behind.store, self.lo, window.hi)
        self.lo = window.hi
        slices = [self.hand(one) for one in cut_slices(assembly.plan, _SLICE_BYTES)]
        settings = settings_together(output.opened for output in plan.outputs)
        times = assembly.plan.units.commit_time[~assembly.plan.units.is_bare]
        last = None if not len(times) else (int(times[-1]) + POSTGRES_EPOCH) / 1_000_000
        kept = KeptState(plan.state_behind(behind), settings)
        return _Part(slices, tables, kept, len(times), last, window.is_last)


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
class _Run:
    """One call of :func:`land`: passes over WAL, one if it is not followed.

    Attributes:
        spark, bounds, told: see :class:`~headwater.pipeline.planned_ahead.PlannedAhead`.
        lake: where to; watch: told of what has landed.
        result: of all passes so far.
    """

    spark: SparkSession
    lake: Lake
    bounds: WindowBounds
    told: StepProgress | None
    watch: LandingWatch
    result: LandingResult = field(default_factory=LandingResult)

    def go(self, opened: OpenRequest, following: Following | None = None) -> KeptState | None:
        """Land from where a request begins to the end of its WAL.

        Returns:
            the state behind it; None if it was told to end before any.
        """
        with open_exchange(self.spark.sparkContext) as exchange:
            handing = _Handing(exchange.hand, start_of(opened))
            ahead = PlannedAhead(self.spark, exchange, handing, self.bounds, self.told, self.result.seconds)
            return _Landing(ahead, opened, self.lake, self.result, self.watch).run(following)


@dataclass
class _Landing:
    """One pass."""

    ahead: PlannedAhead[_Part]
    opened: OpenRequest
    lake: Lake
    result: LandingResult
    watch: LandingWatch

    def run(self, following: Following | None) -> KeptState | None:
        """Window by window; see :meth:`_Run.go`."""
        self.lake.require_source(self._source)
        plan = DatabasePlan([OpenOutput(self.opened, scope_of(self.opened))], goes_on=following is not None)
        kept: KeptState | None = None
        lo = start_of(self.opened)
        self.watch.begins(lo, self._end(following, lo))
        with closing(self.ahead.windows([plan])) as windows:
            for window in windows:
                (part,) = window.parts
                before, began = replace(self.result, rows=dict(self.result.rows)), time.monotonic()
                with timed(self.ahead.seconds, "land"):
                    self._land(part)
                kept, self.result.resolved_lsn = part.kept, window.hi
                self.watch.passed(self._passed(lo, window.hi, part, before, time.monotonic() - began, following))
                lo = window.hi
                if following is not None and following.stopping.is_told:
                    break
        return kept

    def _end(self, following: Following | None, lsn: int) -> int:
        """Where the log ends, as far as that is known."""
        if following is not None:
            return following.end(lsn)
        asked, there = self.opened.request.end, self.opened.directory.stop_lsn
        return max(lsn, there if asked is None else min(asked, there))

    def _passed(
        self, lo: int, hi: int, part: _Part, before: LandingResult, seconds: float, following: Following | None
    ) -> LandedWindow:
        return LandedWindow(
            lo=lo,
            hi=hi,
            end=self._end(following, hi) if following is not None or not part.is_last else hi,
            rows=sum(self.result.rows.values()) - sum(before.rows.values()),
            files=self.result.files - before.files,
            bytes=self.result.bytes - before.bytes,
            transactions=part.transactions,
            last_commit=part.last_commit,
            landed_at=time.time(),
            seconds=seconds,
        )

    @property
    def _source(self) -> str:
        return f"{self.opened.directory.system_identifier}/{self.opened.store.database_oid}"

    def _land(self, part: _Part) -> None:
        begins_at = self.opened.store.start_lsn if self.opened.state is None else 0
        tables = [self.lake.table(one.last, self._source, begins_at) for one in part.tables]
        forms = [
            change_table(source, table, name, self.lake.target)
            for source, (name, table) in zip(part.tables, tables, strict=True)
        ]
        for number, files in self._written(part.slices, forms).items():
            self._commit(*tables[number], forms[number].schema, files)
        self.lake.resolve(part.kept)

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
        last, began = max(one.last for one in files), time.monotonic()
        table.commit([one.file for one in files], Landed(last, schema, self._source))
        rows, size = sum(one.file.rows for one in files), sum(one.file.size for one in files)
        self.result.rows[name] = self.result.rows.get(name, 0) + rows
        self.result.files += len(files)
        self.result.bytes += size
        self.watch.committed(CommittedTable(name, rows, len(files), size, time.monotonic() - began))


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
    with open(os.path.join(place, name), "xb") as sink:
        pq.write_table(rows, sink, compression="zstd")
        sink.flush()
        os.fsync(sink.fileno())
        size = sink.tell()
    return _Written(number, DataFile(name, rows.num_rows, size, {"_commit_lsn": first}, {"_commit_lsn": last}), last)
