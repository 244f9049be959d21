"""Scenarios about the catalogs themselves: rewritten, updated in place and in pieces, locked, and tables used as such.

The form of the scripts is described in :mod:`oracle.scenarios`.
"""

from __future__ import annotations

LONG_TEXT = "(SELECT repeat(string_agg(to_char(g, 'FM0000'), ''), 50) FROM generate_series(1, 500) g)"
"""100 kB that compress to some; out of line in whatever catalog it lands in."""

CATALOGS: dict[str, str] = {
    "catalogs_rewritten_again_and_again": f"""
CREATE FUNCTION run(text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE $1; END $$;
CREATE ROLE scenario_commented NOLOGIN;
SELECT run(format('CREATE FUNCTION catalogs_rewritten_again_and_again.long_one() RETURNS text IMMUTABLE
  LANGUAGE sql AS %L', 'SELECT ' || quote_literal({LONG_TEXT})));
SELECT run(format('COMMENT ON FUNCTION catalogs_rewritten_again_and_again.long_one() IS %L', {LONG_TEXT}));
SELECT run(format('COMMENT ON ROLE scenario_commented IS %L', {LONG_TEXT}));
CREATE TABLE large AS SELECT {LONG_TEXT} AS a;
---
a| CREATE TABLE t (id serial PRIMARY KEY, a int, b varchar(120))
a| INSERT INTO t (a) VALUES (1)
a| BEGIN
a| INSERT INTO t (a) VALUES (2)
a| ALTER TABLE t ADD COLUMN c1 int
a| INSERT INTO t (a, c1) VALUES (3, 1)
a| COMMIT
a| BEGIN
a| INSERT INTO t (a) VALUES (3)
a| ALTER TABLE t ADD COLUMN c2 int
a| INSERT INTO t (a, c1, c2) VALUES (4, 2, 1)
a| COMMIT
b| VACUUM FULL pg_am
b| VACUUM FULL pg_amop
b| VACUUM FULL pg_proc
b| VACUUM FULL pg_opclass
b| VACUUM FULL pg_type
b| VACUUM FULL pg_index
b| VACUUM FULL pg_database
a| INSERT INTO t (a, c1, c2) VALUES (5, 3, 2)
b| BEGIN
b| CLUSTER pg_class USING pg_class_oid_index
b| CLUSTER pg_class USING pg_class_oid_index
b| ROLLBACK
a| INSERT INTO t (a, c1, c2) VALUES (6, 4, 3)
b| BEGIN
b| CLUSTER pg_class USING pg_class_oid_index
b| CLUSTER pg_class USING pg_class_oid_index
b| CLUSTER pg_class USING pg_class_oid_index
b| COMMIT
b| VACUUM FULL pg_class
b| VACUUM FULL pg_class
b| REINDEX TABLE pg_class
b| REINDEX INDEX pg_class_oid_index
b| REINDEX INDEX pg_class_tblspc_relfilenode_index
a| INSERT INTO t (a, c1) VALUES (7, 5)
a| BEGIN
a| INSERT INTO t (a, c1) VALUES (8, 6)
a| ALTER TABLE t ADD COLUMN c3 int
a| INSERT INTO t (a, c1, c3) VALUES (9, 7, 1)
a| COMMIT
b| CHECKPOINT
b| VACUUM FULL pg_proc
b| VACUUM FULL pg_description
b| VACUUM FULL pg_shdescription
b| VACUUM FULL large
a| INSERT INTO t (a, c1, c3) VALUES (10, 8, 1)
b| VACUUM FULL pg_proc
b| VACUUM FULL pg_description
b| VACUUM FULL pg_shdescription
b| VACUUM FULL large
a| INSERT INTO t (a, c1, c3) VALUES (11, 9, 1)
b| DROP FUNCTION long_one()
b| DROP ROLE scenario_commented
""",
    "mapped_catalogs_rewritten_while_others_define": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| CREATE TABLE u (id int PRIMARY KEY)
a| INSERT INTO t VALUES (1, 'before')
a| BEGIN
a| INSERT INTO u VALUES (1)
b| BEGIN
b| CLUSTER pg_attribute USING pg_attribute_relid_attnum_index
b| CLUSTER pg_type USING pg_type_oid_index
b| COMMIT
a| SAVEPOINT s
a| CREATE TABLE v (id int PRIMARY KEY, made_in text)
a| INSERT INTO v VALUES (1, 'the new files')
a| RELEASE SAVEPOINT s
a| COMMIT
b| BEGIN
b| SAVEPOINT s
b| CLUSTER pg_index USING pg_index_indexrelid_index
b| ALTER TABLE t ADD COLUMN gone int
b| ROLLBACK TO SAVEPOINT s
b| ALTER TABLE t ADD COLUMN b int
b| COMMIT
a| INSERT INTO t VALUES (2, 'after', 2)
b| BEGIN
b| CREATE TABLE w (id int)
b| INSERT INTO w VALUES (1)
b| CLUSTER pg_class USING pg_class_oid_index
b| INSERT INTO w VALUES (2)
b| ALTER TABLE w ADD a text
b| CLUSTER pg_attribute USING pg_attribute_relid_attnum_index
b| INSERT INTO w VALUES (3, 'behind two rewrites of its own')
b| COMMIT
b| VACUUM FULL pg_authid
b| VACUUM FULL pg_tablespace
b| INSERT INTO w VALUES (4, 'behind shared ones')
""",
    "catalog_rows_updated_in_place": """
a| CREATE TABLE t (id int PRIMARY KEY, a int)
a| CREATE TABLE u (id int PRIMARY KEY, a int)
a| INSERT INTO t SELECT g, g FROM generate_series(1, 200) g
a| BEGIN
a| INSERT INTO u VALUES (1, 1)
b| VACUUM t
b| ANALYZE t
b| VACUUM FREEZE t
b| CREATE INDEX i ON t (a)
b| REINDEX INDEX i
b| VACUUM pg_class
b| VACUUM pg_attribute
a| INSERT INTO u VALUES (2, 2)
b| ALTER TABLE t ADD b int DEFAULT 5
b| VACUUM t
c| INSERT INTO t VALUES (1002, 3, 4)
a| INSERT INTO t VALUES (1003, 4, 5)
a| ANALYZE u
a| INSERT INTO u VALUES (3, 3)
a| COMMIT
a| BEGIN
a| ALTER TABLE t ADD c int
a| CREATE INDEX j ON t (c)
a| INSERT INTO t VALUES (1004, 4, 5, 6)
a| ANALYZE t
a| INSERT INTO t VALUES (1005, 4, 5, 6)
a| SAVEPOINT s
a| CREATE INDEX k ON t (b)
a| ANALYZE t
a| ROLLBACK TO SAVEPOINT s
a| INSERT INTO t VALUES (1006, 4, 5, 6)
a| COMMIT
b| DROP INDEX i, j
b| VACUUM ANALYZE t
a| DELETE FROM t WHERE id > 900
b| CREATE INDEX CONCURRENTLY i ON t (a)
b| REINDEX INDEX CONCURRENTLY i
a| INSERT INTO t VALUES (1007, 4, 5, 6)
b| DROP INDEX CONCURRENTLY i
a| INSERT INTO t VALUES (1008, 4, 5, 6)
b| VACUUM FREEZE pg_class
b| VACUUM (FREEZE, ANALYZE) t, u
a| INSERT INTO t VALUES (1009, 4, 5, 6)
""",
    "catalog_rows_updated_in_pieces": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| CREATE ROLE scenario_pieces
a| BEGIN
a| GRANT SELECT ON t TO scenario_pieces
a| GRANT INSERT ON t TO scenario_pieces WITH GRANT OPTION
a| ALTER TABLE t SET (fillfactor = 50)
a| INSERT INTO t VALUES (1, 'by rows of which the WAL has the middle')
a| ALTER TABLE t SET (fillfactor = 51)
a| ALTER TABLE t ALTER a SET (n_distinct = 5)
a| ALTER TABLE t ALTER a SET STATISTICS 7
a| ALTER TABLE t ALTER a SET STATISTICS 8
a| INSERT INTO t VALUES (2, 'and again')
a| ALTER TABLE t RENAME TO t_
a| ALTER TABLE t_ RENAME TO t
a| ALTER TABLE t REPLICA IDENTITY FULL
a| UPDATE t SET a = 'full'
a| ALTER TABLE t REPLICA IDENTITY DEFAULT
a| UPDATE t SET a = 'default'
a| SAVEPOINT s
a| ALTER TABLE t REPLICA IDENTITY FULL
a| UPDATE t SET a = 'full, gone'
a| ROLLBACK TO SAVEPOINT s
a| DELETE FROM t WHERE id = 1
a| COMMIT
b| CHECKPOINT
a| ALTER TABLE t REPLICA IDENTITY FULL
a| UPDATE t SET a = 'first change of pg_class behind a checkpoint'
a| ALTER TABLE t RENAME a TO b
a| ALTER TABLE t RENAME b TO c
a| DELETE FROM t
a| REVOKE ALL ON t FROM scenario_pieces
a| DROP ROLE scenario_pieces
""",
    "catalog_rows_locked_by_several": """
a| CREATE TABLE t (id serial PRIMARY KEY)
b| BEGIN
b| SELECT count(*) > 1 FROM (SELECT * FROM pg_class FOR SHARE) s
c| BEGIN
c| SELECT count(*) > 1 FROM (SELECT * FROM pg_class FOR SHARE) s
a| INSERT INTO t DEFAULT VALUES
c| COMMIT
b| COMMIT
b| BEGIN
b| SELECT count(*) > 1 FROM (SELECT * FROM pg_class FOR KEY SHARE) s
b| SELECT count(*) > 1 FROM (SELECT * FROM pg_attribute FOR KEY SHARE) s
c| BEGIN
c| SELECT count(*) > 1 FROM (SELECT * FROM pg_class FOR KEY SHARE) s
c| SELECT count(*) > 1 FROM (SELECT * FROM pg_attribute FOR KEY SHARE) s
a| ALTER TABLE t ADD COLUMN ts timestamptz
a| INSERT INTO t DEFAULT VALUES
a| ALTER TABLE t DROP COLUMN ts
a| INSERT INTO t DEFAULT VALUES
c| SAVEPOINT s
c| SELECT count(*) > 1 FROM (SELECT * FROM pg_class FOR KEY SHARE) s
c| ROLLBACK TO SAVEPOINT s
a| ALTER TABLE t ADD COLUMN n int
c| COMMIT
b| COMMIT
a| INSERT INTO t (n) VALUES (7)
""",
    "composite_attribute_dropped_and_vacuumed": """
a| CREATE TYPE basket AS (apples int, pears int, mangos int)
a| CREATE TABLE harvest (fruits basket)
c| BEGIN
c| SELECT pg_current_xact_id() IS NULL
b| BEGIN
b| INSERT INTO harvest VALUES ((1, 2, 3))
c| ALTER TYPE basket DROP ATTRIBUTE mangos
c| COMMIT
c| CHECKPOINT
b| COMMIT
c| VACUUM pg_attribute
b| INSERT INTO harvest VALUES ((4, 5))
""",
    "user_catalog_table_altered": """
a| CREATE TABLE t (id serial PRIMARY KEY, relation name NOT NULL, options text[]) WITH (user_catalog_table = true)
a| INSERT INTO t (relation, options) VALUES ('foo', ARRAY['a', 'b'])
a| ALTER TABLE t RESET (user_catalog_table)
a| INSERT INTO t (relation, options) VALUES ('bar', ARRAY['a', 'b'])
a| ALTER TABLE t SET (user_catalog_table = true)
a| INSERT INTO t (relation) VALUES ('blub')
a| ALTER TABLE t ADD COLUMN maybe int
a| ALTER TABLE t SET (user_catalog_table = false)
a| ALTER TABLE t ALTER COLUMN maybe TYPE text
a| INSERT INTO t (relation) VALUES ('zaphod')
a| BEGIN
a| ALTER TABLE t SET (user_catalog_table = true)
a| INSERT INTO t (relation) VALUES ('in the transaction that made it one')
a| UPDATE t SET options = '{x}' WHERE relation = 'foo'
a| ALTER TABLE t ADD COLUMN more int
b| CREATE TABLE u (id int)
b| INSERT INTO u VALUES (1)
a| DELETE FROM t WHERE relation = 'bar'
a| SAVEPOINT s
a| DELETE FROM t
a| ROLLBACK TO SAVEPOINT s
a| INSERT INTO t (relation, more) VALUES ('with more', 1)
a| COMMIT
a| TRUNCATE t
a| COPY t (relation) FROM PROGRAM 'printf "one\\ntwo\\nthree\\n"'
a| UPDATE t SET options = array_fill('long value that repeats'::text, ARRAY[400])
a| VACUUM t
a| UPDATE t SET more = 2
a| CREATE TABLE parent (id int) PARTITION BY RANGE (id)
a| CREATE TABLE part PARTITION OF parent FOR VALUES FROM (0) TO (9) WITH (user_catalog_table = true)
a| INSERT INTO parent VALUES (1)
""",
    "materialized_views_refreshed": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| INSERT INTO t VALUES (1, 'one'), (2, 'two')
a| CREATE MATERIALIZED VIEW v AS SELECT * FROM t
a| CREATE MATERIALIZED VIEW keyed AS SELECT * FROM t WITH NO DATA
a| CREATE UNIQUE INDEX ON keyed (id)
a| REFRESH MATERIALIZED VIEW keyed
a| INSERT INTO t VALUES (3, 'three')
a| REFRESH MATERIALIZED VIEW v
a| BEGIN
a| UPDATE t SET a = 'changed' WHERE id = 2
a| REFRESH MATERIALIZED VIEW CONCURRENTLY keyed
a| DELETE FROM t WHERE id = 1
a| REFRESH MATERIALIZED VIEW v
a| INSERT INTO t VALUES (4, repeat('long ', 4000))
a| COMMIT
a| REFRESH MATERIALIZED VIEW CONCURRENTLY keyed
a| ALTER MATERIALIZED VIEW v RENAME TO w
a| REFRESH MATERIALIZED VIEW w
a| BEGIN
a| REFRESH MATERIALIZED VIEW w
a| ROLLBACK
a| DROP MATERIALIZED VIEW w, keyed
a| INSERT INTO t VALUES (5, 'five')
""",
    "sequences_and_large_objects": """
a| CREATE SEQUENCE s
a| CREATE TABLE t (id serial PRIMARY KEY, n bigint DEFAULT nextval('s'), o oid)
a| SELECT nextval('s') FROM generate_series(1, 100)
a| INSERT INTO t DEFAULT VALUES
a| SELECT setval('s', 500)
a| BEGIN
a| INSERT INTO t (o) VALUES (lo_create(4242))
a| SELECT lo_put(4242, 0, repeat('large object ', 5000)::bytea)
a| ALTER SEQUENCE s INCREMENT 10 RESTART 7
a| INSERT INTO t (o) VALUES (4242)
a| SAVEPOINT one
a| SELECT lo_unlink(4242)
a| ALTER SEQUENCE s OWNED BY t.n
a| ROLLBACK TO SAVEPOINT one
a| SELECT lo_put(4242, 100, 'amid')
a| INSERT INTO t (o) VALUES (4242)
a| COMMIT
b| SELECT lo_from_bytea(4343, decode(repeat('00ff', 3000), 'hex'))
b| COMMENT ON LARGE OBJECT 4343 IS 'words'
a| INSERT INTO t (o) VALUES (4343)
b| VACUUM FULL pg_largeobject
b| SELECT lo_unlink(4242), lo_unlink(4343)
a| ALTER SEQUENCE s RENAME TO renamed
a| INSERT INTO t DEFAULT VALUES
a| TRUNCATE t RESTART IDENTITY
a| INSERT INTO t DEFAULT VALUES
a| ALTER TABLE t ALTER id DROP DEFAULT, ALTER id ADD GENERATED BY DEFAULT AS IDENTITY (START 100)
a| INSERT INTO t DEFAULT VALUES
a| ALTER SEQUENCE renamed SET SCHEMA public
a| ALTER SEQUENCE public.renamed SET SCHEMA sequences_and_large_objects
""",
    "databases_made_and_renamed_by_others": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
b| CREATE DATABASE made_of_a_template TEMPLATE template0
x@made_of_a_template| CREATE TABLE t (id int PRIMARY KEY, a text)
x@made_of_a_template| INSERT INTO t VALUES (1, 'there')
a| BEGIN
a| INSERT INTO t VALUES (1, 'here')
x@made_of_a_template| ALTER TABLE t ADD b int
x@made_of_a_template| INSERT INTO t VALUES (2, 'there', 2)
x@made_of_a_template| VACUUM FULL pg_class
x@made_of_a_template| VACUUM FULL pg_database
a| INSERT INTO t VALUES (2, 'here')
b| CREATE DATABASE made_as_another TEMPLATE template0
b| ALTER DATABASE made_as_another RENAME TO renamed_database
b| ALTER DATABASE renamed_database SET work_mem = '1MB'
a| COMMIT
y@renamed_database| CREATE TABLE t (other int)
y@renamed_database| INSERT INTO t VALUES (1)
a| INSERT INTO t VALUES (3, 'here')
""",
}

STRATEGIES: dict[str, str] = {
    "databases_made_by_both_strategies": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
b| CREATE DATABASE made_by_wal TEMPLATE template0 STRATEGY wal_log
b| CREATE DATABASE made_by_copying TEMPLATE template0 STRATEGY file_copy
a| BEGIN
a| INSERT INTO t VALUES (1, 'here')
x@made_by_wal| CREATE TABLE t (id int PRIMARY KEY, a text)
x@made_by_wal| INSERT INTO t VALUES (1, 'there')
y@made_by_copying| CREATE TABLE t (id int PRIMARY KEY, a text)
y@made_by_copying| INSERT INTO t VALUES (1, 'there')
y@made_by_copying| VACUUM FULL pg_class
a| ALTER TABLE t ADD b int
a| INSERT INTO t VALUES (2, 'here', 2)
a| COMMIT
""",
}
"""What has a form that 14 does not know."""
