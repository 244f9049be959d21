"""Changes landed in tables: folded up they are what the server has, whatever windows and runs they came in."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from arrow_types import Order
from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeConflictError, LakeError, UsageError
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import FORMATS, LandingTarget
from headwater.lakes.parquet_table import read_parquet_table
from headwater.lakes.target_directory import Lake
from headwater.landing.landing import land
from headwater.pipeline.engines import engine_of
from headwater.pipeline.requests.request import DecodeRequest
from headwater.plugins.table_patterns import TablePatterns
from landing.change_log import DETACHED, folded, landed, log
from landing.mirrors import read_table
from landing.two_parts import Log

__all__ = ["log"]

pytestmark = [pytest.mark.server, pytest.mark.spark]


@pytest.mark.parametrize("format", FORMATS)
def test_changes_folded_up_are_what_the_server_has(engine: Engine, log: Log, tmp_path: Path, format: str) -> None:
    target, tables = LandingTarget(tmp_path / "lake", format), TablePatterns.parse(["public.orders,public.event*"])
    first = landed(engine, log, target, end=log.middle, tables=tables)
    assert first.rows == {"public.event": 20, "public.orders": 200 + 66 + 28}
    second = landed(engine, log, target, tables=tables)
    again = landed(engine, log, target, tables=tables)
    assert (again.rows, again.files) == ({}, 0)
    assert second.resolved_lsn is not None
    read = partial(read_table, format=format)
    orders = read(target.place / "public.orders")
    columns = ["id", "note", "total", "tags", "made", "how", "ref"]
    assert orders.schema.field("total").type == pa.decimal128(10, 2)
    expected = [
        tuple(str(value) if isinstance(value, UUID) else value for value in row) for row in log.tables["orders"]
    ]
    ours = [
        tuple(str(value) if isinstance(value, UUID) else value for value in row)
        for row in folded(orders, ("id",), columns)
    ]
    assert ours == expected
    assert orders.schema.field("ref").type == (pa.string() if format == "delta" else pa.uuid())
    event = read(target.place / "public.event")
    assert set(event["_table"].to_pylist()) == {"event_0", "event_1"}
    assert {102} <= set(event["id"].to_pylist())
    assert not {100} & set(event["id"].to_pylist())
    detached = read(target.place / "public.event_0")
    assert [(row["_change_type"], row["id"]) for row in detached.to_pylist()] == DETACHED


def test_columns_follow_the_sources_by_number(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake")
    landed(engine, log, target, end=log.middle)
    landed(engine, log, target)
    small = read_parquet_table(target.place / "public.small")
    (truncate,) = [row for row in small.to_pylist() if row["_change_type"] == "truncate"]
    assert (truncate["_table"], truncate["id"]) == ("small", None)
    before = small.filter(pc.field("_change_type") != "truncate")
    assert folded(before, ("id",), ["id", "was", "gone_2"]) == [(1, "b", None), (70000, "d", 7)]
    assert folded(small, ("id",), ["id"]) == []
    assert {value for value in small["gone"].to_pylist() if value is not None} == {"a", "c"}
    assert small.schema.field("id").type == pa.int32()


def test_a_wider_column_of_a_delta_table_is_a_new_one(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake", "delta")
    landed(engine, log, target, end=log.middle)
    landed(engine, log, target)
    small = read_table(target.place / "public.small", "delta")
    assert (small.schema.field("id").type, small.schema.field("id_2").type) == (pa.int16(), pa.int32())
    before = small.filter(pc.field("_change_type") != "truncate").to_pylist()
    rows = [{**row, "id": row["id"] if row["id_2"] is None else row["id_2"]} for row in before]
    assert folded(pa.Table.from_pylist(rows), ("id",), ["id", "was"]) == [(1, "b"), (70000, "d")]


def test_one_window_has_the_same_rows(engine: Engine, log: Log, tmp_path: Path) -> None:
    whole, parts = LandingTarget(tmp_path / "whole"), LandingTarget(tmp_path / "parts")
    land(engine, DecodeRequest(str(log.wal), str(log.backup), "postgres"), whole)
    landed(engine, log, parts)
    order: Order = [(name, "ascending") for name in ("_commit_lsn", "_lsn", "_seq", "_change_type")]
    for name in ("public.orders", "public.event", "public.small"):
        single, many = (read_parquet_table(target.place / name).sort_by(order) for target in (whole, parts))
        shared = [column for column in single.column_names if column in many.column_names]
        assert single.select(shared).equals(many.select(shared).cast(single.select(shared).schema))


def test_each_change_lands_in_one_table(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake")
    landed(engine_of(spark), log, target)
    places: list[tuple[int, int, int, str]] = []
    for place in target.place.glob("public.*"):
        rows = read_parquet_table(place).filter(pc.field("_change_type") != "update_preimage").to_pylist()
        places += [(row["_commit_lsn"], row["_lsn"], row["_seq"], row["_table"]) for row in rows]
    options = {"path": str(log.wal), "catalog": str(log.backup), "database": "postgres", "ddl": "false"}
    frame = spark.read.format("headwater").options(**options).load().toArrow().to_pylist()
    wanted = [(row["_commit_lsn"], row["_lsn"], row["_seq"], row["_table"]) for row in frame]
    assert len(wanted) > 300
    assert sorted(places) == sorted(wanted)


def test_a_target_is_of_one_database_and_one_format(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake")
    landed(engine, log, target, end=log.middle)
    with pytest.raises(UsageError, match='the state is of database "postgres", not of "template1"'):
        land(engine, DecodeRequest(str(log.wal), str(log.backup), "template1"), target)
    with pytest.raises(LakeError, match="the tables have format parquet, not delta"):
        landed(engine, log, replace(target, format="delta"))


def test_two_that_land(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake")
    with Lake(target), pytest.raises(LakeConflictError, match="another process lands there"):
        landed(engine, log, target)


def test_a_state_that_is_lost(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake")
    landed(engine, log, target, end=log.middle)
    lost = target.place / "_headwater" / "states"
    for path in lost.glob("*.state"):
        path.unlink()
    landed(engine, log, target)  # from the backup on, which has everything
    rows = read_parquet_table(target.place / "public.orders").to_pylist()
    places = [(row["_commit_lsn"], row["_lsn"], row["_seq"], row["_change_type"]) for row in rows]
    assert len(places) == len(set(places)) > 200
    (oid,) = [oid for oid, name in names_of(target).items() if name == "public.orders"]
    with Lake(target) as lake, pytest.raises(LakeError, match="what is between may be missing"):
        lake.tables.of_relation(make_schema(oid), 1 << 62)


def names_of(target: LandingTarget) -> dict[int, str]:
    names = json.loads((target.place / "_headwater" / "tables.json").read_text())
    return {int(oid): name for oid, name in names.items()}


def make_schema(oid: int) -> RelationSchema:
    return RelationSchema(oid, "public", "orders", "r", "p", "d", (), ())


def test_other_columns_can_be_refused(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake", schema_evolution="fail")
    landed(engine, log, target, end=log.middle)
    with pytest.raises(LakeError, match=r"table public\.small has other columns than in the lake: gone is dropped"):
        landed(engine, log, target)


def test_a_truncate_is_landed_though_nothing_else_is(engine: Engine, log: Log, tmp_path: Path) -> None:
    """Each window is a segment: the table's rows are in another one than its truncate."""
    target = LandingTarget(tmp_path / "lake", snapshot="never")
    landed(engine, log, target, start=log.middle)
    small = read_parquet_table(target.place / "public.small")
    assert small["_change_type"].to_pylist() == ["update_preimage", "update_postimage", "truncate"]


def test_what_changes_are(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake")
    landed(engine, log, target, end=log.middle)
    rows = read_parquet_table(target.place / "public.orders").to_pylist()
    (inserted,) = [row for row in rows if row["id"] == 4]
    made = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
    values = {"note": "xxxx", "total": Decimal("1.00"), "tags": ["4", None], "made": made, "how": "glad"}
    assert {name: inserted[name] for name in values} == values
    assert (inserted["_change_type"], inserted["_table"], inserted["_is_key"], inserted["_unchanged"]) == (
        "insert",
        "orders",
        False,
        [],
    )
    deleted = [row for row in rows if row["_change_type"] == "delete"]
    assert {row["_is_key"] for row in deleted} == {True}
    assert {row["note"] for row in deleted} == {None}
