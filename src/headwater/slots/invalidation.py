"""Slots that were invalidated: a file beside the slot's own says why; nothing is decoded from such a slot any more.

It is a file of its own, so that slots of earlier releases are read as they are. Once there, it stays.

PostgreSQL: ReplicationSlotInvalidationCause (slot.h).
"""

from __future__ import annotations

from pathlib import Path

from headwater.base.system_errors import errors_as
from headwater.base.whole_files import write_whole
from headwater.errors import SlotError

WAL_REMOVED, IDLE_TIMEOUT = "wal_removed", "idle_timeout"
"""Reasons, as views name them: it needs WAL from too far back; nobody has used it for too long."""

INVALIDATED = "invalidated"
"""Name of the file."""


def invalidate(path: Path, reason: str) -> None:
    """Note that a slot is not valid any more; called by who uses the slot.

    Raises:
        SlotError: it cannot be written.
    """
    with errors_as(SlotError, "write", path / INVALIDATED):
        write_whole(path / INVALIDATED, [reason.encode()], 0o600)


def invalidation_of(path: Path) -> str | None:
    """Return why a slot is not valid any more; None of one that is.

    Raises:
        SlotError: it cannot be read.
    """
    with errors_as(SlotError, "read", path / INVALIDATED):
        try:
            return (path / INVALIDATED).read_text("ascii", "replace")
        except FileNotFoundError:
            return None


def check_valid(path: Path) -> None:
    """Check that a slot is valid.

    Raises:
        SlotError: it is not, or that cannot be read.
    """
    reason = invalidation_of(path)
    if reason is not None:
        raise SlotError(
            f'replication slot "{path.name}" has been invalidated due to "{reason}"',
            file=str(path),
            hint="drop it, and make another one",
        )
