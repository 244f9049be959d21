"""Families of metrics for Prometheus (``prometheus-client``), made of values that are at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

Row = tuple[tuple[str, ...], float]
"""The values of labels, and the metric's."""


def family(kind: str, name: str, text: str, labels: tuple[str, ...], rows: Sequence[Row]) -> Metric:
    """Make a family.

    Args:
        kind: ``counter`` or ``gauge``; name: behind ``headwater_``.
        text: its help; labels: their names; rows: its metrics.
    """
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    made = (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)(f"headwater_{name}", text, labels=labels)
    for values, value in rows:
        made.add_metric(values, value)
    return made
