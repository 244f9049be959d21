"""Places of the source that are durable on the target: they may be confirmed to the source.

A commit that does not wait for the disk is durable once the target's WAL is flushed beyond it. Pairs of both LSNs are
kept from the commit on until then.

PostgreSQL: worker.c (store_flush_position, get_flush_position, lsn_mapping).
"""

from __future__ import annotations

import time
from collections import deque

LATE_SECONDS = 1.0
"""How long a commit usually waits at most for the target's WAL writer: three times ``wal_writer_delay``, and a bit."""


class FlushPositions:
    """The places that were applied, and wait to be durable.

    Args:
        reached: LSN of the source before which all is durable.

    Attributes:
        durable: the same, as of now.
    """

    def __init__(self, reached: int) -> None:
        self.durable = self._applied = reached
        self._pending = deque[tuple[int, int]]()
        self._since = 0.0

    @property
    def applied(self) -> int:
        """The LSN of the source before which all is committed."""
        return self._applied

    @property
    def waits(self) -> bool:
        """Whether something that was applied is not durable yet."""
        return bool(self._pending)

    def is_late(self) -> bool:
        """Tell whether what was committed waits for long, at most once in a while.

        The WAL writer flushes whole pages, and up to what was last committed. What others have written since, without
        a commit, may lie before the LSN that is waited for.
        """
        now = time.monotonic()
        is_late = self.waits and now - self._since >= LATE_SECONDS
        self._since = now if is_late else self._since
        return is_late

    def committed(self, remote_end: int, local_end: int) -> None:
        """Note that a transaction which ends at an LSN of the source was committed before an LSN of the target."""
        self._applied = max(self._applied, remote_end)
        self._since = self._since if self._pending else time.monotonic()
        self._pending.append((remote_end, local_end))

    def passed(self, remote_end: int, *, is_settled: bool = True) -> None:
        """Note that the source has come to an LSN with nothing to apply since the last that was.

        Args:
            remote_end: the LSN; is_settled: all that was sent to the target before has been answered.
        """
        self._applied = max(self._applied, remote_end)
        if is_settled and not self._pending:
            self.durable = max(self.durable, self._applied)

    def flushed(self, local: int) -> None:
        """Note that the target's WAL is durable up to an LSN."""
        while self._pending and self._pending[0][1] <= local:
            self.durable = max(self.durable, self._pending.popleft()[0])
            self._since = time.monotonic()
        if not self._pending:
            self.durable = max(self.durable, self._applied)
