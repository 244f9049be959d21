"""Values through files of a directory that driver and tasks share.

Where driver and tasks are one user on one machine the directory can be entered by that user only. Where tasks run as
other users on other machines (``is_shared``), no group is known that has them all. The directory then can be passed
through but not listed. What lies in it has a name of 128 random bits that the driver tells its tasks through Spark. Who
knows the name may read and write; files are the driver's to remove. Rows are not readable to others either way.

A file's name says the Spark stage, the partition, the attempt, which no two attempts share, and its number among the
files of the task. It has that name when it is whole. So a retried or speculative attempt never touches another's file;
those whose names Spark brings to the driver are used, the others go with the run's directory.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

from pyspark import SparkContext, TaskContext

from headwater.base.temporary_directories import OwnDirectory
from headwater.base.trusted_paths import check_mode
from headwater.errors import HeadwaterError
from headwater.jobs.exchange import Arrived, Exchange, Handed, Work, remove_handed
from headwater.jobs.outcome import Attempted, Progress
from headwater.jobs.value_files import KEEPS_MODES, check_directory, load_value, new_file, store_value
from headwater.option_names import option
from headwater.spark.task_run import Job, TaskRun, Tell, attempt, collecting, one_a_task

T = TypeVar("T")
S = TypeVar("S")
V = TypeVar("V")

_PRIVATE, _PASSED_THROUGH, _KNOWN_BY_NAME = 0o700, 0o711, 0o1777


class FileExchange(Exchange):
    """The way through files.

    Args:
        context: the Spark context.
        parent: an existing directory; None for where temporary files go.
        is_shared: tasks may be other users' and on other machines, where the parent is too.

    Raises:
        OSError: a directory cannot be made there.
        UntrustedPathError: its mode is not kept.
    """

    def __init__(self, context: SparkContext, parent: str | None, is_shared: bool) -> None:
        super().__init__()
        self._context = context
        self._directory = OwnDirectory(parent)
        self._numbers = count()
        self._entered, self._mode = (_KNOWN_BY_NAME, 0o644) if is_shared else (_PRIVATE, 0o600)
        try:
            top = self._directory.path
            self._files = _make(_shared(top) if is_shared else _private(top), self._entered)
        except BaseException:
            self._directory.close()
            raise

    def hand(self, value: V, kind: Any = None) -> Handed[V]:
        path = str(self._files / f"value-{next(self._numbers)}")
        with new_file(path, self._mode) as sink:
            store_value(sink, value, kind)
        return _HandedFile(path, type(value) if kind is None else kind)

    @contextmanager
    def run(
        self, name: str, work: Work[T, S], tasks: Sequence[T], progress: Progress | None = None
    ) -> Iterator[Iterator[list[Arrived[S]]]]:
        if not tasks:
            yield iter(())
            return
        directory = _make(self._files / f"{name}-{next(self._numbers)}", self._entered)
        write = _Writing[T, S](name, work, str(directory), self._mode)
        used: set[str] = set()

        def begin(tell: Tell) -> Job:
            return collecting(one_a_task(self._context, tasks).map(write), tell)

        try:
            job = TaskRun[list[Arrived[S]]](self._context, name, begin, len(tasks), progress)
            with self._watched(job) as run:
                yield _noting(run, used)
        finally:
            _remove_unused(directory, used)
            remove_handed(tasks)

    def close(self) -> None:
        self._directory.close()


def _private(top: Path) -> Path:
    """Return the place for files in a directory that only this user enters."""
    check_directory(top)
    return top / "files"


def _shared(top: Path) -> Path:
    """Return the place for files in a directory that others pass through: a name that they cannot guess."""
    os.chmod(top, _PASSED_THROUGH)
    check_mode(top, _PASSED_THROUGH, KEEPS_MODES)
    return top / secrets.token_hex(16)


def _make(path: Path, mode: int) -> Path:
    os.mkdir(path, 0o700)
    os.chmod(path, mode)
    return path


def _noting(run: Iterable[list[Arrived[S]]], used: set[str]) -> Iterator[list[Arrived[S]]]:
    """Pass on what arrives, and add its files' names."""
    for files in run:
        used.update(os.path.basename(file.path) for file in files)
        yield files


def _remove_unused(directory: Path, used: set[str]) -> None:
    """Remove what no one will ask for: files of attempts that lost, and all of it if nothing is left."""
    with suppress(OSError):
        for name in set(os.listdir(directory)) - used:
            with suppress(FileNotFoundError):
                os.unlink(directory / name)
        os.rmdir(directory)


@dataclass(frozen=True)
class _HandedFile(Handed[V]):
    """A value in a file."""

    path: str
    kind: type[V]

    def load(self) -> V:
        return load_value(self.path, self.kind)

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.path)


@dataclass(frozen=True)
class _Writing(Generic[T, S]):
    """A task: writes files that are of this attempt alone."""

    name: str
    work: Work[T, S]
    directory: str
    mode: int

    def __call__(self, task: T) -> Attempted[list[Arrived[S]]]:
        return attempt(self.name, lambda: self._written(task))

    def _written(self, task: T) -> list[Arrived[S]]:
        if not os.path.isdir(self.directory):
            raise HeadwaterError(
                f"an executor on {os.uname().nodename} does not have the directory of {option('scratch')}",
                file=self.directory,
                hint="name one that driver and executors share, or none: then values go through Spark",
            )
        where = TaskContext.get()
        assert where is not None
        attempt_name = f"{self.name}-{where.stageId()}-{where.partitionId()}-{where.taskAttemptId()}"
        made = []
        for number, write in enumerate(self.work(task)):
            path = os.path.join(self.directory, f"{attempt_name}-{number}")
            with new_file(path, self.mode) as sink:
                made.append(Arrived(path, write(sink)))
        return made
