"""The activity of a session: who is connected, what it does, how far its stream has come.

Written by the session in the event loop, read by whoever shows it, in any thread: each field is whole by itself.

PostgreSQL: pg_stat_activity, pg_stat_replication (pg_stat_get_wal_senders, walsender.c).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from headwater.protocol.backend_messages import IN_FAILED_TRANSACTION, IN_TRANSACTION
from headwater.protocol.replication_messages import present
from headwater.walsender.operating.lag import LagTracker

MOST_QUERY = 1023
"""Characters of a query that are shown (track_activity_query_size)."""


class SessionState(Enum):
    """The state of a session: pg_stat_activity's words, and before it has begun "starting"."""

    STARTING = "starting"
    ACTIVE = "active"
    IDLE = "idle"
    IN_TRANSACTION = "idle in transaction"
    IN_FAILED_TRANSACTION = "idle in transaction (aborted)"

    @classmethod
    def waiting(cls, status: bytes) -> SessionState:
        """Return the state of a session that waits for its client, by ReadyForQuery's letter."""
        return {IN_TRANSACTION: cls.IN_TRANSACTION, IN_FAILED_TRANSACTION: cls.IN_FAILED_TRANSACTION}.get(
            status, cls.IDLE
        )


class StreamState(Enum):
    """The state of a stream: pg_stat_replication's words."""

    STARTUP = "startup"
    CATCHUP = "catchup"
    STREAMING = "streaming"
    STOPPING = "stopping"


@dataclass
class StreamActivity:
    """The activity of a stream.

    Attributes:
        slot: its name; None without one. is_logical: it is decoded.
        state: of the stream.
        sent, written, flushed, applied: LSNs; 0 where the client has not reported.
        sent_bytes, sent_messages: counts.
        write_lag, flush_lag, replay_lag: in seconds.
        replied: when the client reported last, by its own clock, in microseconds since 2000-01-01; None before.
    """

    slot: str | None
    is_logical: bool
    state: StreamState = StreamState.STARTUP
    sent: int = 0
    written: int = 0
    flushed: int = 0
    applied: int = 0
    sent_bytes: int = 0
    sent_messages: int = 0
    write_lag: LagTracker = field(default_factory=LagTracker)
    flush_lag: LagTracker = field(default_factory=LagTracker)
    replay_lag: LagTracker = field(default_factory=LagTracker)
    replied: int | None = None

    def has_sent(self, lsn: int, messages: int = 0, size: int = 0) -> None:
        """Count what was sent.

        Args:
            lsn: up to which all was sent; messages: how many more; size: their bytes.
        """
        self.sent = max(self.sent, lsn)
        self.sent_messages += messages
        self.sent_bytes += size
        now = time.monotonic()
        for lag in (self.write_lag, self.flush_lag, self.replay_lag):
            lag.sent(self.sent, now)

    def has_reported(self, written: int, flushed: int, applied: int, replied: int) -> None:
        """Note the LSNs that the client reports, and its time."""
        self.written, self.flushed, self.applied, self.replied = written, flushed, applied, replied
        now = time.monotonic()
        self.write_lag.reported(written, now)
        self.flush_lag.reported(flushed, now)
        self.replay_lag.reported(applied, now)


@dataclass
class SessionActivity:
    """The activity of a session; times are microseconds since 2000-01-01.

    Attributes:
        pid: the session's number; started: when it began.
        host: of the client; None on a Unix socket. port: -1 there. is_encrypted: by TLS.
        user, database: as the client has asked for; is_replication: it may send commands of replication.
        application_name: as it is set now.
        state: of the session; state_changed: since when.
        query: the last one; query_started: when it began; None before the first.
        transaction_started: tells when its transaction began; None outside of one.
        stream: what it streams; None without that.
    """

    pid: int
    started: int = field(default_factory=present)
    host: str | None = None
    port: int = -1
    is_encrypted: bool = False
    user: str = ""
    database: str = ""
    is_replication: bool = False
    application_name: str = ""
    state: SessionState = SessionState.STARTING
    state_changed: int | None = None
    query: str = ""
    query_started: int | None = None
    transaction_started: Callable[[], int | None] = lambda: None
    stream: StreamActivity | None = None

    def begin(self, query: str) -> None:
        """Note that a query runs."""
        self.state, self.query = SessionState.ACTIVE, query[:MOST_QUERY]
        self.query_started = self.state_changed = present()

    def end(self, status: bytes) -> None:
        """Note that it has ended.

        Args:
            status: of the transaction, as ReadyForQuery has it.
        """
        self.state, self.state_changed = SessionState.waiting(status), present()
