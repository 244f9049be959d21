"""Initial copies, publications that come and go, schemas, and clean ends: scripts 004, 007, 024, 025 and 037."""

from __future__ import annotations

import pytest

from apply.scripts.script_runner import Script
from serving.service import wait_until

SPAN = "SELECT count(*), min(a), max(a) FROM {}"


def test_004_copies_that_fail_and_subscriptions_that_are_made_again(script: Script) -> None:
    script.everywhere("CREATE TABLE t (a int PRIMARY KEY)")
    script.on_source("INSERT INTO t SELECT generate_series(1, 10)", "CREATE PUBLICATION p FOR ALL TABLES")
    script.subscribe("p")
    assert script.rows(SPAN.format("t")) == ["10|1|10"]
    script.drop()
    script.on_source("INSERT INTO t SELECT generate_series(11, 20)")
    applied = script.subscribe("p", waits=False)
    wait_until(lambda: applied.has_met('duplicate key value violates unique constraint "t_pkey"'))
    assert script.rows("SELECT srsubstate FROM headwater.subscription_rel") == ["d"]
    script.on_target("DELETE FROM t")
    script.catch_up()
    assert script.rows(SPAN.format("t")) == ["20|1|20"]
    script.subscribe("p", name="other", flags=["--no-copy-data"])
    script.drop("other")
    script.on_source("CREATE TABLE later AS SELECT generate_series(1, 10) a")
    script.on_target("CREATE TABLE later (a int)")
    script.catch_up()
    assert script.rows(SPAN.format("later")) == ["0||"]
    script.refresh()
    script.on_source("INSERT INTO later SELECT generate_series(1, 10)")
    script.catch_up()
    assert script.rows(SPAN.format("later")) == ["20|1|10"]
    script.drop()
    # A subscription whose copy can never succeed leaves nothing, either.
    applied = script.subscribe("p", waits=False)
    wait_until(lambda: applied.has_met("duplicate key"))
    script.drop()
    wait_until(lambda: script.leftovers() == [])


def test_007_dropped_without_its_slot(script: Script) -> None:
    script.everywhere("CREATE TABLE t (a int, b text)")
    script.on_source("CREATE PUBLICATION p FOR ALL TABLES")
    script.subscribe("p")
    script.subscription("drop", "sub", "--keep-slot")
    assert script.applied.pop("sub").waits() is None
    assert script.rows("SELECT count(*) FROM headwater.subscription") == ["0"]


def test_007_publications_that_are_missing(script: Script) -> None:
    script.everywhere("CREATE TABLE t (a int)")
    script.on_source("CREATE PUBLICATION p FOR ALL TABLES")
    applied = script.subscribe("p", "missing", waits=False)
    wait_until(lambda: applied.has_met('"missing" does not exist') or applied.has_said('"missing" does not exist'))


@pytest.mark.parametrize("what", ["TABLE t", "ALL TABLES"])
def test_007_publications_whose_names_are_swapped(script: Script, what: str) -> None:
    script.everywhere("CREATE TABLE t (a int)")
    script.on_source("CREATE PUBLICATION empty", f"CREATE PUBLICATION full_one FOR {what}")
    script.subscribe("full_one")
    script.on_source("INSERT INTO t VALUES (1)")
    script.catch_up()
    names = (("full_one", "third"), ("empty", "full_one"), ("third", "empty"))
    script.on_source(*(f"ALTER PUBLICATION {name} RENAME TO {other}" for name, other in names))
    script.on_source("INSERT INTO t VALUES (2)")
    script.catch_up()
    assert script.rows("SELECT * FROM t") == ["1"]


def test_024_publications_that_are_set(script: Script) -> None:
    """Each publication that is added has its tables copied again, as SET PUBLICATION does."""
    script.everywhere("CREATE TABLE t1 (a int)", "CREATE TABLE t2 (a int)")
    script.on_source("INSERT INTO t1 SELECT generate_series(1, 10)", "CREATE PUBLICATION p1 FOR TABLE t1")
    script.on_source("CREATE PUBLICATION p2", "INSERT INTO t2 SELECT generate_series(1, 10)")
    script.subscribe("p1", "p2")
    assert script.rows(SPAN.format("t1")) == ["10|1|10"]
    script.on_source("ALTER PUBLICATION p2 ADD TABLE t2")
    script.alter("sub", "publication=p2")
    wait_until(lambda: script.applied["sub"].tables() == {"public.t2"})
    script.catch_up()
    assert script.rows(SPAN.format("t2")) == ["10|1|10"]
    script.alter("sub", "publication=p2", "publication=p1")
    wait_until(lambda: script.applied["sub"].tables() == {"public.t1", "public.t2"})
    script.catch_up()
    assert script.rows(SPAN.format("t1")) == ["20|1|10"]


def test_025_schemas(script: Script) -> None:
    if script.major < 15:
        pytest.skip("publications of 15 have schemas")
    tables = (
        "CREATE SCHEMA sch1",
        "CREATE TABLE sch1.t1 (a int)",
        "CREATE TABLE sch1.t2 (a int)",
        "CREATE TABLE sch1.parent (a int PRIMARY KEY, b text) PARTITION BY LIST (a)",
        "CREATE TABLE child1 PARTITION OF sch1.parent FOR VALUES IN (1, 2, 3)",
        "CREATE TABLE child2 PARTITION OF sch1.parent FOR VALUES IN (4, 5, 6)",
    )
    script.everywhere(*tables)
    script.on_source(*(f"INSERT INTO sch1.t{number} SELECT generate_series(1, 10)" for number in (1, 2)))
    script.on_source("INSERT INTO sch1.parent VALUES (1), (4)", "CREATE PUBLICATION p FOR TABLES IN SCHEMA sch1")
    script.subscribe("p")
    assert script.rows(SPAN.format("sch1.t1")) == script.rows(SPAN.format("sch1.t2")) == ["10|1|10"]
    script.on_source("INSERT INTO sch1.t1 SELECT generate_series(11, 20)", "INSERT INTO sch1.parent VALUES (2), (5)")
    script.catch_up()
    assert script.rows(SPAN.format("sch1.t1")) == ["20|1|20"]
    assert script.rows("SELECT a FROM sch1.parent ORDER BY 1") == ["1", "2", "4", "5"]
    script.on_source("CREATE TABLE sch1.t3 AS SELECT generate_series(1, 10) a")
    script.on_target("CREATE TABLE sch1.t3 (a int)")
    script.catch_up()
    assert script.rows(SPAN.format("sch1.t3")) == ["0||"]
    script.refresh()
    script.on_source("INSERT INTO sch1.t3 VALUES (11)")
    script.catch_up()
    assert script.rows(SPAN.format("sch1.t3")) == ["11|1|11"]
    script.on_source("ALTER TABLE sch1.t3 SET SCHEMA public", "INSERT INTO t3 VALUES (12)")
    script.catch_up()
    assert script.rows(SPAN.format("sch1.t3")) == ["11|1|11"]
    assert len(script.tables()) == 5
    script.refresh()
    assert len(script.tables()) == 4
    script.on_source("DROP TABLE sch1.t2")
    script.refresh()
    assert script.tables() == ["public.child1", "public.child2", "sch1.t1"]
    script.on_source("INSERT INTO sch1.t1 VALUES (21)", "ALTER PUBLICATION p DROP TABLES IN SCHEMA sch1")
    script.on_source("INSERT INTO sch1.t1 VALUES (22)")
    script.catch_up()
    assert script.rows(SPAN.format("sch1.t1")) == ["21|1|21"]


def test_037_all_tables_but_some(script: Script) -> None:
    if script.major < 19:
        pytest.skip("publications of 19 leave tables out")
    script.everywhere(*(f"CREATE TABLE {name} (a int)" for name in ("t", "parent", "other")))
    script.everywhere("CREATE TABLE child (b int) INHERITS (parent)")
    script.on_source("INSERT INTO t SELECT generate_series(1, 10)")
    script.on_source("CREATE PUBLICATION p FOR ALL TABLES EXCEPT (TABLE t, parent)")
    script.subscribe("p")
    script.on_source("INSERT INTO t VALUES (11)", "INSERT INTO child VALUES (1, 1)", "INSERT INTO other VALUES (1)")
    script.catch_up()
    counts = "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM child), (SELECT count(*) FROM other)"
    assert script.rows(counts) == ["0|0|1"]
    script.on_source("ALTER PUBLICATION p SET ALL TABLES EXCEPT (TABLE other)")
    script.refresh()
    assert script.rows(counts) == ["11|1|1"]
