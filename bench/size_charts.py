"""Charts of ``build/bench-sizes.json``: throughput, memory, where the time goes, over sizes of WAL; limits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cores import cores_said
from drawing import GREY, LIMIT, OURS, PALE, WIDTH, beside, plt, points, saved
from results import MEGABYTE

GIGABYTE = 1 << 30
HEIGHT = 4.2
STYLES = {1: "--", 2: "-"}
"""Of lines, by cores."""

PARTS = {
    "driver": ("driver, in its own code", "#2c5282"),
    "worker": ("workers, in their own code", "#4299e1"),
    "java": ("Spark's Java", "#ed8936"),
    "system": ("the system, for all of them", "#a0aec0"),
}
"""Of CPU seconds: what each is called, and its colour."""

TASKS = {
    "index": ("tasks that index", "#2c5282"),
    "land": ("tasks that land", "#4299e1"),
    "merge": ("merges", "#9f7aea"),
}
IDLE = ("no task on a core", "#edf2f7")


def write_size_charts(path: Path, place: Path) -> list[Path]:
    """Draw what was measured.

    Args:
        path: of the figures; place: where charts go.

    Returns:
        what was written.
    """
    figures = json.loads(path.read_text())
    windows: list[dict[str, Any]] = figures["windows"]
    return [
        *_throughput(windows, place / "sizes-throughput"),
        *_memory(windows, place / "sizes-memory"),
        *_seconds(windows, place / "sizes-seconds"),
        *_limits(figures, place / "sizes-limits"),
    ]


def _throughput(windows: Sequence[dict[str, Any]], place: Path) -> list[Path]:
    figure, axes = plt.subplots(figsize=(WIDTH, HEIGHT))
    for cores, style in STYLES.items():
        of_cores = [_of_cores(window, cores) for window in windows]
        axes.plot(_sizes(windows), _rates(windows, of_cores, "seconds"), style, marker="o", color=OURS)
        axes.lines[-1].set_label(f"Headwater, {cores_said(cores)}: WAL to Parquet")
    named = {"server_seconds": ("the server, in its own process", GREY), "client_seconds": ("pg_recvlogical", PALE)}
    for key, (label, color) in named.items():
        axes.plot(_sizes(windows), _rates(windows, windows, key), marker="s", color=color, label=label)
    axes.set_ylabel("MB of WAL a second")
    return _over_sizes(figure, axes, windows, place)


def _memory(windows: Sequence[dict[str, Any]], place: Path) -> list[Path]:
    figure, axes = plt.subplots(figsize=(WIDTH, HEIGHT))
    for kind, label in (("driver", "driver"), ("worker", "largest worker"), ("java", "Spark's Java")):
        for cores, style in STYLES.items():
            peaks = [_of_cores(window, cores)["peak_bytes"][kind] / MEGABYTE for window in windows]
            legend = f"{label}, {cores_said(cores)}"
            axes.plot(_sizes(windows), peaks, style, marker="o", color=PARTS[kind][1], label=legend)
    axes.set_ylabel("MB at the peak")
    return _over_sizes(figure, axes, windows, place)


def _over_sizes(figure: Any, axes: Any, windows: Sequence[dict[str, Any]], place: Path) -> list[Path]:
    axes.set_xscale("log", base=2)
    axes.set_xticks(_sizes(windows), [f"{window['gigabytes']:g}" for window in windows])
    axes.set_xlabel("GB of WAL")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", linewidth=0.4)
    beside(axes)
    return saved(figure, place)


def _seconds(windows: Sequence[dict[str, Any]], place: Path) -> list[Path]:
    """Draw CPU seconds a GB by process, and seconds of cores a GB by step; side by side, for both numbers of cores."""
    figure, panels = plt.subplots(2, len(STYLES), figsize=(WIDTH, 2 * HEIGHT), sharex=True, sharey="row", squeeze=False)
    for column, cores in enumerate(STYLES):
        landings = [_of_cores(window, cores) for window in windows]
        _stack(panels[0][column], windows, [landing["cpu_seconds"] for landing in landings], PARTS)
        _stack(panels[1][column], windows, [_with_idle(landing) for landing in landings], {**TASKS, "idle": IDLE})
        panels[0][column].set_title(cores_said(cores))
        panels[1][column].set_xlabel("GB of WAL")
    panels[0][0].set_ylabel("CPU seconds a GB")
    panels[1][0].set_ylabel("seconds of cores a GB")
    for row in panels:
        beside(row[-1])
    return saved(figure, place)


def _with_idle(landing: dict[str, Any]) -> dict[str, float]:
    """Add to the seconds of tasks those of cores that had none."""
    tasks: dict[str, float] = landing["task_seconds"]
    return {**tasks, "idle": max(0.0, landing["cores"] * landing["seconds"] - sum(tasks.values()))}


def _stack(
    axes: Any, windows: Sequence[dict[str, Any]], parts: Sequence[dict[str, float]], names: Mapping[str, Sequence[str]]
) -> None:
    places, bottoms = range(len(windows)), [0.0] * len(windows)
    for part, (label, color) in names.items():
        heights = [
            seconds.get(part, 0.0) * GIGABYTE / window["wal_bytes"]
            for window, seconds in zip(windows, parts, strict=True)
        ]
        if any(heights):
            axes.bar(places, heights, bottom=bottoms, color=color, label=label)
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
    axes.set_xticks(list(places), [f"{window['gigabytes']:g}" for window in windows])


def _limits(figures: dict[str, Any], place: Path) -> list[Path]:
    """Draw all that there is at one size, in MB of WAL a second."""
    window = next(entry for entry in figures["windows"] if entry["gigabytes"] == figures["limits_gigabytes"])
    size = window["wal_bytes"] / MEGABYTE
    bars = {name: (rate, LIMIT) for name, rate in figures["limits"].items()}
    for landing in window["landings"]:
        cores = landing["cores"]
        bars[f"Headwater, {cores_said(cores)}: WAL to Parquet"] = (size / landing["seconds"], OURS)
    bars["the server, in its own process"] = (size / window["server_seconds"], GREY)
    bars["pg_recvlogical into a file"] = (size / window["client_seconds"], GREY)
    if "debezium" in figures:
        bars["Debezium's engine, JSON into a file"] = (figures["debezium"], GREY)
    label = f"MB of WAL a second, {figures['limits_gigabytes']:g} GB of inserts"
    return points(bars, label, place)


def _of_cores(window: dict[str, Any], cores: int) -> dict[str, Any]:
    landing: dict[str, Any] = next(entry for entry in window["landings"] if entry["cores"] == cores)
    return landing


def _sizes(windows: Sequence[dict[str, Any]]) -> list[float]:
    return [window["wal_bytes"] / GIGABYTE for window in windows]


def _rates(windows: Sequence[dict[str, Any]], timed: Sequence[dict[str, Any]], key: str) -> list[float]:
    return [window["wal_bytes"] / MEGABYTE / timing[key] for window, timing in zip(windows, timed, strict=True)]
