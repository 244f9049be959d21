"""debezium: the same changes through Debezium's own connector, in a Java process (``make test-peers``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from arrow_types import values_of
from headwater import DecodeRequest, decode
from headwater.catalog.relation import Column, TypeInfo
from headwater.demo.stream_comparison import joined
from headwater.jobs.engine import Engine
from headwater.local_servers.server_programs import ServerPrograms, find_programs
from headwater.plugins.debezium._values import put_value
from headwater.plugins.debezium.column_types import Forms, field_schema
from headwater.plugins.debezium.options import DebeziumOptions
from oracle.decoded_run import kept_on_failure
from oracle.folding import folded, one_window
from packaged_servers import is_packaged
from peers.comparison import difference, of_connector, of_ours, with_start
from peers.connector import (
    DATABASE,
    END,
    PREFIX,
    WAYS,
    PeerRun,
    run_peer,
    run_tables,
    statements,
    values_of_classes,
)
from peers.random_rows import SETUP, workload

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("connector")]
SEEDS, STEPS = 3, 1500


def majors(config: pytest.Config) -> list[int]:
    chosen = (14, 15, 16, 17, 18) if config.getoption("--all-majors") else (16,)
    return [major for major in chosen if is_packaged(major)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    versions = majors(metafunc.config)
    if "scripted" in metafunc.fixturenames:
        metafunc.parametrize(
            "scripted", versions, indirect=True, ids=[f"pg{major}" for major in versions], scope="module"
        )
    if "major" in metafunc.fixturenames:
        metafunc.parametrize("major", versions, ids=[f"pg{major}" for major in versions])
    if "random_events" in metafunc.fixturenames:
        seeds = [(versions[seed % len(versions)], seed) for seed in range(max(SEEDS, len(versions)))]
        names = [f"pg{major}-seed{seed}" for major, seed in seeds]
        metafunc.parametrize("random_events", seeds, indirect=True, ids=names, scope="module")


@pytest.fixture(scope="module")
def connector(request: pytest.FixtureRequest) -> None:
    """Skip unless Debezium's own connector is asked for."""
    if not request.config.getoption("--peers"):
        pytest.skip("part of make test-peers")


@pytest.fixture(scope="module")
def scripted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerRun]:
    with kept_on_failure(request, tmp_path_factory) as directory:
        yield run_peer(find_programs(request.param), statements("setup.sql"), statements("work.sql"), WAYS, directory)


@pytest.fixture(scope="module")
def random_events(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerRun]:
    major, seed = request.param
    with kept_on_failure(request, tmp_path_factory) as directory:
        yield run_peer(find_programs(major), SETUP, workload(seed, STEPS), ["plain", "strings"], directory)


def asked(run: PeerRun, way: str) -> DecodeRequest:
    options = (("topic.prefix", PREFIX), ("include.schema.changes", "false"), *WAYS[way].items())
    return DecodeRequest(
        wal=str(run.wal), catalog=str(run.backup), database=DATABASE, plugin="debezium", options=options
    )


def check(engine: Engine, run: PeerRun, way: str) -> None:
    """Fail with the first difference between the connector's events and ours."""
    with decode(engine, asked(run, way)) as result:
        lines = [line.decode() for line in values_of(joined(result.tables()).column("data"))]
    ours = [of_ours(line) for line in lines if f'"{END}"' not in line]
    theirs = [of_connector(line) for line in run.events[way]]
    for number, (expected, other) in enumerate(zip(theirs, ours, strict=False)):
        mismatch = difference(with_start(expected, other), other)
        if mismatch is not None:
            pytest.fail(f"{way}: event {number}, {expected['topic']}{mismatch}", pytrace=False)
    assert len(theirs) == len(ours)


@pytest.mark.parametrize("way", WAYS)
def test_scripted(engine: Engine, scripted: PeerRun, way: str) -> None:
    check(engine, scripted, way)


@pytest.mark.parametrize("way", ["plain", "strings"])
def test_random_workload(engine: Engine, random_events: PeerRun, way: str) -> None:
    check(engine, random_events, way)


@pytest.mark.parametrize("way", ["plain", "strings"])
def test_small_slices_say_together_what_one_says(random_events: PeerRun, way: str) -> None:
    """Each knows where the transaction before it ended; with transaction metadata none is cut."""
    request = asked(random_events, way)
    cut, whole = one_window(request, None, slice_bytes=2000), one_window(request, None)
    assert cut.slices > 10
    assert cut.messages.equals(whole.messages)


@pytest.mark.parametrize("way", ["plain", "strings"])
def test_windows_say_together_what_one_says(random_events: PeerRun, way: str) -> None:
    """With the state as a file holds it in between; of the last one as another session begins with it."""
    request = asked(random_events, way)
    whole = one_window(request, None)
    ends = values_of(whole.messages.column("lsn"))[:: len(whole.messages) // 4]
    pieces = list(folded(request, ends[1:]))
    rest = one_window(replace(request, start=ends[-1]), pieces[-1].value.in_new_session)
    assert pa.concat_tables([*(piece.messages for piece in pieces), rest.messages]).equals(whole.messages)


def test_the_script_is_rich(scripted: PeerRun) -> None:
    text = "\n".join(scripted.events["plain"])
    for word in ('"op":"t"', '"op":"m"', "newkey", "oldkey", '"value":null', "unavailable", '"origin":"there"'):
        assert word in text, word


DEFAULTS = (
    'CREATE SCHEMA "od.d"',
    """CREATE TABLE "od.d".defaults (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, a int DEFAULT 5,
    n int DEFAULT NULL, b text DEFAULT 'x''y', c numeric(10,2) DEFAULT 1.50, d timestamptz DEFAULT now(),
    f int GENERATED ALWAYS AS (a + 1) STORED,
    g bool DEFAULT true, h text DEFAULT upper('a'), v varchar(5) DEFAULT 'ab', dd date DEFAULT '2020-01-01',
    t1 time(1))""",
    "CREATE TABLE counted (a bigserial, b smallserial, c serial)",
    "ALTER TABLE ext ADD COLUMN more interval(2) DEFAULT '1 day', DROP COLUMN l",
)
"""Behind the script's tables."""


def test_schema_changes(major: int, tmp_path: Path) -> None:
    """Schemas, keys and columns as Debezium's classes make them of what the connector reads of each table."""
    run = run_tables(major, [*statements("setup.sql"), *DEFAULTS], tmp_path)
    options = (("topic.prefix", PREFIX),)
    request = DecodeRequest(
        wal=str(run.wal), catalog=str(run.backup), database=DATABASE, plugin="debezium", options=options
    )
    lines = values_of(one_window(request, None).messages.column("data"))
    ours, theirs = ([json.loads(line) for line in texts] for texts in (lines, run.events["tables"]))
    head = theirs[0]
    for event in ours:
        assert event["topic"] == PREFIX
        assert event["key"] == head["key"]
        assert event["value"]["schema"] == head["value"]["schema"]
        assert list(event["value"]["payload"]) == list(head["value"]["payload"])
    actual, expected = tables_of(ours), tables_of(theirs)
    for name, table in expected.items():
        if not name.startswith('"information_schema"'):
            assert difference(table, with_its_words(actual[name], table), name) is None


def tables_of(events: list[Any]) -> dict[str, Any]:
    """Return each table as the last event has it that does."""
    changes = (change for event in events for change in event["value"]["payload"]["tableChanges"])
    return {change["id"]: change["table"] for change in changes if change["type"] != "DROP"}


def with_its_words(table: Any, other: Any) -> Any:
    """Return a table with the defaults of another one: where that has none, and but for the schemas of objects."""
    for column, wanted in zip(table["columns"], other["columns"], strict=True):
        expression = column["defaultValueExpression"]
        column["defaultValueExpression"] = wanted["defaultValueExpression"] and expression.replace("public.", "")
    return table


GEOMETRIES = (
    "0101000020E6100000000000000000F03F0000000000000040",
    "010700000000000000",
    "00000000017FF80000000000003FF0000000000000",
)
VALUES = (
    *(f"{type}\t{text}" for type in ("geometry", "geography") for text in GEOMETRIES),
    *(f"vector\t{text}" for text in ("[1,2,3.5]", "[1e-05,-3.4028235e+38,0.1]", "[-0]")),
    *(f"halfvec\t{text}" for text in ("[1,0.5,-65504]", "[5.9604645e-08]")),
    *(f"sparsevec\t{text}" for text in ("{1:1.5,3:2}/5", "{}/5", "{7:-1e-10}/32767")),
    *(f"point\t{text}" for text in ("(1,2.5)", "(-0,1e+300)", "(NaN,Infinity)", "(0.1,5e-324)")),
)
"""Types of extensions that need not be there, and points."""


def test_values_of_extensions(tmp_path: Path) -> None:
    """Schemas and values as the connector's classes make them of what the server prints."""
    for line, answer in zip(VALUES, values_of_classes(VALUES, tmp_path), strict=True):
        type, _, text = line.partition("\t")
        theirs = json.loads(answer)
        oid = 600 if type == "point" else 20000
        column = Column(
            1, "c", TypeInfo(oid, type, "public", type, "b", -1, "i", False, output="known"), -1, -1, "i", False
        )
        form = Forms(DebeziumOptions()).form(column)
        assert form is not None
        assert difference(theirs["schema"]["fields"][0], field_schema(form, "c", True), line) is None
        source, out = np.frombuffer(text.encode(), np.uint8), np.empty(4096, np.uint8)
        end = int(put_value(form.style, form.parameter, source, 0, len(source), out, 0))
        assert difference(theirs["payload"]["c"], json.loads(out[:end].tobytes()), line) is None


PLACES = (
    "CREATE EXTENSION postgis",
    "CREATE TABLE places (id int PRIMARY KEY, g geometry, p geometry(Point, 4326) NOT NULL, e geography, i int, "
    "gs geometry[], es geography[], ps geometry(Point, 4326)[])",
    "ALTER TABLE places ALTER g SET STORAGE EXTERNAL",
)
PLACED = (
    "INSERT INTO places VALUES (1, 'POINT(1 2)', 'SRID=4326;POINT(3 4)', 'POINT(5 6)', 0), "
    "(2, NULL, 'SRID=4326;POINT EMPTY', NULL, 0), (3, 'POLYGON Z((0 0 0,1 0 1,1 1 1,0 0 0))', 'SRID=4326;POINT(0 0)', "
    "'SRID=4326;LINESTRING(1 2,3 4)', 0)",
    "INSERT INTO places SELECT 4, ST_Collect(ST_MakePoint(g, g)), ST_SetSRID(ST_MakePoint(1, 1), 4326), NULL, 0 "
    "FROM generate_series(1, 400) g",
    "UPDATE places SET i = 1",
    "INSERT INTO places (id, p, gs, es, ps) VALUES (5, 'SRID=4326;POINT(3 4)', ARRAY['POINT(1 2)'::geometry, NULL, "
    "'SRID=4326;POINT EMPTY'], ARRAY['POINT(5 6)'::geography], '{}'), (6, 'SRID=4326;POINT(3 4)', '{}', NULL, "
    "ARRAY['SRID=4326;POINT(3 4)'::geometry, 'SRID=4326;POINT(-1 0.5)'])",
    "DELETE FROM places",
)


def test_postgis(engine: Engine, with_postgis: ServerPrograms, tmp_path: Path) -> None:
    run = run_peer(with_postgis, PLACES, PLACED, ["plain", "schemas"], tmp_path)
    for way in run.events:
        check(engine, run, way)
    assert "unavailable" not in "".join(run.events["plain"])
