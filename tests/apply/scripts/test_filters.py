"""Row filters and lists of columns of publications: scripts 028 and 031."""

from __future__ import annotations

import pytest

from apply.scripts.script_runner import Script
from serving.service import wait_until

NEEDS = "publications of 15 have row filters and lists of columns"


@pytest.fixture(autouse=True)
def of_15(script: Script) -> None:
    """Leave the test out where publications have neither."""
    if script.major < 15:
        pytest.skip(NEEDS)


def keys(script: Script, table: str, column: str = "a") -> str:
    """Return the keys of a table."""
    return " ".join(script.rows(f"SELECT {column} FROM {table} ORDER BY 1"))


def test_028_publications_of_all_tables_do_not_filter(script: Script) -> None:
    script.everywhere("CREATE SCHEMA s", "CREATE TABLE s.t (a int PRIMARY KEY)", "CREATE TABLE u (a int PRIMARY KEY)")
    script.on_source(*(f"INSERT INTO {name} VALUES (0), (5), (10), (15), (20)" for name in ("s.t", "u")))
    script.on_source(
        "CREATE PUBLICATION filtered FOR TABLE s.t WHERE (a > 10), TABLE u WHERE (a > 10)",
        "CREATE PUBLICATION of_schema FOR TABLES IN SCHEMA s",
    )
    script.subscribe("filtered", "of_schema")
    script.on_source(*(f"INSERT INTO {name} VALUES (-99), (99)" for name in ("s.t", "u")))
    script.catch_up()
    assert keys(script, "s.t") == "-99 0 5 10 15 20 99"
    assert keys(script, "u") == "15 20 99"
    script.on_source("CREATE PUBLICATION everything FOR ALL TABLES")
    script.alter("sub", "publication=filtered", "publication=everything")
    script.on_source("INSERT INTO u VALUES (-98)")
    script.catch_up()
    assert keys(script, "u") == "-98 15 20 99"


def test_028_rows_that_enter_and_leave(script: Script) -> None:
    script.everywhere("CREATE TABLE t (a int PRIMARY KEY, b text)", "CREATE TABLE two (a int PRIMARY KEY)")
    script.on_source(
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t SELECT x, 'test ' || x FROM generate_series(990, 1002) x",
        "INSERT INTO t VALUES (1, 'no'), (1500, 'filtered'), (1980, 'not filtered')",
        "INSERT INTO two SELECT generate_series(1, 20)",
        "CREATE PUBLICATION p1 FOR TABLE t WHERE (a > 1000 AND b <> 'filtered'), two WHERE (a % 2 = 0)",
        "CREATE PUBLICATION p2 FOR TABLE two WHERE (a % 3 = 0)",
        "CREATE PUBLICATION unused FOR TABLE t WHERE (a < 0)",
    )
    script.subscribe("p1", "p2")
    assert keys(script, "t") == "1001 1002 1980"
    assert len(script.rows("SELECT 1 FROM two")) == 13
    new = [(800, "test"), (1600, "test"), (1601, "test"), (1602, "filtered"), (1700, "test")]
    script.on_source(*(f"INSERT INTO t VALUES ({number}, '{text}')" for number, text in new))
    script.on_source("UPDATE t SET b = NULL WHERE a = 1600", "UPDATE t SET b = 'new' WHERE a IN (1601, 1602)")
    script.on_source("DELETE FROM t WHERE a = 1700", "INSERT INTO two VALUES (21), (22), (23), (24), (25)")
    script.catch_up()
    assert keys(script, "t") == "1001 1002 1601 1602 1980"
    assert script.rows("SELECT count(*), max(a) FROM two") == ["16|24"]


def test_028_filters_of_partitions_roots_and_long_values(script: Script) -> None:
    script.everywhere(
        "CREATE TABLE t (a int PRIMARY KEY, b int) PARTITION BY RANGE (a)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (MINVALUE) TO (10000)",
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (10000) TO (MAXVALUE)",
        "CREATE TABLE long (a text NOT NULL, b text NOT NULL)",
        "ALTER TABLE long ALTER a SET STORAGE EXTERNAL",
        "CREATE UNIQUE INDEX long_key ON long (a, b); ALTER TABLE long REPLICA IDENTITY USING INDEX long_key",
    )
    script.on_source(
        "CREATE PUBLICATION p FOR TABLE t, low WHERE (a < 6000), "
        "long WHERE (a = repeat('1234567890', 200) AND b < '10')",
        "INSERT INTO t VALUES (1, 100), (7000, 101), (15000, 102), (5500, 300)",
        "INSERT INTO long VALUES (repeat('1234567890', 200), '1234567890')",
    )
    script.subscribe("p")
    assert keys(script, "low") == "1 5500"
    assert keys(script, "high") == "15000"
    script.on_source("UPDATE long SET b = '1'")
    script.catch_up()
    assert script.rows("SELECT a = repeat('1234567890', 200), b FROM long") == ["t|1"]
    script.on_source("ALTER PUBLICATION p SET (publish_via_partition_root = true)")
    script.on_source("ALTER PUBLICATION p SET TABLE t WHERE (a < 5000), low WHERE (a < 6000)")
    script.on_target("TRUNCATE t")
    script.refresh()
    script.on_source("INSERT INTO t VALUES (4000, 400), (4001, 401), (4002, 402), (5600, 1), (14000, 1)")
    script.on_source("UPDATE low SET b = 30 WHERE a = 4001", "DELETE FROM low WHERE a = 4002")
    script.catch_up()
    assert script.rows("SELECT a, b FROM t ORDER BY 1") == ["1|100", "4000|400", "4001|30"]


def test_031_lists_of_columns(script: Script) -> None:
    script.everywhere('CREATE TABLE t1 (a int PRIMARY KEY, "B" int, c int)', "CREATE TYPE typ AS ENUM ('blue', 'red')")
    script.on_source(
        "CREATE TABLE t2 (a int PRIMARY KEY, b varchar, c int)",
        'CREATE TABLE t3 ("a\'" int PRIMARY KEY, "B" varchar, "c\'" int)',
        "CREATE TABLE t4 (a int PRIMARY KEY, b typ, c int, d text)",
        "CREATE TABLE part (a int PRIMARY KEY, b text, c timestamptz) PARTITION BY LIST (a)",
        "CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1, 2, 3)",
        "CREATE TABLE part_2 PARTITION OF part FOR VALUES IN (7, 8, 9) PARTITION BY LIST (a)",
        "CREATE TABLE part_2_1 PARTITION OF part_2 FOR VALUES IN (7, 8)",
        'CREATE PUBLICATION p FOR TABLE t1 (a, "B"), t3 ("a\'", "c\'"), part (a, b), t4 (a, b, d) '
        "WITH (publish_via_partition_root = true)",
    )
    script.on_target(
        "CREATE TABLE t2 (a int PRIMARY KEY, b varchar)",
        'CREATE TABLE t3 ("a\'" int PRIMARY KEY, "c\'" int)',
        "CREATE TABLE t4 (a int PRIMARY KEY, b typ, d text)",
        "CREATE TABLE part (a int PRIMARY KEY, b text) PARTITION BY LIST (a)",
        "CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1, 2, 3, 7, 8, 9)",
    )
    rows = (
        "INSERT INTO t1 VALUES ({0}, 5, 6)",
        "INSERT INTO t3 VALUES ({0}, 5, 6)",
        "INSERT INTO t4 VALUES ({0}, 'red', 5, 'foo')",
        "INSERT INTO part VALUES ({0}, 'abc', now())",
    )
    script.on_source(*(row.format(1) for row in rows), "INSERT INTO t2 VALUES (1, 'abc', 3)")
    script.subscribe("p")
    script.on_source(*(row.format(number) for number in (2, 7) for row in rows))
    script.on_source(
        'UPDATE t1 SET "B" = 10 WHERE a = 1; UPDATE t1 SET c = 7 WHERE a = 2',
        'UPDATE t3 SET "B" = \'x\'; UPDATE t3 SET "c\'" = 12 WHERE "a\'" = 1',
        "UPDATE t4 SET b = 'blue', c = c * 2, d = d || ' updated' WHERE a = 2",
    )
    script.catch_up()
    assert script.rows("SELECT * FROM t1 ORDER BY 1") == ["1|10|", "2|5|", "7|5|"]
    assert script.rows("SELECT * FROM t3 ORDER BY 1") == ["1|12", "2|6", "7|6"]
    assert script.rows("SELECT * FROM t4 ORDER BY 1") == ["1|red|foo", "2|blue|foo updated", "7|red|foo"]
    assert script.rows("SELECT * FROM part ORDER BY 1") == ["1|abc", "2|abc", "7|abc"]
    script.on_source("ALTER PUBLICATION p ADD TABLE t2 (a, b)")
    script.refresh()
    script.on_source("INSERT INTO t2 VALUES (2, 'def', 6)", "UPDATE t2 SET c = 5 WHERE a = 1")
    script.on_source("UPDATE t2 SET b = 'xyz' WHERE a = 2")
    script.catch_up()
    assert script.rows("SELECT * FROM t2 ORDER BY 1") == ["1|abc", "2|xyz"]


def test_031_keys_that_change_within_the_list(script: Script) -> None:
    script.everywhere("CREATE TABLE t (a int PRIMARY KEY, b int, c int, d int)")
    script.on_source("INSERT INTO t VALUES (1, 22, 333, 4444)", "CREATE PUBLICATION p FOR TABLE t (a, b)")
    script.subscribe("p")
    double = "UPDATE t SET b = b * 2, c = c * 3, d = d * 4"
    script.on_source("INSERT INTO t VALUES (2, 33, 444, 5555)", double)
    script.catch_up()
    assert script.rows("SELECT * FROM t ORDER BY 1") == ["1|44||", "2|66||"]
    script.everywhere("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (b)")
    script.on_source("INSERT INTO t VALUES (3, 55, 666, 8888)", double)
    script.catch_up()
    assert script.rows("SELECT * FROM t ORDER BY 1") == ["1|88||", "2|132||", "3|110||"]
    script.on_source("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (b, a)", double)
    script.on_source("DELETE FROM t WHERE a = 1")
    script.catch_up()
    assert script.rows("SELECT * FROM t ORDER BY 1") == ["2|264||", "3|220||"]


def test_031_lists_of_roots_and_leaves(script: Script) -> None:
    leaves = (
        "CREATE TABLE t (a int, b int, c int) PARTITION BY LIST (a)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1, 3); ALTER TABLE t_1 ADD PRIMARY KEY (a)",
        "CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2, 4); ALTER TABLE t_2 ADD PRIMARY KEY (b)",
        "CREATE TABLE r (a int PRIMARY KEY, b int, c int) PARTITION BY RANGE (a)",
        "CREATE TABLE r_1 PARTITION OF r FOR VALUES FROM (1) TO (10)",
        "CREATE TABLE r_2 PARTITION OF r FOR VALUES FROM (10) TO (20)",
    )
    script.everywhere(*leaves)
    script.on_source(
        "INSERT INTO t VALUES (1, 3, 5), (2, 4, 6); INSERT INTO r VALUES (1, 2, 3), (10, 20, 30)",
        "CREATE PUBLICATION of_leaves FOR TABLE t, t_1 (a, c), t_2 (a, b)",
        "CREATE PUBLICATION of_root FOR TABLE r (a) WITH (publish_via_partition_root = true)",
        "CREATE PUBLICATION of_leaf FOR TABLE r_1 (a, b)",
    )
    script.subscribe("of_leaves", name="leaves")
    script.subscribe("of_root", "of_leaf", name="root")
    script.on_source("INSERT INTO t VALUES (3, 7, 8), (4, 9, 10)", "INSERT INTO r VALUES (2, 3, 4), (11, 21, 31)")
    script.catch_up()
    assert script.rows("SELECT * FROM t ORDER BY 1") == ["1||5", "2|4|", "3||8", "4|9|"]
    assert script.rows("SELECT * FROM r ORDER BY 1") == ["1||", "2||", "10||", "11||"]


def test_031_lists_that_contradict_each_other(script: Script) -> None:
    script.everywhere("CREATE TABLE t (a int PRIMARY KEY, b int, c int)")
    script.on_source("CREATE PUBLICATION p1 FOR TABLE t (a, b)", "CREATE PUBLICATION p2 FOR TABLE t (a, c)")
    text = 'cannot use different column lists for table "public.t" in different publications'
    applied = script.subscribe("p1", "p2", waits=False)
    wait_until(lambda: applied.has_met(text) or (applied.has_ended and text in str(applied.failure)))
    script.on_source("ALTER PUBLICATION p1 SET TABLE t (a, c)")
    script.catch_up()
    script.on_source("ALTER PUBLICATION p1 SET TABLE t (a, b)", "INSERT INTO t VALUES (1, 1, 1)")
    applied.errors.clear()
    wait_until(lambda: applied.has_met(text))
