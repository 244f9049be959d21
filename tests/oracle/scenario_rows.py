"""Scenarios about rows: what the WAL holds of each kind of change.

The form of the scripts is described in :mod:`oracle.scenarios`.
"""

from __future__ import annotations

BIG = "(SELECT string_agg(md5(g::text), '') FROM generate_series(1, 300) g)"
"""About 9,600 bytes that hardly compress: stored out of line."""

ROWS: dict[str, str] = {
    "insert_update_delete": """
a| CREATE TABLE t (id int PRIMARY KEY, a text, b int)
a| INSERT INTO t VALUES (1, 'one', 10), (2, 'two', NULL), (3, NULL, 30)
a| UPDATE t SET b = b + 1
a| UPDATE t SET id = 20 WHERE id = 2
a| UPDATE t SET a = a
a| DELETE FROM t WHERE id <> 1
a| DELETE FROM t
""",
    "hot_updates_and_pruning": """
a| CREATE TABLE t (id int PRIMARY KEY, a int, filler char(100)) WITH (fillfactor = 50)
a| INSERT INTO t SELECT g, 0, 'x' FROM generate_series(1, 40) g
a| UPDATE t SET a = a + 1
a| UPDATE t SET a = a + 1
a| UPDATE t SET a = a + 1
a| VACUUM t
a| CREATE INDEX ON t (a)
a| UPDATE t SET a = a + 1
a| VACUUM FREEZE t
a| UPDATE t SET filler = 'y' WHERE id < 5
""",
    "replica_identity_kinds": """
a| CREATE TABLE t (id int PRIMARY KEY, a text NOT NULL, b text)
a| CREATE UNIQUE INDEX t_a ON t (a)
a| INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', NULL), (3, 'c', 'z')
a| UPDATE t SET b = 'changed' WHERE id = 1
a| ALTER TABLE t REPLICA IDENTITY FULL
a| UPDATE t SET b = 'full' WHERE id <= 2
a| ALTER TABLE t REPLICA IDENTITY USING INDEX t_a
a| UPDATE t SET b = 'index' WHERE id = 1
a| UPDATE t SET a = 'new key' WHERE id = 1
a| DELETE FROM t WHERE id = 1
a| ALTER TABLE t REPLICA IDENTITY DEFAULT
a| DELETE FROM t WHERE id = 2
a| ALTER TABLE t REPLICA IDENTITY FULL
a| DELETE FROM t WHERE id = 3
""",
    "types_without_text_form_that_are_null": """
a| CREATE TYPE odd
a| CREATE FUNCTION odd_in(cstring) RETURNS odd LANGUAGE internal IMMUTABLE STRICT AS 'textin'
a| CREATE FUNCTION odd_out(odd) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'gtsvectorout'
a| CREATE TYPE odd (INPUT = odd_in, OUTPUT = odd_out, LIKE = text)
a| CREATE TYPE pair AS (a int, b odd)
a| CREATE TABLE t (id int PRIMARY KEY, v odd, r odd[], p pair, n pg_ndistinct, note text)
a| ALTER PUBLICATION pub_list ADD TABLE t
a| INSERT INTO t (id, note) VALUES (1, 'one'), (2, NULL)
a| UPDATE t SET note = 'two' WHERE id = 2
a| ALTER TABLE t REPLICA IDENTITY FULL
a| UPDATE t SET note = NULL WHERE id = 2
a| ALTER TABLE t DROP COLUMN r
a| DELETE FROM t
""",
    "composites_and_ranges": f"""
a| CREATE TYPE inner_pair AS (a int, b text)
a| CREATE TYPE pair AS (n numeric, i inner_pair, r tstzrange)
a| CREATE DOMAIN named_pair AS pair
a| CREATE TYPE textrange AS RANGE (subtype = text)
a| CREATE TABLE other (a int, b text)
a| INSERT INTO other VALUES (1, 'short'), (2, repeat('compressed ', 900)), (3, {BIG})
a| ALTER TABLE other ADD COLUMN c text DEFAULT 'a fast default'
a| CREATE TABLE t (id int PRIMARY KEY, p pair, d named_pair, ps pair[], r int4range, m nummultirange, w other,
   x textrange)
a| INSERT INTO t VALUES (1, ROW(1.50, ROW(1, 'a b'), '[2024-01-01,)'), NULL, '{{}}', '[1,5)',
   '{{[1,2),[3,4.50)}}', NULL, '[a,b)')
a| INSERT INTO t SELECT a + 1, NULL, ROW(NULL, ROW(a, b), 'empty')::pair, ARRAY[ROW(2, NULL, NULL)::pair], NULL,
   '{{}}', other, NULL FROM other
a| BEGIN
a| UPDATE t SET p = ROW(2, ROW(2, 'x'), NULL) WHERE id = 1
a| ALTER TYPE inner_pair ADD ATTRIBUTE c date CASCADE
a| UPDATE t SET p = ROW(3, ROW(3, 'x', '2024-02-29'), NULL) WHERE id = 1
a| SAVEPOINT s
a| ALTER TYPE inner_pair DROP ATTRIBUTE b CASCADE
a| UPDATE t SET p = ROW(4, ROW(4, '2024-03-01'), NULL) WHERE id = 1
a| ROLLBACK TO s
a| UPDATE t SET r = '(,)' WHERE id = 1
a| COMMIT
a| ALTER TABLE t REPLICA IDENTITY FULL
a| ALTER TABLE other ADD COLUMN d int
a| UPDATE t SET r = '[7,9]' WHERE id >= 2
a| ALTER TABLE other DROP COLUMN a
a| DELETE FROM t
""",
    "types_of_extensions": """
a| CREATE EXTENSION hstore
a| CREATE EXTENSION citext
a| CREATE EXTENSION ltree
a| CREATE EXTENSION cube
a| CREATE TABLE t (id int PRIMARY KEY, h hstore, c citext, l ltree, q cube, hs hstore[])
a| INSERT INTO t VALUES (1, 'a=>1, "b c"=>NULL', 'MiXed', 'Top.a.b', '(1,2),(3,4)', ARRAY['x=>y'::hstore, NULL])
a| ALTER EXTENSION citext SET SCHEMA public
a| UPDATE t SET h = h || '"new"=>"with \\"quotes\\""', c = 'other'
a| DELETE FROM t
""",
    "languages_in_columns": """
a| CREATE TABLE t (id int PRIMARY KEY, v tsvector, q tsquery, p jsonpath, x xml, s pg_snapshot, vs tsvector[])
a| INSERT INTO t VALUES (1, 'a:1A fat:2 cat:3,4B', 'fat & !(rat | cat:*A)', '$.a[*] ? (@ > 1)',
   '<?xml version="1.0"?><a/>', '10:20:11,15', ARRAY['x'::tsvector])
a| UPDATE t SET v = v || 'more:9'::tsvector, q = 'a <-> b', p = 'strict $', x = NULL
a| DELETE FROM t
""",
    "types_without_a_send_function": """
a| CREATE TYPE plain
a| CREATE FUNCTION plain_in(cstring) RETURNS plain LANGUAGE internal IMMUTABLE STRICT AS 'textin'
a| CREATE FUNCTION plain_out(plain) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout'
a| CREATE TYPE plain (INPUT = plain_in, OUTPUT = plain_out, LIKE = text)
a| CREATE TYPE sent
a| CREATE FUNCTION sent_in(cstring) RETURNS sent LANGUAGE internal IMMUTABLE STRICT AS 'int4in'
a| CREATE FUNCTION sent_out(sent) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out'
a| CREATE FUNCTION sent_send(sent) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'int4send'
a| CREATE TYPE sent (INPUT = sent_in, OUTPUT = sent_out, SEND = sent_send, LIKE = int4)
a| CREATE DOMAIN plain_domain AS plain
a| CREATE TYPE pair AS (a plain, b sent)
a| CREATE TABLE t (id int PRIMARY KEY, p plain, d plain_domain, s sent, r pair, ps plain[], ss sent[], note text)
a| INSERT INTO t VALUES (1, 'text', 'more text', '7', ROW(NULL, '-8'), NULL, '{1,NULL,-1}', 'note')
a| ALTER TABLE t REPLICA IDENTITY FULL
a| UPDATE t SET p = NULL, s = '-1' WHERE id = 1
a| DELETE FROM t
""",
    "identity_index_goes_away": """
a| CREATE TABLE t (id int NOT NULL, a text, UNIQUE (id))
a| ALTER TABLE t REPLICA IDENTITY USING INDEX t_id_key
a| INSERT INTO t VALUES (1, 'a'), (2, 'b')
a| UPDATE t SET id = 3 WHERE id = 1
a| ALTER TABLE t DROP CONSTRAINT t_id_key
a| INSERT INTO t VALUES (5, 'no identity now')
a| ALTER TABLE t ADD PRIMARY KEY (id) DEFERRABLE
a| INSERT INTO t VALUES (6, 'a deferrable key is none')
a| ALTER TABLE t REPLICA IDENTITY FULL
a| DELETE FROM t
""",
    "identity_with_composite_and_included_columns": """
a| CREATE TABLE t (a int, b text, c int, d text, PRIMARY KEY (c, a) INCLUDE (d))
a| INSERT INTO t VALUES (1, 'b', 2, 'd'), (3, NULL, 4, NULL)
a| UPDATE t SET d = 'included'
a| UPDATE t SET a = 9 WHERE c = 4
a| DELETE FROM t
""",
    "toast_unchanged": f"""
a| CREATE TABLE t (id int PRIMARY KEY, a text, b int)
a| INSERT INTO t VALUES (1, {BIG}, 1), (2, repeat('compressed ', 2000), 1), (3, repeat('x', 1000000), 1)
a| UPDATE t SET b = 2
a| UPDATE t SET a = a || '!'
a| UPDATE t SET id = id + 10
a| DELETE FROM t WHERE id = 11
a| UPDATE t SET a = 'short'
""",
    "toast_with_full_identity": f"""
a| CREATE TABLE t (id int, a text, b int)
a| ALTER TABLE t REPLICA IDENTITY FULL
a| INSERT INTO t VALUES (1, {BIG}, 1), (2, repeat('compressed ', 3000), 1), (3, NULL, 1)
a| UPDATE t SET b = 2
a| UPDATE t SET a = {BIG} || 'more' WHERE id = 1
a| DELETE FROM t
""",
    "toasted_key": """
a| CREATE TABLE t (k text PRIMARY KEY, a text, b int)
a| ALTER TABLE t ALTER k SET STORAGE EXTERNAL
a| INSERT INTO t VALUES (repeat('0123456789', 210), repeat('value ', 900), 1)
a| UPDATE t SET b = 2
a| UPDATE t SET k = k || 'x'
a| DELETE FROM t
""",
    "toast_of_interleaved_sessions": f"""
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| BEGIN
b| BEGIN
a| INSERT INTO t VALUES (1, {BIG})
b| INSERT INTO t VALUES (2, {BIG} || 'b')
a| SAVEPOINT s
a| INSERT INTO t VALUES (3, {BIG} || 'gone')
b| INSERT INTO t VALUES (4, repeat('b', 300000))
a| ROLLBACK TO SAVEPOINT s
a| INSERT INTO t VALUES (3, {BIG} || 'stays')
b| COMMIT
a| UPDATE t SET a = a || 'again' WHERE id = 3
a| COMMIT
""",
    "toast_several_columns_and_storages": f"""
a| CREATE TABLE t (id int PRIMARY KEY, a text, b text, c text, d bytea, e jsonb, f text[])
a| ALTER TABLE t ALTER b SET STORAGE EXTERNAL, ALTER c SET STORAGE MAIN
a| INSERT INTO t SELECT g, {BIG}, {BIG}, repeat('main ', 800), decode({BIG}, 'hex'), jsonb_build_object('k', {BIG}),
     array[{BIG}, NULL, 'x'] FROM generate_series(1, 3) g
a| UPDATE t SET b = b || b WHERE id = 1
a| UPDATE t SET c = repeat('main again ', 900), e = NULL WHERE id = 2
a| UPDATE t SET d = d || d, f = f || f WHERE id = 3
a| UPDATE t SET id = id + 100
""",
    "copy_with_long_values": f"""
a| CREATE TABLE source AS SELECT g AS id, CASE WHEN g % 7 = 0 THEN {BIG} || g ELSE 'short ' || g END AS a
     FROM generate_series(1, 60) g
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| DO $$ BEGIN INSERT INTO t SELECT * FROM source; END $$
a| BEGIN
a| CREATE TABLE u (LIKE t INCLUDING ALL)
a| INSERT INTO u SELECT * FROM source
a| TRUNCATE u
a| INSERT INTO u SELECT id, repeat(a, 2) FROM source
a| COMMIT
""",
    "one_row_over_many_pages": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| ALTER TABLE t ALTER a SET STORAGE EXTERNAL
a| ALTER TABLE t REPLICA IDENTITY FULL
a| INSERT INTO t VALUES (1, repeat('0123456789abcdef', 20000))
a| UPDATE t SET id = 2
a| DELETE FROM t
""",
    "on_conflict": """
a| CREATE TABLE t (id int PRIMARY KEY, a text, n int DEFAULT 0)
a| INSERT INTO t VALUES (1, 'first') ON CONFLICT DO NOTHING
a| INSERT INTO t VALUES (1, 'second') ON CONFLICT DO NOTHING
a| INSERT INTO t VALUES (1, 'third') ON CONFLICT (id) DO UPDATE SET a = excluded.a, n = t.n + 1
a| INSERT INTO t SELECT g, repeat('long ', 2000) FROM generate_series(1, 5) g
     ON CONFLICT (id) DO UPDATE SET a = excluded.a
""",
    "speculative_insertion_loses": f"""
a| CREATE TABLE t (k text, a text)
a| CREATE FUNCTION slow(k text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
   DECLARE n int := coalesce(nullif(current_setting('spec.calls', true), ''), '100')::int + 1;
   BEGIN
     PERFORM set_config('spec.calls', n::text, false);
     IF n = 2 THEN PERFORM pg_advisory_lock_shared(7); PERFORM pg_advisory_unlock_shared(7); END IF;
     RETURN k;
   END $$
a| CREATE UNIQUE INDEX ON t (slow(k))
a| ALTER TABLE t REPLICA IDENTITY FULL
b| SELECT pg_advisory_lock(7)
a| SET spec.calls = 0
a&| INSERT INTO t VALUES ('key', {BIG}) ON CONFLICT (slow(k)) DO UPDATE SET a = 'updated ' || excluded.a
b| INSERT INTO t VALUES ('key', 'the winner')
b| SELECT pg_advisory_unlock(7)
a.|
a| INSERT INTO t VALUES ('other', 'after')
""",
    "merge": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| INSERT INTO t SELECT g, 'old' FROM generate_series(1, 6) g
a| MERGE INTO t USING generate_series(4, 9) g ON t.id = g WHEN MATCHED AND g = 5 THEN DELETE
     WHEN MATCHED THEN UPDATE SET a = 'new' WHEN NOT MATCHED THEN INSERT VALUES (g, 'added')
""",
    "row_locks_and_multixacts": """
a| CREATE TABLE t (id int PRIMARY KEY, a int)
a| INSERT INTO t VALUES (1, 1), (2, 2)
a| BEGIN
b| BEGIN
a| SELECT * FROM t FOR KEY SHARE
b| SELECT * FROM t FOR KEY SHARE
a| UPDATE t SET a = 10 WHERE id = 1
b| UPDATE t SET a = 20 WHERE id = 2
b| COMMIT
a| SAVEPOINT s
a| SELECT * FROM t WHERE id = 1 FOR UPDATE
a| ROLLBACK TO SAVEPOINT s
a| DELETE FROM t WHERE id = 1
a| COMMIT
""",
    "same_row_many_times": """
a| CREATE TABLE t (id int PRIMARY KEY, a int)
a| BEGIN
a| INSERT INTO t VALUES (1, 0)
a| UPDATE t SET a = 1
a| UPDATE t SET a = 2, id = 2
a| DELETE FROM t
a| INSERT INTO t VALUES (2, 3)
a| COMMIT
""",
    "wide_rows_and_nulls": """
a| DO $$ BEGIN EXECUTE (SELECT 'CREATE TABLE t (id int PRIMARY KEY, ' ||
     string_agg(format('c%s %s', g, CASE g % 3 WHEN 0 THEN 'int' WHEN 1 THEN 'text' ELSE 'boolean' END), ', ') || ')'
     FROM generate_series(1, 300) g); END $$
a| INSERT INTO t (id, c1, c150, c300) VALUES (1, 'a', 150, 300), (2, NULL, NULL, NULL)
a| UPDATE t SET c299 = true, c2 = false
a| DELETE FROM t
""",
    "no_columns": """
a| CREATE TABLE t ()
a| INSERT INTO t DEFAULT VALUES
a| CREATE TABLE u (a int, b text)
a| INSERT INTO u VALUES (1, 'x')
a| ALTER TABLE u DROP COLUMN a, DROP COLUMN b
a| INSERT INTO u DEFAULT VALUES
a| ALTER TABLE u REPLICA IDENTITY FULL
a| INSERT INTO u DEFAULT VALUES
a| DELETE FROM u
""",
    "quoted_names": """
a| CREATE TABLE "Select" ("Group" int PRIMARY KEY, "a b" text, "quo""te" text, "é" text, "user" text, "1st" int)
a| INSERT INTO "Select" VALUES (1, 'a''b', 'c\\d', E'tab\\tnew\\nline', NULL, 1)
a| UPDATE "Select" SET "Group" = 2
a| DELETE FROM "Select"
a| CREATE TABLE a_name_that_is_as_long_as_a_name_may_be_which_is_63_bytes_long (id int)
a| INSERT INTO a_name_that_is_as_long_as_a_name_may_be_which_is_63_bytes_long VALUES (1)
""",
    "generated_and_identity_columns": """
a| CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int,
     twice int GENERATED ALWAYS AS (a * 2) STORED, c text DEFAULT 'd', n serial)
a| INSERT INTO t (a) VALUES (1), (2)
a| UPDATE t SET a = 5 WHERE id = 1
a| DELETE FROM t
""",
    "partitions": """
a| CREATE TABLE p (id int, region text, note text, PRIMARY KEY (id, region)) PARTITION BY LIST (region)
a| CREATE TABLE p_north PARTITION OF p FOR VALUES IN ('north')
a| CREATE TABLE p_south (note text, extra int, region text NOT NULL, id int NOT NULL)
a| ALTER TABLE p_south DROP COLUMN extra
a| ALTER TABLE p ATTACH PARTITION p_south FOR VALUES IN ('south')
a| INSERT INTO p VALUES (1, 'north', 'a'), (2, 'south', 'b'), (3, 'north', NULL)
a| UPDATE p SET note = 'same partition'
a| UPDATE p SET region = 'south' WHERE id = 1
a| UPDATE p SET region = 'north' WHERE id <> 3
a| DELETE FROM p WHERE id = 2
a| ALTER TABLE p DETACH PARTITION p_south
a| INSERT INTO p_south VALUES ('alone', 'south', 9)
a| ALTER TABLE p ADD COLUMN added int DEFAULT 7
a| UPDATE p SET note = 'after'
a| TRUNCATE p
""",
    "truncate": """
a| CREATE TABLE t (id serial PRIMARY KEY, a text)
a| CREATE TABLE u (id int REFERENCES t)
a| CREATE TABLE v (id int)
a| INSERT INTO t (a) VALUES ('x'), ('y')
a| INSERT INTO u VALUES (1)
a| TRUNCATE t CASCADE
a| INSERT INTO t (a) VALUES ('after')
a| TRUNCATE t, u, v RESTART IDENTITY
a| BEGIN
a| INSERT INTO t (a) VALUES ('before, in one transaction')
a| TRUNCATE t, u
a| INSERT INTO t (a) VALUES ('after, in one transaction')
a| SAVEPOINT s
a| TRUNCATE v
a| INSERT INTO v VALUES (1)
a| ROLLBACK TO SAVEPOINT s
a| INSERT INTO v VALUES (2)
a| COMMIT
""",
    "unlogged_and_temporary": """
a| CREATE UNLOGGED TABLE t (id int PRIMARY KEY, a text)
a| INSERT INTO t VALUES (1, 'not decoded')
a| ALTER TABLE t SET LOGGED
a| INSERT INTO t VALUES (2, 'decoded')
a| ALTER TABLE t SET UNLOGGED
a| INSERT INTO t VALUES (3, 'not decoded')
a| CREATE TEMPORARY TABLE temporary_one (id int)
a| INSERT INTO temporary_one VALUES (1)
a| TRUNCATE t
""",
}
