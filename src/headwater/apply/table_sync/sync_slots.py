"""The slots of tables' copies on the publisher: made with the snapshot that is copied, dropped when they have served.

PostgreSQL: tablesync.c (LogicalRepSyncTableStart, ReplicationSlotDropAtPubNode), walsender.c.
"""

from __future__ import annotations

from headwater.apply.incoming.requests import ApplyRequest
from headwater.errors import ServerError
from headwater.pg.lsn import Lsn
from headwater.receiver.replication_connection import ReplicationConnection, quoted
from headwater.remote_slots.slot_connection import conninfo_of, literal

_SLOTS = "SELECT slot_name FROM pg_catalog.pg_replication_slots"
_IS_THERE = "SELECT slot_name FROM pg_catalog.pg_replication_slots WHERE slot_name = {}"
_MISSING = "42704"


def open_source(request: ApplyRequest) -> ReplicationConnection:
    """Connect to the publisher, for commands.

    Raises:
        ServerError: it refuses.
        ConnectionLostError: there is no server.
    """
    return ReplicationConnection(*conninfo_of(request.slot))


def has_slot(source: ReplicationConnection, name: str) -> bool:
    """Tell whether there is a slot of a name."""
    return bool(source.rows(_IS_THERE.format(literal(name))))


def list_slots(source: ReplicationConnection, prefix: str, suffix: str) -> list[str]:
    """List the slots whose names begin and end so."""
    names = [str(name) for (name,) in source.rows(_SLOTS)]
    return [name for name in names if name.startswith(prefix) and name.endswith(suffix)]


def drop_slot(source: ReplicationConnection, name: str) -> None:
    """Drop a slot, once nobody reads it any more; it may be missing.

    Raises:
        ServerError: the publisher refuses.
        ConnectionLostError: the publisher is lost.
    """
    try:
        source.rows(f"DROP_REPLICATION_SLOT {quoted(name)} WAIT")
    except ServerError as error:
        if error.sqlstate != _MISSING:
            raise


def make_slot(source: ReplicationConnection, name: str, *, two_phase: bool) -> None:
    """Make a slot of pgoutput.

    Raises:
        ServerError: the publisher refuses.
        ConnectionLostError: the publisher is lost.
    """
    option = " TWO_PHASE" if two_phase else ""
    source.rows(f"CREATE_REPLICATION_SLOT {quoted(name)} LOGICAL pgoutput NOEXPORT_SNAPSHOT{option}")


def make_sync_slot(source: ReplicationConnection, name: str) -> int:
    """Make a slot in a transaction that from here on reads by its snapshot.

    Returns:
        LSN from which the slot has the changes that the snapshot does not see.

    Raises:
        ServerError: the publisher refuses.
        ConnectionLostError: the publisher is lost.
    """
    source.rows("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
    ((_, point, *_),) = source.rows(f"CREATE_REPLICATION_SLOT {quoted(name)} LOGICAL pgoutput USE_SNAPSHOT")
    return int(Lsn.parse(str(point)))


def export_sync_slot(source: ReplicationConnection, name: str) -> tuple[int, str]:
    """Make a slot, and export its snapshot: other sessions may use it until this one does something else, or ends.

    Returns:
        LSN from which the slot has the changes that the snapshot does not see; the snapshot's name.

    Raises:
        ServerError: the publisher refuses.
        ConnectionLostError: the publisher is lost.
    """
    ((_, point, snapshot, *_),) = source.rows(
        f"CREATE_REPLICATION_SLOT {quoted(name)} LOGICAL pgoutput EXPORT_SNAPSHOT"
    )
    return int(Lsn.parse(str(point))), str(snapshot)
