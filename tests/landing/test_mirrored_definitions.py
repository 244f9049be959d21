"""Mirrors where the source's tables change their definitions: exact, or a typed error, never rows that are wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.errors import HeadwaterError, LakeError
from headwater.jobs.engine import Engine
from landing.mirrored_source import NEXT_WINDOW, Mirrored, Source, Statements, source
from landing.mirrors import read_table, server_rows

__all__ = ["source"]

pytestmark = [pytest.mark.server, pytest.mark.spark]


EVENT = [
    "CREATE TABLE event (id int, region int, PRIMARY KEY (id, region)) PARTITION BY LIST (region)",
    "CREATE TABLE event_0 PARTITION OF event FOR VALUES IN (0)",
    "CREATE TABLE event_1 PARTITION OF event FOR VALUES IN (1)",
]


@pytest.fixture
def mirrored(engine: Engine, source: Source, tmp_path: Path) -> Mirrored:
    return Mirrored(engine, source, tmp_path / "lake")


def _table(name: str, more: str = "") -> Statements:
    return [f"CREATE TABLE {name} (id int PRIMARY KEY, note text{more})"]


def test_rows_get_the_default_of_a_column_that_is_added(mirrored: Mirrored) -> None:
    work = [
        "INSERT INTO defaults SELECT i, 'x' FROM generate_series(1, 50) i",
        NEXT_WINDOW,
        "INSERT INTO defaults VALUES (100, 'same window')",
        "ALTER TABLE defaults ADD seven int DEFAULT 7",
        "ALTER TABLE defaults ADD made timestamptz DEFAULT now(), ADD how text DEFAULT 'given', ADD none int",
        "ALTER TABLE defaults ALTER seven SET DEFAULT 8",
        "INSERT INTO defaults VALUES (101)",
        "UPDATE defaults SET note = 'y' WHERE id < 10",
        "VACUUM FULL defaults",
    ]
    mirrored.require(_table("defaults"), work, "defaults")


def test_a_default_reaches_a_mirror_though_no_row_changes(mirrored: Mirrored) -> None:
    work = [
        "INSERT INTO quiet SELECT i, 'x' FROM generate_series(1, 50) i",
        NEXT_WINDOW,
        "ALTER TABLE quiet ADD seven numeric(5,2) DEFAULT 7",
        NEXT_WINDOW,
    ]
    mirrored.require(_table("quiet"), work, "quiet")


def test_what_alter_table_writes_anew_is_taken_over(mirrored: Mirrored) -> None:
    work = [
        "INSERT INTO anew SELECT i, repeat('x', i) FROM generate_series(1, 50) i",
        NEXT_WINDOW,
        "ALTER TABLE anew ALTER id TYPE bigint USING id * 10000000000",
        "ALTER TABLE anew ALTER note TYPE text USING note || '!'",
        "ALTER TABLE anew ADD chance float8 DEFAULT random(), ADD n serial",
        "DELETE FROM anew WHERE id = 10000000000",
        NEXT_WINDOW,
        "ALTER TABLE anew ALTER id TYPE text",
        "UPDATE anew SET note = 'z' WHERE id = '20000000000'",
        "BEGIN; ALTER TABLE anew ALTER note TYPE varchar(100) USING 'lost'; ROLLBACK",
    ]
    mirrored.require(_table("anew"), work, "anew")


@pytest.mark.parametrize("between", ["SELECT", NEXT_WINDOW], ids=["at once", "later"])
def test_a_type_changes_when_no_row_is_left_to_be_written_anew(mirrored: Mirrored, between: str) -> None:
    name = f"emptied_{len(between)}"
    work = [
        f"INSERT INTO {name} SELECT i, i FROM generate_series(1, 50) i",
        between,
        f"DELETE FROM {name}",
        f"ALTER TABLE {name} ALTER id TYPE bigint, ALTER small TYPE text, ALTER big TYPE text, ALTER more TYPE jsonb "
        "USING to_jsonb(more)",
        f"INSERT INTO {name} VALUES (1, 'x', 'y', '{{}}'), (10000000000, 'y', 'z', '1')",
    ]
    columns = "id int PRIMARY KEY, small smallint, big numeric, more text"
    mirrored.require([f"CREATE TABLE {name} ({columns})"], work, name)


@pytest.mark.parametrize("between", ["SELECT", NEXT_WINDOW], ids=["at once", "later"])
def test_a_file_that_is_written_anew_for_something_else_has_the_rows_of_before(
    mirrored: Mirrored, between: str
) -> None:
    name = f"clustered_{len(between)}"
    work = [
        f"INSERT INTO {name} VALUES (1, '10.0.0.1')",
        between,
        f"BEGIN; ALTER TABLE {name} ALTER n TYPE inet; CLUSTER {name} USING {name}_pkey; COMMIT",
        f"INSERT INTO {name} VALUES (2, '10.0.0.2')",
    ]
    message = mirrored.refused([f"CREATE TABLE {name} (id int PRIMARY KEY, n cidr)"], work)
    assert "the server has not written its rows anew" in message


KEYS = {
    "boolean": "true",
    "numeric(20,10)": "0",
    "uuid": "'00000000-0000-0000-0000-00000000000a'",
    "bytea": r"'\x01ff'",
    "int": "5",
    "date": "'2024-01-01'",
}
"""Types that have one text, but for settings that a backup does not have, and values."""


def test_keys_become_text_behind_changes_of_their_rows(mirrored: Mirrored) -> None:
    tables = {f"texts_{number}": (type, value) for number, (type, value) in enumerate(KEYS.items())}
    setup = [f"CREATE TABLE {name} (id {type} PRIMARY KEY, n int)" for name, (type, _) in tables.items()]
    setup += [f"INSERT INTO {name} VALUES ({value}, 1)" for name, (_, value) in tables.items()]
    work = ["UPDATE {} SET n = 2", "ALTER TABLE {} ALTER id TYPE text", "UPDATE {} SET n = n + 1"]
    statements = [statement.format(name) for name in tables for statement in work]
    backup, held = mirrored.source.after(setup, [NEXT_WINDOW, *statements], list(tables))
    mirrored.land(backup)
    assert {name: mirrored.rows(name, held[name][0]) for name in tables} == {name: held[name][1] for name in tables}


@pytest.mark.parametrize(
    ("name", "type"), [pytest.param("moments", "timestamptz", marks=pytest.mark.slow), ("reals", "float8")]
)
def test_a_key_becomes_text_in_several_forms(mirrored: Mirrored, name: str, type: str) -> None:
    """The window is cut; what one transaction does is not."""
    value = "'2024-01-01'" if type == "timestamptz" else "0.5"
    setup = [f"CREATE TABLE {name} (id {type} PRIMARY KEY, n int)", f"INSERT INTO {name} VALUES ({value}, 1)"]
    work = [f"UPDATE {name} SET n = 2", f"ALTER TABLE {name} ALTER id TYPE text", f"UPDATE {name} SET n = n + 1"]
    mirrored.require(setup, [NEXT_WINDOW, *work], name)
    again = Mirrored(mirrored.engine, mirrored.source, mirrored.target.place.with_name("again"))
    message = again.refused([f"DROP TABLE {name}", *setup], [NEXT_WINDOW, "BEGIN; " + "; ".join(work) + "; COMMIT"])
    assert f"table public.{name}: a row is updated or deleted before the server has written its key anew" in message
    assert "end the window before that ALTER TABLE (--end)" in message


@pytest.mark.parametrize(
    "altered", ["ADD ATTRIBUTE c int", pytest.param("RENAME ATTRIBUTE a TO z", marks=pytest.mark.slow)]
)
def test_a_composite_that_changes_is_told(mirrored: Mirrored, altered: str) -> None:
    setup, work = _composite(f"of_composite_{altered.split()[0].lower()}", altered)
    error = mirrored.error(setup, work)
    assert "an attribute of of_composite_" in str(error)
    assert error.lsn


def test_changes_of_a_composite_go_to_a_column_for_each_of_its_forms(
    engine: Engine, source: Source, tmp_path: Path
) -> None:
    name = "of_composite_drop"
    setup, work = _composite(name, "DROP ATTRIBUTE a")
    backup, _ = source.after(setup, work, [])
    Mirrored(engine, source, tmp_path / "lake", "changelog").land(backup)
    rows = read_table(tmp_path / "lake" / f"public.{name}", "parquet").select(["id", "k", "k_2"])
    assert rows.sort_by("id").to_pylist() == [
        {"id": 1, "k": [{"a": 1, "b": "one"}], "k_2": None},
        {"id": 2, "k": None, "k_2": [{"b": "two"}]},
    ]


def _composite(name: str, altered: str) -> tuple[Statements, Statements]:
    """Write statements about a column of a composite type that has other attributes after its first row."""
    setup = [
        f"CREATE TYPE {name}_type AS (a int, b text)",
        f"CREATE TABLE {name} (id int PRIMARY KEY, k {name}_type[])",
    ]
    last = "ARRAY[ROW('two')::{0}_type]" if altered.startswith("DROP") else "NULL"
    work = [f"INSERT INTO {name} VALUES (1, ARRAY[ROW(1, 'one')::{name}_type])", f"ALTER TYPE {name}_type {altered}"]
    return setup, [*work, f"INSERT INTO {name} VALUES (2, {last.format(name)})"]


def test_types_that_take_values_over_as_they_are_stored(mirrored: Mirrored) -> None:
    work = [
        "SET TimeZone = 'UTC'",
        "INSERT INTO stored VALUES (1, 'x', 1.50, '2024-01-02 03:04:05', 'y')",
        "INSERT INTO stored VALUES (2, NULL, NULL, NULL, NULL)",
        NEXT_WINDOW,
        "ALTER TABLE stored ALTER n TYPE numeric(8,2)",
        "ALTER TABLE stored ALTER made TYPE timestamptz, ALTER short TYPE text",
        NEXT_WINDOW,
        "ALTER TABLE stored ALTER n TYPE numeric",
        "UPDATE stored SET note = 'z' WHERE id = 2",
    ]
    more = ", n numeric(5,2), made timestamp, short varchar(10)"
    mirrored.require(_table("stored", more), work, "stored")


def test_decimals_become_text_as_the_server_prints_them(mirrored: Mirrored) -> None:
    work = [
        "INSERT INTO fine VALUES (1, 'x', 0.0000000001), (2, 'x', 0), (3, 'x', NULL), (4, 'x', -12345.6789)",
        NEXT_WINDOW,
        "ALTER TABLE fine ALTER n TYPE numeric",
        "UPDATE fine SET note = 'z' WHERE id = 2",
    ]
    mirrored.require(_table("fine", ", n numeric(20,10)"), work, "fine")


@pytest.mark.parametrize(
    "between", ["SELECT", pytest.param(NEXT_WINDOW, marks=pytest.mark.slow)], ids=["at once", "later"]
)
@pytest.mark.parametrize(
    ("older", "newer", "value"),
    [
        ("integer", "oid", "-1"),
        ("cidr", "inet", "'1.2.3.4/32'"),
        pytest.param("xml", "text", "'<a/>'", marks=pytest.mark.slow),
    ],
)
def test_types_that_print_stored_values_otherwise_are_refused(
    mirrored: Mirrored, older: str, newer: str, value: str, between: str
) -> None:
    name = f"as_{newer}_{len(between)}"
    alter = f"ALTER TABLE {name} ALTER c TYPE {newer}"
    work = [f"INSERT INTO {name} VALUES (1, 'x', {value})", between, alter]
    backup, _ = mirrored.source.after(_table(name, f", c {older}"), work, [])
    with pytest.raises(HeadwaterError) as raised:
        mirrored.land(backup)
    message = str(raised.value)
    if "does not fit" not in message:  # of a change of the same window, whose values another type cannot be read from
        assert f'column "c" of table public.{name} is {newer} now, which prints {older} otherwise' in message
        assert raised.value.lsn


def test_a_type_is_taken_over_where_no_row_was_stored_as_another_one(mirrored: Mirrored) -> None:
    work = [
        "INSERT INTO blank VALUES (1, 'x', '1.2.3.4/32')",
        NEXT_WINDOW,
        "TRUNCATE blank",
        NEXT_WINDOW,
        "ALTER TABLE blank ALTER c TYPE inet",
        "INSERT INTO blank VALUES (1, 'x', '1.2.3.4/32')",
        NEXT_WINDOW,
        "ALTER TABLE blank ALTER c TYPE text",
    ]
    mirrored.require(_table("blank", ", c cidr"), work, "blank")


def test_an_attribute_that_comes_again_is_refused_though_no_row_changes(mirrored: Mirrored) -> None:
    setup = ["CREATE TYPE pair_type AS (a int, b int)", "CREATE TABLE of_pair (id int PRIMARY KEY, c pair_type)"]
    work = [
        "INSERT INTO of_pair VALUES (1, ROW(1, 2))",
        NEXT_WINDOW,
        "ALTER TYPE pair_type DROP ATTRIBUTE b, ADD ATTRIBUTE b int",
        NEXT_WINDOW,
    ]
    error = mirrored.error(setup, work)
    assert 'an attribute of pair_type, the type of column "c" of table public.of_pair, is another one now' in str(error)
    assert error.lsn


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("hues", "c {0}[]"),
        pytest.param("hue", "c {0}", marks=pytest.mark.slow),
        pytest.param("tint", "c {0}_d", marks=pytest.mark.slow),
    ],
)
def test_a_label_that_is_renamed_is_refused(mirrored: Mirrored, name: str, labels: str) -> None:
    setup = [f"CREATE TYPE {name} AS ENUM ('red', 'green')", f"CREATE DOMAIN {name}_d AS {name}"]
    setup += _table(f"of_{name}", ", " + labels.format(name))
    value = "'{red}'" if "[]" in labels else "'red'"
    work = [
        f"INSERT INTO of_{name} VALUES (1, 'x', {value})",
        f"ALTER TYPE {name} ADD VALUE 'blue'",
        NEXT_WINDOW,
        f"ALTER TYPE {name} RENAME VALUE 'red' TO 'crimson'",
        NEXT_WINDOW,
    ]
    error = mirrored.error(setup, work)
    assert "is another one now, and the server has not written its rows anew" in str(error)
    assert error.lsn


def test_partitions_take_their_rows_with_them(mirrored: Mirrored) -> None:
    work = [
        "INSERT INTO event SELECT i, i % 2 FROM generate_series(1, 20) i",
        "CREATE TABLE event_2 PARTITION OF event FOR VALUES IN (2)",
        "INSERT INTO event SELECT i, 2 FROM generate_series(1, 20) i",
        NEXT_WINDOW,
        "TRUNCATE event_0",
        "INSERT INTO event VALUES (1, 0)",
        "UPDATE event SET region = 0 WHERE id = 7 AND region = 1",
        NEXT_WINDOW,
        "ALTER TABLE event DETACH PARTITION event_1",
        NEXT_WINDOW,
        "DROP TABLE event_2",
        "CREATE TABLE event_3 (LIKE event)",
        "ALTER TABLE event ATTACH PARTITION event_3 FOR VALUES IN (3)",
        "INSERT INTO event VALUES (1, 3)",
    ]
    mirrored.require(EVENT, work, "event")


_RANGES = "PARTITION BY RANGE (id)"
_HUNDREDS = "FOR VALUES FROM (100) TO (200)"


@pytest.mark.parametrize(
    "work",
    [
        [
            "CREATE TABLE {0}_1 (LIKE {0}) PARTITION BY RANGE (id)",
            "CREATE TABLE {0}_2 PARTITION OF {0}_1 DEFAULT",
            "INSERT INTO {0}_1 VALUES (101)",
            "ALTER TABLE {0} ATTACH PARTITION {0}_1 {1}",
        ],
        [
            "CREATE TABLE {0}_2 (LIKE {0})",
            "INSERT INTO {0}_2 VALUES (101)",
            NEXT_WINDOW,
            "CREATE TABLE {0}_1 (LIKE {0}) PARTITION BY RANGE (id)",
            "ALTER TABLE {0}_1 ATTACH PARTITION {0}_2 DEFAULT",
            "ALTER TABLE {0} ATTACH PARTITION {0}_1 {1}",
        ],
    ],
    ids=["with a partition", "with one of before"],
)
def test_a_partition_that_is_made_in_the_window_and_brings_rows_is_refused(
    mirrored: Mirrored, work: Statements, request: pytest.FixtureRequest
) -> None:
    name = f"brought_{request.node.callspec.id.replace(' ', '_')}"
    setup = [f"CREATE TABLE {name} (id int PRIMARY KEY) {_RANGES}"]
    message = mirrored.refused(setup, [statement.format(name, _HUNDREDS) for statement in work])
    assert f'partition "public.{name}_1" was there before it was attached' in message


def test_a_partition_is_made_detached_and_attached_again(mirrored: Mirrored) -> None:
    """The window is cut."""
    setup = [f"CREATE TABLE back (id int PRIMARY KEY) {_RANGES}"]
    work = [
        "CREATE TABLE back_1 PARTITION OF back {0}",
        "INSERT INTO back VALUES (101)",
        "ALTER TABLE back DETACH PARTITION back_1",
        "INSERT INTO back_1 VALUES (102)",
        "ALTER TABLE back ATTACH PARTITION back_1 {0}",
        "DELETE FROM back WHERE id = 101",
        "ALTER TABLE back DETACH PARTITION back_1",
        "ALTER TABLE back ATTACH PARTITION back_1 {0}",
    ]
    mirrored.require(setup, [statement.format(_HUNDREDS) for statement in work], "back")


def test_a_partition_that_a_transaction_changes_while_it_is_detached_is_refused(mirrored: Mirrored) -> None:
    setup = [
        f"CREATE TABLE aside (id int PRIMARY KEY) {_RANGES}",
        f"CREATE TABLE aside_1 PARTITION OF aside {_HUNDREDS}",
    ]
    work = [
        "INSERT INTO aside VALUES (101)",
        "BEGIN; ALTER TABLE aside DETACH PARTITION aside_1; INSERT INTO aside_1 VALUES (102); "
        f"ALTER TABLE aside ATTACH PARTITION aside_1 {_HUNDREDS}; COMMIT",
    ]
    assert 'partition "public.aside_1" was changed while a transaction had it detached' in mirrored.refused(setup, work)


@pytest.mark.parametrize(
    "leaving", ["DROP TABLE {0}_1", pytest.param("ALTER TABLE {0} DETACH PARTITION {0}_1", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("mode", ["current", pytest.param("history", marks=pytest.mark.slow)])
def test_a_partition_that_leaves_with_the_transaction_that_made_it_leaves_no_rows(
    engine: Engine, source: Source, tmp_path: Path, mode: str, leaving: str
) -> None:
    mirrored = Mirrored(engine, source, tmp_path / "lake", mode)
    name = f"short_{mode}_{leaving.split()[0].lower()}"
    setup = [
        f"CREATE TABLE {name} (id int PRIMARY KEY) {_RANGES}",
        f"CREATE TABLE {name}_0 PARTITION OF {name} FOR VALUES FROM (0) TO (100)",
    ]
    work = [
        f"INSERT INTO {name} VALUES (1)",
        f"BEGIN; CREATE TABLE {name}_1 PARTITION OF {name} {_HUNDREDS}; INSERT INTO {name} VALUES (2), (101); "
        f"{leaving.format(name)}; COMMIT",
        f"INSERT INTO {name} VALUES (3)",
    ]
    mirrored.require(setup, work, name)


def test_a_table_that_a_transaction_fills_as_a_partition_is_refused(mirrored: Mirrored) -> None:
    setup = [f"CREATE TABLE lent (id int PRIMARY KEY) {_RANGES}", "CREATE TABLE lent_1 (id int PRIMARY KEY)"]
    work = [
        "INSERT INTO lent_1 VALUES (100)",
        NEXT_WINDOW,
        f"BEGIN; ALTER TABLE lent ATTACH PARTITION lent_1 {_HUNDREDS}; INSERT INTO lent VALUES (101); "
        "ALTER TABLE lent DETACH PARTITION lent_1; COMMIT",
    ]
    assert 'table "public.lent_1" was a partition and has rows from then' in mirrored.refused(setup, work)


def test_a_row_that_is_not_there_is_told(mirrored: Mirrored) -> None:
    setup = ["CREATE TABLE older (id int PRIMARY KEY, note text)", "INSERT INTO older VALUES (1, 'was there')"]
    mirrored.target = replace(mirrored.target, snapshot="never")
    with pytest.warns(match="those that tables had before are missing"):
        message = mirrored.refused(setup, ["UPDATE older SET note = 'x'"])
    assert "table public.older: a row is updated that is not there (at " in message


def test_a_table_without_identity_takes_inserts_alone(mirrored: Mirrored) -> None:
    setup = ["CREATE TABLE nameless (id int)"]
    mirrored.require(setup, ["INSERT INTO nameless VALUES (1), (1), (2)"], "nameless")


@pytest.mark.parametrize(
    "change", ["UPDATE unknown SET id = 2", pytest.param("DELETE FROM unknown", marks=pytest.mark.slow)]
)
def test_a_change_of_a_row_that_nothing_tells_is_told(mirrored: Mirrored, change: str) -> None:
    setup = ["DROP TABLE IF EXISTS unknown", "CREATE TABLE unknown (id int)"]
    message = mirrored.refused(setup, ["INSERT INTO unknown VALUES (1)", change])
    assert 'table "public.unknown" has no replica identity, and a row of it is ' in message


def test_an_identity_that_changes_between_windows(mirrored: Mirrored) -> None:
    setup = [
        "CREATE TABLE moody (id int PRIMARY KEY, other int NOT NULL, note text)",
        "CREATE UNIQUE INDEX moody_other ON moody (other)",
    ]
    work = [
        "INSERT INTO moody SELECT i, -i, 'x' FROM generate_series(1, 20) i",
        "UPDATE moody SET note = 'y' WHERE id < 5",
        NEXT_WINDOW,
        "ALTER TABLE moody REPLICA IDENTITY USING INDEX moody_other",
        "UPDATE moody SET other = other - 100, note = 'z' WHERE id < 3",
        NEXT_WINDOW,
        "ALTER TABLE moody REPLICA IDENTITY FULL",
        "UPDATE moody SET id = id + 100",
        "DELETE FROM moody WHERE note = 'z'",
    ]
    mirrored.require(setup, work, "moody")


def _named(statements: Statements, table: str) -> Statements:
    return [statement.replace("{}", table) for statement in statements]


def test_an_identity_changes_in_a_window(mirrored: Mirrored) -> None:
    """The window is cut; what one transaction does is not."""
    setup = [
        "CREATE TABLE {} (id int PRIMARY KEY, other int NOT NULL)",
        "CREATE UNIQUE INDEX {}_other ON {} (other)",
        "INSERT INTO {} SELECT i, -i FROM generate_series(1, 20) i",
    ]
    work = [
        "UPDATE {} SET id = id + 1000",
        "ALTER TABLE {} REPLICA IDENTITY USING INDEX {}_other",
        "UPDATE {} SET other = other - 1000",
    ]
    mirrored.require(_named(setup, "torn"), _named(work, "torn"), "torn")
    again = Mirrored(mirrored.engine, mirrored.source, mirrored.target.place.with_name("again"))
    at_once = "; ".join(["BEGIN", *_named(work, "torn_at_once"), "COMMIT"])
    message = again.refused(_named(setup, "torn_at_once"), [at_once])
    assert 'the replica identity of table "public.torn_at_once" has changed' in message


def test_a_table_that_is_set_unlogged_is_refused(mirrored: Mirrored) -> None:
    work = ["INSERT INTO unlogged VALUES (1)", "ALTER TABLE unlogged SET UNLOGGED"]
    assert 'table "public.unlogged" was set unlogged' in mirrored.refused(_table("unlogged"), work)


def test_a_target_keeps_its_mode(mirrored: Mirrored, engine: Engine, source: Source) -> None:
    mirrored.require(_table("kept"), ["INSERT INTO kept VALUES (1)"], "kept")
    other = Mirrored(engine, source, mirrored.target.place, "history")
    with pytest.raises(LakeError, match="the tables have mode current, not history"):
        other.land(source.place / str(source.runs))


def test_a_transaction_that_was_open_between_windows_changes_definitions_where_it_commits(
    mirrored: Mirrored, source: Source
) -> None:
    """The catalog's rows that it has made are of the window before."""
    setup = [*_table("spanned"), "INSERT INTO spanned VALUES (1, 'x'), (2, NULL)"]
    with source.server.connect() as connection:
        for statement in setup:
            connection.execute(statement)
    backup, _ = source.after([], [], [])
    with source.server.connect() as connection, source.server.connect() as other:
        other.autocommit = True
        connection.execute("ALTER TABLE spanned ADD more int DEFAULT 7")
        other.execute(NEXT_WINDOW)
        other.execute("CHECKPOINT")
        other.execute(NEXT_WINDOW)
        connection.commit()
        held = server_rows(other, "spanned")
        other.execute(NEXT_WINDOW)
    mirrored.land(backup)
    assert mirrored.rows("spanned", held[0]) == held[1]


def test_messages_name_the_column_of_the_source(mirrored: Mirrored) -> None:
    """Not the lake's, where it is the second one of its name."""
    work = [
        "INSERT INTO again VALUES (1, 'x', 'a')",
        NEXT_WINDOW,
        "ALTER TABLE again DROP c",
        "ALTER TABLE again ADD c integer",
        "UPDATE again SET c = -1",
        NEXT_WINDOW,
        "ALTER TABLE again ALTER c TYPE oid",
        NEXT_WINDOW,
    ]
    error = mirrored.error(_table("again", ", c text"), work)
    assert str(error).startswith('column "c" of table public.again is oid now, which prints integer otherwise')


def test_messages_name_the_table_that_is_written_anew(mirrored: Mirrored) -> None:
    """Not the transient heap that it is written to."""
    work = [
        "INSERT INTO named VALUES (1, 'x', 1)",
        NEXT_WINDOW,
        "ALTER TABLE named ALTER c TYPE numeric(10,2) USING 'NaN'",
        NEXT_WINDOW,
    ]
    backup, _ = mirrored.source.after(_table("named", ", c integer"), work, [])
    with pytest.raises(HeadwaterError) as raised:
        mirrored.land(backup)
    expected = 'column "c" of table "public.named" holds NaN, which Parquet\'s decimal128(10, 2) cannot hold (at '
    assert str(raised.value).startswith(expected)
    assert "--on-unrepresentable null" in str(raised.value)
