"""Lets Spark find the ``headwater`` data source by itself: it looks for packages named ``pyspark_*``."""

from __future__ import annotations

from headwater.pipeline.source import HeadwaterDataSource as DefaultSource

__all__ = ["DefaultSource"]
