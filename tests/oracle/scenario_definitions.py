"""Scenarios about definitions: every row is shown by the definition of its moment.

The form of the scripts is described in :mod:`oracle.scenarios`.
"""

from __future__ import annotations

from oracle.scenario_rows import BIG

DEFINITIONS: dict[str, str] = {
    "columns_come_and_go": """
a| CREATE TABLE t (id int PRIMARY KEY, a text, b int)
a| INSERT INTO t VALUES (1, 'a', 1)
a| ALTER TABLE t ADD COLUMN c text
a| INSERT INTO t VALUES (2, 'a', 2, 'c')
a| ALTER TABLE t DROP COLUMN a
a| INSERT INTO t VALUES (3, 3, 'c')
a| UPDATE t SET b = 10
a| ALTER TABLE t RENAME COLUMN b TO "B"
a| ALTER TABLE t ADD COLUMN a numeric(5,1)
a| UPDATE t SET a = 1.25
a| DELETE FROM t
""",
    "fast_defaults": """
a| CREATE TABLE t (id int PRIMARY KEY)
a| ALTER TABLE t REPLICA IDENTITY FULL
a| INSERT INTO t VALUES (1), (2)
a| ALTER TABLE t ADD COLUMN a int DEFAULT 5, ADD COLUMN b text DEFAULT 'text', ADD COLUMN c text[] DEFAULT '{x,NULL}'
a| ALTER TABLE t ADD COLUMN d timestamptz DEFAULT '2024-02-29 12:00+00', ADD COLUMN e numeric DEFAULT 1.50
a| ALTER TABLE t ADD COLUMN f text DEFAULT repeat('long ', 100), ADD COLUMN g bool NOT NULL DEFAULT true
a| INSERT INTO t (id) VALUES (3)
a| DELETE FROM t WHERE id = 1
a| UPDATE t SET id = 20 WHERE id = 2
a| ALTER TABLE t ALTER a SET DEFAULT 6
a| ALTER TABLE t DROP COLUMN b
a| DELETE FROM t WHERE id = 20
a| VACUUM FULL t
a| DELETE FROM t
""",
    "definitions_and_rows_in_one_transaction": """
a| BEGIN
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| INSERT INTO t VALUES (1, 'a')
a| ALTER TABLE t ADD COLUMN b int
a| INSERT INTO t VALUES (2, 'a', 2)
a| ALTER TABLE t RENAME COLUMN a TO c
a| SAVEPOINT s
a| ALTER TABLE t DROP COLUMN c
a| INSERT INTO t VALUES (3, 3)
a| ROLLBACK TO SAVEPOINT s
a| INSERT INTO t VALUES (4, 'c', 4)
a| ALTER TABLE t RENAME TO u
a| UPDATE u SET b = 5
a| DELETE FROM u WHERE id = 1
a| ALTER TABLE u ALTER b TYPE text
a| INSERT INTO u VALUES (5, 'c', 'b')
a| COMMIT
a| INSERT INTO u VALUES (6, 'c', 'b')
""",
    "definition_by_another_between_rows": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| CREATE TABLE u (id int PRIMARY KEY, a text)
a| BEGIN
a| INSERT INTO t VALUES (1, 'before')
b| ALTER TABLE u ADD COLUMN b int DEFAULT 7
a| INSERT INTO u VALUES (1, 'after', 1)
b| COMMENT ON TABLE u IS 'words'
a| INSERT INTO t VALUES (2, 'after')
c| INSERT INTO u VALUES (2, 'other')
a| UPDATE u SET a = 'x' WHERE id = 1
a| COMMIT
a| INSERT INTO u VALUES (3, 'last')
""",
    "type_changes": """
a| CREATE TABLE t (id int PRIMARY KEY, a int, b varchar(10), c text)
a| INSERT INTO t VALUES (1, 1, 'b', 'c')
a| ALTER TABLE t ALTER a TYPE bigint
a| INSERT INTO t VALUES (2, 5000000000, 'b', 'c')
a| ALTER TABLE t ALTER b TYPE varchar(30)
a| INSERT INTO t VALUES (3, 3, 'longer than ten', 'c')
a| ALTER TABLE t DROP COLUMN c, ALTER a TYPE text USING 'was ' || a
a| INSERT INTO t VALUES (4, 'four', 'b')
a| UPDATE t SET b = 'all'
a| BEGIN
a| ALTER TABLE t ALTER id TYPE bigint
a| INSERT INTO t VALUES (5, 'five', 'b')
a| ROLLBACK
a| INSERT INTO t VALUES (6, 'six', 'b')
""",
    "rewrites": f"""
a| CREATE TABLE t (id int PRIMARY KEY, a text, b int)
a| INSERT INTO t SELECT g, CASE WHEN g = 3 THEN {BIG} ELSE 'a' END, g FROM generate_series(1, 5) g
a| ALTER TABLE t DROP COLUMN b
a| VACUUM FULL t
a| UPDATE t SET id = id + 10
a| CLUSTER t USING t_pkey
a| INSERT INTO t VALUES (1, 'after cluster')
a| ALTER TABLE t ADD COLUMN c float8 DEFAULT floor(random() * 0)
a| UPDATE t SET c = 1 WHERE id = 1
a| ALTER TABLE t SET (fillfactor = 60)
a| TRUNCATE t
a| INSERT INTO t VALUES (2, 'after truncate', 0)
a| CREATE MATERIALIZED VIEW m AS SELECT * FROM t
a| REFRESH MATERIALIZED VIEW m
a| DROP MATERIALIZED VIEW m
""",
    "access_method": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| INSERT INTO t VALUES (1, 'before')
a| ALTER TABLE t SET ACCESS METHOD heap
a| UPDATE t SET id = 2
""",
    "rewritten_catalogs": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| INSERT INTO t VALUES (1, 'before')
a| BEGIN
a| INSERT INTO t VALUES (2, 'open while the catalogs move')
b| VACUUM FULL pg_attribute
b| VACUUM FULL pg_type
b| VACUUM FULL pg_publication_rel
a| INSERT INTO t VALUES (3, 'still open')
b| VACUUM FULL pg_index
b| VACUUM FULL pg_namespace
a| COMMIT
b| VACUUM FULL pg_class
b| ALTER TABLE t ADD COLUMN b int DEFAULT 9
b| INSERT INTO t VALUES (4, 'after', 4)
b| CREATE TABLE u (id int)
b| INSERT INTO u VALUES (1)
b| REINDEX TABLE pg_class
b| VACUUM pg_class
b| CLUSTER pg_attribute USING pg_attribute_relid_attnum_index
b| ALTER TABLE t RENAME TO v
b| INSERT INTO v VALUES (5, 'last', 5)
""",
    "names_of_objects": """
a| CREATE TABLE t (id int PRIMARY KEY, c regclass, p regproc, pp regprocedure, o regoper, oo regoperator, y regtype)
a| CREATE TABLE u (id int PRIMARY KEY, n regnamespace, r regrole, l regcollation, f regconfig, d regdictionary)
a| CREATE TABLE v (id int PRIMARY KEY, a aclitem, c regclass[], p pg_type, m aclitem)
a| CREATE DOMAIN relations AS regclass[]
a| CREATE TYPE seen AS (a int, c regclass)
a| CREATE TABLE w (id int PRIMARY KEY, c relations, s seen, ss seen[])
a| INSERT INTO t VALUES (1, 't', 'now', 'now()', 'pg_catalog.||/', '+(int,int)', 'int')
a| INSERT INTO t VALUES (2, 'pg_class', 'boolin', 'abs(int)', '|/', '-(NONE,int)', 'timestamptz[]')
a| INSERT INTO t VALUES (3, 0, 0, 0, 0, 0, 0), (4, 4294967295, 77, 78, 79, 80, 81)
a| INSERT INTO t SELECT 1000 + row_number() OVER (), NULL, oid FROM pg_proc WHERE oid < 12000 AND oid::int8 % 31 = 3
a| INSERT INTO t SELECT 6000 + row_number() OVER (), NULL, NULL, oid
     FROM pg_proc WHERE oid < 12000 AND oid::int8 % 31 = 4
a| INSERT INTO t SELECT 11000 + row_number() OVER (), NULL, NULL, NULL, oid, oid
     FROM pg_operator WHERE oid::int8 % 9 = 3
a| INSERT INTO t SELECT 16000 + row_number() OVER (), NULL, NULL, NULL, NULL, NULL, oid
     FROM pg_type WHERE oid::int8 % 7 = 3
a| INSERT INTO t SELECT 19000 + row_number() OVER (), oid FROM pg_class WHERE oid < 16384 AND oid::int8 % 5 = 3
a| INSERT INTO u SELECT row_number() OVER (), NULL, NULL, oid FROM pg_collation WHERE oid < 12000 OR oid::int8 % 17 = 3
a| INSERT INTO u SELECT 5000 + row_number() OVER (), NULL, NULL, NULL, oid FROM pg_ts_config
a| INSERT INTO u SELECT 6000 + row_number() OVER (), NULL, NULL, NULL, NULL, oid FROM pg_ts_dict
a| INSERT INTO u SELECT 7000 + row_number() OVER (), NULL, oid FROM pg_roles
a| INSERT INTO u SELECT 8000 + row_number() OVER (), oid FROM pg_namespace WHERE nspname !~ '^pg_temp|^pg_toast_temp'
a| INSERT INTO u VALUES (10000, 0, 0, 0, 0, 0), (10001, 99, 98, 97, 96, 95)
a| INSERT INTO v (id, c) VALUES (1, '{t,NULL,0,99999}')
a| INSERT INTO v (id, a) VALUES (2, (SELECT relacl[1] FROM pg_class WHERE oid = 'pg_class'::regclass))
a| INSERT INTO v VALUES (3, (SELECT proacl[1] FROM pg_proc WHERE proacl IS NOT NULL LIMIT 1), '{{t,u},{v,w}}')
a| INSERT INTO v (id, p) SELECT oid::int, t FROM pg_type t WHERE typname IN ('int4', 'w', '_text', 'json')
a| INSERT INTO w VALUES (1, '[0:1]={t,pg_class}', '(1,t)', '{"(2,u)",NULL,"(3,)"}')
a| ALTER TABLE t RENAME TO "T one"
a| INSERT INTO w VALUES (2, ARRAY['"T one"'::regclass], ROW(1, '"T one"'::regclass))
a| CREATE TABLE public.names_of_objects (id int)
a| INSERT INTO w VALUES (3, '{public.names_of_objects}')
a| BEGIN
a| ALTER TABLE public.names_of_objects RENAME TO names_of_objects_two
a| INSERT INTO w VALUES (4, ARRAY['public.names_of_objects_two'::regclass])
a| CREATE TABLE public.names_of_objects (id int)
a| INSERT INTO w VALUES (5, ARRAY['public.names_of_objects_two'::regclass, 'public.names_of_objects'])
a| DROP TABLE public.names_of_objects_two
a| INSERT INTO w SELECT 6, c FROM w WHERE id = 5
a| SAVEPOINT s
a| DROP TABLE public.names_of_objects
a| INSERT INTO w SELECT 7, c FROM w WHERE id = 5
a| ROLLBACK TO SAVEPOINT s
a| INSERT INTO w SELECT 8, c FROM w WHERE id = 5
a| COMMIT
b| ALTER TABLE public.names_of_objects SET SCHEMA names_of_objects
a| INSERT INTO w SELECT 9, c FROM w WHERE id = 5
a| CREATE TABLE public.pg_class (id int)
a| INSERT INTO w VALUES (10, ARRAY['public.pg_class'::regclass, 'pg_catalog.pg_class'])
a| DROP TABLE public.pg_class
a| CREATE FUNCTION public.now(text) RETURNS text LANGUAGE sql AS 'SELECT $1'
a| CREATE FUNCTION public.only_one(a int, b "T one", VARIADIC c text[]) RETURNS int LANGUAGE sql AS 'SELECT 1'
a| CREATE FUNCTION "select"(OUT a int, INOUT b numeric(5,2)) LANGUAGE sql AS 'SELECT 1, 1.0'
a| INSERT INTO "T one" (id, p, pp) SELECT 20000 + row_number() OVER (), oid, oid FROM pg_proc WHERE oid >= 12000
a| INSERT INTO "T one" (id, p, pp) VALUES (30000, 'pg_catalog.now', 'now()')
a| CREATE FUNCTION public.abs(int) RETURNS int LANGUAGE sql AS 'SELECT 1'
a| INSERT INTO "T one" (id, pp) VALUES (30001, 'public.abs(int)'), (30002, 'pg_catalog.abs(int)')
a| CREATE OPERATOR public.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = int4pl)
a| CREATE OPERATOR names_of_objects.=== (LEFTARG = text, RIGHTARG = text, FUNCTION = textcat)
a| INSERT INTO "T one" (id, o, oo) SELECT 30010 + row_number() OVER (), oid, oid FROM pg_operator WHERE oprname = '==='
a| CREATE OPERATOR public.- (RIGHTARG = int, FUNCTION = int4um)
a| INSERT INTO "T one" (id, o, oo) VALUES (30020, 'public.-', 'public.-(NONE,int)'), (30021, '||/', '-(int,int)')
a| CREATE TYPE public.int4 AS ENUM ('a')
a| INSERT INTO "T one" (id, y) VALUES (30030, 'public.int4'), (30031, 'public.int4[]'), (30032, 'int4')
a| DROP TYPE public.int4
a| CREATE COLLATION public."C" FROM "POSIX"
a| CREATE COLLATION "Own" FROM "C"
a| CREATE TEXT SEARCH CONFIGURATION public.english (COPY = pg_catalog.english)
a| CREATE TEXT SEARCH DICTIONARY public."My dict" (TEMPLATE = simple)
a| INSERT INTO u (id, l) SELECT 20000 + row_number() OVER (), oid FROM pg_collation WHERE collname IN ('C', 'Own')
a| INSERT INTO u (id, f) SELECT 21000 + row_number() OVER (), oid FROM pg_ts_config WHERE cfgname = 'english'
a| INSERT INTO u (id, d) SELECT 22000 + row_number() OVER (), oid FROM pg_ts_dict WHERE oid >= 12000
a| BEGIN
a| CREATE ROLE "Role; one"
a| CREATE ROLE "é""x"
a| CREATE ROLE plain_1
a| INSERT INTO u (id, r) SELECT 23000 + row_number() OVER (), oid FROM pg_roles WHERE oid > 16384
a| GRANT ALL ON u TO "Role; one" WITH GRANT OPTION
a| GRANT SELECT (id), UPDATE (r) ON u TO "é""x", PUBLIC
a| GRANT SELECT, TRUNCATE ON u TO plain_1, PUBLIC
a| INSERT INTO v (id, a, m) SELECT 10 + g, relacl[g], relacl[1]
     FROM pg_class, generate_series(1, 4) g WHERE oid = 'u'::regclass
a| INSERT INTO v (id, a) SELECT 200 + attnum, attacl[1] FROM pg_attribute WHERE attrelid = 'u'::regclass AND attnum > 0
a| REVOKE ALL ON u FROM "Role; one", "é""x", plain_1
a| DROP ROLE "Role; one", "é""x"
a| INSERT INTO v (id, a) SELECT 300 + id, a FROM v WHERE id BETWEEN 11 AND 14
a| DROP ROLE plain_1
a| COMMIT
a| INSERT INTO v (id, a) SELECT 320 + id, a FROM v WHERE id BETWEEN 11 AND 14
a| BEGIN
a| INSERT INTO w VALUES (20, ARRAY['u'::regclass])
b| ALTER TABLE names_of_objects.u RENAME TO "U"
a| INSERT INTO w VALUES (21, ARRAY['"U"'::regclass])
a| COMMIT
a| DROP OPERATOR public.- (NONE, int)
a| DROP FUNCTION public.abs(int)
a| DROP TEXT SEARCH CONFIGURATION public.english
a| DROP COLLATION public."C"
""",
    "names_swap": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| CREATE TABLE u (id int PRIMARY KEY, b int)
a| INSERT INTO t VALUES (1, 'a')
a| BEGIN
a| ALTER TABLE t RENAME TO w
a| ALTER TABLE u RENAME TO t
a| ALTER TABLE w RENAME TO u
a| INSERT INTO t VALUES (1, 1)
a| INSERT INTO u VALUES (2, 'a')
a| COMMIT
a| CREATE SCHEMA names_swap_two
a| ALTER TABLE t SET SCHEMA names_swap_two
a| INSERT INTO names_swap_two.t VALUES (2, 2)
a| ALTER SCHEMA names_swap_two RENAME TO "Names Swap"
a| INSERT INTO "Names Swap".t VALUES (3, 3)
a| INSERT INTO "Names Swap".t VALUES (4, 4)
""",
    "tables_dropped_later": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| INSERT INTO t VALUES (1, 'a')
a| DROP TABLE t
a| CREATE TABLE t (id text, b int)
a| INSERT INTO t VALUES ('b', 1)
a| BEGIN
a| INSERT INTO t VALUES ('c', 2)
a| DROP TABLE t
a| CREATE TABLE t (c int)
a| INSERT INTO t VALUES (3)
a| COMMIT
a| DROP SCHEMA tables_dropped_later CASCADE
a| CREATE SCHEMA tables_dropped_later
a| CREATE TABLE t (d int)
a| INSERT INTO t VALUES (4)
""",
    "dropped_type_of_a_dropped_column": """
a| CREATE TYPE e AS ENUM ('a', 'b')
a| CREATE DOMAIN d AS numeric(10,2)
a| CREATE TABLE t (x e, y d, id int PRIMARY KEY, z int)
a| INSERT INTO t VALUES ('a', 1, 1, 1)
a| DROP TYPE e CASCADE
a| INSERT INTO t VALUES (2.5, 2, 2)
a| DROP DOMAIN d CASCADE
a| INSERT INTO t VALUES (3, 3)
a| UPDATE t SET z = 9
a| DELETE FROM t
""",
    "enums": """
a| CREATE TYPE mood AS ENUM ('sad', 'ok')
a| CREATE TABLE t (id int PRIMARY KEY, m mood, ms mood[])
a| INSERT INTO t VALUES (1, 'sad', '{ok,sad}')
a| ALTER TYPE mood ADD VALUE 'happy' BEFORE 'ok'
a| INSERT INTO t VALUES (2, 'happy', '{happy,NULL}')
a| ALTER TYPE mood RENAME VALUE 'sad' TO 'it''s "bad"'
a| UPDATE t SET ms = ms || m
a| BEGIN
a| CREATE TYPE colour AS ENUM ('red')
a| ALTER TYPE colour ADD VALUE 'green'
a| CREATE TABLE u (c colour)
a| INSERT INTO u VALUES ('red')
a| ALTER TYPE colour RENAME TO color
a| INSERT INTO u VALUES ('red')
a| COMMIT
a| INSERT INTO u VALUES ('green')
a| BEGIN
a| INSERT INTO t VALUES (3, 'ok')
b| ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'
a| INSERT INTO t VALUES (4, 'fine')
a| COMMIT
""",
    "label_renamed_behind_an_open_transaction": """
a| CREATE TYPE mood AS ENUM ('sad', 'ok')
a| CREATE TABLE t (id int PRIMARY KEY, m mood)
a| BEGIN
a| INSERT INTO t VALUES (1, 'ok')
b| ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'
b| INSERT INTO t VALUES (2, 'fine')
a| COMMIT
""",
    "domains": """
a| CREATE DOMAIN positive AS int CHECK (VALUE > 0)
a| CREATE DOMAIN more AS positive CHECK (VALUE > 10)
a| CREATE DOMAIN list AS text[]
a| CREATE TABLE t (id more PRIMARY KEY, a list, b positive[], c varchar(5)[])
a| INSERT INTO t VALUES (11, '{a,"b c"}', '{1,2}', '{x}')
a| UPDATE t SET id = 12
a| ALTER DOMAIN list RENAME TO "List"
a| INSERT INTO t VALUES (13)
a| ALTER TABLE t ALTER id TYPE int
a| DELETE FROM t
""",
    "unrelated_catalog_changes": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| INSERT INTO t VALUES (1, 'a')
a| COMMENT ON TABLE t IS 'words'
a| INSERT INTO t VALUES (2, 'a')
a| GRANT SELECT ON t TO pg_monitor
a| INSERT INTO t VALUES (3, 'a')
a| ANALYZE t
a| INSERT INTO t VALUES (4, 'a')
a| VACUUM t
a| INSERT INTO t VALUES (5, 'a')
a| CREATE INDEX ON t (a)
a| INSERT INTO t VALUES (6, 'a')
a| CREATE ROLE scenario_role
a| INSERT INTO t VALUES (7, 'a')
a| CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'
a| INSERT INTO t VALUES (8, 'a')
a| CREATE TRIGGER tr BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()
a| UPDATE t SET a = 'b' WHERE id = 1
a| ALTER TABLE t ALTER a SET STATISTICS 10
a| INSERT INTO t VALUES (9, 'a')
a| CREATE VIEW v AS SELECT * FROM t
a| INSERT INTO t VALUES (10, 'a')
a| REINDEX TABLE t
a| INSERT INTO t VALUES (11, 'a')
a| CREATE STATISTICS st ON id, a FROM t
a| INSERT INTO t VALUES (12, 'a')
a| ALTER TABLE t ALTER a SET DEFAULT 'x'
a| INSERT INTO t VALUES (13)
a| CREATE TEMPORARY TABLE aside (id int)
a| INSERT INTO t VALUES (14)
""",
    "definitions_rolled_back_beside_an_open_transaction": """
CREATE TABLE t (id int PRIMARY KEY, a text);
CREATE TABLE u (id int PRIMARY KEY, a text);
---
a| BEGIN
a| INSERT INTO t VALUES (1, 'announced')
b| BEGIN
b| SAVEPOINT s
b| CREATE SCHEMA gone
b| ROLLBACK TO SAVEPOINT s
b| INSERT INTO u VALUES (1, 'kept')
a| INSERT INTO t VALUES (2, 'not announced')
b| COMMIT
a| INSERT INTO t VALUES (3, 'announced again')
a| COMMIT
""",
    "tables_from_before_the_backup": """
CREATE TABLE t (id int PRIMARY KEY, a text, gone int, b text DEFAULT 'b');
ALTER TABLE t DROP COLUMN gone;
INSERT INTO t SELECT g, repeat('long ' || g, 900) FROM generate_series(1, 5) g;
ALTER TABLE t ADD COLUMN c int DEFAULT 42;
CREATE TYPE old_mood AS ENUM ('x', 'y');
CREATE TABLE u (m old_mood, n int);
ALTER TABLE u REPLICA IDENTITY FULL;
INSERT INTO u VALUES ('x', 1), ('y', 2);
---
a| UPDATE t SET b = 'changed' WHERE id < 3
a| DELETE FROM t WHERE id = 3
a| UPDATE u SET n = n + 1
a| ALTER TABLE t DROP COLUMN c
a| UPDATE t SET b = 'again' WHERE id = 4
a| ALTER TYPE old_mood ADD VALUE 'z'
a| INSERT INTO u VALUES ('z', 3)
a| DELETE FROM u
""",
    "no_index_left_and_vacuumed": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| INSERT INTO t VALUES (1, 'the key is announced')
a| ALTER TABLE t DROP CONSTRAINT t_pkey
a| VACUUM t
""",
    "user_catalog_table": """
a| CREATE TABLE t (id int PRIMARY KEY, a text) WITH (user_catalog_table = true)
a| CREATE TABLE u (id int PRIMARY KEY)
a| BEGIN
a| INSERT INTO t VALUES (1, 'a')
a| INSERT INTO u VALUES (1)
b| INSERT INTO t VALUES (2, 'b')
a| UPDATE t SET a = 'c' WHERE id = 1
a| COMMIT
a| ALTER TABLE t RESET (user_catalog_table)
a| INSERT INTO t VALUES (3, 'plain again')
""",
    "long_catalog_values": """
a| CREATE TABLE t (id int PRIMARY KEY)
a| ALTER TABLE t ADD COLUMN a text DEFAULT {BIG}
a| INSERT INTO t (id) VALUES (1)
a| ALTER TABLE t ALTER a SET DEFAULT 'short'
a| UPDATE t SET id = 2
a| ALTER TABLE t ADD COLUMN b text DEFAULT repeat('compressible ', 3000)
a| ALTER TABLE t REPLICA IDENTITY FULL
a| DELETE FROM t
""".replace("{BIG}", "'" + "".join(f"{n * 7919 % 100003:05d}" for n in range(1200)) + "'"),
}
