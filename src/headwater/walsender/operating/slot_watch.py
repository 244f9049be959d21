"""The watch over slots: which of them are over a limit, what becomes of them, and what the log says about it.

A slot that a session uses is let go of first: its session ends, and the next look finds it free. The server looks at
each checkpoint, this does every second.

PostgreSQL: InvalidatePossiblyObsoleteSlot, ReportSlotInvalidation (slot.c). Known gap: a slot that another process uses
in its directory is left until that has let go of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from headwater.errors import HeadwaterError, SessionError
from headwater.pg.lsn import lsn_text
from headwater.pg.version import Version
from headwater.slots.invalidation import WAL_REMOVED
from headwater.slots.slot import Slot
from headwater.walsender.operating.limits import shown_setting
from headwater.walsender.operating.slot_limits import SlotLimits

log = logging.getLogger("headwater.walsender")

_Detail = tuple[tuple[str, str], tuple[str, str]]
"""The DETAIL and the HINT of a line."""

LOOK_SECONDS = 1.0
"""Between two looks at the slots."""


class WatchedSlots(Protocol):
    """The slots, as they are watched."""

    def names(self) -> list[str]:
        """List the names of all slots."""

    def read(self, name: str) -> Slot:
        """Return a slot as it stands."""

    def pid_of(self, name: str) -> int | None:
        """Return the number of the session that uses a slot."""

    def idle_seconds(self, name: str) -> float | None:
        """Return for how long nobody has used a slot; None while somebody does."""

    def invalidation_of(self, name: str) -> str | None:
        """Return why a slot is not valid any more."""

    def invalidate(self, name: str, reason: str, is_due: Callable[[Slot], bool]) -> bool:
        """Let a slot not be valid any more, if that is due still; tell whether it was."""


@dataclass
class SlotWatch:
    """The watch over the slots of a service; each look takes its time, in a thread.

    Attributes:
        slots, limits: what is watched, and the limits.
        segment_size: bytes of the WAL's segments; version: of the server that is stood for.
        end: tells the timeline and the LSN where the log ends.
        terminate: lets the session of a number end.
    """

    slots: WatchedSlots
    limits: SlotLimits
    segment_size: int
    version: Version
    end: Callable[[], tuple[int, int]]
    terminate: Callable[[int], None]
    _ended: dict[str, int] = field(default_factory=dict)
    """Sessions that are to end, by the slot that they use."""

    def look(self) -> None:
        """Look at all slots.

        Raises:
            HeadwaterError: the WAL cannot be read.
        """
        oldest = self.limits.oldest_kept(self.end()[1], self.segment_size)
        for name in self.slots.names():
            try:
                self._look_at(name, oldest)
            except HeadwaterError as error:
                if name in self.slots.names():
                    log.warning('the slot "%s" cannot be looked at: %s', name, error.one_line())

    def _look_at(self, name: str, oldest: int) -> None:
        slot, idle = self.slots.read(name), self.slots.idle_seconds(name)
        reason = self.limits.broken_by(slot.restart_lsn, oldest, idle)
        if reason is None or self.slots.invalidation_of(name) is not None:
            return
        detail = self._behind(slot, oldest) if reason == WAL_REMOVED else self._idle(idle or 0.0)
        pid = self.slots.pid_of(name)
        if pid is not None:
            self._end_session(name, pid, detail)
            return

        def is_due(slot: Slot) -> bool:
            return self.limits.broken_by(slot.restart_lsn, oldest, idle) is not None

        with suppress(SessionError):  # Somebody has taken it meanwhile.
            if self.slots.invalidate(name, reason, is_due):
                self._ended.pop(name, None)
                self._log_invalidation(name, slot, detail)

    def _end_session(self, name: str, pid: int, detail: _Detail) -> None:
        if self._ended.get(name) != pid:
            self._ended[name] = pid
            self._log(f'terminating process {pid} to release replication slot "{name}"', detail)
            self.terminate(pid)

    def _log_invalidation(self, name: str, slot: Slot, detail: _Detail) -> None:
        text = f'invalidating obsolete replication slot "{name}"'
        if self.version.names_invalidated_streams:
            place = lsn_text(slot.restart_lsn, self.version)
            text = f'invalidating slot "{name}" because its restart_lsn {place} exceeds max_slot_wal_keep_size'
        self._log(text, detail)

    def _log(self, text: str, detail: _Detail) -> None:
        """Log what becomes of a slot; 14 and 15 tell no details."""
        parts = () if self.version.names_invalidated_streams else detail
        log.info("%s", text, extra={"parts": parts})

    def _behind(self, slot: Slot, oldest: int) -> _Detail:
        place, excess = lsn_text(slot.restart_lsn, self.version), oldest - slot.restart_lsn
        unit = "byte" if excess == 1 else "bytes"
        detail = f"The slot's restart_lsn {place} exceeds the limit by {excess} {unit}."
        return self._detail(detail, "max_slot_wal_keep_size")

    def _idle(self, seconds: float) -> _Detail:
        setting, limit = "idle_replication_slot_timeout", self.limits.idle_seconds
        detail = f'The slot\'s idle time of {int(seconds)}s exceeds the configured "{setting}" duration of {limit}s.'
        return self._detail(detail, setting)

    def _detail(self, detail: str, setting: str) -> _Detail:
        hint = f"You might need to increase {shown_setting(setting, self.version)}."
        return ("DETAIL", detail), ("HINT", hint)
