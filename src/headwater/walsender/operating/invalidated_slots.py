"""Slots that were invalidated, as clients are told of them: what is refused of them, in the words of each major.

PostgreSQL: ReplicationSlotAcquire (slot.c), CreateDecodingContext (logical.c), StartLogicalReplication (walsender.c),
pg_logical_slot_get_changes_guts (logicalfuncs.c), copy_replication_slot (slotfuncs.c).
"""

from __future__ import annotations

from headwater.errors import SessionError
from headwater.pg.sqlstates import OBJECT_NOT_IN_PREREQUISITE_STATE
from headwater.pg.version import Version

_REMOVED = "This slot has been invalidated because it exceeded the maximum reserved size."
NEVER_RESERVED = "This slot has never previously reserved WAL, or it has been invalidated."


def check_usable(name: str, reason: str | None, version: Version) -> None:
    """Check that a slot can be taken for other things than dropping it.

    Args:
        name: its name; reason: why it was invalidated, None if it was not.
        version: of the server that is stood for.

    Raises:
        SessionError: it was invalidated, and cannot be taken for that.
    """
    if reason is not None and not version.uses_invalidated_slots:
        detail = f'This replication slot has been invalidated due to "{reason}".'
        raise _refused(f'can no longer access replication slot "{name}"', detail)


def check_decodable(name: str, reason: str | None, version: Version, *, is_streamed: bool) -> None:
    """Check that a slot can be decoded from.

    Args:
        name, reason, version: as for :func:`check_usable`.
        is_streamed: by START_REPLICATION, else by a function.

    Raises:
        SessionError: it was invalidated.
    """
    check_usable(name, reason, version)
    if reason is None:
        return
    if version.names_invalidated_streams and is_streamed:
        raise _refused(f'cannot read from logical replication slot "{name}"', _REMOVED)
    detail = NEVER_RESERVED if version.names_invalidated_streams else _REMOVED
    raise _refused(f'can no longer get changes from replication slot "{name}"', detail)


def check_copied(name: str, reason: str | None) -> None:
    """Check that a slot can be copied.

    Raises:
        SessionError: it was invalidated.
    """
    if reason is not None:
        raise SessionError(
            f'cannot copy invalidated replication slot "{name}"', sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE
        )


def _refused(message: str, detail: str) -> SessionError:
    return SessionError(message, sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE, detail=detail)
