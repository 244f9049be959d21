"""The status of a service, as a value: sessions, slots, the log, what was answered; asked for from any thread.

PostgreSQL: pg_stat_activity, pg_stat_replication, pg_replication_slots.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.errors import HeadwaterError
from headwater.slots.slot import SlotStatistics
from headwater.walsender.operating.activity import SessionActivity
from headwater.walsender.served import Served


@dataclass(frozen=True)
class SlotStatus:
    """The status of a slot.

    Attributes:
        name, plugin, database: of it; plugin and database are empty of a physical slot.
        is_temporary: it goes with its session; active_pid: of the session that uses it, None without.
        confirmed_lsn, restart_lsn: where it stands, and from where on it needs WAL.
        retained_bytes: WAL from there to the end of the log.
        invalidated: why it is not valid any more; None of one that is, which alone retains WAL.
        two_phase, failover: its flags; statistics: its counts.
    """

    name: str
    plugin: str
    database: str
    is_temporary: bool
    active_pid: int | None
    confirmed_lsn: int
    restart_lsn: int
    retained_bytes: int
    invalidated: str | None
    two_phase: bool
    failover: bool
    statistics: SlotStatistics


@dataclass(frozen=True)
class ShelfStatus:
    """The states of a database that outlive the service.

    Attributes:
        count: how many there are; size: bytes.
        oldest, newest: LSN of the first and the last of them, 0 without any.
    """

    count: int
    size: int
    oldest: int
    newest: int


@dataclass(frozen=True)
class ServiceStatus:
    """The status of a service.

    Attributes:
        version: of the server that is stood for; system_identifier: of the cluster.
        timeline, end: where the log ends.
        received: LSN up to which WAL was received and synced; None where none is received.
        decoded: LSN up to which a database has been followed, by name.
        shelves: states of databases, by name.
        sessions: those that are connected; slots: all of them.
        connections: how many came; answers: by layer; errors: that clients were told of, by SQLSTATE.
    """

    version: str
    system_identifier: int
    timeline: int
    end: int
    received: int | None
    decoded: dict[str, int]
    shelves: dict[str, ShelfStatus]
    sessions: tuple[SessionActivity, ...]
    slots: tuple[SlotStatus, ...]
    connections: int
    answers: dict[str, int]
    errors: dict[str, int]


def status_of(served: Served, received: int | None = None) -> ServiceStatus:
    """Look at a service; reads the slots' files and the end of the log.

    Args:
        served: what is served; received: see :class:`ServiceStatus`.

    Raises:
        HeadwaterError: the WAL cannot be read.
    """
    cluster, counts = served.cluster, served.counts
    timeline, end = cluster.end()
    return ServiceStatus(
        version=cluster.source.server_version or str(cluster.version),
        system_identifier=cluster.system_identifier,
        timeline=timeline,
        end=end,
        received=received,
        decoded=cluster.decoded_to(),
        shelves=_shelves(served),
        sessions=tuple(sorted(served.activities.values(), key=lambda session: session.pid)),
        slots=tuple(_slots(served, end)),
        connections=counts.connections,
        answers=counts.answers,
        errors=counts.errors,
    )


def _shelves(served: Served) -> dict[str, ShelfStatus]:
    shelves = {}
    for name, shelf in served.cluster.shelves.items():
        if shelf.lasting is not None:
            files = shelf.lasting.files()
            lsns = [file.lsn for file in files] or [0]
            shelves[name] = ShelfStatus(len(files), sum(file.size for file in files), lsns[0], lsns[-1])
    return shelves


def _slots(served: Served, end: int) -> list[SlotStatus]:
    slots = []
    for name in served.slots.names():
        try:
            slot, is_temporary = served.slots.read(name), served.slots.is_temporary(name)
            invalidated = served.slots.invalidation_of(name)
        except HeadwaterError:
            continue  # It was dropped meanwhile.
        restart = slot.restart_lsn if invalidated is None else 0
        slots.append(
            SlotStatus(
                name=name,
                plugin=slot.request.plugin,
                database=slot.request.database,
                is_temporary=is_temporary,
                active_pid=served.slots.pid_of(name),
                confirmed_lsn=slot.confirmed_lsn,
                restart_lsn=restart,
                retained_bytes=max(0, end - restart) if restart else 0,
                invalidated=invalidated,
                two_phase=slot.two_phase,
                failover=slot.failover,
                statistics=slot.statistics,
            )
        )
    return slots
