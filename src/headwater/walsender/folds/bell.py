"""A bell that wakes a thread which waits for a descriptor, such as :class:`~headwater.wal.segments.arrivals.Arrivals`.

It may be rung by any thread, also after it was put away.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Self


class Bell:
    """A bell; a context manager."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._lock = threading.Lock()
        self._is_put_away = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_put_away = True
            os.close(self._reader)
            os.close(self._writer)

    def fileno(self) -> int:
        """Return a descriptor that can be read once the bell was rung."""
        return self._reader

    def ring(self) -> None:
        """Wake who waits, or will wait next."""
        with self._lock, suppress(BlockingIOError):
            if not self._is_put_away:
                os.write(self._writer, b".")

    def silence(self) -> None:
        """Forget all ringing so far."""
        with suppress(BlockingIOError):
            while os.read(self._reader, 4096):
                pass
