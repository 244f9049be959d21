"""Columns, tables and places whose names mean something else to a library or to a format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.errors import LakeError
from headwater.jobs.engine import Engine
from headwater.lakes.iceberg_catalog import own_catalog
from headwater.lakes.landing_target import FORMATS, LandingTarget
from headwater.landing.landing import land
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.plugins.table_patterns import TablePatterns
from landing.mirrors import read_table
from landing.two_parts import Log, two_parts

pytestmark = [pytest.mark.server]

KEY = (".x", "[0]", "a.b", "y.", "*", "$.z")
QUOTED = ", ".join(f'"{name}"' for name in KEY)
VALUES = ", ".join("i" for _ in KEY)
DEFINED = ", ".join(f'"{name}" int' for name in KEY)
SETUP = f"""
CREATE TABLE columns ({DEFINED}, n int, PRIMARY KEY ({QUOTED}));
CREATE SCHEMA public_a;
CREATE SCHEMA iceberg;
CREATE TABLE a_b (id int PRIMARY KEY);
CREATE TABLE public_a.b (id int PRIMARY KEY);
CREATE TABLE iceberg.db (id int PRIMARY KEY);
"""
FIRST = f"""
INSERT INTO columns SELECT {VALUES}, i FROM generate_series(1, 9) i;
INSERT INTO a_b VALUES (1);
INSERT INTO public_a.b VALUES (2);
INSERT INTO iceberg.db VALUES (3);
"""
SECOND = 'UPDATE columns SET ".x" = -".x", n = 0 WHERE n % 3 = 0;'


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    queries = {"columns": f"SELECT {QUOTED}, n FROM columns ORDER BY 1"}
    with two_parts(tmp_path_factory.mktemp("names"), SETUP, FIRST, SECOND, queries) as written:
        yield written


def landed(
    engine: Engine, log: Log, target: LandingTarget, end: int | None = None, tables: str = "public.columns"
) -> None:
    request = DecodeRequest(str(log.wal), str(log.backup), "postgres", end=end, tables=TablePatterns.parse([tables]))
    land(engine, request, target, bounds=WindowBounds(1 << 20))


@pytest.mark.parametrize("format", FORMATS)
def test_key_columns_that_look_like_paths(engine: Engine, log: Log, tmp_path: Path, format: str) -> None:
    target = LandingTarget(tmp_path / "lake", format, mode="current")
    landed(engine, log, target, log.middle)
    landed(engine, log, target)
    held = read_table(target.place / "public.columns", format)
    assert sorted(tuple(row.values()) for row in held.to_pylist()) == log.tables["columns"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_place_that_looks_like_an_address(
    engine: Engine, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.chdir(tmp_path)
    target = LandingTarget(Path("re:lative #1 [a]*") / "lake", format, mode="current")
    landed(engine, log, target, log.middle)
    landed(engine, log, target)
    assert len(read_table(tmp_path / "re:lative #1 [a]*" / "lake" / "public.columns", format)) == 9


def test_names_that_run_together_in_a_namespace(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake", "iceberg", namespace="shop")
    match = r'tables "public(\.a_b|_a\.b)" and "public(_a\.b|\.a_b)" would both be shop\.public_a_b'
    with pytest.raises(LakeError, match=match):
        landed(engine, log, target, tables="public.a_b,public_a.b")
    with closing(own_catalog(target.place)) as catalog:
        assert catalog.list_tables("shop") == []
    landed(engine, log, replace(target, where=tmp_path / "one"), tables="public_a.b")
    landed(engine, log, replace(target, where=tmp_path / "apart", namespace=None), tables="public.a_b,public_a.b")


def test_a_table_that_is_called_as_the_catalogs_file(engine: Engine, log: Log, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r'table "iceberg\.db" would be called as a file of the catalog'):
        landed(engine, log, LandingTarget(tmp_path / "lake", "iceberg"), tables="iceberg.db")
    landed(engine, log, LandingTarget(tmp_path / "other"), tables="iceberg.db")
    assert read_table(tmp_path / "other" / "iceberg.db", "parquet")["id"].to_pylist() == [3]
