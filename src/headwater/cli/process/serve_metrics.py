"""The status of ``headwater serve``: as JSON, and as metrics for Prometheus (``prometheus-client``).

Names follow Prometheus's conventions: base units (bytes, seconds), ``_total`` for what only grows. Positions in the log
are gauges in bytes, exact up to 2^53; in JSON they are LSNs. Nothing is counted here: all is computed when it is asked
for, from :class:`~headwater.walsender.service_status.ServiceStatus`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headwater.cli.process.metric_families import Row, family
from headwater.pg.lsn import Lsn
from headwater.protocol.replication_messages import POSTGRES_EPOCH
from headwater.walsender.operating.activity import SessionActivity, SessionState, StreamActivity
from headwater.walsender.service_status import ServiceStatus, ShelfStatus, SlotStatus

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

Json = dict[str, object]


def status_json(status: ServiceStatus) -> bytes:
    """Return a status as JSON."""
    content: Json = {
        "server_version": status.version,
        "system_identifier": str(status.system_identifier),
        "wal": {
            "timeline": status.timeline,
            "end_lsn": _lsn(status.end),
            "received_lsn": None if status.received is None else _lsn(status.received),
        },
        "databases": [{"name": name, "decoded_lsn": _lsn(lsn)} for name, lsn in status.decoded.items()],
        "kept_states": [_shelf(name, shelf) for name, shelf in status.shelves.items()],
        "sessions": [_session(session, status.end) for session in status.sessions],
        "slots": [_slot(slot) for slot in status.slots],
        "connections": status.connections,
        "answers": status.answers,
        "errors": status.errors,
    }
    return json.dumps(content, indent=2).encode() + b"\n"


def _shelf(database: str, shelf: ShelfStatus) -> Json:
    return {
        "database": database,
        "count": shelf.count,
        "size_bytes": shelf.size,
        "oldest_lsn": _lsn(shelf.oldest),
        "newest_lsn": _lsn(shelf.newest),
    }


def _lsn(lsn: int) -> str | None:
    return str(Lsn(lsn)) if lsn else None


def _time(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    return datetime.fromtimestamp(POSTGRES_EPOCH + microseconds / 1e6, UTC).isoformat(timespec="milliseconds")


def _session(session: SessionActivity, end: int) -> Json:
    return {
        "pid": session.pid,
        "state": session.state.value,
        "user": session.user or None,
        "database": session.database or None,
        "application_name": session.application_name,
        "client_addr": session.host,
        "client_port": session.port if session.port > 0 else None,
        "encrypted": session.is_encrypted,
        "replication": session.is_replication,
        "backend_start": _time(session.started),
        "stream": None if session.stream is None else _stream(session.stream, end),
    }


def _stream(stream: StreamActivity, end: int) -> Json:
    return {
        "slot": stream.slot,
        "type": "logical" if stream.is_logical else "physical",
        "state": stream.state.value,
        "sent_lsn": _lsn(stream.sent),
        "write_lsn": _lsn(stream.written),
        "flush_lsn": _lsn(stream.flushed),
        "replay_lsn": _lsn(stream.applied),
        "send_lag_bytes": max(0, end - stream.sent),
        "flush_lag_bytes": _behind(stream, end),
        "write_lag_seconds": stream.write_lag.seconds,
        "flush_lag_seconds": stream.flush_lag.seconds,
        "replay_lag_seconds": stream.replay_lag.seconds,
        "sent_bytes": stream.sent_bytes,
        "sent_messages": stream.sent_messages,
        "reply_time": _time(stream.replied),
    }


def _behind(stream: StreamActivity, end: int) -> int | None:
    return max(0, end - stream.flushed) if stream.flushed else None


def _slot(slot: SlotStatus) -> Json:
    return {
        "slot_name": slot.name,
        "slot_type": "logical" if slot.plugin else "physical",
        "plugin": slot.plugin or None,
        "database": slot.database or None,
        "temporary": slot.is_temporary,
        "active": slot.active_pid is not None,
        "active_pid": slot.active_pid,
        "restart_lsn": _lsn(slot.restart_lsn),
        "confirmed_flush_lsn": _lsn(slot.confirmed_lsn),
        "retained_bytes": slot.retained_bytes,
        "invalidation_reason": slot.invalidated,
        "two_phase": slot.two_phase,
        "failover": slot.failover,
        **asdict(slot.statistics),
    }


class ServeMetrics:
    """The metrics of a service, a collector of ``prometheus-client``.

    Args:
        status: looks at the service.
    """

    def __init__(self, status: Callable[[], ServiceStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Give all metrics as they are now."""
        status = self._status()
        yield from _of_service(status)
        yield from _of_slots(status)
        yield from _of_streams(status)


def _family(kind: str, name: str, text: str, labels: tuple[str, ...], rows: Sequence[Row]) -> Metric:
    return family(kind, f"serve_{name}", text, labels, rows)


def _of_service(status: ServiceStatus) -> Iterator[Metric]:
    states = Counter(session.state for session in status.sessions)
    by_state = [((state.value,), float(states[state])) for state in SessionState]
    yield _family("gauge", "sessions", "Sessions that are connected.", ("state",), by_state)
    yield _family("counter", "connections", "Connections that came.", (), [((), status.connections)])
    answers = [((layer,), float(count)) for layer, count in status.answers.items()]
    yield _family("counter", "answers", "Commands and queries that were answered.", ("layer",), answers)
    errors = [((sqlstate,), float(count)) for sqlstate, count in sorted(status.errors.items())]
    yield _family("counter", "errors", "Errors that clients were told of.", ("sqlstate",), errors)
    yield _family("gauge", "wal_end_lsn", "LSN where the log ends.", (), [((), status.end)])
    if status.received is not None:
        yield _family("gauge", "received_lsn", "LSN up to which WAL was received.", (), [((), status.received)])
    decoded = [((name,), float(lsn)) for name, lsn in status.decoded.items()]
    yield _family("gauge", "decoded_lsn", "LSN up to which a database has been followed.", ("database",), decoded)
    yield from _of_shelves(status)


def _of_shelves(status: ServiceStatus) -> Iterator[Metric]:
    def gauge(name: str, text: str, value: Callable[[ShelfStatus], float]) -> Metric:
        rows = [((database,), float(value(shelf))) for database, shelf in status.shelves.items()]
        return _family("gauge", f"kept_states{name}", text, ("database",), rows)

    yield gauge("", "States that a restart can go on from.", lambda shelf: shelf.count)
    yield gauge("_bytes", "Bytes of their files.", lambda shelf: shelf.size)
    yield gauge("_newest_lsn", "LSN of the newest.", lambda shelf: shelf.newest)


def _of_slots(status: ServiceStatus) -> Iterator[Metric]:
    def gauge(name: str, text: str, value: Callable[[SlotStatus], float]) -> Metric:
        rows = [((slot.name,), float(value(slot))) for slot in status.slots]
        return _family("gauge", f"slot_{name}", text, ("slot",), rows)

    yield gauge("active", "1 for a slot that a session uses.", lambda slot: slot.active_pid is not None)
    yield gauge("restart_lsn", "LSN from which on a slot needs WAL.", lambda slot: slot.restart_lsn)
    yield gauge("confirmed_flush_lsn", "LSN up to which a slot has been delivered.", lambda slot: slot.confirmed_lsn)
    yield gauge("retained_bytes", "Bytes of WAL that a slot needs.", lambda slot: slot.retained_bytes)


def _of_streams(status: ServiceStatus) -> Iterator[Metric]:
    streams = [(session, session.stream) for session in status.sessions]
    labelled = [
        ((str(session.pid), session.application_name, stream.slot or ""), stream)
        for session, stream in streams
        if stream is not None
    ]

    def of_streams(kind: str, name: str, text: str, value: Callable[[StreamActivity], float | None]) -> Metric:
        rows = [(labels, float(number)) for labels, stream in labelled if (number := value(stream)) is not None]
        return _family(kind, f"stream_{name}", text, ("pid", "application_name", "slot"), rows)

    def behind(stream: StreamActivity) -> int | None:
        return _behind(stream, status.end)

    yield of_streams("counter", "sent_bytes", "Bytes of messages that were sent.", lambda stream: stream.sent_bytes)
    yield of_streams("counter", "sent_messages", "Messages that were sent.", lambda stream: stream.sent_messages)
    yield of_streams("gauge", "sent_lsn", "LSN up to which all was sent.", lambda stream: stream.sent)
    yield of_streams("gauge", "flush_lsn", "LSN that the client has synced.", lambda stream: stream.flushed or None)
    yield of_streams("gauge", "lag_bytes", "WAL that the client has not synced.", behind)
    yield of_streams("gauge", "write_lag_seconds", "Until it was written.", lambda stream: stream.write_lag.seconds)
    yield of_streams("gauge", "flush_lag_seconds", "Until it was synced.", lambda stream: stream.flush_lag.seconds)
    yield of_streams("gauge", "replay_lag_seconds", "Until it was applied.", lambda stream: stream.replay_lag.seconds)
