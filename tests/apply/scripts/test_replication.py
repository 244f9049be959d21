"""Rows of all kinds of tables, rewrites and materialized views: scripts 001, 006 and 009."""

from __future__ import annotations

from apply.scripts.script_runner import Script

SPAN = "SELECT count(*), min(a), max(a) FROM {}"
TABLES = (
    "CREATE TABLE left_out (a int)",
    "CREATE TABLE inserts (a int)",
    "CREATE TABLE whole (a int)",
    "CREATE TABLE words (x text)",
    "CREATE TABLE keyed (a int PRIMARY KEY)",
    "CREATE TABLE covering (a int, b text, PRIMARY KEY (a) INCLUDE (b))",
    "CREATE TABLE whole_keyed (a int PRIMARY KEY, b text); ALTER TABLE whole_keyed REPLICA IDENTITY FULL",
    "CREATE TABLE nothing (a int); ALTER TABLE nothing REPLICA IDENTITY NOTHING",
    "CREATE TABLE indexed (c1 int); CREATE INDEX ON indexed (c1)",
    "CREATE TABLE bare ()",
)


def begin(script: Script) -> None:
    """Make tables of all kinds, with rows, and apply them."""
    script.everywhere(*TABLES)
    script.on_source(
        "CREATE FUNCTION pg_get_replica_identity_index(int) RETURNS regclass LANGUAGE sql AS 'SELECT 1/0'",
        "CREATE TABLE mixed (a int PRIMARY KEY, b text, c numeric); INSERT INTO mixed VALUES (1, 'foo', 1.1)",
        "INSERT INTO left_out SELECT generate_series(1, 10); INSERT INTO inserts SELECT generate_series(1, 1002)",
        "INSERT INTO whole SELECT generate_series(1, 10); INSERT INTO words VALUES ('a'), ('b'), ('b')",
        "INSERT INTO bare DEFAULT VALUES",
        "CREATE PUBLICATION p FOR TABLE keyed, whole, words, mixed, covering, nothing, whole_keyed, indexed, bare",
        "CREATE PUBLICATION only_inserts FOR TABLE inserts WITH (publish = insert)",
    )
    script.on_target("CREATE TABLE mixed (d text DEFAULT 'local', c numeric, b text, a int PRIMARY KEY)")
    script.subscribe("p", "only_inserts")


def test_001_rows_of_all_kinds_of_tables(script: Script) -> None:
    begin(script)
    assert script.rows("SELECT count(*) FROM left_out") == ["0"]
    assert script.rows("SELECT count(*) FROM inserts") == ["1002"]
    changes = "INSERT INTO {0} SELECT generate_series(1, 50); DELETE FROM {0} WHERE a > 20; UPDATE {0} SET a = -a"
    script.on_source(
        *(changes.format(table) for table in ("keyed", "covering")),
        "ALTER TABLE inserts REPLICA IDENTITY FULL",
        changes.format("inserts"),
        "INSERT INTO mixed VALUES (2, 'bar', 2.2)",
        "INSERT INTO whole_keyed VALUES (1, 'foo'), (2, 'baz')",
        "INSERT INTO nothing SELECT generate_series(1, 20); INSERT INTO indexed VALUES (1)",
        "INSERT INTO bare DEFAULT VALUES",
    )
    script.catch_up()
    assert script.rows(SPAN.format("inserts")) == ["1052|1|1002"]
    assert script.rows(SPAN.format("keyed")) == script.rows(SPAN.format("covering")) == ["20|-20|-1"]
    assert script.rows("SELECT * FROM mixed ORDER BY a") == ["local|1.1|foo|1", "local|2.2|bar|2"]
    counts = "SELECT (SELECT count(*) FROM nothing), (SELECT sum(c1) FROM indexed), (SELECT count(*) FROM bare)"
    assert script.rows(counts) == ["20|1|2"]


def test_001_whole_rows_and_rows_that_are_not_there(script: Script) -> None:
    begin(script)
    full = "; ".join(f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in ("whole", "words"))
    script.on_source("INSERT INTO whole SELECT generate_series(1, 10)", full)
    script.on_source("INSERT INTO whole_keyed VALUES (1, 'foo'), (2, 'baz')")
    script.on_target(full)
    script.on_source("UPDATE whole SET a = a * a", "UPDATE words SET x = 'bb' WHERE x = 'b'")
    script.on_source("UPDATE mixed SET b = 'baz' WHERE a = 1", "UPDATE whole_keyed SET b = 'bar' WHERE a = 1")
    script.catch_up()
    assert script.rows(SPAN.format("whole")) == ["20|1|100"]
    assert script.rows("SELECT x FROM words ORDER BY 1") == ["a", "bb", "bb"]
    assert script.rows("SELECT * FROM mixed") == ["local|1.1|baz|1"]
    assert script.rows("SELECT * FROM whole_keyed ORDER BY 1") == ["1|bar", "2|baz"]
    script.on_target("DELETE FROM whole_keyed", "DELETE FROM whole WHERE a = 25")
    script.on_source("UPDATE whole_keyed SET b = 'quux' WHERE a = 1", "UPDATE whole SET a = a + 1 WHERE a = 25")
    script.on_source("DELETE FROM whole_keyed WHERE a = 2")
    script.catch_up()
    assert script.rows(SPAN.format("whole")) == ["18|1|100"]
    if script.major >= 18:
        for text in (
            'relation "public.whole_keyed": conflict=update_missing',
            'relation "public.whole": conflict=update_missing',
            'relation "public.whole_keyed": conflict=delete_missing',
        ):
            assert script.applied["sub"].has_said(text)
        for text in ("(1, quux)", "replica identity (a)=(1)", "(26)", "replica identity full (25)", "(a)=(2)"):
            assert script.applied["sub"].has_said(text)


def test_001_long_values_and_dropped_columns(script: Script) -> None:
    begin(script)
    lengths = "SELECT a, length(b), c, d FROM mixed ORDER BY a"
    script.on_source("INSERT INTO mixed VALUES (2, repeat('xyzzy', 100000), 2.2)")
    script.catch_up()
    assert script.rows(lengths) == ["1|3|1.1|local", "2|500000|2.2|local"]
    script.on_source("UPDATE mixed SET c = 3.3 WHERE a = 2")
    script.catch_up()
    assert script.rows(lengths) == ["1|3|1.1|local", "2|500000|3.3|local"]
    script.on_source("UPDATE mixed SET b = 'bar', c = 2.2 WHERE a = 2", "ALTER TABLE mixed DROP COLUMN b")
    script.on_source("UPDATE mixed SET c = 11.11 WHERE a = 1")
    script.catch_up()
    assert script.rows("SELECT * FROM mixed ORDER BY a") == ["local|11.11|foo|1", "local|2.2|bar|2"]
    script.on_target("ALTER TABLE mixed DROP COLUMN d")
    script.on_source("UPDATE mixed SET c = 22.22 WHERE a = 2")
    script.catch_up()
    assert script.rows("SELECT * FROM mixed ORDER BY a") == ["11.11|foo|1", "22.22|bar|2"]


def test_001_publications_that_change(script: Script) -> None:
    begin(script)
    script.on_source("ALTER PUBLICATION only_inserts DROP TABLE inserts", "INSERT INTO inserts VALUES (8888)")
    script.catch_up()
    assert script.rows(SPAN.format("inserts")) == ["1002|1|1002"]
    script.on_source("DELETE FROM inserts WHERE a = 8888", "ALTER PUBLICATION only_inserts ADD TABLE inserts")
    script.alter("sub", "publication=only_inserts")
    script.on_source("INSERT INTO inserts SELECT generate_series(1001, 1100)", "INSERT INTO keyed VALUES (1)")
    script.catch_up()
    assert script.rows(SPAN.format("inserts")) == ["1102|1|1100"]
    assert script.rows("SELECT count(*) FROM keyed") == ["0"]
    full = "ALTER TABLE inserts REPLICA IDENTITY FULL"
    script.everywhere(full)
    script.on_source("ALTER PUBLICATION only_inserts SET (publish = 'insert, delete')")
    script.on_source("ALTER PUBLICATION only_inserts ADD TABLE whole", "DELETE FROM inserts WHERE a > 0")
    script.refresh("sub", "--no-copy-data")
    script.on_source("INSERT INTO whole VALUES (0)", "INSERT INTO left_out VALUES (11)")
    script.catch_up()
    assert script.rows(SPAN.format("inserts")) == ["0||"]
    # The rows of the first copy stay, though the table had left the subscription.
    assert script.rows(SPAN.format("whole")) == ["11|0|10"]
    assert script.rows("SELECT count(*) FROM left_out") == ["0"]


def test_001_several_publications_of_a_table_and_a_clean_end(script: Script) -> None:
    script.everywhere("CREATE TABLE one_of_two (a int)", "CREATE TABLE other (a int)")
    script.on_source(
        "CREATE PUBLICATION p FOR TABLE one_of_two WITH (publish = insert)", "CREATE PUBLICATION q FOR TABLE other"
    )
    script.subscribe("p", "q")
    script.on_source("INSERT INTO one_of_two VALUES (1)")
    script.catch_up()
    assert script.rows("SELECT count(*) FROM one_of_two") == ["1"]
    assert script.leftovers() != []
    script.drop()
    assert script.leftovers() == []
    assert script.rows("SELECT count(*) FROM headwater.subscription_rel") == ["0"]


def test_001_a_publisher_that_is_restarted(script: Script) -> None:
    script.everywhere("CREATE TABLE t (a int)")
    script.on_source("CREATE PUBLICATION p FOR TABLE t")
    script.subscribe("p")
    script.on_source("INSERT INTO t VALUES (1)")
    script.end_source(crashes=False)
    script.start_source()
    script.on_source("INSERT INTO t VALUES (2)")
    script.catch_up()
    assert script.rows("SELECT * FROM t ORDER BY 1") == ["1", "2"]


def test_006_tables_that_are_rewritten(script: Script) -> None:
    script.everywhere("CREATE TABLE t (a int, b text)")
    script.on_source("CREATE PUBLICATION p FOR ALL TABLES")
    script.subscribe("p")
    script.on_source("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    script.catch_up()
    assert script.rows("SELECT * FROM t ORDER BY 1") == ["1|one", "2|two"]
    rewrite = "ALTER TABLE t ADD c int NOT NULL DEFAULT 0"
    script.on_target(rewrite)
    script.on_source(rewrite, "INSERT INTO t VALUES (3, 'three', 33)")
    script.catch_up()
    assert script.rows("SELECT * FROM t ORDER BY 1") == ["1|one|0", "2|two|0", "3|three|33"]


def test_009_materialized_views_are_nothing_to_apply(script: Script) -> None:
    script.everywhere("CREATE TABLE t (a int PRIMARY KEY, b text)")
    script.on_source("CREATE PUBLICATION p FOR ALL TABLES")
    script.subscribe("p")
    script.on_source("INSERT INTO t VALUES (1, 'one'), (2, 'two')", "CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
    script.catch_up()
    assert script.rows("SELECT * FROM t ORDER BY 1") == ["1|one", "2|two"]
    assert script.applied["sub"].errors == []
