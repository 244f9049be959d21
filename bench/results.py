"""The figures that ``make bench`` finds, of one shape: for ``build/bench.json``, for people and for charts.

A figure is what Headwater gets beside what others get for the same, in each run. Medians are what counts. The ratio
comes with its range: the lowest and the highest that any run of one makes with any run of the other. What costs
something (seconds, megabytes) is compared the other way about, so that more is better in every ratio. A figure that has
nothing beside it has the range of its own runs.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

Runs = tuple[float, ...]
"""A figure of each run, in the figure's unit."""

MEGABYTE = 1 << 20
DIGITS = 3


@dataclass(frozen=True)
class Sitting:
    """The place and the numbers that a measurement is given.

    Attributes:
        directory: for what is written.
        console: tells what is being done.
        changes: rows or changes to be written, seconds: of load, runs: how many; None for the measurement's own number.
    """

    directory: Path
    console: Console
    changes: int | None = None
    seconds: float | None = None
    runs: int | None = None


@dataclass(frozen=True)
class Result:
    """A figure.

    Attributes:
        name: as in ``bench.json``; about: for people; unit: of all that follows.
        ours: Headwater's.
        beside: what others get, by their name; the first is what ours is compared with.
        is_cost: less is better.
        target: ratio to reach; of a cost without anything beside it, what it may be at most. None where there is none.
        more: what else is worth keeping.
    """

    name: str
    about: str
    unit: str
    ours: Runs
    beside: Mapping[str, Runs] = field(default_factory=dict)
    is_cost: bool = False
    target: float | None = None
    more: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def compared(self) -> tuple[str, Runs] | None:
        """The name and the runs of what ours is compared with."""
        return next(iter(self.beside.items()), None)

    @property
    def ratio(self) -> float | None:
        """The factor by which ours is better than what it is compared with, by medians."""
        if self.compared is None:
            return None
        ours, theirs = statistics.median(self.ours), statistics.median(self.compared[1])
        return theirs / ours if self.is_cost else ours / theirs

    @property
    def ratio_range(self) -> tuple[float, float] | None:
        """The lowest and the highest ratio of two runs."""
        if self.compared is None:
            return None
        theirs = self.compared[1]
        if self.is_cost:
            return min(theirs) / max(self.ours), max(theirs) / min(self.ours)
        return min(self.ours) / max(theirs), max(self.ours) / min(theirs)

    @property
    def is_reached(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if self.target is None:
            return None
        return statistics.median(self.ours) <= self.target if self.ratio is None else self.ratio >= self.target

    def as_json(self) -> dict[str, Any]:
        """Return the figure as ``bench.json`` has it."""
        figure: dict[str, Any] = {"ours": rounded(statistics.median(self.ours))}
        figure |= {name: rounded(statistics.median(runs)) for name, runs in self.beside.items()}
        if self.ratio is not None and self.ratio_range is not None:
            figure |= {
                "ratio": round(self.ratio, DIGITS),
                "ratio_range": [round(bound, DIGITS) for bound in self.ratio_range],
            }
        figure |= {"range": [rounded(min(self.ours)), rounded(max(self.ours))], "unit": self.unit}
        if self.target is not None:
            figure["at_most" if self.ratio is None else "target"] = self.target
        return figure | {
            name: rounded(value) if isinstance(value, float) else value for name, value in self.more.items()
        }


Measure = Callable[[Sitting, Collection[str]], list[Result]]
"""Measures figures: those named, of those that it makes together."""


@dataclass(frozen=True)
class Measurement:
    """Figures that are measured together.

    Attributes:
        names: of the figures.
        measure: makes those of them that are asked for; none where something that they need is not there.
    """

    names: tuple[str, ...]
    measure: Measure


def rounded(value: float) -> float:
    """Round to as many digits as mean something."""
    return round(value) if abs(value) >= 100 else round(value, DIGITS)


def figures_table(results: Sequence[Result]) -> Table:
    """Make the table of the figures for people."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=0)
    for heading in ("", "unit"):
        table.add_column(heading, no_wrap=True)
    for heading in ("Headwater", "beside it", "ratio", "range", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        table.add_row(result.about, result.unit, *_cells(result))
    return table


def _cells(result: Result) -> list[str]:
    beside = ", ".join(f"{name} {_said(statistics.median(runs))}" for name, runs in result.beside.items())
    spread = result.ratio_range or (min(result.ours), max(result.ours))
    target = "" if result.target is None else f"{'<= ' if result.ratio is None else ''}{result.target:g}"
    if result.is_reached is False:
        target = f"[red]{target}[/]"
    ratio = "" if result.ratio is None else f"[bold]{result.ratio:.2f}[/]"
    return [_said(statistics.median(result.ours)), beside, ratio, "-".join(map(_said, spread)), target]


def _said(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def write_json(results: Sequence[Result], path: Path, earlier: Mapping[str, Any]) -> None:
    """Write ``bench.json``.

    Args:
        results: what was measured.
        path: of the file.
        earlier: figures of before that stay, as far as they were not measured again.
    """
    path.parent.mkdir(exist_ok=True)
    figures = {**earlier, **{result.name: result.as_json() for result in results}}
    path.write_text(json.dumps(figures, indent=2) + "\n")
