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

from headwater.apply.batches.batch_applier import BatchApplier
from headwater.apply.incoming.feeds import Feed
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.incoming.slot_source import slot_feed
from headwater.apply.incoming.wal_source import WalFeed
from headwater.apply.progress.origins import Origin, ensure_origin, origin_name, use_origin
from headwater.apply.progress.positions import FlushPositions
from headwater.apply.serial.serial_applier import SerialApplier
from headwater.apply.streamed.parallel_origins import furthest
from headwater.apply.streamed.parallel_sessions import ParallelSessions
from headwater.apply.streamed.streamed_applier import StreamedApplier
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

_IN_USE, _CANCELLED = "55006", "57014"

Log = Callable[[HeadwaterError], None]


class ApplyWorker:
    """A worker.

    Args:
        request: what is asked for.
        failed: is told of an error after which it tries again.

    Attributes:
        durable: LSN of the source before which all is durable on the target.
    """

    def __init__(self, request: ApplyRequest, failed: Log) -> None:
        self._request, self._failed = request, failed
        self._is_ending = False
        self.durable = 0

    def stop(self) -> None:
        """Tell it to end, from any thread."""
        self._is_ending = True

    def run(self) -> None:
        """Apply until it is told to end, or to the end that was asked for.

        Raises:
            HeadwaterError: something fails, and that is not tried again.
        """
        changed = -SLOT_SECONDS
        while not self._is_ending:
            began = time.monotonic()
            try:
                self._session()
                return
            except MappingChangedError:
                # It is applied to the tables as they are now, from the last transaction that the target has.
                changed = time.monotonic()
            except (ServerError, SpoolError) as error:
                if self._has_cancelled(error):
                    return
                if isinstance(error, ServerError) and error.sqlstate == _IN_USE and began < changed + SLOT_SECONDS:
                    self._wait(time.monotonic() + WAIT_SECONDS / 5)
                    continue
                if self._request.disables_on_error:
                    raise
                self._failed(error)
                self._wait(began + self._request.retry_seconds)

    def _has_cancelled(self, error: HeadwaterError) -> bool:
        """Tell whether it is the end itself that an error comes of."""
        return self._is_ending and isinstance(error, ServerError) and error.sqlstate == _CANCELLED

    def _wait(self, until: float) -> None:
        while not self._is_ending and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, WAIT_SECONDS))

    def _session(self) -> None:
        request = self._request
        with ExitStack() as stack:
            name = f"headwater apply {request.subscription}"
            connection, facts = open_target(request.target, name, request.synchronous_commit)
            stack.enter_context(connection)
            connection.ends = lambda: self._is_ending
            origin = ensure_origin(connection, origin_name(request.subscription))
            use_origin(connection, origin)
            reached = furthest(connection, origin, request.subscription)
            streaming = request.streaming or ("parallel" if VERSIONS[facts.major].streams_by_default else "off")
            feed = stack.enter_context(open_feed(replace(request, streaming=streaming), reached))
            positions = FlushPositions(reached)
            relations = self._relations(connection, facts)
            serial = SerialApplier(connection, relations, origin, positions)
            sessions = None
            if streaming == "parallel":
                sessions = stack.enter_context(self._sessions(connection, origin, positions))
            streams = stack.enter_context(StreamedApplier(serial, self._scratch, origin.number, sessions))
            applier = BatchApplier(connection, relations, positions, streams, batches=request.batches)
            self._loop(feed, applier, positions)

    def _sessions(self, main: TargetConnection, origin: Origin, positions: FlushPositions) -> ParallelSessions:
        return ParallelSessions(self._request, main, origin, positions, self._relations, self._failed)

    def _relations(self, connection: TargetConnection, facts: TargetFacts) -> RelationMap:
        run_as_owner = self._request.run_as_owner
        if run_as_owner is None:
            run_as_owner = runs_as_owner_by_default(facts.major)
        return RelationMap(connection, facts, run_as_owner=run_as_owner)

    @property
    def _scratch(self) -> Path:
        return self._request.scratch or Path(tempfile.gettempdir())

    def _loop(self, feed: Feed, applier: BatchApplier, positions: FlushPositions) -> None:
        end, is_whole = self._request.end, False
        while not self._is_ending:
            piece = feed.take(WAIT_SECONDS)
            is_whole = piece.is_whole or (is_whole and not piece.data)
            applier.apply(piece.data)
            if piece.is_whole:
                applier.flush()
                positions.passed(piece.reached)
            if positions.waits:
                applier.look_for_flushed()
            self.durable = positions.durable
            feed.confirm(self.durable)
            if end is not None and is_whole and self.durable >= end:
                return


def open_feed(request: ApplyRequest, reached: int) -> Feed:
    """Return the stream behind what is applied.

    Raises:
        HeadwaterError: the source refuses, or cannot be had.
    """
    return slot_feed(request, reached) if request.wal is None else WalFeed(request.wal, reached)
