"""Tables that have no columns, have none any more, or not yet: their changes land, their rows are refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import LakeError
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import FORMATS, LandingTarget
from headwater.lakes.parquet_table import read_parquet_table
from headwater.landing.landing import land
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.plugins.table_patterns import TablePatterns
from landing.mirrored_source import Source
from landing.mirrors import read_table

pytestmark = [pytest.mark.server]

NEXT_WINDOW = "SELECT pg_switch_wal()"
SETUP = [
    "CREATE TABLE bare ()",
    "INSERT INTO bare DEFAULT VALUES",
    "CREATE TABLE bare_and_empty ()",
    "CREATE TABLE stripped (a int)",
    "INSERT INTO stripped VALUES (1), (2)",
]
WORK = [
    "INSERT INTO bare DEFAULT VALUES",
    "ALTER TABLE stripped DROP a",
    NEXT_WINDOW,
    "TRUNCATE bare",
    NEXT_WINDOW,
    "ALTER TABLE bare ADD a int DEFAULT 3",
    "INSERT INTO bare VALUES (4)",
    "ALTER TABLE bare_and_empty ADD a int DEFAULT 3",
    "INSERT INTO bare_and_empty VALUES (4)",
    "ALTER TABLE stripped ADD b int DEFAULT 3",
    NEXT_WINDOW,
]
AGAIN = "ALTER TABLE stripped DROP b", "INSERT INTO stripped DEFAULT VALUES", NEXT_WINDOW


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        yield Source(server, tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def backup(source: Source) -> Path:
    return source.after(SETUP, [*WORK, *AGAIN], [])[0]


def landed(engine: Engine, source: Source, backup: Path, target: LandingTarget, *tables: str) -> None:
    """Land window by window, of a segment each; some tables or all."""
    patterns = TablePatterns(tables)
    request = DecodeRequest(str(source.server.wal_directory), str(backup), "postgres", tables=patterns)
    land(engine, request, target, bounds=WindowBounds(1 << 20))


def test_their_changes_land(engine: Engine, source: Source, backup: Path, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake")
    landed(engine, source, backup, target)
    rows = read_parquet_table(target.place / "public.bare").sort_by([("_commit_lsn", "ascending")])
    assert rows["_change_type"].to_pylist() == ["read", "insert", "truncate", "insert"]
    assert rows["a"].to_pylist() == [None, None, None, 4]


@pytest.mark.parametrize("mode", ["current", "history"])
def test_a_mirror_of_one_that_has_rows_is_refused(
    engine: Engine, source: Source, backup: Path, tmp_path: Path, mode: str
) -> None:
    with pytest.raises(LakeError, match=r'"public\.bare" has no columns, and has rows') as raised:
        landed(engine, source, backup, LandingTarget(tmp_path / "lake", mode=mode))
    assert raised.value.lsn


@pytest.mark.parametrize("format", FORMATS)
def test_a_mirror_begins_with_the_first_column_and_ends_with_the_last(
    engine: Engine, source: Source, backup: Path, tmp_path: Path, format: str
) -> None:
    """In between the rows that there are stay."""
    target = LandingTarget(tmp_path / "lake", format, mode="current")
    with pytest.raises(LakeError, match=r'"public\.stripped" has no columns, and has rows'):
        landed(engine, source, backup, target, "public.bare_and_empty", "public.stripped")
    assert read_table(target.place / "public.bare_and_empty", format).to_pydict() == {"a": [4]}
    assert read_table(target.place / "public.stripped", format)["b"].to_pylist() == [3, 3]
