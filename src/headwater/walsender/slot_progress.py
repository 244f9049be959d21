"""The progress of a slot while a session streams from it: what the client has confirmed, and when that is written.

Confirming moves a number. The slot's file is written when it needs a segment of WAL less, when some time has passed,
and at the end of the session. After a crash a slot may stand where it stood before: the client's own position covers
that, as with a server.

PostgreSQL: LogicalConfirmReceivedLocation (logical.c).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import replace
from typing import Protocol

from headwater.reorder.commits.state import State
from headwater.slots.slot import Slot, SlotStatistics
from headwater.slots.slot_directory import OpenSlot

WRITE_SECONDS = 10.0
MOST_STATES = 64
"""States that wait for being confirmed, at most; of more, every other one is dropped."""


class Progress(Protocol):
    """The side that a stream reports to.

    Attributes:
        confirmed: LSN up to which the client has everything, or where it begins.
    """

    confirmed: int

    def reached(self, state: State) -> None:
        """Note a state that the slot can go on from once all before it is confirmed."""

    def sent(self, messages: int, size: int) -> None:
        """Count what was sent."""

    def confirm(self, lsn: int) -> bool:
        """Note that the client has all up to an LSN; return whether :meth:`write` is due."""

    def current(self) -> Slot | None:
        """Return the slot as it would be written now; None without one."""

    def write(self) -> None:
        """Write what is to outlive the session."""


class PhysicalProgress:
    """The progress of a physical stream: of a slot, if there is one. It may go back, as a standby may begin again.

    Args:
        opened: the slot; None without one.
        start: LSN where the stream begins.
    """

    def __init__(self, opened: OpenSlot | None, start: int) -> None:
        self._opened = opened
        self.confirmed = start
        self._has_news = False

    def reached(self, state: State) -> None:
        """Do nothing: there are no states."""

    def sent(self, messages: int, size: int) -> None:
        """Count nothing."""

    def confirm(self, lsn: int) -> bool:
        """Note that the client has synced all up to an LSN."""
        self._has_news = self._has_news or lsn != self.confirmed
        self.confirmed = lsn
        return False

    def current(self) -> Slot | None:
        """Return the slot as it would be written now; None without one."""
        slot = None if self._opened is None else self._opened.slot
        return slot if slot is None or not self._has_news else replace(slot, confirmed_lsn=self.confirmed)

    def write(self) -> None:
        """Write the slot's file, if there is anything new.

        Raises:
            SlotError: it cannot be written.
        """
        if self._opened is not None and self._has_news:
            self._opened.write(replace(self._opened.slot, confirmed_lsn=self.confirmed))


class SlotProgress:
    """The progress of one session.

    Args:
        opened: the slot, which this session uses.
        segment_size: bytes.
    """

    def __init__(self, opened: OpenSlot, segment_size: int) -> None:
        self._opened, self._segment_size = opened, segment_size
        self.confirmed = opened.slot.confirmed_lsn
        self._state = opened.slot.state
        self._waiting: deque[State] = deque()
        # The event loop takes the lock, so nobody waits for the disk while holding it.
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._written = time.monotonic()
        self._counts = SlotStatistics(calls=1)

    def reached(self, state: State) -> None:
        """Note a state that the slot can go on from once all before it is confirmed."""
        with self._lock:
            self._waiting.append(state)
            if len(self._waiting) > MOST_STATES:
                self._waiting = deque([*list(self._waiting)[:-1:2], state])

    def sent(self, messages: int, size: int) -> None:
        """Count what was sent."""
        with self._lock:
            self._counts += SlotStatistics(messages=messages, total_bytes=size)

    def confirm(self, lsn: int) -> bool:
        """Note that the client has all up to an LSN; return whether the slot's file is due to be written."""
        with self._lock:
            if lsn <= self.confirmed:
                return False
            self.confirmed = lsn
            before = self._restart_lsn
            while self._waiting and self._waiting[0].lsn <= lsn:
                self._state = self._waiting.popleft()
            frees = before // self._segment_size < self._restart_lsn // self._segment_size
            return frees or time.monotonic() - self._written >= WRITE_SECONDS

    def current(self) -> Slot:
        """Return the slot as it would be written now."""
        with self._lock:
            slot = self._opened.slot
            statistics = slot.statistics + self._counts
            return replace(slot, confirmed_lsn=self.confirmed, state=self._state, statistics=statistics)

    def write(self) -> None:
        """Write the slot's file, if there is anything new; may wait for the disk.

        Raises:
            SlotError: it cannot be written.
        """
        with self._writing:
            with self._lock:
                slot, state, confirmed = self._opened.slot, self._state, self.confirmed
                if state is None or confirmed <= slot.confirmed_lsn:
                    return
                counts, self._counts, self._written = self._counts, SlotStatistics(), time.monotonic()
            statistics = slot.statistics + counts
            try:
                self._opened.write(
                    replace(slot, confirmed_lsn=confirmed, state=state.in_new_session, statistics=statistics)
                )
            except BaseException:
                with self._lock:
                    self._counts += counts
                raise

    @property
    def _restart_lsn(self) -> int:
        return 0 if self._state is None else self._state.restart_lsn
