"""A lock that many hold at a time who want nothing to change, and one alone who changes it.

Who changes comes before those that come later: else nothing would ever change where many ask.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Steadiness:
    """The lock."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holders = 0
        self._waiting = 0
        self._is_broken = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let nothing change meanwhile."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_broken and not self._waiting)
            self._holders += 1
        try:
            yield
        finally:
            with self._changed:
                self._holders -= 1
                self._changed.notify_all()

    @contextmanager
    def broken(self) -> Iterator[None]:
        """Change something, when nobody holds it."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._is_broken and not self._holders)
            self._waiting -= 1
            self._is_broken = True
        try:
            yield
        finally:
            with self._changed:
                self._is_broken = False
                self._changed.notify_all()
