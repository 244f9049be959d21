"""The copy of one table, and its way until the main worker takes it over: a thread with connections of its own.

In: a table in state i, d or f. First its rows are copied, by the snapshot of a slot that is made for it (d; then f,
committed together with the rows). Then the changes since are applied from that slot (w, c). That ends at a place beyond
all that the main worker has begun: it is written (s), and slot and origin are dropped.

Invariants: the rows, the LSN of their snapshot and the state f are committed together; so are the changes that are
applied and the progress of the table's own origin. Whatever is killed, the next attempt goes on from these: a copy
that was not committed is begun anew with another slot, unless some of its ranges were, and the log has it still.

PostgreSQL: tablesync.c (LogicalRepSyncTableStart, process_syncing_tables_for_sync).
"""

from __future__ import annotations

import select
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from headwater.apply.batches.batch_applier import BatchApplier
from headwater.apply.batches.batch_sender import BatchSender
from headwater.apply.batches.bulk_tables import BulkTables
from headwater.apply.conflicts.own_origins import drop_copys_origin
from headwater.apply.conflicts.setup import ConflictSetup
from headwater.apply.incoming.feeds import Feed
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.mapped.mapped_feed import map_feed, take_behind
from headwater.apply.progress.installation import transaction
from headwater.apply.progress.origins import (
    Origin,
    ensure_origin,
    leave_origin,
    list_origins,
    move_now,
    use_origin,
)
from headwater.apply.progress.positions import FlushPositions
from headwater.apply.progress.subscriptions import State, SubscribedTable, Subscription, read_table, set_state
from headwater.apply.progress.table_states import OnlyTable, TableStates
from headwater.apply.serial.definition_changes import DefinitionChanges
from headwater.apply.serial.serial_applier import SerialApplier
from headwater.apply.streamed.parallel_origins import settle_progress
from headwater.apply.streamed.streamed_applier import StreamedApplier
from headwater.apply.table_sync.creating import run_pending
from headwater.apply.table_sync.mapped_tables import describe_mapped
from headwater.apply.table_sync.publisher_tables import SourceTable
from headwater.apply.table_sync.ranges import (
    BegunAnewError,
    RangeCopy,
    count_blocks,
    forget_ranges,
    hold_row,
    is_empty,
    note_range,
    noted_ranges,
    undo_ranges,
)
from headwater.apply.table_sync.row_transfer import transfer
from headwater.apply.table_sync.sync_slots import (
    drop_slot,
    export_sync_slot,
    look_behind,
    make_sync_slot,
    open_source,
    sync_feed,
)
from headwater.apply.table_sync.wal_publisher import Publisher, WalPublisher
from headwater.apply.table_sync.wal_shares import SharedCopy, file_of
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.relation_map import RelationMap
from headwater.apply.target.relations import MappedRelation, map_relation
from headwater.apply.target.rights import acting_as
from headwater.apply.target.session import TargetFacts, open_target
from headwater.errors import ConnectionLostError, TargetError
from headwater.remote_slots.slot_feed import MOST_BYTES

WAIT_SECONDS = 0.1

_DUPLICATES = ("23505", "23P01")


class SyncWorker:
    """A table's worker.

    Args:
        request: what is asked for; subscription: it; states: shared with the main worker.
        oid: the table's, on the target.
        ending: set when it is to end.
        conflicts: how they are looked for.

    Attributes:
        is_settled: the threads know the state that the target has.
    """

    def __init__(
        self,
        request: ApplyRequest,
        subscription: Subscription,
        states: TableStates,
        oid: int,
        ending: threading.Event,
        conflicts: ConflictSetup,
    ) -> None:
        self._conflicts = conflicts
        self._request, self._subscription, self._states = request, subscription, states
        self._oid, self._ending = oid, ending
        self._name = subscription.sync_name(oid)
        self.is_settled = self._has_copied = False
        self._listed = 0
        self._role: str | None = None

    def settle(self) -> None:
        """Read the state that the target has, which after an error may be another than the threads believe.

        Raises:
            ServerError: the target refuses, or is lost.
        """
        connection, _ = open_target(self._request.target, self._name, self._request.synchronous_commit)
        with connection:
            self._read(connection)
        self.is_settled = True

    def run(self) -> None:
        """Copy, catch up, and hand the table over.

        Raises:
            HeadwaterError: something fails; the next attempt goes on from where this one was.
        """
        connection, facts = open_target(self._request.target, self._name, self._request.synchronous_commit)
        with connection:
            table = self._read(connection)
            if table is None or table.state in (State.SYNCDONE, State.READY):
                return
            origin = ensure_origin(connection, self._name)
            use_origin(connection, origin)
            if table.state != State.FINISHEDCOPY:
                table = self._copy(connection, facts, table)
            run_pending(connection, self._subscription, self._oid)
            self._catch_up(connection, facts, table, origin)
            leave_origin(connection)
            self.is_settled = True
            self._clean(connection)

    def _read(self, connection: TargetConnection) -> SubscribedTable | None:
        """Read the state that the target has, and let the threads know."""
        table = read_table(connection, self._subscription, self._oid)
        if table is not None:
            self._states.set(self._oid, table.state, table.lsn)
        return table

    def _write(self, connection: TargetConnection, state: State, lsn: int) -> None:
        connection.send(set_state(self._subscription, self._oid, state, lsn))
        connection.sync()
        connection.drain()

    def _copy(self, connection: TargetConnection, facts: TargetFacts, table: SubscribedTable) -> SubscribedTable:
        """Copy the rows; return the table in the state behind that."""
        self._listed = table.lsn
        self._write(connection, State.DATASYNC, table.lsn)
        self._states.set(self._oid, State.DATASYNC, table.lsn)
        with open_source(self._request) as source:
            lsn = self._go_on(connection, facts, source, table) if isinstance(source, WalPublisher) else None
            if lsn is None:
                lsn = self._copy_anew(connection, facts, source, table)
        self._states.set(self._oid, State.FINISHEDCOPY, lsn)
        self._has_copied = True
        return replace(table, state=State.FINISHEDCOPY, lsn=lsn)

    def _copy_anew(
        self, connection: TargetConnection, facts: TargetFacts, source: Publisher, table: SubscribedTable
    ) -> int:
        drop_slot(source, self._name)
        look_behind(source, table.lsn, lambda: self._wait([], []))
        described = self._described(source, table)
        mapped = self._mapped(connection, facts, described)
        # Rows of partitions could not be deleted by ONLY, were the copy begun anew.
        lsn = self._copy_ranges(connection, source, described) if mapped.kind == "r" else None
        return self._copy_whole(connection, source, table) if lsn is None else lsn

    def _mapped(self, connection: TargetConnection, facts: TargetFacts, described: SourceTable) -> MappedRelation:
        """Map the table; rows are copied as the role that changes of it are applied as."""
        run_as_owner = self._request.runs_as_owner(facts.major)
        mapped = map_relation(connection, facts, described.into, run_as_owner=run_as_owner)
        self._role = mapped.role
        return mapped

    def _go_on(
        self, connection: TargetConnection, facts: TargetFacts, source: WalPublisher, table: SubscribedTable
    ) -> int | None:
        """Go on with a copy in several connections, by the slot that was made for it; None if there is none."""
        noted = noted_ranges(connection, self._subscription, self._oid)
        file = file_of(connection, self._oid)
        lsn = source.look_at_copy(self._name) if file in noted else None
        if lsn is None or lsn < table.lsn or self._request.binary:
            return None
        described = self._described(source, table)
        if described.rows_map is not None:
            return None
        self._mapped(connection, facts, described)
        try:
            is_whole = self._share(source, described, noted - {file})
        except TargetError as error:
            if error.sqlstate not in _DUPLICATES:
                raise
            # What is noted may have been cut otherwise. If it was not, the copy that is begun anew says the same.
            source.finish()
            is_whole = False
        if not is_whole:
            return None
        self._finish_ranges(connection, lsn)
        return lsn

    def _share(self, source: WalPublisher, table: SourceTable, noted: set[int]) -> bool:
        source.begin(table.copy_sql())
        own = (self._request, self._subscription, self._oid, table, self._name, self._role)
        is_whole = SharedCopy(*own, source.batches(), self._wait, self._check, noted).run()
        source.finish()
        return is_whole

    def _described(self, source: Publisher, table: SubscribedTable) -> SourceTable:
        return describe_mapped(source, self._request, table.namespace, table.name)

    def _is_binary(self, source: Publisher) -> bool:
        return self._request.binary and source.postgres.copies_binary_rows

    def _copy_whole(self, connection: TargetConnection, source: Publisher, table: SubscribedTable) -> int:
        """Copy the table in one transaction; return the LSN of its snapshot."""
        lsn = make_sync_slot(source, self._name, fails_over=bool(self._request.fails_over))
        described = self._described(source, table)  # as the snapshot has it
        binary = self._is_binary(source)
        with transaction(connection):
            self._require_unchanged(connection)
            with acting_as(connection, self._role):
                transfer(source, described, connection, self._wait, self._about, binary=binary)
            self._write(connection, State.FINISHEDCOPY, lsn)
            move_now(connection, lsn)
        return lsn

    def _require_unchanged(self, connection: TargetConnection) -> None:
        """See that the table is still to be copied as of the same place, which may have been moved behind DDL.

        Raises:
            BegunAnewError: it is not: it is begun again.
        """
        present = read_table(connection, self._subscription, self._oid)
        if present is None or (present.state, present.lsn) != (State.DATASYNC, self._listed):
            raise BegunAnewError("the copy of a table is begun anew")

    def _copy_ranges(self, connection: TargetConnection, source: Publisher, table: SourceTable) -> int | None:
        """Copy a large table by ranges; return the LSN of its snapshot, None if it is to be copied as a whole."""
        undo_ranges(connection, self._subscription, self._oid, table.target_table, self._role)
        request = self._request
        if request.copy_connections == 1 or not is_empty(connection, table.target_table, self._role):
            return None
        if isinstance(source, WalPublisher):
            return self._copy_shares(connection, source, table)
        if table.kind != "r":
            return None
        if count_blocks(source, table) <= request.range_blocks:
            return None
        lease = request.limits.connect_up_to(request.copy_connections)
        if not lease.count:
            return None
        try:
            request = replace(request, copy_connections=lease.count)
            lsn, snapshot = export_sync_slot(source, self._name, fails_over=bool(request.fails_over))
            binary = self._is_binary(source)
            whose = (request, self._subscription, self._oid, table, self._name, self._role)
            copy = RangeCopy(*whose, source, snapshot, binary, self._wait)
            copy.run()
        finally:
            lease.give_back()
        self._finish_ranges(connection, lsn)
        return lsn

    def _copy_shares(self, connection: TargetConnection, source: WalPublisher, table: SourceTable) -> int | None:
        """Copy a large table of the backup in several connections; as :meth:`_copy_ranges`."""
        if self._request.binary or table.rows_map is not None:
            return None
        if source.count_blocks(table.sent.oid) <= self._request.range_blocks:
            return None
        lsn = make_sync_slot(source, self._name, fails_over=bool(self._request.fails_over))
        with transaction(connection):
            hold_row(connection, self._subscription, self._oid)
            note_range(connection, self._subscription, self._oid, file_of(connection, self._oid))
        self._share(source, table, set())
        self._finish_ranges(connection, lsn)
        return lsn

    def _finish_ranges(self, connection: TargetConnection, lsn: int) -> None:
        with transaction(connection):
            self._require_unchanged(connection)
            forget_ranges(connection, self._subscription, self._oid)
            self._write(connection, State.FINISHEDCOPY, lsn)
            move_now(connection, lsn)

    def _catch_up(
        self, connection: TargetConnection, facts: TargetFacts, table: SubscribedTable, origin: Origin
    ) -> None:
        """Apply what came since the copy, until the main worker can go on."""
        reached = max(settle_progress(connection, origin), table.lsn)
        self._states.set(self._oid, State.SYNCWAIT, reached)
        done = reached
        is_ahead = self._has_copied and self._request.wal is not None and self._states.choose(self._oid, reached)
        if not is_ahead:
            done = self._applied(connection, facts, origin, reached)
        with transaction(connection, is_durable=True):  # The slot is dropped next.
            self._write(connection, State.SYNCDONE, done)
        self._states.set(self._oid, State.SYNCDONE, done)

    def _applied(self, connection: TargetConnection, facts: TargetFacts, origin: Origin, reached: int) -> int:
        """Apply the table's own stream from an LSN on; return where the main worker takes it over."""
        with ExitStack() as stack:
            stream = stack.enter_context(sync_feed(self._request, self._name, reached))
            feed = map_feed(stream, self._request)
            self._states.set(self._oid, State.CATCHUP, reached)
            positions = FlushPositions(reached)
            run_as_owner = self._request.runs_as_owner(facts.major)
            relations = RelationMap(connection, facts, run_as_owner=run_as_owner)
            only = OnlyTable(self._oid)
            definitions = self._definitions(connection, only)
            conflicts = self._conflicts.begin(connection, facts, origin, relations)
            serial = SerialApplier(connection, relations, origin, positions, conflicts, only, definitions)
            batches, rules = self._request.batches, self._request.conflicts
            bulk = BulkTables(
                *(connection, relations, only, serial.flush),
                uses_times=lambda mapped: rules.uses_times(f"{mapped.namespace}.{mapped.name}"),
            )
            scratch = self._request.scratch or Path(tempfile.gettempdir())
            streams = StreamedApplier(serial, scratch, origin.number, bulk=bulk if batches else None)
            sender = stack.enter_context(BatchSender(connection))
            parts = (relations, positions, stack.enter_context(streams), only, bulk, sender)
            return self._follow(feed, BatchApplier(*parts, batches=batches), positions)

    def _definitions(self, connection: TargetConnection, only: OnlyTable) -> DefinitionChanges | None:
        asked = self._request.definitions
        if asked.ddl == "ignore":
            return None
        return DefinitionChanges(
            *(connection, self._subscription, asked.ddl, asked.indexes, self._states, only),
            is_main=False,
            say=lambda _: None,
            is_of_server=self._request.wal is None,
        )

    def _follow(self, feed: Feed, applier: BatchApplier, positions: FlushPositions) -> int:
        """Follow the table's stream; return the LSN before which all is applied here, and where the main one begins."""
        while True:
            self._check()
            piece = take_behind(feed, WAIT_SECONDS, MOST_BYTES, applier.flush)
            applier.apply(piece.data)
            if piece.is_whole:
                applier.flush()
                positions.passed(piece.reached)
                if self._states.choose(self._oid, piece.reached):
                    return piece.reached
            applier.look_for_flushed()
            feed.confirm(positions.durable)

    def _clean(self, connection: TargetConnection) -> None:
        """Drop the table's slot and origin; what is left by a kill the pool drops."""
        with open_source(self._request) as source:
            drop_slot(source, self._name)
        for name in list_origins(connection, self._name):
            drop_copys_origin(connection, self._subscription.name, name)

    def _about(self) -> str:
        return f'copying rows of a table for replication origin "{self._name}"'

    def _wait(self, reading: Sequence[int], writing: Sequence[int]) -> None:
        self._check()
        select.select(reading, writing, [], WAIT_SECONDS)

    def _check(self) -> None:
        if self._ending.is_set():
            raise ConnectionLostError("applying ends")
