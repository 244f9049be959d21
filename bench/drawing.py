"""How charts look, and how they are kept: SVG and PNG of one name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
# The same figures give the same bytes.
mpl.rcParams["svg.hashsalt"] = "headwater"

from matplotlib import pyplot as plt  # noqa: E402

__all__ = ["GREY", "HEIGHT_OF_BAR", "MARGIN", "OURS", "PALE", "WIDTH", "beside", "horizontal_bars", "plt", "saved"]

WIDTH, HEIGHT_OF_BAR, MARGIN = 8.0, 0.45, 1.2
OURS, GREY, PALE = "#2b6cb0", "#a0aec0", "#cbd5e0"


def horizontal_bars(bars: Mapping[str, tuple[float, str]], label: str, place: Path) -> list[Path]:
    """Bars over a logarithmic axis, each with its figure.

    Args:
        bars: (length, colour) by name, from the top down.
        label: of the axis.
        place: where the chart goes, without what names end in.
    """
    figure, axes = plt.subplots(figsize=(WIDTH, MARGIN + HEIGHT_OF_BAR * len(bars)))
    drawn = axes.barh(list(bars), [length for length, _ in bars.values()], color=[color for _, color in bars.values()])
    axes.bar_label(drawn, [f"{length:,.0f}" for length, _ in bars.values()], padding=3)
    axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.invert_yaxis()
    axes.margins(x=0.1)
    return saved(figure, place)


def beside(axes: Any) -> None:
    """Put the legend beside a chart, where it hides nothing."""
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.02, 0.5))


def saved(figure: Any, place: Path) -> list[Path]:
    """Keep a chart; what was written."""
    place.parent.mkdir(parents=True, exist_ok=True)
    written = [place.with_suffix(suffix) for suffix in (".svg", ".png")]
    for one in written:
        metadata = {"Date": None} if one.suffix == ".svg" else None
        figure.savefig(one, bbox_inches="tight", dpi=120, metadata=metadata)
    plt.close(figure)
    return written
