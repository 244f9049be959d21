"""Counts of errors and conflicts, in ``headwater.subscription_stats`` of the target.

The view ``headwater.stat_subscription_stats`` shows them under the names of pg_stat_subscription_stats. They are
counted when they happen, as the server's are, and written in transactions of their own: what is rolled back counts.

PostgreSQL: utils/activity/pgstat_subscription.c.

Known gap: what was counted since the last write is lost with a process that is killed.
"""

from __future__ import annotations

import threading
from collections import Counter

from headwater.apply.incoming.conflict_kinds import Kind
from headwater.apply.target.connection import TargetConnection

APPLY_ERRORS, SYNC_ERRORS = "apply_error_count", "sync_error_count"
COLUMNS = (APPLY_ERRORS, SYNC_ERRORS, *(kind.column for kind in Kind))


class ConflictCounters:
    """The counts that are not written yet; may be used by any thread.

    Args:
        subscription: its name.
    """

    def __init__(self, subscription: str) -> None:
        self._subscription = subscription
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    @property
    def waits(self) -> bool:
        """Whether something is to be written."""
        return bool(self._counts)

    def count(self, column: str) -> None:
        """Count something."""
        with self._lock:
            self._counts[column] += 1

    def write(self, connection: TargetConnection) -> None:
        """Write what was counted, outside of a transaction.

        Raises:
            ServerError: the target refuses, or is lost; nothing is forgotten.
        """
        with self._lock:
            counts = dict(self._counts)
        if not counts:
            return
        columns = list(counts)
        own = ", ".join(f"${number}::int8" for number in range(2, len(columns) + 2))
        more = ", ".join(f"{column} = stats.{column} + excluded.{column}" for column in columns)
        connection.rows(
            f"INSERT INTO headwater.subscription_stats AS stats (subname, {', '.join(columns)}) VALUES ($1, {own}) "
            f"ON CONFLICT (subname) DO UPDATE SET {more}",
            (self._subscription, *(str(counts[column]) for column in columns)),
        )
        with self._lock:
            self._counts.subtract(counts)
            self._counts += Counter()
