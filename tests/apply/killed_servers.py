"""A publisher and a target, each a server of its own, that are killed while one subscription is applied."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import psycopg

from apply.differential import SOURCE_DATABASE, rows_of
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import wait_until
from working_sessions import WorkingSessions

SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'headwater %' AND pid <> pg_backend_pid()"
WALSENDERS = "SELECT active_pid FROM pg_replication_slots WHERE active"


def crash(server: EmbeddedPostgres) -> None:
    """Kill a whole server, and start it again: what was not on disk is lost."""
    server.crash()
    server.start()


def kill_session(server: EmbeddedPostgres, query: str = SESSIONS) -> None:
    """Kill the processes of sessions with SIGKILL, upon which the server ends all others and recovers by itself."""
    pids = [pid for (pid,) in rows_of(server, query)]
    if not pids:
        return
    watching = server.connect()
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # Until the server has noticed, it takes sessions that it ends then.
    wait_until(lambda: has_noticed(watching, pids))
    wait_until(lambda: answers(server))


def end_session(server: EmbeddedPostgres, query: str = SESSIONS) -> None:
    """End sessions, as an administrator does."""
    for (pid,) in rows_of(server, query):
        rows_of(server, f"SELECT pg_terminate_backend({pid})")


def has_noticed(session: psycopg.Connection[Any], pids: list[int]) -> bool:
    """Tell whether the server has ended a session, as others were killed; or these have ended by themselves before."""
    there = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY (%s)"
    try:
        is_over = session.execute(there, (pids,)).fetchall() == [(0,)]
    except psycopg.Error:
        is_over = True
    if is_over:
        session.close()
    return is_over


def answers(server: EmbeddedPostgres) -> bool:
    """Tell whether a server takes sessions."""
    try:
        rows_of(server, "SELECT 1")
    except psycopg.Error:
        return False
    return True


class Writing(WorkingSessions):
    """Transactions that go on in a session, one after the other, which is opened anew where it is lost.

    Args:
        connect: opens a session; pace: seconds between two transactions.
        transaction: returns the statements of a number, together or one by one.

    Attributes:
        done: number of the last one that was committed.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        transaction: Callable[[int], str | list[str]],
        pace: float = 0.005,
    ) -> None:
        super().__init__()
        self._connect, self._transaction, self._pace = connect, transaction, pace
        self.done = 0

    def _run(self, number: int) -> None:  # noqa: ARG002 (there is one session)
        numbers = count(1)
        while not self._is_over.is_set():
            # A number whose commit was cut off may be there or not: it is not used again.
            with suppress(psycopg.OperationalError), self._connect() as session:
                for at in numbers:
                    statements = self._transaction(at)
                    for statement in [statements] if isinstance(statements, str) else statements:
                        session.execute(statement.encode())
                    self.done = at
                    if self._is_over.wait(self._pace):
                        break
            self._is_over.wait(0.05)


def source_keys(server: EmbeddedPostgres, query: str, database: str = SOURCE_DATABASE) -> list[Any]:
    """Return the first column of a query, sorted."""
    return sorted(row[0] for row in rows_of(server, query, database))
