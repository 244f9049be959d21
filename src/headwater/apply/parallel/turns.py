"""The turns of units: which are committed, and which have to wait for others.

PostgreSQL: no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Condition


class AbandonedError(Exception):
    """A flight was given up: what is not committed is rolled back."""


class Turns:
    """The turns of one flight; may be used by any thread.

    Args:
        keeps_order: each unit is committed behind all that come before it.

    Attributes:
        error: an error that ends the whole session, as the target is lost.
        reason: the first error of a unit, after which the flight was given up.
    """

    def __init__(self, *, keeps_order: bool) -> None:
        self._changed, self._keeps_order = Condition(), keeps_order
        self._committed: dict[int, int] = {}
        self._ended: set[int] = set()
        self._first, self._is_given_up = 0, False
        self.error: BaseException | None = None
        self.reason: BaseException | None = None

    @property
    def is_given_up(self) -> bool:
        """Whether what is not committed is rolled back."""
        return self._is_given_up

    @property
    def committed(self) -> dict[int, int]:
        """The units that are committed, with the LSN of the target before which each was."""
        with self._changed:
            return dict(self._committed)

    def awaited(self, numbers: Iterable[int]) -> frozenset[int]:
        """Return those of some units that are not committed yet."""
        with self._changed:
            return frozenset(number for number in numbers if number not in self._committed)

    def wait_for(self, numbers: Iterable[int]) -> None:
        """Wait until some units are committed.

        Raises:
            AbandonedError: the flight is given up.
        """
        left = set(numbers)

        def are_committed() -> bool:
            left.difference_update(self._committed)
            return not left

        self._wait(are_committed)

    def wait_for_turn(self, number: int) -> None:
        """Wait until a unit may be committed, whose changes have been made.

        Raises:
            AbandonedError: the flight is given up.
        """
        self._wait(lambda: not self._keeps_order or self._first == number)

    def _wait(self, is_due: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_given_up or is_due())
            if self._is_given_up:
                raise AbandonedError

    def commit(self, number: int, local_end: int) -> None:
        """Note that a unit is committed, before an LSN of the target."""
        with self._changed:
            self._committed[number] = local_end
            while self._first in self._committed:
                self._first += 1
            self._changed.notify_all()

    def give_up(self, error: BaseException | None, *, is_lost: bool = False) -> None:
        """Give the flight up, because of an error; a second one changes nothing.

        Args:
            error: it; is_lost: it ends the whole session.
        """
        with self._changed:
            self._is_given_up = True
            self.reason = self.reason or error
            if is_lost:
                self.error = self.error or error
            self._changed.notify_all()

    def end(self, number: int) -> None:
        """Note that a unit has ended, committed or rolled back."""
        with self._changed:
            self._ended.add(number)
            self._changed.notify_all()

    def land(self, count: int) -> None:
        """Wait until so many units have ended."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._ended) == count)
