"""The reports of ``headwater land`` while it works: a bar on a terminal, lines now and then, or JSON.

JSON is one object a line on standard error. There is one for each window that has landed, and one for each pass that
begins. There is also one whenever other tables are paused than before (``event`` is ``window``, ``begin`` or
``paused``). LSNs are texts as the server prints them, times seconds, rates a second since the run began.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from headwater.cli.process.progress import ProgressLines, duration, ticking
from headwater.cli.process.setup import STANDARD_ERROR, forget, say
from headwater.jobs.outcome import Progress as Report
from headwater.lakes.paused import PausedTable, lsn_text
from headwater.landing.landing_watch import LandedWindow, LandingWatch
from headwater.pg.lsn import Lsn

AUTO, JSON, NONE = "auto", "json", "none"
KINDS = (AUTO, JSON, NONE)


@contextmanager
def landing_progress(kind: str, follows: bool = False) -> Iterator[tuple[Report, LandingWatch]]:
    """Show the tasks of a step, and what has landed, on standard error.

    Args:
        kind: one of KINDS.
        follows: the run goes on as the log grows: its lag is shown.
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


class Landed(LandingWatch):
    """The rows that have landed since a run began; a subclass shows them.

    Attributes:
        first: LSN where the run began; hi: up to which all has landed; end: LSN where the log ends, or the run will.
        rows, bytes: of tables; windows: how many.

    Args:
        clock: seconds from any moment on.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self._began = clock, clock()
        self.first: int | None = None
        self.hi = self.end = self.rows = self.bytes = self.windows = 0

    def begins(self, lo: int, end: int) -> None:
        if self.first is None:
            self.first, self._began = lo, self.clock()
        self.hi, self.end = lo, max(end, lo)

    def passed(self, window: LandedWindow) -> None:
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
        """The bytes of WAL, with what is still to come, as far as it is there."""
        return self.wal_bytes + self.end - self.hi

    @property
    def elapsed(self) -> float:
        """Seconds since the first pass began."""
        return max(self.clock() - self._began, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """The seconds until the end at this rate; None where nothing shows it."""
        return (self.end - self.hi) * self.elapsed / self.wal_bytes if self.wal_bytes else None

    def line(self, window: LandedWindow | None, follows: bool) -> str:
        """Return words such as ``1.2 of 3.4 GB of WAL, 70000 rows, 40.1 MB/s, 1m02s left``."""
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
    """Return a paused table as JSON."""
    return {
        "table": table.name,
        "oid": table.oid,
        "reason": table.reason,
        "lsn": lsn_text(table.lsn),
        "stands_at": lsn_text(table.stands_at),
        "since": table.since.isoformat(),
    }


def lag_of(window: LandedWindow) -> str:
    """Return the lag of a window's end as text, and how late its last transaction came."""
    delay = window.delay_seconds
    late = "" if delay is None else f", {delay:.1f}s behind its last commit"
    return f"lag {window.lag_bytes} bytes{late}"


class LandingLines(Landed):
    """Lines now and then; and one when the end of the log was first reached, if it is followed.

    Args:
        lines: takes the latest news.
        follows: see :func:`landing_progress`.
    """

    def __init__(self, lines: ProgressLines, follows: bool) -> None:
        super().__init__()
        self._lines, self._follows = lines, follows
        self._is_behind = follows

    def step(self, name: str, done: int, total: int) -> None:
        """Take as news how many tasks of a step are done, as long as no window is."""
        if not self.windows:
            self._lines(name, done, total)

    def passed(self, window: LandedWindow) -> None:
        super().passed(window)
        line = self.line(window, self._follows)
        self._lines.tell(f"land: {line}")
        if self._is_behind and not window.lag_bytes:
            self._is_behind = False
            say(f"headwater: land: at the end of the log, {line}")


class JsonProgress(Landed):
    """An object of JSON a line.

    Args:
        out: where to.
        clock: seconds from any moment on.
    """

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._out = out
        self._has_paused = False

    def begins(self, lo: int, end: int) -> None:
        super().begins(lo, end)
        self._write({"event": "begin", "time": round(time.time(), 3), **self._sums()})

    def passed(self, window: LandedWindow) -> None:
        super().passed(window)
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
            self._write({"event": "paused", "time": time_now, "tables": [paused_object(table) for table in tables]})

    def _sums(self) -> dict[str, Any]:
        left = self.seconds_left
        return {
            "resolved_lsn": str(Lsn(self.hi)),
            "end_lsn": str(Lsn(self.end)),
            "wal_bytes": self.wal_bytes,
            "wal_total": self.wal_total,
            "rows": self.rows,
            "bytes": self.bytes,
            "windows": self.windows,
            "wal_bytes_per_second": round(self.wal_bytes / self.elapsed),
            "rows_per_second": round(self.rows / self.elapsed),
            "seconds_left": None if left is None else round(left, 1),
        }

    def _write(self, value: dict[str, Any]) -> None:
        try:
            print(json.dumps(value), file=self._out, flush=True)
        except OSError:
            forget(STANDARD_ERROR)


@contextmanager
def _bar(follows: bool) -> Iterator[tuple[Report, LandingWatch]]:
    columns = (TextColumn("{task.description:14}"), BarColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        watch = _Bar(bars, follows)
        yield watch.step, watch


class _Bar(Landed):
    """A bar of WAL; before it its step, after it what :class:`Landed` says."""

    def __init__(self, bars: Progress, follows: bool) -> None:
        super().__init__()
        self._bars, self._follows = bars, follows
        self._task = bars.add_task("start", total=None, text="")

    def step(self, name: str, done: int, total: int) -> None:
        """Show how many tasks of a step are done."""
        self._bars.update(self._task, description=f"{name} {done}/{total}")

    def begins(self, lo: int, end: int) -> None:
        super().begins(lo, end)
        self._show(None)

    def passed(self, window: LandedWindow) -> None:
        super().passed(window)
        self._show(window)

    def _show(self, window: LandedWindow | None) -> None:
        text = self.line(window, self._follows)
        self._bars.update(self._task, total=self.wal_total or None, completed=self.wal_bytes, text=text)
