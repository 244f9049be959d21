"""Scenarios about when decoding begins and begins again: what runs then, and what has changed the catalog already.

Each runs on a server of its own. ``!get`` takes from slots what there is. So the server begins its next call where the
last checkpoint lets it, with the snapshot it wrote there; Headwater takes the same pieces from its states. The form of
the scripts is described in :mod:`oracle.scenarios`.
"""

from __future__ import annotations

from oracle.scenario_transactions import Settings

_TABLES = """
CREATE TABLE t (a int, b int);
CREATE TABLE u (a int, b int);
CREATE TABLE parts (a int) PARTITION BY RANGE (a);
CREATE TABLE noted (a int) WITH (user_catalog_table = true);
---
"""

SNAPSHOTS: dict[str, tuple[str, Settings]] = {
    "prepared_and_rolled_back_later": (
        _TABLES
        + """
a| INSERT INTO t VALUES (8)
a| BEGIN
a| TRUNCATE t
a| INSERT INTO t VALUES (1)
a| PREPARE TRANSACTION 'one'
a| BEGIN
a| ALTER TABLE u ADD c text DEFAULT 'stored'
a| INSERT INTO u VALUES (1)
a| SAVEPOINT s
a| ALTER TABLE u ALTER c TYPE varchar(20)
a| INSERT INTO u VALUES (2, 3, 'rewritten')
a| PREPARE TRANSACTION 'two'
a| BEGIN
a| INSERT INTO noted VALUES (1)
a| SELECT pg_logical_emit_message(true, 'prepared', 'a message')
a| PREPARE TRANSACTION 'three_nodecode'
!get
a| ROLLBACK PREPARED 'one'
a| INSERT INTO t VALUES (2)
b| BEGIN
b| INSERT INTO t VALUES (3)
a| ROLLBACK PREPARED 'two'
!get
a| INSERT INTO u VALUES (3)
b| PREPARE TRANSACTION 'four'
a| COMMIT PREPARED 'three_nodecode'
!get
a| COMMIT PREPARED 'four'
a| INSERT INTO u VALUES (4)
!get
""",
        (),
    ),
    "truncated_in_a_subtransaction_before_the_restart": (
        _TABLES
        + """
a| BEGIN
a| SAVEPOINT s
a| TRUNCATE t
b| CHECKPOINT
!get
a| COMMIT
a| BEGIN
a| INSERT INTO t VALUES (1)
b| CHECKPOINT
!get
a| COMMIT
!get
""",
        (),
    ),
    "two_truncates_that_end_at_different_times": (
        _TABLES
        + """
a| BEGIN
a| TRUNCATE t
c| BEGIN
c| TRUNCATE u
b| CHECKPOINT
!get
a| COMMIT
a| BEGIN
a| INSERT INTO t VALUES (1)
b| CHECKPOINT
!get
c| COMMIT
b| CHECKPOINT
!get
a| INSERT INTO u VALUES (2)
a| COMMIT
!get
""",
        (),
    ),
    "row_of_a_catalog_table_behind_the_restart": (
        _TABLES
        + """
a| BEGIN
a| SAVEPOINT s
a| INSERT INTO t VALUES (1)
b| CHECKPOINT
!get
a| INSERT INTO noted VALUES (1)
a| COMMIT
a| BEGIN
a| INSERT INTO t VALUES (2)
b| CHECKPOINT
!get
a| COMMIT
!get
""",
        (),
    ),
    "truncated_in_a_subtransaction_behind_the_restart": (
        _TABLES
        + """
a| BEGIN
a| SAVEPOINT s
a| INSERT INTO t VALUES (1)
b| CHECKPOINT
!get
a| TRUNCATE t
a| COMMIT
a| BEGIN
a| INSERT INTO t VALUES (2)
b| CHECKPOINT
!get
a| COMMIT
!get
""",
        (),
    ),
    "partitions_made_before_and_behind_the_restart": (
        _TABLES
        + """
a| BEGIN
a| SAVEPOINT s
a| CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)
a| RELEASE SAVEPOINT s
b| CHECKPOINT
a| CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20)
a| COMMIT
a| BEGIN
a| TRUNCATE t
b| CHECKPOINT
!get
a| INSERT INTO parts VALUES (1), (11)
!get
a| COMMIT
!get
""",
        (),
    ),
    "subtransactions_whose_top_is_before_the_restart": (
        """
CREATE TABLE harvest (apples int);
---
a| BEGIN
a| DO $$ BEGIN BEGIN INSERT INTO harvest VALUES (41); EXCEPTION WHEN OTHERS THEN RAISE; END; END $$
b| CHECKPOINT
c| BEGIN
c| INSERT INTO harvest VALUES (43)
a| DO $$ BEGIN FOR i IN 1..128 LOOP BEGIN INSERT INTO harvest VALUES (42); EXCEPTION WHEN OTHERS THEN RAISE; END;
     END LOOP; END $$
a| COMMIT
b| CHECKPOINT
!get
!get
c| COMMIT
!get
""",
        (),
    ),
    "composite_attribute_vacuumed_beside_an_open_transaction": (
        """
CREATE TYPE basket AS (apples int, pears int, mangos int);
CREATE TABLE harvest (fruits basket);
---
a| BEGIN
a| SELECT pg_current_xact_id() IS NULL
b| BEGIN
b| INSERT INTO harvest VALUES ((1, 2, 3))
a| ALTER TYPE basket DROP ATTRIBUTE mangos
a| COMMIT
a| CHECKPOINT
!get
!get
b| COMMIT
a| VACUUM pg_attribute
!get
""",
        (),
    ),
    "taken_while_transactions_are_open": (
        """
CREATE TABLE t (id int PRIMARY KEY, a text);
---
a| BEGIN
a| SELECT pg_current_xact_id() IS NULL
a| INSERT INTO t VALUES (1, 'open')
!get
b| INSERT INTO t VALUES (2, 'beside')
!get
a| TRUNCATE t
a| INSERT INTO t VALUES (3, 'after its own truncate')
b| CHECKPOINT
!get
a| COMMIT
!get
a| BEGIN
a| CREATE TABLE made_in_it (id serial PRIMARY KEY)
a| INSERT INTO made_in_it VALUES (1)
b| CHECKPOINT
!get
a| SAVEPOINT s
a| ALTER TABLE made_in_it ADD a text
a| INSERT INTO made_in_it VALUES (2, 'two')
!get
a| ROLLBACK TO SAVEPOINT s
a| INSERT INTO made_in_it VALUES (3)
a| PREPARE TRANSACTION 'p'
!get
b| CHECKPOINT
!get
b| COMMIT PREPARED 'p'
!get
""",
        (),
    ),
    "slot_made_beside_a_serializable_transaction": (
        """
CREATE TABLE t (id serial PRIMARY KEY);
---
a| BEGIN ISOLATION LEVEL SERIALIZABLE
a| INSERT INTO t DEFAULT VALUES
!slot
a| COMMIT
!slot-ready
!get
a| BEGIN ISOLATION LEVEL SERIALIZABLE
a| INSERT INTO t DEFAULT VALUES
a| COMMIT
!get
a| BEGIN ISOLATION LEVEL SERIALIZABLE
a| INSERT INTO t DEFAULT VALUES
!get
a| COMMIT
!get
""",
        (),
    ),
    "slot_made_beside_definitions": (
        """
CREATE TABLE t (id serial PRIMARY KEY);
---
b| BEGIN
b| SELECT pg_current_xact_id() IS NULL
!slot
c| BEGIN
c| SELECT pg_current_xact_id() IS NULL
b| ALTER TABLE t ADD COLUMN by_b int
b| COMMIT
b| BEGIN
b| SELECT pg_current_xact_id() IS NULL
c| COMMIT
b| COMMIT
!slot-ready
a| INSERT INTO t DEFAULT VALUES
a| CHECKPOINT
!get
a| INSERT INTO t DEFAULT VALUES
a| ALTER TABLE t ADD COLUMN by_a int
a| INSERT INTO t DEFAULT VALUES
!get
""",
        (),
    ),
    "checkpoints_while_the_slot_waits": (
        """
CREATE TABLE t (a int);
CREATE TABLE u (a int);
---
a| BEGIN
a| INSERT INTO t VALUES (1)
!slot
b| CHECKPOINT
c| BEGIN
c| ALTER TABLE u ADD b int
c| DO $$ BEGIN FOR g IN 1..80 LOOP BEGIN INSERT INTO u VALUES (g, g); EXCEPTION WHEN OTHERS THEN RAISE; END;
     END LOOP; END $$
b| CHECKPOINT
a| INSERT INTO t VALUES (2)
a| COMMIT
b| CHECKPOINT
c| INSERT INTO u VALUES (3, 3)
c| COMMIT
!slot-ready
!get
a| INSERT INTO t VALUES (4)
a| INSERT INTO u VALUES (4, 4)
!get
""",
        (),
    ),
    "prepared_before_the_consistent_point": (
        """
CREATE TABLE t (id serial PRIMARY KEY);
---
b| BEGIN
b| SELECT pg_current_xact_id() IS NULL
!slot
c| BEGIN
c| SELECT pg_current_xact_id() IS NULL
b| COMMIT
b| BEGIN
b| INSERT INTO t DEFAULT VALUES
b| ALTER TABLE t ADD a int
b| INSERT INTO t DEFAULT VALUES
b| PREPARE TRANSACTION 'waits'
c| COMMIT
b| COMMIT PREPARED 'waits'
!slot-ready
a| INSERT INTO t DEFAULT VALUES
!get
a| BEGIN
a| INSERT INTO t DEFAULT VALUES
a| ALTER TABLE t ADD b int
a| PREPARE TRANSACTION 'another'
b| CHECKPOINT
!get
a| COMMIT PREPARED 'another'
a| INSERT INTO t DEFAULT VALUES
!get
""",
        (),
    ),
    "prepared_over_a_crash": (
        """
CREATE TABLE t (id int PRIMARY KEY, a text);
---
a| BEGIN
a| DO $$ BEGIN FOR g IN 1..127 LOOP BEGIN INSERT INTO t VALUES (g, 'sub'); EXCEPTION WHEN OTHERS THEN RAISE; END;
     END LOOP; END $$
a| ALTER TABLE t ADD b int
a| INSERT INTO t VALUES (1000, 'with a column', 1)
a| PREPARE TRANSACTION 'kept'
a| BEGIN
a| CREATE TABLE gone (id int)
a| INSERT INTO gone VALUES (1)
a| PREPARE TRANSACTION 'rolled back'
b| CHECKPOINT
!get
c| BEGIN
c| CREATE TABLE never (id int)
c| INSERT INTO never VALUES (1)
!crash
a| CREATE TABLE beside (id int)
a| INSERT INTO beside VALUES (1)
!get
a| COMMIT PREPARED 'kept'
a| ROLLBACK PREPARED 'rolled back'
a| INSERT INTO t VALUES (1001, 'after', 2)
!restart
!get
a| INSERT INTO t VALUES (1002, 'after', 3)
""",
        (),
    ),
    "subtransactions_that_ran_when_the_slot_was_made": (
        """
CREATE TABLE t (id int PRIMARY KEY, a text);
---
a| BEGIN
a| DO $$ BEGIN FOR g IN 1..80 LOOP BEGIN INSERT INTO t VALUES (g, 'before'); EXCEPTION WHEN OTHERS THEN RAISE; END;
     END LOOP; END $$
a| ALTER TABLE t ADD b int
!slot
a| SAVEPOINT s
a| ALTER TABLE t ADD c int
a| INSERT INTO t VALUES (100, 'rolled back', 1, 2)
a| ROLLBACK TO SAVEPOINT s
a| INSERT INTO t VALUES (101, 'stays', 1)
b| CREATE TABLE beside (id int)
b| INSERT INTO beside VALUES (1)
b| CHECKPOINT
a| COMMIT
!slot-ready
b| INSERT INTO t VALUES (102, 'after', 3)
b| INSERT INTO beside VALUES (2)
!get
""",
        (),
    ),
    "spilled_by_a_small_work_mem": (
        """
CREATE TABLE t (id serial PRIMARY KEY, a text);
---
a| BEGIN
a| INSERT INTO t (a) SELECT 'top ' || g FROM generate_series(1, 1500) g
a| SAVEPOINT s1
a| INSERT INTO t (a) SELECT 'one ' || g FROM generate_series(1, 1500) g
a| SAVEPOINT s2
a| ALTER TABLE t ADD b text
a| INSERT INTO t (a, b) SELECT 'two, gone ' || g, repeat('b', 3000) FROM generate_series(1, 500) g
a| ROLLBACK TO SAVEPOINT s2
b| CREATE TABLE beside (id int)
a| INSERT INTO t (a) SELECT 'two again ' || g FROM generate_series(1, 1500) g
!get
a| RELEASE SAVEPOINT s1
a| SELECT pg_logical_emit_message(true, 'large', repeat('x', 70000))
a| UPDATE t SET a = a || '!' WHERE id % 3 = 0
a| ALTER TABLE t ADD c text DEFAULT repeat('c', 5000)
a| UPDATE t SET c = 'short' WHERE id % 100 = 0
a| COMMIT
!get
a| BEGIN
a| INSERT INTO t (a) SELECT 'rolled back ' || g FROM generate_series(1, 3000) g
a| ROLLBACK
!get
""",
        (("logical_decoding_work_mem", "64kB"),),
    ),
    "large_transactions_at_every_size_of_work_mem": (
        """
CREATE TABLE t (id int PRIMARY KEY, a text);
ALTER TABLE t ALTER a SET STORAGE EXTERNAL;
---
a| BEGIN
b| BEGIN
a| INSERT INTO t SELECT g, repeat('a' || g, 1500) FROM generate_series(1, 60) g
b| INSERT INTO t SELECT g, repeat('b' || g, 1500) FROM generate_series(100, 160) g
a| DO $$ BEGIN FOR g IN 200..280 LOOP BEGIN INSERT INTO t VALUES (g, repeat('sub', 900)); IF g % 4 = 0 THEN
     RAISE division_by_zero; END IF; EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$
b| UPDATE t SET id = id + 1000 WHERE id BETWEEN 100 AND 130
a| UPDATE t SET id = id + 1000 WHERE id < 30
b| CREATE TABLE beside (id int)
b| COMMIT
a| DELETE FROM t WHERE id > 1000
a| COMMIT
""",
        (("logical_decoding_work_mem", "64kB"), ("wal_compression", "on")),
    ),
    "another_tablespace_behind_a_restart": (
        """
CREATE TABLESPACE place LOCATION '';
CREATE TABLE t (id int PRIMARY KEY, a text);
CREATE TABLE u (id int PRIMARY KEY, a text);
INSERT INTO t VALUES (1, repeat('long ', 3000));
---
a| BEGIN
a| ALTER TABLE t SET TABLESPACE place
a| UPDATE t SET id = 2
a| ALTER INDEX t_pkey SET TABLESPACE place
b| INSERT INTO u VALUES (1, 'beside')
a| COMMIT
!get
a| ALTER TABLE t SET TABLESPACE pg_default
a| BEGIN
a| ALTER TABLE t SET TABLESPACE place
a| INSERT INTO t VALUES (3, 'gone')
a| ROLLBACK
a| INSERT INTO t VALUES (4, 'in the old file')
!restart
b| VACUUM FULL t
b| ALTER TABLE u SET UNLOGGED
b| INSERT INTO u VALUES (2, 'not logged')
b| ALTER TABLE u SET TABLESPACE place
b| ALTER TABLE u SET LOGGED
b| INSERT INTO u VALUES (3, 'logged, elsewhere')
!get
b| ALTER TABLE ALL IN TABLESPACE place SET TABLESPACE pg_default
b| UPDATE u SET a = 'at home'
b| UPDATE t SET a = 'short'
!get
""",
        (("allow_in_place_tablespaces", "on"),),
    ),
    "origins_of_every_end": (
        """
CREATE TABLE t (id serial PRIMARY KEY, data text);
SELECT pg_replication_origin_create('upstream');
---
a| SELECT pg_replication_origin_session_setup('upstream')
a| BEGIN
a| INSERT INTO t (data) VALUES ('no position, commit')
a| COMMIT
a| BEGIN
a| INSERT INTO t (data) VALUES ('no position, rollback')
a| ROLLBACK
a| BEGIN
a| INSERT INTO t (data) VALUES ('no position, commit prepared')
a| PREPARE TRANSACTION 'p'
a| COMMIT PREPARED 'p'
a| BEGIN
a| INSERT INTO t (data) VALUES ('no position, rollback prepared')
a| PREPARE TRANSACTION 'p'
a| ROLLBACK PREPARED 'p'
a| BEGIN
a| SELECT pg_replication_origin_xact_setup('0/AABBCCDD', '2013-01-01 00:00')
a| INSERT INTO t (data) VALUES ('with a position')
a| SAVEPOINT s
a| INSERT INTO t (data) VALUES ('in a subtransaction')
a| ALTER TABLE t ADD b int
a| ROLLBACK TO SAVEPOINT s
a| COMMIT
a| SELECT pg_logical_emit_message(false, 'test', 'upstream'), pg_logical_emit_message(true, 'test', 'upstream')
a| BEGIN
a| SELECT pg_replication_origin_xact_setup('0/AABBCCEE', '2013-01-01 00:00')
a| INSERT INTO t (data) VALUES ('prepared with a position')
a| PREPARE TRANSACTION 'p'
a| COMMIT PREPARED 'p'
a| SELECT pg_replication_origin_session_reset()
a| BEGIN
a| INSERT INTO t (data) VALUES ('prepared here')
a| PREPARE TRANSACTION 'p'
b| SELECT pg_replication_origin_session_setup('upstream')
b| COMMIT PREPARED 'p'
b| TRUNCATE t
b| ALTER TABLE t ADD c int
b| INSERT INTO t (data, c) VALUES ('behind a definition from upstream', 1)
a| INSERT INTO t (data, c) VALUES ('here', 2)
!get
b| SELECT pg_replication_origin_session_reset()
a| SELECT pg_replication_origin_drop('upstream')
a| SELECT pg_replication_origin_create('downstream')
a| SELECT pg_replication_origin_session_setup('downstream')
a| INSERT INTO t (data) VALUES ('by the origin that has its number now')
!get
""",
        (),
    ),
}
