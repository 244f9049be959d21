"""The status of a subscription's process, as it tells it to the launcher: an object of JSON.

Names are those of ``pg_stat_subscription`` and ``pg_subscription_rel`` where the server has them. LSNs are texts as the
server prints them, times are of ISO 8601, in UTC.

PostgreSQL: launcher.c (pg_stat_get_subscription).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headwater.apply.progress.subscriptions import SubscribedTable
from headwater.pg.lsn import Lsn
from headwater.protocol.replication_messages import POSTGRES_EPOCH

if TYPE_CHECKING:
    from headwater.apply.worker import ApplyWorker

Json = dict[str, Any]

COUNTERS = ("transactions", "changes", "bytes", "sessions", "batches", "batch_fallbacks")
"""Figures that only grow as long as a process lives."""


def status_of(worker: ApplyWorker, name: str) -> Json:
    """Look at a worker, from any thread.

    Args:
        worker: it; name: the subscription's.
    """
    counts, heard, batches = worker.counts, worker.heard, worker.batches
    return {
        "workers": _workers(worker, name),
        "tables": tables_json(worker.tables),
        "received_lsn": lsn_text(heard.received),
        "applied_lsn": lsn_text(worker.applied),
        "durable_lsn": lsn_text(worker.durable),
        "lag_bytes": max(0, heard.received - worker.durable) if worker.durable and heard.received else None,
        "lag_seconds": worker.lag.seconds,
        "transactions": counts.transactions,
        "changes": counts.changes,
        "bytes": counts.bytes,
        "sessions": counts.sessions,
        "batches": batches.tried,
        "batch_fallbacks": batches.fallbacks,
        "errors": counts.errors,
        "last_error": counts.last_error,
    }


def tables_json(tables: Iterable[SubscribedTable]) -> list[Json]:
    """Return tables as ``pg_subscription_rel`` has them, with their names."""
    return [
        {
            "relid": table.oid,
            "schemaname": table.namespace,
            "relname": table.name,
            "srsubstate": table.state.value,
            "srsublsn": lsn_text(table.lsn),
        }
        for table in tables
    ]


def _workers(worker: ApplyWorker, name: str) -> list[Json]:
    """Return the rows of ``pg_stat_subscription``."""
    heard, pid = worker.heard, os.getpid()
    main: Json = {
        "received_lsn": lsn_text(heard.received),
        "last_msg_send_time": time_text(heard.sent_at),
        "last_msg_receipt_time": time_text(heard.received_at),
        "latest_end_lsn": lsn_text(heard.end),
        "latest_end_time": time_text(heard.end_at),
    }
    nothing: Json = dict.fromkeys(main)
    rows: list[tuple[str, int | None, int | None, Json]] = [("apply", None, None, main)]
    rows += [("parallel apply", pid, None, nothing) for _ in worker.ahead]
    rows += [("table synchronization", None, oid, nothing) for oid in worker.being_copied]
    return [
        {"subname": name, "worker_type": kind, "pid": pid, "leader_pid": leader, "relid": oid, **places}
        for kind, leader, oid, places in rows
    ]


def added(totals: Json, status: Json) -> Json:
    """Return a status whose counts go on from those of processes before.

    Args:
        totals: counts, and errors by SQLSTATE, of the processes before; status: of the one that runs.
    """
    errors = dict(totals.get("errors", {}))
    for sqlstate, count in status.get("errors", {}).items():
        errors[sqlstate] = errors.get(sqlstate, 0) + count
    sums = {name: totals.get(name, 0) + status.get(name, 0) for name in COUNTERS}
    return {**status, **sums, "errors": errors}


def lsn_text(lsn: int) -> str | None:
    """Write an LSN; None for none."""
    return str(Lsn(lsn)) if lsn else None


def time_text(microseconds: int | None) -> str | None:
    """Write a time, given in microseconds since 2000-01-01; None for none."""
    if microseconds is None:
        return None
    return datetime.fromtimestamp(POSTGRES_EPOCH + microseconds / 1e6, UTC).isoformat(timespec="microseconds")
