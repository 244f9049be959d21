"""The planning of a stream: from an offset to the next one, and what is output between the two.

In: options, the single table if rows are of one, the slot if there is one. Out: :class:`Stretch` values. A stretch is
planned as a batch is (:mod:`headwater.pipeline.windows.windows`), from the state at its start; the state at its end is
kept until a later offset is committed. All of it is one session, over restarts too: without a kept state, what came
before is folded again from the catalog, to the same state, and its plans are thrown away.

WAL that holds no output makes no offset, so Spark runs no batch for it; the fold goes on from there all the same. With
a slot an offset comes at the latest when the log has reached another segment, so that WAL before it may go.

Runs in the Python process that Spark keeps for a stream's source. Known gap: WAL that the server has written and not
yet flushed is read; a server that loses power writes other records in its place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwater.errors import CatalogError, SlotError, UsageError
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.open_request import OpenRequest
from headwater.pipeline.requests.scope import Scope
from headwater.pipeline.requests.slot_request import kept_in_slot
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.windows.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.pipeline.windows.windows import PlannedWindow, PlanWindows, windows_in_threads
from headwater.plugins.table_patterns import EVERY_TABLE, qualified_name
from headwater.reorder.plan import Plan, Slice
from headwater.reorder.slices.cutting import cut_slices
from headwater.rows.columns.table_columns import TypedTable
from headwater.slots.kept_state import KeptState
from headwater.slots.slot import SlotStatistics
from headwater.slots.slot_directory import OpenSlot
from headwater.slots.stream_states import StreamStates
from headwater.source.options import ERROR, SourceOptions
from headwater.source.source_plan import first_changes, first_of_others, open_source
from headwater.source.stream_offsets import StreamOffset
from headwater.wal.records.growing_directory import GrowingDirectory, end_of_log, has_record
from headwater.wal.segments.directory import WalDirectory


@dataclass(frozen=True)
class Stretch:
    """The output between two offsets.

    Attributes:
        start, end: the offsets.
        slices: in output order.
        decoder: decodes them; None if there are none.
    """

    start: StreamOffset
    end: StreamOffset
    slices: tuple[Slice, ...] = ()
    decoder: SliceDecoder | None = None


@dataclass(frozen=True)
class _Folded:
    """WAL that was gone through.

    Attributes:
        kept: the state after it.
        slices, decoder: what is output of it.
        is_end: the log goes no further.
    """

    kept: KeptState
    slices: tuple[Slice, ...]
    decoder: SliceDecoder
    is_end: bool


class StreamPlanner:
    """The planner of one stream; its calls come one after the other.

    Args:
        options: of the stream.
        table: the single table, None for others.
        slot: the slot, held for as long as the stream runs; None for none.
    """

    def __init__(self, options: SourceOptions, table: TypedTable | None, slot: OpenSlot | None) -> None:
        self._options = options
        self._table = table
        self._slot = slot
        self._oid = 0 if table is None else table.schema.oid
        self._states = StreamStates(None if slot is None else slot.stream_directory)
        self._growing = GrowingDirectory(options.request.source)
        self._target: int | None = None
        self._reached: tuple[StreamOffset, KeptState | None] | None = None
        self._planned: Stretch | None = None
        self._at: StreamOffset | None = None
        self._commits = 0

    def begin(self) -> StreamOffset:
        """Return the first offset of a stream that has no checkpoint.

        Raises:
            HeadwaterError: any reason not to decode.
        """
        stored = None if self._slot is None else kept_in_slot(self._slot.slot)
        if stored is not None and self._slot is not None:
            since = max(stored.state.lsn, self._slot.slot.confirmed_lsn)
            self._at = StreamOffset(stored.state.lsn, stored.state.timeline, since, self._oid)
        else:
            store = open_source(self._options, directory=self._growing.look(None)).store
            since = max(self._options.request.start or 0, store.start_lsn)
            self._at = StreamOffset(store.start_lsn, store.origin.timeline, since, self._oid)
        return self._at

    def stop_at_present(self) -> None:
        """Plan nothing after what is there at this moment.

        Raises:
            WalError: the WAL cannot be read.
        """
        self._target = end_of_log(self._growing.look(None))

    def latest(self, start: StreamOffset | None, max_bytes: int | None) -> StreamOffset:
        """Return the offset after the next output, or ``start`` if there is none yet.

        Args:
            start: where the last batch ended; None where Spark does not say.
            max_bytes: bytes of WAL that a batch may cover, but for those before that hold no output.

        Raises:
            HeadwaterError: any reason not to decode.
        """
        if start is None and self._at is None:
            return self._resumed()
        start = self._checked(start or self._at or self.begin())
        if self._planned is None or self._planned.start != start or self._planned.end == start:
            self._planned = self._next(start, max_bytes)
        self._at = self._planned.end
        return self._planned.end

    def log_end(self) -> StreamOffset | None:
        """Return the end of the log, as an offset; None before the first one."""
        if self._at is None:
            return None
        directory = self._growing.look(self._at.lsn)
        lsn = end_of_log(directory, self._at.lsn)
        return replace(self._at, lsn=lsn, timeline=directory.timeline_at(lsn))

    def stretch(self, start: StreamOffset, end: StreamOffset) -> Stretch:
        """Return the output between two offsets, planned when the end was found or, after a restart, again.

        Raises:
            HeadwaterError: any reason not to decode.
        """
        if self._planned is None or (self._planned.start, self._planned.end) != (start, end):
            self._planned = self._again(self._checked(start), self._checked(end))
        self._at = end
        return self._planned

    def commit(self, end: StreamOffset) -> None:
        """Note that all up to an offset has been delivered: what only restarts from before it need goes.

        Raises:
            SlotError: the slot cannot be written.
        """
        if self._slot is not None and end.lsn > self._slot.slot.confirmed_lsn:
            stored = self._state_at(end)
            if stored is not None:
                made = SlotStatistics(calls=int(not self._commits))
                self._slot.write(self._slot.slot.advanced(stored.state, made))
                self._commits += 1
        self._states.forget_before(end.lsn)

    def _checked(self, offset: StreamOffset) -> StreamOffset:
        if offset.table != self._oid:
            name = "no single table" if self._table is None else f'"{qualified_name(self._table.schema)}"'
            raise UsageError(
                f"the checkpoint is of the table of OID {offset.table or 'none'}, where the option tables means {name}"
                f", of OID {self._oid or 'none'}",
                hint="name the table as it is called at present, or begin with a new checkpoint",
            )
        return offset

    def _resumed(self) -> StreamOffset:
        """Return the end of the log: not before a checkpoint that Spark does not report."""
        newest = self._states.newest()
        if newest is None:
            start = self.begin()
        else:
            since, stored = newest
            start = StreamOffset(stored.state.lsn, stored.state.timeline, since, self._oid)
        self._next(start, None)
        reached = self._reached[1] if self._reached is not None else None
        if reached is not None:
            self._states.keep(start.since, reached)
        self._at = start if reached is None else start.behind(reached.state)
        return self._at

    def _next(self, start: StreamOffset, max_bytes: int | None) -> Stretch:
        """Go on step by step, until one has output or nothing is left."""
        stored = self._reached[1] if self._reached and self._reached[0] == start else self._state_at(start)
        folded: _Folded | None = None
        while folded is None or not folded.is_end:
            end, directory = self._end(stored, start, max_bytes), self._look(stored)
            if stored is not None and not self._goes_on(directory, stored.state.lsn, end):
                break
            folded = self._fold(stored, start.since, end, directory, max_bytes)
            stored = folded.kept
            self._reached = start, stored
            if folded.slices or self._frees_a_segment(start, stored, directory):
                self._states.keep(start.since, stored)
                return Stretch(start, start.behind(stored.state), folded.slices, folded.decoder)
        return Stretch(start, start)

    def _look(self, stored: KeptState | None) -> WalDirectory:
        return self._growing.look(None if stored is None else stored.state.restart_lsn)

    def _goes_on(self, directory: WalDirectory, lsn: int, end: int | None) -> bool:
        return (end is None or lsn < end) and has_record(directory, lsn)

    def _end(self, stored: KeptState | None, start: StreamOffset, max_bytes: int | None) -> int | None:
        """Return the LSN where a step ends at the latest; the first one from a catalog is bounded when that is open."""
        ends = [] if self._target is None else [self._target]
        if max_bytes is not None and stored is not None:
            ends.append(max(stored.state.lsn + max_bytes, start.since))
        return min(ends, default=None)

    def _frees_a_segment(self, start: StreamOffset, stored: KeptState, directory: WalDirectory) -> bool:
        size = directory.segment_size
        return self._slot is not None and stored.state.lsn // size > start.lsn // size

    def _again(self, start: StreamOffset, end: StreamOffset) -> Stretch:
        stored = self._state_at(start)
        if start.lsn == end.lsn:
            return Stretch(start, end)
        folded = self._fold(stored, start.since, end.lsn, self._look(stored))
        self._require(folded.kept, end)
        self._states.keep(start.since, folded.kept)
        return Stretch(start, end, folded.slices, folded.decoder)

    def _require(self, stored: KeptState, offset: StreamOffset) -> None:
        state = stored.state
        if (state.lsn, state.timeline) != (offset.lsn, offset.timeline):
            raise CatalogError(
                f"the WAL leads to {Lsn(state.lsn)} on timeline {state.timeline}, where the checkpoint has "
                f"{Lsn(offset.lsn)} on timeline {offset.timeline}",
                file=self._options.request.source.address,
                hint="give the WAL that the stream has read before, or begin with a new checkpoint",
            )

    def _state_at(self, offset: StreamOffset) -> KeptState | None:
        """Return the state at an offset; None where it is the catalog."""
        stored = self._states.find(offset.since, offset.lsn)
        if stored is not None:
            return stored
        slot = None if self._slot is None else self._slot.slot
        if slot is None or slot.state is None:
            return self._folded_to(offset)
        if (offset.lsn, offset.since) == (slot.state.lsn, slot.confirmed_lsn):
            return kept_in_slot(slot)
        path = None if self._slot is None else str(self._slot.path)
        if offset.lsn < slot.state.lsn:
            raise SlotError(
                f"the checkpoint is at {Lsn(offset.lsn)}, behind the slot's confirmed LSN {Lsn(slot.confirmed_lsn)}",
                file=path,
                hint="something else has advanced the slot: begin with a new checkpoint, at the slot's place",
            )
        raise SlotError(
            f"the slot has no state at the checkpoint's {Lsn(offset.lsn)} for the stream that began at "
            f"{Lsn(offset.since)}",
            file=path,
            hint="it is not the slot of this checkpoint, or was made again: begin with a new checkpoint",
        )

    def _folded_to(self, offset: StreamOffset) -> KeptState | None:
        directory = self._growing.look(None)
        if offset.lsn == open_source(self._options, directory=directory).store.start_lsn:
            return None
        made = self._fold(None, offset.since, offset.lsn, directory, is_output=False)
        self._require(made.kept, offset)
        self._states.keep(offset.since, made.kept)
        return made.kept

    def _fold(
        self,
        stored: KeptState | None,
        since: int,
        end: int | None,
        directory: WalDirectory,
        first_bytes: int | None = None,
        is_output: bool = True,
    ) -> _Folded:
        """Go through WAL.

        Args:
            stored: the state to begin with, None for the catalog.
            since: where the session began.
            end: ``upto_lsn``, None for the end of the log.
            directory: the WAL.
            first_bytes: from a catalog, stop after as many bytes, or when it is complete.
            is_output: slices are wanted; else only the state.
        """
        opened, bounds = self._open(stored, since, end, directory, first_bytes)
        plans = self._plans(opened, since, bounds)
        slices: list[Slice] = []
        last: PlannedWindow | None = None
        for window in plans:
            self._check(window.assembly.plan)
            if is_output:
                slices += cut_slices(window.assembly.plan, self._options.partition_bytes)
            last = window
            if bounds != DEFAULT_BOUNDS:
                break
        assert last is not None
        end = opened.request.end
        return _Folded(
            kept=KeptState(plans.state_behind(last.behind), opened.server_settings),
            slices=tuple(slices),
            decoder=SliceDecoder(directory, opened.plugin, opened.session),
            is_end=last.is_last and (end is None or end >= directory.stop_lsn or last.hi < end),
        )

    def _open(
        self, stored: KeptState | None, since: int, end: int | None, directory: WalDirectory, first_bytes: int | None
    ) -> tuple[OpenRequest, WindowBounds]:
        # An end before the session's beginning is one of transactions that are left out anyway.
        start = since if end is None else min(since, end)
        options = replace(self._options, request=replace(self._options.request, start=start, end=end))
        named = None if self._table is None else lambda: self._oid
        opened = open_source(options, named=named, kept_state=stored, directory=directory)
        return (opened, DEFAULT_BOUNDS) if stored is not None or first_bytes is None else _bounded(opened, first_bytes)

    def _plans(self, opened: OpenRequest, since: int, bounds: WindowBounds) -> PlanWindows:
        tables = EVERY_TABLE if self._table is not None else opened.request.tables
        scope = Scope(opened.directory.segment_size, since, tables)
        return windows_in_threads(opened, scope, bounds, goes_on=True)

    def _check(self, plan: Plan) -> None:
        """Check that no other relation has a single table's name.

        Raises:
            CatalogError: one has.
        """
        if self._table is None or self._options.on_table_replaced != ERROR:
            return
        replaced = first_of_others(first_changes(plan), self._oid)
        if replaced is not None:
            lsn, other = replaced
            raise CatalogError(
                f'"{self._options.single_table}" is the name of another table at {Lsn(lsn)}: of OID {other}, where the '
                f"stream is of OID {self._oid}",
                hint='set onTableReplaced to "skip" to leave the other\'s changes out, or to "byName" to show them in '
                "the columns of the same names",
            )


def _bounded(opened: OpenRequest, size: int) -> tuple[OpenRequest, WindowBounds]:
    """Return a request from a catalog that ends early, and how large its first window may be, the only one then.

    Where a backup ends is known only when the record is met that says so; then the window ends with a segment.
    """
    store, request = opened.store, opened.request
    if store.origin.backup_start is not None:
        return opened, WindowBounds(min(size, DEFAULT_BOUNDS.wal_bytes - 1))
    end = max(store.start_lsn + size, store.files.reach_lsn, request.start or 0)
    end = end if request.end is None else min(end, request.end)
    return replace(opened, request=replace(request, end=end)), DEFAULT_BOUNDS
