"""The changes of a slot, read by SQL: from where the slot stands up to a limit, whole transactions, in one call.

In: a slot, limits, options of its plugin. Out: rows, and the state behind the last record that was read.

The server stops after the record at which a limit is reached: the one that ends at ``upto_lsn`` or behind it, or the
one with which so many rows have come. The second is found by cutting what is decoded at transactions.

PostgreSQL: pg_logical_slot_get_changes_guts (logicalfuncs.c). Known gap: a limit of rows with a plugin that streams
transactions in progress stops at the end of a transaction, not at that of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial

from headwater.errors import SessionError
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED, PROGRAM_LIMIT_EXCEEDED
from headwater.pipeline.requests.open_request import OpenRequest, open_request
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.scope import Scope
from headwater.pipeline.requests.slot_request import kept_in_slot
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.slices.tentative_messages import Settlement
from headwater.pipeline.slot_moves import state_at
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.pipeline.windows.windows import PlanWindows, windows_in_threads
from headwater.reorder.commits.state import State
from headwater.reorder.plan import Plan, Slice
from headwater.reorder.slices.cutting import each_slice
from headwater.reorder.unit_flags import ENDS_HERE
from headwater.rows.items import Messages
from headwater.slots.slot import Slot
from headwater.walsender.copying.upstream import Settings
from headwater.walsender.functions.slot_functions import AskedChanges
from headwater.walsender.plugin_errors import running, starting
from headwater.walsender.queries.select import MOST_ROWS
from headwater.walsender.served_cluster import ServedCluster

MOST_BYTES = 256 << 20
"""Of messages that are read at a time: they are in memory together."""

_WINDOW = WindowBounds(64 << 20)
_SLICE_BYTES = 4 << 20
_COUNTED_WINDOW, _COUNTED_SLICE_BYTES = WindowBounds(1 << 20), 64 << 10
"""Where rows are counted: the slice with which there are enough is cut again, at each of its transactions."""

Row = tuple[int, int, bytes]


@dataclass(frozen=True)
class Changes:
    """The changes that were read.

    Attributes:
        rows: LSN, xid and message of each.
        state: gives the state behind the last record that was read; None where none was.
    """

    rows: Sequence[Row]
    state: Callable[[], State | None]


def read_changes(
    cluster: ServedCluster, slot: Slot, asked: AskedChanges, settings: Settings, check: Callable[[], None]
) -> Changes:
    """Read the changes of a slot.

    Args:
        cluster: has the WAL; slot: as it stands.
        asked: limits, options; settings: of the session, that values are printed under.
        check: raises what the statement is to end with.

    Raises:
        SessionError: the plugin's messages are no text, and text is wanted; or there are too many changes.
        HeadwaterError: an option is refused, or the WAL cannot be decoded.
    """
    end = cluster.end()[1]
    limit = min(asked.upto_lsn or end, end)
    request = _request(cluster, slot, asked, settings)
    goes_on = limit > slot.confirmed_lsn and asked.upto_count >= 0
    asked_for = replace(request, end=limit) if goes_on else request
    with starting(request.slot, slot.request.plugin):
        opened = open_request(asked_for, kept_state=kept_in_slot(slot), directory=cluster.look())
    if not asked.is_binary and not opened.plugin.traits.is_text:
        raise SessionError(
            f'logical decoding output plugin "{slot.request.plugin}" produces binary output, but function '
            f'"{asked.function}" expects textual data',
            sqlstate=FEATURE_NOT_SUPPORTED,
        )
    if not goes_on:
        return Changes((), lambda: None)
    reader = _Reader(opened, asked.upto_count, check)
    with running():
        rows = list(reader.rows())
    stop = reader.stopped_at
    if stop is None:
        return Changes(rows, reader.last_state)
    return Changes(rows, lambda: state_at(request, kept_in_slot(slot), stop, cluster.look()))


def _request(cluster: ServedCluster, slot: Slot, asked: AskedChanges, settings: Settings) -> DecodeRequest:
    request = cluster.request_of(slot, settings)
    return replace(request, options=asked.options, slot=asked.slot, start=slot.confirmed_lsn)


class _Reader:
    """A reader of rows up to a number of them."""

    def __init__(self, opened: OpenRequest, most: int, check: Callable[[], None]) -> None:
        self._opened, self._most, self._check = opened, most, check
        scope = Scope(opened.directory.segment_size, opened.request.start or 0)
        bounds = _COUNTED_WINDOW if most else _WINDOW
        self._plans: PlanWindows = windows_in_threads(opened, scope, bounds, goes_on=True)
        self._decoder = SliceDecoder(opened.directory, opened.plugin, opened.session)
        self._settlement = Settlement()
        self._count = self._bytes = 0
        self.last_state: Callable[[], State | None] = lambda: None
        self.stopped_at: int | None = None

    def rows(self) -> Iterator[Row]:
        """Give the rows; those that are enough are the last ones."""
        for window in self._plans:
            yield from self._of_window(window.assembly.plan)
            if self.stopped_at is not None:
                return
            self.last_state = partial(self._plans.state_behind, window.behind)

    def _of_window(self, plan: Plan) -> Iterator[Row]:
        for unit, piece in each_slice(plan, _COUNTED_SLICE_BYTES if self._most else _SLICE_BYTES):
            before = deepcopy(self._settlement)
            messages = self._settlement.settled(self._decoder.messages(piece))
            if self._is_enough(len(messages.lsn)) and len(piece.units.xid) > 1:
                self._settlement = before
                yield from self._one_by_one(plan, unit)
                return
            yield from self._counted(piece, messages)
            if self.stopped_at is not None:
                return

    def _one_by_one(self, plan: Plan, first_unit: int) -> Iterator[Row]:
        """Give the rows from a unit on, transaction by transaction, until there are enough."""
        for _, piece in each_slice(plan, 1, first_unit):
            yield from self._counted(piece, self._settlement.settled(self._decoder.messages(piece)))
            if self.stopped_at is not None:
                return

    def _counted(self, piece: Slice, messages: Messages) -> Iterator[Row]:
        if self._is_enough(len(messages.lsn)) and piece.units.flags[-1] & ENDS_HERE:
            self.stopped_at = int(piece.units.end_lsn[-1])
        self._count += len(messages.lsn)
        self._bytes += len(messages.data)
        self._check()
        if self._count > MOST_ROWS or self._bytes > MOST_BYTES:
            raise SessionError(
                f"more than {MOST_ROWS} changes, or {MOST_BYTES >> 20} MB of them, are not read at a time",
                sqlstate=PROGRAM_LIMIT_EXCEEDED,
                hint="Give upto_lsn or upto_nchanges, or stream the slot. The slot stands where it stood.",
            )
        yield from _rows(messages)

    def _is_enough(self, more: int) -> bool:
        return 0 < self._most <= self._count + more


def _rows(messages: Messages) -> Iterator[Row]:
    data, offsets = messages.data.tobytes(), messages.offsets.tolist()
    for place, (lsn, xid) in enumerate(zip(messages.lsn.tolist(), messages.xid.tolist(), strict=True)):
        yield lsn, xid & 0xFFFFFFFF, data[offsets[place] : offsets[place + 1]]
