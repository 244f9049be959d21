"""Transactions in progress: what PostgreSQL's own tests of streaming do to a server, in words of this project.

With ``logical_decoding_work_mem`` of 64kB each large statement fills it. Walsenders have read all before a line that
begins with ROLLBACK.
"""

from __future__ import annotations

WIDE = "repeat(md5(g::text), 3)"
LARGE = "repeat(md5(g::text), 250)"

STREAMING = {
    "streamed_rows": f"""
a| CREATE TABLE t (a int PRIMARY KEY, b text, c timestamptz DEFAULT '2024-02-29 12:00+00', d bigint DEFAULT 999)
a| INSERT INTO t VALUES (1, 'foo'), (2, 'bar')
a| BEGIN
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(3, 2000) g
a| UPDATE t SET b = upper(b) WHERE a % 2 = 0
b| INSERT INTO t VALUES (9000, 'small, beside it')
a| DELETE FROM t WHERE a % 3 = 0
a| COMMIT
a| INSERT INTO t VALUES (9001, 'small, behind it')
a| BEGIN
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(10001, 11000) g
a| UPDATE t SET c = NULL WHERE a > 10500
a| TRUNCATE t
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(10001, 10800) g
a| COMMIT
""",
    "streamed_beside_each_other": f"""
a| CREATE TABLE t (a int PRIMARY KEY, b text)
a| CREATE TABLE whole (a int, b text)
a| ALTER TABLE whole REPLICA IDENTITY FULL
a| BEGIN
b| BEGIN
c| BEGIN
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(1, 300) g
b| INSERT INTO whole SELECT g, {WIDE} FROM generate_series(1, 700) g
c| INSERT INTO t SELECT g, {WIDE} FROM generate_series(5001, 5100) g
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(301, 900) g
c| INSERT INTO t SELECT g, {LARGE} FROM generate_series(6001, 6020) g
b| UPDATE whole SET b = 'short' WHERE a < 200
c| DELETE FROM t WHERE a BETWEEN 5001 AND 5050
b| COMMIT
a| UPDATE t SET b = b || '.' WHERE a < 100
c| COMMIT
b| INSERT INTO whole SELECT g, {WIDE} FROM generate_series(1, 700) g
a| COMMIT
""",
    "streamed_subtransactions": f"""
a| CREATE TABLE t (a int PRIMARY KEY, b text)
a| BEGIN
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(1, 300) g
a| SAVEPOINT s1
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(301, 900) g
a| UPDATE t SET b = 'updated' WHERE a % 5 = 0
a| SAVEPOINT s2
a| DELETE FROM t WHERE a % 7 = 0
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(1001, 1500) g
a| RELEASE s2
a| SAVEPOINT s3
a| SAVEPOINT s4
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(2001, 2600) g
a| RELEASE s1
a| INSERT INTO t VALUES (3000, 'last')
a| COMMIT
""",
    "streamed_definitions": f"""
a| CREATE TABLE t (a int PRIMARY KEY, b text)
a| INSERT INTO t VALUES (1, 'foo')
a| BEGIN
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(2, 600) g
a| ALTER TABLE t ADD COLUMN c int
a| SAVEPOINT s1
a| INSERT INTO t SELECT g, {WIDE}, -g FROM generate_series(601, 1200) g
a| ALTER TABLE t ADD COLUMN d text DEFAULT 'added'
b| CREATE TABLE beside (a int)
a| COMMIT
a| BEGIN
a| INSERT INTO t SELECT g, {WIDE}, g, 'd' FROM generate_series(2001, 2500) g
a| CREATE TABLE made (a int PRIMARY KEY, b text)
a| INSERT INTO made SELECT g, {WIDE} FROM generate_series(1, 600) g
a| ALTER TABLE t RENAME COLUMN c TO e
a| INSERT INTO t SELECT g, {WIDE}, g, 'd' FROM generate_series(3001, 3500) g
a| ALTER TABLE made ALTER a TYPE bigint
a| INSERT INTO made SELECT g, {WIDE} FROM generate_series(1001, 1600) g
a| DROP TABLE made
a| COMMIT
a| INSERT INTO t VALUES (4000, 'behind', 1, 'd')
""",
    "streamed_subtransactions_rolled_back": f"""
a| CREATE TABLE t (a int PRIMARY KEY, b text)
a| BEGIN
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(1, 500) g
a| SAVEPOINT s1
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(501, 1000) g
a| SAVEPOINT s2
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(1001, 1500) g
a| SAVEPOINT s3
a| INSERT INTO t VALUES (1501, 'not streamed yet')
a| ROLLBACK TO s3
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(1501, 1800) g
a| ROLLBACK TO s2
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(1001, 1300) g
a| ROLLBACK TO s1
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(501, 800) g
a| SAVEPOINT s4
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(1501, 2100) g
a| SAVEPOINT s5
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(2501, 2600) g
a| COMMIT
a| BEGIN
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(5001, 5600) g
a| SAVEPOINT s1
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(6001, 6600) g
a| ROLLBACK
a| BEGIN
a| SAVEPOINT s1
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(5001, 5600) g
a| ROLLBACK TO s1
a| COMMIT
a| INSERT INTO t VALUES (9000, 'behind')
""",
    "streamed_definitions_rolled_back": f"""
a| CREATE TABLE t (a int PRIMARY KEY, b text)
a| INSERT INTO t VALUES (1, 'foo')
a| BEGIN
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(2, 500) g
a| ALTER TABLE t ADD COLUMN c int
a| SAVEPOINT s1
a| INSERT INTO t SELECT g, {WIDE}, -g FROM generate_series(501, 1000) g
a| ALTER TABLE t ADD COLUMN d int
a| SAVEPOINT s2
a| INSERT INTO t SELECT g, {WIDE}, -g, g FROM generate_series(1001, 1500) g
a| ALTER TABLE t ADD COLUMN e int
a| SAVEPOINT s3
a| INSERT INTO t SELECT g, {WIDE}, -g, g, g FROM generate_series(1501, 2000) g
a| ALTER TABLE t DROP COLUMN d
a| ROLLBACK TO s1
a| INSERT INTO t SELECT g, {WIDE}, -g FROM generate_series(501, 1000) g
a| COMMIT
a| BEGIN
a| ALTER TABLE t ADD COLUMN f text
a| INSERT INTO t SELECT g, {WIDE}, -g, 'f' FROM generate_series(5001, 5600) g
a| ROLLBACK
a| INSERT INTO t VALUES (9000, 'behind', 1)
""",
    "streamed_prepared": f"""
a| CREATE TABLE t (a int PRIMARY KEY, b text)
a| BEGIN
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(1, 600) g
a| UPDATE t SET b = 'updated' WHERE a % 2 = 0
a| DELETE FROM t WHERE a % 3 = 0
a| PREPARE TRANSACTION 'large'
b| INSERT INTO t VALUES (9000, 'beside')
a| COMMIT PREPARED 'large'
a| BEGIN
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(1001, 1600) g
a| PREPARE TRANSACTION 'large, not to be'
b| BEGIN
b| INSERT INTO t SELECT g, {WIDE} FROM generate_series(2001, 2600) g
a| ROLLBACK PREPARED 'large, not to be'
b| SAVEPOINT s1
b| INSERT INTO t SELECT g, {WIDE} FROM generate_series(3001, 3600) g
b| ROLLBACK TO s1
b| PREPARE TRANSACTION 'large, with a savepoint'
a| BEGIN
a| INSERT INTO t VALUES (4000, 'small')
a| PREPARE TRANSACTION 'small'
b| COMMIT PREPARED 'large, with a savepoint'
a| COMMIT PREPARED 'small'
""",
    "streamed_prepared_of_another_origin": f"""
a| CREATE TABLE t (a int PRIMARY KEY, b text)
a| SELECT pg_replication_origin_create('upstream of streamed')
a| SELECT pg_replication_origin_session_setup('upstream of streamed')
a| BEGIN
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(1, 600) g
a| SELECT pg_replication_origin_xact_setup('0/ABCD', '2024-01-01 00:00+00')
b| BEGIN
b| INSERT INTO t SELECT g, {WIDE} FROM generate_series(2001, 2600) g
a| PREPARE TRANSACTION 'from elsewhere'
b| COMMIT
a| COMMIT PREPARED 'from elsewhere'
a| BEGIN
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(1001, 1600) g
a| SAVEPOINT s
a| INSERT INTO t SELECT g, {WIDE} FROM generate_series(3001, 3600) g
a| ROLLBACK TO s
a| COMMIT
a| SELECT pg_replication_origin_session_reset()
""",
    "streamed_messages_and_long_values": f"""
a| CREATE TABLE t (a text)
a| BEGIN
a| SAVEPOINT s1
a| SELECT pg_logical_emit_message(true, 'said', repeat('m', 50))
a| INSERT INTO t SELECT {LARGE} FROM generate_series(1, 30) g
a| SELECT pg_logical_emit_message(false, 'said at once', 'amid')
a| TRUNCATE t
a| ROLLBACK TO s1
a| INSERT INTO t SELECT {WIDE} FROM generate_series(1, 20) g
a| COMMIT
a| ALTER TABLE t ALTER a SET STORAGE EXTERNAL
a| BEGIN
a| INSERT INTO t SELECT repeat('x', 5000) || g FROM generate_series(1, 40) g
a| SELECT pg_logical_emit_message(true, 'said', repeat('n', 70000))
a| INSERT INTO t VALUES (repeat('y', 300000))
a| SELECT pg_logical_emit_message(true, 'said', '')
a| COMMIT
a| BEGIN
a| SELECT pg_logical_emit_message(true, 'said', repeat('o', 70000))
a| ROLLBACK
""",
    "streamed_beside_definitions_of_another": """
a| CREATE TABLE t (a int PRIMARY KEY, b text)
a| CREATE TABLE other (a int, b text)
a| ALTER TABLE t ALTER b SET STORAGE EXTERNAL
a| BEGIN
a| INSERT INTO t SELECT g, repeat('x', 4000) FROM generate_series(1, 20) g
b| CREATE TABLE made_beside (a int)
b| ALTER TABLE other ADD c int
a| INSERT INTO t SELECT g, repeat('x', 4000) FROM generate_series(21, 40) g
b| ALTER TABLE other ADD d int DEFAULT 4
a| INSERT INTO other SELECT g, 'x', g, g FROM generate_series(1, 900) g
b| BEGIN
b| CREATE TABLE made_and_not (a int)
b| ROLLBACK
a| INSERT INTO other SELECT g, 'x', g, g FROM generate_series(1, 900) g
a| COMMIT
""",
    "streamed_partitions_and_upserts": f"""
a| CREATE TABLE p (a int, r int, b text, PRIMARY KEY (a, r)) PARTITION BY LIST (r)
a| CREATE TABLE p0 PARTITION OF p FOR VALUES IN (0)
a| CREATE TABLE p1 (b text, r int NOT NULL, a int NOT NULL)
a| ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1)
a| BEGIN
a| INSERT INTO p SELECT g, g % 2, {WIDE} FROM generate_series(1, 800) g
a| UPDATE p SET r = 1 - r WHERE a < 100
a| INSERT INTO p SELECT g, 1, {WIDE} FROM generate_series(1, 400) g ON CONFLICT (a, r) DO UPDATE SET b = 'again'
a| SAVEPOINT s
a| INSERT INTO p SELECT g, 0, {LARGE} FROM generate_series(1, 90) g ON CONFLICT DO NOTHING
a| CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)
a| INSERT INTO p SELECT g, 2, {WIDE} FROM generate_series(1, 500) g
a| ROLLBACK TO s
a| DELETE FROM p WHERE a % 4 = 0
a| COMMIT
""",
}
