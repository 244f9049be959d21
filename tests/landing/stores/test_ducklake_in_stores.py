"""DuckLake with its rows in a store, its catalog elsewhere: as DuckDB reads it there, what lands in a directory."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from bad_input.running_command import running
from headwater.errors import LakeError
from headwater.lakes.as_of_view import read_as_of, tables_of
from headwater.lakes.compaction import compact
from headwater.lakes.landing_target import COPY_ON_WRITE, MERGE_ON_READ, LandingTarget
from headwater.lakes.target_directory import Lake
from headwater.landing.landing_modes import CHANGELOG, CURRENT, HISTORY
from landing.ducklake_lakes import attached, duckdb_with_extensions, extension
from landing.stores.proxy import KILL, KILL_BEHIND, StoreProxy
from landing.stores.server import LakeStore
from landing.stores.targets import place
from landing.work import Work

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1800)]

KINDS = [("sqlite", CHANGELOG, COPY_ON_WRITE), ("duckdb", CURRENT, MERGE_ON_READ), ("sqlite", HISTORY, COPY_ON_WRITE)]


@contextmanager
def read_in(store: LakeStore, catalog: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Attach a DuckLake whose files are in the store."""
    duckdb_with_extensions().execute(f"LOAD '{extension('httpfs')}'")
    duckdb_with_extensions().execute(
        f"CREATE OR REPLACE SECRET (TYPE s3, KEY_ID '{store.key}', SECRET '{store.secret}', "
        f"ENDPOINT '{store.endpoint.partition('://')[2]}', URL_STYLE 'path', USE_SSL false)"
    )
    with attached(catalog) as connection:
        yield connection


def rows_in(store: LakeStore, target: LandingTarget, name: str, version: int | None = None) -> pa.Table | None:
    """Read a table; None for one that is not there."""
    assert target.ducklake_catalog is not None
    at = "" if version is None else f" AT (VERSION => {version})"
    with read_in(store, target.ducklake_catalog) as connection:
        try:
            read: pa.Table = connection.execute(f"SELECT * FROM lake.{name}{at}").to_arrow_table()
        except duckdb.CatalogException:
            return None
        return read


@pytest.mark.parametrize(("kind", "mode", "write_mode"), KINDS)
def test_the_same_rows_as_in_a_directory(
    work: Work, store: LakeStore, tmp_path: Path, kind: str, mode: str, write_mode: str
) -> None:
    where, catalog = place(store, f"ducklake-{mode}"), f"{kind}:{tmp_path / 'catalog.db'}"
    target = LandingTarget(where, "ducklake", mode=mode, write_mode=write_mode, ducklake_catalog=catalog)
    work.land(work.engine, target)
    reader = lambda target, name: rows_in(store, target, name)  # noqa: E731
    work.check_whole(target, reader)
    before = read_as_of(where)
    shown = {view.name: view.size.rows for view in tables_of(where, before)}
    assert shown == {name: len(rows) for name, rows in work.whole(mode).items()}
    assert not work.land(work.engine, target).rows, "nothing is left"
    if mode == CHANGELOG:
        assert {table.name for table in compact(where)} >= {"public.a", "public.b"}
        work.check_whole(target, reader)
        then = rows_in(store, target, "public.a", before.tables["public.a"])
        assert then is not None
        assert len(then) == shown["public.a"]
    with Lake(LandingTarget.at(where)) as lake:
        assert not sum(table.files for table in lake.expire(datetime.now(UTC) - timedelta(days=1)).values())
        assert sum(table.files for table in lake.expire(datetime.now(UTC) + timedelta(seconds=5)).values())
    work.check_whole(target, reader)


@pytest.mark.usefixtures("signed")
def test_killed_at_requests_that_write(work: Work, store: LakeStore, proxy: StoreProxy, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng, kills, status = random.Random(seed), 0, -signal.SIGKILL
    where, catalog = place(store, f"killed-ducklake-{seed}"), f"sqlite:{tmp_path / 'catalog.db'}"
    target = LandingTarget(where, "ducklake", mode=CURRENT, write_mode=MERGE_ON_READ, ducklake_catalog=catalog)
    flags = ["--storage-option", f"endpoint_url={proxy.endpoint}", "--ducklake-catalog", catalog]
    while status:
        proxy.nth_write(rng.randint(1, 60) if kills < 4 else 1 << 30, rng.choice((KILL, KILL_BEHIND)))
        with running(*work.arguments(target), *flags, directory=tmp_path) as process:
            proxy.kill = partial(os.kill, process.process.pid, signal.SIGKILL)
            output = process.standard_error()
            status = process.process.wait()
        assert status in (0, -signal.SIGKILL), output
        kills += status != 0
        if (tmp_path / "catalog.db").exists():
            work.check_so_far(target, lambda target, name: rows_in(store, target, name))
    work.check_whole(target, lambda target, name: rows_in(store, target, name))


def test_the_catalog_is_elsewhere(work: Work, store: LakeStore) -> None:
    with pytest.raises(LakeError, match="the catalog of SQLite that a directory has cannot be in a store yet"):
        work.land(work.engine, LandingTarget(place(store, "own"), "ducklake"))
