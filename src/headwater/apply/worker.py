"""The apply worker: a source's stream, applied to a target until it is told to end.

Out of each piece of the stream changes are applied; what is durable on the target is confirmed to the source. An error
ends the session with both; after a while the next one begins behind what the target has.

PostgreSQL: worker.c (LogicalRepApplyLoop, start_apply), launcher.c.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from headwater.apply.incoming.pieces import messages_of
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.incoming.slot_source import open_feed
from headwater.apply.progress.origins import ensure_origin, origin_name, progress_of, use_origin
from headwater.apply.progress.positions import FlushPositions
from headwater.apply.serial.serial_applier import SerialApplier
from headwater.apply.table_sync.subscribing import is_two_phase, subscribe
from headwater.apply.table_sync.sync_pool import SyncPool
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.relation_map import RelationMap
from headwater.apply.target.session import open_target
from headwater.errors import HeadwaterError, ServerError
from headwater.remote_slots.slot_feed import SlotFeed

WAIT_SECONDS = 0.1
"""How long to wait for more, between two looks at what is durable and at whether the run was told to end."""

MOST_BYTES = 4 << 20
"""Bytes of the stream that are taken at a time, to the end of a transaction; between them tables' copies are tended."""

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
    """

    def __init__(self, request: ApplyRequest, failed: Log, say: Say = lambda _: None) -> None:
        self._request, self._failed, self._say = request, failed, say
        self._copies = SyncPool(request, failed, say)
        self._is_ending = False
        self.durable = 0

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
            while not self._is_ending:
                began = time.monotonic()
                try:
                    if self._session():
                        return
                except ServerError as error:
                    if self._request.disables_on_error:
                        raise
                    if not self._is_ending:
                        self._failed(error)
                        self._wait(began + self._request.retry_seconds)
        finally:
            self._copies.end()
            self._copies.join()

    def _wait(self, until: float) -> None:
        while not self._is_ending and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, WAIT_SECONDS))

    def _session(self) -> bool:
        """Apply until the end; false if a new session is to go on, to which transactions come at PREPARE."""
        request = self._request
        with ExitStack() as stack:
            name = f"headwater apply {request.subscription}"
            connection, facts = open_target(request.target, name, request.synchronous_commit)
            stack.enter_context(connection)
            subscription = subscribe(connection, request, self._say)
            two_phase = is_two_phase(connection, subscription, request)
            request = replace(request, slot=replace(request.slot, creates_slot=False, two_phase=two_phase))
            origin = ensure_origin(connection, origin_name(request.subscription))
            use_origin(connection, origin)
            reached = progress_of(connection, origin)
            feed = stack.enter_context(open_feed(request, reached))
            positions = FlushPositions(reached)
            self._copies.begin(connection, subscription, feed.start)
            relations = RelationMap(connection, facts)
            applier = SerialApplier(connection, relations, origin, positions, tables=self._copies.states)
            awaits_ready = self._request.slot.two_phase and not two_phase
            return self._loop(feed, applier, positions, connection, awaits_ready)

    def _loop(
        self,
        feed: SlotFeed,
        applier: SerialApplier,
        positions: FlushPositions,
        connection: TargetConnection,
        awaits_ready: bool,
    ) -> bool:
        end, states = self._request.end, self._copies.states
        while not self._is_ending:
            piece = feed.take(WAIT_SECONDS, MOST_BYTES)
            for data, lsn in messages_of(piece):
                applier.apply(data, lsn)
            if piece.is_whole:
                applier.flush()
                positions.passed(piece.reached)
                self._copies.tend(connection, piece.reached)
            if positions.waits:
                applier.look_for_flushed()
            self.durable = positions.durable
            feed.confirm(self.durable)
            if awaits_ready and piece.is_whole and states.tables and states.are_ready:
                return False
            if end is not None and piece.is_whole and self.durable >= end and states.are_ready:
                return True
        return True
