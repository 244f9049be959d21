"""Scenarios about tables as subscriptions have them: every kind of key, trigger, partition, type and membership.

The form of the scripts is described in :mod:`oracle.scenarios`.
"""

from __future__ import annotations

LONG = "(SELECT string_agg(g::text, '') FROM generate_series(1, 2000) g)"
"""6,893 digits, out of line and not compressed where a column's storage says so."""

REPLICATED: dict[str, str] = {
    "kinds_of_tables_in_one_publication": """
CREATE TABLE outside AS SELECT generate_series(1, 10) AS a;
CREATE TABLE whole AS SELECT generate_series(1, 10) AS a;
CREATE TABLE twins (x text);
INSERT INTO twins VALUES ('a'), ('b'), ('b');
CREATE TABLE keyed (a int PRIMARY KEY);
CREATE TABLE mixed (a int PRIMARY KEY, b text, c numeric);
INSERT INTO mixed (a, b, c) VALUES (1, 'foo', 1.1);
CREATE TABLE covering (a int, b text, CONSTRAINT covering_key PRIMARY KEY (a) INCLUDE (b));
CREATE TABLE whole_with_key (a int PRIMARY KEY, b text);
ALTER TABLE whole_with_key REPLICA IDENTITY FULL;
CREATE TABLE nothing (a int);
ALTER TABLE nothing REPLICA IDENTITY NOTHING;
CREATE TABLE plain_index (c1 int);
CREATE INDEX ON plain_index (c1);
CREATE TABLE no_column ();
INSERT INTO no_column DEFAULT VALUES;
---
a| ALTER PUBLICATION pub_list ADD TABLE keyed, whole, twins, mixed, covering, nothing, whole_with_key, plain_index,
     no_column
a| INSERT INTO keyed SELECT generate_series(1, 50)
a| DELETE FROM keyed WHERE a > 20
a| UPDATE keyed SET a = -a
a| INSERT INTO mixed VALUES (2, 'bar', 2.2)
a| INSERT INTO whole_with_key VALUES (1, 'foo'), (2, 'baz')
a| INSERT INTO nothing SELECT generate_series(1, 20)
a| INSERT INTO covering SELECT generate_series(1, 50)
a| DELETE FROM covering WHERE a > 20
a| UPDATE covering SET a = -a
a| INSERT INTO plain_index VALUES (1)
a| INSERT INTO no_column DEFAULT VALUES
a| INSERT INTO whole SELECT generate_series(1, 10)
a| INSERT INTO outside VALUES (11)
a| ALTER TABLE whole REPLICA IDENTITY FULL
a| ALTER TABLE twins REPLICA IDENTITY FULL
a| UPDATE whole SET a = a * a
a| UPDATE twins SET x = 'bb' WHERE x = 'b'
a| UPDATE mixed SET b = 'baz' WHERE a = 1
a| UPDATE whole_with_key SET b = 'bar' WHERE a = 1
a| DELETE FROM whole_with_key WHERE a = 2
a| UPDATE mixed SET b = repeat('xyzzy', 100000) WHERE a = 2
a| UPDATE mixed SET c = 3.3 WHERE a = 2
a| UPDATE mixed SET b = 'bar', c = 2.2 WHERE a = 2
a| ALTER TABLE mixed DROP COLUMN b
a| UPDATE mixed SET c = 11.11 WHERE a = 1
a| ALTER PUBLICATION pub_list DROP TABLE whole
a| DELETE FROM whole WHERE a > 50
a| ALTER PUBLICATION pub_list SET (publish = 'insert')
a| DELETE FROM keyed
a| ALTER PUBLICATION pub_list SET (publish = 'insert, delete')
a| ALTER PUBLICATION pub_list ADD TABLE whole
a| DELETE FROM whole
a| INSERT INTO whole VALUES (0)
a| ALTER PUBLICATION pub_list DROP TABLE keyed, whole, twins, mixed, covering, nothing, whole_with_key
a| ALTER PUBLICATION pub_list DROP TABLE plain_index, no_column
a| ALTER PUBLICATION pub_list SET (publish = 'insert, update, delete, truncate')
""",
    "rows_without_a_key": """
CREATE TABLE t (id serial, a int);
CREATE TABLE unique_only (id serial UNIQUE, a int);
---
a| ALTER PUBLICATION pub_all SET (publish = 'insert, truncate')
a| INSERT INTO t (a) VALUES (1), (2)
a| DELETE FROM t WHERE a = 1
a| UPDATE t SET a = 3 WHERE a = 2
a| UPDATE t SET id = -id
a| ALTER TABLE t REPLICA IDENTITY FULL
a| UPDATE t SET a = 3
a| UPDATE t SET id = -id
a| ALTER TABLE t ADD COLUMN b text
a| UPDATE t SET id = -id
a| UPDATE t SET id = -id, b = 'some'
a| DELETE FROM t WHERE a = 3
a| INSERT INTO unique_only (a) VALUES (1), (2)
a| DELETE FROM unique_only WHERE a = 1
a| UPDATE unique_only SET id = -id
a| ALTER TABLE unique_only REPLICA IDENTITY USING INDEX unique_only_id_key
a| UPDATE unique_only SET a = 3
a| UPDATE unique_only SET id = -id
a| DELETE FROM unique_only
a| ALTER PUBLICATION pub_all SET (publish = 'insert, update, delete, truncate')
""",
    "identity_index_dropped_beside_a_key": """
CREATE TABLE keyed (a int PRIMARY KEY, b int, c int);
CREATE UNIQUE INDEX keyed_too ON keyed (a);
ALTER TABLE keyed REPLICA IDENTITY USING INDEX keyed_too;
CREATE TABLE keyless (a int NOT NULL, b int, c int);
CREATE UNIQUE INDEX keyless_only ON keyless (a);
ALTER TABLE keyless REPLICA IDENTITY USING INDEX keyless_only;
---
a| ALTER PUBLICATION pub_all SET (publish = 'insert, truncate')
a| INSERT INTO keyed VALUES (0, 0, 0)
a| INSERT INTO keyless VALUES (0, 0, 0)
a| DROP INDEX keyed_too
a| INSERT INTO keyed VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)
a| UPDATE keyed SET a = 4 WHERE a = 1
a| UPDATE keyed SET b = 5 WHERE a = 2
a| UPDATE keyed SET b = 6, c = 7 WHERE a = 3
a| DELETE FROM keyed WHERE b = 1
a| DELETE FROM keyed WHERE a = 3
a| DROP INDEX keyless_only
a| INSERT INTO keyless VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)
a| UPDATE keyless SET a = 4 WHERE a = 1
a| UPDATE keyless SET b = 6, c = 7 WHERE a = 3
a| DELETE FROM keyless WHERE b = 1
a| ALTER PUBLICATION pub_all SET (publish = 'insert, update, delete, truncate')
""",
    "renamed_and_given_a_key_by_a_rewrite": """
a| CREATE TABLE t (id2 serial UNIQUE NOT NULL, a int)
a| INSERT INTO t (a) VALUES (10)
a| ALTER TABLE t RENAME TO u
a| ALTER TABLE u ADD COLUMN id serial PRIMARY KEY
a| INSERT INTO u (a) VALUES (1)
a| DELETE FROM u
""",
    "long_values_and_a_rewrite_in_one_transaction": f"""
a| CREATE TABLE t (a int, b text)
a| CREATE TABLE u (a int)
a| ALTER TABLE t ALTER COLUMN b SET STORAGE EXTERNAL
a| BEGIN
a| INSERT INTO t VALUES (1, repeat('a', 4000))
a| ALTER TABLE t ADD COLUMN id serial PRIMARY KEY
a| INSERT INTO u VALUES (1)
a| COMMIT
a| BEGIN
a| INSERT INTO t VALUES (2, {LONG})
a| CLUSTER t USING t_pkey
a| UPDATE t SET a = 3 WHERE a = 2
a| ALTER TABLE t ADD c float8 DEFAULT floor(random() * 0)
a| UPDATE t SET b = b || 'x'
a| SAVEPOINT s
a| ALTER TABLE t ALTER a TYPE text
a| INSERT INTO t VALUES ('four', {LONG})
a| ROLLBACK TO SAVEPOINT s
a| INSERT INTO t VALUES (5, {LONG})
a| COMMIT
""",
    "long_values_in_every_way": f"""
a| CREATE TABLE t (id serial PRIMARY KEY, c1 text, n float8 DEFAULT 1, c2 text)
a| INSERT INTO t (c1, c2) VALUES ({LONG}, {LONG} || {LONG})
a| INSERT INTO t (c2) VALUES (repeat({LONG}, 20))
a| UPDATE t SET c1 = {LONG} WHERE id = 1
a| INSERT INTO t (id, c2) VALUES (2, 'upserted') ON CONFLICT (id) DO UPDATE SET c2 = EXCLUDED.c2 || t.c2
a| CREATE TABLE k (id serial, key text PRIMARY KEY, c1 text, c2 text)
a| ALTER TABLE k ALTER key SET STORAGE EXTERNAL, ALTER c1 SET STORAGE EXTERNAL
a| INSERT INTO k (key, c1) VALUES (repeat('1234567890', 200), repeat('9876543210', 200))
a| UPDATE k SET c2 = c1
a| UPDATE k SET key = key || '1'
a| DELETE FROM k
a| CREATE TABLE several (id serial UNIQUE NOT NULL, key text PRIMARY KEY, c1 text, c2 text)
a| ALTER TABLE several REPLICA IDENTITY FULL
a| ALTER TABLE several ALTER key SET STORAGE EXTERNAL, ALTER c1 SET STORAGE EXTERNAL, ALTER c2 SET STORAGE EXTERNAL
a| UPDATE pg_attribute SET attstorage = 'x' WHERE attrelid = 'several_pkey'::regclass AND attname = 'key'
a| INSERT INTO several (key) VALUES (repeat('9876543210', 10000))
a| UPDATE several SET c1 = key
a| UPDATE several SET c2 = c1
a| BEGIN
a| INSERT INTO several (key) SELECT * FROM generate_series(1, 500)
a| UPDATE several SET c1 = c2 WHERE id = 1
a| DELETE FROM several WHERE id = 1
a| COMMIT
""",
    "copy_of_short_and_long_values": """
CREATE FUNCTION lines(n int) RETURNS text LANGUAGE sql AS $$ SELECT
  'awk ''BEGIN { for (i = 1; i <= ' || n || '; i++) { s = "short" i; if (i == 2 || i == 4 || i == n || i % 50 == 0) '
  || '{ s = "long" i "-"; for (j = 0; j < 300; j++) s = s "1234567890" } print i "\\t" s } }''' $$;
CREATE FUNCTION copied(name text, n int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
  EXECUTE format('COPY %s FROM PROGRAM %L', name, copy_of_short_and_long_values.lines(n)); END $$;
---
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| ALTER TABLE t ALTER a SET STORAGE EXTERNAL
a| SELECT copied('t', 203)
a| BEGIN
a| TRUNCATE t
a| SELECT copied('t', 120)
b| CREATE TABLE beside (id int)
a| UPDATE t SET id = id + 1000 WHERE id < 60
a| SAVEPOINT s
a| SELECT copied('t', 50)
a| ROLLBACK TO SAVEPOINT s
a| SELECT copied('t', 30)
a| COMMIT
a| CREATE TABLE parts (id int, a text) PARTITION BY RANGE (id)
a| CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (70)
a| CREATE TABLE high PARTITION OF parts DEFAULT
a| SELECT copied('parts', 150)
""",
    "foreign_keys_and_triggers": """
a| CREATE TABLE fk (id bigint PRIMARY KEY, note text)
a| CREATE TABLE ref (id bigint PRIMARY KEY, fk bigint REFERENCES fk ON DELETE CASCADE ON UPDATE CASCADE DEFERRABLE)
a| INSERT INTO fk (id) SELECT generate_series(1, 6)
a| INSERT INTO ref SELECT g, g % 3 + 1 FROM generate_series(1, 6) g
a| DELETE FROM fk WHERE id = 1
a| UPDATE fk SET id = 20 WHERE id = 2
a| CREATE FUNCTION changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
     IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
     IF NEW.note = 'refused' THEN RETURN NULL; END IF;
     NEW.note := coalesce(NEW.note, '') || ' by a trigger'; RETURN NEW;
   END $$
a| CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
     INSERT INTO foreign_keys_and_triggers.log VALUES (TG_OP, TG_LEVEL); RETURN NULL; END $$
a| CREATE TABLE log (op text, level text)
a| CREATE TRIGGER b BEFORE INSERT OR UPDATE ON fk FOR EACH ROW EXECUTE FUNCTION changed()
a| CREATE TRIGGER n AFTER INSERT OR UPDATE OR DELETE ON fk FOR EACH ROW EXECUTE FUNCTION noted()
a| CREATE TRIGGER s AFTER TRUNCATE ON fk FOR EACH STATEMENT EXECUTE FUNCTION noted()
a| INSERT INTO fk VALUES (7, 'inserted'), (8, 'refused'), (9, NULL)
a| UPDATE fk SET note = 'updated' WHERE id > 3
a| DELETE FROM fk WHERE id = 9
a| ALTER TABLE fk ENABLE REPLICA TRIGGER b
a| SET session_replication_role = replica
a| INSERT INTO fk VALUES (10, 'as a replica')
a| DELETE FROM fk WHERE id = 3
a| RESET session_replication_role
a| CREATE RULE r AS ON DELETE TO log DO ALSO INSERT INTO log VALUES ('rule', 'delete')
a| ALTER TABLE log REPLICA IDENTITY FULL
a| DELETE FROM log WHERE op = 'DELETE'
a| TRUNCATE fk CASCADE
""",
    "types_of_a_subscription": """
a| CREATE TYPE enum_t AS ENUM ('a', 'b', 'c')
a| CREATE TYPE comp_basic AS (a float, b text, c int)
a| CREATE TYPE comp_enum AS (a float, b enum_t, c int)
a| CREATE TYPE comp_enum_array AS (a float, b enum_t[], c int)
a| CREATE TYPE comp_one_enum_array AS (a enum_t[])
a| CREATE DOMAIN dom_simple AS int CHECK (VALUE > 10)
a| CREATE TABLE arrays (a int PRIMARY KEY, b text[], c float[], d timestamptz[], e int[][], f enum_t[], g comp_basic[])
a| CREATE TABLE composites (a int PRIMARY KEY, b comp_basic, c comp_enum, d comp_enum_array, e comp_one_enum_array,
     f comp_enum_array[], x text)
a| CREATE TABLE ranges (a int PRIMARY KEY, b daterange, c int4range, d tsrange[], e numrange, f int8range[])
a| CREATE TABLE other (a int PRIMARY KEY, h inet[], d dom_simple, i bytea, n name)
a| INSERT INTO arrays VALUES (1, '{1,2,3}', '{1.1,NULL,3}', '{2014-08-04 00:00:00+02,infinity}', '{{1,2},{3,4}}',
     '{a,b}', ARRAY[ROW(1, 'x', 2)::comp_basic, NULL]), (2, '{}', '{NaN}', NULL, '[2:3]={7,8}', '{NULL}', '{}')
a| INSERT INTO composites VALUES (1, ROW(1.0, 'a', 1), ROW(1.0, 'a', 1), ROW(1.0, ARRAY['a', 'b']::enum_t[], 1),
     ROW(ARRAY['c', 'b']::enum_t[]), ARRAY[ROW(1, '{a,c}', NULL)::comp_enum_array], 'x'),
     (2, ROW(NULL, '"quo,te(d)"', 2), NULL, ROW(2, NULL, NULL), ROW(NULL), '{}', NULL)
a| INSERT INTO ranges VALUES (1, '[2014-08-04, infinity)', '[3,7)', ARRAY['["2014-08-04 00:00","2014-08-05"]'::tsrange],
     '(1.5,]', '{"[1,5)",empty,"(,)"}')
a| INSERT INTO other VALUES (1, '{10.0.0.0/8,::1}', 100, '\\xdeadbeef', 'a name')
a| UPDATE arrays SET b = '{"4 5",6}', d = d || '2000-01-01'::timestamptz, f = f || 'c'::enum_t WHERE a = 1
a| UPDATE composites SET b.a = 7, c.b = 'c', f = f || f WHERE a = 1
a| UPDATE ranges SET b = '(,2020-01-01)', f = NULL, a = 5
a| UPDATE other SET h = h || '1.2.3.4'::inet, d = 11
a| ALTER TABLE arrays REPLICA IDENTITY FULL
a| ALTER TYPE enum_t ADD VALUE 'd' BEFORE 'b'
a| UPDATE arrays SET f = '{d,a}'
a| DELETE FROM arrays
a| DELETE FROM composites
a| DELETE FROM ranges
a| DELETE FROM other
""",
    "keys_of_a_nondeterministic_collation": """
a| CREATE COLLATION loose (provider = icu, locale = 'und', deterministic = false)
a| CREATE TABLE t (a text COLLATE loose PRIMARY KEY, b text)
a| CREATE TABLE whole (a text COLLATE loose, b text)
a| ALTER TABLE whole REPLICA IDENTITY FULL
a| INSERT INTO t VALUES (U&'\\00E4bc', 'foo')
a| INSERT INTO whole VALUES (U&'\\0061\\0308bc', 'foo')
a| UPDATE t SET b = 'bar' WHERE a = U&'\\0061\\0308bc'
a| UPDATE t SET a = U&'\\0061\\0308bc'
a| UPDATE whole SET b = 'bar' WHERE a = U&'\\00E4bc'
a| ALTER COLLATION loose RENAME TO looser
a| DELETE FROM t
a| DELETE FROM whole
""",
    "partitions_of_many_shapes": """
CREATE TABLE tab1 (a int PRIMARY KEY, b text) PARTITION BY LIST (a);
CREATE TABLE tab1_1 (b text, a int NOT NULL);
ALTER TABLE tab1 ATTACH PARTITION tab1_1 FOR VALUES IN (1, 2, 3);
CREATE TABLE tab1_2 PARTITION OF tab1 FOR VALUES IN (4, 5, 6);
CREATE TABLE tab1_def PARTITION OF tab1 DEFAULT;
CREATE TABLE tab2 (a int PRIMARY KEY, b text DEFAULT 'unset') PARTITION BY HASH (a);
CREATE TABLE tab2_0 PARTITION OF tab2 FOR VALUES WITH (MODULUS 2, REMAINDER 0) PARTITION BY RANGE (a);
CREATE TABLE tab2_0_low PARTITION OF tab2_0 FOR VALUES FROM (MINVALUE) TO (10);
CREATE TABLE tab2_0_high (b text, gone int, a int NOT NULL);
ALTER TABLE tab2_0_high DROP COLUMN gone;
ALTER TABLE tab2_0 ATTACH PARTITION tab2_0_high FOR VALUES FROM (10) TO (MAXVALUE);
CREATE TABLE tab2_1 PARTITION OF tab2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE SCHEMA leaves;
CREATE TABLE apart (a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE leaves.apart_low PARTITION OF apart FOR VALUES FROM (0) TO (10);
---
a| ALTER PUBLICATION pub_list ADD TABLE tab1, tab2
a| ALTER PUBLICATION pub_some ADD TABLE tab1_def, apart
a| INSERT INTO tab1 SELECT g, 'row ' || g FROM unnest('{0,1,3,5,7,8}'::int[]) g
a| UPDATE tab1 SET a = 2 WHERE a = 1
a| UPDATE tab1 SET a = 6 WHERE a = 5
a| UPDATE tab1 SET a = 4 WHERE a = 3
a| UPDATE tab1 SET a = 1 WHERE a = 7
a| UPDATE tab1 SET b = 'all'
a| DELETE FROM tab1 WHERE a IN (2, 6)
a| TRUNCATE tab1_2
a| TRUNCATE tab1
a| ALTER PUBLICATION pub_list SET (publish_via_partition_root)
a| INSERT INTO tab2 (a) SELECT g * 3 FROM generate_series(1, 9) g
a| INSERT INTO tab2 (a, b) SELECT a + 100, 'moved' FROM tab2_0_high
a| UPDATE tab2 SET a = a + 1 WHERE a < 20
a| ALTER TABLE tab2 ADD COLUMN c text DEFAULT 'c', ADD d int
a| INSERT INTO tab2 (a, d) VALUES (1000, 1), (1001, 2), (-1000, 3)
a| UPDATE tab2 SET d = 4 WHERE a > 900
a| DELETE FROM tab2 WHERE a > 20
a| TRUNCATE tab2_1, tab2_0_low
a| ALTER TABLE tab2 ALTER c TYPE varchar(20), DROP COLUMN b
a| INSERT INTO tab2 (a, c) VALUES (2000, 'x'), (2001, 'y')
a| INSERT INTO apart VALUES (1)
a| BEGIN
a| ALTER TABLE tab1 DETACH PARTITION tab1_def
a| INSERT INTO tab1_def VALUES (50, 'alone')
a| CREATE TABLE tab1_50 PARTITION OF tab1 FOR VALUES IN (50, 51)
a| INSERT INTO tab1 VALUES (50, 'in the new one')
a| DROP TABLE tab1_1
a| ALTER TABLE tab1 RENAME b TO bb
a| INSERT INTO tab1 VALUES (51, 'renamed')
a| COMMIT
a| ALTER TABLE tab1 REPLICA IDENTITY FULL
a| UPDATE tab1 SET bb = 'the root has another identity'
a| CREATE TABLE tab1_60 (LIKE tab1 INCLUDING ALL)
a| ALTER TABLE tab1_60 REPLICA IDENTITY FULL
a| INSERT INTO tab1_60 VALUES (60, 'before')
a| ALTER TABLE tab1 ATTACH PARTITION tab1_60 FOR VALUES IN (60, 61)
a| UPDATE tab1 SET a = 61 WHERE a = 60
a| UPDATE tab1 SET a = 51 WHERE a = 61 AND false
a| UPDATE tab1 SET a = 60, bb = 'moved' WHERE a = 50
a| ALTER PUBLICATION pub_some DROP TABLE tab1_def, apart
a| ALTER PUBLICATION pub_list SET (publish_via_partition_root = false)
a| ALTER PUBLICATION pub_list DROP TABLE tab1, tab2
""",
    "tables_that_inherit": """
a| CREATE TABLE parent (id int PRIMARY KEY, a text)
a| CREATE TABLE child (b int, PRIMARY KEY (id)) INHERITS (parent)
a| CREATE TABLE grandchild (PRIMARY KEY (id)) INHERITS (child)
a| ALTER PUBLICATION pub_list ADD TABLE parent
a| ALTER PUBLICATION pub_some ADD TABLE ONLY child
a| INSERT INTO parent VALUES (1, 'parent')
a| INSERT INTO child VALUES (2, 'child', 2)
a| INSERT INTO grandchild VALUES (3, 'grandchild', 3)
a| UPDATE parent SET a = a || '!'
a| ALTER TABLE parent ADD COLUMN c text DEFAULT 'inherited'
a| ALTER TABLE parent RENAME a TO aa
a| UPDATE parent SET aa = 'renamed'
a| ALTER TABLE grandchild NO INHERIT child
a| ALTER TABLE parent DROP COLUMN aa
a| INSERT INTO grandchild (id, aa) VALUES (4, 'has its own')
a| DELETE FROM parent WHERE id = 2
a| TRUNCATE parent
a| ALTER PUBLICATION pub_list DROP TABLE parent, grandchild
a| ALTER PUBLICATION pub_list ADD TABLE ONLY parent
a| INSERT INTO child VALUES (5)
a| TRUNCATE ONLY parent
a| ALTER PUBLICATION pub_list DROP TABLE ONLY parent
a| ALTER PUBLICATION pub_some DROP TABLE ONLY child
""",
    "updates_of_tables_that_leave_no_log": """
a| CREATE TEMPORARY TABLE one AS SELECT 1 AS a
a| UPDATE one SET a = 2
a| CREATE UNLOGGED TABLE two AS SELECT 1 AS a
a| UPDATE two SET a = 2
a| CREATE TABLE t (a int PRIMARY KEY, b text)
a| INSERT INTO t VALUES (1, 'logged')
a| BEGIN
a| CREATE TEMPORARY TABLE three (a int PRIMARY KEY) ON COMMIT DROP
a| INSERT INTO three VALUES (1)
a| ALTER TABLE three ADD b int DEFAULT 5
a| UPDATE three SET b = 6
a| INSERT INTO t VALUES (2, 'beside a temporary one')
a| TRUNCATE three, two
a| COMMIT
a| BEGIN
a| ALTER TABLE t SET UNLOGGED
a| UPDATE t SET b = 'not logged'
a| ALTER TABLE t SET LOGGED
a| UPDATE t SET b = 'logged again'
a| COMMIT
a| CREATE TEMPORARY TABLE four (LIKE t INCLUDING ALL)
a| INSERT INTO four SELECT * FROM t
a| DISCARD TEMP
a| DELETE FROM t
a| CREATE TABLE parted (a int) PARTITION BY RANGE (a)
a| CREATE UNLOGGED TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (9)
a| INSERT INTO parted VALUES (1)
""",
    "speculative_rows_of_several_sessions": """
a| CREATE FUNCTION gate(k text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
   DECLARE n int := coalesce(nullif(current_setting('spec.calls', true), ''), '100')::int + 1;
   BEGIN
     PERFORM set_config('spec.calls', n::text, false);
     IF n = 2 THEN PERFORM pg_advisory_lock_shared(8); PERFORM pg_advisory_unlock_shared(8); END IF;
     RETURN k;
   END $$
a| CREATE TABLE t (k text, a text)
a| CREATE UNIQUE INDEX ON t (gate(k))
a| ALTER TABLE t REPLICA IDENTITY FULL
b| SELECT pg_advisory_lock(8)
a| BEGIN
a| INSERT INTO t VALUES ('first', 'before')
a| SET LOCAL spec.calls = 0
a&| INSERT INTO t VALUES ('key', repeat('aborted ', 900)) ON CONFLICT DO NOTHING
b| INSERT INTO t VALUES ('key', 'the winner')
b| SELECT pg_advisory_unlock(8)
a.|
a| INSERT INTO t VALUES ('last', 'behind an aborted one')
a| COMMIT
b| SELECT pg_advisory_lock(8)
a| SET spec.calls = 0
a&| INSERT INTO t VALUES ('rolled back', 'speculative') ON CONFLICT DO NOTHING
c| BEGIN
c| INSERT INTO t VALUES ('rolled back', 'rolled back')
b| SELECT pg_advisory_unlock(8)
c| ROLLBACK
a.|
a| INSERT INTO t SELECT 'k' || g % 3, 'row ' || g FROM generate_series(1, 3) g ON CONFLICT DO NOTHING
a| BEGIN
a| SAVEPOINT s
a| INSERT INTO t VALUES ('gone', 'speculative, rolled back') ON CONFLICT DO NOTHING
a| ROLLBACK TO SAVEPOINT s
a| INSERT INTO t VALUES ('gone', 'stays') ON CONFLICT (gate(k)) DO UPDATE SET a = 'updated'
a| INSERT INTO t VALUES ('gone', 'updates') ON CONFLICT (gate(k)) DO UPDATE SET a = excluded.a || ' it'
a| COMMIT
""",
    "upserts_and_merges_over_a_range": """
a| CREATE TABLE t (id int PRIMARY KEY, a int, n int)
a| INSERT INTO t SELECT g, g, g FROM generate_series(-5, 5, 2) g
a| BEGIN
a| INSERT INTO t SELECT g, g, g FROM generate_series(-15, 15) g ON CONFLICT (id) DO UPDATE SET n = excluded.n + 1
a| COMMIT
a| BEGIN
a| MERGE INTO t USING (SELECT g AS id, g AS data, g AS num FROM generate_series(-20, 5) g) s ON t.id = s.id
     WHEN MATCHED AND t.id < 0 THEN UPDATE SET n = n + 1 WHEN MATCHED AND t.id >= 0 THEN DELETE
     WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.data, s.num)
a| COMMIT
""",
}

LATER: dict[str, tuple[str, int]] = {
    "messages_flushed_at_once": (
        """
a| SELECT pg_logical_emit_message(true, 'test', 'transactional', true)
a| SELECT pg_logical_emit_message(false, 'test', 'not transactional', true)
a| BEGIN
a| SELECT pg_logical_emit_message(true, 'test', 'gone', true)
a| SELECT pg_logical_emit_message(false, 'test', 'stays', true)
a| ROLLBACK
""",
        17,
    ),
    "temporal_keys": (
        """
a| CREATE TABLE keyed (id int4range, valid_at daterange, a text, PRIMARY KEY (id, valid_at WITHOUT OVERLAPS))
a| CREATE TABLE unique_one (id int4range NOT NULL, valid_at daterange NOT NULL, a text,
     CONSTRAINT by_time UNIQUE (id, valid_at WITHOUT OVERLAPS))
a| ALTER TABLE unique_one REPLICA IDENTITY USING INDEX by_time
a| ALTER PUBLICATION pub_list ADD TABLE keyed, unique_one
a| INSERT INTO keyed VALUES ('[1,2)', '[2000-01-01,2010-01-01)', 'a'), ('[2,3)', '(,)', 'b')
a| INSERT INTO unique_one SELECT * FROM keyed
a| UPDATE keyed SET a = 'c' WHERE id = '[1,2)'
a| UPDATE keyed SET valid_at = '[2001-01-01,2011-01-01)' WHERE id = '[1,2)'
a| UPDATE unique_one SET a = 'c', valid_at = '[2020-01-01,)' WHERE id = '[2,3)'
a| ALTER TABLE keyed REPLICA IDENTITY FULL
a| UPDATE keyed SET a = 'd'
a| DELETE FROM keyed
a| DELETE FROM unique_one
a| ALTER PUBLICATION pub_list DROP TABLE keyed, unique_one
""",
        18,
    ),
    "old_and_new_rows_returned": (
        """
a| CREATE TABLE t (id int PRIMARY KEY, a text, b int NOT NULL, v text GENERATED ALWAYS AS (a || '!') VIRTUAL)
a| INSERT INTO t (id, a, b) VALUES (1, 'one', 1), (2, 'two', 2) RETURNING old.*, new.*
a| UPDATE t SET a = 'changed' RETURNING old.a, new.v
a| ALTER TABLE t ADD CONSTRAINT positive CHECK (b > 0) NOT ENFORCED, ALTER b DROP NOT NULL
a| ALTER TABLE t ADD CONSTRAINT b_there NOT NULL b NOT VALID
a| MERGE INTO t USING generate_series(2, 4) g ON t.id = g WHEN MATCHED THEN UPDATE SET b = 9
     WHEN NOT MATCHED THEN INSERT (id, a, b) VALUES (g, 'merged', g) WHEN NOT MATCHED BY SOURCE THEN DELETE
     RETURNING merge_action(), old.b, new.b
a| DELETE FROM t RETURNING old.id
""",
        18,
    ),
}
"""Scripts, and the first major that takes them."""
