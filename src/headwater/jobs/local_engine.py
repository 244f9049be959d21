"""Jobs done in this process, one task after the other: for work so small that Spark would take longer to begin it.

Tasks are the same as elsewhere, and so is what comes out. A value is handed over as bytes, so that a task cannot change
what the driver goes on with.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, TypeVar

from headwater.base.system_errors import system_error
from headwater.base.temporary_directories import OwnDirectory
from headwater.base.value_codec import read_value, value_bytes
from headwater.errors import HeadwaterError, SparkError
from headwater.jobs.engine import Engine
from headwater.jobs.exchange import Arrived, Exchange, Handed, Work, remove_handed
from headwater.jobs.outcome import Progress
from headwater.jobs.unforeseen import unforeseen
from headwater.jobs.value_files import check_directory, new_file

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
V = TypeVar("V")


class LocalEngine(Engine):
    """The engine that is this process."""

    @property
    def parallel(self) -> int:
        return 1

    def open_exchange(self, scratch: str | None = None, place: str | None = None) -> Exchange:
        try:
            return LocalExchange(scratch or place)
        except OSError as error:
            raise system_error("make a directory", error) from None

    def run_tasks(
        self, name: str, function: Callable[[T], R], tasks: Sequence[T], progress: Progress | None
    ) -> list[R]:
        report, results = progress or _no_report, []
        for number, task in enumerate(tasks):
            report(name, number, len(tasks))
            with _errors_of(name):
                results.append(function(task))
        report(name, len(tasks), len(tasks))
        return results


class LocalExchange(Exchange):
    """The way inside one process: a task is run when its files are asked for.

    Args:
        parent: an existing directory for files; None for where temporary files go.

    Raises:
        OSError: a directory cannot be made there.
        UntrustedPathError: others can enter it.
    """

    def __init__(self, parent: str | None = None) -> None:
        super().__init__()
        self._directory = OwnDirectory(parent)
        self._numbers = count()
        try:
            check_directory(self._directory.path)
        except BaseException:
            self._directory.close()
            raise

    def hand(self, value: V, kind: Any = None) -> Handed[V]:
        return HandedBytes(value_bytes(value, kind), type(value) if kind is None else kind)

    @contextmanager
    def run(
        self, name: str, work: Work[T, S], tasks: Sequence[T], progress: Progress | None = None
    ) -> Iterator[Iterator[list[Arrived[S]]]]:
        if self._is_stopped:
            raise SparkError("no more jobs are begun: the run was ended")
        directory = str(self._directory.path / f"{name}-{next(self._numbers)}")
        os.mkdir(directory, 0o700)
        try:
            yield self._results(name, work, tasks, directory, progress or _no_report)
        finally:
            with suppress(OSError):
                os.rmdir(directory)  # Files that were not taken stay until the end.
            remove_handed(tasks)

    def _results(
        self, name: str, work: Work[T, S], tasks: Sequence[T], directory: str, report: Progress
    ) -> Iterator[list[Arrived[S]]]:
        for number, task in enumerate(tasks):
            report(name, number, len(tasks))
            if self._is_stopped:
                raise SparkError(f"step {name} was ended")
            with _errors_of(name):
                files = list(_written(work, task, os.path.join(directory, str(number))))
            yield files
        report(name, len(tasks), len(tasks))

    def close(self) -> None:
        self._directory.close()


@dataclass(frozen=True)
class HandedBytes(Handed[V], Generic[V]):
    """A value on its way as bytes; pickles."""

    data: bytes
    kind: type[V]

    def load(self) -> V:
        return read_value(self.kind, memoryview(bytearray(self.data)))

    def remove(self) -> None:
        """Do nothing: the bytes go with the task."""


def _written(work: Work[T, S], task: T, path: str) -> Iterator[Arrived[S]]:
    """Run a task; its files are named by the path and their numbers."""
    for number, write in enumerate(work(task)):
        with new_file(f"{path}-{number}") as sink:
            arrived = Arrived(f"{path}-{number}", write(sink))
        yield arrived


@contextmanager
def _errors_of(step: str) -> Iterator[None]:
    """Turn what a task raises into errors of ours."""
    try:
        yield
    except HeadwaterError:
        raise
    except OSError as error:
        raise system_error(step, error) from error
    except (Exception, SystemExit) as error:
        raise unforeseen(f"step {step}", error) from error


def _no_report(name: str, done: int, total: int) -> None:
    """Report progress to nobody."""
