"""One Spark job whose results are taken in the order of its tasks while later ones are still made.

In: how to begin the job. Out: the results in order, each as soon as Spark has accepted it and those before it. Of
several attempts of one task (a retry, a speculative copy) that of the first one that Spark accepts counts, and no other
is seen: what tells the driver of it is an accumulator, which Spark updates once for each task of a job.

An error is a result too, so the task that met it is not tried again: it would fail alike. So is an exception that
nobody foresaw, with its traceback beside it. A task whose executor was lost is tried again by Spark, and nothing of
that is seen here; of one that took its Python process with it, the driver reports what Spark has seen.
"""

from __future__ import annotations

import re
import threading
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.accumulators import AccumulatorParam, _accumulatorRegistry
from pyspark.errors import PySparkException

from headwater.base.overrides import override
from headwater.base.system_errors import system_error
from headwater.errors import HeadwaterError, HeadwaterWarning, SparkError, held_warnings
from headwater.jobs.outcome import Attempted, Failure, Progress
from headwater.jobs.unforeseen import unforeseen
from headwater.option_names import option, ways
from headwater.spark.kernel_travel import receive_kernels

T = TypeVar("T")
R = TypeVar("R")


def attempt(step: str, function: Callable[[], R]) -> Attempted[R]:
    """Call a function in a task; errors are results, those of ours and of files as they are."""
    receive_kernels()
    with held_warnings() as warned:
        try:
            return Attempted(function(), warned)
        except HeadwaterError as error:
            return Attempted(Failure(error), warned)
        except OSError as error:
            return Attempted(Failure(system_error(step, error)), warned)
        except BaseException as error:
            return Attempted(Failure(unforeseen(f"step {step}", error), _trace(error)), warned)


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def run_tasks(
    context: SparkContext, name: str, function: Callable[[T], R], tasks: Sequence[T], progress: Progress | None
) -> list[R]:
    """Run one Spark task per element, for small results.

    Args:
        context: the Spark context.
        name: the step's name, for progress.
        function: must pickle; a HeadwaterError it raises is raised here, the first in task order, and its
            HeadwaterWarnings are given here.
        tasks: must pickle.
        progress: called now and then, or None.

    Returns:
        the results in the order of the tasks.

    Raises:
        HeadwaterError: what a task raised.
        SparkError: a task failed in another way, or Spark did.
    """
    if not tasks:
        return []

    def attempted(task: T) -> Attempted[R]:
        return attempt(name, lambda: function(task))

    def begin(tell: Tell) -> Job:
        return collecting(one_a_task(context, tasks).map(attempted), tell)

    with TaskRun[R](context, name, begin, len(tasks), progress) as run:
        return list(run)


Tell = Callable[[int, Attempted[Any]], None]
"""In a task: tells the driver what became of a partition; pickles."""

Job = Callable[[], None]
"""On the driver: runs Spark's job to its end."""


def collecting(attempted: Any, tell: Tell) -> Job:
    """Return a job over an RDD with one :class:`Attempted` a partition."""

    def tell_all(number: int, elements: Iterable[Attempted[Any]]) -> Iterator[None]:
        for result in elements:
            tell(number, result)
        return iter(())

    results = attempted.mapPartitionsWithIndex(tell_all)
    return lambda: results.collect() and None


def one_a_task(context: SparkContext, tasks: Sequence[Any]) -> Any:
    """Make an RDD with one element a partition.

    Raises:
        SparkError: Spark does not take them.
    """
    try:
        return context.parallelize(tasks, len(tasks))
    except (Py4JError, PySparkException) as error:
        raise SparkError(f"Spark does not take the tasks: {reason(error)}") from error


class TaskTraceback(Exception):
    """The text of a task's traceback; the cause of the error that the driver raises."""


def _cause(failure: Failure) -> TaskTraceback | None:
    return TaskTraceback(f"in a task\n\n{failure.trace}") if failure.trace else None


class TaskRun(Generic[R]):
    """A job that runs in a thread; iterate it once, inside a ``with`` block, at whose end it runs no more.

    Args:
        context: the Spark context.
        name: the step's name.
        begin: called with what tasks tell the driver with; gives the job.
        total: number of its tasks.
        progress: hears of accepted tasks, or None.
    """

    def __init__(
        self, context: SparkContext, name: str, begin: Callable[[Tell], Job], total: int, progress: Progress | None
    ) -> None:
        self._context, self._name, self._total = context, name, total
        self._group = f"headwater {name} {uuid.uuid4().hex}"
        self._inbox = _Inbox[R](name, total, progress)
        self._notices = context.accumulator(cast(Any, self._inbox), _Notices())
        self._job = begin(_telling(self._notices))
        self._warned: set[str] = set()
        self._thread = InheritableThread(target=self._run, daemon=True, name="headwater-job")

    def __enter__(self) -> TaskRun[R]:
        self._thread.start()
        return self

    def __iter__(self) -> Iterator[R]:
        """Give the results in order.

        Raises:
            HeadwaterError: what the next task raised.
            SparkError: it failed in another way, or Spark did.
        """
        for number in range(self._total):
            attempted = self._inbox.wait_for(number)
            self._warn(attempted.warned)
            if isinstance(attempted.result, Failure):
                raise attempted.result.error from _cause(attempted.result)
            yield attempted.result

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._inbox.is_full:
            self._cancel()
        self._thread.join()
        _accumulatorRegistry.pop(self._notices.aid, None)

    def stop(self) -> None:
        """End the job, from any thread: whoever waits for its results gets an error."""
        self._inbox.fail(SparkError(f"step {self._name} was ended"))
        self._cancel()

    def _run(self) -> None:
        """Run the job, in its thread."""
        try:
            self._context.setJobGroup(self._group, f"headwater {self._name}")
            self._job()
            self._inbox.close()
        except (Py4JError, PySparkException) as error:
            self._inbox.fail(_failed(self._name, error))
        except BaseException as error:
            self._inbox.fail(error)

    def _cancel(self) -> None:
        """End the job, also one that Spark does not know of yet."""
        try:
            self._context._jsc.sc().cancelJobGroupAndFutureJobs(self._group)
        except (Py4JError, OSError):
            return  # Spark is gone, and with it the job.

    def _warn(self, warned: Iterable[HeadwaterWarning]) -> None:
        for warning in warned:
            if str(warning) not in self._warned:
                self._warned.add(str(warning))
                warnings.warn(warning, stacklevel=3)


class _Inbox(Generic[R]):
    """Results that have come and were not taken yet."""

    def __init__(self, name: str, total: int, progress: Progress | None) -> None:
        self._name, self._total, self._progress = name, total, progress
        self._seen: set[int] = set()
        self._waiting: dict[int, Attempted[R]] = {}
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._report()

    @property
    def is_full(self) -> bool:
        """Whether every task has a result, or none will come any more."""
        return len(self._seen) == self._total or self._error is not None

    def put(self, number: int, attempted: Attempted[R]) -> None:
        """Take a task's result; one that is known is passed over."""
        with self._changed:
            if number in self._seen:
                return
            self._seen.add(number)
            self._waiting[number] = attempted
            self._changed.notify_all()
        self._report()

    def close(self) -> None:
        """Note that the job is done, and has reported all."""
        if not self.is_full:
            self.fail(SparkError(f"Spark lost what {self._total - len(self._seen)} tasks of step {self._name} told"))

    def fail(self, error: BaseException) -> None:
        """Note that nothing more will come."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def wait_for(self, number: int) -> Attempted[R]:
        """Take a task's result; raises what ended the job instead of it."""
        with self._changed:
            self._changed.wait_for(lambda: number in self._waiting or self._error is not None)
            if number not in self._waiting:
                assert self._error is not None
                raise self._error
            return self._waiting.pop(number)

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._name, len(self._seen), self._total)


class _Notices(AccumulatorParam[Any]):
    """A list that tasks add to; on the driver what is added goes to the inbox."""

    @override
    def zero(self, value: object) -> list[tuple[int, Attempted[Any]]]:
        """Return an empty list, with which a task begins."""
        return []

    @override
    def addInPlace(self, value1: Any, value2: list[tuple[int, Attempted[Any]]]) -> Any:
        """Add, or hand over."""
        if isinstance(value1, _Inbox):
            for number, attempted in value2:
                value1.put(number, attempted)
            return value1
        return value1 + value2


def _telling(notices: Any) -> Tell:
    def tell(number: int, attempted: Attempted[Any]) -> None:
        notices.add([(number, attempted)])

    return tell


def _failed(step: str, error: Exception) -> SparkError:
    """Return the error for a job that ended without its tasks' results."""
    if _NO_HEADWATER.search(str(error)):
        hint = "install it there, or name a Python that has it with PYSPARK_PYTHON or spark.pyspark.python"
        return SparkError("the Python of Spark's executors has no headwater", hint=hint)
    if _CRASHED in _text(error):
        return SparkError(f"a Python process of step {step} crashed, or was killed", hint=_WORKER_IS_GONE)
    return SparkError(f"Spark could not run the tasks of step {step}: {reason(error)}")


_NO_HEADWATER = re.compile(r"No module named 'headwater['.]")
_CRASHED = "Python worker exited unexpectedly"
_IN_PYTHON = re.compile(r"An exception was thrown from the Python worker:\s*(.*)", re.DOTALL)
_TRACEBACK = "Traceback (most recent call last):\n"

_WORKER_IS_GONE = ways(
    "where memory ran out, as the system's log tells then, give it more",
    f"make windows smaller with {option('window-bytes')}",
    f"let fewer tasks run at a time ({option('master', 'local[1]')})",
)


def reason(error: Exception) -> str:
    """Return the message of Java or PySpark in a line: an exception in Python itself, else the first line."""
    text = _text(error)
    thrown = _IN_PYTHON.search(text)
    lines = thrown[1].rpartition(_TRACEBACK)[2].splitlines() if thrown is not None else text.splitlines()
    return next((line.strip() for line in lines if line.strip() and not line[0].isspace()), type(error).__name__)


def _text(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return str(java.getMessage() or java) if java is not None else str(error)
