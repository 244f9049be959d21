"""The interface through which driver and tasks hand each other what is too large to travel in a task.

A task is handed values by the driver (:meth:`Exchange.hand`) and writes one or more files. Their bytes come to the
driver as files of its own (:meth:`Exchange.run`), in the order of the tasks and while later ones still run. Two ways
lead there:

- files in a directory that driver and tasks share (:mod:`headwater.spark.file_exchange`);
- Spark itself, where they share none (:mod:`headwater.spark.spark_exchange`).

A third one is none at all: tasks run in the driver's process (:mod:`headwater.jobs.local_engine`). Which it is changes
nothing in what comes out.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, Generic, Protocol, Self, TypeVar

from headwater.errors import SparkError
from headwater.jobs.outcome import Progress
from headwater.jobs.value_files import load_value

T = TypeVar("T")
S = TypeVar("S")
V = TypeVar("V")

Write = Callable[[BinaryIO], S]
"""Writes one file of a task, and returns something small."""

Work = Callable[[T], Iterable[Write[S]]]
"""What a task does: gives what writes its files, one after the other; must pickle."""


class Handed(ABC, Generic[V]):
    """A value on its way from the driver to a task; pickles, small or not."""

    @abstractmethod
    def load(self) -> V:
        """Load the value, in the task.

        Raises:
            OSError: it cannot be read there.
            FlatValueError: what is there is something else.
        """

    @abstractmethod
    def remove(self) -> None:
        """Note on the driver that no task will load the value any more."""


@dataclass(frozen=True)
class Arrived(Generic[S]):
    """A file that a task made, on the driver.

    Attributes:
        path: where it is; whoever takes it removes it, or the exchange does at its end.
        summary: what the task returned for it.
    """

    path: str
    summary: S

    def take(self, kind: type[V]) -> V:
        """Return the value in the file, which is removed; arrays stay readable.

        Raises:
            FlatValueError: the file holds no such value.
        """
        value = load_value(self.path, kind)
        self.remove()
        return value

    def remove(self) -> None:
        """Remove the file, unless whoever took it has moved it."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)


class Running(Protocol):
    """A job that runs inside its ``with`` block."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def stop(self) -> None:
        """End the job, from any thread."""


J = TypeVar("J", bound=Running)


class Exchange(ABC):
    """One way; a context manager, at whose end all files are gone."""

    def __init__(self) -> None:
        self._running: set[Running] = set()
        self._is_stopped = False

    def stop(self) -> None:
        """End the jobs that run, in whatever threads, and begin no more: whoever waits for one gets an error."""
        self._is_stopped = True
        for run in list(self._running):
            run.stop()

    @contextmanager
    def _watched(self, run: J) -> Iterator[J]:
        """Run a job that :meth:`stop` ends."""
        self._running.add(run)
        try:
            if self._is_stopped:
                raise SparkError("no more jobs are begun: the run was ended")
            with run:
                yield run
        finally:
            self._running.discard(run)

    @abstractmethod
    def hand(self, value: V, kind: Any = None) -> Handed[V]:
        """Make a value ready for one task.

        Args:
            value: what :mod:`headwater.base.value_codec` can write.
            kind: its type, None for its class.

        Raises:
            HeadwaterError: it cannot be written.
        """

    @abstractmethod
    def run(
        self, name: str, work: Work[T, S], tasks: Sequence[T], progress: Progress | None = None
    ) -> AbstractContextManager[Iterator[list[Arrived[S]]]]:
        """Run one task per element, from the beginning of the ``with`` block on and no longer than to its end.

        Args:
            name: the step's name.
            work: what each does.
            tasks: must pickle; those that are :class:`Handed` are removed at the end of the block.
            progress: hears of tasks done, or None.

        Returns:
            a context manager; gives the files of one task after the other, in their order. Iterating raises what a task
            raised (HeadwaterError), or SparkError where it failed in another way.
        """

    @abstractmethod
    def close(self) -> None:
        """Remove what is left."""

    def __enter__(self) -> Exchange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def remove_handed(tasks: Sequence[object]) -> None:
    """Remove those of a job's tasks that are values."""
    for task in tasks:
        if isinstance(task, Handed):
            task.remove()
