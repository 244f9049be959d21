"""The lag of a client in time: how long it took from sending up to an LSN until the client had reported it.

PostgreSQL: LagTrackerWrite, LagTrackerRead (walsender.c). There, too, a lag is unknown where nothing new is on the way.
"""

from __future__ import annotations

from collections import deque

MOST_SAMPLES = 1024
SAMPLE_SECONDS = 0.01
"""Between two samples, at least: what is sent in between counts as sent with the next one."""


class LagTracker:
    """The lag of one of a client's positions.

    Attributes:
        seconds: the lag as of the last report; None where the client has reported all that was sent.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[int, float]] = deque()
        self.seconds: float | None = None

    def sent(self, lsn: int, now: float) -> None:
        """Note that all up to an LSN has been sent; of too many samples the newest is replaced."""
        if self._samples:
            last, at = self._samples[-1]
            if lsn <= last or now - at < SAMPLE_SECONDS:
                return
            if len(self._samples) >= MOST_SAMPLES:
                self._samples.pop()
        self._samples.append((lsn, now))

    def reported(self, lsn: int, now: float) -> None:
        """Note that the client has reported an LSN."""
        passed = None
        while self._samples and self._samples[0][0] <= lsn:
            _, passed = self._samples.popleft()
        if passed is not None:
            self.seconds = now - passed
        elif not self._samples:
            self.seconds = None
