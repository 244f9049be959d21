"""The states of a database that folds have passed by: from the nearest of them others begin.

They are of no output. Kept are so many bytes of them, none for longer than a time; of states close to each other the
later one. Those that outlive the service are files (:mod:`headwater.walsender.folds.lasting_states`): looked at where
nothing here is near.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import fields, is_dataclass
from itertools import pairwise

import numpy as np

from headwater.errors import HeadwaterError
from headwater.slots.history import is_of_history
from headwater.slots.kept_state import KeptState
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.folds.lasting_states import LastingStates

log = logging.getLogger("headwater.walsender")

MOST_BYTES = 256 << 20
MOST_SECONDS = 600.0
SPACING = 16 << 20
"""Bytes of WAL between two states, at least, but for the newest."""

NEAR_BYTES = 64 << 20
"""WAL that is sooner gone through than a file is read."""


class Shelf:
    """The states of one database; any thread asks.

    Args:
        most_bytes: of all; the newest is kept_state in any case.
        lasting: the states that outlive the service; None for none.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, lasting: LastingStates | None = None) -> None:
        self._most_bytes, self.lasting = most_bytes, lasting
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
        return True

    def _drop(self, now: float) -> None:
        """Drop what is too old, too close to a later one, or too much."""
        lsns = sorted(self._states)
        newest = lsns[-1]
        for place, following in pairwise(lsns):
            is_close = following != newest and following // SPACING == place // SPACING
            if is_close or now - self._states[place][2] > MOST_SECONDS:
                del self._states[place]
        total = sum(size for _, size, _ in self._states.values())
        for place in sorted(self._states)[:-1]:
            if total <= self._most_bytes:
                return
            total -= self._states.pop(place)[1]


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
