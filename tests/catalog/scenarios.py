"""Statements that change catalogs in every way that decoding must follow."""

from __future__ import annotations

from catalog.recording import Recorder


def types_and_tables(r: Recorder) -> None:
    """Make types of every kind, columns added, dropped, rewritten, defaults that no row holds."""
    r.run(
        "a",
        "CREATE SCHEMA shop",
        "CREATE TYPE shop.mood AS ENUM ('sad', 'ok', 'happy')",
        'CREATE TYPE public."Odd Name" AS (x int, y text)',
        "CREATE DOMAIN public.positive AS int CHECK (VALUE > 0)",
        "CREATE DOMAIN shop.small AS public.positive[]",
        "CREATE TYPE shop.span AS RANGE (subtype = float8)",
        "CREATE TYPE public.text AS ENUM ('hides nothing, is hidden')",
        "CREATE TABLE shop.a (id bigserial PRIMARY KEY, m shop.mood, p public.positive, s shop.small, r shop.span[],"
        ' o public."Odd Name", c "char", n name, b bit(3), v bit varying(7), t public.text)',
        "ALTER TYPE shop.mood ADD VALUE 'bored' BEFORE 'ok'",
        "ALTER TYPE shop.mood ADD VALUE 'elated' AFTER 'happy'",
        "ALTER TYPE shop.mood RENAME VALUE 'sad' TO 'blue'",
        "ALTER TABLE shop.a ADD d int DEFAULT 42, ADD e varchar(20) DEFAULT 'déjà vu'",
        f"ALTER TABLE shop.a ADD f pg_catalog.text DEFAULT '{'long ' * 600}'",
        "ALTER TABLE shop.a ADD ts timestamptz DEFAULT '2020-01-01 00:00+00', ADD ar int[] DEFAULT '{1,2}'",
        "ALTER TABLE shop.a DROP COLUMN p, DROP COLUMN e",
        "ALTER TABLE shop.a ADD g int GENERATED ALWAYS AS (d * 2) STORED",
        "ALTER TABLE shop.a DROP g, ALTER d TYPE bigint",
        "ALTER TABLE shop.a RENAME TO b",
        "ALTER SCHEMA shop RENAME TO store",
        "ALTER TABLE store.b SET SCHEMA public",
        "ALTER TYPE store.mood SET SCHEMA public",
        "TRUNCATE b",
        "CREATE UNLOGGED TABLE u (a int); ALTER TABLE u SET LOGGED",
        "DROP TABLE b",
        "DROP TYPE public.mood",
        "DROP SCHEMA store CASCADE",
    )


def identities(r: Recorder) -> None:
    """Make keys and replica identities, good and useless ones."""
    r.run(
        "a",
        "CREATE TABLE k (a int NOT NULL, b int NOT NULL, c pg_catalog.text)",
        "CREATE UNIQUE INDEX k_ba ON k (b, a) INCLUDE (c)",
        "ALTER TABLE k REPLICA IDENTITY USING INDEX k_ba",
        "ALTER TABLE k ADD PRIMARY KEY (a)",
        "ALTER TABLE k REPLICA IDENTITY DEFAULT",
        "ALTER TABLE k REPLICA IDENTITY FULL",
        "ALTER TABLE k REPLICA IDENTITY NOTHING",
        "ALTER TABLE k REPLICA IDENTITY USING INDEX k_ba",
        "DROP INDEX k_ba",
        "CREATE UNIQUE INDEX CONCURRENTLY k_b ON k (b)",
        "REINDEX TABLE CONCURRENTLY k",
        "CREATE UNIQUE INDEX k_partial ON k (a) WHERE b > 0",
        "CREATE TABLE deferred (a int PRIMARY KEY DEFERRABLE)" if r.server.programs.major < 18 else "SELECT 1",
        "ALTER TABLE k SET (user_catalog_table = true, fillfactor = 50)",
        "ALTER TABLE k RESET (user_catalog_table)",
        "DROP TABLE k",
    )


def partitions(r: Recorder) -> None:
    """Grow and shrink partition trees."""
    r.run(
        "a",
        "CREATE TABLE p (a int, b pg_catalog.text, PRIMARY KEY (a)) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20) PARTITION BY LIST (a)",
        "CREATE TABLE p21 (b pg_catalog.text, gone int, a int NOT NULL); ALTER TABLE p21 DROP COLUMN gone",
        "ALTER TABLE p2 ATTACH PARTITION p21 FOR VALUES IN (11, 12)",
        "ALTER TABLE p DETACH PARTITION p1",
        "CREATE TABLE child (c int) INHERITS (p1)",
        "ALTER TABLE p DETACH PARTITION p2 CONCURRENTLY",
        "ALTER TABLE p2 RENAME TO q",
        "DROP TABLE p",
        "DROP TABLE q",
    )


def publications(r: Recorder) -> None:
    """Make publications of all shapes that the server has, and origins."""
    whole = (
        "CREATE PUBLICATION few FOR TABLE m, n WITH (publish = 'insert,truncate')",
        "ALTER PUBLICATION few SET (publish_via_partition_root = true)",
        "ALTER PUBLICATION few SET TABLE m",
    )
    since_15 = (
        "CREATE PUBLICATION few FOR TABLE m (a), n WHERE (a > 5) WITH (publish = 'insert,truncate')",
        'CREATE PUBLICATION "In Schema" FOR TABLES IN SCHEMA s, TABLE m',
        "ALTER PUBLICATION few SET (publish_via_partition_root = true)",
        "ALTER PUBLICATION few SET TABLE m (b, a) WHERE (a = 1)",
        'ALTER PUBLICATION "In Schema" ADD TABLES IN SCHEMA public',
    )
    r.run(
        "a",
        "CREATE TABLE m (a int PRIMARY KEY, b int); CREATE TABLE n (a int PRIMARY KEY); CREATE SCHEMA s",
        "CREATE PUBLICATION every FOR ALL TABLES",
        *(since_15 if r.server.programs.major >= 15 else whole),
        "ALTER PUBLICATION every RENAME TO alles",
        "SELECT pg_replication_origin_create('far')",
        "SELECT pg_replication_origin_create('farther')",
        "SELECT pg_replication_origin_drop('far')",
        "DROP TABLE m",
        "DROP PUBLICATION few, alles",
    )


def transactions(r: Recorder) -> None:
    """Run two transactions at a time, with savepoints kept and rolled back."""
    r.run("a", "CREATE TABLE t (a int PRIMARY KEY, b pg_catalog.text)", "CREATE TABLE o (a int)")
    r.run("a", "BEGIN", "ALTER TABLE t ADD c int DEFAULT 1", "INSERT INTO t VALUES (1)")
    r.run("b", "BEGIN", "CREATE TABLE x (a int)", "SAVEPOINT one", "ALTER TABLE x ADD b int", "ALTER TABLE o ADD b int")
    r.run("a", "SAVEPOINT one", "ALTER TABLE t DROP b", "ROLLBACK TO one", "ALTER TABLE t RENAME b TO bb")
    r.run("b", "ROLLBACK TO one", "ALTER TABLE x ADD c int", "CREATE TYPE e AS ENUM ('a')", "COMMIT")
    r.run("a", "ALTER TABLE t ALTER c TYPE pg_catalog.text", "SAVEPOINT two", "ALTER TABLE t ADD d e DEFAULT 'a'")
    r.run("a", "SAVEPOINT three", "ALTER TABLE t DROP d", "RELEASE three", "ALTER TABLE t ADD d bigint DEFAULT 9")
    r.run("a", "ROLLBACK TO two", "ALTER TABLE t REPLICA IDENTITY FULL", "COMMIT")
    r.run("a", "BEGIN", "DROP TABLE t", "CREATE TABLE t (z int)", "ALTER TABLE t ADD y int", "ROLLBACK")
    r.run("a", "BEGIN", "ALTER TABLE t ADD z int", "TRUNCATE t", "ALTER TABLE t RENAME TO t_old")
    r.run("b", "BEGIN", "ALTER TABLE o ADD late int", "PREPARE TRANSACTION 'later'")
    r.run("a", "ALTER TABLE x RENAME TO t", "COMMIT")
    r.run("b", "COMMIT PREPARED 'later'")
    r.run("a", "BEGIN", "ALTER TABLE o ADD never int", "PREPARE TRANSACTION 'never'", "ROLLBACK PREPARED 'never'")


def housekeeping(r: Recorder) -> None:
    """Run checkpoints, vacuum, freezing, in-place updates, bulk DDL that fills and prunes pages."""
    many = "".join(f"CREATE TABLE bulk{i} (a int PRIMARY KEY, b int, c pg_catalog.text);" for i in range(40))
    r.run("a", "CHECKPOINT", "CREATE TABLE kept (a int, b int)", "CREATE TYPE kinds AS ENUM ('x', 'y')")
    r.run("a", many, "CHECKPOINT", "ANALYZE kept", "VACUUM kept")
    r.run("a", "".join(f"ALTER TABLE bulk{i} ADD d int DEFAULT {i};" for i in range(40)), "CHECKPOINT")
    r.run("a", "".join(f"DROP TABLE bulk{i};" for i in range(30)), "VACUUM pg_class", "VACUUM pg_attribute")
    r.run("a", "VACUUM", "CHECKPOINT", "ALTER TABLE kept ADD c int", "VACUUM FREEZE pg_class", "VACUUM FREEZE")
    r.run("a", "ALTER TABLE kept DROP b", many.replace("bulk", "more"), "ALTER TYPE kinds ADD VALUE 'z'")


def rewrites(r: Recorder) -> None:
    """Rewrite catalogs to new files, with the transaction's own changes before and after, kept and rolled back."""
    r.run(
        "a", "CREATE TYPE h AS ENUM ('one', 'two')", "CREATE TABLE w (a int PRIMARY KEY, b h)", "CREATE TABLE v (a int)"
    )
    for catalog in ("pg_class", "pg_enum", "pg_attribute", "pg_type", "pg_index", "pg_publication"):
        r.run("a", f"VACUUM FULL {catalog}", "ALTER TABLE w ADD c int", "ALTER TABLE w DROP c")
    r.run("a", "VACUUM FULL pg_class", "CHECKPOINT", "ALTER TABLE w ADD d int DEFAULT 3", "ANALYZE w")
    for catalog, index in (("pg_enum", "pg_enum_oid_index"), ("pg_namespace", "pg_namespace_oid_index")):
        for end in ("ROLLBACK", "COMMIT"):
            r.run("a", "BEGIN", f"CREATE TYPE h{end.lower()} AS ENUM ('p'); CREATE SCHEMA n{end.lower()}")
            r.quietly("a", f"CLUSTER {catalog} USING {index}")
            r.mark_inside("a", f"CLUSTER {catalog}")
            r.quietly("a", f"ALTER TABLE w RENAME TO w2; CREATE TYPE hh{catalog} AS ENUM ('r')")
            r.mark_inside("a", "after CLUSTER")
            r.quietly("a", end)
            if end == "COMMIT":
                r.quietly("a", "ALTER TABLE w2 RENAME TO w; DROP TYPE hcommit; DROP SCHEMA ncommit")
            r.mark(f"{end} of CLUSTER {catalog}")
            r.run("a", "ALTER TABLE v ADD x h", "ALTER TABLE v DROP x")
        r.run("a", f"DROP TYPE hh{catalog}")
    for end in ("ROLLBACK", "COMMIT"):
        r.run("a", "BEGIN", "ALTER TABLE v ADD y int")
        r.quietly("a", "CLUSTER pg_class USING pg_class_oid_index")
        r.quietly("a", "ALTER TABLE v ADD z int")
        if end == "COMMIT":
            # A file of a rewrite that is rolled back never shows in the WAL; nor is its transaction ever decoded.
            r.mark_inside("a", "after CLUSTER pg_class")
        r.quietly("a", end)
        r.mark(f"{end} of CLUSTER pg_class")
        r.run("a", "ALTER TABLE v ADD q int", "ALTER TABLE v DROP q")
    r.run("a", "ALTER TYPE h ADD VALUE 'three'", "VACUUM", "VACUUM FULL pg_enum", "DROP TABLE w")
    # Another session's transaction keeps the server from leaving dead rows behind; rows of one are alike to the byte.
    there_and_back = "; ".join(f"ALTER TABLE v REPLICA IDENTITY {kind}" for kind in ("FULL", "DEFAULT") * 3)
    r.quietly("b", "BEGIN; SELECT pg_current_xact_id()")
    r.run("a", there_and_back, "ALTER TABLE v ADD r int", "ALTER TABLE v DROP r", "CREATE TABLE gone (a int)")
    r.run("a", "DROP TABLE gone", "VACUUM FULL pg_class", "VACUUM FULL pg_attribute", "VACUUM FULL pg_type")
    r.run("a", "BEGIN", there_and_back)
    r.quietly("a", "CLUSTER pg_namespace USING pg_namespace_oid_index; CLUSTER pg_class USING pg_class_oid_index")
    r.mark_inside("a", "after CLUSTER")
    for statement in (
        there_and_back,
        "SAVEPOINT s",
        "ALTER TABLE v ADD s int",
        "ROLLBACK TO s",
        "ALTER TABLE v ADD u int",
    ):
        r.quietly("a", statement)
        r.mark_inside("a", statement)
    r.quietly("a", "COMMIT")
    r.quietly("b", "COMMIT")
    r.run("a", "ALTER TABLE v ADD t int", "VACUUM FULL", "CREATE TABLE after_all (a int)", "VACUUM")


SCENARIOS = (types_and_tables, identities, partitions, publications, transactions, housekeeping, rewrites)
