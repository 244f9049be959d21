"""The commands that make, change and drop slots, as the walsender does them; each may take its time, in a thread.

PostgreSQL: parseCreateReplSlotOptions, CreateReplicationSlot, AlterReplicationSlot (walsender.c), slot.c, logical.c.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from headwater.errors import SessionError
from headwater.pg.sqlstates import (
    FEATURE_NOT_SUPPORTED,
    INSUFFICIENT_PRIVILEGE,
    INTERNAL_ERROR,
    INVALID_PARAMETER_VALUE,
    SYNTAX_ERROR,
    UNDEFINED_FILE,
)
from headwater.pg.version import Version
from headwater.pipeline.requests.plugin_loading import plugin_names
from headwater.protocol.replication_commands import AlterReplicationSlot, CreateReplicationSlot, Options, Value
from headwater.protocol.startup import parsed_bool
from headwater.slots.invalidation import invalidation_of
from headwater.slots.slot import Pairs, Slot, SlotRequest
from headwater.walsender.copying.upstream import Settings
from headwater.walsender.operating.invalidated_slots import check_usable
from headwater.walsender.served_cluster import ServedCluster, SessionSnapshot
from headwater.walsender.served_slots import ServedSlots

EXPORT, USE, NOTHING = "export", "use", "nothing"


@dataclass(frozen=True)
class NewSlot:
    """The options of CREATE_REPLICATION_SLOT.

    Attributes:
        snapshot: what becomes of the snapshot: EXPORT, USE or NOTHING.
        two_phase, failover: the slot's.
    """

    snapshot: str = EXPORT
    two_phase: bool = False
    failover: bool = False


def new_slot(command: CreateReplicationSlot, version: Version) -> NewSlot:
    """Take the options of CREATE_REPLICATION_SLOT apart.

    Raises:
        SessionError: one is unknown, comes twice, or is of the other kind of slot.
    """
    known = {"snapshot", "two_phase"} if command.plugin is not None else {"reserve_wal"}
    if version.alters_replication_slots and command.plugin is not None:
        known.add("failover")
    values = dict(_once(command.options, known))
    snapshot = str(values.get("snapshot", EXPORT))
    if snapshot not in (EXPORT, USE, NOTHING):
        raise SessionError(
            f'unrecognized value for CREATE_REPLICATION_SLOT option "snapshot": "{snapshot}"',
            sqlstate=INVALID_PARAMETER_VALUE,
        )
    flags = {name: is_true(name, values[name]) for name in ("two_phase", "failover") if name in values}
    return NewSlot(snapshot, **flags)


_ANY_SLOT = {"snapshot", "two_phase", "failover", "reserve_wal"}


def _once(options: Options, known: Iterable[str]) -> Options:
    seen: set[str] = set()
    for name, _ in options:
        if name not in _ANY_SLOT:
            raise SessionError(f"unrecognized option: {name}", sqlstate=INTERNAL_ERROR)
        if name in seen or name not in known:
            raise SessionError("conflicting or redundant options", sqlstate=SYNTAX_ERROR)
        seen.add(name)
    return options


def is_true(name: str, value: Value) -> bool:
    """Return the value of an option that is a boolean (defGetBoolean).

    Raises:
        SessionError: it is none.
    """
    parsed = True if value is None else value if isinstance(value, bool) else parsed_bool(str(value))
    if parsed is None or (isinstance(value, int) and value not in (0, 1)):
        raise SessionError(f"{name} requires a Boolean value", sqlstate=SYNTAX_ERROR)
    return parsed


def create_slot(
    cluster: ServedCluster,
    slots: ServedSlots,
    pid: int,
    database: str,
    command: CreateReplicationSlot,
    asked: NewSlot,
    settings: Settings,
    at: int | None = None,
) -> SessionSnapshot:
    """Make a logical slot at the present end of the log, or at an LSN; return the snapshot where it begins.

    Rows can be read by it if they may be asked for: the caller closes it.

    Raises:
        SessionError: it cannot be made; HeadwaterError: the WAL cannot be followed.
    """
    assert command.plugin is not None
    slots.check_new(command.slot)
    check_plugin(command.plugin, cluster.version)
    if asked.failover and command.is_temporary:
        raise SessionError("cannot enable failover for a temporary replication slot", sqlstate=FEATURE_NOT_SUPPORTED)
    snapshot = _beginning(cluster, database, asked, settings, at)
    place = snapshot.kept
    request = _request(cluster, database, command.plugin, place.server_settings)
    state = replace(place.state, outputs=())
    slot = Slot(request, place.state.lsn, state, asked.two_phase, asked.failover)
    try:
        slots.create(command.slot, slot, pid, command.is_temporary, partial(check_wal, cluster, slot))
    except BaseException:
        snapshot.close()
        raise
    return snapshot


def _beginning(
    cluster: ServedCluster, database: str, asked: NewSlot, settings: Settings, at: int | None
) -> SessionSnapshot:
    """Return the place where a slot begins; rows as of an LSN of the past are always those of the backup and WAL."""
    if at is not None:
        return SessionSnapshot(cluster.state_at(database, at), None)
    cluster.wait_until_consistent(database)
    if asked.snapshot == USE:
        return cluster.snapshot(database, settings)
    return SessionSnapshot(cluster.state_at_end(database), None)


def check_wal(cluster: ServedCluster, slot: Slot) -> None:
    """Check that the WAL which a logical slot needs was not removed before there was a slot that needs it.

    Raises:
        WalError: it was.
    """
    cluster.look(slot.restart_lsn).covering(slot.restart_lsn, slot.confirmed_lsn)


def create_physical_slot(cluster: ServedCluster, slots: ServedSlots, pid: int, command: CreateReplicationSlot) -> None:
    """Make a physical slot; it stands nowhere until WAL is reserved, or a stream has used it.

    Raises:
        SessionError: it cannot be made; WalError: the WAL cannot be read.
    """
    slots.check_new(command.slot)
    reserves = any(name == "reserve_wal" and is_true(name, value) for name, value in command.options)
    place = cluster.end()[1] if reserves else 0
    slots.create(command.slot, Slot(_request(cluster, "", "", ()), place, None), pid, command.is_temporary)


def _request(cluster: ServedCluster, database: str, plugin: str, settings: Pairs) -> SlotRequest:
    source = cluster.source
    return SlotRequest(
        wal=tuple(os.path.abspath(p.address) if p.is_local else p.address for p in source.wal.places),
        catalog=os.path.abspath(source.catalog),
        database=database,
        plugin=plugin,
        server_settings=settings,
        timeline=source.wal.timeline,
    )


def check_plugin(name: str, version: Version) -> None:
    """Check that a plugin is installed; a client names no file, whose code would run here.

    Raises:
        SessionError: it is not.
    """
    if name in plugin_names():
        return
    hint = f"Plugins are {', '.join(plugin_names())}."
    if version.restricts_output_plugins:
        text = f'library "{name}" may not be used as an output plugin'
        raise SessionError(text, sqlstate=INSUFFICIENT_PRIVILEGE, hint=hint)
    text = f'could not access file "{name}": No such file or directory'
    raise SessionError(text, sqlstate=UNDEFINED_FILE, hint=hint)


def alter_slot(
    slots: ServedSlots, command: AlterReplicationSlot, version: Version, pid: int, waits: Callable[[], None]
) -> None:
    """Change a slot's flags; one that is used is waited for, see :meth:`ServedSlots.used`.

    Raises:
        SessionError: the slot is not there, is used, or has no such flag.
    """
    known = {"failover", "two_phase"} if version.alters_two_phase else {"failover"}
    values: dict[str, bool] = {}
    for name, value in command.options:
        if name not in known:
            raise SessionError(f"unrecognized option: {name}", sqlstate=INTERNAL_ERROR)
        if name in values:
            raise SessionError("conflicting or redundant options", sqlstate=SYNTAX_ERROR)
        values[name] = is_true(name, value)
    with slots.used(command.slot, pid, waits) as opened:
        check_usable(command.slot, invalidation_of(opened.path), version)
        if values.get("failover") and slots.is_temporary(command.slot):
            raise SessionError(
                "cannot enable failover for a temporary replication slot", sqlstate=FEATURE_NOT_SUPPORTED
            )
        slot = opened.slot
        changed = replace(
            slot,
            failover=values.get("failover", slot.failover),
            two_phase=values.get("two_phase", slot.two_phase),
        )
        if changed != slot:
            opened.write(changed)
