"""Charts of what was measured, as SVG and PNG beside the JSON: how many times faster than the server each figure is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

WIDTH, HEIGHT_OF_BAR, MARGIN = 8.0, 0.45, 1.2
OURS, THEIRS = "#2b6cb0", "#a0aec0"


def write_charts(path: Path) -> list[Path]:
    """Draw the figures of a ``bench.json``.

    Args:
        path: of it; charts go beside it.

    Returns:
        what was written; nothing without figures that have a server's.
    """
    figures = {name: one for name, one in json.loads(path.read_text()).items() if "server" in one}
    return [*_ratios(figures, path), *_rates(figures, path)] if figures else []


def _ratios(figures: dict[str, Any], path: Path) -> list[Path]:
    figure, axes = plt.subplots(figsize=(WIDTH, MARGIN + HEIGHT_OF_BAR * len(figures)))
    names, ratios = list(figures), [one["ratio"] for one in figures.values()]
    spans = [[ratio - one["ratio_range"][0] for ratio, one in zip(ratios, figures.values(), strict=True)]]
    spans.append([one["ratio_range"][1] - ratio for ratio, one in zip(ratios, figures.values(), strict=True)])
    axes.barh(names, ratios, xerr=spans, color=OURS, ecolor=THEIRS, capsize=3)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("times the server's best case, medians; whiskers: any run by any run")
    axes.invert_yaxis()
    return _saved(figure, path.with_name("bench-ratios"))


def _rates(figures: dict[str, Any], path: Path) -> list[Path]:
    figure, axes = plt.subplots(figsize=(WIDTH, MARGIN + 2 * HEIGHT_OF_BAR * len(figures)))
    places = range(len(figures))
    for shift, kind, color in ((-0.27, "ours", OURS), (0.0, "server", THEIRS), (0.27, "client", "#e2e8f0")):
        rates = [one[kind] / 1e6 for one in figures.values()]
        axes.barh([place + shift for place in places], rates, height=0.25, color=color, label=_LABELS[kind])
    axes.set_yticks(list(places), list(figures))
    axes.set_xlabel("million changes a second")
    axes.invert_yaxis()
    axes.legend()
    return _saved(figure, path.with_name("bench-rates"))


_LABELS = {"ours": "Headwater", "server": "the server, in its own process", "client": "pg_recvlogical into a file"}


def _saved(figure: Any, path: Path) -> list[Path]:
    written = [path.with_suffix(suffix) for suffix in (".svg", ".png")]
    for one in written:
        figure.savefig(one, bbox_inches="tight", dpi=120)
    plt.close(figure)
    return written


if __name__ == "__main__":
    write_charts(Path(sys.argv[1]))
