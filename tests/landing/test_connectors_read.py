"""Tables that land without a JVM, read by the real connectors in Spark (``make test-lakes``).

A table of Iceberg is found by its metadata file, which a catalog of Spark's takes in as its own
(``CALL CATALOG.system.register_table``); one of Delta by its directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.lakes.iceberg_catalog import own_catalog
from headwater.lakes.landing_target import MERGE_ON_READ, WRITE_MODES, LandingTarget
from headwater.landing.landing import land
from headwater.landing.mirrors import deletes_beside
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from headwater.pipeline.engines import engine_of
from headwater.pipeline.requests.request import DecodeRequest
from landing.change_log import landed, log
from landing.connector_catalogs import Catalog
from landing.iceberg_lakes import ICEBERG_3, target_of
from landing.mirrored_log import Log as MirroredLog
from landing.mirrored_log import worked
from landing.mirrors import columns_by_number, has_landed, mirror_rows, read_table
from landing.two_parts import Log

__all__ = ["log"]

VECTORS = "vectors of format 3"
"""Beside the write modes: merge-on-read of Iceberg, with deletion vectors."""

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.fixture(scope="session")
def spark(connected: Any) -> Any:
    """Return the connector's session, not that of other tests."""
    return connected


@pytest.fixture(scope="module")
def mirrored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredLog]:
    yield from worked(find_programs(16), tmp_path_factory.mktemp("mirrored"), 5, ddl=request.param == "ddl")


@pytest.mark.parametrize("write_mode", [*WRITE_MODES, VECTORS])
@pytest.mark.parametrize("mirrored", ["rows", "ddl"], indirect=True)
def test_mirrors(
    spark: Any,
    catalog: Catalog,
    mirrored: MirroredLog,
    tmp_path: Path,
    write_mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deletes_beside, "_FEWEST", 0)
    form, write_mode = (ICEBERG_3, MERGE_ON_READ) if write_mode == VECTORS else (catalog.format, write_mode)
    if not form.startswith(catalog.format):
        pytest.skip("another connector's")
    target = target_of(tmp_path / "lake", form, mode="current", write_mode=write_mode, rewrite_budget=0)
    middle = sorted(mirrored.moments)[len(mirrored.moments) // 2]
    for end in (Lsn(middle), None):
        land(spark, DecodeRequest(str(mirrored.wal), str(mirrored.backup), "postgres", end=end), target)
    assert form != ICEBERG_3 or list(target.place.rglob("*.puffin"))
    for name, (numbers, rows) in mirrored.tables.items():
        place = target.place / f"public.{name}"
        if not has_landed(place, catalog.format):
            assert not rows
            continue
        columns = columns_by_number(place, catalog.format)
        assert mirror_rows(read_by_spark(spark, place), [columns[number] for number in numbers]) == rows, name


def test_change_tables(spark: Any, catalog: Catalog, log: Log, tmp_path: Path) -> None:
    """Of two windows, between which columns come, go and become wider."""
    target = LandingTarget(tmp_path / "lake", catalog.format)
    landed(engine_of(spark), log, target, end=log.middle)
    landed(engine_of(spark), log, target)
    for name in ("public.orders", "public.event", "public.small"):
        wanted = read_table(target.place / name, catalog.format)
        theirs = read_by_spark(spark, target.place / name)
        assert mirror_rows(theirs, wanted.column_names) == mirror_rows(wanted, wanted.column_names), name


def read_by_spark(spark: Any, place: Path) -> pa.Table:
    """Read a table, by its directory in the lake."""
    if (place / "_delta_log").exists():
        rows: pa.Table = spark.read.format("delta").load(str(place)).toArrow()
        return rows
    name = tuple(place.name.split(".", 1))
    with closing(own_catalog(place.parent)) as own:
        metadata = own.load_table(name).metadata_location
    namespace, table = place.parents[1].name, name[1]
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{namespace}")
    spark.sql(f"CALL lake.system.register_table(table => '{namespace}.{table}', metadata_file => '{metadata}')")
    registered: pa.Table = spark.table(f"lake.{namespace}.{table}").toArrow()
    return registered
