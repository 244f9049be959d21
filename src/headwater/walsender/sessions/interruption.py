"""The end of a session's statement from outside: its client cancels it, or goes.

The session's thread says how the statement that it waits for is ended; another thread does it. PostgreSQL:
ProcessInterrupts (postgres.c).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headwater.errors import SessionError
from headwater.pg.sqlstates import QUERY_CANCELED


class Interruption:
    """The interruption of one session's statements."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._end: Callable[[], None] | None = None
        self._is_wanted = self._is_over = False
        self._deadline: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether something runs that can be ended."""
        return self._end is not None

    def begin(self, milliseconds: int) -> None:
        """Begin with a statement that may take so long; 0 for ever."""
        self._is_wanted = False
        self._deadline = time.monotonic() + milliseconds / 1000 if milliseconds else None

    def want(self, *, for_good: bool) -> None:
        """Note that the statement is to end, and for good all that follow; :meth:`interrupt` ends what runs."""
        self._is_wanted, self._is_over = True, self._is_over or for_good

    def interrupt(self) -> None:
        """End the statement that runs; may take its time."""
        self._is_wanted = True
        # Under the lock: who has come to the end of its statement waits, so that this does not hit the next one.
        with self._lock:
            if self._end is not None:
                self._end()

    def check(self) -> None:
        """Check that the statement may go on.

        Raises:
            SessionError: it may not.
        """
        if self._is_wanted or self._is_over:
            raise SessionError("canceling statement due to user request", sqlstate=QUERY_CANCELED)
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise SessionError("canceling statement due to statement timeout", sqlstate=QUERY_CANCELED)

    @contextmanager
    def ended_by(self, end: Callable[[], None]) -> Iterator[None]:
        """Say how what runs meanwhile is ended."""
        self.check()
        with self._lock:
            before, self._end = self._end, end
        try:
            yield
        finally:
            with self._lock:
                self._end = before
