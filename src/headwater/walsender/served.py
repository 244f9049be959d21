"""The things that all sessions share: the cluster, the slots, who may come in, snapshots that were exported.

Lives in the event loop, but for the cluster and the slots, which threads use, too.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from headwater.pg.encodings import encoding_name
from headwater.protocol.startup import CancelRequest, SessionRequest
from headwater.walsender.access.authentication import Access
from headwater.walsender.access.tls import Encryption
from headwater.walsender.served_cluster import ServedCluster
from headwater.walsender.served_slots import ServedSlots


@dataclass(frozen=True)
class Snapshot:
    """A snapshot that a slot's beginning stands for.

    Attributes:
        database: its name; lsn: it has what committed before.
    """

    database: str
    lsn: int


@dataclass
class Served:
    """The cluster that is served, and the state of the service.

    Attributes:
        cluster: the cluster; slots: its slots.
        access: who may come in, and how; encryption: of connections, None for none.
        is_ending: the service is to end: streams finish, and nothing new begins.
        sessions: those that run, by their numbers: how each is cancelled.
        snapshots: those that can be used, by name.
    """

    cluster: ServedCluster
    slots: ServedSlots
    access: Access
    encryption: Encryption | None = None
    is_ending: bool = False
    sessions: dict[int, tuple[Callable[[], bytes], Callable[[], None]]] = field(default_factory=dict)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=lambda: count(1))

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
            "wal_segment_size": _memory(cluster.segment_size),
            "wal_level": "logical",
            "max_wal_senders": "10",
            "max_replication_slots": "10",
            "max_identifier_length": "63",
            "block_size": "8192",
            "wal_block_size": "8192",
            "data_checksums": "off",
        }

    def export_snapshot(self, database: str, lsn: int) -> str:
        """Keep a snapshot, and return its name, such as the server's are."""
        name = f"{next(self._numbers):08X}-{len(self.snapshots):08X}-1"
        self.snapshots[name] = Snapshot(database, lsn)
        return name

    def cancel(self, request: CancelRequest) -> None:
        """Cancel what a session does, if the secret is its own."""
        session = self.sessions.get(request.pid)
        if session is not None and hmac.compare_digest(session[0](), request.key):
            session[1]()


def _memory(size: int) -> str:
    """Return bytes as a setting of memory shows them."""
    return f"{size >> 30}GB" if size % (1 << 30) == 0 else f"{size >> 20}MB"
