"""The progress of streams, for Prometheus: a listener that users add to their session.

In: the progress that Spark reports of each query. Out: metrics (``prometheus-client``). Spark's API of Python sources
(up to 4.3) has no metrics of their own; what it has is where a batch ended and where the log ends
(``reportLatestOffset``), and both are LSNs. Queries are distinguished by their names, those without one by their ids.
Runs in Spark's thread of listeners.
"""

from __future__ import annotations

import json
from threading import Condition
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from headwater.errors import HeadwaterError, UsageError
from headwater.pg.lsn import Lsn

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class StreamMetrics(StreamingQueryListener):
    """Metrics of the queries of a session that read the ``headwater`` source.

    ::

        spark.streams.addListener(StreamMetrics())

    Args:
        registry: that they are registered with; None for one of its own (:meth:`exposition`).

    Raises:
        HeadwaterError: ``prometheus-client`` is not there.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        except ImportError:
            hint = "run: pip install 'headwater[metrics]'"
            raise HeadwaterError("metrics need the extra metrics", hint=hint) from None
        self.registry = CollectorRegistry() if registry is None else registry
        own: dict[str, Any] = {"labelnames": ["query"], "registry": self.registry, "namespace": "headwater_stream"}
        self._resolved = Gauge("resolved_lsn", "LSN up to which batches have delivered everything.", **own)
        self._end = Gauge("wal_end_lsn", "LSN where the log ended then.", **own)
        self._lag = Gauge("lag_bytes", "Bytes of WAL that were there and not delivered.", **own)
        self._rows = Counter("rows", "Rows that batches had.", **own)
        self._batches = Counter("batches", "Batches.", **own)
        self._seconds = Histogram("batch_seconds", "What a batch took.", buckets=_SECONDS, **own)
        self._errors = Counter("errors", "Queries that ended with an error.", **own)
        self._names: dict[str, str] = {}
        self._ended = Condition()

    def exposition(self) -> str:
        """Return all metrics, in Prometheus's text form."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry).decode()

    def wait(self, seconds: float) -> bool:
        """Wait until all queries that have begun have ended, and their last batches are counted.

        Spark tells listeners some time after a query's ``awaitTermination`` has returned.

        Args:
            seconds: at most.

        Returns:
            whether they have.
        """
        with self._ended:
            return self._ended.wait_for(lambda: not self._names, seconds)

    def onQueryStarted(self, event: Any) -> None:
        """Note that a query begins; it does not run before this returns."""
        self._names[str(event.id)] = event.name or str(event.id)

    def onQueryProgress(self, event: Any) -> None:
        """Note that a query had a batch, or has nothing to do."""
        progress = event.progress
        for source in progress.sources:
            resolved = _lsn(source.endOffset)
            if resolved is None:
                continue
            query = progress.name or str(progress.id)
            end = max(_lsn(source.latestOffset) or 0, resolved)
            self._resolved.labels(query).set(resolved)
            self._end.labels(query).set(end)
            self._lag.labels(query).set(end - resolved)
            self._rows.labels(query).inc(source.numInputRows)
            self._batches.labels(query).inc()
            self._seconds.labels(query).observe(progress.batchDuration / 1000)

    def onQueryIdle(self, event: Any) -> None:
        """Note that a query has nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:
        """Note that a query ended."""
        query = self._names.get(str(event.id), str(event.id))
        if event.exception is not None:
            self._errors.labels(query).inc()
        with self._ended:
            self._names.pop(str(event.id), None)
            self._ended.notify_all()


def _lsn(offset: str | None) -> int | None:
    """Return the LSN of an offset of ours; None for another source's."""
    try:
        value = json.loads(offset or "null")
        return int(Lsn.parse(value["lsn"])) if isinstance(value, dict) and "since" in value else None
    except (ValueError, KeyError, UsageError):
        return None
