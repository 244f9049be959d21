"""The sessions that apply units at a time, and what looks whether one of them is in another one's way.

While a session waits for the target, that is asked whose locks it waits for. If these are a session's whose unit comes
later, or which waits for its turn, nobody would ever go on: the flight is given up then.

PostgreSQL: applyparallelworker.c (pa_launch_parallel_worker), lock.c (pg_blocking_pids).
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from headwater.apply.incoming.limits import Lease
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.parallel.turns import Turns
from headwater.apply.parallel.unit_session import Ending, Flown, UnitSession
from headwater.apply.parallel.units import Unit
from headwater.apply.progress.origin_progress import take_progress
from headwater.apply.progress.origins import ensure_origin, use_origin
from headwater.apply.streamed.parallel_origins import FIRST_OF_UNITS, parallel_origin_name
from headwater.apply.streamed.parallel_sessions import BLOCKING, Failed
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.session import open_target
from headwater.errors import ServerError, TargetError

LOOK_SECONDS = 0.3
"""How long a session waits before it is looked for whom, and between two looks."""

FEWEST = 2
"""Sessions below which nothing is applied at a time."""


class UnitSessions:
    """The sessions; a context manager.

    Args:
        request: what is asked for; main: the connection that applies everything else.
        ending: gives the statements that end a unit; failed: is told why there is no session.
    """

    def __init__(self, request: ApplyRequest, main: TargetConnection, ending: Ending, failed: Failed) -> None:
        self._request, self._main, self._ending, self._failed = request, main, ending, failed
        self._units: SimpleQueue[Flown | None] = SimpleQueue()
        self._sessions: list[UnitSession] = []
        self._watch: TargetConnection | None = None
        self._watch_lease: Lease | None = None
        self._looking = threading.Lock()
        self._looked = 0.0
        self._turns: Turns | None = None

    def __enter__(self) -> Self:
        try:
            self._open_all()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def count(self) -> int:
        """How many sessions there are."""
        return len(self._sessions)

    def launch(self, unit: Unit, turns: Turns) -> None:
        """Have a unit applied once a session is free; units are launched in their order."""
        self._turns = turns
        self._units.put((unit, turns))

    def _open_all(self) -> None:
        """Open as many sessions as there are places for; their threads begin."""
        wanted = self._request.parallel.workers
        if wanted < FEWEST or (lease := self._request.limits.connect()) is None:
            return
        self._watch_lease = lease
        try:
            while len(self._sessions) < wanted and (lease := self._request.limits.connect()) is not None:
                self._open(len(self._sessions) + 1, lease)
        except ServerError as error:
            self._failed(error)
        if len(self._sessions) < FEWEST:
            self._close()
        for session in self._sessions:
            session.thread.start()

    def _open(self, number: int, lease: Lease) -> None:
        try:
            connection = self._connection(number)
        except BaseException:
            lease.give_back()
            raise
        ends = lambda: self._main.ends()  # noqa: E731 (it is set later)
        self._sessions.append(UnitSession(connection, lease, self._units, self._ending, ends, self._look))

    def _connection(self, number: int) -> TargetConnection:
        request = self._request
        name = f"headwater apply {request.subscription} unit {number}"
        connection, _ = open_target(request.target, name, request.synchronous_commit)
        try:
            origin = ensure_origin(connection, parallel_origin_name(request.subscription, FIRST_OF_UNITS + number))
            use_origin(connection, origin)
            take_progress(connection, origin.name)
            # Not all systems can look whether the client is there still.
            with suppress(ServerError):
                connection.rows("SELECT pg_catalog.set_config('client_connection_check_interval', '1s', false)")
        except BaseException:
            connection.close()
            raise
        return connection

    def _look(self, session: UnitSession) -> None:
        """Give a flight up that would not go on by itself."""
        with self._looking:
            unit, turns = session.unit, session.turns
            if unit is None or turns is None or turns.is_given_up or time.monotonic() < self._looked + LOOK_SECONDS:
                return
            others = self._at_work(session)
            blocking = self._blocking(session.connection) if others else set()
            self._looked = time.monotonic()
            if any(pid in blocking and number > unit.number for pid, number in others.items()):
                turns.give_up(TargetError("sessions wait for each other", sqlstate="40P01"))

    def _at_work(self, session: UnitSession) -> dict[int, int]:
        """Return what the other sessions apply now: numbers of units by the processes of the server's."""
        others = ((other.connection.backend_pid, other.unit) for other in self._sessions if other is not session)
        return {pid: unit.number for pid, unit in others if unit is not None}

    def _blocking(self, connection: TargetConnection) -> set[int]:
        if self._watch is None:
            self._watch = TargetConnection(self._request.target, f"headwater apply {self._request.subscription} watch")
        rows = self._watch.rows(BLOCKING, (str(connection.backend_pid),))
        return {int(str(pid)) for (pid,) in rows}

    def _close(self) -> None:
        """End all sessions; what is not committed is rolled back."""
        if self._turns is not None:
            self._turns.give_up(None)
        started = [session for session in self._sessions if session.thread.ident is not None]
        for _ in started:
            self._units.put(None)
        for session in started:
            session.thread.join()
        for session in self._sessions:
            session.connection.close()
            session.lease.give_back()
        self._sessions.clear()
        if self._watch is not None:
            self._watch.close()
        if self._watch_lease is not None:
            self._watch_lease.give_back()
