"""jsonb that lands as VARIANT, by the real connectors' writers (``make test-lakes``)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import LakeError
from headwater.lakes.landing_target import LandingTarget
from headwater.pipeline.engines import engine_of
from landing.change_log import landed
from landing.connector_catalogs import Catalog, sql_name
from landing.two_parts import two_parts

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.timeout(900)]

SETUP = """
CREATE TABLE doc (id int PRIMARY KEY, v jsonb);
CREATE TABLE late (id int PRIMARY KEY);
INSERT INTO doc VALUES (1, '{"there": ["before", 1, 2.5, null]}'), (2, NULL);
"""
FIRST = """
INSERT INTO doc VALUES (3, '"text"'), (4, '{}');
UPDATE doc SET v = v || '{"more": true}' WHERE id = 4;
INSERT INTO late VALUES (1);
"""
SECOND = """
ALTER TABLE doc ADD COLUMN l jsonb[];
INSERT INTO doc VALUES (5, '7', ARRAY['{"a": 1}', NULL, '[2]']::jsonb[]);
ALTER TABLE late ADD COLUMN v jsonb;
INSERT INTO late VALUES (2, '{"x": "y"}');
"""
QUERIES = {"doc": "SELECT id, v, l FROM doc ORDER BY id", "late": "SELECT id, v FROM late ORDER BY id"}


@pytest.fixture(scope="session")
def spark(connected: Any) -> Any:
    """Return the connector's session, not that of other tests."""
    return connected


def test_what_the_server_has(spark: Any, catalog: Catalog, tmp_path: Path) -> None:
    """Also in rows that were there before, in columns that come later, and in lists."""
    with two_parts(tmp_path, SETUP, FIRST, SECOND, QUERIES) as log:
        target = replace(catalog.target(tmp_path / "lake", "variants"), jsonb="variant")
        landed(engine_of(spark), log, target, end=log.middle)
        landed(engine_of(spark), log, target)
        doc, late = (sql_name(target, f"public.{name}") for name in QUERIES)
        assert {row.data_type for row in spark.sql(f"DESCRIBE {doc}").collect() if row.col_name == "v"} == {"variant"}
        shown = "id, to_json(v), transform(l, one -> to_json(one))"
        newest = "NOT (id = 4 AND _change_type <> 'update_postimage')"
        assert rows(spark, f"SELECT {shown} FROM {doc} WHERE {newest} ORDER BY id") == log.tables["doc"]
        assert rows(spark, f"SELECT id, to_json(v) FROM {late} ORDER BY id") == log.tables["late"]
        with pytest.raises(LakeError, match="jsonb variant, not string"):
            landed(engine_of(spark), log, replace(target, jsonb="string"))
        with pytest.raises(LakeError, match="only Spark's own writers keep jsonb as VARIANT"):
            landed(engine_of(spark), log, LandingTarget(tmp_path / "other", jsonb="variant"))


def rows(spark: Any, query: str) -> list[tuple[Any, ...]]:
    """Read rows whose texts, alone and in lists, are JSON."""

    def read(value: Any) -> Any:
        if isinstance(value, list):
            return [read(element) for element in value]
        return json.loads(value) if isinstance(value, str) else value

    return [tuple(map(read, row)) for row in spark.sql(query).collect()]
