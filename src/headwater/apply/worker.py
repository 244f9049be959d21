"""The apply worker: a source's stream, applied to a target until it is told to end.

Out of each piece of the stream changes are applied; what is durable on the target is confirmed to the source. An error
ends the session with both; after a while the next one begins behind what the target has.

PostgreSQL: worker.c (LogicalRepApplyLoop, start_apply), launcher.c.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from headwater.apply.batches.batch_applier import BatchApplier, BatchCounts
from headwater.apply.conflicts.conflicts import CheckedAnewError
from headwater.apply.conflicts.setup import ConflictSetup
from headwater.apply.incoming.feeds import Feed
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.incoming.slot_source import slot_feed, source_node
from headwater.apply.incoming.wal_source import WalFeed
from headwater.apply.progress.origins import Origin, ensure_origin, origin_name, use_origin
from headwater.apply.progress.positions import FlushPositions
from headwater.apply.progress.table_states import AllTables, AppliedTables
from headwater.apply.serial.serial_applier import SerialApplier
from headwater.apply.streamed.parallel_origins import furthest
from headwater.apply.streamed.parallel_sessions import ParallelSessions
from headwater.apply.streamed.streamed_applier import StreamedApplier
from headwater.apply.table_sync.subscribing import is_two_phase, subscribe
from headwater.apply.table_sync.sync_pool import SyncPool
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.relation_map import MappingChangedError, RelationMap
from headwater.apply.target.rights import runs_as_owner_by_default
from headwater.apply.target.session import TargetFacts, open_target
from headwater.errors import HeadwaterError, ServerError, SpoolError
from headwater.pg.version import VERSIONS

WAIT_SECONDS = 0.1
"""How long to wait for more, between two looks at what is durable and at whether the run was told to end."""

SLOT_SECONDS = 5.0
"""How long the source may take to see that a session has ended, where the next one begins at once."""

MOST_BYTES = 16 << 20
"""Bytes of the stream that are taken at a time, to the end of a transaction; between them tables' copies are tended."""

_IN_USE, _CANCELLED = "55006", "57014"

Log = Callable[[HeadwaterError], None]
Say = Callable[[str], None]


class ApplyWorker:
    """A worker.

    Args:
        request: what is asked for.
        failed: is told of an error after which it tries again.
        say: is told of slots and tables, in the server's words.

    Attributes:
        durable: LSN of the source before which all is durable on the target.
        batches: counts of what was applied several transactions at a time.
    """

    def __init__(self, request: ApplyRequest, failed: Log, say: Say = lambda _: None) -> None:
        self._request, self._failed, self._say = request, failed, say
        self._conflicts = ConflictSetup(request.subscription, request.target, request.conflicts, say)
        self._copies = SyncPool(request, failed, say, self._conflicts)
        self._is_ending = self._has_subscribed = False
        self.durable = 0
        self.batches = BatchCounts()

    def stop(self) -> None:
        """Tell it to end, from any thread."""
        self._is_ending = True
        self._copies.end()

    def run(self) -> None:
        """Apply until it is told to end, or to the end that was asked for.

        Raises:
            HeadwaterError: something fails, and that is not tried again.
        """
        try:
            self._run()
        finally:
            self._copies.end()
            self._copies.join()

    def _run(self) -> None:
        changed = -SLOT_SECONDS
        while not self._is_ending:
            began = time.monotonic()
            try:
                if self._session():
                    return
            except (MappingChangedError, CheckedAnewError):
                # It is applied to the tables as they are now, from the last transaction that the target has.
                changed = time.monotonic()
            except (ServerError, SpoolError) as error:
                if self._is_end(error):
                    return
                if isinstance(error, ServerError) and error.sqlstate == _IN_USE and began < changed + SLOT_SECONDS:
                    self._wait(time.monotonic() + WAIT_SECONDS / 5)
                    continue
                self._conflicts.count_error(error)
                if self._request.disables_on_error:
                    raise
                self._failed(error)
                self._wait(began + self._request.retry_seconds)

    def _is_end(self, error: HeadwaterError) -> bool:
        """Tell whether it is told to end, and an error that comes of it, or would be tried again, is none."""
        has_cancelled = isinstance(error, ServerError) and error.sqlstate == _CANCELLED
        return self._is_ending and (has_cancelled or not self._request.disables_on_error)

    def _wait(self, until: float) -> None:
        while not self._is_ending and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, WAIT_SECONDS))

    def _session(self) -> bool:
        """Apply until the end; false if a new session is to go on, to which transactions come at PREPARE."""
        with ExitStack() as stack:
            name = f"headwater apply {self._request.subscription}"
            connection, facts = open_target(self._request.target, name, self._request.synchronous_commit)
            stack.enter_context(connection)
            connection.ends = lambda: self._is_ending
            if self._request.wal is not None:
                return self._from_wal(stack, connection, facts, self._request)
            return self._from_slot(stack, connection, facts, self._request)

    def _from_wal(
        self, stack: ExitStack, connection: TargetConnection, facts: TargetFacts, request: ApplyRequest
    ) -> bool:
        assert request.wal is not None
        self._conflicts.check(connection, lambda: request.subscription)
        origin, reached = self._origin(connection)
        feed = stack.enter_context(WalFeed(request.wal, reached))
        positions = FlushPositions(reached)
        applier = self._applier(stack, connection, facts, origin, positions, AllTables(), "off")
        return self._loop(feed, applier, positions)

    def _from_slot(
        self, stack: ExitStack, connection: TargetConnection, facts: TargetFacts, request: ApplyRequest
    ) -> bool:
        subscription = subscribe(connection, request, self._say, refreshes=not self._has_subscribed)
        self._has_subscribed = True
        self._conflicts.check(connection, lambda: source_node(request))
        two_phase = is_two_phase(connection, subscription, request)
        streaming = request.streaming or ("parallel" if VERSIONS[facts.major].streams_by_default else "off")
        slot = replace(request.slot, creates_slot=False, two_phase=two_phase)
        origin, reached = self._origin(connection)
        feed = stack.enter_context(slot_feed(replace(request, slot=slot, streaming=streaming), reached))
        positions = FlushPositions(reached)
        self._copies.begin(connection, subscription, feed.start)
        applier = self._applier(stack, connection, facts, origin, positions, self._copies.states, streaming)
        return self._loop(feed, applier, positions, connection, awaits_ready=request.slot.two_phase and not two_phase)

    def _origin(self, connection: TargetConnection) -> tuple[Origin, int]:
        """Take the origin over, and return it with how far the target is."""
        subscription = self._request.subscription
        origin = ensure_origin(connection, origin_name(subscription))
        use_origin(connection, origin)
        return origin, furthest(connection, origin, subscription)

    def _applier(
        self,
        stack: ExitStack,
        connection: TargetConnection,
        facts: TargetFacts,
        origin: Origin,
        positions: FlushPositions,
        tables: AppliedTables,
        streaming: str,
    ) -> BatchApplier:
        request, relations = self._request, self._relations(connection, facts)
        conflicts = self._conflicts.begin(connection, facts, origin, relations)
        serial = SerialApplier(connection, relations, origin, positions, conflicts, tables)
        sessions = None
        if streaming == "parallel":
            sessions = ParallelSessions(
                request, connection, origin, positions, self._relations, self._failed, tables, self._conflicts
            )
            stack.enter_context(sessions)
        states = self._copies.states
        streams = StreamedApplier(serial, self._scratch, origin.number, sessions, lambda: states.are_ready)
        stack.enter_context(streams)
        counts = self.batches
        return BatchApplier(connection, relations, positions, streams, tables, batches=request.batches, counts=counts)

    def _relations(self, connection: TargetConnection, facts: TargetFacts) -> RelationMap:
        run_as_owner = self._request.run_as_owner
        if run_as_owner is None:
            run_as_owner = runs_as_owner_by_default(facts.major)
        return RelationMap(connection, facts, run_as_owner=run_as_owner)

    @property
    def _scratch(self) -> Path:
        return self._request.scratch or Path(tempfile.gettempdir())

    def _loop(
        self,
        feed: Feed,
        applier: BatchApplier,
        positions: FlushPositions,
        copied_by: TargetConnection | None = None,
        *,
        awaits_ready: bool = False,
    ) -> bool:
        """Apply what comes; false if all tables have become ready, and that was waited for.

        Args:
            feed: what comes; applier: applies it; positions: how far that is.
            copied_by: the connection by which tables' copies are tended; None if there are none.
            awaits_ready: see above.
        """
        end, states, is_whole = self._request.end, self._copies.states, False
        while not self._is_ending:
            piece = feed.take(WAIT_SECONDS, MOST_BYTES)
            is_whole = piece.is_whole or (is_whole and not piece.data)
            applier.apply(piece.data)
            if piece.is_whole:
                applier.flush()
                positions.passed(piece.reached)
                if copied_by is not None:
                    self._copies.tend(copied_by, piece.reached)
            if positions.waits:
                applier.look_for_flushed()
            self.durable = positions.durable
            feed.confirm(self.durable)
            if awaits_ready and is_whole and states.tables and states.are_ready:
                return False
            if end is not None and is_whole and self.durable >= end and states.are_ready:
                return True
        return True
