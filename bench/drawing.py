"""The looks of charts, and how they are kept: SVG and PNG of one name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
# The same figures give the same bytes.
mpl.rcParams["svg.hashsalt"] = "headwater"

from matplotlib import pyplot as plt  # noqa: E402

__all__ = [
    "GREY",
    "HEIGHT_OF_BAR",
    "LIMIT",
    "MARGIN",
    "OURS",
    "PALE",
    "WIDTH",
    "beside",
    "plt",
    "points",
    "saved",
    "spans",
]

WIDTH, HEIGHT_OF_BAR, MARGIN = 8.0, 0.45, 1.2
OURS, GREY, PALE, LIMIT = "#2b6cb0", "#a0aec0", "#cbd5e0", "#38a169"


def points(figures: Mapping[str, tuple[float, str]], label: str, place: Path) -> list[Path]:
    """Draw points over a logarithmic axis, each with its figure.

    Args:
        figures: (figure, colour) by name, from the top down.
        label: of the axis.
        place: where the chart goes, without what names end in.
    """
    chart, axes = plt.subplots(figsize=(WIDTH, MARGIN + HEIGHT_OF_BAR * len(figures)))
    for row, (figure, color) in enumerate(figures.values()):
        axes.plot(figure, row, "o", color=color, markersize=9)
        axes.annotate(f"{figure:,.0f}", (figure, row), xytext=(8, 0), textcoords="offset points", va="center")
    _over_logarithms(axes, list(figures), label)
    return saved(chart, place)


def _over_logarithms(axes: Any, names: Sequence[str], label: str) -> None:
    """Lay out one row for each name, from the top down."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.grid(axis="both", linewidth=0.3)
    axes.set_axisbelow(True)
    axes.set_xlabel(f"{label} (logarithmic)")


def spans(
    figures: Mapping[str, tuple[float, float, float]], targets: Mapping[str, float], label: str, place: Path
) -> list[Path]:
    """Draw points with whiskers over a logarithmic axis, and a line at 1.

    Args:
        figures: (lowest, median, highest) by name, from the top down; targets: of some of them.
        label: of the axis.
        place: where the chart goes, without what names end in.
    """
    chart, axes = plt.subplots(figsize=(WIDTH, MARGIN + HEIGHT_OF_BAR * len(figures)))
    for row, (lowest, median, highest) in enumerate(figures.values()):
        axes.plot([lowest, highest], [row, row], color=GREY, linewidth=2)
        axes.plot(median, row, "o", color=OURS, markersize=9)
    reached = [(target, row) for row, name in enumerate(figures) if (target := targets.get(name)) is not None]
    axes.axvline(1, color="black", linewidth=0.8)
    _over_logarithms(axes, list(figures), label)
    if reached:
        axes.plot(*zip(*reached, strict=True), "|", color="black", markersize=14, label="to reach")
        beside(axes)
    return saved(chart, place)


def beside(axes: Any) -> None:
    """Put the legend beside a chart, where it hides nothing."""
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.02, 0.5))


def saved(figure: Any, place: Path) -> list[Path]:
    """Keep a chart; return what was written."""
    place.parent.mkdir(parents=True, exist_ok=True)
    written = [place.with_suffix(suffix) for suffix in (".svg", ".png")]
    for path in written:
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, bbox_inches="tight", dpi=120, metadata=metadata)
    plt.close(figure)
    return written
