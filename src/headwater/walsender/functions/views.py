"""The views of slots and sessions: their rows, by names of columns; which columns they have the catalog says.

PostgreSQL: system_views.sql, slotfuncs.c (pg_get_replication_slots), walsender.c (pg_stat_get_wal_senders),
pgstatfuncs.c. Known gaps: catalog_xmin is NULL, as a slot here holds back no server's catalog; usesysid is NULL, as
users are no roles; lags and two_phase_at are NULL; statistics have neither spilled nor streamed transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.walsender.queries.functions import View, ViewColumn
from headwater.walsender.queries.value_types import TYPES

Row = Mapping[str, Any]


@dataclass(frozen=True)
class SlotFacts:
    """A slot, as views tell of it.

    Attributes:
        name, plugin, database: names; plugin and database None of a physical slot.
        database_oid: None likewise.
        is_temporary, two_phase, failover: flags.
        pid: of the session that uses it; None without one.
        inactive_since: when it was last let go of, or the service began: microseconds since 2000-01-01.
        restart_lsn, confirmed_lsn: None for nowhere.
        total_txns, total_bytes: what was sent of it.
        invalidated: why it is not valid any more; None of one that is.
        is_over_limit: it keeps more WAL than it may.
        safe_wal_size: bytes of WAL that it may keep further; None without a limit, or where it is lost.
    """

    name: str
    plugin: str | None
    database: str | None
    database_oid: int | None
    is_temporary: bool
    two_phase: bool
    failover: bool
    pid: int | None
    inactive_since: int
    restart_lsn: int | None
    confirmed_lsn: int | None
    total_txns: int
    total_bytes: int
    invalidated: str | None
    is_over_limit: bool
    safe_wal_size: int | None


@dataclass(frozen=True)
class SessionFacts:
    """A session, as views tell of it; times are microseconds since 2000-01-01.

    Attributes:
        pid: its number; user, application, database: names, the last None of physical replication.
        database_oid: None where there is none of the name.
        address, port: of the client; None and -1 on a Unix socket.
        port, started, state: None where the user may not know them.
        is_replication: it is a replication connection.
        started: when it began; query_started: its last query; state_changed: since when it is in its state.
        transaction_started: None outside of a transaction.
        state: as pg_stat_activity has it; query: the last one.
        stream: of a stream the positions and its state; None without one.
    """

    pid: int
    user: str
    application: str
    database: str | None
    database_oid: int | None
    address: str | None
    port: int | None
    is_replication: bool
    started: int | None
    query_started: int | None
    state_changed: int | None
    transaction_started: int | None
    state: str | None
    query: str
    stream: StreamFacts | None = None


@dataclass(frozen=True)
class StreamFacts:
    """A stream: LSNs that were sent and reported, 0 for none; ``catchup`` or ``streaming``; when the client spoke."""

    sent: int
    written: int
    flushed: int
    applied: int
    state: str | None
    replied: int | None


HIDDEN = "<insufficient privilege>"


def hidden(session: SessionFacts) -> SessionFacts:
    """Return what a user is told of a session of somebody else's, who may not know more."""
    return replace(
        session,
        address=None,
        port=None,
        started=None,
        query_started=None,
        state_changed=None,
        transaction_started=None,
        state=None,
        query=HIDDEN,
        stream=None if session.stream is None else StreamFacts(0, 0, 0, 0, None, None),
    )


def slot_row(slot: SlotFacts, *, names_reasons: bool = True) -> Row:
    """Return a row of pg_replication_slots.

    Args:
        slot: it; names_reasons: there is a column of why a slot is invalid, so that not all such slots are conflicting.
    """
    is_logical = slot.plugin is not None
    return {
        "slot_name": slot.name,
        "plugin": slot.plugin,
        "slot_type": "logical" if is_logical else "physical",
        "datoid": slot.database_oid,
        "database": slot.database,
        "temporary": slot.is_temporary,
        "active": slot.pid is not None,
        "active_pid": slot.pid,
        "xmin": None,
        "catalog_xmin": None,
        "restart_lsn": slot.restart_lsn,
        "confirmed_flush_lsn": slot.confirmed_lsn if is_logical else None,
        "wal_status": _wal_status(slot),
        "safe_wal_size": slot.safe_wal_size,
        "two_phase": slot.two_phase,
        "two_phase_at": None,
        "inactive_since": slot.inactive_since if slot.pid is None else None,
        "conflicting": slot.invalidated is not None and not names_reasons if is_logical else None,
        "invalidation_reason": slot.invalidated,
        "failover": slot.failover,
        "synced": False,
        "slotsync_skip_reason": None,
    }


def _wal_status(slot: SlotFacts) -> str | None:
    if slot.invalidated is not None:
        return "lost"
    if slot.restart_lsn is None:
        return None
    return "unreserved" if slot.is_over_limit else "reserved"


_NEVER_COUNTED = (
    *("spill_txns", "spill_count", "spill_bytes", "stream_txns", "stream_count", "stream_bytes"),
    *("mem_exceeded_count", "slotsync_skip_count"),
)
_NEVER_AT = ("slotsync_last_skip", "stats_reset")


def slot_statistics_row(slot: SlotFacts) -> Row:
    """Return a row of pg_stat_replication_slots."""
    totals = {"total_txns": slot.total_txns, "total_bytes": slot.total_bytes}
    return {"slot_name": slot.name, **dict.fromkeys(_NEVER_COUNTED, 0), **totals, **dict.fromkeys(_NEVER_AT)}


def stream_row(session: SessionFacts) -> Row:
    """Return a row of pg_stat_replication."""
    stream = session.stream
    assert stream is not None
    return {
        **_client(session),
        "backend_xmin": None,
        "state": stream.state,
        "sent_lsn": stream.sent or None,
        "write_lsn": stream.written or None,
        "flush_lsn": stream.flushed or None,
        "replay_lsn": stream.applied or None,
        **dict.fromkeys(("write_lag", "flush_lag", "replay_lag")),
        "sync_priority": 0 if stream.state is not None else None,
        "sync_state": "async" if stream.state is not None else None,
        "reply_time": stream.replied,
    }


def _client(session: SessionFacts) -> dict[str, Any]:
    return {
        "pid": session.pid,
        "usesysid": None,
        "usename": session.user,
        "application_name": session.application,
        "client_addr": session.address,
        "client_hostname": None,
        "client_port": session.port,
        "backend_start": session.started,
    }


def activity_row(session: SessionFacts) -> Row:
    """Return a row of pg_stat_activity."""
    is_waiting = session.stream is None and session.state is not None and session.state.startswith("idle")
    return {
        "datid": session.database_oid,
        "datname": session.database,
        **_client(session),
        "leader_pid": None,
        "xact_start": session.transaction_started,
        "query_start": session.query_started,
        "state_change": session.state_changed,
        "wait_event_type": "Client" if is_waiting else None,
        "wait_event": "ClientRead" if is_waiting else None,
        "state": session.state,
        "backend_xid": None,
        "backend_xmin": None,
        "query_id": None,
        "query": session.query,
        "backend_type": "walsender" if session.is_replication else "client backend",
    }


def view_of(name: str, catalog: HistoricCatalog, rows: Callable[[], Iterable[Row]]) -> View | None:
    """Return a view with the columns that the catalog knows; None if it has one of a type that is not known here.

    Args:
        name: in pg_catalog; catalog: as of any LSN; rows: gives its rows.
    """
    oid = catalog.relation_named("pg_catalog", name)
    relation = None if oid is None else catalog.relation(oid)
    if oid is None or relation is None:
        return None
    columns = list[ViewColumn]()
    for column in relation.columns:
        type = None if column.type is None else TYPES.get(column.type.oid)
        if type is None:
            return None
        columns.append(ViewColumn(column.name, type, column.number))
    return View(name, oid, tuple(columns), rows)
