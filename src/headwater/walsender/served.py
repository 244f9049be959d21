"""The things that all sessions share: the cluster, the slots, who may come in, snapshots that were exported.

Lives in the event loop, but for the cluster and the slots, which threads use, too.
"""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from headwater.errors import SessionError
from headwater.pg.encodings import encoding_name
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED, INVALID_PARAMETER_VALUE, UNDEFINED_OBJECT
from headwater.protocol.startup import CancelRequest, SessionRequest
from headwater.walsender.access.authentication import Access
from headwater.walsender.access.live_access import LiveAccess
from headwater.walsender.access.tls import Encryption
from headwater.walsender.elsewhere import Elsewhere
from headwater.walsender.folds.bulk import Bulk
from headwater.walsender.folds.subscription import Folds
from headwater.walsender.operating.activity import SessionActivity
from headwater.walsender.operating.answer_counts import AnswerCounts
from headwater.walsender.operating.limits import Limits, Places
from headwater.walsender.operating.slot_limits import shown_size
from headwater.walsender.served_cluster import ServedCluster, SessionSnapshot
from headwater.walsender.served_slots import ServedSlots
from headwater.walsender.sessions.clock import now

log = logging.getLogger("headwater.walsender")

_SNAPSHOT_NAME = re.compile(r"[0-9A-F-]+", re.ASCII)


@dataclass(frozen=True)
class ExportedSnapshot:
    """A snapshot that other sessions may use, until the session that made it does something else.

    Attributes:
        database: its name; snapshot: what it is.
    """

    database: str
    snapshot: SessionSnapshot


@dataclass
class Served:
    """The cluster that is served, and the state of the service.

    Attributes:
        cluster: the cluster; slots: its slots.
        live_access: who may come in, and how, as files have it now.
        elsewhere: answers SQL that nothing else here answers; None without it.
        is_ending: the service is to end: streams finish, and nothing new begins.
        sessions: those that run, by their numbers: how each is cancelled.
        started: when the service began: microseconds since 2000-01-01.
        snapshots: those that can be used, by name.
        limits: of sessions and slots.
        activities: what sessions do, by their numbers; counts: of what was answered.
        starting: sessions that have not begun, in their order: how each is ended.
        places: that sessions take.
        bulk: an engine for sessions that are far behind; None without one.
        folds: of all databases, which sessions share.
    """

    cluster: ServedCluster
    slots: ServedSlots
    live_access: LiveAccess
    elsewhere: Elsewhere | None = None
    is_ending: bool = False
    sessions: dict[int, tuple[Callable[[], bytes], Callable[[], None]]] = field(default_factory=dict)
    started: int = field(default_factory=now)
    snapshots: dict[str, ExportedSnapshot] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    activities: dict[int, SessionActivity] = field(default_factory=dict)
    counts: AnswerCounts = field(default_factory=AnswerCounts)
    starting: dict[int, Callable[[], object]] = field(default_factory=dict)
    bulk: Bulk | None = None
    folds: Folds = field(init=False)
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        """Make the places of sessions, and that of folds."""
        self.places = Places(self.limits, self.cluster.version)
        cluster = self.cluster
        self.folds = Folds(cluster, cluster.source.wal, cluster.shelves, cluster.source.catalog, self.bulk)

    def find_database(self, name: str) -> None:
        """Check that there is a database; take it in if the WAL has created it. May take its time.

        Raises:
            SessionError: there is none, or it cannot be served.
            HeadwaterError: the WAL cannot be followed.
        """
        if self.cluster.database_oid(name) is None:
            self.cluster.take_in(name)
        self.cluster.database(name)
        self.folds.meet(name, self.cluster.shelves[name])

    @property
    def access(self) -> Access:
        """Who may come in, and how."""
        return self.live_access.current().access

    @property
    def encryption(self) -> Encryption | None:
        """The encryption of connections; None for none."""
        return self.live_access.current().encryption

    def encoding_of(self, database: str) -> str:
        """Return the encoding of a database; of a connection without one, as the server, SQL_ASCII."""
        return encoding_name(self.cluster.database(database).encoding) if database else "SQL_ASCII"

    def fixed_settings(self, request: SessionRequest, encoding: str) -> dict[str, str]:
        """Return the settings that a client can only look at."""
        cluster = self.cluster
        release = cluster.source.server_version or str(cluster.version)
        return {
            "server_version": release,
            "server_version_num": str(cluster.version.major * 10000 + cluster.version.minor),
            "server_encoding": encoding,
            "in_hot_standby": "off",
            "integer_datetimes": "on",
            "is_superuser": "off",
            "session_authorization": request.user,
            "scram_iterations": "4096",
            "data_directory_mode": "0700",
            "wal_segment_size": shown_size(cluster.segment_size),
            "wal_level": "logical",
            "max_identifier_length": "63",
            "block_size": "8192",
            **self.limits.settings(cluster.version),
            "wal_block_size": "8192",
        }

    def export_snapshot(self, database: str, snapshot: SessionSnapshot) -> str:
        """Keep a snapshot, and return its name, in the form that the server's have."""
        name = f"{next(self._numbers):08X}-{snapshot.kept.state.lsn & 0xFFFFFFFF:08X}-1"
        self.snapshots[name] = ExportedSnapshot(database, snapshot)
        return name

    def imported_snapshot(self, name: str, database: str) -> SessionSnapshot:
        """Return a snapshot that another session has exported.

        Raises:
            SessionError: there is none of this name, or it is another database's.
        """
        exported = self.snapshots.get(name)
        if exported is None:
            if _SNAPSHOT_NAME.fullmatch(name) is None:
                raise SessionError(f'invalid snapshot identifier: "{name}"', sqlstate=INVALID_PARAMETER_VALUE)
            raise SessionError(f'snapshot "{name}" does not exist', sqlstate=UNDEFINED_OBJECT)
        if exported.database != database:
            raise SessionError("cannot import a snapshot from a different database", sqlstate=FEATURE_NOT_SUPPORTED)
        return exported.snapshot

    def cancel(self, request: CancelRequest) -> None:
        """Cancel what a session does, if the secret is its own."""
        session = self.sessions.get(request.pid)
        if session is None:
            log.info("PID %d in cancel request did not match any process", request.pid)
        elif hmac.compare_digest(session[0](), request.key):
            session[1]()
        else:
            log.info("wrong key in cancel request for process %d", request.pid)
