"""The choice of a run's engine: Spark, this process, or the one of the two that suits how much there is to do.

A session is Spark's engine. Nothing of Spark is imported before its engine is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.jobs.engine import Engine, EngineBySize
from headwater.jobs.local_engine import LocalEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AUTO, SPARK, LOCAL = "auto", "spark", "local"
ENGINES = (AUTO, SPARK, LOCAL)

SMALL_BYTES = 64 << 20
"""Bytes of WAL, or of files, up to which work is done in this process: Spark would take longer to start."""

FAR_BEHIND_BYTES = 2 << 30
"""Bytes of WAL up to which what is applied meanwhile is decoded in this process.

Measured on two cores, with the target's server on the same: pgbench behind by 420 MB took 1.5 times as long with Spark,
6 s of it for the start. Behind the start Spark was a tenth faster.
"""


def engine_of(spark: SparkSession | Engine) -> Engine:
    """Return a session's engine; one that is given is used as it is."""
    if isinstance(spark, Engine):
        return spark
    from headwater.spark.spark_engine import SparkEngine

    return SparkEngine(spark)


def chosen_engine(name: str, start_spark: Callable[[], SparkSession]) -> Engine:
    """Return the engine that a command asks for.

    Args:
        name: one of :data:`ENGINES`.
        start_spark: starts Spark, or takes the session that there is; called when it is first needed.
    """
    if name == LOCAL:
        return LocalEngine()
    if name == SPARK:
        return engine_of(start_spark())
    return EngineBySize(LocalEngine(), lambda: engine_of(start_spark()), SMALL_BYTES)
