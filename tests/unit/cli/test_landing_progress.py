"""The progress of ``headwater land``: figures of windows, as JSON and in words."""

from __future__ import annotations

import json
from io import StringIO

from headwater.cli.process.landing_progress import JsonProgress, Landed, LandingLines, lag_of
from headwater.cli.process.progress import ProgressLines
from headwater.landing.landing_watch import LandedWindow

SEGMENT = 1 << 20


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def window(lo: int, hi: int, end: int, last_commit: float | None = 1000.0) -> LandedWindow:
    return LandedWindow(lo, hi, end, 10, 1, 500, 2, last_commit, 1002.5, 0.5)


def test_figures_of_windows() -> None:
    clock, out = Clock(), StringIO()
    progress = JsonProgress(out, clock)
    progress.begins(SEGMENT, 5 * SEGMENT)
    clock.now += 2
    progress.passed(window(SEGMENT, 2 * SEGMENT, 6 * SEGMENT))
    progress.begins(2 * SEGMENT, 6 * SEGMENT)
    clock.now += 2
    progress.passed(window(2 * SEGMENT, 6 * SEGMENT, 6 * SEGMENT, None))
    begun, first, _, last = [json.loads(line) for line in out.getvalue().splitlines()]
    assert (begun["event"], begun["wal_bytes"], begun["wal_total"]) == ("begin", 0, 4 * SEGMENT)
    assert begun["seconds_left"] is None
    assert (first["wal_bytes"], first["wal_total"], first["lag_bytes"]) == (SEGMENT, 5 * SEGMENT, 4 * SEGMENT)
    assert (first["seconds_left"], first["delay_seconds"]) == (8.0, 2.5)
    assert (first["resolved_lsn"], first["end_lsn"]) == ("0/200000", "0/600000")
    assert (last["rows"], last["windows"], last["rows_per_second"], last["seconds_left"]) == (20, 2, 5, 0.0)
    assert (last["delay_seconds"], last["lag_bytes"]) == (None, 0)


def test_words() -> None:
    clock = Clock()
    landed = Landed(clock)
    landed.begins(0, 4_000_000)
    clock.now += 2
    landed_window = window(0, 1_000_000, 4_000_000)
    landed.passed(landed_window)
    words = "1.0 MB of 4.0 MB of WAL, 10 rows, 500.0 kB/s, 6s left"
    assert landed.line(landed_window, follows=False) == words
    assert landed.line(landed_window, follows=True) == f"{words}, lag 3000000 bytes, 2.5s behind its last commit"
    assert lag_of(window(0, 1, 1, None)) == "lag 0 bytes"


def test_a_clock_behind_the_servers() -> None:
    assert window(0, 1, 1, 2000.0).delay_seconds == 0


def test_steps_are_news_until_a_window_is() -> None:
    out, clock = StringIO(), Clock()
    lines = ProgressLines(out, clock, first_seconds=0)
    watch = LandingLines(lines, follows=False)
    watch.step("index", 1, 3)
    lines.tick()
    watch.begins(0, 2)
    watch.passed(window(0, 1, 2))
    watch.step("index", 2, 3)
    clock.now += 400
    lines.tick()
    first, second = out.getvalue().splitlines()
    assert first.startswith("headwater: index: 1 of 3 tasks")
    assert second.startswith("headwater: land: 1 byte of 2 bytes of WAL, 10 rows") or "10 rows" in second
