"""A server whose statements, window by window, are mirrored and compared with its tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import LakeError
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.landing.landing import land
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from landing.mirrors import Rows, columns_by_number, mirror_rows, read_table, server_rows

Statements = list[str]
NEXT_WINDOW = "SELECT pg_switch_wal()"
"""Windows of the tests are segments."""


class Source:
    """A server that tests do their work on, one after the other, each from a backup of its own on."""

    def __init__(self, server: EmbeddedPostgres, place: Path) -> None:
        self.server, self.place, self.runs = server, place, 0

    def after(self, setup: Statements, work: Statements, tables: Statements) -> tuple[Path, dict[str, Any]]:
        """Take a backup after the setup; return it, and what tables hold after the work."""
        with self.server.connect() as connection:
            for statement in setup:
                connection.execute(statement)
        self.server.stop()
        self.runs += 1
        backup = self.server.copy_data_directory(self.place / str(self.runs))
        self.server.start()
        with self.server.connect() as connection:
            connection.autocommit = True
            for statement in work:
                connection.execute(statement)
            held = {table: server_rows(connection, table) for table in tables}
            connection.execute("CHECKPOINT")
        self.server.stop()
        self.server.start()
        return backup, held


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        yield Source(server, tmp_path_factory.mktemp("definitions"))


class Mirrored:
    """The mirrors that a run lands, in windows of one segment."""

    def __init__(self, engine: Engine, source: Source, lake: Path, mode: str = "current") -> None:
        self.engine, self.source, self.target = engine, source, LandingTarget(lake, mode=mode)

    def require(self, setup: Statements, work: Statements, table: str) -> None:
        """See that a table's mirror is what the server has."""
        backup, held = self.source.after(setup, work, [table])
        self.land(backup)
        assert self.rows(table, held[table][0]) == held[table][1]

    def refused(self, setup: Statements, work: Statements) -> str:
        """Return the error that landing ends with."""
        return str(self.error(setup, work))

    def error(self, setup: Statements, work: Statements) -> LakeError:
        """See :meth:`refused`."""
        backup, _ = self.source.after(setup, work, [])
        with pytest.raises(LakeError) as raised:
            self.land(backup)
        return raised.value

    def land(self, backup: Path) -> None:
        request = DecodeRequest(str(self.source.server.wal_directory), str(backup), "postgres")
        land(self.engine, request, self.target, bounds=WindowBounds(1 << 20))

    def rows(self, table: str, numbers: list[int]) -> Rows:
        place = self.target.place / f"public.{table}"
        names = columns_by_number(place, self.target.format)
        return mirror_rows(read_table(place, self.target.format), [names[number] for number in numbers])
