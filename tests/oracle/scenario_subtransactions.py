"""Scenarios about subtransactions: deep, many, large, rolled back, and those that change the catalog.

The form of the scripts is described in :mod:`oracle.scenarios`.
"""

from __future__ import annotations

LONG = "(SELECT string_agg(md5(g::text || i), '') FROM generate_series(1, 120) i)"
"""About 3,800 bytes that hardly compress, others for each ``g``."""

SUBTRANSACTIONS: dict[str, str] = {
    "savepoints_ninety_deep": """
a| CREATE TABLE t (id serial PRIMARY KEY, path text)
a| BEGIN
a| SAVEPOINT top
DEEP
a| INSERT INTO t (path) VALUES ('ninety below'), ('and another')
a| INSERT INTO t (path) VALUES ('and one more')
a| RELEASE SAVEPOINT top
a| INSERT INTO t (path) VALUES ('at the top again')
a| COMMIT
a| BEGIN
a| SAVEPOINT top
DEEP
a| INSERT INTO t (path) VALUES ('gone with all ninety')
a| ROLLBACK TO SAVEPOINT top
a| INSERT INTO t (path) VALUES ('stays')
a| COMMIT
""".replace("DEEP", "\n".join(["a| SAVEPOINT below"] * 90)),
    "savepoints_released_in_each_other": """
a| CREATE TABLE t (id serial PRIMARY KEY, path text)
a| BEGIN
a| INSERT INTO t (path) VALUES ('top')
a| SAVEPOINT one
a| INSERT INTO t (path) VALUES ('one'), ('one again')
a| RELEASE SAVEPOINT one
a| SAVEPOINT two
a| SAVEPOINT three
a| INSERT INTO t (path) VALUES ('two, three')
a| RELEASE SAVEPOINT three
a| INSERT INTO t (path) VALUES ('two')
a| RELEASE SAVEPOINT two
a| COMMIT
a| BEGIN
a| SELECT txid_current()
a| SAVEPOINT one
a| INSERT INTO t (path) VALUES ('the top has an xid and writes nothing')
a| RELEASE SAVEPOINT one
a| COMMIT
a| BEGIN
a| SAVEPOINT one
a| INSERT INTO t (path) VALUES ('never released')
a| COMMIT
a| BEGIN
a| INSERT INTO t (path) VALUES ('top')
a| SAVEPOINT one
a| INSERT INTO t (path) VALUES ('one')
a| SAVEPOINT two
a| INSERT INTO t (path) VALUES ('two, gone')
a| ROLLBACK TO SAVEPOINT two
a| INSERT INTO t (path) VALUES ('two, again')
a| COMMIT
""",
    "row_locks_before_rows": """
a| CREATE TABLE t (a text)
a| INSERT INTO t VALUES ('before')
a| BEGIN
a| SELECT * FROM t FOR UPDATE
a| SAVEPOINT s
a| INSERT INTO t VALUES ('the xid was for a lock')
a| COMMIT
a| BEGIN
a| INSERT INTO t VALUES ('at the top')
a| SAVEPOINT s
a| SELECT 1 FROM t FOR UPDATE LIMIT 1
a| COMMIT
a| BEGIN
a| SELECT * FROM t FOR SHARE
a| COMMIT
a| BEGIN
a| SAVEPOINT s
a| SELECT * FROM t FOR KEY SHARE
a| ROLLBACK TO SAVEPOINT s
a| INSERT INTO t VALUES ('the lock was given back')
a| COMMIT
""",
    "column_retyped_in_a_savepoint_that_is_rolled_back": """
a| CREATE TABLE t (data int)
a| CREATE TABLE u (id int PRIMARY KEY, a int)
a| ALTER PUBLICATION pub_list ADD TABLE t, u
a| BEGIN
a| SAVEPOINT s
a| ALTER TABLE t ALTER data TYPE text
a| INSERT INTO t VALUES ('a text')
a| ROLLBACK TO SAVEPOINT s
a| ALTER TABLE t ALTER data TYPE bigint
a| INSERT INTO t VALUES (43)
a| COMMIT
a| INSERT INTO t VALUES (44)
a| BEGIN
a| INSERT INTO u VALUES (1, 1)
a| SAVEPOINT s
a| ALTER TABLE u ADD b text DEFAULT 'gone', DROP COLUMN a
a| INSERT INTO u VALUES (2, 'gone')
a| SAVEPOINT deeper
a| ALTER TABLE u ADD c int
a| RELEASE SAVEPOINT deeper
a| UPDATE u SET c = 3
a| ROLLBACK TO SAVEPOINT s
a| UPDATE u SET a = 2
a| SAVEPOINT s
a| ALTER TABLE u RENAME a TO d
a| RELEASE SAVEPOINT s
a| INSERT INTO u VALUES (3, 3)
a| COMMIT
a| ALTER PUBLICATION pub_list DROP TABLE t, u
""",
    "catalog_changed_behind_more_than_64_subtransactions": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| CREATE TABLE u (id int PRIMARY KEY)
b| BEGIN
b| INSERT INTO u VALUES (1)
a| BEGIN
a| DO $$ BEGIN FOR g IN 1..70 LOOP BEGIN INSERT INTO t VALUES (g, 'sub'); EXCEPTION WHEN division_by_zero THEN NULL;
     END; END LOOP; END $$
a| ALTER TABLE t ADD b int
a| INSERT INTO t VALUES (100, 'at the top, with a column', 1)
a| DO $$ BEGIN FOR g IN 101..170 LOOP BEGIN INSERT INTO t VALUES (g, 'sub', g); EXCEPTION WHEN division_by_zero
     THEN NULL; END; END LOOP; END $$
a| SAVEPOINT s
a| ALTER TABLE t ADD c int
a| INSERT INTO t VALUES (200, 'in a subtransaction, with another', 2, 3)
a| RELEASE SAVEPOINT s
b| INSERT INTO u VALUES (2)
a| COMMIT
b| INSERT INTO t VALUES (300, 'by another', 4, 5)
b| COMMIT
a| BEGIN
a| DO $$ BEGIN FOR g IN 1..70 LOOP BEGIN EXECUTE format('ALTER TABLE t ADD d%s int', g); IF g % 2 = 0 THEN
     RAISE division_by_zero; END IF; EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$
a| INSERT INTO t (id, d69) VALUES (400, 1)
a| COMMIT
""",
    "thousands_of_subtransactions": """
a| CREATE TABLE t (id int PRIMARY KEY, a text)
a| BEGIN
a| DO $$ BEGIN FOR g IN 1..2500 LOOP BEGIN INSERT INTO t VALUES (g, 'sub');
     IF g % 7 = 0 THEN RAISE division_by_zero; END IF; EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$
b| INSERT INTO t VALUES (-1, 'amid')
a| COMMIT
a| BEGIN
a| INSERT INTO t VALUES (-2, 'gone')
a| DO $$ BEGIN FOR g IN 3001..3200 LOOP BEGIN INSERT INTO t VALUES (g, 'gone'); EXCEPTION WHEN division_by_zero
     THEN NULL; END; END LOOP; END $$
a| ROLLBACK
a| BEGIN
a| DO $$ BEGIN FOR g IN 4001..4130 LOOP BEGIN INSERT INTO t VALUES (g, 'prepared'); EXCEPTION WHEN division_by_zero
     THEN NULL; END; END LOOP; END $$
a| PREPARE TRANSACTION 'with 130 subtransactions'
b| INSERT INTO t VALUES (-3, 'amid')
a| COMMIT PREPARED 'with 130 subtransactions'
""",
    "snapshot_taken_in_a_subtransaction": """
a| CREATE TABLE dummy (i int)
a| CREATE TABLE harvest (apples int, pears int)
a| BEGIN
a| SAVEPOINT outer_one
a| SELECT pg_current_xact_id() IS NULL
a| INSERT INTO dummy VALUES (0)
b| ALTER TABLE harvest ADD COLUMN mangos int
a| INSERT INTO harvest VALUES (1, 2, 3)
a| RELEASE SAVEPOINT outer_one
a| COMMIT
b| ALTER TABLE harvest DROP COLUMN mangos
a| BEGIN
a| SAVEPOINT outer_one
a| SELECT pg_current_xact_id() IS NULL
a| SAVEPOINT inner_one
a| INSERT INTO dummy VALUES (0)
b| ALTER TABLE harvest ADD COLUMN mangos int
a| INSERT INTO harvest VALUES (1, 2, 3)
a| RELEASE SAVEPOINT inner_one
a| RELEASE SAVEPOINT outer_one
a| COMMIT
""",
    "large_subtransactions_of_all_sizes": """
a| CREATE TABLE t (id serial PRIMARY KEY, a text)
a| BEGIN
a| SAVEPOINT s
a| INSERT INTO t (a) SELECT 'only the subtransaction is large ' || g FROM generate_series(1, 900) g
a| RELEASE SAVEPOINT s
a| COMMIT
a| BEGIN
a| SAVEPOINT s
a| INSERT INTO t (a) SELECT 'both are large, below ' || g FROM generate_series(1, 900) g
a| RELEASE SAVEPOINT s
a| INSERT INTO t (a) SELECT 'both are large, at the top ' || g FROM generate_series(1, 900) g
a| COMMIT
a| BEGIN
a| INSERT INTO t (a) SELECT 'the top is large ' || g FROM generate_series(1, 900) g
a| SAVEPOINT s
a| INSERT INTO t (a) VALUES ('what is below is small')
a| RELEASE SAVEPOINT s
a| COMMIT
a| BEGIN
a| SAVEPOINT one
a| INSERT INTO t (a) VALUES ('the first is small')
a| SAVEPOINT two
a| INSERT INTO t (a) SELECT 'the one inside is large ' || g FROM generate_series(1, 900) g
a| RELEASE SAVEPOINT two
a| RELEASE SAVEPOINT one
a| COMMIT
a| BEGIN
a| SAVEPOINT one
a| INSERT INTO t (a) SELECT 'large, and then ' || g FROM generate_series(1, 900) g
a| SAVEPOINT two
a| INSERT INTO t (a) SELECT 'large, gone ' || g FROM generate_series(1, 900) g
a| ROLLBACK TO SAVEPOINT two
a| SAVEPOINT three
a| INSERT INTO t (a) SELECT 'large, stays ' || g FROM generate_series(1, 900) g
a| RELEASE SAVEPOINT one
b| INSERT INTO t (a) VALUES ('amid')
a| COMMIT
""",
    "large_transaction_with_definitions_and_a_message": """
a| BEGIN
a| CREATE TABLE t (id serial PRIMARY KEY, a int)
a| INSERT INTO t (a) SELECT g FROM generate_series(1, 2500) g
a| SELECT pg_logical_emit_message(true, 'test', 'amid many rows')
a| DELETE FROM t WHERE id < 1200
a| UPDATE t SET a = -a WHERE id > 1200
a| CREATE TABLE odd (id text PRIMARY KEY, a text)
a| INSERT INTO odd VALUES ('ab', 'foo')
a| COMMIT
a| BEGIN
a| CREATE TABLE aside AS SELECT g AS i FROM generate_series(1, 1500) g
a| ALTER TABLE aside REPLICA IDENTITY FULL
a| UPDATE t SET id = -id WHERE id = 1200
a| UPDATE odd SET id = 'x', a = 'quux'
a| UPDATE odd SET id = 'yy', a = 'a'
a| DELETE FROM aside
a| DROP TABLE aside
a| COMMIT
a| INSERT INTO t (id, a) SELECT g, -g FROM generate_series(2000, 3000) g ON CONFLICT (id) DO UPDATE SET a = EXCLUDED.a
""",
    "streamed_rows_rolled_back_to_a_savepoint": f"""
a| CREATE TABLE t (a text)
a| BEGIN
a| SAVEPOINT s
a| SELECT pg_logical_emit_message(true, 'test', repeat('a', 50))
a| INSERT INTO t SELECT repeat('a', 2000) || g FROM generate_series(1, 60) g
a| TRUNCATE t
a| ROLLBACK TO s
a| INSERT INTO t SELECT repeat('a', 10) || g FROM generate_series(1, 20) g
a| COMMIT
a| ALTER TABLE t ALTER a SET STORAGE EXTERNAL
a| INSERT INTO t SELECT repeat('a', 6000) || g FROM generate_series(1, 10) g
a| BEGIN
a| INSERT INTO t SELECT {LONG} FROM generate_series(1, 30) g
a| ALTER TABLE t ADD i int
a| SAVEPOINT s
a| INSERT INTO t SELECT {LONG}, g FROM generate_series(1, 30) g
a| ROLLBACK TO s
a| COMMIT
""",
    "definitions_in_large_subtransactions": f"""
a| CREATE TABLE t (a int PRIMARY KEY, b text)
a| INSERT INTO t VALUES (1, 'foo'), (2, 'bar')
a| BEGIN
a| INSERT INTO t SELECT g, {LONG} FROM generate_series(3, 40) g
a| ALTER TABLE t ADD c int
a| SAVEPOINT s1
a| INSERT INTO t SELECT g, {LONG}, -g FROM generate_series(41, 80) g
a| ALTER TABLE t ADD d text
a| SAVEPOINT s2
a| INSERT INTO t SELECT g, {LONG}, -g, 'd' || g FROM generate_series(81, 120) g
a| ALTER TABLE t ADD e int
a| SAVEPOINT s3
a| INSERT INTO t SELECT g, {LONG}, -g, 'd' || g, g FROM generate_series(121, 140) g
a| ALTER TABLE t DROP COLUMN d
a| ROLLBACK TO SAVEPOINT s3
a| UPDATE t SET c = 7 WHERE a BETWEEN 30 AND 90
b| CREATE TABLE beside (id int)
a| COMMIT
a| INSERT INTO t VALUES (2000, 'after', 1, 'd', 2)
""",
    "large_transactions_side_by_side": f"""
a| CREATE TABLE t (a int PRIMARY KEY, b text, c timestamptz DEFAULT '2024-02-29 12:00+00', d bigint DEFAULT 999)
a| INSERT INTO t VALUES (1, 'foo'), (2, 'bar')
a| BEGIN
a| INSERT INTO t SELECT g, {LONG} FROM generate_series(3, 300) g
a| UPDATE t SET b = 'updated' WHERE mod(a, 2) = 0
b| BEGIN
b| INSERT INTO t SELECT g, {LONG} FROM generate_series(5000, 5060) g
a| DELETE FROM t WHERE mod(a, 3) = 0
b| DELETE FROM t WHERE a > 5050
a| SAVEPOINT s1
a| INSERT INTO t SELECT g, {LONG} FROM generate_series(301, 330) g
a| SAVEPOINT s2
a| INSERT INTO t SELECT g, {LONG} FROM generate_series(331, 360) g
a| ROLLBACK TO s1
a| INSERT INTO t SELECT g, {LONG} FROM generate_series(301, 310) g
b| COMMIT
a| UPDATE t SET c = NULL WHERE a > 290
a| COMMIT
b| BEGIN
b| INSERT INTO t SELECT g, {LONG} FROM generate_series(6000, 6100) g
b| ROLLBACK
b| INSERT INTO t VALUES (7000, 'after')
""",
    "messages_before_changes_of_others": """
a| CREATE TABLE t (id serial PRIMARY KEY, note text)
a| BEGIN
a| INSERT INTO t (note) VALUES ('top')
a| SAVEPOINT one
a| SELECT pg_logical_emit_message(true, 'one', 'alone in its savepoint')
a| RELEASE one
a| INSERT INTO t (note) VALUES ('the record behind it')
a| SAVEPOINT two
a| INSERT INTO t (note) VALUES ('two')
a| SELECT pg_logical_emit_message(true, 'two', 'at its end')
a| RELEASE two
a| INSERT INTO t (note) VALUES ('behind that')
a| SELECT pg_logical_emit_message(true, 'top', 'before a savepoint')
a| SAVEPOINT three
a| INSERT INTO t (note) VALUES ('three'), ('and more of it')
a| SELECT pg_logical_emit_message(true, 'three', 'before another')
a| SAVEPOINT four
a| DELETE FROM t WHERE note = 'two'
a| SELECT pg_logical_emit_message(true, 'four', 'before a truncate')
a| RELEASE three
a| TRUNCATE t
a| SELECT pg_logical_emit_message(true, 'top', 'and once more')
a| SAVEPOINT five
a| INSERT INTO t (note) SELECT 'many ' || g FROM generate_series(1, 30) g
a| SELECT pg_logical_emit_message(true, 'five', 'again')
a| SAVEPOINT six
a| UPDATE t SET note = note || ' updated' WHERE id % 3 = 0
a| COMMIT
a| BEGIN
MANY
a| COMMIT
""".replace(
        "MANY",
        "\n".join(
            f"a| SAVEPOINT s{n}\na| SELECT pg_logical_emit_message(true, 's{n}', 'x')\n"
            f"a| {'RELEASE' if n % 3 else 'ROLLBACK TO'} s{n}\na| INSERT INTO t (note) VALUES ('after s{n}')"
            for n in range(12)
        ),
    ),
}
