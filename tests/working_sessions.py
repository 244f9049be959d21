"""Sessions that work beside a test, each in a thread of its own, until they are told to end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from threading import Event, Thread
from typing import Self


class WorkingSessions(ABC):
    """The sessions; a context manager that ends them.

    Args:
        numbers: of the sessions.

    Attributes:
        transactions: that have ended, in any way.
        failures: what has ended a session before its time.
    """

    def __init__(self, numbers: Iterable[int] = (0,)) -> None:
        self._is_over = Event()
        self.transactions = 0
        self.failures: list[BaseException] = []
        self._threads = [Thread(target=self._run_one, args=[number]) for number in numbers]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        assert self.failures == []

    def _run_one(self, number: int) -> None:
        try:
            self._run(number)
        except BaseException as error:
            self.failures.append(error)

    @abstractmethod
    def _run(self, number: int) -> None:
        """Work until it is over."""
