"""The activity of sessions: who they are, what they do, how far their streams are, for the views that tell of it.

PostgreSQL: backend_status.c, WalSnd (walsender_private.h).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.walsender.sessions.clock import now
from headwater.walsender.streaming import Positions


@dataclass
class Activity:
    """The activity of a session; times are microseconds since 2000-01-01.

    Attributes:
        pid: its number; user, database: names; application: gives the name of the client's program.
        address, port: of the client; None and -1 on a Unix socket.
        is_replication: it is a replication connection.
        started: when it began.
        state: as pg_stat_activity has it; query: the last one; since when for both.
        positions: of its stream; None without one. is_caught_up: says whether that stream has sent all.
    """

    pid: int
    user: str
    database: str
    application: Callable[[], str]
    address: str | None
    port: int
    is_replication: bool
    started: int = field(default_factory=now)
    state: str = "idle"
    query: str = ""
    query_started: int | None = None
    state_changed: int | None = None
    transaction_started: Callable[[], int | None] = lambda: None
    positions: Positions | None = None
    is_caught_up: Callable[[], bool] = lambda: False

    def begin(self, query: str) -> None:
        """Note that a query runs."""
        self.state, self.query = "active", query[:1023]
        self.query_started = self.state_changed = now()

    def end(self, status: bytes) -> None:
        """Note that it has ended.

        Args:
            status: of the transaction, as ReadyForQuery has it.
        """
        self.state = {b"T": "idle in transaction", b"E": "idle in transaction (aborted)"}.get(status, "idle")
        self.state_changed = now()
