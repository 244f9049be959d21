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
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from headwater.apply.batches.batch_applier import BatchApplier, BatchCounts
from headwater.apply.batches.batch_sender import BatchSender
from headwater.apply.batches.bulk_tables import BulkTables
from headwater.apply.conflicts.conflicts import CheckedAnewError
from headwater.apply.conflicts.setup import ConflictSetup
from headwater.apply.incoming.feeds import Feed
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.incoming.slot_source import slot_feed, source_node
from headwater.apply.mapped.delayed_feed import DelayedFeed
from headwater.apply.mapped.mapped_feed import map_feed, take_behind
from headwater.apply.mapped.named_ends import name_both_ends
from headwater.apply.parallel.parallel_applier import ParallelApplier, ending_of
from headwater.apply.parallel.unit_sessions import UnitSessions
from headwater.apply.progress.applied_counts import AppliedCounts
from headwater.apply.progress.installation import install
from headwater.apply.progress.origins import Origin, ensure_origin, origin_name, use_origin
from headwater.apply.progress.positions import FlushPositions
from headwater.apply.progress.subscriptions import SubscribedTable, Subscription
from headwater.apply.progress.table_states import AllTables, AppliedTables
from headwater.apply.put_back import PutBack
from headwater.apply.refused.run_control import RunControl
from headwater.apply.refused.set_aside import AppliedAgainError, SetAside
from headwater.apply.refused.skipping import Skipping
from headwater.apply.serial.definition_changes import DefinitionChanges, HeldTableError
from headwater.apply.serial.serial_applier import SerialApplier
from headwater.apply.streamed.parallel_origins import parallel_origins, settle_progress
from headwater.apply.streamed.parallel_sessions import ParallelSessions
from headwater.apply.streamed.streamed_applier import StreamedApplier
from headwater.apply.table_sync.checked_rules import check_rules
from headwater.apply.table_sync.holding import hold_table
from headwater.apply.table_sync.moving_ahead import move_ahead
from headwater.apply.table_sync.source_history import require_history
from headwater.apply.table_sync.subscribing import is_subscribed, is_two_phase, subscribe
from headwater.apply.table_sync.sync_pool import SyncPool
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.relation_map import MappingChangedError, RelationMap
from headwater.apply.target.session import TargetFacts, open_target
from headwater.errors import HeadwaterError, ServerError, SpoolError
from headwater.pg.version import VERSIONS
from headwater.remote_slots.slot_feed import Heard, Piece
from headwater.walsender.operating.lag import LagTracker

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
        counts: of what was applied; lag: in time, from its coming here until it is durable.
        applied: LSN of the source before which all is applied; heard: what the source has said of itself.
        between: is called with the target's connection now and then, while nothing is pending.
        waits_until: when what waits by ``--delay`` is due, in seconds since 1970; None: nothing waits.
    """

    def __init__(self, request: ApplyRequest, failed: Log, say: Say = lambda _: None) -> None:
        self._request, self._say = request, say
        self._failed = self._naming_both_ends(failed)
        self._conflicts = ConflictSetup(request.subscription, request.target, request.conflicts, say)
        self._copies = SyncPool(request, self._failed, say, self._conflicts)
        self._definitions: DefinitionChanges | None = None
        self._connection: TargetConnection
        self._control = RunControl(request, say)
        self._skipping = Skipping(request.subscription, 0)
        self._aside = SetAside(request.subscription, request.refusals, say)
        self._is_ending = self._has_subscribed = self._has_put_back = False
        self._has_checked = self._has_waited = False
        self.waits_until: float | None = None
        self.durable = 0
        self.batches = BatchCounts()
        self.counts, self.lag = AppliedCounts(), LagTracker()
        self.applied, self.heard = 0, Heard(0)
        self.between: Callable[[TargetConnection], None] = lambda _: None
        self._sessions: ParallelSessions | None = None

    @property
    def tables(self) -> list[SubscribedTable]:
        """The subscription's tables."""
        return self._copies.states.tables

    @property
    def being_copied(self) -> list[int]:
        """The tables that have a worker of their own now, by their OIDs on the target."""
        return self._copies.being_copied

    @property
    def ahead(self) -> list[int]:
        """The target's processes in which transactions are applied ahead of their end."""
        sessions = self._sessions
        return [] if sessions is None else sessions.used

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
        except HeadwaterError as error:
            name_both_ends(error, self._request.maps)
            raise
        finally:
            self._copies.end()
            self._copies.join()
            if self._request.wal is not None:
                self._request.wal.cluster.close()

    def _naming_both_ends(self, failed: Log) -> Log:
        def named(error: HeadwaterError) -> None:
            name_both_ends(error, self._request.maps)
            failed(error)

        return named

    def _run(self) -> None:
        changed = -SLOT_SECONDS
        while not self._is_ending:
            began = time.monotonic()
            try:
                if self._session():
                    return
            except (MappingChangedError, AppliedAgainError, CheckedAnewError):
                # It is applied to the tables as they are now, from the last transaction that the target has; or with
                # what sets single rows aside, or with checks.
                changed = time.monotonic()
            except HeldTableError as error:
                self._hold(error, began)
            except (ServerError, SpoolError) as error:
                if self._is_end(error):
                    return
                if isinstance(error, ServerError) and error.sqlstate == _IN_USE and began < changed + SLOT_SECONDS:
                    self._wait(time.monotonic() + WAIT_SECONDS / 5)
                    continue
                self._conflicts.count_error(error)
                if self._request.disables_on_error:
                    self._disable(error)
                    raise
                self._failed(error)
                self._wait(began + self._request.retry_seconds)

    def _hold(self, held: HeldTableError, began: float) -> None:
        """Hold a table; what cannot be done now is tried again, as the transaction comes again."""
        self._failed(held)
        try:
            hold_table(self._request, held)
        except ServerError as error:
            if self._request.disables_on_error:
                raise
            self._failed(error)
            self._wait(began + self._request.retry_seconds)

    def _disable(self, error: HeadwaterError) -> None:
        if isinstance(error, ServerError):
            try:
                self._control.failed(error)
            except ServerError as other:
                self._failed(other)

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
            self._connection = connection
            self.counts.sessions += 1
            if self.counts.sessions > 1:  # Where each session fails there is no other moment.
                self.between(connection)
            if self._is_ending:
                return True
            self._control.begin(connection)
            if self._request.wal is not None:
                return self._from_wal(stack, connection, facts, self._request)
            return self._from_slot(stack, connection, facts, self._request)

    def _from_wal(
        self, stack: ExitStack, connection: TargetConnection, facts: TargetFacts, request: ApplyRequest
    ) -> bool:
        from headwater.apply.incoming.wal_source import WalFeed

        assert request.wal is not None
        self._check_rules(connection, facts)
        self._conflicts.check(connection, lambda: request.subscription)
        subscription = None
        follows_ddl = request.definitions.ddl != "ignore"
        if request.copies_data or follows_ddl or is_subscribed(connection, request.subscription):
            subscription = subscribe(connection, request, self._say, refreshes=not self._has_subscribed)
            self._has_subscribed = True
        origin, reached = self._origin(connection, facts)
        log_stream = stack.enter_context(WalFeed(request.wal, reached))
        feed = map_feed(self._delayed(log_stream, reached), request)
        positions = FlushPositions(reached)
        if subscription is None:
            applier = self._applier(stack, connection, facts, origin, positions, AllTables(), "off")
            return self._loop(feed, applier, positions)
        self._copies.begin(connection, subscription, log_stream.start)
        self._copy_first(connection, log_stream.start, log_stream.definitions_at)
        is_two_phase(connection, subscription, request)
        if follows_ddl:
            self._definitions = self._changes_of(connection, subscription)
        applier = self._applier(stack, connection, facts, origin, positions, self._copies.states, "off")
        return self._loop(feed, applier, positions, connection)

    def _changes_of(self, connection: TargetConnection, subscription: Subscription) -> DefinitionChanges:
        asked, states = self._request.definitions, self._copies.states
        return DefinitionChanges(
            *(connection, subscription, asked.ddl, asked.indexes, states, states),
            is_main=True,
            say=self._say,
            is_of_server=self._request.wal is None,
        )

    def _copy_first(self, connection: TargetConnection, start: int, definitions_at: int) -> None:
        """Let tables be copied before the stream is applied, which begins at an LSN.

        One that was to be copied behind where its definition can be had waits for the stream to come there.
        """
        while not self._is_ending and self._copies.holds_stream(definitions_at):
            self._copies.tend(connection, start)
            time.sleep(WAIT_SECONDS)
        self._copies.tend(connection, start)

    def _from_slot(
        self, stack: ExitStack, connection: TargetConnection, facts: TargetFacts, request: ApplyRequest
    ) -> bool:
        self._check_rules(connection, facts)
        subscription = subscribe(connection, request, self._say, refreshes=not self._has_subscribed)
        self._has_subscribed = True
        self._conflicts.check(connection, lambda: source_node(request))
        two_phase = is_two_phase(connection, subscription, request)
        streams = VERSIONS[facts.major].streams_by_default and not request.runs_behind_commits
        by_default = "parallel" if streams else "off"
        streaming = request.streaming or by_default
        slot = replace(request.slot, creates_slot=False, two_phase=two_phase)
        origin, reached = self._origin(connection, facts)
        if not require_history(connection, request, subscription, reached, self._say):
            return False
        if not self._skipping.is_set:
            move_ahead(connection, request, subscription, self._copies, lambda: self._is_ending, self._say)
        slot_stream = stack.enter_context(slot_feed(replace(request, slot=slot, streaming=streaming), reached))
        feed = map_feed(self._delayed(slot_stream, slot_stream.start), request)
        positions = FlushPositions(reached)
        self._copies.begin(connection, subscription, slot_stream.start)
        if request.definitions.ddl != "ignore":
            self._definitions = self._changes_of(connection, subscription)
        applier = self._applier(stack, connection, facts, origin, positions, self._copies.states, streaming)
        return self._loop(feed, applier, positions, connection, awaits_ready=request.slot.two_phase and not two_phase)

    def _check_rules(self, connection: TargetConnection, facts: TargetFacts) -> None:
        """Check the rules at the first start."""
        if not self._has_checked:
            check_rules(connection, facts, self._request)
        self._has_checked = True

    def _delayed(self, feed: Feed, reached: int) -> Feed:
        if not self._request.delay_seconds:
            return feed
        return DelayedFeed(feed, self._request.delay_seconds, reached, self._note_waiting)

    def _note_waiting(self, until: float | None) -> None:
        """Note until when a transaction waits; the first time that is said, too."""
        if until is not None and not self._has_waited:
            self._has_waited = True
            when = datetime.fromtimestamp(until, UTC).isoformat(" ", "seconds")
            self._say(f"applying waits until {when}, as is asked for by --delay; later transactions wait, too")
        self.waits_until = until

    def _origin(self, connection: TargetConnection, facts: TargetFacts) -> tuple[Origin, int]:
        """Take the origin over, and return it with how far the target is."""
        subscription = self._request.subscription
        install(connection)
        origin = ensure_origin(connection, origin_name(subscription))
        use_origin(connection, origin)
        reached = settle_progress(connection, origin, parallel_origins(connection, subscription))
        self._skipping = self._control.skipping(connection, reached)
        if not self._has_put_back and self._request.refusals.puts_back:
            relations = partial(self._relations, connection, facts)
            PutBack(connection, relations, origin, subscription, self._say).run(self._request.refusals)
            self._has_put_back = True
        self._aside.begin(connection)
        return origin, reached

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
        skipping, aside = self._skipping, self._aside
        # Their origins have to be known when conflicts are looked for.
        units = self._units(stack, connection, positions.durable)
        serial = SerialApplier(
            *(connection, relations, origin, positions),
            conflicts=self._conflicts.begin(connection, facts, origin, relations),
            tables=tables,
            definitions=self._definitions,
            skipping=skipping,
            aside=aside,
        )
        sessions = None
        if streaming == "parallel":
            sessions = ParallelSessions(
                *(request, connection, origin, positions, self._relations, self._failed, tables, self._conflicts)
            )
            self._sessions = stack.enter_context(sessions)
        states = self._copies.states
        bulk = BulkTables(
            *(connection, relations, tables, serial.flush, serial.is_set_aside),
            lambda mapped: request.conflicts.uses_times(f"{mapped.namespace}.{mapped.name}"),
        )
        streams = StreamedApplier(
            serial,
            self._scratch,
            origin.number,
            sessions,
            lambda: states.are_ready and not skipping.is_set and aside.may_run_ahead,
            bulk if request.batches else None,
        )
        stack.enter_context(streams)
        sender = stack.enter_context(BatchSender(connection))
        parts = (relations, positions, streams, tables, bulk, sender)
        if units is not None and units.count:
            options = request.parallel
            return ParallelApplier(units, connection, request.subscription, options, *parts, counts=self.batches)
        return BatchApplier(*parts, batches=request.batches, counts=self.batches)

    def _units(self, stack: ExitStack, connection: TargetConnection, reached: int) -> UnitSessions | None:
        """Open the sessions that apply ordinary transactions at a time; None if there are to be none."""
        request = self._request
        if request.parallel.workers == 1 or not request.batches:
            return None
        ending = ending_of(request.subscription, request.parallel, reached)
        return stack.enter_context(UnitSessions(request, connection, ending, self._failed))

    def _relations(self, connection: TargetConnection, facts: TargetFacts) -> RelationMap:
        return RelationMap(connection, facts, run_as_owner=self._request.runs_as_owner(facts.major))

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
        end, states, is_whole, reached = self._request.end, self._copies.states, False, 0
        while not self._is_ending:
            piece = take_behind(feed, WAIT_SECONDS, MOST_BYTES, applier.flush)
            is_whole = piece.is_whole or (is_whole and not piece.data)
            self._note(feed, piece)
            applier.apply(piece.data)
            if piece.is_whole:
                applier.flush()
                reached = piece.reached
                positions.passed(reached)
                self.applied = max(self.applied, reached)
                self.between(self._connection)
            if is_whole and copied_by is not None:
                self._copies.tend(copied_by, reached)
            applier.look_for_flushed()
            self.durable = positions.durable
            feed.confirm(self.durable)
            self.lag.reported(self.durable, time.monotonic())
            if awaits_ready and is_whole and states.tables and states.are_ready:
                return False
            if end is not None and is_whole and self.durable >= end and states.are_ready:
                return True
        return True

    def _note(self, feed: Feed, piece: Piece) -> None:
        """Note what has come."""
        self.heard = feed.heard
        self.counts.applied(piece.data)
        if piece.data and piece.is_whole:
            self.lag.sent(piece.reached, time.monotonic())
