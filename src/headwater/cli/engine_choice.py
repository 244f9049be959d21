"""Which engine a command has: the flags ``--engine`` and ``--master``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.errors import UsageError
from headwater.jobs.engine import Engine
from headwater.jobs.outcome import Progress
from headwater.pipeline.engines import AUTO, LOCAL, SPARK, chosen_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def engine_of_flags(
    engine: str,
    master: str | None,
    progress: Progress,
    daemon: str | None = None,
    load: Callable[[int], int] | None = None,
) -> Engine:
    """Return the engine that flags ask for; who names a master asks for Spark.

    Args:
        engine: one of :data:`~headwater.pipeline.engines.ENGINES`.
        master: Spark's, None for none.
        progress: called when Spark starts.
        daemon: the module that the session's workers are forked from, None for the usual one.
        load: what warms a worker up, None for the usual.

    Raises:
        UsageError: a master is named, and Spark is not to be used.
    """
    if engine == LOCAL and master is not None:
        raise UsageError("--master is Spark's, and --engine local does without", hint="leave one of them out")

    def start() -> SparkSession:
        from headwater.spark.session import load_kernels, spark_session, warm_up

        progress("start Spark", 0, 1)
        spark = spark_session(master, daemon)
        warm_up(spark, load or load_kernels)
        progress("start Spark", 1, 1)
        return spark

    return chosen_engine(SPARK if engine == AUTO and master is not None else engine, start)
