"""A log of work whose windows are mirrored, with the rows that the server had at LSNs of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.landing.landing import land
from headwater.landing.landing_pass import LandingResult
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from landing.mirror_workload import SETUP, TABLES, Work
from landing.mirrors import Rows, columns_by_number, mirror_rows, read_table, server_rows

SEGMENT, ALL = 1 << 20, 1 << 30
STEPS, MOMENTS = 1500, 10

Tables = dict[str, tuple[list[int], Rows]]


@dataclass(frozen=True)
class Log:
    """A stopped server's files, and what its tables held.

    Attributes:
        backup, wal: files.
        moments: by LSN, by name, numbers of their columns, and rows.
    """

    backup: Path
    wal: Path
    moments: dict[int, Tables]

    @property
    def tables(self) -> Tables:
        """The tables at the end."""
        return self.moments[max(self.moments)]


def worked(programs: Any, place: Path, seed: int, *, ddl: bool, before: int = 0, steps: int = STEPS) -> Iterator[Log]:
    """Work on a server with so many statements, and `before` of them before its files are copied."""
    with EmbeddedPostgres(programs, autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            for statement in SETUP.split(";\n"):
                connection.execute(statement)
        work, moments = Work(server.connect, seed, ddl=ddl), {}
        work.run(before)
        server.stop()
        backup = server.copy_data_directory(place / "backup")
        server.start()
        with server.connect() as connection:
            for _ in range(MOMENTS):
                work.run(steps // MOMENTS)
                row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
                assert row is not None
                moments[int(Lsn.parse(row[0]))] = {name: server_rows(connection, name) for name in TABLES}
        server.stop()
        yield Log(backup, server.wal_directory, moments)


def landed(engine: Engine, log: Log, target: LandingTarget, window: int, **request: Any) -> LandingResult:
    asked = DecodeRequest(str(log.wal), str(log.backup), "postgres", **request)
    return land(engine, asked, target, bounds=WindowBounds(window))


def require_equal(log: Log, target: LandingTarget, lsn: int | None = None) -> None:
    """See that mirrors are what the server has had at an LSN; at the end."""
    for name in TABLES:
        numbers, rows = log.moments[max(log.moments) if lsn is None else lsn][name]
        place = target.place / f"public.{name}"
        if not place.exists():
            assert not rows
            continue
        columns = columns_by_number(place, target.format)
        held = read_table(place, target.format)
        if target.mode == "history":
            held = held.filter(as_of(lsn))
        ours = mirror_rows(held, [columns[number] for number in numbers])
        assert ours == rows, name


def as_of(lsn: int | None) -> pc.Expression:
    """Choose the versions that are there, or were at an LSN."""
    begin, end = pc.field("_valid_from_lsn"), pc.field("_valid_to_lsn")
    return end.is_null() if lsn is None else (begin < lsn) & (end.is_null() | (end >= lsn))
