"""Lags of a client: from sending up to an LSN until it was reported."""

from __future__ import annotations

from headwater.walsender.operating.lag import MOST_SAMPLES, LagTracker


def test_the_time_from_sending_to_the_report() -> None:
    lag = LagTracker()
    for lsn, now in ((100, 1.0), (200, 2.0), (300, 3.0)):
        lag.sent(lsn, now)
    seconds = []
    for lsn, now in ((50, 4.0), (250, 5.0), (300, 5.5), (300, 9.0)):
        lag.reported(lsn, now)
        seconds.append(lag.seconds)
    assert seconds == [None, 3.0, 2.5, None]


def test_samples_are_bounded() -> None:
    lag = LagTracker()
    for number in range(1, 2 * MOST_SAMPLES):
        lag.sent(number, float(number))
    lag.reported(2 * MOST_SAMPLES - 1, 5000.0)
    assert lag.seconds == 5000.0 - (2 * MOST_SAMPLES - 1)
    lag.sent(5000, 5000.0)
    lag.sent(5001, 5000.001)
    lag.reported(5000, 5001.0)
    assert lag.seconds == 1.0
