"""The reports of long work: a bar a step on a terminal, elsewhere a line now and then.

A run that is over within :data:`FIRST_SECONDS` says nothing where standard error is no terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from headwater.cli.process.setup import STANDARD_ERROR, forget
from headwater.jobs.outcome import Progress as Report

FIRST_SECONDS, MOST_SECONDS = 20.0, 300.0
"""The first line comes after so long, the next when twice the time has passed, later ones at this distance."""

TICK_SECONDS = 1.0


@contextmanager
def step_progress(is_quiet: bool = False) -> Iterator[Report]:
    """Show the tasks of a step on standard error, by a callback.

    Args:
        is_quiet: it shows nothing.
    """
    if is_quiet:
        yield lambda _name, _done, _total: None
    elif sys.stderr.isatty():
        with _bars() as report:
            yield report
    else:
        with ticking(ProgressLines(sys.stderr)) as report:
            yield report


@contextmanager
def _bars() -> Iterator[Report]:
    columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        shown: dict[str, TaskID] = {}

        def report(name: str, done: int, total: int) -> None:
            if name not in shown:
                shown[name] = bars.add_task(name, total=total)
            bars.update(shown[name], completed=done, total=total)

        yield report


@contextmanager
def ticking(lines: ProgressLines) -> Iterator[Report]:
    """Write the lines from a thread; of steps that are not Spark's there is no other news than that they run."""
    done = threading.Event()

    def tick() -> None:
        while not done.wait(TICK_SECONDS):
            try:
                lines.tick()
            except OSError:
                forget(STANDARD_ERROR)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        done.set()
        thread.join()


@dataclass
class ProgressLines:
    """A writer of ``headwater: decode: 12 of 40 tasks, 1m30s`` now and then, whatever the latest news is.

    Attributes:
        out: where to.
        clock: seconds from any moment on.
        first_seconds, most_seconds: when the first line comes, and how far two lie apart at most.
    """

    out: TextIO
    clock: Callable[[], float] = time.monotonic
    first_seconds: float = FIRST_SECONDS
    most_seconds: float = MOST_SECONDS
    _began: float = field(init=False)
    _due: float = field(init=False)
    _news: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._due = self.first_seconds

    def __call__(self, name: str, done: int, total: int) -> None:
        """Take as news that a step has finished `done` of its tasks."""
        self._news = f"{name}: {done} of {total} tasks"

    def tell(self, news: str) -> None:
        """Take something else than tasks as news."""
        self._news = news

    def tick(self) -> None:
        """Write a line if it is time."""
        elapsed = self.clock() - self._began
        if self._news and elapsed >= self._due:
            self._due = elapsed + min(elapsed, self.most_seconds)
            print(f"headwater: {self._news}, {duration(elapsed)}", file=self.out, flush=True)


def duration(seconds: float) -> str:
    """Return words such as ``1m30s``."""
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m{left:02d}s"
    return f"{minutes}m{left:02d}s" if minutes else f"{left}s"
