"""Scenarios about what publications publish while it changes: columns, schemas, roots of partitions.

The form of the scripts is described in :mod:`oracle.scenarios`. Two publications of one stream must agree on a table's
columns, so no table is in both ``pub_list`` with a list of columns and ``pub_some``. Members are added by the scripts,
as scripts before them may have set others.
"""

from __future__ import annotations

PUBLICATIONS: dict[str, str] = {
    "column_lists_change_behind_an_open_transaction": """
CREATE TABLE t (id int PRIMARY KEY, a text, b int, c text);
CREATE TABLE u (id int PRIMARY KEY, a text);
---
a| ALTER PUBLICATION pub_list ADD TABLE t (c, id), u (id)
a| INSERT INTO t VALUES (1, 'a', 1, 'c')
a| BEGIN
a| INSERT INTO t VALUES (2, 'a', 2, 'c')
b| BEGIN
b| ALTER PUBLICATION pub_list DROP TABLE t
b| ALTER PUBLICATION pub_list ADD TABLE t (id, b)
c| INSERT INTO t VALUES (3, 'a', 3, 'by the old list')
b| COMMIT
a| INSERT INTO t VALUES (4, 'a', 4, 'c')
a| UPDATE t SET b = 5 WHERE id = 2
c| INSERT INTO t VALUES (5, 'a', 5, 'by the new list')
a| COMMIT
b| BEGIN
b| INSERT INTO t VALUES (6, 'a', 6, 'c')
b| ALTER PUBLICATION pub_list DROP TABLE t
b| INSERT INTO t VALUES (7, 'a', 7, 'not published')
b| SAVEPOINT s
b| ALTER PUBLICATION pub_list ADD TABLE t (id, a)
b| INSERT INTO t VALUES (8, 'rolled back', 8, 'c')
b| ROLLBACK TO SAVEPOINT s
b| INSERT INTO t VALUES (9, 'a', 9, 'not published')
b| ALTER PUBLICATION pub_list ADD TABLE t (id, a, b, c)
b| INSERT INTO t VALUES (10, 'every column', 10, 'c')
b| COMMIT
a| ALTER TABLE t DROP COLUMN b CASCADE
a| INSERT INTO t VALUES (11, 'the list went with the column', 'c')
a| UPDATE u SET a = 'x'
a| ALTER PUBLICATION pub_list DROP TABLE u
""",
    "column_lists_and_replica_identities": """
CREATE TABLE listed (id int PRIMARY KEY, a text NOT NULL, b int);
CREATE UNIQUE INDEX listed_a ON listed (a);
CREATE TABLE full_row (id int, a text, b int);
ALTER TABLE full_row REPLICA IDENTITY FULL;
CREATE TABLE nothing (id int, a text, b int);
ALTER TABLE nothing REPLICA IDENTITY NOTHING;
---
a| ALTER PUBLICATION pub_all SET (publish = 'insert, truncate')
a| ALTER PUBLICATION pub_list ADD TABLE listed (id, a), full_row (a), nothing (b, id)
a| INSERT INTO listed VALUES (1, 'one', 1), (2, 'two', 2)
a| UPDATE listed SET b = 3 WHERE id = 1
a| UPDATE listed SET id = 11 WHERE id = 1
a| ALTER TABLE listed REPLICA IDENTITY USING INDEX listed_a
a| UPDATE listed SET b = 4 WHERE id = 11
a| UPDATE listed SET a = 'eleven' WHERE id = 11
a| DELETE FROM listed WHERE id = 2
a| ALTER PUBLICATION pub_list SET (publish = 'insert, truncate')
a| ALTER TABLE listed REPLICA IDENTITY FULL
a| INSERT INTO full_row VALUES (1, 'a', 1)
a| UPDATE full_row SET b = 2
a| INSERT INTO nothing VALUES (1, 'a', 1)
a| UPDATE nothing SET a = 'b'
a| DELETE FROM nothing
a| UPDATE listed SET b = 5
b| BEGIN
b| INSERT INTO nothing VALUES (2, 'a', 2)
a| ALTER PUBLICATION pub_list DROP TABLE full_row, nothing
a| ALTER PUBLICATION pub_list DROP TABLE listed
b| INSERT INTO nothing VALUES (3, 'a', 3)
b| COMMIT
a| ALTER PUBLICATION pub_list SET (publish = 'insert, update, delete, truncate')
a| DELETE FROM listed
a| DELETE FROM full_row
a| ALTER PUBLICATION pub_all SET (publish = 'insert, update, delete, truncate')
""",
    "column_lists_of_partitions": """
CREATE TYPE mood AS ENUM ('x', 'y');
CREATE TABLE root (a int PRIMARY KEY, b mood, c int) PARTITION BY RANGE (a);
CREATE TABLE low (c int, b mood, a int NOT NULL);
ALTER TABLE root ATTACH PARTITION low FOR VALUES FROM (0) TO (100);
CREATE TABLE high PARTITION OF root FOR VALUES FROM (100) TO (200);
CREATE TABLE holes (a int PRIMARY KEY, gone int, b int, twice int GENERATED ALWAYS AS (b * 2) STORED);
ALTER TABLE holes DROP COLUMN gone;
CREATE TABLE "odd names" ("a'" int PRIMARY KEY, "B" text, "c%d" text, "e f" mood);
---
a| ALTER PUBLICATION pub_list ADD TABLE low (a, c), high (a), holes (a, b), "odd names" ("a'", "c%d", "e f")
a| INSERT INTO root VALUES (1, 'x', 1), (101, 'y', 2)
a| ALTER PUBLICATION pub_list SET (publish_via_partition_root)
a| INSERT INTO root VALUES (5, 'x', 1), (105, 'y', 2)
a| ALTER PUBLICATION pub_list DROP TABLE low
a| ALTER PUBLICATION pub_list ADD TABLE root (a, b)
a| INSERT INTO root VALUES (2, 'x', 1), (102, 'y', 2)
a| UPDATE root SET c = 3
a| UPDATE root SET a = 150 WHERE a = 2
a| INSERT INTO holes VALUES (1, 1)
a| UPDATE holes SET b = 2
a| INSERT INTO "odd names" VALUES (1, 'left out', 'shown', 'x')
a| UPDATE "odd names" SET "B" = 'still left out'
a| BEGIN
a| INSERT INTO root VALUES (3, 'x', 1)
b| ALTER PUBLICATION pub_list SET TABLE high (a, c), holes
a| INSERT INTO root VALUES (4, 'x', 1), (104, 'x', 1)
a| INSERT INTO holes VALUES (2, 3)
a| COMMIT
a| DELETE FROM root
a| DELETE FROM holes
a| ALTER PUBLICATION pub_list SET (publish_via_partition_root = false)
a| ALTER PUBLICATION pub_list DROP TABLE high, holes
""",
    "partitions_detached_and_attached_while_written": """
CREATE TABLE parent (id int PRIMARY KEY, a text) PARTITION BY RANGE (id);
CREATE TABLE low (a text, gone int, id int NOT NULL);
ALTER TABLE low DROP COLUMN gone;
ALTER TABLE parent ATTACH PARTITION low FOR VALUES FROM (0) TO (100);
CREATE TABLE high PARTITION OF parent FOR VALUES FROM (100) TO (200);
CREATE TABLE beside (id int PRIMARY KEY);
---
a| ALTER PUBLICATION pub_list ADD TABLE parent, beside
a| ALTER PUBLICATION pub_list SET (publish_via_partition_root)
a| INSERT INTO parent VALUES (1, 'low'), (101, 'high')
a| BEGIN
a| INSERT INTO beside VALUES (1)
b| BEGIN
b| INSERT INTO parent VALUES (2, 'low, by the root')
b| ALTER TABLE parent DETACH PARTITION low
b| INSERT INTO low (id, a) VALUES (3, 'on its own')
b| ALTER TABLE parent ATTACH PARTITION low FOR VALUES FROM (0) TO (100)
b| INSERT INTO low (id, a) VALUES (4, 'attached again')
c| BEGIN
c| SELECT txid_current()
b| COMMIT
a| INSERT INTO parent VALUES (5, 'after')
a| UPDATE parent SET id = id + 100 WHERE id = 5
a| COMMIT
c| COMMIT
b| ALTER TABLE parent DETACH PARTITION high CONCURRENTLY
b| INSERT INTO high VALUES (103, 'detached')
b| UPDATE high SET a = 'detached' WHERE id = 101
a| BEGIN
a| INSERT INTO low VALUES ('before', 6)
b| CREATE TABLE middle PARTITION OF parent FOR VALUES FROM (100) TO (150)
b| INSERT INTO parent VALUES (120, 'in the middle')
a| INSERT INTO parent VALUES (121, 'in the middle')
a| COMMIT
b| TRUNCATE parent
b| TRUNCATE low, high, middle
a| ALTER PUBLICATION pub_list SET (publish_via_partition_root = false)
a| INSERT INTO parent VALUES (7, 'by the leaf')
a| ALTER PUBLICATION pub_list DROP TABLE parent, beside
""",
    "everything_published_as_its_root": """
CREATE TABLE parent (id int PRIMARY KEY, a text) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF parent FOR VALUES FROM (0) TO (100);
CREATE TABLE mid PARTITION OF parent FOR VALUES FROM (100) TO (200) PARTITION BY RANGE (id);
CREATE TABLE high PARTITION OF mid FOR VALUES FROM (100) TO (200);
---
a| INSERT INTO parent VALUES (1, 'by the leaf'), (101, 'by the leaf')
a| ALTER PUBLICATION pub_all SET (publish_via_partition_root = true)
a| INSERT INTO parent VALUES (2, 'by the root'), (102, 'by the root')
a| UPDATE parent SET id = id + 10 WHERE id IN (2, 102)
a| ANALYZE low
a| INSERT INTO parent VALUES (3, 'announced anew'), (103, 'not announced')
a| ALTER TABLE parent ADD b int DEFAULT 5
a| INSERT INTO parent VALUES (4, 'with a column'), (104, 'with a column')
a| ALTER TABLE low REPLICA IDENTITY FULL; ALTER TABLE high REPLICA IDENTITY FULL
a| UPDATE parent SET a = 'was there before the column' WHERE id IN (3, 103)
a| TRUNCATE mid
a| ALTER PUBLICATION pub_all SET (publish_via_partition_root = false)
a| DELETE FROM parent WHERE id = 3
a| INSERT INTO parent VALUES (5, 'by the leaf again'), (105, 'by the leaf again')
a| ALTER TABLE parent DETACH PARTITION low
a| INSERT INTO low VALUES (6, 'on its own')
a| TRUNCATE low, parent
""",
    "delete_without_identity_behind_an_open_transaction": """
CREATE TABLE keyless (id int, a text);
INSERT INTO keyless VALUES (1, 'old'), (2, 'old');
---
a| ALTER PUBLICATION pub_all SET (publish = 'insert, truncate')
a| BEGIN
a| DELETE FROM keyless WHERE id = 1
b| ALTER PUBLICATION pub_list ADD TABLE keyless
c| INSERT INTO keyless VALUES (3, 'now it is known how it is published')
c| ANALYZE keyless
a| COMMIT
c| INSERT INTO keyless VALUES (4, 'after a delete that nobody can be told of')
b| ALTER PUBLICATION pub_list DROP TABLE keyless
b| ALTER PUBLICATION pub_all SET (publish = 'insert, update, delete, truncate')
""",
    "roots_and_leaves_in_different_publications": """
CREATE TABLE top (id int, region int, a text, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE mid PARTITION OF top FOR VALUES IN (1) PARTITION BY RANGE (id);
CREATE TABLE leaf (region int NOT NULL, a text, id int NOT NULL);
ALTER TABLE mid ATTACH PARTITION leaf FOR VALUES FROM (0) TO (100);
---
a| ALTER PUBLICATION pub_some ADD TABLE leaf
a| ALTER PUBLICATION pub_list ADD TABLE mid
a| INSERT INTO top VALUES (1, 1, 'leaf by both')
a| ALTER PUBLICATION pub_list SET (publish_via_partition_root)
a| INSERT INTO top VALUES (2, 1, 'mid')
a| BEGIN
a| INSERT INTO leaf VALUES (1, 'mid', 3)
b| ALTER PUBLICATION pub_some ADD TABLE top
b| ALTER PUBLICATION pub_some DROP TABLE leaf
b| ALTER PUBLICATION pub_some SET (publish_via_partition_root)
a| INSERT INTO leaf VALUES (1, 'top', 4)
a| UPDATE leaf SET id = 14 WHERE id = 4
a| COMMIT
a| DELETE FROM top WHERE id = 1
a| TRUNCATE mid
a| TRUNCATE top
a| ALTER TABLE top REPLICA IDENTITY FULL
a| INSERT INTO top VALUES (5, 1, 'top')
a| UPDATE top SET a = 'the leaf has another replica identity' WHERE id = 5
a| ALTER TABLE leaf REPLICA IDENTITY FULL
a| UPDATE top SET a = 'the same' WHERE id = 5
a| ALTER PUBLICATION pub_some SET (publish_via_partition_root = false)
a| ALTER PUBLICATION pub_list SET (publish_via_partition_root = false)
a| DELETE FROM top
a| ALTER PUBLICATION pub_some DROP TABLE top
a| ALTER PUBLICATION pub_list DROP TABLE mid
""",
    "schemas_published_and_renamed": """
CREATE SCHEMA shown;
CREATE TABLE shown.t (id int PRIMARY KEY, a text);
CREATE TABLE moves (id int PRIMARY KEY, a text);
---
a| ALTER PUBLICATION pub_list ADD TABLES IN SCHEMA shown
a| INSERT INTO shown.t VALUES (1, 'shown')
a| INSERT INTO moves VALUES (1, 'not yet')
a| BEGIN
a| ALTER TABLE moves SET SCHEMA shown
a| INSERT INTO shown.moves VALUES (2, 'in the schema')
a| ALTER SCHEMA shown RENAME TO "Shown"
a| INSERT INTO "Shown".moves VALUES (3, 'renamed')
a| SAVEPOINT s
a| ALTER SCHEMA "Shown" RENAME TO gone
a| INSERT INTO gone.t VALUES (4, 'rolled back')
a| ROLLBACK TO SAVEPOINT s
a| INSERT INTO "Shown".t VALUES (4, 'as before')
a| COMMIT
a| CREATE TABLE "Shown".late (id int)
a| INSERT INTO "Shown".late VALUES (1)
a| ALTER SCHEMA "Shown" RENAME TO shown
a| INSERT INTO shown.late VALUES (2)
a| INSERT INTO shown.t VALUES (5, 'back')
a| TRUNCATE shown.t, shown.moves, shown.late
a| ALTER PUBLICATION pub_list DROP TABLES IN SCHEMA shown
a| INSERT INTO shown.t VALUES (6, 'out')
a| DROP SCHEMA shown CASCADE
""",
    "generated_columns": """
CREATE TABLE g (twice int GENERATED ALWAYS AS (a * 2) STORED, id int PRIMARY KEY, a int, b text,
    loud text GENERATED ALWAYS AS (upper(b)) STORED);
---
a| ALTER PUBLICATION pub_list ADD TABLE g
a| INSERT INTO g (id, a, b) VALUES (1, 1, 'one'), (2, 2, repeat('two', 3000))
a| UPDATE g SET a = 3 WHERE id = 2
a| UPDATE g SET id = 4 WHERE id = 1
a| ALTER TABLE g ADD COLUMN more int GENERATED ALWAYS AS (id + 1) STORED
a| UPDATE g SET b = 'other'
a| ALTER TABLE g ALTER COLUMN loud DROP EXPRESSION
a| INSERT INTO g (id, a, b, loud) VALUES (5, 5, 'five', 'no longer generated')
a| COPY g (id, a, b) FROM PROGRAM 'printf "6\\t6\\tsix\\n7\\t7\\tseven\\n"'
a| DELETE FROM g
a| ALTER PUBLICATION pub_list DROP TABLE g
""",
    "several_tables_truncated": """
CREATE TABLE one (id int PRIMARY KEY);
CREATE TABLE two (id int PRIMARY KEY, one int REFERENCES one);
CREATE TABLE three (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE three_low PARTITION OF three FOR VALUES FROM (0) TO (10);
CREATE TABLE three_high PARTITION OF three FOR VALUES FROM (10) TO (20);
CREATE UNLOGGED TABLE four (id int PRIMARY KEY);
---
a| ALTER PUBLICATION pub_list ADD TABLE one, three
a| ALTER PUBLICATION pub_some ADD TABLE two, three_low
a| TRUNCATE one CASCADE
a| TRUNCATE three, one, two, four RESTART IDENTITY
a| ALTER PUBLICATION pub_some SET (publish = 'truncate')
a| TRUNCATE two, one, three_low
a| ALTER PUBLICATION pub_list SET (publish_via_partition_root)
a| TRUNCATE three, two, one
a| TRUNCATE three_high, three_low
a| BEGIN
a| INSERT INTO three VALUES (1), (11)
a| TRUNCATE three
a| SAVEPOINT s
a| TRUNCATE two, one, three
a| ROLLBACK TO SAVEPOINT s
a| CREATE TABLE five (id int)
a| TRUNCATE five, three_low
a| COMMIT
a| BEGIN
a| TRUNCATE one, two
a| ROLLBACK
a| ALTER PUBLICATION pub_list SET (publish_via_partition_root = false)
a| ALTER PUBLICATION pub_list DROP TABLE one, three
a| ALTER PUBLICATION pub_some DROP TABLE two, three_low
a| ALTER PUBLICATION pub_some SET (publish = 'insert, delete')
""",
}

SINCE_18: dict[str, str] = {
    "generated_columns_published": """
CREATE TABLE g (twice int GENERATED ALWAYS AS (a * 2) STORED, id int PRIMARY KEY, a int,
    thrice int GENERATED ALWAYS AS (a * 3) VIRTUAL, loud text GENERATED ALWAYS AS (upper(b)) STORED, b text);
CREATE TABLE h (id int GENERATED ALWAYS AS (a + 1) STORED PRIMARY KEY, a int);
---
a| ALTER PUBLICATION pub_list SET (publish_generated_columns = stored)
a| ALTER PUBLICATION pub_list ADD TABLE g, h
a| INSERT INTO g (id, a, b) VALUES (1, 1, 'one')
a| UPDATE g SET a = 2
a| BEGIN
a| INSERT INTO g (id, a, b) VALUES (2, 2, 'two')
b| ALTER PUBLICATION pub_list SET (publish_generated_columns = none)
a| INSERT INTO g (id, a, b) VALUES (3, 3, 'three')
a| COMMIT
a| INSERT INTO g (id, a, b) VALUES (4, 4, 'four')
a| ALTER PUBLICATION pub_list DROP TABLE g
a| ALTER PUBLICATION pub_list ADD TABLE g (loud, id, twice)
a| INSERT INTO g (id, a, b) VALUES (5, 5, 'five')
a| ALTER PUBLICATION pub_list SET (publish_generated_columns = stored)
a| INSERT INTO g (id, a, b) VALUES (6, 6, 'six')
a| INSERT INTO h (a) VALUES (1)
a| ALTER TABLE g DROP COLUMN thrice, ADD COLUMN four int GENERATED ALWAYS AS (4)
a| UPDATE g SET b = 'x' WHERE id = 6
a| ALTER PUBLICATION pub_list DROP TABLE g, h
a| ALTER PUBLICATION pub_list SET (publish_generated_columns = none)
""",
}

SINCE_19: dict[str, str] = {
    "tables_left_out_of_all": """
CREATE TABLE t (id int PRIMARY KEY, a text);
CREATE TABLE u (id int PRIMARY KEY, a text);
CREATE TABLE p (id int PRIMARY KEY, a text) PARTITION BY RANGE (id);
CREATE TABLE p_low PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p_high PARTITION OF p FOR VALUES FROM (10) TO (100) PARTITION BY RANGE (id);
CREATE TABLE p_leaf PARTITION OF p_high FOR VALUES FROM (10) TO (100);
---
a| INSERT INTO t VALUES (1, 'published')
a| ALTER PUBLICATION pub_all SET ALL TABLES EXCEPT (TABLE t)
a| INSERT INTO t VALUES (2, 'left out')
a| INSERT INTO u VALUES (2, 'published')
a| BEGIN
a| INSERT INTO t VALUES (3, 'left out')
a| INSERT INTO u VALUES (3, 'published')
a| INSERT INTO p VALUES (3, 'low'), (13, 'leaf')
b| ALTER PUBLICATION pub_all SET ALL TABLES EXCEPT (TABLE u, p)
a| INSERT INTO t VALUES (4, 'published')
a| INSERT INTO u VALUES (4, 'left out')
a| INSERT INTO p VALUES (4, 'low'), (14, 'leaf')
b| INSERT INTO u VALUES (5, 'left out')
a| COMMIT
a| UPDATE p SET a = 'x'
a| DELETE FROM p WHERE id = 14
a| TRUNCATE t, u
a| ALTER TABLE p DETACH PARTITION p_low
a| INSERT INTO p_low VALUES (6, 'published by itself')
a| ALTER TABLE p ATTACH PARTITION p_low FOR VALUES FROM (0) TO (10)
a| INSERT INTO p VALUES (7, 'left out')
a| ALTER PUBLICATION pub_all SET (publish_via_partition_root)
a| INSERT INTO p VALUES (8, 'left out')
b| BEGIN
b| INSERT INTO p VALUES (9, 'left out')
a| ALTER PUBLICATION pub_all SET ALL TABLES EXCEPT (TABLE t)
b| INSERT INTO p VALUES (19, 'as the root')
b| COMMIT
a| TRUNCATE p_low
a| DROP TABLE t
a| CREATE TABLE t (id int)
a| INSERT INTO t VALUES (1)
a| ALTER PUBLICATION pub_all SET (publish_via_partition_root = false)
a| ALTER PUBLICATION pub_all SET ALL TABLES
a| INSERT INTO p VALUES (20, 'as the leaf')
""",
    "repacked": """
CREATE TABLE t (id int PRIMARY KEY, a text);
INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 100) i;
---
a| DELETE FROM t WHERE id % 2 = 0
b| BEGIN
b| INSERT INTO t VALUES (1001, 'open')
b| COMMIT
a| REPACK t
a| INSERT INTO t VALUES (1002, 'after')
a| REPACK t USING INDEX t_pkey
a| UPDATE t SET a = 'y' WHERE id < 20
a| REPACK (CONCURRENTLY) t
a| UPDATE t SET a = 'z' WHERE id < 20
""",
}
