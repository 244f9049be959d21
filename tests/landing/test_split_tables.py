"""A table whose columns become others has another table in the lake, whatever windows and runs its changes come in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.base.overrides import override
from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError, UsageError
from headwater.jobs.engine import Engine
from headwater.lakes.lake_schema import SPLIT
from headwater.lakes.landing_target import FORMATS, LandingTarget
from headwater.lakes.target_directory import Lake
from headwater.landing.landing import land
from headwater.landing.landing_watch import CommittedTable, LandingWatch
from headwater.landing.tables.change_rows import CHANGE_FIELDS
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from landing.mirrors import read_table
from landing.two_parts import Log, two_parts

pytestmark = [pytest.mark.server]

SETUP = """
CREATE TABLE item (id int PRIMARY KEY, v int, note text);
CREATE TABLE event (id int, region int, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE event_0 PARTITION OF event FOR VALUES IN (0);
CREATE TABLE event_1 PARTITION OF event FOR VALUES IN (1);
INSERT INTO item VALUES (1, 10, 'a'), (2, 20, 'b');
"""
FIRST = """
INSERT INTO item VALUES (3, 30, 'c');
ALTER TABLE item ALTER v TYPE text USING 'v' || v;
UPDATE item SET note = 'x' WHERE id = 1;
INSERT INTO event VALUES (1, 0), (2, 1);
"""
SECOND = """
BEGIN;
INSERT INTO item VALUES (4, 'v40', 'd');
ALTER TABLE item ADD COLUMN w int;
INSERT INTO item VALUES (5, 'v50', 'e', 5);
COMMIT;
BEGIN;
ALTER TABLE item ADD COLUMN lost int;
INSERT INTO item VALUES (6, 'v60', 'f', 6, 6);
ROLLBACK;
ALTER TABLE item DROP COLUMN w;
DELETE FROM item WHERE id = 2;
TRUNCATE item;
ALTER TABLE item RENAME TO thing;
ALTER TABLE thing ALTER note TYPE varchar(9);
INSERT INTO thing VALUES (7, 'v70', 'g');
ALTER TABLE thing ADD COLUMN z int;
TRUNCATE thing;
INSERT INTO thing VALUES (8, 'v80', 'h', 8);
ALTER TABLE thing DROP COLUMN z;
ALTER TABLE thing ALTER v TYPE int USING 80;
INSERT INTO thing VALUES (9, 90, 'i');
ALTER TABLE event ADD COLUMN x int;
INSERT INTO event VALUES (3, 0, 3), (4, 1, 4);
ALTER TABLE event_1 RENAME TO event_one;
INSERT INTO event VALUES (5, 1, 5);
"""

LANDED = {
    "public.item": [
        ("read", "item", {"id": 1, "v": 10, "note": "a"}),
        ("read", "item", {"id": 2, "v": 20, "note": "b"}),
        ("insert", "item", {"id": 3, "v": 30, "note": "c"}),
        ("insert", "thing", {"id": 9, "v": 90, "note": "i"}),
    ],
    "public.item_2": [
        ("update_postimage", "item", {"id": 1, "v": "v10", "note": "x"}),
        ("insert", "item", {"id": 4, "v": "v40", "note": "d"}),
    ],
    "public.item_3": [
        ("insert", "item", {"id": 5, "v": "v50", "note": "e", "w": 5}),
        ("delete", "item", {"id": 2, "v": None, "note": None, "w": None}),
        ("truncate", "item", {"id": None, "v": None, "note": None, "w": None}),
        ("insert", "thing", {"id": 7, "v": "v70", "note": "g", "w": None}),
    ],
    "public.thing": [
        ("truncate", "thing", {"id": None, "v": None, "note": None, "z": None}),
        ("insert", "thing", {"id": 8, "v": "v80", "note": "h", "z": 8}),
    ],
    "public.event": [
        ("insert", "event_0", {"id": 1, "region": 0}),
        ("insert", "event_1", {"id": 2, "region": 1}),
    ],
    "public.event_2": [
        ("insert", "event_0", {"id": 3, "region": 0, "x": 3}),
        ("insert", "event_1", {"id": 4, "region": 1, "x": 4}),
        ("insert", "event_one", {"id": 5, "region": 1, "x": 5}),
    ],
}
"""Table by table what lands. A column that is dropped begins no table; one that is as it was goes on with its."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    with two_parts(tmp_path_factory.mktemp("split"), SETUP, FIRST, SECOND) as written:
        yield written


def landed(engine: Engine, log: Log, target: LandingTarget, window: int = 1 << 30, **request: Any) -> None:
    asked = DecodeRequest(str(log.wal), str(log.backup), "postgres", **request)
    land(engine, asked, target, bounds=WindowBounds(window))


def rows_of(target: LandingTarget) -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    """Read every table's rows, in the order of the changes."""
    with Lake(target) as lake:
        names = [name for name, _ in lake.tables.landed()]
    return {name: _rows(read_table(target.place / name, target.format)) for name in names}


def _rows(table: pa.Table) -> list[tuple[str, str, dict[str, Any]]]:
    own = {field.name for field in CHANGE_FIELDS}
    changes = sorted(table.to_pylist(), key=lambda row: (row["_commit_lsn"], row["_lsn"], row["_seq"]))
    return [
        (row["_change_type"], row["_table"], {name: value for name, value in row.items() if name not in own})
        for row in changes
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_each_table_of_the_lake_has_had_one_shape(engine: Engine, log: Log, tmp_path: Path, format: str) -> None:
    target = LandingTarget(tmp_path / "lake", format, schema_evolution=SPLIT)
    landed(engine, log, target)
    assert rows_of(target) == LANDED
    landed(engine, log, target)
    assert rows_of(target) == LANDED


@pytest.mark.parametrize("window", [1, 1 << 20])
def test_whatever_windows_and_runs_they_come_in(engine: Engine, log: Log, tmp_path: Path, window: int) -> None:
    target = LandingTarget(tmp_path / "lake", schema_evolution=SPLIT)
    landed(engine, log, target, window, end=log.middle)
    landed(engine, log, target, window)
    assert rows_of(target) == LANDED


def test_killed_behind_the_rows_that_were_there(engine: Engine, log: Log, tmp_path: Path) -> None:
    """When the window's further tables have their names already: the rows do not come a second time, into the last."""
    target = LandingTarget(tmp_path / "lake", schema_evolution=SPLIT)
    asked = DecodeRequest(str(log.wal), str(log.backup), "postgres")
    with pytest.raises(InterruptedError):
        land(engine, asked, target, bounds=WindowBounds(1 << 30), watch=EndsWithTheFirstCommit())
    own = target.place / "_headwater"
    (oid,) = [key for key, name in json.loads((own / "tables.json").read_text()).items() if name == "public.item"]
    schema = RelationSchema(int(oid), "public", "item", "r", "p", "d", (), ())
    with Lake(target) as lake:
        assert lake.tables.of_relation(schema, 0, {1: pa.string()})[0] == "public.item_2"
    landed(engine, log, target)
    assert rows_of(target) == LANDED


class EndsWithTheFirstCommit(LandingWatch):
    """A watch that ends a run with its first commit, which is that of rows that were there before."""

    @override
    def committed(self, tables: Sequence[CommittedTable], seconds: float) -> None:
        """See :class:`LandingWatch`."""
        if any(table.rows for table in tables):
            raise InterruptedError


def test_tables_that_have_followed_go_on_as_they_are(engine: Engine, log: Log, tmp_path: Path) -> None:
    """`item` has both its types by then."""
    target = LandingTarget(tmp_path / "lake")
    landed(engine, log, target, end=log.middle)
    landed(engine, log, replace(target, schema_evolution=SPLIT))
    rows = rows_of(target)
    assert [row["id"] for _, _, row in rows["public.item"]] == [1, 2, 3, 1, 4]
    assert {name: rows[name] for name in ("public.thing", "public.event", "public.event_2")} == {
        name: LANDED[name] for name in ("public.thing", "public.event", "public.event_2")
    }


def test_tables_of_a_window_that_was_not_committed(tmp_path: Path) -> None:
    """They are there and have no columns; the next run gives them to the same shapes."""
    target, schema = LandingTarget(tmp_path / "lake"), RelationSchema(16384, "public", "t", "r", "p", "d", (), ())
    shapes = [{1: type} for type in (pa.int32(), pa.string(), pa.bool_())]
    names = ["public.t", "public.t_2", "public.t_3"]
    for _ in range(2):
        with Lake(target) as lake:
            lake.registry.require_source("1/5")
            assert [lake.tables.of_relation(schema, 0, shape)[0] for shape in shapes] == names
            assert [lake.tables.of_relation(schema, 0, shape)[0] for shape in reversed(shapes)] == names[::-1]
            assert not list(lake.tables.landed())


def test_names_that_are_anothers(tmp_path: Path) -> None:
    target, schema = LandingTarget(tmp_path / "lake"), RelationSchema(16384, "public", "t", "r", "p", "d", (), ())
    with Lake(target) as lake:
        lake.registry.require_source("1/5")
        assert lake.tables.of_relation(replace(schema, oid=16400, name="t_2"), 0)[0] == "public.t_2"
        assert lake.tables.of_relation(schema, 0, {1: pa.int32()})[0] == "public.t"
        with pytest.raises(LakeError, match=r'"public\.t_2" is another table now'):
            lake.tables.of_relation(schema, 0, {1: pa.int64()})


@pytest.mark.parametrize("mode", ["current", "history"])
def test_mirrors_are_one_table(engine: Engine, log: Log, tmp_path: Path, mode: str) -> None:
    with pytest.raises(UsageError, match="a mirror is one table"):
        landed(engine, log, LandingTarget(tmp_path / "lake", mode=mode, schema_evolution=SPLIT))
