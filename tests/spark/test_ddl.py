"""DDL among rows of changes, in its place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddl.copying import recorded, run_all
from headwater.errors import HeadwaterWarning, UsageError
from headwater.pipeline.slot_moves import begin
from headwater.slots.kept_state import KeptState
from headwater.source.data_source import HeadwaterDataSource
from headwater.source.options import SourceOptions
from headwater.source.source_plan import open_source, rows_of_changes

pytestmark = [pytest.mark.server, pytest.mark.spark]

STATEMENTS = (
    "CREATE TYPE mood AS ENUM ('ok')",
    "BEGIN",
    "CREATE TABLE t (a int)",
    "INSERT INTO t VALUES (1)",
    "ALTER TABLE t ADD b int DEFAULT 2",
    "INSERT INTO t VALUES (3, 4)",
    "TRUNCATE t",
    "COMMIT",
    "BEGIN",
    "CREATE TABLE taken_back (a int)",
    "ROLLBACK",
    "INSERT INTO t VALUES (5)",
    "ALTER TABLE t RENAME TO u",
)


def test_rows_of_ddl_stand_among_changes(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(HeadwaterDataSource)
    with recorded(16, tmp_path, run_all(STATEMENTS)) as done:
        options = {"path": str(done.server.wal_directory), "catalog": str(done.backup), "database": "postgres"}
        frame = spark.read.format("headwater").options(**options).load()
        rows = frame.orderBy("_commit_lsn", "_lsn", "_seq").collect()
        changes = [(row._op, row._table, json.loads(row._ddl)["sql"] if row._ddl else row._after) for row in rows]
        plain = spark.read.format("headwater").options(**options, ddl="false").load()
        assert plain.count() == 4
        assert "_ddl" not in plain.columns
    assert changes == [
        ("ddl", None, ["CREATE TYPE public.mood AS ENUM ('ok')"]),
        ("ddl", "t", ["CREATE TABLE public.t (a integer)"]),
        ("insert", "t", {"a": "1"}),
        ("ddl", "t", ["ALTER TABLE public.t ADD COLUMN b integer DEFAULT 2"]),
        ("insert", "t", {"a": "3", "b": "4"}),
        ("truncate", "t", None),
        ("insert", "t", {"a": "5", "b": "2"}),
        ("ddl", "u", ["ALTER TABLE public.t RENAME TO u"]),
    ]


def test_a_catalog_without_definitions_leaves_the_column_empty(tmp_path: Path) -> None:
    with recorded(16, tmp_path, run_all(STATEMENTS)) as done:
        without = begin(replace(done.request(), with_ddl=False))
        assert without.state is not None
        kept_state = KeptState(without.state, without.server_settings)
        options = {"path": str(done.server.wal_directory), "catalog": str(done.backup), "database": "postgres"}
        asked = SourceOptions.parse(options)
        with pytest.warns(HeadwaterWarning, match="no DDL is among the rows"):
            opened = open_source(asked, kept_state=kept_state)
        assert not opened.plugin.traits.wants_ddl
        assert rows_of_changes(asked.request).has_ddl
        with pytest.raises(UsageError, match="does not have the definitions"):
            open_source(SourceOptions.parse({**options, "ddl": "true"}), kept_state=kept_state)


@pytest.mark.parametrize(
    "options",
    [{"plugin": "pgoutput"}, {"tables": "public.t"}, {"pushFilters": "true"}, {"twoPhase": "true"}, {"ddl": "false"}],
)
def test_where_ddl_is_not_told_of_itself(options: dict[str, str]) -> None:
    assert not SourceOptions.parse({"path": "/wal", "catalog": "/backup", **options}).request.with_ddl


@pytest.mark.parametrize("options", [{}, {"tables": "public.*"}, {"tables": "public.t", "images": "true"}])
def test_where_ddl_is_told_of_itself(options: dict[str, str]) -> None:
    assert SourceOptions.parse({"path": "/wal", "catalog": "/backup", **options}).request.with_ddl


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("plugin", "pgoutput", "ddl is an option of rows"),
        ("tables", "public.t", "have no place for DDL"),
        ("slot", "/nowhere", "cannot be given with slot"),
        ("pushFilters", "true", "with pushFilters"),
    ],
)
def test_where_ddl_cannot_be_had(option: str, value: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SourceOptions.parse({"path": "/wal", "catalog": "/backup", "ddl": "true", option: value})
