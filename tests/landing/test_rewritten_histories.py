"""Histories whose files another program has put together: versions that have ended are told apart from valid ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from headwater.jobs.engine import Engine
from headwater.lakes.iceberg_catalog import own_catalog
from headwater.lakes.landing_target import LandingTarget
from headwater.landing.landing import land
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.request import DecodeRequest
from landing.mirrors import Rows, current_files, plain, read_table

pytestmark = [pytest.mark.server]

BEHIND = {
    "cut": "TRUNCATE cut; INSERT INTO cut VALUES (4, 44)",
    "changed": "UPDATE changed SET n = n + 1 WHERE id = 1; INSERT INTO changed VALUES (4, 44)",
    "filled": "ALTER TABLE filled ADD more int DEFAULT 5",
}
"""What is done to each table, when its files have been put together."""


@dataclass(frozen=True)
class Log:
    """A server's WAL; the LSN behind the first work; what its tables hold in the end."""

    backup: Path
    wal: Path
    middle: int
    held: dict[str, Rows]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    place = tmp_path_factory.mktemp("rewritten")
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            for name in BEHIND:
                connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, n int, note text, tags text[])".encode())
                connection.execute(
                    f"INSERT INTO {name} SELECT i, i, 'x', '{{a}}' FROM generate_series(1, 4) i".encode()
                )
        server.stop()
        backup = server.copy_data_directory(place / "backup")
        server.start()
        with server.connect() as connection:
            connection.autocommit = True
            for name in BEHIND:
                connection.execute(f"UPDATE {name} SET n = 10 WHERE id = 1".encode())
                connection.execute(f"DELETE FROM {name} WHERE id = 4".encode())
            connection.execute("CHECKPOINT")
            (middle,) = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone() or ("",)
            for statement in "; ".join(BEHIND.values()).split("; "):
                connection.execute(statement.encode())
            held = {name: plain(connection.execute(f"SELECT * FROM {name}".encode()).fetchall()) for name in BEHIND}
        server.stop()
        yield Log(backup, server.wal_directory, Lsn.parse(middle), held)


def landed(engine: Engine, log: Log, target: LandingTarget, end: int | None = None) -> None:
    land(engine, DecodeRequest(str(log.wal), str(log.backup), "postgres", end=end), target)


def put_together(target: LandingTarget, name: str) -> None:
    """Put all rows of a table into one file, as Delta's OPTIMIZE or Iceberg's rewrite_data_files does."""
    place = target.place / f"public.{name}"
    if target.format == "delta":
        DeltaTable(str(place)).optimize.compact()
    else:
        with closing(own_catalog(target.place)) as catalog:
            table = catalog.load_table(("public", name))
            table.overwrite(table.scan().to_arrow())
    (file,) = current_files(place, target.format)
    ended = pq.read_table(file.removeprefix("file://"), partitioning=None)["_valid_to_lsn"]
    assert 0 < ended.null_count < len(ended)


def versions(target: LandingTarget, name: str) -> Rows:
    """Read all versions of a history's rows."""
    return plain(map(tuple, map(dict.values, read_table(target.place / f"public.{name}", target.format).to_pylist())))


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_files_that_have_both(engine: Engine, log: Log, tmp_path: Path, format: str) -> None:
    """Later versions are as where nobody has touched the files; what had ended is what it was."""
    undisturbed, target = (LandingTarget(tmp_path / name, format, mode="history") for name in ("undisturbed", "lake"))
    for lake in (undisturbed, target):
        landed(engine, log, lake, log.middle)
    for name in BEHIND:
        put_together(target, name)
    for lake in (undisturbed, target):
        landed(engine, log, lake)
    for name, held in log.held.items():
        rows = versions(target, name)
        assert rows == versions(undisturbed, name), name
        valid = Counter(row[4:] for row in rows.elements() if row[3] is None)
        assert valid == held, name
