"""The metrics of ``headwater land`` for Prometheus (``prometheus-client``): served over HTTP while it runs.

Names follow Prometheus's conventions: base units (bytes, seconds), ``_total`` for what only grows. Positions in the log
are gauges in bytes, exact up to 2^53. What lags is set when a window has landed and when a pass begins; to see a run
that hangs, compare ``headwater_land_resolved_timestamp_seconds`` with the clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headwater.base.system_errors import reason_of
from headwater.cli.process.setup import say
from headwater.errors import HeadwaterError, UsageError
from headwater.lakes.paused import PausedTable
from headwater.landing.landing_watch import NOBODY_WATCHES, CommittedTable, LandedWindow, LandingWatch

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_INSTALL = "run: pip install 'headwater[metrics]'"
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class LandMetrics(LandingWatch):
    """The metrics of a run.

    Args:
        registry: that they are registered with.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"headwater_land_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"headwater_land_{name}", text, registry=registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(f"headwater_land_{name}", text, registry=registry, buckets=_SECONDS)

        self._rows = counter("rows", "Rows that have landed.", "table")
        self._bytes = counter("bytes", "Bytes of the files that have landed.", "table")
        self._files = counter("files", "Files that have landed.", "table")
        self._compacted = counter("compacted_files", "Small files that were made into larger ones.", "table")
        self._expired = counter("expired_files", "Files of old versions that were removed.", "table")
        self._expired_bytes = counter("expired_bytes", "Bytes of these.", "table")
        self._commits = counter("commits", "Commits to tables.", "table")
        self._windows = counter("windows", "Windows of WAL that all tables have.")
        self._wal = counter("wal_bytes", "Bytes of WAL that were gone through.")
        self._transactions = counter("transactions", "Transactions that have landed.")
        self._errors = counter("errors", "Errors that ended the run.", "error")
        self._resolved = gauge("resolved_lsn", "LSN up to which all tables have everything that are not paused.")
        self._tables_paused = gauge("tables_paused", "Tables that are paused.")
        self._paused = Gauge(
            "headwater_land_table_paused", "1 for a table that is paused.", ["table"], registry=registry
        )
        self._files_there = Gauge(
            "headwater_land_table_files", "Files that a table consists of.", ["table"], registry=registry
        )
        self._bytes_there = Gauge("headwater_land_table_bytes", "Bytes of these.", ["table"], registry=registry)
        self._resolved_at = gauge("resolved_timestamp_seconds", "When that was so first.")
        self._end = gauge("wal_end_lsn", "LSN where the log ended then.")
        self._lag = gauge("lag_bytes", "Bytes of WAL that are there and have not landed.")
        self._lag_seconds = gauge(
            "lag_seconds", "Since the commit of the last transaction that has landed; 0 at the end of the log."
        )
        self._commit_seconds = histogram("commit_seconds", "What the commits to a window's tables took.")
        self._window_seconds = histogram("window_seconds", "What tasks and commits of a window took.")
        self._delay = histogram("delay_seconds", "From the last commit of a window on the server until it had landed.")
        self._last_commit: float | None = None
        self._lag_seconds.set_function(self._seconds_behind)
        self._is_behind = False

    def begins(self, lo: int, end: int) -> None:
        self._note_end(lo, end)
        self._resolved.set(lo)

    def committed(self, tables: Sequence[CommittedTable], seconds: float) -> None:
        for table in tables:
            self._rows.labels(table.name).inc(table.rows)
            self._bytes.labels(table.name).inc(table.bytes)
            self._files.labels(table.name).inc(table.files)
            self._commits.labels(table.name).inc()
            self._files_there.labels(table.name).set(table.files_there)
            self._bytes_there.labels(table.name).set(table.bytes_there)
        if tables:
            self._commit_seconds.observe(seconds)

    def passed(self, window: LandedWindow) -> None:
        self._windows.inc()
        self._wal.inc(window.hi - window.lo)
        self._transactions.inc(window.transactions)
        self._window_seconds.observe(window.seconds)
        self._resolved.set(window.hi)
        self._resolved_at.set(window.landed_at)
        if window.delay_seconds is not None:
            self._delay.observe(window.delay_seconds)
            self._last_commit = window.last_commit
        self._note_end(window.hi, window.end)

    def paused(self, tables: Sequence[PausedTable]) -> None:
        self._tables_paused.set(len(tables))
        self._paused.clear()
        for table in tables:
            self._paused.labels(table.name).set(1)

    def compacted(self, table: str, files: int) -> None:
        self._compacted.labels(table).inc(files)

    def expired(self, table: str, files: int, bytes: int) -> None:
        self._expired.labels(table).inc(files)
        self._expired_bytes.labels(table).inc(bytes)

    def failed(self, error: HeadwaterError) -> None:
        """Count an error that ends the run."""
        self._errors.labels(type(error).__name__).inc()

    def _note_end(self, lsn: int, end: int) -> None:
        self._end.set(end)
        self._lag.set(end - lsn)
        self._is_behind = end > lsn

    def _seconds_behind(self) -> float:
        if not self._is_behind or self._last_commit is None:
            return 0.0
        return max(0.0, time.time() - self._last_commit)


@contextmanager
def serve_metrics(address: str | None) -> Iterator[LandingWatch]:
    """Serve metrics while the ``with`` block runs.

    Args:
        address: ``HOST:PORT``, port 0 for any that is free; None to serve none.

    Raises:
        UsageError: it is no address, or cannot be listened on.
        HeadwaterError: ``prometheus-client`` is not there.
    """
    if address is None:
        yield NOBODY_WATCHES
        return
    host, port = _parsed(address)
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise HeadwaterError("metrics need the extra metrics", hint=_INSTALL) from None
    registry = CollectorRegistry()
    metrics = LandMetrics(registry)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise UsageError(f"cannot listen on {address}: {reason_of(error)}") from None
    say(f"headwater: metrics: http://{host}:{server.server_port}/metrics")
    try:
        yield metrics
    except HeadwaterError as error:
        metrics.failed(error)
        raise
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _parsed(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f'"{address}" is no HOST:PORT to serve metrics at', hint="such as --metrics 127.0.0.1:9187")
    return host.strip("[]"), int(port)
