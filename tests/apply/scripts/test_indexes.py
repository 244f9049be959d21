"""Whole rows looked up by indexes, keys without overlaps, and defects of once: scripts 032, 034 and 100."""

from __future__ import annotations

import pytest

from apply.scripts.script_runner import Script, place, rows_in, run_in
from serving.service import wait_until

FULL = "ALTER TABLE t REPLICA IDENTITY FULL"
INDEXES = {
    "columns": ("CREATE INDEX i ON t (x, y)", 1),
    "hash": ("CREATE INDEX i ON t USING hash (x)", 1),
    "unique": ("CREATE UNIQUE INDEX i ON t (x, y)", 1),
    "an expression beside columns": ("CREATE INDEX i ON t (x, y, (x || y))", 1),
    "an expression alone": ("CREATE INDEX i ON t ((x || y))", None),
    "a predicate": ("CREATE INDEX i ON t (x) WHERE x < 3", None),
}


@pytest.mark.parametrize("name", INDEXES)
def test_032_indexes_for_whole_rows(script: Script, name: str) -> None:
    """From 16 on the server uses those that begin with a column; here it may use others, too, to the same end."""
    if script.major < 16:
        pytest.skip("servers of 16 look rows up by indexes")
    index, uses = INDEXES[name]
    script.everywhere("CREATE TABLE t (x int, y text)")
    script.on_target(index)
    script.on_source(FULL, "INSERT INTO t SELECT i, i % 10 FROM generate_series(0, 200) i")
    script.on_source("CREATE PUBLICATION p FOR TABLE t")
    script.subscribe("p", flags=["--no-batches"])
    script.on_source("DELETE FROM t WHERE x IN (5, 6)", "UPDATE t SET x = x + 1000, y = '200' WHERE x IN (1, 2)")
    script.catch_up()
    assert script.rows("SELECT count(*), count(*) FILTER (WHERE y = '200'), max(x) FROM t") == ["199|2|1002"]
    assert script.conflicts() == []  # Rows that were copied are the subscription's own.
    script.applied["sub"].stop()  # Its session says what it has used.
    scans = "SELECT idx_scan > 0 FROM pg_stat_all_indexes WHERE indexrelname = 'i'"
    wait_until(lambda: uses is None or script.rows(scans) == ["t"])


def test_032_partitions_and_rows_with_nulls(script: Script) -> None:
    parts = (
        "CREATE TABLE t (a bigint, b int, c int) PARTITION BY RANGE (b)",
        "CREATE TABLE t_0 PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (10) TO (20)",
    )
    script.everywhere(*parts)
    script.on_target("CREATE INDEX i ON t (a, b)")
    script.on_source(*(f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in ("t", "t_0", "t_1")))
    script.on_source("INSERT INTO t SELECT i % 100, i % 20, i FROM generate_series(0, 100) i")
    script.on_source("CREATE TABLE n (x int); ALTER TABLE n REPLICA IDENTITY FULL")
    script.on_target("CREATE TABLE n (x int, y int); CREATE INDEX ON n (x, y)")
    script.on_source("CREATE PUBLICATION p FOR TABLE t, n")
    script.subscribe("p")
    script.on_source("UPDATE t SET b = 0 WHERE a = 4", "DELETE FROM t WHERE a = b AND a IN (1, 12)")
    script.on_source("INSERT INTO n VALUES (1), (2), (3)", "UPDATE n SET x = 2 WHERE x = 1")
    script.catch_up()
    assert script.rows("SELECT sum(a + b + c), count(DISTINCT (a, b, c)) FROM t") == ["10907|99"]
    assert script.rows("SELECT sum(x), count(*) FROM n WHERE y IS NULL") == ["7|3"]


def test_032_rows_that_are_here_alone(script: Script) -> None:
    script.everywhere("CREATE TABLE t (x int, y int)")
    script.on_target("CREATE UNIQUE INDEX ON t (x, y)")
    script.on_source(
        FULL, "INSERT INTO t SELECT i, i FROM generate_series(0, 21) i", "CREATE PUBLICATION p FOR TABLE t"
    )
    script.subscribe("p")
    script.on_target("INSERT INTO t SELECT i + 100, i FROM generate_series(0, 21) i")
    script.on_source("UPDATE t SET x = 2000 WHERE y = 15")
    script.catch_up()
    assert script.rows("SELECT x, y FROM t WHERE y = 15 ORDER BY x") == ["115|15", "2000|15"]


KEY = "id int4range NOT NULL, valid_at daterange NOT NULL, a text"
OVERLAPS = {
    "DEFAULT": "PRIMARY KEY (id, valid_at WITHOUT OVERLAPS)",
    "FULL": "UNIQUE (id, valid_at WITHOUT OVERLAPS)",
    "USING INDEX t_id_valid_at_key": "UNIQUE (id, valid_at WITHOUT OVERLAPS)",
    "NOTHING": "PRIMARY KEY (id, valid_at WITHOUT OVERLAPS)",
}


@pytest.mark.parametrize("identity", OVERLAPS)
def test_034_keys_without_overlaps(script: Script, identity: str) -> None:
    if script.major < 18:
        pytest.skip("servers of 18 have keys without overlaps")
    script.everywhere(f"CREATE TABLE t ({KEY}, {OVERLAPS[identity]})", f"ALTER TABLE t REPLICA IDENTITY {identity}")
    row = "INSERT INTO t VALUES ('[{0},{1})', '[2000-01-01,2010-01-01)', 'a')"
    script.on_source(row.format(1, 2), "CREATE PUBLICATION p FOR ALL TABLES")
    script.subscribe("p")
    script.on_source(*(row.format(number, number + 1) for number in (2, 3, 4)))
    if identity != "NOTHING":
        script.on_source(
            "UPDATE t SET a = 'b' WHERE id = '[2,3)'",
            "UPDATE t SET valid_at = '[2000-01-01,2001-01-01)' WHERE id = '[2,3)'",
            "INSERT INTO t VALUES ('[2,3)', '[2001-01-01,2002-01-01)', 'c')",
            "DELETE FROM t WHERE id = '[3,4)'",
        )
    script.catch_up()
    everything = "SELECT * FROM t ORDER BY 1, 2"
    assert script.rows(everything) == script.source_rows(everything)
    assert len(script.rows(everything)) == 4


def test_100_predicates_of_indexes_that_call_functions(script: Script) -> None:
    script.everywhere(
        "CREATE TABLE t (a int PRIMARY KEY, b int)",
        "CREATE FUNCTION double(x int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT x * 2'",
        "CREATE INDEX ON t (b) WHERE a > double(1)",
    )
    script.on_source("CREATE PUBLICATION p FOR ALL TABLES")
    script.subscribe("p")
    script.on_source("INSERT INTO t VALUES (1, 2), (3, 4)", "UPDATE t SET b = 5 WHERE a = 3")
    script.catch_up()
    assert script.rows("SELECT * FROM t ORDER BY 1") == ["1|2", "3|5"]


def test_100_a_slot_that_was_made_before_and_a_table_that_is_added(script: Script) -> None:
    script.everywhere("CREATE TABLE t (f int)", "CREATE TABLE t2 (f int)")
    many = "INSERT INTO {} SELECT generate_series(1, 3000)"
    script.on_source(many.format("t"), many.format("t2"), "CREATE PUBLICATION p FOR TABLE t")
    source = script.source
    if script.serving is None:
        script.on_source(f"SELECT pg_create_logical_replication_slot('{script.name('slot')}', 'pgoutput')")
        script.subscribe("p", flags=["--no-create-slot", "--slot", script.name("slot"), "--from", source])
    else:
        script.subscribe("p")
    script.on_source(many.format("t"), many.format("t2"), "ALTER PUBLICATION p ADD TABLE t2")
    script.refresh()
    assert script.rows("SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM t2)") == ["6000|6000"]


def test_100_rows_that_were_copied_are_handed_on(script: Script) -> None:
    script.everywhere("CREATE TABLE t (a int)")
    script.on_source("INSERT INTO t SELECT generate_series(1, 10)", "CREATE PUBLICATION p FOR TABLE t")
    script.on_target("CREATE PUBLICATION further FOR TABLE t")
    further, last = f"{script.database}_further", script.servers.publisher
    run_in(last, "postgres", f"CREATE DATABASE {further}")
    run_in(last, further, "CREATE TABLE t (a int)")
    places = ["--from", place(script.servers.target, script.database), "--to", place(last, further)]
    onward = script.subscribe("further", name="onward", flags=places, waits=False)
    wait_until(lambda: onward.tables() == {"public.t"} and onward.is_at(0))
    sub = script.subscribe("p", waits=False)
    wait_until(lambda: rows_in(last, further, "SELECT count(*) FROM t") == ["10"])
    assert sub.errors == []


def test_100_another_index_becomes_the_identity(script: Script) -> None:
    script.everywhere(
        "CREATE TABLE t (a int NOT NULL, b int NOT NULL)",
        "CREATE UNIQUE INDEX i_a ON t (a); CREATE UNIQUE INDEX i_b ON t (b)",
    )
    script.on_source("ALTER TABLE t REPLICA IDENTITY USING INDEX i_a", "INSERT INTO t VALUES (1, 1), (2, 2)")
    script.on_target("ALTER TABLE t REPLICA IDENTITY USING INDEX i_b")
    script.on_source("CREATE PUBLICATION p FOR TABLE t")
    script.subscribe("p")
    script.on_source("ALTER TABLE t REPLICA IDENTITY USING INDEX i_b", "UPDATE t SET a = -a WHERE a = 1")
    script.on_source("DELETE FROM t WHERE a = 2")
    script.catch_up()
    assert script.rows("SELECT * FROM t") == ["-1|1"]


def test_100_a_schema_that_is_renamed_amid_a_transaction(script: Script) -> None:
    script.on_source("CREATE SCHEMA sch1", "CREATE TABLE sch1.t (a int)")
    for schema in ("sch1", "sch2"):
        script.on_target(f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.t (a int)")
    script.on_source("CREATE PUBLICATION p FOR ALL TABLES")
    script.subscribe("p")
    script.on_source(
        "BEGIN; INSERT INTO sch1.t VALUES (1); ALTER SCHEMA sch1 RENAME TO sch2; CREATE SCHEMA sch1; "
        "CREATE TABLE sch1.t (a int); INSERT INTO sch1.t VALUES (2); INSERT INTO sch2.t VALUES (3); COMMIT"
    )
    script.catch_up()
    assert script.rows("SELECT a FROM sch1.t ORDER BY 1") == ["1", "2"]
    assert script.rows("SELECT a FROM sch2.t") == []
    script.refresh()
    assert script.rows("SELECT a FROM sch2.t ORDER BY 1") == ["1", "3"]


def test_100_columns_that_were_dropped_and_defaults_that_were_added(script: Script) -> None:
    script.everywhere("CREATE TABLE t (a int, gone int, c int)")
    script.on_source(
        "CREATE TABLE u (a int); INSERT INTO u VALUES (1); ALTER TABLE u ADD b bool NOT NULL DEFAULT false"
    )
    script.on_target("CREATE TABLE u (a int, b bool)")
    script.on_source(FULL, "ALTER TABLE u REPLICA IDENTITY FULL", "INSERT INTO t VALUES (1, 1, 1)")
    script.on_source("INSERT INTO u VALUES (2, true)", "CREATE PUBLICATION p FOR TABLE t, u")
    script.subscribe("p")
    script.everywhere("ALTER TABLE t DROP gone")
    script.on_source("UPDATE t SET a = 100", "UPDATE u SET a = a + 1")
    script.catch_up()
    assert script.rows("SELECT * FROM t") == ["100|1"]
    assert script.rows("SELECT * FROM u ORDER BY 1") == ["2|f", "3|t"]


def test_100_a_trigger_that_handles_an_exception(script: Script) -> None:
    """The origin moves all the same, so that nothing comes twice behind a restart."""
    script.everywhere("CREATE TABLE t (a int)")
    script.on_source("CREATE PUBLICATION p FOR TABLE t")
    applied = script.subscribe("p")
    script.on_target(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN BEGIN RAISE 'x'; EXCEPTION WHEN OTHERS THEN "
        "RETURN new; END; RETURN new; END$$",
        "CREATE TRIGGER f AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f(); ALTER TABLE t ENABLE ALWAYS TRIGGER f",
    )
    lsn = f"SELECT remote_lsn FROM pg_replication_origin_status WHERE external_id = 'headwater_{script.name('sub')}'"
    before = script.rows(lsn)
    script.on_source("INSERT INTO t VALUES (1)")
    script.catch_up()
    assert script.rows(lsn) != before
    applied.stop()
    applied.start()
    script.catch_up()
    assert script.rows("SELECT a FROM t") == ["1"]
