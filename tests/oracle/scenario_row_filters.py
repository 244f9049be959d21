"""Scenarios about publications that publish some rows of a table only: which changes become what, and are announced.

The form of the scripts is described in :mod:`oracle.scenarios`. ``pub_some`` publishes inserts and deletes,
``pub_list`` all; one stream has both, whose filters are joined by OR.
"""

from __future__ import annotations

ROW_FILTERS: dict[str, str] = {
    "row_filter_of_inserts": """
CREATE TABLE t (id int PRIMARY KEY, total numeric, note text);
CREATE TABLE u (id int PRIMARY KEY, a text);
---
a| ALTER PUBLICATION pub_list ADD TABLE t WHERE (id > 10), u
a| INSERT INTO t VALUES (1, 1, 'not sent')
a| BEGIN
a| INSERT INTO t VALUES (2, 2, 'not sent')
a| INSERT INTO u VALUES (1, 'announces u only')
a| INSERT INTO t VALUES (11, 3, 'announces t')
a| INSERT INTO t VALUES (12, 3, 'sent')
a| COMMIT
a| INSERT INTO t SELECT i, i, 'some' FROM generate_series(13, 16) i
a| INSERT INTO t SELECT -i, i, 'none' FROM generate_series(13, 16) i
a| ALTER TABLE t ADD COLUMN more int DEFAULT 7
a| INSERT INTO t VALUES (3, 2, 'not sent', 1)
a| INSERT INTO t VALUES (17, 2, 'announced anew', 1)
a| COPY t (id, note) FROM PROGRAM 'printf "4\\\\tno\\\\n40\\\\tyes\\\\n"'
a| BEGIN
a| SAVEPOINT s
a| INSERT INTO t VALUES (18, 2, 'rolled back')
a| ROLLBACK TO s
a| INSERT INTO t VALUES (5, 2, 'not sent')
a| COMMIT
a| TRUNCATE t
a| INSERT INTO t VALUES (19, 2, 'sent')
a| ALTER PUBLICATION pub_list DROP TABLE t, u
""",
    "row_filter_turns_updates_into_others": """
CREATE TABLE t (id int PRIMARY KEY, a int, b text);
ALTER TABLE t REPLICA IDENTITY FULL;
CREATE TABLE k (id int PRIMARY KEY, a int, b text);
---
a| ALTER PUBLICATION pub_list ADD TABLE t WHERE (a > 10), k WHERE (id > 10)
a| INSERT INTO t VALUES (1, 1, 'one'), (2, 20, 'two'), (3, NULL, 'three'), (4, 40, 'four')
a| UPDATE t SET a = 11 WHERE id = 1
a| UPDATE t SET a = 2 WHERE id = 2
a| UPDATE t SET b = 'both' WHERE id = 4
a| UPDATE t SET b = 'neither' WHERE id = 2
a| UPDATE t SET a = NULL WHERE id = 4
a| UPDATE t SET a = 100
a| DELETE FROM t WHERE id < 3
a| UPDATE t SET a = 0
a| DELETE FROM t
a| INSERT INTO k VALUES (1, 1, 'one'), (20, 2, 'two')
a| UPDATE k SET b = 'key unchanged'
a| UPDATE k SET id = id + 10 WHERE id = 1
a| UPDATE k SET id = id + 10 WHERE id = 11
a| UPDATE k SET id = 2 WHERE id = 21
a| DELETE FROM k WHERE id = 2
a| DELETE FROM k
a| ALTER PUBLICATION pub_list DROP TABLE t, k
""",
    "row_filter_passes_behind_a_subtransaction": """
CREATE TABLE t (id int PRIMARY KEY, a int);
---
a| ALTER PUBLICATION pub_list ADD TABLE t WHERE (id > 10)
a| BEGIN
a| INSERT INTO t VALUES (1, 1)
a| SAVEPOINT s
a| INSERT INTO t VALUES (2, 1)
a| RELEASE s
a| INSERT INTO t VALUES (11, 1)
a| COMMIT
a| ALTER PUBLICATION pub_list DROP TABLE t
""",
    "row_filters_of_two_publications": """
CREATE TABLE t (id int PRIMARY KEY, a int);
ALTER TABLE t REPLICA IDENTITY FULL;
---
a| ALTER PUBLICATION pub_list ADD TABLE t WHERE (a < 10)
a| ALTER PUBLICATION pub_some ADD TABLE t WHERE (a > 20)
a| INSERT INTO t VALUES (1, 1), (2, 15), (3, 25)
a| UPDATE t SET a = a + 6
a| UPDATE t SET a = a - 6
a| DELETE FROM t WHERE id > 1
a| ALTER PUBLICATION pub_some SET TABLE t
a| INSERT INTO t VALUES (4, 15), (5, 5)
a| UPDATE t SET a = a + 6
a| DELETE FROM t
a| ALTER PUBLICATION pub_some SET TABLE t WHERE (a = 15 OR a IS NULL)
a| ALTER PUBLICATION pub_list SET (publish = 'update')
a| INSERT INTO t VALUES (6, 15), (7, 5), (8, NULL)
a| UPDATE t SET a = coalesce(a, 1) + 4
a| DELETE FROM t
a| ALTER PUBLICATION pub_list SET (publish = 'insert, update, delete, truncate')
a| ALTER PUBLICATION pub_list ADD TABLES IN SCHEMA row_filters_of_two_publications
a| INSERT INTO t VALUES (9, 15), (10, 5), (11, NULL)
a| UPDATE t SET a = 99
a| DELETE FROM t
a| ALTER PUBLICATION pub_list DROP TABLES IN SCHEMA row_filters_of_two_publications
a| ALTER PUBLICATION pub_list DROP TABLE t
a| ALTER PUBLICATION pub_some DROP TABLE t
""",
    "row_filter_and_values_out_of_line": """
CREATE TABLE t (id int PRIMARY KEY, a text NOT NULL, b text, c int);
ALTER TABLE t ALTER a SET STORAGE EXTERNAL;
ALTER TABLE t ALTER b SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX t_key ON t (id, c, substr(a, 1, 1));
ALTER TABLE t REPLICA IDENTITY FULL;
CREATE TABLE k (id int, a text NOT NULL, b text);
ALTER TABLE k ALTER a SET STORAGE EXTERNAL;
ALTER TABLE k ALTER b SET STORAGE EXTERNAL;
ALTER TABLE k REPLICA IDENTITY FULL;
CREATE TABLE n (id int PRIMARY KEY, b text);
ALTER TABLE n ALTER b SET STORAGE EXTERNAL;
---
a| ALTER PUBLICATION pub_list ADD TABLE t WHERE (c > 10 AND length(a) > 2000), k WHERE (id > 5), n WHERE (id > 5)
a| INSERT INTO t VALUES (1, repeat('a', 3000), repeat('b', 3000), 1), (2, repeat('c', 3000), repeat('d', 3000), 20)
a| UPDATE t SET c = 11 WHERE id = 1
a| UPDATE t SET b = 'short' WHERE id = 2
a| UPDATE t SET c = 1
a| UPDATE t SET c = 12, a = 'short' WHERE id = 1
a| UPDATE t SET c = 12 WHERE id = 2
a| DELETE FROM t
a| INSERT INTO k VALUES (1, repeat('a', 3000), repeat('b', 3000)), (2, repeat('c', 3000), NULL)
a| UPDATE k SET id = id + 10
a| UPDATE k SET id = id + 10
a| UPDATE k SET id = id - 20
a| INSERT INTO n VALUES (1, repeat('a', 3000)), (12, repeat('b', 3000))
a| UPDATE n SET id = id + 10
a| UPDATE n SET id = id - 20
a| ALTER PUBLICATION pub_list DROP TABLE t, k, n
""",
    "row_filter_and_column_list": """
CREATE TABLE t (id int PRIMARY KEY, a int, b text, c text);
---
a| ALTER PUBLICATION pub_list SET (publish = 'insert')
a| ALTER PUBLICATION pub_list ADD TABLE t (id, c) WHERE (a > 10 AND b LIKE 'y%')
a| INSERT INTO t VALUES (1, 20, 'no', 'x'), (2, 20, 'yes', 'sent'), (3, 1, 'yes', 'x')
a| UPDATE t SET a = 1
a| DELETE FROM t
a| ALTER PUBLICATION pub_list DROP TABLE t
a| ALTER PUBLICATION pub_list SET (publish = 'insert, update, delete, truncate')
""",
    "row_filters_of_partitions": """
CREATE TABLE root (a int PRIMARY KEY, b text, c int) PARTITION BY RANGE (a);
CREATE TABLE low (gone int, c int, b text, a int NOT NULL);
ALTER TABLE low DROP COLUMN gone;
ALTER TABLE root ATTACH PARTITION low FOR VALUES FROM (0) TO (100);
CREATE TABLE high PARTITION OF root FOR VALUES FROM (100) TO (200);
---
a| ALTER PUBLICATION pub_list SET (publish_via_partition_root)
a| ALTER PUBLICATION pub_list ADD TABLE root WHERE (a > 50 AND a < 150), low WHERE (a < 10)
a| INSERT INTO root VALUES (1, 'no', 1), (51, 'yes', 2), (101, 'yes', 3), (151, 'no', 4)
a| UPDATE root SET a = a + 1
a| UPDATE root SET a = 49 WHERE a = 52
a| UPDATE root SET a = 149 WHERE a = 49
a| DELETE FROM root WHERE a < 110
a| TRUNCATE root
a| ALTER PUBLICATION pub_list DROP TABLE root
a| ALTER PUBLICATION pub_list SET (publish_via_partition_root = false)
a| ALTER PUBLICATION pub_list ADD TABLE high
a| INSERT INTO root VALUES (1, 'yes', 1), (51, 'no', 2), (101, 'yes', 3), (151, 'yes', 4)
a| UPDATE root SET a = a + 1
a| UPDATE root SET a = 59 WHERE a = 2
a| DELETE FROM root
a| ALTER PUBLICATION pub_list DROP TABLE low, high
""",
    "row_filters_change_behind_an_open_transaction": """
CREATE TABLE t (id int PRIMARY KEY, a int);
CREATE TABLE u (id int PRIMARY KEY, a int);
---
a| ALTER PUBLICATION pub_list ADD TABLE t WHERE (id > 10), u
a| BEGIN
a| INSERT INTO t VALUES (1, 1), (11, 1)
b| BEGIN
b| ALTER PUBLICATION pub_list SET TABLE t WHERE (id < 10), u WHERE (id % 2 = 0)
b| INSERT INTO t VALUES (2, 1), (12, 1)
c| INSERT INTO t VALUES (3, 1), (13, 1)
b| COMMIT
a| INSERT INTO t VALUES (4, 1), (14, 1)
a| INSERT INTO u VALUES (4, 1), (15, 1)
c| INSERT INTO t VALUES (25, 1)
c| INSERT INTO t VALUES (5, 1)
a| COMMIT
b| BEGIN
b| SAVEPOINT s
b| ALTER PUBLICATION pub_list SET TABLE t WHERE (id = 100)
b| INSERT INTO t VALUES (100, 1), (6, 1)
b| ROLLBACK TO s
b| INSERT INTO t VALUES (101, 1), (7, 1)
b| COMMIT
b| ALTER TABLE t ALTER COLUMN a TYPE bigint
a| UPDATE t SET id = id + 20 WHERE id = 7
a| UPDATE t SET id = id - 20 WHERE id = 27
a| ALTER PUBLICATION pub_list DROP TABLE t, u
""",
    "row_filter_announces_late": """
CREATE TYPE mood AS ENUM ('x', 'y');
CREATE TABLE t (id int PRIMARY KEY, m mood);
CREATE TABLE u (id int PRIMARY KEY, m mood);
---
a| ALTER PUBLICATION pub_list ADD TABLE t WHERE (id > 10), u
a| BEGIN
a| INSERT INTO t VALUES (1, 'x')
a| TRUNCATE t, u
a| INSERT INTO t VALUES (11, 'x')
a| COMMIT
a| ALTER TYPE mood ADD VALUE 'z'
a| ALTER TABLE t REPLICA IDENTITY FULL
b| BEGIN
b| INSERT INTO t VALUES (2, 'x')
a| INSERT INTO t VALUES (3, 'y')
a| INSERT INTO u VALUES (3, 'y')
b| INSERT INTO t VALUES (12, 'x')
a| INSERT INTO t VALUES (13, 'y')
b| COMMIT
a| SELECT pg_logical_emit_message(true, 'oracle', 'with nothing else')
a| BEGIN
a| INSERT INTO t VALUES (4, 'z')
a| SELECT pg_logical_emit_message(true, 'oracle', 'with what is not sent')
a| COMMIT
a| BEGIN
a| INSERT INTO t VALUES (5, 'z')
a| PREPARE TRANSACTION 'nothing sent'
a| BEGIN
a| INSERT INTO t VALUES (14, 'z')
a| PREPARE TRANSACTION 'something sent'
b| COMMIT PREPARED 'nothing sent'
b| COMMIT PREPARED 'something sent'
a| ALTER PUBLICATION pub_list DROP TABLE t, u
""",
    "row_filters_of_many_kinds": """
CREATE TABLE t (id int PRIMARY KEY, n numeric, x text COLLATE "C", d date, s timestamptz, j jsonb, f float8, r int[],
                v varchar(10), b boolean, p point, i inet);
---
a| ALTER PUBLICATION pub_list SET (publish = 'insert')
a| ALTER PUBLICATION pub_list ADD TABLE t WHERE (n BETWEEN 1.5 AND 99.99 AND x <> 'bad')
a| INSERT INTO t (id, n, x) VALUES (1, 1.5, 'a'), (2, 1.4999, 'a'), (3, 99.990, 'bad'), (4, NULL, 'a'), (5, 2, 'ok')
a| ALTER PUBLICATION pub_list SET TABLE t WHERE (d >= '2024-02-29' AND s < '2025-01-01 00:00:00+00')
a| INSERT INTO t (id, d, s) VALUES (6, '2024-02-28', 'epoch'), (7, '2024-02-29', '2024-12-31 23:59:59.999999+00'),
   (8, '2025-01-01', '2025-01-01 00:00:00+00')
a| ALTER PUBLICATION pub_list SET TABLE t WHERE (j ->> 'a' = 'yes' OR j @> '{"b": [1]}')
a| INSERT INTO t (id, j) VALUES (9, '{"a": "yes"}'), (10, '{"a": "no"}'), (11, '{"b": [2, 1]}'), (12, 'null')
a| ALTER PUBLICATION pub_list SET TABLE t WHERE (f * 2 > 10 AND f <> 'NaN' AND r && ARRAY[1, 2])
a| INSERT INTO t (id, f, r) VALUES (13, 5.1, '{1}'), (14, 'NaN', '{1}'), (15, 'Infinity', '{3,2}'), (16, 6, '{}')
a| ALTER PUBLICATION pub_list SET TABLE t WHERE (b IS NOT TRUE AND v = 'bb' AND i << '10.0.0.0/8')
a| INSERT INTO t (id, b, v, i) VALUES (17, NULL, 'bb', '10.1.2.3'),
   (18, true, 'bb', '10.1.2.3'), (19, false, 'bb', '1::')
a| ALTER PUBLICATION pub_list SET TABLE t WHERE (true)
a| INSERT INTO t (id) VALUES (20)
a| ALTER PUBLICATION pub_list SET TABLE t WHERE (false)
a| INSERT INTO t (id) VALUES (21)
a| ALTER PUBLICATION pub_list DROP TABLE t
a| ALTER PUBLICATION pub_list SET (publish = 'insert, update, delete, truncate')
""",
    "row_filter_that_fails": """
CREATE TABLE t (id int PRIMARY KEY, a int);
---
a| ALTER PUBLICATION pub_list SET (publish = 'insert')
a| ALTER PUBLICATION pub_list ADD TABLE t WHERE (10 / a > 1)
a| INSERT INTO t VALUES (1, 2), (2, 100)
a| BEGIN
a| INSERT INTO t VALUES (3, 1)
a| INSERT INTO t VALUES (4, 0)
a| COMMIT
a| INSERT INTO t VALUES (5, 1)
""",
}
