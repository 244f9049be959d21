"""The states of a database that folds have passed by: from the nearest of them others begin.

They are of no output. Kept are so many bytes of them, none for longer than a time; of states close to each other the
later one. The bytes are of all databases of a service together (:mod:`headwater.walsender.folds.shelf_room`). Those
that outlive the service are files (:mod:`headwater.walsender.folds.lasting_states`): looked at where nothing here is
near.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import pairwise

import numpy as np

from headwater.errors import HeadwaterError
from headwater.slots.history import is_of_history
from headwater.slots.kept_state import KeptState
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.folds.lasting_states import LastingStates
from headwater.walsender.folds.shelf_room import ShelfRoom

log = logging.getLogger("headwater.walsender")

MOST_SECONDS = 600.0
SPACING = 16 << 20
"""Bytes of WAL between two states, at least, but for the newest."""

NEAR_BYTES = 64 << 20
"""WAL that is sooner gone through than a file is read."""


class Shelf:
    """The states of one database; any thread asks.

    Args:
        room: that it shares with others; the newest state is kept in any case.
        lasting: the states that outlive the service; None for none.
    """

    def __init__(self, room: ShelfRoom | None = None, lasting: LastingStates | None = None) -> None:
        self._room, self.lasting = room or ShelfRoom(), lasting
        self._lock = threading.Lock()
        self._states: dict[int, tuple[KeptState, int, float]] = {}

    def put(self, kept_state: KeptState) -> None:
        """Keep a state, which has no outputs."""
        if self.lasting is not None:
            try:
                kept_state = self.lasting.own(kept_state)
            except HeadwaterError as error:
                log.warning("a state is not kept: %s", error.one_line())
                return
        if self._remember(kept_state) and self.lasting is not None:
            self.lasting.offer(kept_state)

    def nearest(self, lsn: int, history: WalDirectory) -> KeptState | None:
        """Return the last state at or before an LSN that a history has; None if there is none.

        Raises:
            HeadwaterError: states that outlive the service cannot be looked for.
        """
        with self._lock:
            states = (kept_state for kept_state, _, _ in self._states.values())
            fitting = [it for it in states if it.state.lsn <= lsn and is_of_history(it.state, history)]
            near = max(fitting, key=lambda it: it.state.lsn, default=None)
        at = 0 if near is None else near.state.lsn
        if self.lasting is not None and (near is None or lsn - at > NEAR_BYTES):
            kept_state = self.lasting.nearest(lsn, history.lineage, at)
            if kept_state is not None:
                self._remember(kept_state)
                return kept_state
        return near

    def __len__(self) -> int:
        return len(self._states)

    def _remember(self, kept_state: KeptState) -> bool:
        """Keep a state here; False: it is here already."""
        lsn, now = kept_state.state.lsn, time.monotonic()
        with self._lock:
            if lsn in self._states and self._states[lsn][0].state.timeline == kept_state.state.timeline:
                return False
            self._states[lsn] = kept_state, size_of(kept_state), now
            self._drop(now)
            sizes = self._sizes()
        self._room.note(self, *sizes)
        return True

    def shrink(self, most_bytes: int) -> tuple[int, int]:
        """Drop the oldest states, not the newest, until so many bytes are left; return how many are, and its own."""
        with self._lock:
            self._drop(time.monotonic())
            total = sum(self._sizes_of_all())
            for place in sorted(self._states)[:-1]:
                if total <= most_bytes:
                    break
                total -= self._states.pop(place)[1]
            return self._sizes()

    def _sizes(self) -> tuple[int, int]:
        return sum(self._sizes_of_all()), self._states[max(self._states)][1]

    def _sizes_of_all(self) -> Iterator[int]:
        return (size for _, size, _ in self._states.values())

    def _drop(self, now: float) -> None:
        """Drop what is too old, or too close to a later one."""
        lsns = sorted(self._states)
        newest = lsns[-1]
        for place, following in pairwise(lsns):
            is_close = following != newest and following // SPACING == place // SPACING
            if is_close or now - self._states[place][2] > MOST_SECONDS:
                del self._states[place]


def size_of(value: object) -> int:
    """Count the bytes of the arrays and byte strings of a value."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, tuple):
        return sum(map(size_of, value))
    if is_dataclass(value):
        return sum(size_of(getattr(value, field.name)) for field in fields(value))
    return 8
