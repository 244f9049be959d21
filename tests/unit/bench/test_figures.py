"""The benchmark's figures of its runs: ratios in which more is better, and charts of what was measured.

What draws takes a second to import, so that only tests that draw do.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from results import Result, write_json
from watched_landing import task_seconds


def test_a_rate_is_divided_by_what_it_is_compared_with() -> None:
    result = Result("a", "", "rows/s", (10.0, 30.0, 20.0), {"server": (5.0, 4.0, 10.0), "client": (1.0,)}, target=3)
    assert result.as_json() == {
        "ours": 20.0,
        "server": 5.0,
        "client": 1.0,
        "ratio": 4.0,
        "ratio_range": [1.0, 7.5],
        "range": [10.0, 30.0],
        "unit": "rows/s",
        "target": 3,
    }
    assert result.is_reached


def test_a_cost_is_compared_the_other_way_about() -> None:
    result = Result("a", "", "seconds", (4.0, 5.0, 8.0), {"bare": (5.0, 10.0, 20.0)}, is_cost=True)
    assert (result.ratio, result.ratio_range) == (2.0, (0.625, 5.0))


@pytest.mark.parametrize(("peak", "is_reached"), [(999.0, True), (1001.0, False)])
def test_a_cost_alone_has_a_bound(peak: float, is_reached: bool) -> None:
    result = Result("a", "", "MB", (peak,), is_cost=True, target=1000, more={"wal_mb": 5.25})
    assert result.is_reached is is_reached
    assert result.as_json() == {
        "ours": round(peak),
        "range": [round(peak)] * 2,
        "unit": "MB",
        "at_most": 1000,
        "wal_mb": 5.25,
    }


def test_charts_of_figures(tmp_path: Path) -> None:
    from charts import write_charts

    results = [
        Result("land", "", "changes/s", (2e6, 3e6), {"server": (1e6,), "client": (5e5,)}),
        Result("scaling", "", "times", (1.5,), {"copying": (1.25,)}),
        Result("latency", "", "ms", (300.0,), is_cost=True, target=400),
    ]
    write_json(
        results, tmp_path / "build" / "bench.json", earlier={"before": {"ours": 1, "ratio": 2, "ratio_range": [1, 3]}}
    )
    charts = write_charts(tmp_path / "build" / "bench.json", tmp_path / "charts")
    assert [chart.name for chart in charts] == [
        f"bench-{of}.{kind}" for of in ("ratios", "rates") for kind in ("svg", "png")
    ]
    assert all(chart.stat().st_size for chart in charts)


def landing(cores: int) -> dict[str, Any]:
    return {
        "cores": cores,
        "seconds": 4.0 / cores,
        "peak_bytes": {"driver": 1 << 28, "worker": 1 << 29, "java": 1 << 29},
        "cpu_seconds": {"driver": 0.5, "worker": 2.5, "java": 0.5, "system": 0.4},
        "task_seconds": {"index": 1.0, "land": 2.0},
    }


def test_charts_of_sizes(tmp_path: Path) -> None:
    from size_charts import write_size_charts

    windows = [
        {
            "gigabytes": size,
            "wal_bytes": int(size * (1 << 30)),
            "server_seconds": 10.0,
            "client_seconds": 20.0,
            "landings": [landing(1), landing(2)],
        }
        for size in (0.25, 1.0)
    ]
    path = tmp_path / "bench-sizes.json"
    path.write_text(json.dumps({"windows": windows, "limits_gigabytes": 1.0, "limits": {"reading": 4000.0}}))
    assert len(write_size_charts(path, tmp_path)) == 8


def test_tasks_are_summed_by_step(tmp_path: Path) -> None:
    events = [
        {
            "Event": "SparkListenerJobStart",
            "Stage IDs": [0],
            "Properties": {"spark.job.description": "headwater start"},
        },
        {
            "Event": "SparkListenerJobStart",
            "Stage IDs": [1, 2],
            "Properties": {"spark.job.description": "headwater land"},
        },
        *(
            {
                "Event": "SparkListenerTaskEnd",
                "Stage ID": stage,
                "Task Info": {"Launch Time": 1000, "Finish Time": 1500},
            }
            for stage in (0, 1, 2)
        ),
    ]
    (tmp_path / "local-1.inprogress").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    assert task_seconds(tmp_path) == {"land": 1.0}
