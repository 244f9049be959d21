"""Events of scripted DDL: their content, order and places, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddl.copying import Recorded, copied, recorded, run_all
from headwater.cli.commands import cli
from headwater.errors import UsageError
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.open_request import open_request
from headwater.pipeline.slot_moves import begin
from headwater.slots.kept_state import KeptState

pytestmark = pytest.mark.server

LONG = ", ".join(f"'{n}-{n**40}'" for n in range(400))
"""More than a row of a catalog can hold."""

STATEMENTS = (
    "CREATE SCHEMA shop",
    "CREATE TYPE shop.mood AS ENUM ('bad', 'good')",
    "CREATE TABLE shop.orders"
    " (id serial PRIMARY KEY, total numeric(10,2) NOT NULL DEFAULT 0, m shop.mood, CHECK (total >= 0))",
    "BEGIN",
    "CREATE TEMP TABLE scratch (a serial PRIMARY KEY, m shop.mood)",
    "CREATE TABLE other (a int REFERENCES shop.orders)",
    "ALTER TABLE shop.orders RENAME TO sales",
    "SAVEPOINT s",
    "CREATE TABLE never (a int)",
    "ROLLBACK TO s",
    "COMMIT",
    "BEGIN",
    "ALTER TABLE shop.sales RENAME TO tmp",
    "ALTER TABLE other SET SCHEMA shop",
    "ALTER TABLE shop.other RENAME TO sales",
    "ALTER TABLE shop.tmp RENAME TO other",
    "COMMIT",
    "ALTER TABLE shop.other ALTER total TYPE bigint, ALTER m SET DEFAULT 'good', ADD note text COLLATE \"C\"",
    "BEGIN",
    "CREATE TABLE taken_back (a int)",
    "ROLLBACK",
    "CREATE VIEW shop.v AS SELECT 1 AS one",
    "CREATE OR REPLACE VIEW shop.v AS SELECT 2 AS one",
    f"ALTER TABLE shop.other ADD CONSTRAINT long CHECK (note NOT IN ({LONG}))",
    "DROP TABLE shop.sales, shop.other CASCADE",
)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with recorded(16, tmp_path_factory.mktemp("ddl"), run_all(STATEMENTS)) as server:
        yield server


def test_events(done: Recorded) -> None:
    events = [
        (placed.event.action, placed.event.kind, placed.event.name, placed.event.part) for placed in done.events()
    ]
    assert events == [
        ("create", "schema", "shop", 0),
        ("create", "type", "shop.mood", 0),
        ("create", "sequence", "shop.orders_id_seq", 0),
        ("create", "table", "shop.orders", 0),
        ("create", "sequence", "shop.orders_id_seq", 1),
        ("create", "constraint", "shop.orders.orders_total_check", 0),
        ("create", "constraint", "shop.orders.orders_pkey", 0),
        ("alter", "table", "shop.sales", 0),
        ("create", "table", "public.other", 0),
        ("create", "constraint", "public.other.other_a_fkey", 0),
        ("alter", "table", "shop.other", 0),
        ("alter", "table", "shop.sales", 0),
        ("alter", "table", "shop.sales", 1),
        ("alter", "table", "shop.other", 1),
        ("alter", "table", "shop.sales", 2),
        ("drop", "constraint", "shop.other.orders_total_check", 0),
        ("alter", "table", "shop.other", 0),
        ("alter", "table", "shop.other", 1),
        ("create", "constraint", "shop.other.orders_total_check", 0),
        ("create", "view", "shop.v", 0),
        ("alter", "view", "shop.v", 0),
        ("create", "constraint", "shop.other.long", 0),
        ("drop", "constraint", "shop.sales.other_a_fkey", 0),
        ("drop", "table", "shop.sales", 0),
        ("drop", "table", "shop.other", 0),
        ("drop", "sequence", "shop.orders_id_seq", 0),
        ("drop", "constraint", "shop.other.orders_pkey", 0),
        ("drop", "constraint", "shop.other.orders_total_check", 0),
        ("drop", "constraint", "shop.other.long", 0),
    ]


def test_definitions_before_and_behind(done: Recorded) -> None:
    (event,) = [placed.event for placed in done.events() if any("ADD COLUMN" in sql for sql in placed.event.sql)]
    before, after = (definition.structure() for definition in (event.before, event.after) if definition is not None)
    columns = {column["name"]: column for column in after["columns"]}
    assert [column["name"] for column in before["columns"]] == ["id", "total", "m"]
    assert (before["columns"][1]["type"], columns["total"]["type"]) == ("numeric(10,2)", "bigint")
    assert (columns["m"]["default"], columns["note"]["collation"]) == ("'good'::shop.mood", '"C"')
    assert (before["kind"], before["schema"], before["name"]) == ("table", "shop", "other")


def test_what_is_not_told_in_sql_says_so(done: Recorded) -> None:
    views = [placed.event for placed in done.events() if placed.event.kind == "view"]
    assert [(view.unsupported, view.sql) for view in views] == [("a view is not told in SQL", ())] * 2


def test_long_expressions_are_read_where_they_lie(done: Recorded) -> None:
    (event,) = [placed.event for placed in done.events() if placed.event.name == "shop.other.long"][:1]
    assert event.sql[0].count("'::text") == 400


def test_command(done: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["ddl", "--wal", str(done.server.wal_directory), "--catalog", str(done.backup), "--database", "postgres"]
    cli.main(flags, standalone_mode=False)
    assert "CREATE TYPE shop.mood AS ENUM ('bad', 'good');\n" in capsys.readouterr().out
    cli.main([*flags, "--format", "json"], standalone_mode=False)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == len(done.events())
    first = lines[0]
    assert (first["action"], first["object"], first["name"], first["sql"]) == (
        "create",
        "schema",
        "shop",
        ["CREATE SCHEMA shop"],
    )
    cli.main([*flags, "--start", lines[-1]["commit_lsn"], "--format", "json"], standalone_mode=False)
    assert {json.loads(line)["xid"] for line in capsys.readouterr().out.splitlines()} == {lines[-1]["xid"]}


def test_a_state_without_definitions_is_refused(done: Recorded) -> None:
    request = done.request()
    without = begin(replace(request, with_ddl=False))
    assert without.state is not None
    with pytest.raises(UsageError, match="does not have the definitions of objects"):
        open_request(request, kept_state=KeptState(without.state, without.server_settings))


def test_places_among_changes(tmp_path: Path) -> None:
    """A table comes before its rows, and each row after the statement that altered its table."""
    statements = (
        "CREATE TABLE t (a int)",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD b int DEFAULT 2; ALTER TABLE t ALTER a TYPE bigint",
        "INSERT INTO t VALUES (3, 4), (5, 6)",
        "DROP TABLE t",
    )
    reached: list[int] = []

    def work(session: Any) -> None:
        with session.transaction():
            for statement in statements:
                session.execute(statement)
                (lsn,) = session.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
                reached.append(Lsn.parse(lsn))

    with recorded(17, tmp_path, work) as server:
        events = server.events()
    assert [placed.event.sql for placed in events] == [
        ("CREATE TABLE public.t (a integer)",),
        (
            "ALTER TABLE public.t ALTER COLUMN a TYPE bigint USING a::pg_catalog.text::bigint",
            "ALTER TABLE public.t ADD COLUMN b integer DEFAULT 2",
        ),
        ("DROP TABLE public.t",),
    ]
    create, alter, drop = (placed.lsn for placed in events)
    assert create < reached[0] < reached[1] < alter < reached[2] < reached[3] < drop < reached[4]
    assert {placed.commit_lsn for placed in events} == {events[0].commit_lsn}
    assert [placed.number for placed in events] == [0, 1, 2]


def test_two_phase_decoding_and_most_plugins_know_no_ddl(done: Recorded) -> None:
    request = done.request()
    with pytest.raises(UsageError, match="test_decoding does not tell DDL"):
        open_request(request)
    with pytest.raises(UsageError, match="cannot be had with two-phase decoding"):
        replace(request, two_phase=True)


def test_owners_and_privileges_are_told_without_sql(tmp_path: Path) -> None:
    statements = (
        "CREATE ROLE reader",
        "CREATE TABLE t (a int, b int)",
        "GRANT SELECT ON t TO reader",
        "GRANT UPDATE (b) ON t TO reader",
        "ALTER TABLE t OWNER TO reader",
        "ALTER TABLE t RENAME TO u",
    )
    with recorded(18, tmp_path, run_all(statements)) as server:
        events = [placed.event for placed in server.events()]
    assert [(event.action, event.kind, event.name, len(event.sql)) for event in events] == [
        ("create", "table", "public.t", 1),
        ("alter", "privileges", "public.t", 0),
        ("alter", "privileges", "public.t", 0),
        ("alter", "privileges", "public.t", 0),
        ("alter", "table", "public.u", 1),
    ]
    shown = [event.after.structure()["row"] for event in events[1:4] if event.after is not None]
    owner = shown[0]["owner"]
    assert [structure["owner"] for structure in shown] == [owner, owner, "reader"]
    assert shown[1]["privileges"]["b"] == f"{{reader=w/{owner}}}"


def test_many_temporary_tables_tell_nothing(tmp_path: Path) -> None:
    statements = ["CREATE TABLE kept (a int)"]
    statements += ["CREATE TEMP TABLE passing (a serial PRIMARY KEY, b text) ON COMMIT DROP"] * 50
    with recorded(18, tmp_path, run_all(statements)) as server:
        assert [placed.event.sql for placed in server.events()] == [("CREATE TABLE public.kept (a integer)",)]


def test_sql_of_everything_makes_the_same_schema(tmp_path: Path) -> None:
    with recorded(18, tmp_path, run_all(STATEMENTS[:-1])) as server:
        assert [line for line in copied(server, server.events()) if "VIEW" not in line and "2 AS one" not in line] == [
            "order"
        ]


def test_row_type_versions_of_the_server_are_nobody_elses(tmp_path: Path) -> None:
    """Servers of November 2026 on keep them among a column's options; here they are put there on any server."""
    put = "UPDATE pg_attribute SET attoptions = '{{{}}}' WHERE attrelid = '{}'::regclass AND attname = '{}'"
    statements = (
        "SET allow_system_table_mods = on",
        "CREATE TABLE t (a int, b text)",
        "ALTER TABLE t ALTER b SET (n_distinct = 5)",
        put.format("pg_attver=22509720,n_distinct=5", "t", "b"),
        put.format("pg_attver=22509720,n_distinct=5,n_distinct_inherited=7", "t", "b"),
        put.format("pg_attver=7", "t", "a"),
        "BEGIN",
        "CREATE TABLE u (a int)",
        put.format("pg_attver=22509720", "u", "a"),
        "COMMIT",
        put.format("pg_attver=22609720", "t", "b"),
    )
    with recorded(16, tmp_path, run_all(statements)) as server:
        events = [placed.event for placed in server.events()]
    assert [event.sql for event in events] == [
        ("CREATE TABLE public.t (a integer, b text)",),
        ("ALTER TABLE ONLY public.t ALTER COLUMN b SET (n_distinct='5')",),
        ("ALTER TABLE ONLY public.t ALTER COLUMN b SET (n_distinct_inherited='7')",),
        ("CREATE TABLE public.u (a integer)",),
        ("ALTER TABLE ONLY public.t ALTER COLUMN b RESET (n_distinct, n_distinct_inherited)",),
    ]
    shown = [column for event in events if event.after is not None for column in event.after.structure()["columns"]]
    assert "pg_attver" not in json.dumps(shown)


TYPED = {
    "add": (("ALTER TYPE ct ADD ATTRIBUTE i text CASCADE",), ["ALTER TYPE public.ct ADD ATTRIBUTE i text CASCADE"]),
    "drop": (("ALTER TYPE ct DROP ATTRIBUTE g CASCADE",), ["ALTER TYPE public.ct DROP ATTRIBUTE g CASCADE"]),
    "type": (
        ("ALTER TYPE ct ALTER ATTRIBUTE k TYPE bigint CASCADE",),
        ["ALTER TYPE public.ct ALTER ATTRIBUTE k TYPE bigint CASCADE"],
    ),
    "rename": (
        ("ALTER TYPE ct RENAME ATTRIBUTE f TO h CASCADE",),
        ["ALTER TYPE public.ct RENAME ATTRIBUTE f TO h CASCADE"],
    ),
    "type of a default": (
        ("ALTER TYPE ct ALTER ATTRIBUTE f TYPE bigint CASCADE",),
        [
            "ALTER TABLE public.typed ALTER COLUMN f DROP DEFAULT",
            "ALTER TYPE public.ct ALTER ATTRIBUTE f TYPE bigint CASCADE",
            "ALTER TABLE ONLY public.typed ALTER COLUMN f SET DEFAULT 3",
        ],
    ),
    "several": (
        (
            "ALTER TYPE ct ADD ATTRIBUTE i text CASCADE, DROP ATTRIBUTE g CASCADE,"
            ' ALTER ATTRIBUTE k TYPE text COLLATE "C" CASCADE',
        ),
        [
            "ALTER TYPE public.ct DROP ATTRIBUTE g CASCADE",
            'ALTER TYPE public.ct ALTER ATTRIBUTE k TYPE text COLLATE "C" CASCADE',
            "ALTER TYPE public.ct ADD ATTRIBUTE i text CASCADE",
        ],
    ),
    "exchanged": (
        (
            "BEGIN",
            "ALTER TYPE ct RENAME ATTRIBUTE f TO h CASCADE",
            "ALTER TYPE ct RENAME ATTRIBUTE g TO f CASCADE",
            "ALTER TYPE ct RENAME ATTRIBUTE h TO g CASCADE",
            "COMMIT",
        ),
        None,
    ),
    "with what the table says": (
        (
            "BEGIN",
            "ALTER TYPE ct ADD ATTRIBUTE i text CASCADE",
            "DELETE FROM typed",
            "ALTER TABLE typed ALTER i SET DEFAULT 'x', ALTER i SET NOT NULL, ALTER i SET STATISTICS 7",
            "ALTER TABLE typed ADD CHECK (i <> '')",
            "COMMIT",
        ),
        None,
    ),
    "with an index": (
        ("CREATE INDEX ON typed (g, f)", "CREATE INDEX ON typed (k)", "ALTER TYPE ct DROP ATTRIBUTE g CASCADE"),
        None,
    ),
    "table leaves": (
        ("BEGIN", "ALTER TABLE typed NOT OF", "ALTER TYPE ct ADD ATTRIBUTE i text", "COMMIT"),
        ["ALTER TABLE public.typed NOT OF", "ALTER TYPE public.ct ADD ATTRIBUTE i text"],
    ),
    "table leaves behind it": (
        ("BEGIN", "ALTER TYPE ct ADD ATTRIBUTE i text CASCADE", "ALTER TABLE typed NOT OF", "COMMIT"),
        None,
    ),
    "table comes": (
        (
            "CREATE TABLE other (f int, g text)",
            "BEGIN",
            "ALTER TABLE typed NOT OF",
            "ALTER TABLE other ADD k int",
            "ALTER TABLE other OF ct",
            "ALTER TYPE ct ADD ATTRIBUTE i text CASCADE",
            "COMMIT",
        ),
        None,
    ),
    "table is made": (
        ("BEGIN", "DROP TABLE typed", "CREATE TABLE o OF ct", "ALTER TYPE ct ADD ATTRIBUTE i text CASCADE", "COMMIT"),
        ["DROP TABLE public.typed", "ALTER TYPE public.ct ADD ATTRIBUTE i text", "CREATE TABLE public.o OF public.ct"],
    ),
    "no typed table": (
        ("DROP TABLE typed", "ALTER TYPE ct ADD ATTRIBUTE i text CASCADE"),
        ["DROP TABLE public.typed", "ALTER TYPE public.ct ADD ATTRIBUTE i text"],
    ),
    "children": (
        (
            "CREATE TABLE child (own int) INHERITS (typed)",
            "ALTER TYPE ct ADD ATTRIBUTE i text CASCADE",
            "ALTER TYPE ct DROP ATTRIBUTE g CASCADE",
            "ALTER TYPE ct ALTER ATTRIBUTE k TYPE bigint CASCADE",
            "ALTER TYPE ct RENAME ATTRIBUTE k TO l CASCADE",
        ),
        None,
    ),
    "partitions": (
        (
            "CREATE TABLE parts OF ct PARTITION BY RANGE (f)",
            "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9)",
            "ALTER TYPE ct ADD ATTRIBUTE i text CASCADE",
            "ALTER TYPE ct DROP ATTRIBUTE g CASCADE",
            "ALTER TYPE ct ALTER ATTRIBUTE k TYPE bigint CASCADE",
            "ALTER TYPE ct RENAME ATTRIBUTE k TO l CASCADE",
        ),
        None,
    ),
}
"""Statements after a typed table, and those that their events have; None for: those that make the same."""


@pytest.mark.parametrize("major", [16, *(pytest.param(older, marks=pytest.mark.slow) for older in (14, 18))])
@pytest.mark.parametrize("case", TYPED)
def test_typed_tables(tmp_path: Path, major: int, case: str) -> None:
    """Attributes come, go and change with those of the type, by one statement with CASCADE, which a server takes."""
    does, expected = TYPED[case]
    before = ("CREATE TYPE ct AS (f int, g text, k int)", "CREATE TABLE typed OF ct (f WITH OPTIONS DEFAULT 3)")
    with recorded(major, tmp_path, run_all((*before, "INSERT INTO typed DEFAULT VALUES", *does))) as done:
        events = done.events()
        sqls = [sql for placed in events for sql in placed.event.sql]
        assert copied(done, events) == []
    if expected is not None:
        assert sqls[2:] == expected


def test_comments_have_names(tmp_path: Path) -> None:
    """Objects that events have SQL of are named as in SQL, others as people name them."""
    statements = (
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "COMMENT ON EXTENSION plpgsql IS 'a language'",
        "COMMENT ON FUNCTION f() IS 'one'",
        "COMMENT ON LANGUAGE plpgsql IS 'spoken'",
        "COMMENT ON EXTENSION plpgsql IS NULL",
    )
    with recorded(16, tmp_path, run_all(statements)) as done:
        comments = [placed.event for placed in done.events() if placed.event.kind == "comment"]
    assert [(comment.name, comment.sql) for comment in comments if comment.name.startswith("EXTENSION")] == [
        ("EXTENSION plpgsql", ("COMMENT ON EXTENSION plpgsql IS 'a language'",)),
        ("EXTENSION plpgsql", ("COMMENT ON EXTENSION plpgsql IS NULL",)),
    ]
    (of_function,) = [comment for comment in comments if comment.name == "FUNCTION public.f"]
    assert of_function.unsupported == "a comment on an object of this kind is not told in SQL"
