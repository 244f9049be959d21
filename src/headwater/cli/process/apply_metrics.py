"""The status of ``headwater apply``: as JSON, and as metrics for Prometheus (``prometheus-client``).

Names follow Prometheus's conventions, as those of ``serve_metrics.py``. Nothing is counted here. All is computed from
what the subscriptions' processes have said last, which is up to a second old.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headwater.apply.launcher.members import State as RunState
from headwater.apply.progress.subscriptions import State
from headwater.cli.process.metric_families import family
from headwater.pg.lsn import Lsn

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

Json = dict[str, Any]
Look = Callable[[], Sequence[Json]]

_COUNTERS = {
    "transactions": "Transactions that were applied, or passed over.",
    "changes": "Rows that were inserted, updated or deleted, and tables that were truncated.",
    "bytes": "Bytes of messages that came.",
    "sessions": "Sessions that were begun; more than one of a process after errors.",
    "batches": "Batches of transactions that were tried.",
    "batch_fallbacks": "Batches whose transactions were applied one by one after all.",
    "restarts": "Processes that were started after the first.",
}
_PLACES = {
    "received_lsn": "LSN up to which the source's log has come here.",
    "applied_lsn": "LSN up to which all is applied.",
    "durable_lsn": "LSN up to which all is durable on the target, and confirmed to the source.",
}
_LAGS = {
    "lag_bytes": "Bytes of the source's log that have come here and are not durable on the target.",
    "lag_seconds": "From coming here until it was durable.",
}
_WORKERS = ("apply", "parallel apply", "table synchronization")


def status_json(subscriptions: Sequence[Json]) -> bytes:
    """Return the status as JSON."""
    return json.dumps({"subscriptions": subscriptions}, indent=2).encode() + b"\n"


class ApplyMetrics:
    """The metrics of subscriptions, a collector of ``prometheus-client``.

    Args:
        look: looks at them.
    """

    def __init__(self, look: Look) -> None:
        self._look = look

    def collect(self) -> Iterator[Metric]:
        """Give all metrics as they are now."""
        subscriptions = self._look()
        for name, text in _COUNTERS.items():
            yield _figures("counter", name, text, subscriptions, float)
        for name, text in _PLACES.items():
            yield _figures("gauge", name, text, subscriptions, lambda lsn: float(int(Lsn.parse(lsn))))
        for name, text in _LAGS.items():
            yield _figures("gauge", name, text, subscriptions, float)
        yield _states(subscriptions)
        yield _errors(subscriptions)
        yield _tables(subscriptions)
        yield _workers(subscriptions)


def _figures(kind: str, name: str, text: str, subscriptions: Sequence[Json], number: Callable[[Any], float]) -> Metric:
    rows = [((each["subname"],), number(each[name])) for each in subscriptions if each.get(name) is not None]
    return family(kind, f"apply_{name}", text, ("subscription",), rows)


def _states(subscriptions: Sequence[Json]) -> Metric:
    rows = [
        ((each["subname"], state.value), float(each["state"] == state.value))
        for each in subscriptions
        for state in RunState
    ]
    return family("gauge", "apply_state", "1 for the state that it is in.", ("subscription", "state"), rows)


def _errors(subscriptions: Sequence[Json]) -> Metric:
    rows = [
        ((each["subname"], sqlstate), float(count))
        for each in subscriptions
        for sqlstate, count in sorted(each.get("errors", {}).items())
    ]
    return family("counter", "apply_errors", "Errors.", ("subscription", "sqlstate"), rows)


def _tables(subscriptions: Sequence[Json]) -> Metric:
    rows = []
    for each in subscriptions:
        counts = Counter(table["srsubstate"] for table in each.get("tables", ()))
        rows += [((each["subname"], state.value), float(counts[state.value])) for state in State]
    return family("gauge", "apply_tables", "Tables that are in a state.", ("subscription", "state"), rows)


def _workers(subscriptions: Sequence[Json]) -> Metric:
    rows = []
    for each in subscriptions:
        counts = Counter(worker["worker_type"] for worker in each.get("workers", ()))
        rows += [((each["subname"], kind), float(counts[kind])) for kind in _WORKERS]
    return family("gauge", "apply_workers", "Workers.", ("subscription", "type"), rows)
