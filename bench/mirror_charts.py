"""The chart of ``build/bench-mirrors.json``: what a window of 100 updates writes, over the size of its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from drawing import GREY, OURS, WIDTH, beside, plt, saved
from results import MEGABYTE

HEIGHT = 4.2
UPDATES = 100
COLORS = {"merge-on-read": OURS, "copy-on-write": GREY}
MARKERS = {"delta": ("Delta", "o"), "iceberg": ("Iceberg", "s")}


def write_mirror_charts(path: Path, place: Path) -> list[Path]:
    """Draw what was measured.

    Args:
        path: of the figures; place: where the chart goes.

    Returns:
        what was written.
    """
    mirrors: list[dict[str, Any]] = json.loads(path.read_text())["mirrors"]
    chart, axes = plt.subplots(figsize=(WIDTH, HEIGHT))
    for name, (label, marker) in MARKERS.items():
        for write_mode, color in COLORS.items():
            points = [
                (mirror["rows"] / 1e6, window["written"] / MEGABYTE)
                for mirror in mirrors
                for window in mirror["windows"]
                if (mirror["format"], window["write_mode"], window["updates"]) == (name, write_mode, UPDATES)
            ]
            if points:
                axes.plot(*zip(*points, strict=True), marker=marker, color=color, label=f"{label}, {write_mode}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("million rows of the table")
    axes.set_ylabel(f"MB written by {UPDATES} updates")
    axes.grid(linewidth=0.4)
    beside(axes)
    return saved(chart, place / "mirror-writes")
