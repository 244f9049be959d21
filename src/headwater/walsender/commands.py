"""The commands of replication but for START_REPLICATION: what is asked of the cluster and its slots, answered.

PostgreSQL: exec_replication_command, IdentifySystem, ReadReplicationSlot, CreateReplicationSlot (walsender.c).
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Iterator
from pathlib import Path

from headwater.errors import SessionError
from headwater.pg.lsn import lsn_text
from headwater.pg.sqlstates import (
    ACTIVE_SQL_TRANSACTION,
    FEATURE_NOT_SUPPORTED,
    INSUFFICIENT_PRIVILEGE,
)
from headwater.protocol.backend_messages import IDLE, command_complete
from headwater.protocol.replication_commands import (
    AlterReplicationSlot,
    BaseBackup,
    Command,
    CreateReplicationSlot,
    DropReplicationSlot,
    IdentifySystem,
    ReadReplicationSlot,
    Show,
    TimelineHistory,
)
from headwater.slots.invalidation import WAL_REMOVED
from headwater.walsender.backups.backup_at_hand import BackupAtHand, Entry
from headwater.walsender.backups.backup_messages import SentBackup
from headwater.walsender.backups.backup_options import backup_options
from headwater.walsender.backups.backup_wal import wal_of_backup
from headwater.walsender.replies import (
    created_slot,
    history_columns,
    identify_system,
    read_slot,
    shown,
    timeline_history,
)
from headwater.walsender.session_context import SessionContext
from headwater.walsender.slot_commands import EXPORT, USE, alter_slot, create_physical_slot, create_slot, new_slot


class ReplicationCommands:
    """The commands of one session.

    Args:
        context: of the session.
    """

    def __init__(self, context: SessionContext) -> None:
        self._context = context

    async def answer(self, command: Command) -> bytes:
        """Return the answer to a command other than START_REPLICATION.

        Raises:
            HeadwaterError: it is refused, or has failed.
        """
        cluster, slots = self._context.served.cluster, self._context.served.slots
        if isinstance(command, IdentifySystem):
            timeline, end = await to_thread(cluster.end)
            lsn = lsn_text(end, cluster.version)
            return identify_system(
                cluster.version, cluster.system_identifier, timeline, lsn, self._context.request.database
            )
        if isinstance(command, Show):
            return shown(*self._context.statements.settings.show(command.name))
        if isinstance(command, CreateReplicationSlot):
            return await self._create(command)
        if isinstance(command, AlterReplicationSlot):
            await to_thread(
                lambda: alter_slot(slots, command, cluster.version, self._context.pid, self._context.check_canceled)
            )
            return command_complete("ALTER_REPLICATION_SLOT")
        if isinstance(command, DropReplicationSlot):
            waits = self._context.check_canceled if command.waits else None
            await to_thread(lambda: slots.drop(command.slot, self._context.pid, waits))
            return command_complete("DROP_REPLICATION_SLOT")
        if isinstance(command, ReadReplicationSlot):
            return await to_thread(lambda: self._read(command))
        if isinstance(command, TimelineHistory):
            self._context.connection.send(history_columns(cluster.version))
            return timeline_history(*await to_thread(lambda: cluster.timeline_history(command.timeline)))
        if isinstance(command, BaseBackup):
            return await to_thread(lambda: self._base_backup(command))
        raise SessionError(f"{type(command).__name__} is not supported", sqlstate=FEATURE_NOT_SUPPORTED)

    def _base_backup(self, command: BaseBackup) -> bytes:
        """Send the base backup at hand, but for the end of the answer, which is returned; runs in a thread."""
        if self._context.statements.transaction.status != IDLE:
            raise SessionError("BASE_BACKUP cannot run inside a transaction block", sqlstate=ACTIVE_SQL_TRANSACTION)
        if not self._context.statements.user.may_copy_all:
            raise SessionError("permission denied to take a base backup", sqlstate=INSUFFICIENT_PRIVILEGE)
        cluster = self._context.served.cluster
        options, root = backup_options(command.options, cluster.version), Path(cluster.source.catalog)
        backup = BackupAtHand(root)
        directory = cluster.look_at(backup.start, backup.timeline)

        def wal() -> Iterator[Entry]:
            history = [cluster.timeline_history(backup.timeline)] if backup.timeline > 1 else []
            return wal_of_backup(root, directory, (backup.timeline, backup.start, backup.end), history)

        sent = SentBackup(backup, options, cluster.version, cluster.system_identifier, wal)
        return self._context.send_pieces(self._watched(sent.messages())) + command_complete("BASE_BACKUP")

    def _watched(self, messages: Iterator[bytes]) -> Iterator[bytes]:
        """Give messages as long as nobody cancels the command."""
        for data in messages:
            self._context.check_canceled()
            yield data

    def _read(self, command: ReadReplicationSlot) -> bytes:
        cluster, slots = self._context.served.cluster, self._context.served.slots
        if command.slot not in slots.names():
            return read_slot([None, None, None])
        slot = slots.read(command.slot)
        if not slot.is_physical:
            raise SessionError(
                "cannot use READ_REPLICATION_SLOT with a logical replication slot", sqlstate=FEATURE_NOT_SUPPORTED
            )
        if not slot.confirmed_lsn or slots.invalidation_of(command.slot) == WAL_REMOVED:
            return read_slot(["physical", None, None])
        timeline = cluster.look().timeline_at(slot.confirmed_lsn)
        return read_slot(["physical", lsn_text(slot.confirmed_lsn, cluster.version), str(timeline)])

    async def _create(self, command: CreateReplicationSlot) -> bytes:
        served = self._context.served
        asked = new_slot(command, served.cluster.version)
        if command.plugin is None:
            await to_thread(lambda: create_physical_slot(served.cluster, served.slots, self._context.pid, command))
            return created_slot(command.slot, lsn_text(0, served.cluster.version), None, None)
        self._context.check_database()
        self._check_snapshot(asked.snapshot)
        database = self._context.request.database
        settings, pid = self._context.statements.settings, self._context.pid
        of_rows, at = settings.of_decoding(), settings.slots_at
        snapshot = await to_thread(
            lambda: create_slot(served.cluster, served.slots, pid, database, command, asked, of_rows, at)
        )
        lsn = snapshot.kept.state.lsn
        if asked.snapshot == USE:
            self._context.statements.transaction.snapshot = snapshot
        elif asked.snapshot == EXPORT:
            self._context.exported = served.export_snapshot(database, snapshot)
        return created_slot(command.slot, lsn_text(lsn, served.cluster.version), self._context.exported, command.plugin)

    def _check_snapshot(self, snapshot: str) -> None:
        words = f"CREATE_REPLICATION_SLOT ... (SNAPSHOT '{snapshot}')"
        if snapshot == EXPORT and self._context.statements.transaction.status != IDLE:
            raise SessionError(f"{words} must not be called inside a transaction")
        if snapshot == USE:
            self._context.statements.transaction.check_uses_snapshot(words, self._context.served.cluster.version)
