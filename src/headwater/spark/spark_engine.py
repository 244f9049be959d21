"""The engine that is Spark: tasks run in the workers of a session.

Tasks of a local master are this user's, on this machine: values go through files in a directory of its own. On a
cluster the user may name a directory that driver and executors share (``--scratch``); without one, values go through
Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pyspark.sql import SparkSession

from headwater.base.system_errors import system_error
from headwater.jobs.engine import Engine
from headwater.jobs.exchange import Exchange
from headwater.jobs.outcome import Progress
from headwater.spark.file_exchange import FileExchange
from headwater.spark.settings import is_local
from headwater.spark.spark_exchange import SparkExchange
from headwater.spark.task_run import run_tasks

T = TypeVar("T")
R = TypeVar("R")


class SparkEngine(Engine):
    """The workers of a session.

    Args:
        spark: the session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    @property
    def parallel(self) -> int:
        return int(self._context.defaultParallelism)

    def open_exchange(self, scratch: str | None = None, place: str | None = None) -> Exchange:
        try:
            if is_local(str(self._context.master)):
                return FileExchange(self._context, scratch or place, is_shared=False)
            if scratch is not None:
                return FileExchange(self._context, scratch, is_shared=True)
            return SparkExchange(self._context, place)
        except OSError as error:
            raise system_error("make a directory", error) from None

    def run_tasks(
        self, name: str, function: Callable[[T], R], tasks: Sequence[T], progress: Progress | None
    ) -> list[R]:
        return run_tasks(self._context, name, function, tasks, progress)
