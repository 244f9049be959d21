"""The workers of tables that are not ready: threads, a few at a time, tended by the main worker.

Between its transactions the main worker calls :meth:`SyncPool.tend`. Tables in states i, d and f get a worker; after an
error a table gets the next one no sooner than after a while, and meanwhile others have their turn. Tables in state s
become ready once the main worker has come to their place. That is written together with its own origin, as
transactions of which nothing was applied leave no other trace.

PostgreSQL: tablesync.c (process_syncing_tables_for_apply), launcher.c.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from headwater.apply.conflicts.own_origins import drop_copys_origin
from headwater.apply.conflicts.setup import ConflictSetup
from headwater.apply.incoming.limits import Lease
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.progress.installation import transaction
from headwater.apply.progress.origin_progress import come_to
from headwater.apply.progress.origins import list_origins, move_now
from headwater.apply.progress.pending_statements import ALL_TABLES
from headwater.apply.progress.subscriptions import State, SubscribedTable, Subscription, read_tables, set_state
from headwater.apply.progress.table_states import TableStates
from headwater.apply.serial.definition_changes import HeldTableError
from headwater.apply.table_sync.creating import run_pending
from headwater.apply.table_sync.sync_slots import drop_slot, list_slots, open_source
from headwater.apply.table_sync.sync_worker import SyncWorker
from headwater.apply.target.connection import TargetConnection
from headwater.errors import HeadwaterError, ServerError

LOOK_SECONDS = 1.0
"""How often the target is asked which tables there are, as others may refresh the subscription."""

ENDING_SECONDS = 5.0
"""How long workers are waited for at the end; whoever waits for a lock still is left."""

_IS_BLOCKED = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_stat_activity
               WHERE pg_catalog.starts_with(application_name, $1) AND wait_event_type = 'Lock')
"""
_BEING_COPIED = (State.INIT, State.DATASYNC, State.FINISHEDCOPY)
_DONE = (State.SYNCDONE, State.READY)


@dataclass
class _Attempt:
    """The last attempt of a table's worker."""

    thread: threading.Thread
    began: float


class SyncPool:
    """The pool.

    Args:
        request: what is asked for.
        failed: is told of errors after which a table is tried again.
        say: is told of tables that are ready.
        conflicts: how workers look for them.

    Attributes:
        states: of the tables.
        error: of a worker; None for none yet.
    """

    def __init__(
        self,
        request: ApplyRequest,
        failed: Callable[[HeadwaterError], None],
        say: Callable[[str], None],
        conflicts: ConflictSetup,
    ) -> None:
        self._conflicts = conflicts
        self._request, self._failed, self._say = request, failed, say
        self.states = TableStates()
        self.error: HeadwaterError | None = None
        self._subscription: Subscription | None = None
        self._attempts: dict[int, _Attempt] = {}
        self._ending = threading.Event()
        self._looked_at = 0.0
        self._is_blocked, self._has_pending = False, True
        self._held = set[tuple[str, int]]()

    @property
    def being_copied(self) -> list[int]:
        """The tables that have a worker now, by their OIDs on the target."""
        return [oid for oid, attempt in list(self._attempts.items()) if attempt.thread.is_alive()]

    def end(self) -> None:
        """Tell all workers to end, from any thread."""
        self._ending.set()
        self.states.end()

    def join(self) -> None:
        """Wait for workers that were told to end."""
        until = time.monotonic() + ENDING_SECONDS
        for attempt in self._attempts.values():
            attempt.thread.join(max(until - time.monotonic(), 0))

    def begin(self, connection: TargetConnection, subscription: Subscription, start: int) -> None:
        """Note that the main worker begins, at an LSN of the source's.

        Raises:
            ServerError: a server refuses.
            ConnectionLostError: a server is lost.
        """
        self._subscription = subscription
        self.states.starts_at(start)
        self._look(connection, is_settled=True)
        self._clean(connection, subscription)

    def tend(self, connection: TargetConnection, reached: int) -> None:
        """Do what is due, between two transactions of the main worker.

        Args:
            connection: the main worker's, on which nothing is pending.
            reached: LSN of the source before which it has applied, or passed over, all that is its own.

        Raises:
            ServerError: the target refuses, or a worker has failed and the request is to end then.
            ConnectionLostError: the target is lost.
        """
        if self.error is not None and self._request.disables_on_error:
            raise self.error
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._look(connection)
        for table in self.states.tables:
            if table.state == State.SYNCDONE and table.lsn <= reached:
                self._make_ready(connection, table, reached)
            elif table.state in _BEING_COPIED:
                self._start_if_due(table)
        if self._has_pending and self.states.are_ready:
            assert self._subscription is not None
            for text in run_pending(connection, self._subscription, ALL_TABLES):
                self._say(text)
            self._has_pending = False

    def holds_stream(self, start: int) -> bool:
        """Tell whether a stream is to wait, as tables are being copied as of where it begins.

        Then none of their changes is decoded twice. It does not wait for what fails, or waits for a lock; but with
        transactions that come at PREPARE it has to, as such a table would have to catch up otherwise.

        Args:
            start: LSN at which the stream begins; one before that, if copies cannot begin behind it yet.
        """
        is_open = any(table.state not in _DONE and table.lsn <= start for table in self.states.tables)
        has_to = self._subscription is not None and self._subscription.two_phase != "d"
        return is_open and (has_to or not (self.error or self._held or self._is_blocked)) and not self._ending.is_set()

    def _look(self, connection: TargetConnection, *, is_settled: bool = False) -> None:
        assert self._subscription is not None
        changes = self.states.changes
        self.states.load(read_tables(connection, self._subscription, is_settled=is_settled), changes)
        rows = connection.rows(_IS_BLOCKED, (self._subscription.sync_prefix,))
        self._is_blocked = rows == [("t",)]
        self._looked_at = time.monotonic()

    def _make_ready(self, connection: TargetConnection, table: SubscribedTable, reached: int) -> None:
        assert self._subscription is not None
        attempt = self._attempts.get(table.oid)
        if attempt is not None and attempt.thread.is_alive():
            return  # it cleans up still
        with transaction(connection):
            connection.send(set_state(self._subscription, table.oid, State.READY, reached))
            connection.send(come_to(reached))
            move_now(connection, reached)
        self.states.set(table.oid, State.READY, reached)
        self._say(f'table "{table.namespace}.{table.name}" of subscription "{self._subscription.name}" is ready')

    def _start_if_due(self, table: SubscribedTable) -> None:
        assert self._subscription is not None
        running = [attempt for attempt in self._attempts.values() if attempt.thread.is_alive()]
        last = self._attempts.get(table.oid)
        now = time.monotonic()
        if len(running) >= self._request.max_sync_workers or self._ending.is_set():
            return
        if last is not None and (last.thread.is_alive() or now - last.began < self._request.retry_seconds):
            return
        lease = self._request.limits.copy()
        if lease is None:
            return
        worker = SyncWorker(self._request, self._subscription, self.states, table.oid, self._ending, self._conflicts)
        thread = threading.Thread(target=self._run, args=(worker, table, lease), name=f"sync {table.name}", daemon=True)
        self._attempts[table.oid] = _Attempt(thread, now)
        thread.start()

    def _run(self, worker: SyncWorker, table: SubscribedTable, lease: Lease) -> None:
        try:
            worker.run()
        except HeldTableError as error:
            self._note_held(error)
        except HeadwaterError as error:
            if not self._ending.is_set():
                self.error = error
                self._conflicts.count_error(error, is_of_sync=True)
                self._failed(error)
        except Exception as error:  # a thread's end must not go unnoticed
            self.error = HeadwaterError(f'copying the table "{table.namespace}.{table.name}" failed: {error!r}')
            self._failed(self.error)
        finally:
            self._settle(worker)
            lease.give_back()

    def _note_held(self, error: HeldTableError) -> None:
        """Tell once why a table is held: it is tried again, and ends nothing."""
        reason = (error.message, error.table_lsn)
        if reason not in self._held:
            self._failed(error)
        self._held.add(reason)

    def _settle(self, worker: SyncWorker) -> None:
        """Find out what became of a table: what was chosen as its worker failed may have been written, or not."""
        while not self._ending.is_set() and not worker.is_settled:
            try:
                worker.settle()
            except ServerError:
                self._ending.wait(self._request.retry_seconds)

    def _clean(self, connection: TargetConnection, subscription: Subscription) -> None:
        """Drop slots and origins of tables that need none any more, which something killed has left."""
        needed = {
            subscription.sync_name(table.oid)
            for table in self.states.tables
            if table.state not in (State.SYNCDONE, State.READY)
        }
        alive = {subscription.sync_name(oid) for oid, attempt in self._attempts.items() if attempt.thread.is_alive()}
        prefix, suffix = subscription.sync_prefix, f"_{subscription.system}"
        used = tuple(needed | alive)
        with open_source(self._request) as source:
            for name in list_slots(source, prefix, suffix):
                if not name.startswith(used):
                    drop_slot(source, name)
        for name in list_origins(connection, prefix):
            if not name.startswith(used):  # ranges have origins of their own, whose names go on
                drop_copys_origin(connection, subscription.name, name)
