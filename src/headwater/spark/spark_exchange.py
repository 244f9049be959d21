"""Values through Spark, where driver and executors share no directory.

A value goes to its task as bytes inside the task. What a task writes stays with Spark, as a partition on the executor's
disk (``DISK_ONLY``): its files one after the other, cut into chunks. The driver brings partitions over one after the
other, in order, a few chunks a job, into files of its own. So neither the driver's Java process nor this one ever holds
more than those chunks, however much the tasks made.
from the same WAL: the same bytes.

Known gap: a value for a task must fit into a message of Spark's (``spark.rpc.message.maxSize``, 128 MB).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, BinaryIO, Generic, TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkContext, StorageLevel
from pyspark.errors import PySparkException

from headwater.base.temporary_directories import OwnDirectory
from headwater.base.value_codec import value_bytes
from headwater.errors import SparkError
from headwater.jobs.exchange import Arrived, Exchange, Handed, Work, remove_handed
from headwater.jobs.local_engine import HandedBytes
from headwater.jobs.outcome import Progress
from headwater.jobs.value_files import new_file, writing
from headwater.spark.task_run import Job, TaskRun, Tell, attempt, one_a_task, reason

T = TypeVar("T")
S = TypeVar("S")
V = TypeVar("V")

CHUNK_BYTES = 4 << 20
CHUNKS_PER_JOB = 16


class SparkExchange(Exchange):
    """The way through Spark.

    Args:
        context: the Spark context.
        parent: where the driver's files go; None for where temporary files go.

    Raises:
        OSError: a directory cannot be made there.
    """

    def __init__(self, context: SparkContext, parent: str | None) -> None:
        super().__init__()
        self._context = context
        self._directory = OwnDirectory(parent)
        self._numbers = count()

    def hand(self, value: V, kind: Any = None) -> Handed[V]:
        return HandedBytes(value_bytes(value, kind), type(value) if kind is None else kind)

    @contextmanager
    def run(
        self, name: str, work: Work[T, S], tasks: Sequence[T], progress: Progress | None = None
    ) -> Iterator[Iterator[list[Arrived[S]]]]:
        if not tasks:
            yield iter(())
            return
        rdds: list[Any] = []

        def begin(tell: Tell) -> Job:
            parts = one_a_task(self._context, tasks).mapPartitionsWithIndex(_making(name, work, tell))
            rdds.append(parts.persist(StorageLevel.DISK_ONLY))
            return lambda: rdds[0]._jrdd.count() and None

        try:
            job = TaskRun[_Made[S]](self._context, name, begin, len(tasks), progress)
            with self._watched(job) as run:
                yield (self._brought(rdds[0], name, number, partition) for number, partition in enumerate(run))
        finally:
            _forget(rdds)
            remove_handed(tasks)

    def close(self) -> None:
        self._directory.close()

    def _brought(self, rdd: Any, name: str, number: int, partition: _Made[S]) -> list[Arrived[S]]:
        """Bring a partition into files of the driver's."""
        files, begin = [], 0
        for size, summary in zip(partition.sizes, partition.summaries, strict=True):
            path = str(self._directory.path / f"{name}-{next(self._numbers)}")
            with new_file(path) as sink:
                for chunk in self._file(rdd, number, partition, begin, size):
                    with writing(path):
                        sink.write(chunk)
            files.append(Arrived(path, summary))
            begin += _chunks_of(size)
        return files

    def _file(self, rdd: Any, number: int, partition: _Made[S], begin: int, size: int) -> Iterator[bytes]:
        """Give the chunks of one file, of which the first is number ``begin`` of the partition."""
        count = _chunks_of(size)
        for first in range(0, count, CHUNKS_PER_JOB):
            last = min(first + CHUNKS_PER_JOB, count)
            expected = min(last * CHUNK_BYTES, size) - first * CHUNK_BYTES
            yield from self._chunks(rdd, number, partition, (begin + first, begin + last), expected)

    def _chunks(
        self, rdd: Any, number: int, partition: _Made[S], bounds: tuple[int, int], expected: int
    ) -> Sequence[bytes]:
        first, last = bounds
        try:
            is_end = last == sum(map(_chunks_of, partition.sizes))
            picked: list[Any] = self._context.runJob(rdd, _picking(first, None if is_end else last), [number])
        except (Py4JError, PySparkException, OSError) as error:
            raise SparkError(f"Spark could not bring what a task made: {reason(error)}") from error
        sizes, chunks = picked[0] if picked else None, picked[1:]
        if sizes != partition.sizes or sum(map(len, chunks)) != expected:
            raise SparkError(
                f"a task that was run again made something else: found {sizes} bytes, expected {partition.sizes}",
                hint="the WAL must not change while it is read",
            )
        return chunks


def _forget(rdds: list[Any]) -> None:
    try:
        for rdd in rdds:
            rdd.unpersist()
    except (Py4JError, OSError):
        return  # Spark is gone, and with it the partitions.


@dataclass(frozen=True)
class _Made(Generic[S]):
    """The product of a task: files of so many bytes, and what it returned for each."""

    sizes: tuple[int, ...]
    summaries: tuple[S, ...]


def _chunks_of(size: int) -> int:
    return -(-size // CHUNK_BYTES)


def _making(name: str, work: Work[T, S], tell: Tell) -> Callable[[int, Iterable[T]], Iterator[Any]]:
    """Return a maker of a partition: the numbers of bytes that its task wrote, then these in chunks."""

    def make(number: int, tasks: Iterable[T]) -> Iterator[Any]:
        (task,) = tasks
        with ExitStack() as stack:
            files: list[BinaryIO] = []

            def new_sink() -> BinaryIO:
                files.append(stack.enter_context(tempfile.TemporaryFile(dir=_local_directory())))
                return files[-1]

            attempted = attempt(name, lambda: _write(work, task, new_sink))
            tell(number, attempted)
            if isinstance(attempted.result, _Made):
                yield attempted.result.sizes
                for file in files:
                    file.seek(0)
                    while chunk := file.read(CHUNK_BYTES):
                        yield chunk

    return make


def _write(work: Work[T, S], task: T, new_sink: Callable[[], BinaryIO]) -> _Made[S]:
    sizes, summaries = [], []
    for write in work(task):
        sink = new_sink()
        summaries.append(write(sink))
        with writing(None):
            sink.flush()
        sizes.append(sink.tell())
    return _Made(tuple(sizes), tuple(summaries))


def _local_directory() -> str | None:
    """Return the directory of Spark's own files on this machine."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or None


def _picking(first: int, last: int | None) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a picker of the partition's size, and of some of its chunks: all that follow if no last one is named."""

    def pick(elements: Iterable[Any]) -> Iterator[Any]:
        rest = iter(elements)
        yield from islice(rest, 1)
        yield from islice(rest, first, last)

    return pick
