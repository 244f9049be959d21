"""The progress bar: one line per step, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from headwater.pipeline.spark import Progress as Report


@contextmanager
def step_progress() -> Iterator[Report]:
    """A callback that shows a step's tasks; it does nothing where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield lambda name, done, total: None
        return
    columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        shown: dict[str, TaskID] = {}

        def report(name: str, done: int, total: int) -> None:
            if name not in shown:
                shown[name] = bars.add_task(name, total=total)
            bars.update(shown[name], completed=done, total=total)

        yield report
