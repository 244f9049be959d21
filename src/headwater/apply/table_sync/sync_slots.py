"""The slots of tables' copies on the publisher: made with the snapshot that is copied, dropped when they have served.

PostgreSQL: tablesync.c (LogicalRepSyncTableStart, ReplicationSlotDropAtPubNode), walsender.c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headwater.apply.incoming.feeds import Feed
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.incoming.slot_source import slot_feed
from headwater.apply.incoming.wal_source import WalFeed
from headwater.apply.table_sync.wal_publisher import Publisher, WalPublisher
from headwater.errors import ServerError
from headwater.jobs.local_engine import LocalEngine
from headwater.pg.lsn import Lsn
from headwater.receiver.replication_connection import ReplicationConnection, quoted
from headwater.remote_slots.slot_connection import conninfo_of, literal

_SLOTS = "SELECT slot_name FROM pg_catalog.pg_replication_slots"
_IS_THERE = "SELECT slot_name FROM pg_catalog.pg_replication_slots WHERE slot_name = {}"
_MISSING = "42704"


def open_source(request: ApplyRequest) -> Publisher:
    """Connect to the publisher, for commands; or open the log at hand as one.

    Raises:
        ServerError: it refuses.
        ConnectionLostError: there is no server.
        HeadwaterError: the log cannot be read.
    """
    if request.wal is not None:
        return WalPublisher(request.wal)
    return open_server(request)


def open_server(request: ApplyRequest) -> ReplicationConnection:
    """Connect to the publisher, which is a server.

    Raises:
        ServerError: it refuses.
        ConnectionLostError: there is no server.
    """
    return ReplicationConnection(*conninfo_of(request.source))


def look_at_present(source: Publisher) -> int:
    """Ask the log's catalog as of its end from here on; return that LSN, 0 of a server, which is asked as it is."""
    if not isinstance(source, WalPublisher):
        return 0
    source.look_at_end()
    return source.lsn


def look_behind(source: Publisher, lsn: int, wait: Callable[[], None] = lambda: None) -> int:
    """Ask the log's catalog as of where a table is copied that was listed at an LSN; return that LSN, 0 of a server.

    Args:
        source: what is asked; lsn: see above; wait: waits a while for the subscription's slot to come there.
    """
    if not isinstance(source, WalPublisher):
        return 0
    while not source.look_at_slot(lsn):
        wait()
    return source.lsn


def sync_feed(request: ApplyRequest, name: str, reached: int) -> Feed:
    """Open the stream of a table's own slot, behind what is applied.

    Raises:
        ServerError: the publisher refuses.
        ConnectionLostError: the publisher is lost.
        HeadwaterError: the log cannot be read.
    """
    if request.wal is not None:
        decoded = replace(request.wal.request, two_phase=False, slot=name)
        return WalFeed(replace(request.wal, request=decoded, name=name, engine=LocalEngine, bulk_bytes=None), reached)
    own = replace(request.slot, slot=name, creates_slot=False, two_phase=False, application=name)
    return slot_feed(replace(request, slot=own, streaming="off", end=0), reached)


def has_slot(source: Publisher, name: str) -> bool:
    """Tell whether there is a slot of a name."""
    if isinstance(source, WalPublisher):
        return source.has_slot(name)
    return bool(source.rows(_IS_THERE.format(literal(name))))


def list_slots(source: Publisher, prefix: str, suffix: str) -> list[str]:
    """List the slots whose names begin and end so."""
    if isinstance(source, WalPublisher):
        names = source.list_slots()
    else:
        names = [str(name) for (name,) in source.rows(_SLOTS)]
    return [name for name in names if name.startswith(prefix) and name.endswith(suffix)]


def drop_slot(source: Publisher, name: str) -> None:
    """Drop a slot, once nobody reads it any more; it may be missing.

    Raises:
        ServerError: the publisher refuses.
        ConnectionLostError: the publisher is lost.
    """
    try:
        if isinstance(source, WalPublisher):
            source.drop_slot(name)
        else:
            source.rows(f"DROP_REPLICATION_SLOT {quoted(name)} WAIT")
    except ServerError as error:
        if error.sqlstate != _MISSING:
            raise


def copy_slot(source: Publisher, name: str, new: str) -> None:
    """Make a slot that stands where another one does, which is the subscription's; one of its name goes first.

    Raises:
        ServerError: the publisher refuses.
        ConnectionLostError: the publisher is lost.
        SlotError: the slot cannot be made.
    """
    if isinstance(source, WalPublisher):
        source.copy_slot(new)
        return
    drop_slot(source, new)
    source.rows(f"SELECT pg_catalog.pg_copy_logical_replication_slot({literal(name)}, {literal(new)})")


def make_slot(source: Publisher, name: str, *, two_phase: bool) -> None:
    """Make a slot of pgoutput.

    Raises:
        ServerError: the publisher refuses.
        ConnectionLostError: the publisher is lost.
    """
    if isinstance(source, WalPublisher):
        source.make_slot(name)
        return
    option = " TWO_PHASE" if two_phase else ""
    source.rows(f"CREATE_REPLICATION_SLOT {quoted(name)} LOGICAL pgoutput NOEXPORT_SNAPSHOT{option}")


def make_sync_slot(source: Publisher, name: str) -> int:
    """Make a slot in a transaction that from here on reads by its snapshot.

    Returns:
        LSN from which the slot has the changes that the snapshot does not see.

    Raises:
        ServerError: the publisher refuses.
        ConnectionLostError: the publisher is lost.
    """
    if isinstance(source, WalPublisher):
        return source.make_slot(name)
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
