"""What ``headwater land`` says of itself while it works: a bar on a terminal, lines now and then, or JSON.

Of JSON there is one object a line on standard error for each window that has landed, one for each pass that begins, and
one whenever other tables are paused than before (``event`` is ``window``, ``begin`` or ``paused``); LSNs are texts as
the server prints them, times seconds, rates a second since the run began.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from headwater.cli.process_setup import STANDARD_ERROR, forget, say
from headwater.cli.progress import ProgressLines, duration, ticking
from headwater.jobs.outcome import Progress as Report
from headwater.lakes.paused import PausedTable, lsn_text
from headwater.landing.landing_watch import LandedWindow, LandingWatch
from headwater.pg.lsn import Lsn

AUTO, JSON, NONE = "auto", "json", "none"
KINDS = (AUTO, JSON, NONE)


@contextmanager
def landing_progress(kind: str, follows: bool = False) -> Iterator[tuple[Report, LandingWatch]]:
    """What shows the tasks of a step, and what has landed, on standard error.

    Args:
        kind: one of KINDS.
        follows: the run goes on as the log grows: what it lags behind is shown.
    """
    if kind == NONE:
        yield _say_nothing, LandingWatch()
    elif kind == JSON:
        yield _say_nothing, JsonProgress(sys.stderr)
    elif sys.stderr.isatty():
        with _bar(follows) as (report, watch):
            yield report, watch
    else:
        lines = ProgressLines(sys.stderr)
        with ticking(lines):
            watch = LandingLines(lines, follows)
            yield watch.step, watch


def _say_nothing(name: str, done: int, total: int) -> None:
    pass


@dataclass
class Landed:
    """What has landed since a run began.

    Attributes:
        clock: seconds from any moment on.
        first: LSN where the run began; hi: up to which all has landed; end: LSN where the log ends, or the run will.
        rows, bytes: of tables; windows: how many.
    """

    clock: Callable[[], float] = time.monotonic
    first: int | None = None
    hi: int = 0
    end: int = 0
    rows: int = 0
    bytes: int = 0
    windows: int = 0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def begins(self, lo: int, end: int) -> None:
        """A pass begins."""
        if self.first is None:
            self.first, self._began = lo, self.clock()
        self.hi, self.end = lo, max(end, lo)

    def passed(self, window: LandedWindow) -> None:
        """A window has landed."""
        self.hi, self.end = window.hi, window.end
        self.rows += window.rows
        self.bytes += window.bytes
        self.windows += 1

    @property
    def wal_bytes(self) -> int:
        """WAL that was gone through."""
        return self.hi - (self.hi if self.first is None else self.first)

    @property
    def wal_total(self) -> int:
        """With what is still to come, as far as it is there."""
        return self.wal_bytes + self.end - self.hi

    @property
    def elapsed(self) -> float:
        """Seconds since the first pass began."""
        return max(self.clock() - self._began, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """Until the end at this rate; None where nothing tells it."""
        return (self.end - self.hi) * self.elapsed / self.wal_bytes if self.wal_bytes else None

    def line(self, window: LandedWindow | None, follows: bool) -> str:
        """In words: ``1.2 of 3.4 GB of WAL, 70000 rows, 40.1 MB/s, 1m02s left``."""
        words = [
            f"{decimal(self.wal_bytes)} of {decimal(self.wal_total)} of WAL",
            f"{self.rows} rows",
            f"{decimal(int(self.wal_bytes / self.elapsed))}/s",
        ]
        if self.seconds_left is not None and self.end > self.hi:
            words.append(f"{duration(self.seconds_left)} left")
        if follows and window is not None:
            words.append(lag_of(window))
        return ", ".join(words)


def paused_object(table: PausedTable) -> dict[str, Any]:
    """What JSON says of a paused table."""
    return {
        "table": table.name,
        "oid": table.oid,
        "reason": table.reason,
        "lsn": lsn_text(table.lsn),
        "stands_at": lsn_text(table.stands_at),
        "since": table.since.isoformat(),
    }


def lag_of(window: LandedWindow) -> str:
    """In words, what a window's end lags behind, and how late its last transaction came."""
    delay = window.delay_seconds
    late = "" if delay is None else f", {delay:.1f}s behind its last commit"
    return f"lag {window.lag_bytes} bytes{late}"


class LandingLines(LandingWatch):
    """Lines now and then; and one when the end of the log was first reached, if it is followed.

    Args:
        lines: takes the latest news.
        follows: see :func:`landing_progress`.
    """

    def __init__(self, lines: ProgressLines, follows: bool) -> None:
        self._lines, self._follows = lines, follows
        self._landed = Landed()
        self._is_behind = follows

    def step(self, name: str, done: int, total: int) -> None:
        """Tasks of a step are done: news as long as no window is."""
        if not self._landed.windows:
            self._lines(name, done, total)

    def begins(self, lo: int, end: int) -> None:
        self._landed.begins(lo, end)

    def passed(self, window: LandedWindow) -> None:
        self._landed.passed(window)
        line = self._landed.line(window, self._follows)
        self._lines.tell(f"land: {line}")
        if self._is_behind and not window.lag_bytes:
            self._is_behind = False
            say(f"headwater: land: at the end of the log, {line}")


class JsonProgress(LandingWatch):
    """An object of JSON a line.

    Args:
        out: where to.
        clock: seconds from any moment on.
    """

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._landed = Landed(clock)
        self._has_paused = False

    def begins(self, lo: int, end: int) -> None:
        self._landed.begins(lo, end)
        self._write({"event": "begin", "time": round(time.time(), 3), **self._sums()})

    def passed(self, window: LandedWindow) -> None:
        self._landed.passed(window)
        delay = window.delay_seconds
        self._write(
            {
                "event": "window",
                "time": round(window.landed_at, 3),
                **self._sums(),
                "lag_bytes": window.lag_bytes,
                "delay_seconds": None if delay is None else round(delay, 3),
                "window": {
                    "lo": str(Lsn(window.lo)),
                    "hi": str(Lsn(window.hi)),
                    "rows": window.rows,
                    "files": window.files,
                    "bytes": window.bytes,
                    "transactions": window.transactions,
                    "seconds": round(window.seconds, 3),
                },
            }
        )

    def paused(self, tables: Sequence[PausedTable]) -> None:
        if tables or self._has_paused:
            self._has_paused = bool(tables)
            time_now = round(time.time(), 3)
            self._write({"event": "paused", "time": time_now, "tables": [paused_object(one) for one in tables]})

    def _sums(self) -> dict[str, Any]:
        landed = self._landed
        left = landed.seconds_left
        return {
            "resolved_lsn": str(Lsn(landed.hi)),
            "end_lsn": str(Lsn(landed.end)),
            "wal_bytes": landed.wal_bytes,
            "wal_total": landed.wal_total,
            "rows": landed.rows,
            "bytes": landed.bytes,
            "windows": landed.windows,
            "wal_bytes_per_second": round(landed.wal_bytes / landed.elapsed),
            "rows_per_second": round(landed.rows / landed.elapsed),
            "seconds_left": None if left is None else round(left, 1),
        }

    def _write(self, value: dict[str, Any]) -> None:
        try:
            print(json.dumps(value), file=self._out, flush=True)
        except OSError:
            forget(STANDARD_ERROR)


@contextmanager
def _bar(follows: bool) -> Iterator[tuple[Report, LandingWatch]]:
    columns = (TextColumn("{task.description:14}"), BarColumn(), TextColumn("{task.fields[said]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        watch = _Bar(bars, follows)
        yield watch.step, watch


class _Bar(LandingWatch):
    """One bar, of WAL; before it its step, behind it what has landed."""

    def __init__(self, bars: Progress, follows: bool) -> None:
        self._bars, self._follows = bars, follows
        self._landed = Landed()
        self._task = bars.add_task("start", total=None, said="")

    def step(self, name: str, done: int, total: int) -> None:
        """Tasks of a step are done."""
        self._bars.update(self._task, description=f"{name} {done}/{total}")

    def begins(self, lo: int, end: int) -> None:
        self._landed.begins(lo, end)
        self._show(None)

    def passed(self, window: LandedWindow) -> None:
        self._landed.passed(window)
        self._show(window)

    def _show(self, window: LandedWindow | None) -> None:
        landed = self._landed
        said = landed.line(window, self._follows)
        self._bars.update(self._task, total=landed.wal_total or None, completed=landed.wal_bytes, said=said)
