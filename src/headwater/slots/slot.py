"""A slot: a request, where it stands, and what has been made of it (PostgreSQL: ReplicationSlot, slot.h).

A value, kept as one file. ``confirmed_lsn`` is the server's ``confirmed_flush_lsn``: transactions whose commit record
starts before it have been delivered. A call of ``headwater decode --slot`` is a session, so the state holds nothing of
what a plugin remembers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from headwater.reorder.commits.state import State

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SlotRequest:
    """A request, as a slot keeps it.

    Attributes:
        wal: paths and addresses of WAL segments; what a store is to be told, such as credentials, is not kept.
        catalog: where the catalog was taken from; needed only as long as the slot has no state.
        database: its name.
        plugin: the output plugin's name, empty of a physical slot.
        options: the plugin's options, a value of None means an option without one.
        settings: session settings as asked for; server_settings: as the server's configuration had them.
        unknown_types: what becomes of values whose type has no text form.
        tables: patterns of ``schema.table``.
        timeline: the timeline that is followed, None for the newest.
        user: the role whose settings the server's are, None for none.
    """

    wal: tuple[str, ...]
    catalog: str
    database: str
    plugin: str
    options: tuple[tuple[str, str | None], ...] = ()
    settings: Pairs = ()
    server_settings: Pairs = ()
    unknown_types: str = "error"
    tables: tuple[str, ...] = ()
    timeline: int | None = None
    user: str | None = None


@dataclass(frozen=True)
class SlotStatistics:
    """Counts since the slot was made (PostgreSQL: ``pg_stat_replication_slots``).

    Attributes:
        calls: sessions that have advanced the slot.
        total_txns: transactions delivered; total_bytes: bytes of their messages.
        changes, messages: rows that gave a message, and messages.
    """

    calls: int = 0
    total_txns: int = 0
    total_bytes: int = 0
    changes: int = 0
    messages: int = 0

    def __add__(self, other: SlotStatistics) -> SlotStatistics:
        """Return the sum of both."""
        return SlotStatistics(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class PendingOutput:
    """Output that was complete when its writer ended, and may not have taken its place.

    Attributes:
        part: the whole file; when it is not there any more, it has taken its place. out: that place.
        confirmed_lsn, state, statistics: the slot's, once the output is in its place.
    """

    part: str
    out: str
    confirmed_lsn: int
    state: State
    statistics: SlotStatistics


@dataclass(frozen=True)
class Slot:
    """A slot.

    Attributes:
        request: what it decodes.
        confirmed_lsn: where it stands.
        state: there; None as long as the catalog that it was made from is needed.
        two_phase: prepared transactions are decoded at PREPARE.
        failover: kept for a standby; noted only.
        statistics: counts.
        pending: output that may not have taken its place.
    """

    request: SlotRequest
    confirmed_lsn: int
    state: State | None
    two_phase: bool = False
    failover: bool = False
    statistics: SlotStatistics = field(default=SlotStatistics())
    pending: PendingOutput | None = None

    @property
    def is_physical(self) -> bool:
        """Whether nothing is decoded: it stands for a place in the log."""
        return self.request.plugin == ""

    @property
    def restart_lsn(self) -> int:
        """WAL from here on is still needed."""
        return self.confirmed_lsn if self.state is None else self.state.restart_lsn

    def of_server(self, version: str, setting: str) -> Slot:
        """Return the same slot for a server that is of another release now, which a setting of the request names."""
        rest = tuple(pair for pair in self.request.settings if pair[0].strip().lower() != setting)
        return replace(self, request=replace(self.request, settings=(*rest, (setting, version))))

    def advanced(self, state: State, made: SlotStatistics) -> Slot:
        """Return the slot as it is after a session that has delivered everything up to the state's LSN."""
        state = state.in_new_session
        return replace(self, confirmed_lsn=state.lsn, state=state, statistics=self.statistics + made, pending=None)
