"""The interface of engines, which run the jobs of a run.

Commands and sessions choose an engine; what needs jobs is handed one.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from headwater.jobs.exchange import Exchange
from headwater.jobs.outcome import Progress

T = TypeVar("T")
R = TypeVar("R")


class Engine(ABC):
    """A runner of tasks, on this machine or many. The engine that is chosen changes nothing in what comes out."""

    @property
    @abstractmethod
    def parallel(self) -> int:
        """Number of tasks that can run at once."""

    @abstractmethod
    def open_exchange(self, scratch: str | None = None, place: str | None = None) -> Exchange:
        """Open a way for values between driver and tasks.

        Args:
            scratch: an existing directory that driver and tasks share, if the user has named one.
            place: an existing directory for the driver's own files otherwise; None for where temporary files go.

        Raises:
            HeadwaterError: there cannot be files in the directory.
        """

    @abstractmethod
    def run_tasks(
        self, name: str, function: Callable[[T], R], tasks: Sequence[T], progress: Progress | None
    ) -> list[R]:
        """Run one task per element, for small results.

        Args:
            name: the step's name, for progress.
            function: called once a task; must pickle.
            tasks: must pickle.
            progress: called now and then, or None.

        Returns:
            the results in the order of the tasks.

        Raises:
            HeadwaterError: what a task raised, the first in the order of tasks; SparkError for any other failure.
        """

    @property
    def startup_seconds(self) -> float:
        """Seconds that its start has taken since it was asked to do work; 0.0 if it ran before."""
        return 0.0

    def for_bytes(self, size: int) -> Engine:  # noqa: ARG002
        """Return the engine for work on so many bytes of WAL or files: this one, unless it chooses by size."""
        return self


class EngineBySize(Engine):
    """Small work in this process; the other engine is started by the first work that is not small.

    Args:
        small: does what is small.
        start: starts the other engine; called once at most.
        limit: bytes of WAL, or of files, up to which work is small.
    """

    def __init__(self, small: Engine, start: Callable[[], Engine], limit: int) -> None:
        self._small, self._start, self._limit = small, start, limit
        self._large: Engine | None = None
        self._startup_seconds = 0.0

    @property
    def startup_seconds(self) -> float:
        return self._startup_seconds

    @property
    def parallel(self) -> int:
        """Number of tasks that can run at once, in the engine that has been started."""
        return self._current.parallel

    @property
    def _current(self) -> Engine:
        return self._small if self._large is None else self._large

    def open_exchange(self, scratch: str | None = None, place: str | None = None) -> Exchange:
        return self._current.open_exchange(scratch, place)

    def run_tasks(
        self, name: str, function: Callable[[T], R], tasks: Sequence[T], progress: Progress | None
    ) -> list[R]:
        return self._current.run_tasks(name, function, tasks, progress)

    def for_bytes(self, size: int) -> Engine:
        """Return the engine for work on so many bytes; starts the large one for the first work above the limit."""
        if size <= self._limit:
            return self._small
        if self._large is None:
            began = time.perf_counter()
            self._large = self._start()
            self._startup_seconds = time.perf_counter() - began
        return self._large
