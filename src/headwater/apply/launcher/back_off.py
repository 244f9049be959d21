"""The pauses between the starts of a process that ends by itself again and again.

The first start after an end is no sooner than some seconds after the start before, as the server's launcher has it.
With each further end that comes soon the pause doubles, up to a bound. A process that has lasted as long as the bound
is none that fails again.

PostgreSQL: launcher.c (ApplyLauncherMain, wal_retrieve_retry_interval), which does not double.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_SECONDS = 300.0
"""The longest pause."""

LEAST_SECONDS = 0.1
"""The shortest one, whatever is asked for."""


@dataclass
class BackOff:
    """The pauses of one process; all times are of one clock, in seconds.

    Attributes:
        shortest: the first pause, from start to start; longest: the bound.
        failures: ends one behind the other.
    """

    shortest: float
    longest: float = MOST_SECONDS
    failures: int = 0

    def ended(self, started: float, now: float) -> float:
        """Note that the process has ended, and return when it may start again."""
        shortest = max(self.shortest, LEAST_SECONDS)
        longest = max(self.longest, shortest)
        self.failures = self.failures + 1 if now - started < longest else 1
        return started + min(shortest * 2.0 ** min(self.failures - 1, 30), longest)

    def forget(self) -> None:
        """Start at once next time, as after what was asked for."""
        self.failures = 0
