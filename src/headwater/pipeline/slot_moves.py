"""Moves of a slot without any output: to where it begins, and to where it is advanced.

Both are the fold without decoding, in threads of this process: no row is read, so Spark is not needed.
Mirrors DecodingContextFindStartpoint and LogicalSlotAdvanceAndCheckSnapState (logical.c, slotfuncs.c).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from headwater.catalog.store.catalog_store import CatalogStore
from headwater.errors import SlotError
from headwater.pg.lsn import Lsn
from headwater.pipeline.commit_times import first_commit_at
from headwater.pipeline.requests.open_request import OpenRequest, open_request
from headwater.pipeline.requests.request import SKIP_GAP, DecodeRequest
from headwater.pipeline.requests.scope import NO_COMMIT, Scope
from headwater.pipeline.requests.shelved_state import shelved_state
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.pipeline.windows.window_checks import check_consistent
from headwater.pipeline.windows.windows import PlannedWindow, PlanWindows, windows_in_threads
from headwater.plugins.rows.plugin import RowChanges, TableChoice
from headwater.reorder.commits.state import State
from headwater.slots.kept_state import KeptState
from headwater.slots.slot import Slot, SlotRequest
from headwater.wal.records.frames import read_frames
from headwater.wal.records.growing_directory import end_of_log
from headwater.wal.segments.directory import WalDirectory

WINDOW = WindowBounds(64 << 20)
_RECORD_ALIGNMENT = 8


@dataclass(frozen=True)
class Beginning:
    """The place where a slot begins.

    Attributes:
        lsn: the consistent point: transactions whose commit record starts before it are not the slot's.
        state: there; None if the catalog is a copy that only later WAL makes whole.
        database: name of the database.
        server_settings: settings of the server's configuration.
    """

    lsn: int
    state: State | None
    database: str
    server_settings: tuple[tuple[str, str], ...]


def begin(request: DecodeRequest) -> Beginning:
    """Find where a slot that is made from a catalog can begin.

    Args:
        request: what it is to decode.

    Raises:
        HeadwaterError: the request cannot be served, or the WAL has no consistent point yet.
    """
    opened = _open(request, None)
    lsn = _consistent_point(opened)
    needs_more = opened.store.origin.backup_start is not None or opened.store.files.reach_lsn > lsn
    state = None if needs_more else state_at(request, None, lsn)
    return Beginning(
        lsn=_end_of_record(opened.directory, lsn) if state is None else state.lsn,
        state=state,
        database=opened.store.database_name,
        server_settings=opened.server_settings,
    )


def begin_with_rows(request: DecodeRequest) -> Beginning:
    """Find where a slot that is made from a base backup can begin, and rows can be read as of there.

    A backup of a server that wrote meanwhile is whole only at its end, which may come after the consistent point.

    Args:
        request: what it is to decode.

    Raises:
        HeadwaterError: the request cannot be served, or the WAL has no such place yet.
    """
    opened = _open(request, None)
    files, point, last = opened.store.files, None, None
    completed = files.reach_lsn if files.is_complete else None
    for window in _windows(opened)[1]:
        last, followed = window.behind, window.followed
        point = followed.decodable[0].start if point is None and followed.decodable else point
        if completed is None and followed.completed_at is not None:
            completed = max(files.reach_lsn, followed.completed_at + 1)
        if point is not None and completed is not None:
            reached = kept_at(request, None, max(point, completed))
            return Beginning(reached.state.lsn, reached.state, opened.store.database_name, reached.server_settings)
    assert last is not None
    check_consistent(last.control, opened.store.start_lsn, last.lsn)
    raise SlotError(
        f"the end of the base backup is not in the WAL up to {Lsn(last.lsn)}", hint="give the WAL that comes after it"
    )


def without_output(request: DecodeRequest) -> DecodeRequest:
    """Return a request that follows the same, and decodes nothing: its states are of no plugin."""
    return replace(request, plugin=RowChanges.name, options=(), with_definitions=False)


def slot_at(request: DecodeRequest, beginning: Beginning, *, failover: bool = False) -> Slot:
    """Return the slot of a request, where it begins.

    Args:
        request: what it is to decode; beginning: where it stands; failover: it is meant to go on from a standby.
    """
    source = request.source
    asked = SlotRequest(
        wal=tuple(os.path.abspath(p.address) if p.is_local else p.address for p in source.places),
        catalog=str(Path(request.catalog).absolute()),
        database=beginning.database,
        plugin=request.plugin,
        options=request.options,
        settings=request.settings,
        server_settings=beginning.server_settings,
        unknown_types=request.unknown_types,
        tables=request.tables.patterns,
        timeline=source.timeline,
        user=request.user,
    )
    return Slot(asked, beginning.lsn, beginning.state, request.two_phase, failover)


def begin_at(request: DecodeRequest, place: int | datetime, slots: Path) -> Beginning:
    """Return the place of a slot that is made at an LSN, or a moment, of the past.

    Args:
        request: what it is to decode.
        slots: the directory of slots in which it is made: an LSN may be come to from a state that is kept there.
        place: records that start before this LSN have happened; of a moment, the first commit then or later is the
            first that is decoded.

    Raises:
        SlotError: decoding cannot begin so early, or the WAL does not reach so far.
        HeadwaterError: as :func:`begin`.
    """
    shelved = None if isinstance(place, datetime) else shelved_state(request, slots, place)
    first = begin(request) if shelved is None else _beginning_of(shelved)
    if isinstance(place, datetime):
        lsn = first_commit_at(WalDirectory.scan(request.source), first.lsn, place)
    else:
        lsn = place
    if lsn < first.lsn:
        raise SlotError(
            f"a slot cannot begin at {Lsn(lsn)}, the first place after the catalog is {Lsn(first.lsn)}",
            hint="begin with an older backup",
        )
    beginning = None if first.state is None else KeptState(first.state, first.server_settings)
    state = state_at(request, beginning, lsn)
    end = end_of_log(WalDirectory.scan(request.source), state.lsn)
    if end < lsn:
        raise SlotError(f"a slot cannot begin at {Lsn(lsn)}, the WAL that is here ends at {Lsn(end)}")
    return replace(first, lsn=state.lsn, state=state)


def _beginning_of(kept_state: KeptState) -> Beginning:
    state = kept_state.state
    return Beginning(state.lsn, state, state.catalog.origin.database_name, kept_state.server_settings)


def state_at(
    request: DecodeRequest, kept_state: KeptState | None, lsn: int, directory: WalDirectory | None = None
) -> State:
    """Return the state after the last record that starts before an LSN, as a session would leave it that stops there.

    Args:
        request: what is decoded.
        kept_state: where to begin, None for the catalog.
        lsn: ``upto_lsn``.
        directory: the WAL as it was just found, such as where it grows; None to look.

    Raises:
        HeadwaterError: the WAL cannot be followed up to there.
    """
    return kept_at(request, kept_state, lsn, directory).state


def kept_at(
    request: DecodeRequest, kept_state: KeptState | None, lsn: int, directory: WalDirectory | None = None
) -> KeptState:
    """Return the same with the settings of the server's configuration; as :func:`state_at`."""
    opened = _open(replace(request, end=lsn), kept_state, directory)
    return KeptState(_last_state(opened), opened.server_settings)


def check_request(request: DecodeRequest, kept_state: KeptState | None) -> None:
    """Check that a slot can decode so, before it is made.

    Args:
        request: what it is to decode.
        kept_state: the state where it stands, None for its catalog.

    Raises:
        HeadwaterError: it cannot: the plugin, an option or a setting is refused, or WAL is missing.
    """
    _open(request, kept_state)


def _consistent_point(opened: OpenRequest) -> int:
    behind = None
    for window in _windows(opened)[1]:
        behind = window.behind
        if window.followed.decodable:
            return window.followed.decodable[0].start
    assert behind is not None
    return check_consistent(behind.control, opened.store.start_lsn, behind.lsn)


def _end_of_record(directory: WalDirectory, lsn: int) -> int:
    """Find the end of the record inside which an LSN lies, as servers do.

    An LSN between two records is its own end.
    """
    start = lsn - lsn % _RECORD_ALIGNMENT
    return lsn if start == lsn else int(read_frames(directory, start, lsn).end_lsns[0])


def _last_state(opened: OpenRequest) -> State:
    plans, windows = _windows(opened)
    last = None
    for window in windows:
        last = window.behind
    assert last is not None
    return plans.state_behind(last)


def _open(request: DecodeRequest, kept_state: KeptState | None, directory: WalDirectory | None = None) -> OpenRequest:
    # Nothing is output: WAL of a low wal_level is reported, no more.
    request = replace(request, on_level_gap=SKIP_GAP)
    if request.plugin != RowChanges.name:
        return open_request(request, None, kept_state, directory)

    def made(store: CatalogStore) -> RowChanges:
        return RowChanges(TableChoice(request.tables), (), store.major)

    return open_request(request, made, kept_state, directory)


def _windows(opened: OpenRequest) -> tuple[PlanWindows, Iterator[PlannedWindow]]:
    scope = Scope(opened.directory.segment_size, commits=NO_COMMIT)
    plans = windows_in_threads(opened, scope, WINDOW, goes_on=True)
    return plans, iter(plans)
