"""The operations on slots that SQL functions ask for: made, moved, copied, dropped, and their changes read.

Changes are read by a fold of their own, from where the slot stands: :func:`read_changes` is the only place that decodes
for them.

PostgreSQL: slotfuncs.c, logicalfuncs.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from headwater.errors import HeadwaterError, SessionError
from headwater.pg.lsn import lsn_text
from headwater.pg.sqlstates import (
    FEATURE_NOT_SUPPORTED,
    INSUFFICIENT_PRIVILEGE,
    OBJECT_NOT_IN_PREREQUISITE_STATE,
)
from headwater.pipeline.requests.slot_request import kept_in_slot
from headwater.pipeline.slot_moves import state_at
from headwater.plugins.options import split_identifiers
from headwater.protocol.replication_commands import CreateReplicationSlot
from headwater.protocol.startup import SessionRequest
from headwater.reorder.commits.state import State
from headwater.slots.invalidation import WAL_REMOVED, invalidation_of
from headwater.slots.slot import Slot, SlotStatistics
from headwater.walsender.access.authentication import check_publications
from headwater.walsender.functions.slot_functions import AskedChanges, NewLogicalSlot, SlotCopy
from headwater.walsender.functions.views import SlotFacts
from headwater.walsender.operating.invalidated_slots import (
    NEVER_RESERVED,
    check_copied,
    check_decodable,
    check_usable,
)
from headwater.walsender.served import Served
from headwater.walsender.slot_changes import Row, read_changes
from headwater.walsender.slot_commands import (
    NOTHING,
    NewSlot,
    check_plugin,
    check_wal,
    create_physical_slot,
    create_slot,
)
from headwater.walsender.statements import Statements


@dataclass(frozen=True)
class SlotOperations:
    """The operations of one session.

    Attributes:
        served: the cluster and its slots; statements: of the session.
        request: what the client is; pid: the session's number.
    """

    served: Served
    statements: Statements
    request: SessionRequest
    pid: int

    def check_rights(self) -> None:
        """Check that the user may use slots (CheckSlotPermissions)."""
        if self.statements.user.may_replicate:
            return
        version = self.served.cluster.version
        if version.names_role_attributes:
            raise SessionError(
                "permission denied to use replication slots",
                sqlstate=INSUFFICIENT_PRIVILEGE,
                detail="Only roles with the REPLICATION attribute may use replication slots.",
            )
        raise SessionError(
            "must be superuser or replication role to use replication slots", sqlstate=INSUFFICIENT_PRIVILEGE
        )

    def create_logical(self, asked: NewLogicalSlot) -> int:
        """Make a logical slot at the end of the log; return where it stands."""
        served, database = self.served, self.request.database
        command = CreateReplicationSlot(asked.name, asked.plugin, asked.is_temporary, ())
        flags = NewSlot(NOTHING, asked.two_phase, asked.failover)
        settings = self.statements.settings
        of_rows, at = settings.of_decoding(), settings.slots_at
        snapshot = create_slot(served.cluster, served.slots, self.pid, database, command, flags, of_rows, at)
        return snapshot.kept.state.lsn

    def create_physical(self, name: str, reserves: bool, is_temporary: bool) -> int | None:
        """Make a physical slot; return where it stands, None for nowhere."""
        options = (("reserve_wal", True),) if reserves else ()
        command = CreateReplicationSlot(name, None, is_temporary, options)
        create_physical_slot(self.served.cluster, self.served.slots, self.pid, command)
        return self.served.slots.read(name).confirmed_lsn or None

    def drop(self, name: str) -> None:
        """Remove a slot."""
        self.served.slots.drop(name, self.pid)

    def advance(self, name: str, lsn: int) -> int:
        """Move a slot forward, to the end of the log at most; return where it stands then."""
        cluster = self.served.cluster
        target = min(lsn, cluster.end()[1])
        with self.served.slots.used(name, self.pid) as opened:
            slot, reason = opened.slot, invalidation_of(opened.path)
            check_usable(name, reason, cluster.version)
            if not slot.restart_lsn or reason is not None:
                raise SessionError(
                    f'replication slot "{name}" cannot be advanced',
                    sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE,
                    detail=NEVER_RESERVED,
                )
            if target < slot.confirmed_lsn:
                places = (lsn_text(place, cluster.version) for place in (target, slot.confirmed_lsn))
                raise SessionError(
                    "cannot advance replication slot to {}, minimum is {}".format(*places),
                    sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE,
                )
            if slot.is_physical:
                opened.write(replace(slot, confirmed_lsn=target))
                return target
            self._check_database(name, slot)
            if target > slot.confirmed_lsn:
                state = state_at(cluster.request_of(slot), kept_in_slot(slot), target, cluster.look()).in_new_session
                opened.write(replace(slot, confirmed_lsn=target, state=state))
        return target

    def copy(self, asked: SlotCopy) -> int | None:
        """Copy a slot; return where the copy stands, None of a physical one."""
        slots, version = self.served.slots, self.served.cluster.version
        source = slots.read(asked.source)
        if source.is_physical == asked.is_logical:
            # The server has these two the wrong way round, in all majors.
            kind, other = ("logical", "physical") if source.is_physical else ("physical", "logical")
            raise SessionError(
                f'cannot copy {kind} replication slot "{asked.source}" as a {other} replication slot',
                sqlstate=FEATURE_NOT_SUPPORTED,
            )
        reason = slots.invalidation_of(asked.source)
        if not source.restart_lsn or reason == WAL_REMOVED:
            raise SessionError(
                "cannot copy a replication slot that doesn't reserve WAL", sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE
            )
        check_copied(asked.source, reason)
        is_temporary = slots.is_temporary(asked.source) if asked.is_temporary is None else asked.is_temporary
        slots.check_new(asked.target)
        plugin = source.request.plugin if asked.plugin is None else asked.plugin
        if asked.is_logical:
            check_plugin(plugin, version)
        request = replace(source.request, plugin=plugin)
        copied = replace(
            source, request=request, two_phase=False, failover=False, statistics=SlotStatistics(), pending=None
        )
        check = partial(check_wal, self.served.cluster, copied) if asked.is_logical else lambda: None
        slots.create(asked.target, copied, self.pid, is_temporary, check)
        return copied.confirmed_lsn if asked.is_logical else None

    def changes(self, asked: AskedChanges) -> Sequence[tuple[int, int, bytes]]:
        """Read changes of a slot, and let it stand behind them unless they are only looked at."""
        slots = self.served.slots
        with slots.used(asked.slot, self.pid) as opened:
            slot, reason = opened.slot, invalidation_of(opened.path)
            check_decodable(asked.slot, reason, self.served.cluster.version, is_streamed=False)
            self._check_decodable(asked.slot, slot)
            self._check_publications(slot, asked)
            settings, check = self.statements.settings.of_decoding(), self.statements.interruption.check
            changes = read_changes(self.served.cluster, slot, asked, settings, check)
            state = None if asked.is_peek else changes.state()
            if state is not None:
                opened.write(_behind(slot, changes.rows, state))
            return changes.rows

    def _check_decodable(self, name: str, slot: Slot) -> None:
        if slot.is_physical:
            raise SessionError(
                "cannot use physical replication slot for logical decoding", sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE
            )
        self._check_database(name, slot)

    def _check_database(self, name: str, slot: Slot) -> None:
        if slot.request.database != self.request.database:
            raise SessionError(
                f'replication slot "{name}" was not created in this database',
                sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE,
            )

    def _check_publications(self, slot: Slot, asked: AskedChanges) -> None:
        """Check that the user may read what the changes are of, as for a stream."""
        user, plugin = self.statements.user, slot.request.plugin
        if user.publications is None:
            return
        if plugin != "pgoutput":
            raise SessionError(f"permission denied for output plugin {plugin}", sqlstate=INSUFFICIENT_PRIVILEGE)
        texts = (value for name, value in asked.options if name == "publication_names")
        major = self.served.cluster.major
        check_publications(user, [name for text in texts for name in split_identifiers(text, major) or ()])

    def facts(self) -> list[SlotFacts]:
        """Return what views tell of all slots; one that goes meanwhile is not there."""
        slots, facts = self.served.slots, list[SlotFacts]()
        end = self.served.cluster.end()[1] if self.served.limits.of_slots.are_any else 0
        for name in slots.names():
            try:
                facts.append(self._facts(name, slots.read(name), end))
            except HeadwaterError:
                if name in slots.names():
                    raise
        return facts

    def _facts(self, name: str, slot: Slot, end: int) -> SlotFacts:
        """Return what views tell of a slot, where the log ends at an LSN, which counts where there are limits."""
        slots, is_logical = self.served.slots, not slot.is_physical
        reason, limits = slots.invalidation_of(name), self.served.limits.of_slots
        restart_lsn, size = 0 if reason == WAL_REMOVED else slot.restart_lsn, self.served.cluster.segment_size
        database = slot.request.database
        return SlotFacts(
            name=name,
            plugin=slot.request.plugin if is_logical else None,
            database=database if is_logical else None,
            database_oid=self.served.cluster.database_oid(database) if is_logical else None,
            is_temporary=slots.is_temporary(name),
            two_phase=slot.two_phase,
            failover=slot.failover,
            pid=slots.pid_of(name),
            inactive_since=slots.inactive_since(name),
            restart_lsn=restart_lsn or None,
            confirmed_lsn=slot.confirmed_lsn or None,
            total_txns=slot.statistics.total_txns,
            total_bytes=slot.statistics.total_bytes,
            invalidated=reason,
            is_over_limit=restart_lsn < limits.oldest_kept(end, size),
            safe_wal_size=None if reason is not None else limits.safe_wal_size(restart_lsn, end, size),
        )


def _behind(slot: Slot, rows: Sequence[Row], state: State) -> Slot:
    """Return the slot as it is behind the changes that were read."""
    counts = SlotStatistics(calls=1, messages=len(rows), total_bytes=sum(len(data) for _, _, data in rows))
    return slot.advanced(state, counts)
