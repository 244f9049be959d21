"""The activity of a session: who is connected, what it does, how far its stream has come.

Written by the session in the event loop, read by whoever shows it, in any thread: each field is whole by itself.

PostgreSQL: pg_stat_activity, pg_stat_replication (pg_stat_get_wal_senders, walsender.c).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum

from headwater.protocol.backend_messages import IN_FAILED_TRANSACTION, IN_TRANSACTION
from headwater.walsender.operating.lag import LagTracker


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
        replied_at: time of the client's last report, in seconds since 1970; None before it.
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
    replied_at: float | None = None

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

    def has_reported(self, written: int, flushed: int, applied: int) -> None:
        """Note the LSNs that the client reports."""
        self.written, self.flushed, self.applied = written, flushed, applied
        self.replied_at, now = time.time(), time.monotonic()
        self.write_lag.reported(written, now)
        self.flush_lag.reported(flushed, now)
        self.replay_lag.reported(applied, now)


@dataclass
class SessionActivity:
    """The activity of a session.

    Attributes:
        pid: the session's number; began_at: seconds since 1970.
        host: of the client; None on a Unix socket. port: 0 there. is_encrypted: by TLS.
        user, database: as the client has asked for; is_replication: it may send commands of replication.
        application_name: as it is set now.
        state: of the session; stream: what it streams; None without that.
    """

    pid: int
    began_at: float = field(default_factory=time.time)
    host: str | None = None
    port: int = 0
    is_encrypted: bool = False
    user: str = ""
    database: str = ""
    is_replication: bool = False
    application_name: str = ""
    state: SessionState = SessionState.STARTING
    stream: StreamActivity | None = None
