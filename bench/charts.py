"""Charts of what ``make bench`` found: how many times better than what it is compared with each figure is, and rates.

``python bench/charts.py build docs/charts`` draws what was measured last, sizes of WAL too, into another directory.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from drawing import GREY, HEIGHT_OF_BAR, MARGIN, OURS, PALE, WIDTH, beside, plt, saved
from size_charts import write_size_charts

KINDS = {
    "ours": ("Headwater", OURS, -0.27),
    "server": ("the server, in its own process", GREY, 0.0),
    "client": ("pg_recvlogical into a file", PALE, 0.27),
}
"""Of rates: what each is called, its colour, and how far its bar is from the middle."""


def write_charts(path: Path, place: Path) -> list[Path]:
    """Draw the figures of a ``bench.json``.

    Args:
        path: of it; place: where charts go.

    Returns:
        what was written; nothing where there is nothing to draw.
    """
    figures: dict[str, dict[str, Any]] = json.loads(path.read_text())
    ratios = {name: one for name, one in figures.items() if "ratio" in one}
    rates = {name: one for name, one in figures.items() if "client" in one}
    found = _ratios(ratios, place / "bench-ratios") if ratios else []
    return [*found, *(_rates(rates, place / "bench-rates") if rates else [])]


def _ratios(figures: dict[str, dict[str, Any]], place: Path) -> list[Path]:
    chart, axes = plt.subplots(figsize=(WIDTH, MARGIN + HEIGHT_OF_BAR * len(figures)))
    names, ratios = list(figures), [one["ratio"] for one in figures.values()]
    spans = [[ratio - one["ratio_range"][0] for ratio, one in zip(ratios, figures.values(), strict=True)]]
    spans.append([one["ratio_range"][1] - ratio for ratio, one in zip(ratios, figures.values(), strict=True)])
    axes.barh(names, ratios, xerr=spans, color=OURS, ecolor=GREY, capsize=3)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("times what it is compared with, medians (logarithmic); whiskers: any run by any run")
    axes.invert_yaxis()
    return saved(chart, place)


def _rates(figures: dict[str, dict[str, Any]], place: Path) -> list[Path]:
    chart, axes = plt.subplots(figsize=(WIDTH, MARGIN + 2 * HEIGHT_OF_BAR * len(figures)))
    places = range(len(figures))
    for kind, (label, color, shift) in KINDS.items():
        rates = [one[kind] / 1e6 for one in figures.values()]
        axes.barh([place + shift for place in places], rates, height=0.25, color=color, label=label)
    axes.set_yticks(list(places), list(figures))
    axes.set_xlabel("million changes a second")
    axes.invert_yaxis()
    beside(axes)
    return saved(chart, place)


def main() -> None:
    """Draw what there is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("build", type=Path, help="where bench.json and bench-sizes.json are")
    parser.add_argument("place", type=Path, help="where charts go")
    arguments = parser.parse_args()
    for name, write in (("bench.json", write_charts), ("bench-sizes.json", write_size_charts)):
        path = arguments.build / name
        if path.exists():
            print("\n".join(map(str, write(path, arguments.place))))


if __name__ == "__main__":
    main()
