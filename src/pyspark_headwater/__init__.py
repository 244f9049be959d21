"""Lets Spark find the ``headwater`` data source by itself: it looks for packages named ``pyspark_*``."""

from __future__ import annotations

from headwater.source.data_source import HeadwaterDataSource as DefaultSource
from headwater.spark.worker_daemon import end_quietly

__all__ = ["DefaultSource"]

end_quietly()
