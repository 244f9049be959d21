"""Jobs so small that to begin one on Spark takes longer than to do it: done in this process, one task after the other.

What tasks do is the same, and what comes out: this is one more way (:mod:`headwater.pipeline.exchange`). Who follows a
log has such jobs, when it has come to its end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, TypeVar

from headwater.errors import HeadwaterError, SparkError
from headwater.pipeline.exchange import Arrived, Exchange, Handed, Work, remove_handed
from headwater.pipeline.plain_errors import system_error, unforeseen
from headwater.pipeline.scratch import new_file
from headwater.pipeline.task_run import Progress
from headwater.temporary_directories import OwnDirectory

T = TypeVar("T")
S = TypeVar("S")
V = TypeVar("V")

NEAR_BYTES = 4 << 20
"""Bytes of WAL, or of files, that a job may be about to be done here."""


class NearExchange(Exchange):
    """The way that is none.

    Args:
        far: hands values over: whether their job will be a small one is not known by then.

    Raises:
        OSError: a directory cannot be made where temporary files go.
    """

    def __init__(self, far: Exchange) -> None:
        super().__init__()
        self._far = far
        self._directory = OwnDirectory()
        self._numbers = count()

    def hand(self, value: V, kind: Any = None) -> Handed[V]:
        """See :class:`Exchange`."""
        return self._far.hand(value, kind)

    @contextmanager
    def run(
        self, name: str, work: Work[T, S], tasks: Sequence[T], progress: Progress | None = None
    ) -> Iterator[Iterator[list[Arrived[S]]]]:
        """See :class:`Exchange`; a task is done when its files are asked for."""
        if self._is_stopped:
            raise SparkError("no more jobs are begun: the run was ended")
        place = str(self._directory.path / f"{name}-{next(self._numbers)}")
        os.mkdir(place, 0o700)
        try:
            yield self._done(name, work, tasks, place, progress)
        finally:
            with suppress(OSError):
                os.rmdir(place)  # what was not taken yet is there until the end
            remove_handed(tasks)

    def _done(
        self, name: str, work: Work[T, S], tasks: Sequence[T], place: str, progress: Progress | None
    ) -> Iterator[list[Arrived[S]]]:
        told = progress or _nobody
        for number, task in enumerate(tasks):
            told(name, number, len(tasks))
            if self._is_stopped:
                raise SparkError(f"step {name} was ended")
            try:
                made = list(self._written(work, task, os.path.join(place, str(number))))
            except HeadwaterError:
                raise
            except OSError as error:
                raise system_error(name, error) from error
            except Exception as error:
                raise unforeseen(f"step {name}", error) from error
            yield made
        told(name, len(tasks), len(tasks))

    def _written(self, work: Work[T, S], task: T, path: str) -> Iterator[Arrived[S]]:
        for number, write in enumerate(work(task)):
            with new_file(f"{path}-{number}") as sink:
                arrived = Arrived(f"{path}-{number}", write(sink))
            yield arrived

    def close(self) -> None:
        """See :class:`Exchange`."""
        self._directory.close()


def _nobody(name: str, done: int, total: int) -> None:
    """Is told nothing."""
