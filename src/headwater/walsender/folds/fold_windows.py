"""The windows of one fold: its outputs open, and passes over the WAL from where it stands, one window at a time.

A pass goes to the end of what is there, and indexes ahead. Where a window is to end elsewhere than the
pass would end it, a pass of one window is made.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, cast

from headwater.pipeline.requests.open_output import OpenOutput
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.windows.database_fold import DatabaseFold, PlannedWindow
from headwater.pipeline.windows.index_job import index_in_threads
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.pipeline.windows.windows import WalPass
from headwater.reorder.commits.state import State
from headwater.slots.history import check_of_history, position_of_state
from headwater.slots.kept_state import KeptState
from headwater.wal.records.growing_directory import has_record, unbroken
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.folds.rules import WINDOW_BYTES, next_line
from headwater.walsender.folds.shared_output import SharedOutput

BOUNDS = WindowBounds(WINDOW_BYTES, line_bytes=WINDOW_BYTES)


class ServedWal(Protocol):
    """The WAL that is served; any thread asks."""

    def look(self, needed: int | None = None) -> WalDirectory:
        """Return the WAL that is there now, from an LSN on."""

    def end(self) -> tuple[int, int]:
        """Return the timeline and the LSN where the log ends now."""


@dataclass(frozen=True)
class Look:
    """A look at the WAL.

    Attributes:
        directory: it; end: LSN where the log ends.
        has_more: there is some behind the fold's place.
    """

    directory: WalDirectory
    end: int
    has_more: bool


def look_from(wal: ServedWal, kept_state: KeptState | None) -> Look:
    """Look at the WAL from a state on; None: from the catalog on.

    Raises:
        WalError: it cannot be read.
        SessionError: its history does not have the state, as the timeline was left before.
    """
    if kept_state is None:
        directory = wal.look()
        return Look(directory, wal.end()[1], True)
    looked_at = wal.look(kept_state.state.restart_lsn)
    check_of_history(looked_at, position_of_state(kept_state.state))
    directory = unbroken(looked_at, kept_state.state.lsn)
    has_more = has_record(directory, kept_state.state.lsn)
    return Look(directory, max(wal.end()[1], kept_state.state.lsn) if has_more else kept_state.state.lsn, has_more)


class FoldWindows:
    """The windows of some outputs of one database.

    Args:
        outputs: what is made of it; kept_state: the state where they begin, None for the catalog.
        directory: the WAL.

    Raises:
        HeadwaterError: an output cannot be opened.
    """

    def __init__(self, outputs: Sequence[SharedOutput], kept_state: KeptState | None, directory: WalDirectory) -> None:
        for output in outputs:
            output.open(kept_state, directory)
        self._fold = DatabaseFold(_together(outputs, kept_state, directory), goes_on=True)
        self._pass: Generator[dict[DatabaseFold, PlannedWindow]] | None = None
        self._end, self._lineage = 0, directory.lineage
        self._is_bound = kept_state is not None and not self._fold.opened.store.origin.is_exported

    def change(self, outputs: Sequence[SharedOutput]) -> None:
        """Change the outputs, between two windows."""
        states = [output.own_state for output in outputs]
        self._fold.change_outputs([output.plan for output in outputs], states)
        for output, plan in zip(outputs, self._fold.outputs, strict=True):
            output.opened = plan

    def next(self, position: int, target: int, look: Look) -> PlannedWindow:
        """Go through the next window.

        Args:
            position: LSN where it begins; target: where it ends at the latest.
            look: at the WAL.

        Raises:
            HeadwaterError: it cannot be decoded.
        """
        has_switched = look.directory.lineage != self._lineage
        if self._pass is None or has_switched or target != min(next_line(position), self._end):
            self.close()
            self._fold.go_on(look.directory)
            self._lineage = look.directory.lineage
            is_free = not self._is_bound or target == min(next_line(position), look.end)
            self._end = look.end if is_free else target
            self._pass = self._windows(None if not self._is_bound else self._end)
        window = next(self._pass)[self._fold]
        if window.is_last:
            self.close()
        return window

    def decoders(self) -> list[SliceDecoder]:
        """Return what decodes the slices of each output, in the WAL as it was looked at last."""
        opened = [output.opened for output in self._fold.outputs]
        return [SliceDecoder(it.directory, it.plugin, it.session) for it in opened]

    @property
    def has_definitions(self) -> bool:
        """Whether its states have the definitions of objects, which others have no use for."""
        return self._fold.store.has_definitions

    def state_behind(self, window: PlannedWindow) -> State:
        """Return the state after a window, of all outputs."""
        return self._fold.state_behind(window.behind)

    def close(self) -> None:
        """End the pass that runs."""
        if self._pass is not None:
            self._pass.close()
        self._pass = None

    def _windows(self, end: int | None) -> Generator[dict[DatabaseFold, PlannedWindow]]:
        threads = os.cpu_count() or 1
        windows = iter(WalPass([self._fold], partial(index_in_threads, threads=threads), threads, BOUNDS, end=end))
        return cast(Generator[dict[DatabaseFold, PlannedWindow]], windows)


def _together(
    outputs: Sequence[SharedOutput], kept_state: KeptState | None, directory: WalDirectory
) -> list[OpenOutput]:
    first = replace(outputs[0].plan.opened, directory=directory)
    if kept_state is None:
        return [outputs[0].plan]
    state = replace(kept_state.state, outputs=tuple(output.own_state for output in outputs))
    plans = [output.opened_with(state, first) for output in outputs]
    for output, plan in zip(outputs, plans, strict=True):
        output.opened = plan
    return plans
