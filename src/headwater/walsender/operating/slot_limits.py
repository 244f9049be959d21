"""The limits of slots: how far behind the end of the log one may be, and for how long nobody may use it.

A slot that is over one of them is invalidated (:mod:`headwater.walsender.operating.slot_watch`): it keeps no WAL any
more, and nothing is decoded from it. How far behind it is counts in whole segments, as with the server.

PostgreSQL: KeepLogSeg, GetWALAvailability (xlog.c), DetermineSlotInvalidationCause (slot.c), pg_get_replication_slots
(slotfuncs.c). Known gap: no slot is ``extended``, as there is no max_wal_size here.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.pg.version import Version
from headwater.slots.invalidation import IDLE_TIMEOUT, WAL_REMOVED
from headwater.walsender.operating.timeouts import shown_timeout

_MB, _GB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class SlotLimits:
    """The limits of slots.

    Attributes:
        kept_bytes: of WAL that a slot may keep; None for any number.
        idle_seconds: for which a slot may be idle; 0 for ever.
    """

    kept_bytes: int | None = None
    idle_seconds: int = 0

    @property
    def are_any(self) -> bool:
        """Whether there are any."""
        return self.kept_bytes is not None or self.idle_seconds > 0

    def settings(self, version: Version) -> dict[str, str]:
        """Return them as settings of a server's release: names and values."""
        keeping = {"max_slot_wal_keep_size": "-1" if self.kept_bytes is None else shown_size(self.kept_bytes)}
        idle = {"idle_replication_slot_timeout": shown_timeout(self.idle_seconds * 1000)}
        return keeping | (idle if version.has_idle_slot_timeout else {})

    def oldest_kept(self, end: int, segment_size: int) -> int:
        """Return the LSN from which on slots may keep WAL, where the log ends; 0 for any."""
        if self.kept_bytes is None:
            return 0
        return max(0, end // segment_size - self.kept_bytes // segment_size) * segment_size

    def safe_wal_size(self, restart_lsn: int, end: int, segment_size: int) -> int | None:
        """Return the bytes of WAL behind which a slot is over the limit; None without one."""
        if self.kept_bytes is None:
            return None
        return (restart_lsn // segment_size + self.kept_bytes // segment_size + 1) * segment_size - end

    def broken_by(self, restart_lsn: int, oldest_kept: int, idle_seconds: float | None) -> str | None:
        """Return the reason why a slot is to be invalidated; None to leave it.

        Args:
            restart_lsn: of the slot, 0 for nowhere; oldest_kept: see :meth:`oldest_kept`.
            idle_seconds: for which nobody has used it; None while somebody does.
        """
        if not restart_lsn:
            return None
        if restart_lsn < oldest_kept:
            return WAL_REMOVED
        is_idle = idle_seconds is not None and 0 < self.idle_seconds < idle_seconds
        return IDLE_TIMEOUT if is_idle else None


def shown_size(size: int) -> str:
    """Show bytes, whole megabytes of them, as SHOW does."""
    return f"{size // _GB}GB" if size and size % _GB == 0 else f"{size // _MB}MB" if size else "0"
