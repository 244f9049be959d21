"""Scenarios about transactions, and about servers that stop in the middle of them.

The form of the scripts is described in :mod:`oracle.scenarios`.
"""

from __future__ import annotations

Settings = tuple[tuple[str, str], ...]

TRANSACTIONS: dict[str, str] = {
    "commit_order": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| BEGIN
b| BEGIN
c| BEGIN
a| INSERT INTO t VALUES (1, 'began first')
b| INSERT INTO t VALUES (2, 'second')
c| INSERT INTO t VALUES (3, 'third')
c| COMMIT
a| INSERT INTO t VALUES (4, 'first again')
b| COMMIT
a| COMMIT
""",
    "savepoints": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| BEGIN
a| INSERT INTO t VALUES (1, 'top')
a| SAVEPOINT s1
a| INSERT INTO t VALUES (2, 's1')
a| SAVEPOINT s2
a| INSERT INTO t VALUES (3, 's2, gone')
a| ROLLBACK TO SAVEPOINT s2
a| INSERT INTO t VALUES (3, 's2 again')
a| RELEASE SAVEPOINT s1
a| SAVEPOINT s3
a| INSERT INTO t VALUES (4, 's3, gone')
a| SAVEPOINT s4
a| INSERT INTO t VALUES (5, 's4, released, then gone')
a| RELEASE SAVEPOINT s4
a| ROLLBACK TO SAVEPOINT s3
a| COMMIT
a| BEGIN
a| SAVEPOINT sp
a| INSERT INTO t VALUES (6, 'the top transaction writes nothing')
a| RELEASE SAVEPOINT sp
a| COMMIT
a| BEGIN
a| SAVEPOINT sp
a| INSERT INTO t VALUES (7, 'nothing is left')
a| ROLLBACK TO SAVEPOINT sp
a| COMMIT
""",
    "many_subtransactions": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| BEGIN
b| BEGIN
b| INSERT INTO t VALUES (1000, 'between')
a| DO $$ BEGIN FOR g IN 1..200 LOOP BEGIN INSERT INTO t VALUES (g, 'sub');
     IF g % 5 = 0 THEN RAISE division_by_zero; END IF; EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$
b| INSERT INTO t VALUES (1001, 'between')
b| COMMIT
a| INSERT INTO t VALUES (2000, 'last')
a| COMMIT
""",
    "aborts": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| BEGIN
a| INSERT INTO t VALUES (1, 'gone')
b| INSERT INTO t VALUES (2, 'stays')
a| CREATE TABLE u (id int)
a| INSERT INTO u VALUES (1)
a| ROLLBACK
a| CREATE TABLE u (other text)
a| INSERT INTO u VALUES ('stays')
a| BEGIN
a| TRUNCATE t
a| INSERT INTO t VALUES (3, 'gone with its file')
a| ROLLBACK
a| INSERT INTO t VALUES (4, 'in the old file')
""",
    "large_transaction": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| BEGIN
a| INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 3000) g
b| INSERT INTO t VALUES (-1, 'commits first')
a| SAVEPOINT s
a| UPDATE t SET a = a || '!' WHERE id BETWEEN 100 AND 1500
a| ROLLBACK TO SAVEPOINT s
a| DELETE FROM t WHERE id BETWEEN 200 AND 1200
a| COMMIT
""",
    "open_at_the_end": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| INSERT INTO t VALUES (1, 'committed')
a| BEGIN
a| INSERT INTO t VALUES (2, 'open')
b| BEGIN
b| INSERT INTO t VALUES (3, 'prepared')
b| PREPARE TRANSACTION 'left open'
""",
    "two_phase": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| BEGIN
a| INSERT INTO t VALUES (1, 'prepared')
a| SAVEPOINT s
a| INSERT INTO t VALUES (2, 'gone')
a| ROLLBACK TO SAVEPOINT s
a| SAVEPOINT s
a| INSERT INTO t VALUES (3, 'in a subtransaction')
a| PREPARE TRANSACTION 'one'
b| INSERT INTO t VALUES (4, 'between')
a| BEGIN
a| INSERT INTO t VALUES (5, 'rolled back')
a| PREPARE TRANSACTION 'two'
a| COMMIT PREPARED 'one'
a| ROLLBACK PREPARED 'two'
a| BEGIN
a| ALTER TABLE t ADD COLUMN b int
a| INSERT INTO t VALUES (6, 'with a definition', 6)
a| PREPARE TRANSACTION 'it''s three'
a| COMMIT PREPARED 'it''s three'
a| INSERT INTO t VALUES (7, 'after', 7)
""",
    "prepared_without_changes": """
a| CREATE TABLE t (id int PRIMARY KEY)
a| INSERT INTO t VALUES (8)
a| BEGIN
a| SELECT * FROM t WHERE id = 8 FOR SHARE
a| PREPARE TRANSACTION 'p_nodecode'
a| COMMIT PREPARED 'p_nodecode'
a| BEGIN
a| SELECT * FROM t WHERE id = 8 FOR SHARE
a| PREPARE TRANSACTION 'p_nodecode'
a| ROLLBACK PREPARED 'p_nodecode'
a| INSERT INTO t VALUES (9)
""",
    "prepared_with_rewrites_and_savepoints": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| DO $$ BEGIN EXECUTE format('CREATE TABLE long_default (a text DEFAULT %L)', repeat('toast value ', 4000)); END $$
a| BEGIN
a| INSERT INTO t VALUES (8, 'before')
a| CLUSTER t USING t_pkey
a| INSERT INTO t VALUES (9, 'behind CLUSTER')
a| PREPARE TRANSACTION 'p'
a| COMMIT PREPARED 'p'
a| BEGIN
a| CREATE TABLE made (a int)
a| INSERT INTO made VALUES (1)
a| SAVEPOINT s
a| INSERT INTO made VALUES (2)
a| ROLLBACK TO SAVEPOINT s
a| PREPARE TRANSACTION 'p'
a| COMMIT PREPARED 'p'
a| BEGIN
a| INSERT INTO long_default VALUES ('test')
a| PREPARE TRANSACTION 'p'
a| COMMIT PREPARED 'p'
a| BEGIN
a| SAVEPOINT s
a| INSERT INTO t SELECT g, repeat('large ' || g, 300) FROM generate_series(100, 160) g
a| ROLLBACK TO SAVEPOINT s
a| INSERT INTO t SELECT g, repeat('large ' || g, 300) FROM generate_series(200, 230) g
a| SELECT pg_logical_emit_message(true, 'prepared', 'message'), pg_logical_emit_message(false, 'prepared', 'message')
a| PREPARE TRANSACTION 'p'
b| ALTER TABLE long_default ADD b int
b| INSERT INTO long_default (b) VALUES (1)
a| COMMIT PREPARED 'p'
""",
    "prepared_while_others_define": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| CREATE TABLE u (id int PRIMARY KEY)
a| BEGIN
a| INSERT INTO t VALUES (1, 'before')
b| ALTER TABLE u ADD COLUMN b int DEFAULT 5
a| PREPARE TRANSACTION 'waits'
b| ALTER TABLE u ADD COLUMN c text
b| INSERT INTO u VALUES (1, 2, 'c')
b| COMMIT PREPARED 'waits'
""",
    "messages": """
a| SELECT pg_logical_emit_message(false, 'test', 'not transactional')
a| SELECT pg_logical_emit_message(true, 'test', 'transactional')
a| CREATE TABLE t (id int)
a| BEGIN
a| SELECT pg_logical_emit_message(true, 'test', 'gone')
a| SELECT pg_logical_emit_message(false, 'test', 'stays although the transaction aborts')
a| ROLLBACK
a| BEGIN
a| INSERT INTO t VALUES (1)
a| SELECT pg_logical_emit_message(false, 'test', 'comes before its transaction')
a| SELECT pg_logical_emit_message(true, '', '')
a| SAVEPOINT s
a| SELECT pg_logical_emit_message(true, 'test', 'gone with its savepoint')
a| ROLLBACK TO SAVEPOINT s
a| SELECT pg_logical_emit_message(true, 'bytes', '\\x00ff0a09'::bytea)
a| COMMIT
a| SELECT pg_logical_emit_message(false, 'long', repeat('0123456789', 5000))
""",
    "another_database": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| INSERT INTO t VALUES (1, 'here')
a| CREATE DATABASE elsewhere
x@elsewhere| CREATE TABLE t (id int PRIMARY KEY, a text)
x@elsewhere| INSERT INTO t VALUES (1, 'there')
a| BEGIN
a| INSERT INTO t VALUES (2, 'here')
x@elsewhere| ALTER TABLE t ADD COLUMN b int
x@elsewhere| INSERT INTO t VALUES (3, 'there', 3)
x@elsewhere| SELECT pg_logical_emit_message(false, 'elsewhere', 'message')
x@elsewhere| SELECT pg_logical_emit_message(true, 'elsewhere', 'message')
x@elsewhere| TRUNCATE t
a| COMMIT
""",
    "origins": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| SELECT pg_replication_origin_create('upstream'), pg_replication_origin_create('dropped')
a| INSERT INTO t VALUES (1, 'local')
b| SELECT pg_replication_origin_session_setup('upstream')
b| INSERT INTO t VALUES (2, 'from upstream, no position')
b| BEGIN
b| INSERT INTO t VALUES (3, 'from upstream')
b| SELECT pg_replication_origin_xact_setup('0/ABCDEF', '2024-02-29 12:00:00+00')
b| SELECT pg_logical_emit_message(true, 'from', 'upstream'), pg_logical_emit_message(false, 'from', 'upstream')
b| COMMIT
b| TRUNCATE t
b| BEGIN
b| INSERT INTO t VALUES (4, 'half of it')
b| SELECT pg_replication_origin_session_reset()
b| INSERT INTO t VALUES (5, 'is local')
b| COMMIT
b| SELECT pg_replication_origin_session_setup('dropped')
b| INSERT INTO t VALUES (6, 'its origin will be dropped')
b| SELECT pg_replication_origin_session_reset()
a| SELECT pg_replication_origin_drop('dropped')
""",
    "checkpoints_and_segments": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| BEGIN
a| INSERT INTO t VALUES (1, 'before the switch')
b| SELECT pg_switch_wal()
b| CHECKPOINT
a| INSERT INTO t VALUES (2, 'after the switch')
b| SELECT pg_switch_wal()
a| UPDATE t SET a = a || ', with a full-page image'
a| COMMIT
b| CHECKPOINT
b| ALTER TABLE t ADD COLUMN b int DEFAULT 3
b| INSERT INTO t VALUES (3, 'catalog pages were full-page images', 4)
""",
    "empty_transactions": """
a| CREATE TABLE t (id int PRIMARY KEY)
a| BEGIN
a| CREATE TABLE u (id int)
a| DROP TABLE u
a| COMMIT
a| SELECT txid_current()
a| CREATE TABLE empty AS SELECT 1 WHERE false
a| CREATE UNLOGGED TABLE n (id int)
a| INSERT INTO n VALUES (1)
a| INSERT INTO t VALUES (1)
""",
}

ALONE: dict[str, tuple[str, Settings]] = {
    "restart_in_the_middle": (
        """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| INSERT INTO t VALUES (1, 'a')
a| BEGIN
a| ALTER TABLE t ADD COLUMN gone int
a| INSERT INTO t VALUES (2, 'gone')
!restart
b| INSERT INTO t VALUES (3, 'after')
b| ALTER TABLE t ADD COLUMN c int
b| INSERT INTO t VALUES (4, 'after', 4)
""",
        (),
    ),
    "crash_in_the_middle": (
        """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| INSERT INTO t VALUES (1, 'a')
a| BEGIN
a| ALTER TABLE t ADD COLUMN gone int
a| INSERT INTO t VALUES (2, 'never committed, never aborted')
b| BEGIN
b| CREATE TABLE never (id int)
c| CHECKPOINT
!crash
d| CREATE TABLE u (id int)
d| INSERT INTO u VALUES (5)
d| INSERT INTO t VALUES (3, 'after')
d| ALTER TABLE t ADD COLUMN c int
d| INSERT INTO t VALUES (4, 'after', 4)
""",
        (),
    ),
    "slot_made_while_transactions_run": (
        """
CREATE TABLE t (id int PRIMARY KEY, a text);
---
a| BEGIN
a| INSERT INTO t VALUES (1, 'began before the slot')
b| BEGIN
b| INSERT INTO t VALUES (2, 'likewise')
!slot
c| INSERT INTO t VALUES (3, 'while the slot waits')
c| BEGIN
c| INSERT INTO t VALUES (4, 'began while the slot waits')
a| INSERT INTO t VALUES (5, 'a again')
a| COMMIT
d| BEGIN
d| INSERT INTO t VALUES (6, 'after a')
d| CREATE TABLE u (id int)
d| INSERT INTO u VALUES (1)
b| COMMIT
d| INSERT INTO t VALUES (7, 'd again')
c| COMMIT
d| COMMIT
!slot-ready
a| INSERT INTO t VALUES (8, 'after the slot')
""",
        (),
    ),
    "prepared_before_the_slot": (
        """
CREATE TABLE t (id int PRIMARY KEY, a text);
CREATE TABLE u (id int PRIMARY KEY);
BEGIN;
INSERT INTO t VALUES (1, 'prepared before the backup');
PREPARE TRANSACTION 'old';
---
!slot
a| INSERT INTO u VALUES (1)
a| COMMIT PREPARED 'old'
!slot-ready
a| INSERT INTO t VALUES (2, 'after')
""",
        (),
    ),
    "tablespaces": (
        """
CREATE TABLESPACE place LOCATION '';
CREATE TABLE t (id int PRIMARY KEY, a text) TABLESPACE place;
---
a| INSERT INTO t VALUES (1, 'elsewhere')
a| ALTER TABLE t SET TABLESPACE pg_default
a| INSERT INTO t VALUES (2, 'at home')
a| CREATE TABLE u (id int) TABLESPACE place
a| INSERT INTO u VALUES (1)
a| ALTER TABLE t SET TABLESPACE place
a| UPDATE t SET a = 'moved twice'
a| TRUNCATE t
a| INSERT INTO t VALUES (3, 'fresh')
""",
        (("allow_in_place_tablespaces", "on"),),
    ),
    "styles_of_the_server": (
        """
CREATE TYPE spell AS (since date, until timestamptz, length interval, price money);
CREATE TABLE t (id int PRIMARY KEY, d date, ts timestamp, tz timestamptz, z timetz, i interval, f float8, g float4,
    p point, m money, a timestamptz[], c spell, r tstzrange);
---
a| INSERT INTO t VALUES (1, '2024-02-03', '2024-02-03 04:05:06.7', '2024-07-03 04:05:06.7+00', '04:05:06-03',
 '-1 year -2 days +3 hours', 2.0/3, 2.0/3, '(0.1,12345.678)', -1234567.89, '{2024-02-03 04:05:06+00,infinity}',
 '(0044-03-15 BC,294276-12-31,1 mon,0.5)', '[2024-01-01,2024-07-01)')
a| UPDATE t SET d = '-infinity', i = '-5.5 sec', f = 1e-300, g = 'NaN', m = '-92233720368547758.08'
a| SET DateStyle = ISO
b| UPDATE t SET i = '3 days', tz = '1883-11-18 17:00:00+00', c = NULL, f = 123456.5
""",
        (
            ("datestyle", "Postgres, DMY"),
            ("intervalstyle", "postgres_verbose"),
            ("extra_float_digits", "-9"),
            ("timezone", "America/New_York"),
            ("lc_monetary", "C"),
        ),
    ),
}
