"""The memory of the largest worker while it decodes one transaction of 5 GB; see :mod:`schemas`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from results import MEGABYTE, Measurement, Result, Sitting
from schema_workloads import ONE_TRANSACTION, WIDE_ROW_WAL
from schemas import Cost, measure_schema

SIZE = 5 << 10
"""MB of WAL."""

RUNS = 3


def measure(sitting: Sitting, _names: Collection[str]) -> list[Result]:
    """Decode the transaction beside the server, which has its own settings."""
    size = SIZE if sitting.changes is None else max(1, (sitting.changes * WIDE_ROW_WAL) >> 20)
    measured = measure_schema(
        replace(ONE_TRANSACTION, size=size), sitting.runs or RUNS, sitting.directory, sitting.console
    )
    peaks = tuple(peak / MEGABYTE for peak in measured.ours.worker_runs)
    more = {"wal_mb": measured.wal_bytes / MEGABYTE, "driver_mb": measured.ours.peak_bytes / MEGABYTE} | _speed(
        measured.ours, measured.server
    )
    about = f"one transaction of {size / 1024:.3g} GB: largest worker"
    return [Result("memory_huge_txn_mb", about, "MB", peaks, is_cost=True, target=1000, more=more)]


def _speed(ours: Cost, server: Cost) -> dict[str, float]:
    return {"seconds": ours.median, "server_seconds": server.median, "server_mb": server.peak_bytes / MEGABYTE}


MEASUREMENT = Measurement(("memory_huge_txn_mb",), measure)
