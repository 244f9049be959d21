"""Metrics of ``headwater land`` that a run that goes well does not show."""

from __future__ import annotations

import socket
import urllib.request

import pytest
from prometheus_client import CollectorRegistry

from headwater.cli.process.land_metrics import LandMetrics, serve_metrics
from headwater.errors import LakeConflictError, UsageError
from headwater.landing.landing_watch import LandedWindow


def test_what_lags() -> None:
    registry = CollectorRegistry()
    metrics = LandMetrics(registry)
    metrics.begins(0, 1000)
    metrics.passed(LandedWindow(0, 400, 1000, 10, 1, 500, 2, 1000.0, 1002.5, 0.5))
    assert registry.get_sample_value("headwater_land_lag_bytes") == 600
    seconds = registry.get_sample_value("headwater_land_lag_seconds")
    assert seconds is not None
    assert seconds > 1_000_000
    metrics.passed(LandedWindow(400, 1000, 1000, 0, 0, 0, 0, None, 1003.0, 0.5))
    assert registry.get_sample_value("headwater_land_lag_seconds") == 0
    assert registry.get_sample_value("headwater_land_delay_seconds_count") == 1


def test_the_error_that_ended_a_run() -> None:
    registry = CollectorRegistry()
    LandMetrics(registry).failed(LakeConflictError("somebody else"))
    assert registry.get_sample_value("headwater_land_errors_total", {"error": "LakeConflictError"}) == 1


def test_they_are_served_as_long_as_the_run_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    with serve_metrics("127.0.0.1:0"):
        address = capsys.readouterr().err.removeprefix("headwater: metrics: ").strip()
        with urllib.request.urlopen(address) as answer:
            assert b"headwater_land_windows_total 0.0" in answer.read()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address)


@pytest.mark.parametrize("address", ["9187", "host:", ":9187", "host:x", "host:70000"])
def test_no_address(address: str) -> None:
    with pytest.raises(UsageError, match="is no HOST:PORT"), serve_metrics(address):
        pass


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match="cannot listen on"), serve_metrics(f"127.0.0.1:{port}"):
            pass
