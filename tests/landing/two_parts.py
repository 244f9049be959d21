"""Work in two parts, on a server that is stopped before and behind it: a backup, the WAL, and the LSN in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn


@dataclass(frozen=True)
class Log:
    """A stopped server's files, and what its tables held.

    Attributes:
        backup, wal: files; middle: LSN between both parts of the work.
        tables: rows by table.
    """

    backup: Path
    wal: Path
    middle: int
    tables: dict[str, list[tuple[Any, ...]]]


@contextmanager
def two_parts(
    place: Path,
    setup: LiteralString,
    first: LiteralString,
    second: LiteralString,
    queries: Mapping[str, LiteralString] | None = None,
) -> Iterator[Log]:
    """Let a server work; its files are there meanwhile.

    Args:
        place: a directory.
        setup: statements before the backup; first, second: behind it.
        queries: what each table held, by name.
    """
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            _run(connection, setup)
        server.stop()
        backup = server.copy_data_directory(place / "backup")
        server.start()
        with server.connect() as connection:
            _run(connection, first)
            row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
            assert row is not None
            _run(connection, second)
            tables = {name: connection.execute(query).fetchall() for name, query in (queries or {}).items()}
        server.stop()
        yield Log(backup, server.wal_directory, int(Lsn.parse(row[0])), tables)


def _run(connection: Any, statements: str) -> None:
    for statement in filter(str.strip, statements.split(";\n")):
        connection.execute(statement)
