"""The changes of a logical slot landed in a lake, where the server's WAL is not to be had.

::

    window  ->  whole transactions, from one LSN to another  (remote_slots/slot_stream.py)
            ->  tables that it has changes of, their columns in the lake
            ->  pieces: rows of each table into a file under ``staging``; of mirrors: these merged
            ->  one commit a table, with the LSN of the last transaction in it; then the note of how far all have come
            ->  the slot is confirmed up to there

All of it runs in this process. Exactly once, as landing from WAL: what a table has landed, it says itself, so a run
that was killed anywhere leaves out what the server sends again.

Known gaps: tables are not paused, nor split by their columns. Rows from before the slot do not land.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, cast

import numpy as np

from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError, UsageError, errors_of_table, warn
from headwater.lakes.data_files import write_data_file
from headwater.lakes.lake_schema import SPLIT, LakeSchema
from headwater.lakes.lake_table import file_name
from headwater.lakes.landing_target import NEVER, LandingTarget
from headwater.lakes.target_directory import Lake
from headwater.landing.landing_modes import Mode, mode_of
from headwater.landing.landing_pass import LandingResult, moment
from headwater.landing.landing_watch import NOBODY_WATCHES, LandedWindow, LandingWatch
from headwater.landing.mirrors.landed_files import Landing, Merging, Settled, Written, notes
from headwater.landing.slot_progress import SlotProgress
from headwater.landing.tables.change_rows import STAGED, ChangeTable
from headwater.landing.tables.source_tables import SourceTable, with_dropped
from headwater.landing.tables.table_events import TableStory, identity_of
from headwater.landing.window_commits import commit_tables
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.window_pipeline import timed
from headwater.plugins.table_patterns import EVERY_TABLE, TablePatterns, qualified_name
from headwater.remote_slots.announced_relations import AnnouncedRelations
from headwater.remote_slots.printed_slices import PrintedSlice, SliceReader
from headwater.remote_slots.server_types import ServerTypes
from headwater.remote_slots.slot_address import SlotAddress
from headwater.remote_slots.slot_connection import SlotFacts, conninfo_of
from headwater.remote_slots.slot_stream import SlotStream, SlotWindow
from headwater.rows.session import SessionSettings

if TYPE_CHECKING:
    from headwater.pipeline.windows.commit_pace import CommitPace
    from headwater.pipeline.windows.following import Stopping


PATIENCE_SECONDS = 60.0
"""How long a server is waited for that is to be asked for types, where its slot is followed."""

MOST_BYTES = 128 << 20
"""Of a slot's stream that are committed at a time: while a window lands, the next one is received."""


@dataclass(frozen=True)
class SlotRequest:
    """A request to land from a slot.

    Attributes:
        address: the slot's; tables: which of the publications' tables land.
        end: LSN to stop at; None for what the server has when the run begins.
        window_bytes: of the stream that are committed at a time.
        stopping: the run goes on until this is told; None to end at the end.
        pace: of commits where it goes on; None for as soon as there is anything.
    """

    address: SlotAddress
    tables: TablePatterns = EVERY_TABLE
    end: int | None = None
    window_bytes: int = MOST_BYTES
    stopping: Stopping | None = None
    pace: CommitPace | None = None


def land_slot(request: SlotRequest, target: LandingTarget, watch: LandingWatch = NOBODY_WATCHES) -> LandingResult:
    """Land the changes of a slot, from where the last run has come to.

    Args:
        request: the slot; target: where to; watch: hears of what has landed.

    Raises:
        UsageError: the target cannot be kept so from a slot.
        ServerError: the server refuses, or the slot does not have what is lacking.
        LakeError: the tables cannot be written, or are another's.
        HeadwaterError: any other reason not to go on. What was committed stays.
    """
    _check(target)
    with Lake(target) as lake:
        progress = SlotProgress(lake, request.address)
        stopping = request.stopping
        with SlotStream(
            request.address,
            lake.scratch,
            progress.reached,
            follows=stopping is not None,
            end=request.end,
            lost=lambda reason: warn(reason),
            pace=request.pace,
        ) as stream:
            landing = _SlotLanding(request, lake, progress, stream, watch)
            landing.begin()
            landing.run()
        return landing.result


def _check(target: LandingTarget) -> None:
    if target.snapshot != NEVER:
        raise UsageError("a slot has no rows from before it was made", hint="land its changes only (--snapshot never)")
    if target.schema_evolution == SPLIT:
        raise UsageError("--schema-evolution split is of tables that land from WAL")
    if target.tables:
        raise UsageError(
            "settings of tables are of those that land from WAL: a slot does not tell of columns that are renamed",
            hint="land from WAL (headwater receive brings it), or let a publication leave columns out",
        )


@dataclass
class _SlotLanding:
    """A run of :func:`land_slot`."""

    request: SlotRequest
    lake: Lake
    progress: SlotProgress
    stream: SlotStream
    watch: LandingWatch
    result: LandingResult = field(default_factory=LandingResult)

    @property
    def facts(self) -> SlotFacts:
        return self.stream.facts

    @property
    def mode(self) -> Mode:
        return mode_of(self.lake.target)

    def begin(self) -> None:
        """See that the slot is the target's, and note it."""
        self.lake.registry.require_source(self.facts.source)
        known, asked = self.lake.registry.chosen, self.request.tables
        if known is not None and known.as_text != asked.as_text:
            raise LakeError(
                f"the tables that land are {known.as_text}, not {asked.as_text}: a slot has not what came before",
                file=str(self.lake.target.where),
                hint="go on with these --tables and --exclude, or land to another place with another slot",
            )
        if self.mode.mirrors and self.progress.reached is None:
            warn(
                "mirrors have only rows that came since the slot was made: those that tables had before are missing",
                hint="make the slot while the tables are empty, or land to --mode changelog",
            )
        self.progress.begin(self.stream.reached)
        self.lake.registry.choose(asked)
        patience = 0.0 if self.request.stopping is None else PATIENCE_SECONDS
        types = ServerTypes(conninfo_of(self.request.address)[0], patience)
        relations = AnnouncedRelations(types.of, self._numbers)
        session = SessionSettings(major=self.facts.major, encoding=self.facts.encoding)
        self.reader = SliceReader(relations, self._wants, session)

    def run(self) -> None:
        """Land window by window."""
        stopping = self.request.stopping

        def is_told() -> bool:
            return stopping is not None and stopping.is_told

        self.watch.begins(self.stream.reached, self.stream.end or self.facts.flushed)
        while (window := self._next(is_told)) is not None:
            began = time.monotonic()
            before = replace(self.result, rows=dict(self.result.rows))
            try:
                if window.is_new_session:
                    self.reader.begin_session()
                last = self._land(window)
            finally:
                window.pieces.close()
            self.progress.resolve(window.hi, last)
            self.stream.confirm(window.hi)
            self.result.resolved_lsn = window.hi
            self.watch.passed(self._passed(window, before, last, time.monotonic() - began))
        self.stream.confirm_reached(is_told)

    def _next(self, is_told: Callable[[], bool]) -> SlotWindow | None:
        with timed(self.result.seconds, "receive"):
            return self.stream.window(self.request.window_bytes, is_told)

    def _wants(self, schema: RelationSchema) -> bool:
        return self.request.tables.matches(qualified_name(schema))

    def _numbers(self, oid: int, _name: str) -> Mapping[str, int]:
        """Return the numbers that columns of a relation have in the lake, by their names in the source."""
        if not self.lake.names.has_relation(oid):
            return {}
        probe = RelationSchema(oid, "", "", "r", "p", "d", (), ())
        _, table = self.lake.tables.of_relation(probe, 0)
        if table.landed.schema is None:
            return {}
        columns = LakeSchema.of(table.landed.schema).columns
        return {column.source or column.name: column.number for column in columns}

    def _land(self, window: SlotWindow) -> datetime | None:
        """Land a window; return when the last of its transactions committed."""
        if not window.pieces.bytes:
            return None
        turn = self.lake.staging.next_turn()
        landings = self._landings(self.reader.used(window.pieces))
        written: dict[int, list[Written]] = {}
        last: datetime | None = None
        with timed(self.result.seconds, "land"):
            for data in window.pieces:
                piece = self.reader.read(data)
                last = _latest(piece) or last
                for landing in landings:
                    written.setdefault(landing.number, []).extend(_files(landing.number, landing.changes, piece))
        written = {number: files for number, files in written.items() if files}
        with timed(self.result.seconds, "merge"):
            budget = self.lake.target.rewrite_budget
            merging = Merging(lambda merges: [merge.run() for merge in merges], 1, self.lake.indexes, budget)
            settled = list(self.mode.settled(landings, written, merging))
        with timed(self.result.seconds, "commit"):
            self._commit(settled)
            self.lake.staging.clear(turn)
        return last

    def _landings(self, versions: Sequence[RelationSchema]) -> list[Landing]:
        groups: dict[int, list[RelationSchema]] = {}
        for version in versions:
            groups.setdefault(version.oid, []).append(version)
        return [self._landing(number, own) for number, own in enumerate(groups.values())]

    def _landing(self, number: int, versions: Sequence[RelationSchema]) -> Landing:
        last = versions[-1]
        with errors_of_table(last.oid, qualified_name(last)):
            complete = with_dropped(last, versions)
            dropped = frozenset(column.number for column in last.columns if column.is_dropped)
            story = None
            if self.mode.mirrors:
                story = TableStory(identity_of(versions, last), frozenset({last.oid}))
            source = SourceTable(complete, tuple(versions), story=story, dropped=dropped)
            named = self.lake.tables.of_relation(last, 0)
            decoder = cast("SliceDecoder", self.reader)  # asked for its session only
            landing = self.mode.landing(number, source, named, self.lake, decoder)
            if self.mode.mirrors:
                _warn_of_added(landing)
        return landing

    def _commit(self, settled: Sequence[Settled]) -> None:
        began = time.monotonic()
        tables = commit_tables(self.lake, settled, self.facts.source)
        self.result.count(tables)
        self.watch.committed(tables, time.monotonic() - began)

    def _passed(self, window: SlotWindow, before: LandingResult, last: datetime | None, seconds: float) -> LandedWindow:
        return LandedWindow(
            lo=window.lo,
            hi=window.hi,
            end=max(window.hi, self.stream.end or 0),
            rows=sum(self.result.rows.values()) - sum(before.rows.values()),
            files=self.result.files - before.files,
            bytes=self.result.bytes - before.bytes,
            transactions=window.transactions,
            last_commit=None if last is None else last.timestamp(),
            landed_at=time.time(),
            seconds=seconds,
        )


def _latest(piece: PrintedSlice) -> datetime | None:
    times = piece.changes.transactions.commit_time
    return moment(int(np.max(times))) if len(times) else None


def _files(number: int, form: ChangeTable, piece: PrintedSlice) -> Iterator[Written]:
    """Write the rows of a piece into files of a table, under names that no other attempt has."""
    with errors_of_table(*form.source):
        rows = form.rows(piece)
    for part in form.parts(rows) if rows is not None else ():
        lsns = part[STAGED["_commit_lsn"] if form.is_staged else "_commit_lsn"]
        last = int(np.max(lsns.to_numpy()))
        yield notes(number, form, write_data_file(part, form.staging, file_name(last), form.schema), last, part)


def _warn_of_added(landing: Landing) -> None:
    """Warn of columns that a mirror gets, as a slot does not tell what rows have in them that are there."""
    assert landing.mirror is not None
    before = landing.table.landed.schema
    if before is None:
        return
    added = sorted(set(landing.mirror.source_columns) - set(before.names))
    if added:
        warn(
            f"table {landing.name} has new columns ({', '.join(added)}): they are null in rows that are there already, "
            "whatever the source has in them",
            hint="a slot does not tell of defaults, renamed columns or rewritten tables: load the rows again from a "
            "base backup",
        )
