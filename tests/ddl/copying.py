"""A database, its DDL as decoded from the WAL, and a copy that is made of that; both as ``pg_dump`` shows them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pipeline.ddl import PlacedDdl, open_ddl, read_ddl
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import DEFAULT_BOUNDS, WindowBounds
from packaged_servers import client_of, programs_of

Session = psycopg.Connection[Any]

_COPY = "copy"
_DUMPS = (18, 19)
"""Whose ``pg_dump`` is used of a server that has none: the first that is new enough."""


@dataclass
class Recorded:
    """A server that DDL was run on.

    Attributes:
        server: it, stopped.
        backup: of before.
    """

    server: EmbeddedPostgres
    backup: Path

    def request(self) -> DecodeRequest:
        """Make a request for all DDL since the backup."""
        return DecodeRequest(
            wal=str(self.server.wal_directory), catalog=str(self.backup), database="postgres", with_ddl=True
        )

    def events(self, bounds: WindowBounds = DEFAULT_BOUNDS) -> list[PlacedDdl]:
        """Read the events of the WAL."""
        return list(read_ddl(open_ddl(self.request()), bounds))


@contextmanager
def recorded(major: int, place: Path, work: Callable[[Session], None], **settings: str) -> Iterator[Recorded]:
    """Give a server on which work was done after a backup."""
    with EmbeddedPostgres(programs_of(major), settings=settings, autovacuum=False) as server:
        server.stop()
        backup = server.copy_data_directory(place / "backup")
        server.start()
        with server.connect() as session:
            session.execute("SET client_min_messages = error")
            work(session)
        server.stop()
        yield Recorded(server, backup)


def run_all(statements: Sequence[str]) -> Callable[[Session], None]:
    """Make work of these statements; those between BEGIN and COMMIT are a transaction."""

    def work(session: Session) -> None:
        for statement in statements:
            session.execute(statement.encode())

    return work


def copied(done: Recorded, events: Sequence[PlacedDdl], beforehand: Sequence[str] = ()) -> list[str]:
    """Repeat DDL in an empty database, and tell what differs from the first one; nothing if all is the same.

    Args:
        done: the server; runs afterwards.
        events: its DDL.
        beforehand: statements for what is not repeated.
    """
    server = done.server
    server.start()
    with server.connect() as session:
        session.execute(f"CREATE DATABASE {_COPY}".encode())
    failed = list[str]()
    with server.connect(_COPY) as session:
        session.execute("SET client_min_messages = error")
        for statement in beforehand:
            session.execute(statement.encode())
        for statement in (sql for placed in events for sql in placed.event.sql):
            try:
                session.execute(statement.encode())
            except psycopg.Error as error:
                failed.append(f"{statement}: {str(error).splitlines()[0]}")
    first, second = dump(server, "postgres"), dump(server, _COPY)
    return (
        failed
        + [f"- {line}" for line in first if line not in second]
        + [f"+ {line}" for line in second if line not in first]
        + (["order"] if first != second else [])
    )


def dump(server: EmbeddedPostgres, database: str) -> list[str]:
    """List the lines of a schema that say something."""
    client = _dump_program(server)
    command = [str(client), "--schema-only", "--no-owner", "--no-privileges", database]
    done = subprocess.run(command, env=server.client_environment(database), capture_output=True, text=True, check=True)
    comments = ("--", "\\restrict", "\\unrestrict")
    return [line for line in done.stdout.splitlines() if line and not line.startswith(comments)]


def _dump_program(server: EmbeddedPostgres) -> Path:
    """Return the server's own program: one of an older minor does not know what it keeps for itself."""
    if server.programs.has_program("pg_dump"):
        return server.programs.program("pg_dump")
    return client_of("pg_dump", next(major for major in _DUMPS if major >= server.programs.major))
