"""DDL in debezium: which events there are, where they stand, and the warning where no definitions are followed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from arrow_types import values_of
from ddl.copying import Recorded, recorded, run_all
from headwater.errors import HeadwaterWarning, PluginError, UsageError
from headwater.pipeline.ddl import open_ddl, read_ddl
from headwater.pipeline.requests.open_request import open_request
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.slot_moves import begin
from headwater.pipeline.windows.databases import ChosenDatabases, DatabaseChoice
from headwater.plugins.debezium.plugin import Debezium
from headwater.slots.kept_state import KeptState
from oracle.folding import folded, one_window

pytestmark = pytest.mark.server

STATEMENTS = (
    "CREATE SCHEMA shop",
    "CREATE TABLE shop.orders (id serial PRIMARY KEY, total numeric(10,2) NOT NULL DEFAULT 0)",
    "INSERT INTO shop.orders VALUES (1, 2)",
    "ALTER TABLE shop.orders ADD note text",
    "CREATE TABLE hidden (a int PRIMARY KEY)",
    'BEGIN; CREATE TABLE "of.b" (a int); INSERT INTO "of.b" VALUES (1); ALTER TABLE "of.b" ADD b int; '
    'INSERT INTO "of.b" VALUES (2, 3); COMMIT',
    "CREATE VIEW shop.v AS SELECT 1 AS one",
    "DROP TABLE shop.orders",
    "CREATE TABLE changing (a int PRIMARY KEY DEFAULT 1)",
    "INSERT INTO changing VALUES (3)",
    "ALTER TABLE changing ALTER a SET DEFAULT 2",
    "INSERT INTO changing VALUES (4)",
    "TRUNCATE changing",
)
PLAIN = (
    ("topic.prefix", "shop"),
    ("key.converter.schemas.enable", "false"),
    ("value.converter.schemas.enable", "false"),
    ("table.exclude.list", "public.hidden"),
)
EXPECTED = [
    ("shop", "CREATE SCHEMA shop", []),
    ("shop", "CREATE SEQUENCE shop.orders_id_seq", []),
    ("shop", "CREATE TABLE shop.orders", [("CREATE", '"shop"."orders"', ["id"])]),
    ("shop", "ALTER SEQUENCE shop.orders_id_seq", []),
    ("shop", "ALTER TABLE ONLY shop.orders", [("ALTER", '"shop"."orders"', ["id"])]),
    ("shop", "ALTER TABLE shop.orders", [("ALTER", '"shop"."orders"', ["id"])]),
    ("public", 'CREATE TABLE public."of.b"', [("CREATE", '"public"."of.b"', [])]),
    ("public", 'ALTER TABLE public."of.b"', [("ALTER", '"public"."of.b"', [])]),
    (None, "-- create view shop.v: a view is not told in SQL", []),
    ("shop", "DROP TABLE shop.orders", [("DROP", '"shop"."orders"', None)]),
    ("public", "CREATE TABLE public.changing", [("CREATE", '"public"."changing"', ["a"])]),
    ("public", "ALTER TABLE ONLY public.changing", [("ALTER", '"public"."changing"', ["a"])]),
    ("public", "ALTER TABLE ONLY public.changing", [("ALTER", '"public"."changing"', ["a"])]),
]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    with recorded(16, tmp_path_factory.mktemp("ddl"), run_all(STATEMENTS)) as server:
        yield server


def asked(done: Recorded, *more: tuple[str, str]) -> DecodeRequest:
    return replace(done.request(), plugin="debezium", options=(*PLAIN, *more), with_ddl=False)


def summary(value: dict[str, Any]) -> tuple[str | None, str, list[Any]]:
    changes = [
        (change["type"], change["id"], change["table"] and change["table"]["primaryKeyColumnNames"])
        for change in value["tableChanges"]
    ]
    sql: str = value["ddl"]
    return value["schemaName"], sql if sql.startswith("--") else sql.partition(" (")[0], changes


def is_alike(actual: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    return actual[1].startswith(expected[1]) and (actual[0], actual[2]) == (expected[0], expected[2])


def test_events(done: Recorded) -> None:
    plugin = open_request(asked(done)).plugin
    assert isinstance(plugin, Debezium)
    assert plugin.traits.wants_ddl
    placed = read_ddl(open_ddl(done.request()))
    made = [
        text for placed_ddl in placed for text in plugin.ddl(placed_ddl.event, placed_ddl.number, placed_ddl.behind)
    ]
    lines = [re.sub(rb"[\x00-\x1f]+", b"0", text.partition(b"\0")[2]) for text in made]
    events = [json.loads(line.replace(b'"origin":0', b'"origin":null')) for line in lines]
    assert {(event["topic"], event["key"]["databaseName"]) for event in events} == {("shop", "postgres")}
    changes = [summary(event["value"]) for event in events]
    assert all(is_alike(*pair) for pair in zip(changes, EXPECTED, strict=True)), changes
    tables = {change["id"]: change["table"] for event in events for change in event["value"]["tableChanges"]}
    columns = tables['"public"."of.b"']["columns"]
    assert [(column["name"], column["position"], column["jdbcType"], column["optional"]) for column in columns] == [
        ("a", 1, 4, True),
        ("b", 2, 4, True),
    ]


def test_none_is_told_if_none_is_wanted(done: Recorded) -> None:
    request = asked(done, ("include.schema.changes", "false"))
    assert not open_request(request).plugin.traits.wants_ddl
    with pytest.raises(UsageError, match="debezium does not tell DDL"):
        open_request(replace(request, with_ddl=True))
    with pytest.raises(PluginError, match=r'invalid value "maybe" for option "include\.schema'):
        open_request(asked(done, ("include.schema.changes", "maybe")))


def test_a_slot_has_them_from_its_backup_on(done: Recorded) -> None:
    slot = begin(asked(done))
    assert slot.state is not None
    assert open_request(asked(done), kept_state=KeptState(slot.state, slot.server_settings)).plugin.traits.wants_ddl


def test_where_there_are_no_definitions_it_is_warned_of(done: Recorded) -> None:
    without = begin(replace(done.request(), with_ddl=False))
    assert without.state is not None
    kept_state = KeptState(without.state, without.server_settings)
    with pytest.warns(
        HeadwaterWarning, match="does not tell DDL and columns' defaults, .*: the state, or exported catalog, has none"
    ):
        assert not open_request(asked(done), kept_state=kept_state).plugin.traits.wants_ddl
    with pytest.raises(UsageError, match="does not have the definitions of objects"):
        open_request(replace(asked(done), with_ddl=True), kept_state=kept_state)
    with pytest.warns(HeadwaterWarning, match="several databases are decoded without them"):
        plans = ChosenDatabases.open([replace(asked(done), database=None)], DatabaseChoice(("postgres",))).plans
    assert not plans[0].opened.plugin.traits.wants_ddl


@pytest.mark.slow
def test_their_place_among_rows(done: Recorded) -> None:
    """The same in windows; without them all else is the same, but for which transaction was the one before."""
    lines = values_of(one_window(asked(done), None).messages.column("data"))
    events = [json.loads(line) for line in lines]
    shown = [
        event["value"]["ddl"].partition(" (")[0] if event["topic"] == "shop" else event["value"]["after"]
        for event in events
        if "of.b" in event["topic"] or '"of.b"' in event["value"].get("ddl", "")
    ]
    alter = 'ALTER TABLE public."of.b" ADD COLUMN b integer'
    assert shown == ['CREATE TABLE public."of.b"', {"a": 1}, alter, {"a": 2, "b": 3}]
    assert [event["value"]["source"]["lsn"] for event in events] == sorted(
        event["value"]["source"]["lsn"] for event in events
    )
    ends = [event["value"]["source"]["lsn"] + 1 for event in events][1::2]
    pieces = folded(asked(done), [*ends, ends[-1] + (1 << 20)])
    assert pa.concat_tables(piece.messages for piece in pieces).column("data").to_pylist() == lines
    with pytest.warns(HeadwaterWarning, match="does not decode prepared transactions at PREPARE"):
        two_phase = one_window(replace(asked(done), two_phase=True), None)
    assert two_phase.messages.column("data").to_pylist() == lines
    rows = values_of(one_window(asked(done, ("include.schema.changes", "false")), None).messages.column("data"))
    with_ddl = [without_sequence(event) for event in events if event["topic"] != "shop"]
    assert with_ddl == [without_sequence(json.loads(line)) for line in rows]


@pytest.mark.slow
def test_they_are_not_counted_in_transactions(done: Recorded) -> None:
    request = asked(done, ("provide.transaction.metadata", "true"))
    events = [json.loads(line) for line in values_of(one_window(request, None).messages.column("data"))]
    counts = [event["value"]["event_count"] for event in events if event["value"].get("status") == "END"]
    assert sum(counts) == len([event for event in events if event["value"].get("op")]) == 5
    assert counts.count(0) == len(counts) - 4


@pytest.mark.slow
def test_defaults_are_those_of_the_change(done: Recorded) -> None:
    request = replace(asked(done), options=(("topic.prefix", "shop"), ("skipped.operations", "none")))
    events = [json.loads(line) for line in values_of(one_window(request, None).messages.column("data"))]
    rows = [event for event in events if event["topic"] == "shop.public.changing"]
    shown = [event["value"]["schema"]["fields"][1]["fields"][0]["default"] for event in rows]
    assert shown == [1, 2, 2]
    assert [event["key"] and event["key"]["schema"]["fields"][0]["default"] for event in rows] == [1, 2, None]


def without_sequence(event: dict[str, Any]) -> dict[str, Any]:
    event["value"]["source"]["sequence"] = json.loads(event["value"]["source"]["sequence"])[1]
    return event
