"""A slot moved ahead of what no table needs, where all tables are still to be copied.

A slot that is older than the copies would bring all that was written since, to be passed over. The server moves it
there by itself, without decoding rows; copies begin meanwhile.

Invariants: the slot is never moved behind a place from which the main worker is to apply a table. Where anything stands
against it, the stream brings what is passed over, as ever.

PostgreSQL: slotfuncs.c (pg_replication_slot_advance). A stock subscription decodes, and passes over.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.progress.subscriptions import State, Subscription, read_tables
from headwater.apply.table_sync.sync_pool import SyncPool
from headwater.apply.table_sync.sync_slots import open_server
from headwater.apply.target.connection import TargetConnection
from headwater.errors import ConnectionLostError, ServerError
from headwater.pg.lsn import Lsn
from headwater.receiver.replication_connection import ReplicationConnection
from headwater.remote_slots.slot_connection import literal

FEWEST_BYTES = 16 << 20
"""WAL that is decoded as soon."""

STEP_BYTES, STEP_SECONDS = 512 << 20, 10
"""WAL that a slot is moved over at a time, and how long that may take: nothing is tended meanwhile but being ended."""

_IN_USE = "55006"
_PLACE = "SELECT confirmed_flush_lsn::text FROM pg_catalog.pg_replication_slots WHERE slot_name = {}"
_MOVE = "SELECT end_lsn::text FROM pg_catalog.pg_replication_slot_advance({}, {})"


def move_ahead(
    connection: TargetConnection,
    request: ApplyRequest,
    subscription: Subscription,
    copies: SyncPool,
    is_ending: Callable[[], bool],
    say: Callable[[str], None],
) -> None:
    """Move the slot to where the first table needs it, if none is ready; copies begin meanwhile.

    Args:
        connection: the target's; request: what is asked for; subscription: whose slot it is.
        copies: workers of tables; is_ending: tells whether to leave it; say: is told of it.

    Raises:
        ServerError: a server refuses, or somebody else reads the slot.
        ConnectionLostError: a server is lost.
    """
    tables = read_tables(connection, subscription)
    is_none_ready = bool(tables) and all(table.state != State.READY for table in tables)
    if not is_none_ready or request.definitions.ddl != "ignore" or subscription.two_phase == "e":
        return
    with open_server(request) as source:
        ((_system, _timeline, flushed, _name),) = source.rows("IDENTIFY_SYSTEM")
        rows = source.rows(_PLACE.format(literal(subscription.slot)))
        at, end = _lsn(rows[0][0] if rows and rows[0][0] else flushed), _lsn(flushed)
        # From here on no table's worker hands it over before that.
        copies.begin(connection, subscription, end)
        states = copies.states
        place = min([end, *(states.applied_from(table.oid) for table in states.tables)])
        if place - at < FEWEST_BYTES:
            return
        while at < place and not is_ending():
            copies.tend(connection, 0)
            to = min(place, at + STEP_BYTES)
            if not _moved(source, subscription.slot, to, is_ending):
                return
            at = to
    if at == place:
        say(f'moved replication slot "{subscription.slot}" to {Lsn(place)}, as all tables are copied from then on')


def _lsn(text: str | None) -> int:
    return int(Lsn.parse(str(text)))


def _moved(source: ReplicationConnection, slot: str, lsn: int, is_ending: Callable[[], bool]) -> bool:
    """Move the slot; false if the server cannot, takes too long, or was told to leave it as this is to end.

    Raises:
        ServerError: somebody else reads it.
        ConnectionLostError: the server is lost.
    """
    try:
        source.rows(f"SET statement_timeout = '{STEP_SECONDS}s'")
        source.rows_unless(is_ending, _MOVE.format(literal(slot), literal(str(Lsn(lsn)))))
    except ServerError as error:
        if isinstance(error, ConnectionLostError) or error.sqlstate == _IN_USE:
            raise
        return False
    return True
