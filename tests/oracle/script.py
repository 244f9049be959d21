"""Runs the scripts of :mod:`oracle.scenarios` against a server."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from oracle.streams import parse_lsn
from oracle.xid_wrap import spend

LINE = re.compile(r"^([a-z])(?:@(\w+))?([&.]?)\| ?(.*)$")
WAITING_SLOTS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%%_slot%%'"


@dataclass
class ScriptRun:
    """The sessions of one script.

    Args:
        server: where it runs.
        schema: name of the schema its sessions work in.
        make_slots: makes the slots, for scripts that say when; called in a thread, as it waits for transactions.
        take: takes from slots what there is.
        before_rollback: called before anything is rolled back.
        marks: where the log was at the script's marks.
    """

    server: EmbeddedPostgres
    schema: str
    make_slots: Callable[[], None] | None = None
    take: Callable[[], None] | None = None
    before_rollback: Callable[[], object] | None = None
    connections: dict[str, psycopg.Connection[Any]] = field(default_factory=dict)
    waiting: dict[str, threading.Thread] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)

    def run(self, script: str) -> None:
        """Run all lines.

        Raises:
            psycopg.Error: a statement failed.
        """
        for session, database, mode, statement in _lines(script):
            if session == "!":
                self._command(statement)
            elif mode == ".":
                self._join(session)
            else:
                self._execute(session, database, statement, waits=mode == "&")

    def close(self) -> None:
        """Close all sessions; what is open aborts."""
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()

    def _execute(self, session: str, database: str | None, statement: str, *, waits: bool) -> None:
        connection = self._connection(session, database)
        if self.before_rollback is not None and statement.startswith("ROLLBACK"):
            self.before_rollback()
        if not waits:
            connection.execute(statement.encode())
            return
        self._start(session, lambda: connection.execute(statement.encode()))
        self._await_lock(session, connection.info.backend_pid)

    def _await_lock(self, session: str, pid: int) -> None:
        """Wait until a started statement waits for a lock, or has ended without."""
        with self.server.connect() as watching:
            query = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
            while self.waiting[session].is_alive() and watching.execute(query, [pid]).fetchone() != (True,):
                watching.execute("SELECT pg_sleep(0.005)")

    def _start(self, name: str, action: Callable[[], object]) -> None:
        def attempt() -> None:
            try:
                action()
            except BaseException as error:
                self.failures.append(error)

        self.waiting[name] = threading.Thread(target=attempt)
        self.waiting[name].start()

    def _join(self, name: str) -> None:
        self.waiting.pop(name).join()
        if self.failures:
            raise self.failures[0]

    def _connection(self, session: str, database: str | None) -> psycopg.Connection[Any]:
        if session not in self.connections:
            connection = self.server.connect(database or "postgres")
            connection.execute("SET statement_timeout = '30s'")
            if database is None:
                connection.execute(f"SET search_path = {self.schema}, public".encode())
            self.connections[session] = connection
        return self.connections[session]

    def _command(self, command: str) -> None:
        if command in ("!restart", "!crash"):
            self.server.stop() if command == "!restart" else self.server.crash()
            self.close()
            self.server.start()
        elif command == "!slot":
            assert self.make_slots is not None
            self._start("slot", self.make_slots)
            with self.server.connect() as connection:
                while (connection.execute(WAITING_SLOTS).fetchone() or (0,))[0] == 0:
                    connection.execute("SELECT pg_sleep(0.01)")
        elif command == "!slot-ready":
            self._join("slot")
        elif command == "!get":
            assert self.take is not None
            self.take()
        elif command == "!mark":
            with self.server.connect() as connection:
                (lsn,) = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone() or ("",)
            self.marks.append(parse_lsn(lsn))
        elif command.startswith("!spend "):
            spend(self.server, int(command.removeprefix("!spend ")))
        else:
            raise ValueError(f"unknown command {command}")


def _lines(script: str) -> Iterator[tuple[str, str | None, str, str]]:
    """Give (session, database, mode, statement); ("!", None, "", command) for commands."""
    joined: list[str] = []
    for line in script.strip("\n").splitlines():
        if LINE.match(line) or line.startswith("!"):
            joined.append(line)
        else:
            joined[-1] += "\n" + line
    for line in joined:
        if line.startswith("!"):
            yield "!", None, "", line
            continue
        first, _, rest = line.partition("\n")
        match = LINE.match(first)
        assert match is not None
        yield match[1], match[2], match[3], f"{match[4]}\n{rest}".strip()
