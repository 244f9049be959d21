"""The limits of a service, and the places that sessions take: PostgreSQL's settings of these names, and its words.

A session takes its place once it has said what it is, before it proves who it is: of those for replication, or of all
others. Connections that have not come so far have no place. There are at most :data:`MOST_STARTING` of them, and each
newer one is the end of the oldest. So it is with places: where all are taken, the session goes that has had one for
longest without proving who it is. Who cannot do that keeps nobody out.

PostgreSQL: InitProcess (proc.c), BackendInitialize (backend_startup.c), ReplicationSlotCreate (slot.c). The server has
a process for each connection, and refuses any more at twice the number of places; whoever has a place there keeps it up
to the end of authentication_timeout.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headwater.errors import SessionError, UsageError
from headwater.pg.sqlstates import TOO_MANY_CONNECTIONS
from headwater.pg.version import Version
from headwater.walsender.operating.slot_limits import SlotLimits

MOST_STARTING = 1000
"""Connections that have not proved who they are, at most."""


@dataclass(frozen=True)
class Limits:
    """The limits of a service.

    Attributes:
        connections: sessions that are not of replication; wal_senders: those that are; slots: of replication.
        authentication_seconds: for all that comes before a session has begun.
        of_slots: how far a slot may fall behind, and for how long it may be idle.
    """

    connections: int = 100
    wal_senders: int = 100
    slots: int = 100
    authentication_seconds: float = 60.0
    of_slots: SlotLimits = field(default_factory=SlotLimits)

    def check(self, version: Version) -> None:
        """Check that the release that is stood for has such limits.

        Raises:
            UsageError: it does not.
        """
        if self.of_slots.idle_seconds and not version.has_idle_slot_timeout:
            raise UsageError(
                f"PostgreSQL {version.major} has no idle_replication_slot_timeout",
                hint="--max-slot-wal-keep-size bounds what an idle slot keeps",
            )

    def settings(self, version: Version) -> dict[str, str]:
        """Return the limits as settings of a server's release: names and values."""
        seconds = f"{self.authentication_seconds:g}s"
        return {
            "max_connections": str(self.connections),
            "max_wal_senders": str(self.wal_senders),
            "max_replication_slots": str(self.slots),
            "authentication_timeout": "1min" if self.authentication_seconds == 60 else seconds,
            **self.of_slots.settings(version),
        }


class Places:
    """The places that sessions take; used in the event loop alone.

    Args:
        limits: how many there are; version: of the server that is stood for.
    """

    def __init__(self, limits: Limits, version: Version) -> None:
        self._limits, self._version = limits, version
        self._taken: dict[bool, dict[int, Callable[[], object] | None]] = {False: {}, True: {}}

    @contextmanager
    def taken(self, pid: int, is_replication: bool, end: Callable[[], object]) -> Iterator[None]:
        """Take a place as long as the ``with`` block lasts.

        Args:
            pid: the session's number; is_replication: it is one of replication.
            end: ends the session if it has not been settled when another needs its place.

        Raises:
            SessionError: there is none left.
        """
        taken = self._taken[is_replication]
        if len(taken) >= (self._limits.wal_senders if is_replication else self._limits.connections):
            self._free_one(taken, is_replication)
        taken[pid] = end
        try:
            yield
        finally:
            taken.pop(pid, None)

    def settle(self, pid: int) -> None:
        """Let a session keep its place, as its client has proved who it is."""
        for taken in self._taken.values():
            if pid in taken:
                taken[pid] = None

    def _free_one(self, taken: dict[int, Callable[[], object] | None], is_replication: bool) -> None:
        """Let the oldest session go whose client has not proved who it is."""
        pid = next((pid for pid, end in taken.items() if end is not None), None)
        end = None if pid is None else taken.pop(pid)
        if end is None:
            raise self._too_many(is_replication)
        end()

    def _too_many(self, is_replication: bool) -> SessionError:
        if not is_replication:
            return SessionError("sorry, too many clients already", sqlstate=TOO_MANY_CONNECTIONS)
        name, most = shown_setting("max_wal_senders", self._version), self._limits.wal_senders
        return SessionError(
            f"number of requested standby connections exceeds {name} (currently {most})",
            sqlstate=TOO_MANY_CONNECTIONS,
        )


def allow_open_files() -> None:
    """Let the process have as many open files as the system allows it: each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def shown_setting(name: str, version: Version) -> str:
    """Return the name of a setting as messages have it."""
    return f'"{name}"' if version.quotes_setting_names else name
