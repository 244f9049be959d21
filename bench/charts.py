"""Charts of what ``make bench`` found: how many times better than what it is compared with each figure is, and rates.

``python bench/charts.py build docs/charts`` draws what was measured last, sizes of WAL and mirrors too, elsewhere.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from drawing import GREY, HEIGHT_OF_BAR, MARGIN, OURS, PALE, WIDTH, beside, plt, saved, spans
from mirror_charts import write_mirror_charts
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
    ratios = {name: figure for name, figure in figures.items() if "ratio" in figure}
    rates = {name: figure for name, figure in figures.items() if "client" in figure}
    charts = _ratios(ratios, place / "bench-ratios") if ratios else []
    return [*charts, *(_rates(rates, place / "bench-rates") if rates else [])]


def _ratios(figures: dict[str, dict[str, Any]], place: Path) -> list[Path]:
    ranges = {}
    for name, figure in figures.items():
        lowest, highest = figure["ratio_range"]
        ranges[name] = (lowest, figure["ratio"], highest)
    targets = {name: figure["target"] for name, figure in figures.items() if "target" in figure}
    return spans(ranges, targets, "times what it is compared with, medians; lines: any run by any run", place)


def _rates(figures: dict[str, dict[str, Any]], place: Path) -> list[Path]:
    chart, axes = plt.subplots(figsize=(WIDTH, MARGIN + 2 * HEIGHT_OF_BAR * len(figures)))
    places = range(len(figures))
    for kind, (label, color, shift) in KINDS.items():
        rates = [figure[kind] / 1e6 for figure in figures.values()]
        axes.barh([place + shift for place in places], rates, height=0.25, color=color, label=label)
    axes.set_yticks(list(places), list(figures))
    axes.set_xlabel("million changes a second")
    axes.invert_yaxis()
    beside(axes)
    return saved(chart, place)


def main() -> None:
    """Draw what there is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("build", type=Path, help="where bench.json, bench-sizes.json and bench-mirrors.json are")
    parser.add_argument("place", type=Path, help="where charts go")
    arguments = parser.parse_args()
    charts = {
        "bench.json": write_charts,
        "bench-sizes.json": write_size_charts,
        "bench-mirrors.json": write_mirror_charts,
    }
    for name, write in charts.items():
        path = arguments.build / name
        if path.exists():
            print("\n".join(map(str, write(path, arguments.place))))


if __name__ == "__main__":
    main()
