"""Places that wait to be durable, and when that takes long."""

from __future__ import annotations

from headwater.apply.progress.positions import LATE_SECONDS, FlushPositions
from serving.service import wait_until


def test_what_was_committed_is_durable_once_the_target_is() -> None:
    positions = FlushPositions(10)
    positions.committed(20, 1000)
    positions.committed(30, 2000)
    positions.passed(35)
    positions.flushed(1999)
    assert (positions.durable, positions.applied, positions.waits) == (20, 35, True)
    positions.flushed(2000)
    assert (positions.durable, positions.waits) == (35, False)


def test_what_waits_for_long_is_late_at_most_once_in_a_while() -> None:
    positions = FlushPositions(10)
    assert not positions.is_late()
    positions.committed(20, 1000)
    assert not positions.is_late()
    wait_until(positions.is_late, 20 * LATE_SECONDS)
    assert not positions.is_late()
    positions.flushed(1000)
    assert not positions.is_late()
