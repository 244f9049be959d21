"""The slots of tables' copies on the publisher: made with the snapshot that is copied, dropped when they have served.

PostgreSQL: tablesync.c (LogicalRepSyncTableStart, ReplicationSlotDropAtPubNode), walsender.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from headwater.apply.incoming.feeds import Feed
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.incoming.slot_source import slot_feed
from headwater.apply.incoming.wal_source import WalFeed
from headwater.apply.table_sync.wal_publisher import Publisher, WalPublisher
from headwater.errors import ServerError
from headwater.jobs.local_engine import LocalEngine
from headwater.pg.lsn import Lsn
from headwater.receiver.replication_connection import ReplicationConnection, Row, quoted
from headwater.remote_slots.slot_connection import conninfo_of, literal

_SLOTS = "SELECT slot_name FROM pg_catalog.pg_replication_slots"
_IS_THERE = "SELECT slot_name FROM pg_catalog.pg_replication_slots WHERE slot_name = {}"
_FAILS_OVER = "SELECT failover FROM pg_catalog.pg_replication_slots WHERE slot_name = {}"
_SNAPSHOTS = {"nothing": "NOEXPORT_SNAPSHOT", "use": "USE_SNAPSHOT", "export": "EXPORT_SNAPSHOT"}
_MISSING, _UNKNOWN = "42704", ("XX000", "42601")


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


def make_slot(source: Publisher, name: str, *, two_phase: bool, fails_over: bool = False) -> None:
    """Make a slot of pgoutput.

    Args:
        source: the publisher; name: the slot's; two_phase: transactions come at PREPARE.
        fails_over: it is synchronized to standbys.

    Raises:
        ServerError: the publisher refuses.
        ConnectionLostError: the publisher is lost.
    """
    if isinstance(source, WalPublisher):
        source.make_slot(name)
        return
    _create(source, name, "nothing", two_phase=two_phase, fails_over=fails_over)


def let_fail_over(source: Publisher, name: str, *, fails_over: bool) -> bool:
    """See that a slot is synchronized to standbys, or is not; tell whether it was otherwise.

    Raises:
        ServerError: the publisher refuses, or knows no such slots.
        ConnectionLostError: the publisher is lost.
    """
    if isinstance(source, WalPublisher):
        return False
    if source.postgres.alters_replication_slots:
        if source.rows(_FAILS_OVER.format(literal(name))) == [("t" if fails_over else "f",)]:
            return False
    elif not fails_over:
        return False
    with _naming_majors(fails_over=fails_over):
        source.rows(f"ALTER_REPLICATION_SLOT {quoted(name)} (FAILOVER {'true' if fails_over else 'false'})")
    return True


@contextmanager
def _naming_majors(*, fails_over: bool) -> Iterator[None]:
    """Let an error of a publisher that knows no slots that fail over say which ones do."""
    try:
        yield
    except ServerError as error:
        if fails_over and error.sqlstate in _UNKNOWN and error.hint is None:
            hint = "--failover needs a publisher of 17 or later"
            raise ServerError(error.message, sqlstate=error.sqlstate, hint=hint) from None
        raise


def _create(source: ReplicationConnection, name: str, snapshot: str, *, two_phase: bool, fails_over: bool) -> list[Row]:
    """Make a slot, and return what the publisher says of it.

    Args:
        source: the publisher; name: the slot's; snapshot: ``nothing``, ``use`` or ``export``.
        two_phase, fails_over: see :func:`make_slot`.
    """
    command = f"CREATE_REPLICATION_SLOT {quoted(name)} LOGICAL pgoutput"
    if fails_over:  # Only in the form that 15 has brought.
        words = [*(["TWO_PHASE"] if two_phase else []), "FAILOVER", f"SNAPSHOT '{snapshot}'"]
        with _naming_majors(fails_over=True):
            return source.rows(f"{command} ({', '.join(words)})")
    return source.rows(f"{command} {_SNAPSHOTS[snapshot]}{' TWO_PHASE' if two_phase else ''}")


def make_sync_slot(source: Publisher, name: str, *, fails_over: bool = False) -> int:
    """Make a slot in a transaction that from here on reads by its snapshot.

    Args:
        source: the publisher; name: the slot's; fails_over: it is synchronized to standbys.

    Returns:
        LSN from which the slot has the changes that the snapshot does not see.

    Raises:
        ServerError: the publisher refuses.
        ConnectionLostError: the publisher is lost.
    """
    if isinstance(source, WalPublisher):
        return source.make_slot(name)
    source.rows("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
    ((_, point, *_),) = _create(source, name, "use", two_phase=False, fails_over=fails_over)
    return int(Lsn.parse(str(point)))


def export_sync_slot(source: ReplicationConnection, name: str, *, fails_over: bool = False) -> tuple[int, str]:
    """Make a slot, and export its snapshot: other sessions may use it until this one does something else, or ends.

    Args:
        source: the publisher; name: the slot's; fails_over: it is synchronized to standbys.

    Returns:
        LSN from which the slot has the changes that the snapshot does not see; the snapshot's name.

    Raises:
        ServerError: the publisher refuses.
        ConnectionLostError: the publisher is lost.
    """
    ((_, point, snapshot, *_),) = _create(source, name, "export", two_phase=False, fails_over=fails_over)
    return int(Lsn.parse(str(point))), str(snapshot)
