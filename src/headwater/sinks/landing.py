"""WAL landed in a lake: windows planned as the command does, files written by tasks, commits by the driver.

::

    backup  ->  rows that were there before, before the first changes  (sinks/initial_load.py)
    window  ->  tables it has changes of, their columns in the lake  (driver)
            ->  slices: rows of each table into a file under ``staging``  (tasks, which return names and sizes)
            ->  of mirrors: these merged into groups of files  (tasks)
            ->  one commit a table, with the LSN of the last transaction in it; then the state behind it all  (driver)

A run is one pass over the WAL (:mod:`headwater.sinks.landing_pass`) or, where the log is followed, pass after pass,
each to the end of what is there.

Exactly once: what a table has landed, it says itself, and tasks leave out transactions up to there. So a run that was
killed anywhere begins at the last state that was kept, and what it lands again is only what is missing. Files that no
commit names are nobody's.

Known gaps: a table that is dropped and made again under its name is an error; so is a column whose type changes inside
a window to one that is not read from the text of the old one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession

from headwater.catalog.store import CatalogStore
from headwater.errors import UsageError, warn
from headwater.pipeline.exchange_choice import open_exchange
from headwater.pipeline.following import Following
from headwater.pipeline.planned_ahead import PlannedAhead, StepProgress, start_of
from headwater.pipeline.request import DecodeRequest, OpenRequest, check_database, open_request
from headwater.pipeline.row_changes import RowChanges, TableChoice
from headwater.pipeline.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.pipeline.task_run import Progress
from headwater.sinks.lake import NEVER, Lake, LandingTarget
from headwater.sinks.landing_pass import Handing, LandingPass, LandingResult
from headwater.sinks.landing_watch import NOBODY_WATCHES, LandingWatch
from headwater.sinks.modes import MODES, Mode
from headwater.slots.kept_state import KeptState
from headwater.wal.directory import WalDirectory


def land(
    spark: SparkSession,
    request: DecodeRequest,
    target: LandingTarget,
    progress: Progress | None = None,
    bounds: WindowBounds = DEFAULT_BOUNDS,
    following: Following | None = None,
    watch: LandingWatch = NOBODY_WATCHES,
) -> LandingResult:
    """Land a window of WAL, from where the last run has come to.

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
        lake.require_tables(request.tables)
        kept = lake.kept()
        if kept is not None:
            check_database(kept.state, request, str(target.place))
        told = None if progress is None else StepProgress(progress)
        run = _Run(spark, request, lake, bounds, told, watch)
        if following is None:
            run.go(run.opened(kept))
        else:
            run.follow(kept, following)
        return run.result


@dataclass
class _Run:
    """One call of :func:`land`: passes over WAL, one if it is not followed.

    Attributes:
        spark, bounds, told: see :class:`~headwater.pipeline.planned_ahead.PlannedAhead`.
        request: the window.
        lake: where to; watch: told of what has landed.
        result: of all passes so far.
    """

    spark: SparkSession
    request: DecodeRequest
    lake: Lake
    bounds: WindowBounds
    told: StepProgress | None
    watch: LandingWatch
    result: LandingResult = field(default_factory=LandingResult)

    @property
    def mode(self) -> Mode:
        """What is kept of the source."""
        return MODES[self.lake.target.mode]

    def opened(self, kept: KeptState | None, directory: WalDirectory | None = None) -> OpenRequest:
        """The request from where the last run has come to, or from the backup."""
        return open_request(self.request, partial(_row_changes, self.request, self.mode), kept, directory)

    def follow(self, kept: KeptState | None, following: Following) -> None:
        """Pass by pass, each to the end of what is there, until it is told to end."""
        while kept is None:
            # An early look may find a copied catalog that is not complete yet: then none of it has landed.
            made = following.when_there(lambda: self.go(self.opened(None, following.look(None)), following))
            if made is None:
                return
            kept = made
        while (directory := following.behind(kept)) is not None:
            kept = self.go(self.opened(kept, directory), following) or kept

    def go(self, opened: OpenRequest, following: Following | None = None) -> KeptState | None:
        """Land from where a request begins to the end of its WAL.

        Returns:
            the state behind it; None if it was told to end before any.
        """
        wants_existing = _wants_existing(opened, self.lake.target)
        with open_exchange(self.spark.sparkContext) as exchange:
            parallel = self.spark.sparkContext.defaultParallelism
            handing = Handing(exchange.hand, parallel, self.mode, start_of(opened), wants_existing)
            ahead = PlannedAhead(self.spark, exchange, handing, self.bounds, self.told, self.result.seconds)
            return LandingPass(ahead, opened, self.lake, self.mode, self.result, self.watch, wants_existing).run(
                following
            )


def _wants_existing(opened: OpenRequest, target: LandingTarget) -> bool:
    """Whether rows that were there before have to land yet.

    Raises:
        UsageError: they would, and what follows them is left out.
    """
    if target.snapshot == NEVER:
        if MODES[target.mode].mirrors and opened.state is None:
            warn(
                "mirrors have only rows that came behind the backup: those that tables had before are missing",
                hint="land them, too (--snapshot initial), unless the tables were empty",
            )
        return False
    if opened.request.start is not None:
        raise UsageError(
            "existing rows land as of the backup, and changes from a later LSN on would not follow them",
            hint="leave out the start, or land changes only (--snapshot never)",
        )
    return opened.state is None or not opened.state.control.builder.is_consistent


def _row_changes(request: DecodeRequest, mode: Mode, store: CatalogStore) -> RowChanges:
    return RowChanges(TableChoice(request.tables), (), store.major, encoding=store.encoding, mirrors=mode.mirrors)
