"""Partitioned tables on either side, published as leaves and as roots: script 013."""

from __future__ import annotations

from apply.scripts.script_runner import Script

SOURCE = (
    "CREATE TABLE t (a int PRIMARY KEY, b text) PARTITION BY LIST (a)",
    "CREATE TABLE t_1 (b text, a int NOT NULL)",
    "ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES IN (1, 2, 3)",
    "CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (4, 5, 6)",
    "CREATE TABLE t_def PARTITION OF t DEFAULT",
)
OTHERWISE = (
    "CREATE TABLE t (c text, a int PRIMARY KEY, b text) PARTITION BY LIST (a)",
    "CREATE INDEX ON t USING brin (c)",
    "CREATE TABLE t_1 (b text, c text DEFAULT 'here', a int NOT NULL)",
    "ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES IN (1, 2, 3)",
    "CREATE TABLE t_2 PARTITION OF t (c DEFAULT 'here') FOR VALUES IN (4, 5, 6) PARTITION BY LIST (a)",
    "CREATE TABLE t_2_1 (c text, b text, a int NOT NULL)",
    "ALTER TABLE t_2 ATTACH PARTITION t_2_1 FOR VALUES IN (5)",
    "CREATE TABLE t_2_2 PARTITION OF t_2 FOR VALUES IN (4, 6)",
    "CREATE TABLE t_def PARTITION OF t (c DEFAULT 'here') DEFAULT",
)
PLAIN = tuple(
    f"CREATE TABLE {name} (a int PRIMARY KEY, c text DEFAULT 'in {name}', b text)"
    for name in ("t", "t_1", "t_2", "t_def")
)
NOTES = """
CREATE TABLE notes (of_table text, op text, old int, new int);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.notes SELECT tg_relname, tg_op, CASE tg_op WHEN 'UPDATE' THEN old.a END, new.a;
    RETURN NULL;
END$$;
"""
TRIGGER = (
    "CREATE TRIGGER {0}_note AFTER INSERT OR UPDATE ON {0} FOR EACH ROW EXECUTE FUNCTION note(); "
    "ALTER TABLE ONLY {0} ENABLE REPLICA TRIGGER {0}_note"
)
KEYS = "SELECT string_agg(a::text, ' ' ORDER BY a) FROM {}"
NOTED = "SELECT * FROM notes ORDER BY of_table, op, old, new"


def test_013_leaves_to_another_tree(script: Script) -> None:
    script.on_source(*SOURCE, "CREATE PUBLICATION p FOR TABLE t, t_1")
    script.on_target(*OTHERWISE, NOTES, TRIGGER.format("t"), TRIGGER.format("t_2"), TRIGGER.format("t_2_2"))
    script.subscribe("p")
    script.on_source("INSERT INTO t VALUES (1)", "INSERT INTO t_1 (a) VALUES (3)", "INSERT INTO t_2 VALUES (5)")
    script.on_source("INSERT INTO t VALUES (0)")
    script.catch_up()
    assert script.rows("SELECT c, a FROM t ORDER BY 2") == ["here|0", "here|1", "here|3", "here|5"]
    assert script.rows(KEYS.format("t_2_1")) == ["5"]
    # Leaves of the source are trees here: rows move between partitions.
    script.on_source(*(f"UPDATE t SET a = {new} WHERE a = {old}" for old, new in ((1, 2), (5, 6), (6, 4), (4, 6))))
    script.catch_up()
    assert script.rows("SELECT c, a FROM t ORDER BY 2") == ["here|0", "here|2", "here|3", "here|6"]
    assert script.rows(KEYS.format("t_2_2")) == ["6"]
    assert script.rows(NOTED) == ["t_2_2|INSERT||6", "t_2_2|UPDATE|4|6", "t_2_2|UPDATE|6|4"]
    script.on_source("UPDATE t SET a = 1 WHERE a = 0", "UPDATE t SET a = 4 WHERE a = 1")
    script.catch_up()
    assert script.rows(KEYS.format("t")) == ["2 3 4 6"]
    assert script.rows(KEYS.format("t_2_2")) == ["4 6"]
    script.on_source("DELETE FROM t WHERE a IN (2, 3, 5)", "DELETE FROM t_2")
    script.catch_up()
    assert script.rows(KEYS.format("t")) == [""]
    script.on_target("INSERT INTO t (a) VALUES (1), (2), (5)")
    script.on_source("TRUNCATE t_2")
    script.catch_up()
    assert script.rows(KEYS.format("t")) == ["1 2"]
    script.on_source("TRUNCATE t")
    script.catch_up()
    assert script.rows(KEYS.format("t")) == [""]
    script.on_source("INSERT INTO t VALUES (1, 'foo'), (4, 'bar'), (10, 'baz')")
    script.catch_up()
    script.on_target("DELETE FROM t")
    script.on_source("UPDATE t SET b = 'quux' WHERE a = 4", "DELETE FROM t")
    script.catch_up()
    assert script.rows(KEYS.format("t")) == [""]
    if script.major >= 18:
        met = ["t_2_2 update", "t_1 delete", "t_2_2 delete", "t_def delete"]
        texts = [f'relation "public.{n}": conflict={k}_missing' for n, k in map(str.split, met)]
        assert all(script.applied["sub"].has_said(text) for text in texts)
        assert script.applied["sub"].has_said("(null, 4, quux)")


def test_013_leaves_to_plain_tables(script: Script) -> None:
    script.on_source(*SOURCE, "CREATE PUBLICATION p FOR ALL TABLES")
    script.on_target(*PLAIN, NOTES, TRIGGER.format("t"), TRIGGER.format("t_2"))
    script.subscribe("p")
    script.on_source("INSERT INTO t VALUES (1), (0)", "INSERT INTO t_1 (a) VALUES (3)", "INSERT INTO t_2 VALUES (5)")
    script.catch_up()
    assert script.rows("SELECT c, a FROM t_1 ORDER BY 2") == ["in t_1|1", "in t_1|3"]
    assert script.rows("SELECT c, a FROM t_2") == ["in t_2|5"]
    assert script.rows("SELECT c, a FROM t_def") == ["in t_def|0"]
    assert script.rows(NOTED) == ["t_2|INSERT||5"]
    script.on_source(*(f"UPDATE t SET a = {new} WHERE a = {old}" for old, new in ((1, 2), (5, 6), (6, 4), (4, 6))))
    script.catch_up()
    assert script.rows(KEYS.format("t_1")) == ["2 3"]
    assert script.rows(NOTED) == ["t_2|INSERT||5", "t_2|UPDATE|4|6", "t_2|UPDATE|5|6", "t_2|UPDATE|6|4"]
    script.on_source("UPDATE t SET a = 1 WHERE a = 0", "UPDATE t SET a = 4 WHERE a = 1")
    script.catch_up()
    assert [script.rows(KEYS.format(name)) for name in ("t_1", "t_2", "t_def")] == [["2 3"], ["4 6"], [""]]
    script.on_source("TRUNCATE t_2", "DELETE FROM t_1")
    script.catch_up()
    assert [script.rows(KEYS.format(name)) for name in ("t_1", "t_2", "t")] == [[""], [""], [""]]


ROOTS = (
    "CREATE TABLE r (a int PRIMARY KEY, b text) PARTITION BY LIST (a)",
    "CREATE TABLE r_1 (b text, a int NOT NULL)",
    "ALTER TABLE r ATTACH PARTITION r_1 FOR VALUES IN (0, 1, 2, 3)",
    "CREATE TABLE r_2 PARTITION OF r FOR VALUES IN (5, 6)",
    "CREATE TABLE s (a int PRIMARY KEY, b text) PARTITION BY LIST (a)",
    "CREATE TABLE s_1 PARTITION OF s FOR VALUES IN (0, 1, 2, 3, 5, 6)",
    "INSERT INTO r VALUES (1)",
    "CREATE PUBLICATION p FOR TABLE r, r_1, s_1 WITH (publish_via_partition_root = true)",
)
ROOTS_HERE = (
    "CREATE TABLE r (a int PRIMARY KEY, c text DEFAULT 'here', b text) PARTITION BY RANGE (a)",
    "CREATE TABLE r_1 (c text DEFAULT 'here', b text, a int NOT NULL)",
    "ALTER TABLE r ATTACH PARTITION r_1 FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE s_1 (c text DEFAULT 'here', b text, a int NOT NULL PRIMARY KEY)",
)


def test_013_roots(script: Script) -> None:
    """A leaf whose parent is not published comes by its own name; one whose parent is, by that, and once."""
    script.on_source(*ROOTS)
    script.on_target(*ROOTS_HERE)
    script.subscribe("p")
    assert script.rows("SELECT c, a FROM r") == ["here|1"]
    script.on_source("INSERT INTO r VALUES (0), (3), (5)", "INSERT INTO s VALUES (1), (0), (3), (5)")
    script.catch_up()
    assert script.rows(KEYS.format("r")) == script.rows(KEYS.format("s_1")) == ["0 1 3 5"]
    for old, new in ((5, 6), (6, 2)):
        script.on_source(*(f"UPDATE {name} SET a = {new} WHERE a = {old}" for name in ("r", "s")))
    script.catch_up()
    assert script.rows(KEYS.format("r")) == script.rows(KEYS.format("s_1")) == ["0 1 2 3"]
    script.on_source("TRUNCATE r_1")  # It is not the root.
    script.catch_up()
    assert script.rows(KEYS.format("r")) == ["0 1 2 3"]
    script.on_source("TRUNCATE r, s")
    script.catch_up()
    assert script.rows(KEYS.format("r")) == [""]
    script.on_source("ALTER TABLE r DROP b, ADD c text DEFAULT 'there', ADD b text")
    script.on_source("INSERT INTO r (a, b) VALUES (1, 'xxx'), (5, 'zzz')", "INSERT INTO r VALUES (6, 'own', 'aaa')")
    script.catch_up()
    assert script.rows("SELECT c, a, b FROM r ORDER BY a") == ["there|1|xxx", "there|5|zzz", "own|6|aaa"]
    script.on_target("DELETE FROM r", "INSERT INTO r VALUES (6, 'mine', 'here')")
    script.on_source("UPDATE r SET b = 'quux' WHERE a IN (5, 6)", "DELETE FROM r WHERE a = 1")
    script.catch_up()
    assert script.rows("SELECT c, a, b FROM r") == ["own|6|quux"]
    if script.major >= 18:
        kinds = ("update_missing", "delete_missing", "update_origin_differs")
        assert all(script.applied["sub"].has_said(f'"public.r_1": conflict={kind}') for kind in kinds)


def test_013_the_order_of_publications_does_not_matter(script: Script) -> None:
    script.on_source(
        "CREATE TABLE t (a int PRIMARY KEY) PARTITION BY LIST (a)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (-1, 0, 1) PARTITION BY LIST (a)",
        "CREATE TABLE t_1_1 PARTITION OF t_1 FOR VALUES IN (-1, 0, 1)",
        "CREATE PUBLICATION everything FOR ALL TABLES WITH (publish_via_partition_root = true)",
        "CREATE PUBLICATION lower FOR TABLE t_1 WITH (publish_via_partition_root = true)",
        "INSERT INTO t VALUES (-1)",
    )
    script.on_target("CREATE TABLE t (a int PRIMARY KEY)", "CREATE TABLE t_1 (a int PRIMARY KEY)")
    script.subscribe("lower", "everything")
    script.on_source("INSERT INTO t VALUES (0)")
    script.catch_up()
    script.alter("sub", "publication=everything", "publication=lower")
    script.on_source("INSERT INTO t VALUES (1)")
    script.catch_up()
    assert script.rows(KEYS.format("t")) == ["-1 0 1"]
    assert script.rows(KEYS.format("t_1")) == [""]


def test_013_a_partition_that_is_altered(script: Script) -> None:
    script.on_source(
        "CREATE TABLE t (a int NOT NULL, b int)",
        "CREATE UNIQUE INDEX t_a ON t (a); ALTER TABLE t REPLICA IDENTITY USING INDEX t_a",
        "CREATE PUBLICATION p FOR TABLE t",
    )
    script.on_target(
        "CREATE TABLE t (a int NOT NULL, b int, c int) PARTITION BY LIST (a)",
        "CREATE TABLE t_1 PARTITION OF t DEFAULT",
        "CREATE UNIQUE INDEX t_a ON t (a); ALTER TABLE t REPLICA IDENTITY USING INDEX t_a",
        "ALTER TABLE t_1 REPLICA IDENTITY USING INDEX t_1_a_idx",
    )
    script.subscribe("p")
    script.on_source("INSERT INTO t VALUES (1, 1)", "UPDATE t SET a = 2 WHERE a = 1")
    script.catch_up()
    assert script.rows("SELECT a, b FROM t") == ["2|1"]
    script.on_target(
        "ALTER TABLE t DETACH PARTITION t_1; ALTER TABLE t_1 DROP b; ALTER TABLE t_1 ADD b int; "
        "ALTER TABLE t ATTACH PARTITION t_1 DEFAULT"
    )
    script.on_source("UPDATE t SET a = 3 WHERE a = 2")
    script.catch_up()
    assert script.rows("SELECT a, b, c FROM t") == ["3|1|"]
    script.on_source("ALTER TABLE t DROP b, ADD c int; ALTER TABLE t ADD b int", "UPDATE t SET c = 1 WHERE a = 3")
    script.catch_up()
    assert script.rows("SELECT a, b, c FROM t") == ["3||1"]
    script.on_target("ALTER TABLE t REPLICA IDENTITY NOTHING")
    script.on_source("UPDATE t SET a = 4 WHERE a = 3")
    script.catch_up()
    assert script.rows("SELECT a, b, c FROM t_1") == ["4||1"]
