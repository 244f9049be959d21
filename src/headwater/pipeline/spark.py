"""The Spark session Headwater runs in, and how it runs tasks.

Workers run the driver's interpreter and are forked from a daemon that has loaded the kernels already
(:mod:`headwater.pipeline.worker_daemon`), so that a task starts in milliseconds. A session made here is quiet: Spark
logs errors only (:mod:`headwater.pipeline.java_process`).
"""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.errors import HeadwaterError, HeadwaterWarning, SparkError, held_warnings
from headwater.pipeline.decode_job import Failure
from headwater.pipeline.java_process import quiet_gateway
from headwater.pipeline.plain_errors import system_error
from headwater.pipeline.spark_needs import prepare_spark

T = TypeVar("T")
R = TypeVar("R")

Progress = Callable[[str, int, int], None]
"""Called with a step's name, tasks done and tasks in all."""

POLL_SECONDS = 0.1
WARM_UP_JOBS = 4
_GROUP_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


def spark_session(master: str | None = None) -> SparkSession:
    """The active session, or a new one set up for Headwater.

    Args:
        master: as for spark-submit; None for ``local[*]``, or what spark-submit says.

    Raises:
        SparkError: there is no Java, or another need is not met, or Spark refuses the master or its configuration.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if SparkContext._active_spark_context is None:
        _start(master)
    builder = SparkSession.builder
    for name, value in _CONFIG.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _start(master: str | None) -> None:
    """Make the Spark context of this process."""
    prepare_spark(master)
    conf = SparkConf().setAppName("headwater").setAll(list(_CONFIG.items()))
    if master is not None or "MASTER" not in os.environ:
        conf.setMaster(master or "local[*]")
    with quiet_gateway(conf) as gateway, _own_interrupt_handler():
        try:
            SparkContext(conf=conf, gateway=gateway)
        except (Py4JError, PySparkException) as error:
            raise SparkError(f"could not start Spark: {_reason(error)}") from error


@contextmanager
def _own_interrupt_handler() -> Iterator[None]:
    """Spark's context puts a handler of SIGINT in Python's place; one that is not Python's stays."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if before is not signal.default_int_handler and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


_CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.daemon.module": "headwater.pipeline.worker_daemon",
    "spark.python.worker.reuse": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.executorEnv.PYTHONSAFEPATH": "1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.maxResultSize": "0",
}


def warm_up(spark: SparkSession) -> None:
    """Start the Python workers and let Spark run a few jobs, so that the first real one does not pay for it."""
    context = spark.sparkContext
    for _ in range(WARM_UP_JOBS):
        run_tasks(context, "start", _load_kernels, range(context.defaultParallelism), None)


def _load_kernels(_: int) -> int:
    """Load what the daemon has not: it has, if it is ours; a cluster's own workers may have another."""
    from headwater.pipeline import worker_daemon

    return worker_daemon.preload()


@dataclass(frozen=True)
class _Attempted(Generic[R]):
    """What became of a task, and what it warned of."""

    result: R
    warned: list[HeadwaterWarning]


def run_tasks(
    context: SparkContext,
    name: str,
    function: Callable[[T], R],
    tasks: Sequence[T],
    progress: Progress | None,
    group: str | None = None,
) -> list[R]:
    """Run one Spark task per element.

    Args:
        context: the Spark context.
        name: the step's name, for progress.
        function: must pickle; a HeadwaterError it raises is raised here, the first in task order, and its
            HeadwaterWarnings are given here.
        tasks: must pickle.
        progress: called now and then from another thread, or None.
        group: the job group that the tasks can be cancelled by; None for one named after the step.

    Returns:
        the results in the order of the tasks.

    Raises:
        HeadwaterError: what a task raised.
        SparkError: a task failed in another way, or Spark did.
    """
    if not tasks:
        return []

    def attempt(task: T) -> _Attempted[R | Failure]:
        with held_warnings() as warned:
            try:
                return _Attempted(function(task), warned)
            except HeadwaterError as error:
                return _Attempted(Failure(error), warned)
            except OSError as error:
                return _Attempted(Failure(system_error(name, error)), warned)

    try:
        group = group or f"headwater {name}"
        with _job_group(context, group, name), _Watch(context, group, name, len(tasks), progress):
            attempted: list[_Attempted[R | Failure]] = context.parallelize(tasks, len(tasks)).map(attempt).collect()
    except (Py4JError, PySparkException) as error:
        raise SparkError(f"Spark could not run the tasks of step {name}: {_reason(error)}") from error
    for warning in {str(warning): warning for one in attempted for warning in one.warned}.values():
        warnings.warn(warning, stacklevel=2)
    return [_succeeded(one.result) for one in attempted]


@contextmanager
def _job_group(context: SparkContext, group: str, description: str) -> Iterator[None]:
    """Jobs of this thread belong to a group, and to the caller's own again afterwards."""
    before = {name: context.getLocalProperty(name) for name in _GROUP_PROPERTIES}
    context.setJobGroup(group, description)
    try:
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)


def _reason(error: Exception) -> str:
    """The first line of what Java, or PySpark, has to say."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() or java) if java is not None else str(error)
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


def _succeeded(result: R | Failure) -> R:
    if isinstance(result, Failure):
        raise result.error
    return result


class _Watch:
    """Reports the finished tasks of the jobs that run inside the ``with`` block."""

    def __init__(self, context: SparkContext, group: str, name: str, total: int, progress: Progress | None) -> None:
        self.context, self.group, self.name, self.total, self.progress = context, group, name, total, progress
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> None:
        if self.progress is not None:
            self.progress(self.name, 0, self.total)
            self.thread.start()

    def __exit__(self, *_: object) -> None:
        if self.progress is not None:
            self.done.set()
            self.thread.join()
            self.progress(self.name, self.total, self.total)

    def _poll(self) -> None:
        tracker = self.context.statusTracker()
        while not self.done.wait(POLL_SECONDS):
            finished = 0
            for job in tracker.getJobIdsForGroup(self.group):
                info = tracker.getJobInfo(job)
                for stage in info.stageIds if info is not None and info.status == "RUNNING" else ():
                    stage_info = tracker.getStageInfo(stage)
                    finished += stage_info.numCompletedTasks if stage_info is not None else 0
            assert self.progress is not None
            self.progress(self.name, min(finished, self.total), self.total)
