"""One log of changes of every kind, landed as tables of changes and folded up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.landing.landing import land
from headwater.landing.landing_pass import LandingResult
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from landing.two_parts import Log, two_parts

SETUP = """
CREATE TYPE mood AS ENUM ('calm', 'glad');
CREATE TABLE orders (
    id int PRIMARY KEY, note text, total numeric(10,2), tags text[], made timestamptz, how mood, ref uuid
);
CREATE TABLE event (id int, region int, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE event_0 PARTITION OF event FOR VALUES IN (0);
CREATE TABLE event_1 PARTITION OF event FOR VALUES IN (1);
CREATE TABLE small (id smallint PRIMARY KEY, gone text, was text);
"""
FIRST = """
INSERT INTO orders
    SELECT i, repeat('x', i), i / 4.0, ARRAY[i::text, NULL], '2024-02-03 04:05:06+00', 'glad', md5(i::text)::uuid
    FROM generate_series(1, 200) i;
UPDATE orders SET note = note || '!', total = NULL WHERE id % 3 = 0;
DELETE FROM orders WHERE id % 7 = 0;
INSERT INTO event SELECT i, i % 2 FROM generate_series(1, 20) i;
INSERT INTO small VALUES (1, 'a', 'b'), (2, 'c', 'd');
"""
SECOND = """
ALTER TABLE small DROP COLUMN gone;
ALTER TABLE small RENAME was TO named;
ALTER TABLE small ADD COLUMN gone int DEFAULT 7;
ALTER TABLE small ALTER id TYPE int;
UPDATE small SET id = 70000 WHERE id = 2;
UPDATE event SET region = 1 WHERE id = 2;
ALTER TABLE event DETACH PARTITION event_0;
INSERT INTO event_0 VALUES (100, 0);
TRUNCATE event_0;
INSERT INTO event_0 VALUES (101, 0);
ALTER TABLE event ATTACH PARTITION event_0 FOR VALUES IN (0);
DELETE FROM event WHERE id = 101;
INSERT INTO event VALUES (102, 0);
UPDATE orders SET id = id + 1000 WHERE id < 10;
INSERT INTO orders (id, how) VALUES (5000, 'calm');
BEGIN;
INSERT INTO orders (id) VALUES (6000);
ROLLBACK;
TRUNCATE small;
"""

DETACHED = [("insert", 100), ("truncate", None), ("insert", 101)]
"""What lands in a partition's own table, of the time in which it was none."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    queries = {"orders": "SELECT * FROM orders ORDER BY id", "event": "SELECT * FROM event ORDER BY id"}
    with two_parts(tmp_path_factory.mktemp("landing"), SETUP, FIRST, SECOND, queries) as written:
        yield written


def landed(engine: Engine, log: Log, target: LandingTarget, **request: Any) -> LandingResult:
    asked = DecodeRequest(str(log.wal), str(log.backup), "postgres", **request)
    return land(engine, asked, target, bounds=WindowBounds(1 << 20))


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["_commit_lsn"], row["_lsn"], row["_seq"], row["_change_type"] != "update_preimage"


def folded(changes: pa.Table, key: tuple[str, ...], columns: list[str]) -> list[tuple[Any, ...]]:
    """Fold changes, given in any order, up to the rows that they lead to."""
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    records = changes.to_pylist()
    records.sort(key=_place)
    for row in records:
        if row["_change_type"] == "truncate":
            rows.clear()
            continue
        place = tuple(row[name] for name in key)
        assert not row["_unchanged"]
        if row["_change_type"] in ("delete", "update_preimage"):
            del rows[place]
        else:
            rows[place] = tuple(row[name] for name in columns)
    return [rows[place] for place in sorted(rows)]
