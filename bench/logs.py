"""Logs that figures are measured on: a server writes one, and is then stopped or goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import bundled_programs
from results import Sitting
from server_runs import SETTINGS, make_slot, one_row
from workloads import Workload

INSERT_LSN = "SELECT pg_current_wal_insert_lsn()::text"


@dataclass(frozen=True)
class Log:
    """A workload's log.

    Attributes:
        backup: a copy from before; wal: the log; start, end: LSNs between which the workload lies.
        changes: how many it has.
        directory: for what is written.
    """

    backup: Path
    wal: Path
    start: str
    end: str
    changes: int
    directory: Path


@contextmanager
def bench_server(settings: Mapping[str, str] | None = None) -> Iterator[EmbeddedPostgres]:
    """Run a server with memory enough, without autovacuum."""
    with EmbeddedPostgres(
        bundled_programs(16), settings={**SETTINGS, "autovacuum": "off", **(settings or {})}, autovacuum=False
    ) as server:
        yield server


@contextmanager
def written(workload: Workload, sitting: Sitting) -> Iterator[tuple[EmbeddedPostgres, Log]]:
    """Run a workload on a server; give the server, still running, and its log, with the slot ``bench`` at its start."""
    changes = sitting.changes or workload.changes
    with bench_server() as server:
        with sitting.console.status(f"{workload.about}: write the WAL"):
            start, backup = prepare(server, workload, sitting.directory)
            workload.run(server, changes)
            with server.connect() as connection:
                end = str(one_row(connection, INSERT_LSN)[0])
        yield server, Log(backup, server.wal_directory, start, end, changes, sitting.directory)


def prepare(server: EmbeddedPostgres, workload: Workload, directory: Path) -> tuple[str, Path]:
    """Make a workload's tables, and a copy of the server; where its slot begins."""
    workload.prepare(server)
    with server.connect() as connection:
        connection.execute(f"CREATE PUBLICATION everything {workload.published}".encode())
    backup = copied(server, directory / workload.name)
    return make_slot(server), backup


def copied(server: EmbeddedPostgres, place: Path) -> Path:
    """Copy a server as it is, for which it is stopped and started."""
    server.stop()
    backup = server.copy_data_directory(place)
    server.start()
    return backup


def write_until(
    server: EmbeddedPostgres, targets: Sequence[int], step: Callable[[psycopg.Connection[Any]], None]
) -> list[str]:
    """Write until there is so much WAL.

    Args:
        server: writes it.
        targets: bytes from here on, growing.
        step: writes some.

    Returns:
        the LSN at each target.
    """
    ends = []
    with server.connect() as connection:
        start = one_row(connection, INSERT_LSN)[0]
        for target in targets:
            so_far = f"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{start}')"
            while one_row(connection, so_far)[0] < target:
                step(connection)
            ends.append(str(one_row(connection, INSERT_LSN)[0]))
    return ends
