"""The pace of commits where a log is followed: what comes meanwhile is committed together.

Invariants: what comes after a long silence is committed at once. Nothing waits for longer than the pace says, and
nothing is held that is larger.
"""

from __future__ import annotations

import time


class CommitPace:
    """The pace.

    Args:
        seconds: from the beginning of one commit to that of the next, at least.
        most_bytes: of the log, or of a slot's stream, that are not held any longer.
    """

    def __init__(self, seconds: float = 0.0, most_bytes: int = 0) -> None:
        self._seconds, self._most_bytes = seconds, most_bytes
        self._next = -float("inf")

    @property
    def rest(self) -> float:
        """Seconds until the next commit may begin, at most 0 from then on."""
        return self._next - time.monotonic()

    def begins(self) -> None:
        """Note that a commit begins."""
        self._next = time.monotonic() + self._seconds

    def is_enough(self, bytes_held: int) -> bool:
        """Tell whether so many bytes are not held."""
        return self.rest <= 0 or bytes_held >= self._most_bytes
