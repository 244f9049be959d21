"""The statements, slots and copies of data directories that the tests of windows ask of servers."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs

SLOT = "SELECT pg_create_logical_replication_slot(%s, 'test_decoding')"
SLOT_OF = "SELECT pg_create_logical_replication_slot(%s, %s)"
PEEK = "SELECT lsn::text, xid::text, data FROM pg_logical_slot_peek_changes(%s, NULL, NULL)"


def small_server(major: int, **settings: str) -> EmbeddedPostgres:
    """Make a server with segments of 1 MB and no autovacuum, not yet started."""
    programs = find_programs(major, plugin="test_decoding")
    return EmbeddedPostgres(programs, settings=settings, autovacuum=False, wal_segment_megabytes=1)


def run(server: EmbeddedPostgres, *statements: str, database: str = "postgres") -> None:
    """Run statements in one session, each as its own transaction unless they say otherwise."""
    with server.connect(database) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def value(server: EmbeddedPostgres, query: str, arguments: Sequence[Any] = ()) -> str:
    """Return the only value of a query, as text."""
    with server.connect() as connection:
        row = connection.execute(query.encode(), list(arguments)).fetchone()
    assert row is not None
    return str(row[0])


def now(server: EmbeddedPostgres) -> str:
    """Return the end of the WAL, which is flushed up to there."""
    with server.connect() as connection:
        connection.execute("SELECT pg_logical_emit_message(true, 'now', '')")
        row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert row is not None
    return str(row[0])


def make_slot(server: EmbeddedPostgres, name: str, database: str = "postgres", plugin: str = "test_decoding") -> str:
    """Make a slot; its ``confirmed_flush_lsn``."""
    with server.connect(database) as connection:
        connection.execute(SLOT_OF, [name, plugin])
    return value(server, "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", [name])


def peek(server: EmbeddedPostgres, slot: str, database: str = "postgres") -> bytes:
    """Read what test_decoding says, as ``--with-lsn`` prints it."""
    with server.connect(database) as connection:
        rows = connection.execute(PEEK, [slot]).fetchall()
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def since(lines: bytes, first: bytes) -> bytes:
    """Return whole transactions from the first on whose rows have `first` in them."""
    rows = lines.splitlines(keepends=True)
    at = next(i for i, row in enumerate(rows) if first in row)
    while b"BEGIN" not in rows[at]:
        at -= 1
    return b"".join(rows[at:])


def copy_running(server: EmbeddedPostgres, target: Path) -> Path:
    """Copy the data directory of a server that runs, file by file, without its WAL."""

    def kept_out(folder: str, names: list[str]) -> set[str]:
        return set(names) if folder.endswith("/pg_wal") else set()

    shutil.copytree(server.data_directory, target, symlinks=True, ignore=kept_out)
    return target


def copy_wal(server: EmbeddedPostgres, target: Path) -> Path:
    """Copy ``pg_wal``."""
    shutil.copytree(server.wal_directory, target)
    return target


def conninfo_of(server: EmbeddedPostgres) -> str:
    """Return the connection string of a server."""
    return " ".join(f"{name}='{word}'" for name, word in server.connection_info().items())
