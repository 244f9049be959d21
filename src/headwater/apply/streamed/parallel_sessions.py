"""The sessions in which streamed transactions are applied ahead of their end, and what waits for them.

While results are waited for, the target is asked whose locks stand in the way. A transaction that runs ahead must not
be in the way of what commits before it: it is ended, and applied from its spool when it commits. So is a transaction
that itself waits for a lock, as everything else would wait for it here. No deadlock is left to the target to find.

Invariants: all sessions belong to the thread of the worker's. A session that was ended is not used again.

PostgreSQL: applyparallelworker.c (pa_launch_parallel_worker, pa_lock_stream, pa_lock_transaction).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from headwater.apply.batches.bulk_tables import BulkTables
from headwater.apply.conflicts.setup import ConflictSetup
from headwater.apply.incoming.limits import Lease
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.progress.origin_progress import take_progress
from headwater.apply.progress.origins import Origin, ensure_origin, use_origin
from headwater.apply.progress.positions import FlushPositions
from headwater.apply.progress.table_states import AppliedTables
from headwater.apply.serial.serial_applier import SerialApplier
from headwater.apply.streamed.parallel_origins import parallel_origin_name
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.relation_map import RelationMap
from headwater.apply.target.session import TargetFacts, open_target
from headwater.errors import ServerError

PATIENCE_SECONDS = 1.0
"""How long a transaction that runs ahead may wait for a lock."""

BLOCKING = """
WITH RECURSIVE blocking (pid) AS (
    SELECT pg_catalog.unnest(pg_catalog.pg_blocking_pids($1))
    UNION SELECT pg_catalog.unnest(pg_catalog.pg_blocking_pids(blocking.pid)) FROM blocking)
SELECT pid FROM blocking
"""
_END = "SELECT pg_catalog.pg_terminate_backend($1, 10000)"
"""Waits until it is gone, so that what it held is free."""

Failed = Callable[[ServerError], None]


class BlockedError(ServerError):
    """A transaction that runs ahead waits for a lock, or was ended as it was in the way."""


class ParallelSession:
    """A session.

    Args:
        number: of those there are, from 1 on; connection: its own.
        applier: over it; bulk: tables whose changes are folded, None for none.
        lease: of its place.

    Attributes:
        is_lost: it was ended.
    """

    def __init__(
        self, number: int, connection: TargetConnection, applier: SerialApplier, bulk: BulkTables | None, lease: Lease
    ) -> None:
        self.number, self.connection, self.applier, self.bulk = number, connection, applier, bulk
        self.lease = lease
        self.is_lost = False


class ParallelSessions:
    """The sessions; a context manager.

    Args:
        request: what is asked for.
        main: the connection that applies everything else.
        origin: its origin; positions: gets what is durable.
        relations: makes the map of relations of a session.
        failed: is told why there is no session.
        tables: says of which tables changes are applied.
        conflicts: how sessions look for them.
    """

    def __init__(
        self,
        request: ApplyRequest,
        main: TargetConnection,
        origin: Origin,
        positions: FlushPositions,
        relations: Callable[[TargetConnection, TargetFacts], RelationMap],
        failed: Failed,
        tables: AppliedTables,
        conflicts: ConflictSetup,
    ) -> None:
        self._relations, self._tables, self._conflicts = relations, tables, conflicts
        self._request, self._main, self._origin, self._positions = request, main, origin, positions
        self._failed, self._is_refused = failed, False
        self._free: list[ParallelSession] = []
        self._used: list[ParallelSession] = []
        self._watch: TargetConnection | None = None
        self._watch_lease: Lease | None = None
        main.while_waiting = lambda: self._make_way(main)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._main.while_waiting = None
        for session in [*self._used, *self._free]:
            session.connection.close()
            session.lease.give_back()
        if self._watch is not None:
            self._watch.close()
        if self._watch_lease is not None:
            self._watch_lease.give_back()

    @property
    def used(self) -> list[int]:
        """The target's processes in which transactions are applied now."""
        return [session.connection.backend_pid for session in list(self._used)]

    def take(self) -> ParallelSession | None:
        """Take a session that is free; None if there is none."""
        if not self._free and len(self._used) < self._request.parallel_workers and not self._is_refused:
            self._add()
        if not self._free:
            return None
        session = self._free.pop()
        self._used.append(session)
        return session

    def _add(self) -> None:
        """Open another session, if there are places for it, and for the connection that watches."""
        limits = self._request.limits
        self._watch_lease = self._watch_lease or limits.connect()
        lease = None if self._watch_lease is None else limits.connect()
        if lease is None:
            return
        try:
            self._free.append(self._open(lease))
        except ServerError as error:
            lease.give_back()
            self._is_refused = True
            self._failed(error)

    def give_back(self, session: ParallelSession) -> None:
        """Give a session back, whose transaction has ended."""
        session.connection.while_waiting = None
        self._used.remove(session)
        self._free.append(session)

    def end(self, session: ParallelSession) -> None:
        """End a session, whatever it does: its transaction is rolled back.

        Raises:
            ServerError: the target is lost.
        """
        session.is_lost = True
        self._used.remove(session)
        # A session that waits for a lock does not see that its client has gone.
        self._watching().rows(_END, (str(session.connection.backend_pid),))
        session.connection.close()
        session.lease.give_back()

    def has_patience(self, session: ParallelSession) -> None:
        """Let a session wait for a lock for a moment only.

        Once it has waited too long, waiting for it raises a :class:`BlockedError`.
        """
        since: float | None = None

        def wait() -> None:
            nonlocal since
            if not self._blocking(session.connection):
                since = None
                return
            since = since or time.monotonic()
            if time.monotonic() - since > PATIENCE_SECONDS:
                raise BlockedError("a streamed transaction waits for a lock")

        session.connection.while_waiting = wait

    def has_right_of_way(self, session: ParallelSession) -> None:
        """End other sessions that a session waits for, as what it does comes before what they do."""
        session.connection.while_waiting = lambda: self._make_way(session.connection)

    def _make_way(self, connection: TargetConnection) -> None:
        others = [session for session in self._used if session.connection is not connection]
        if others:
            blocking = self._blocking(connection)
            for session in others:
                if session.connection.backend_pid in blocking:
                    self.end(session)

    def _blocking(self, connection: TargetConnection) -> set[int]:
        rows = self._watching().rows(BLOCKING, (str(connection.backend_pid),))
        return {int(str(pid)) for (pid,) in rows}

    def _watching(self) -> TargetConnection:
        if self._watch is None:
            name = f"headwater apply {self._request.subscription} watch"
            self._watch = TargetConnection(self._request.target, name)
        return self._watch

    def _open(self, lease: Lease) -> ParallelSession:
        request = self._request
        taken = {session.number for session in self._used}
        number = next(number for number in range(1, request.parallel_workers + 1) if number not in taken)
        name = f"headwater apply {request.subscription} parallel {number}"
        connection, facts = open_target(request.target, name, request.synchronous_commit)
        try:
            origin = self._set_up(connection, number)
            relations = self._relations(connection, facts)
            conflicts = self._conflicts.begin(connection, facts, origin, relations)
        except BaseException:
            connection.close()
            raise
        connection.ends = self._main.ends
        applier = SerialApplier(connection, relations, self._origin, self._positions, conflicts, self._tables)
        bulk = BulkTables(connection, relations, self._tables, applier.flush) if self._request.batches else None
        return ParallelSession(number, connection, applier, bulk, lease)

    def _set_up(self, connection: TargetConnection, number: int) -> Origin:
        origin = ensure_origin(connection, parallel_origin_name(self._request.subscription, number))
        use_origin(connection, origin)
        take_progress(connection, origin.name)
        # Not all systems can look whether the client is there still.
        with suppress(ServerError):
            connection.rows("SELECT pg_catalog.set_config('client_connection_check_interval', '1s', false)")
        return origin
