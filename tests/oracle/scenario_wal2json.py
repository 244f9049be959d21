"""Subjects of wal2json's own tests, as scenarios: names, types and values as JSON, keys, identities, messages.

The form of the scripts is described in :mod:`oracle.scenarios`. They run on the server that has the plugin, before
those of the other plugins.
"""

from __future__ import annotations

from oracle.scenario_rows import BIG
from oracle.scenarios import Scenario

_SCRIPTS: dict[str, str] = {
    "values_as_json": r"""
a| CREATE TABLE t (id int PRIMARY KEY, s text, b bool, i2 int2, i8 int8, o oid, r real, d float8, n numeric, y bytea)
a| INSERT INTO t VALUES (1, E'"quoted" \\ / \b \f \n \r \t \x01 \x1f \x7f', true, -1)
a| UPDATE t SET i8 = 9223372036854775807, o = 4294967295, r = 1.5, d = 0, n = 1, y = ''
a| INSERT INTO t VALUES (2, E'12345678"1234567\\', false, 1, 0, 0, 'NaN', 'Infinity', 'NaN', '\x00ff')
a| INSERT INTO t (id, s) VALUES (3, 'ünï€𝄞')
a| INSERT INTO t VALUES (4, '', NULL, 0, 0, 0, '-Infinity', '-Infinity', '-Infinity', '\x5c')
a| INSERT INTO t (id, s) VALUES (5, repeat(E'\x02', 100))
a| INSERT INTO t VALUES (6, repeat('twelve bytes', 20), true, 1, 1, 1, 1e-30, 1e300, 'Infinity')
a| INSERT INTO t (id, y) VALUES (9, repeat('x', 300)::bytea)
a| INSERT INTO t (id, d, n) VALUES (7, -1.5e-7, 1e40), (8, 5, -0.00)
a| UPDATE t SET s = s || E'\n'
a| DELETE FROM t WHERE id < 5
""",
    "types_with_modifiers": """
a| CREATE TABLE t (id int PRIMARY KEY, a numeric(7, 2), b numeric(3, -2), c varchar(9), d char, e char(3), f bpchar)
a| ALTER TABLE t ADD g bit, ADD h bit(5), ADD i varbit, ADD j varbit(9), ADD k timestamp(3), ADD l timestamptz(0)
a| ALTER TABLE t ADD m time(1), ADD n timetz, ADD o interval(2), ADD p interval day to second(3), ADD q interval year
a| ALTER TABLE t ADD r numeric(4)[], ADD s char(2)[], ADD u bpchar[], ADD v varchar(7)[][], ADD w "char", ADD x name
a| ALTER TABLE t ADD y interval hour to minute[], ADD z int2vector, ADD "A ""b" timestamp(2)[], ADD bb bit[]
a| ALTER TABLE t ADD cc json
a| INSERT INTO t VALUES (1, 12345.67, 700, 'c', 'd', 'e', 'f  ', '1', '10101', '11', '111', '2026-01-02 03:04:05.678')
a| UPDATE t SET l = '2026-01-02 03:04:05+01', m = '12:34:56.7', n = '01:02:03+04'
a| UPDATE t SET o = '1 day', p = '2 days', q = '3 years'
a| UPDATE t SET r = '{1,2}', s = '{a,b}', u = '{x,NULL}', v = '{{a,b}}', w = 'w', x = 'n', y = '{1 hour}', z = '1 2'
a| UPDATE t SET "A ""b" = '{2026-01-02 03:04:05.67}', bb = '{0,1}', cc = '{"a": [1, "x"]}'
""",
    "types_of_users": """
a| CREATE DOMAIN money_of AS numeric(9, 2)
a| CREATE DOMAIN more_of AS money_of CHECK (VALUE > 0)
a| CREATE DOMAIN "Yes No" AS bool
a| CREATE DOMAIN raw AS bytea
a| CREATE TYPE "My Mood" AS ENUM ('sad', '"so"')
a| CREATE TYPE "quo""te" AS (a int, b text)
a| CREATE TYPE plain AS RANGE (subtype = int)
a| SET search_path = types_of_users, public
a| CREATE TABLE t (id money_of PRIMARY KEY, a more_of, b "Yes No", c raw, d "My Mood", e "My Mood"[])
a| ALTER TABLE t ADD f "quo""te", ADD g plain
a| CREATE TYPE public.mood AS ENUM ('m')
a| CREATE TABLE public.t (id int, m mood[], n mood, a "My Mood", PRIMARY KEY (id))
a| INSERT INTO t VALUES (1, 2, true, 'x', 'sad', '{sad,"\\"so\\""}', '(1,b)', '[1,3)')
a| INSERT INTO t VALUES (2)
a| INSERT INTO public.t VALUES (1, '{m}', 'm', 'sad')
a| UPDATE t SET a = 3
a| UPDATE t SET id = id + 10
a| DELETE FROM t
""",
    "keys_and_identities": """
a| ALTER PUBLICATION pub_all SET (publish = 'insert')
a| CREATE TABLE both_keys (a int, b text, c bool, d numeric(5, 3), gone int, PRIMARY KEY (c, a))
a| CREATE TABLE by_index (a int NOT NULL, b text NOT NULL, c bool, id serial PRIMARY KEY)
a| CREATE UNIQUE INDEX by_index_b_a ON by_index (b, a)
a| ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_b_a
a| CREATE TABLE whole (a int PRIMARY KEY, b text)
a| ALTER TABLE whole REPLICA IDENTITY FULL
a| CREATE TABLE whole_without_key (a int, b text)
a| ALTER TABLE whole_without_key REPLICA IDENTITY FULL
a| CREATE TABLE none (a int PRIMARY KEY, b text)
a| ALTER TABLE none REPLICA IDENTITY NOTHING
a| CREATE TABLE later (a int PRIMARY KEY DEFERRABLE, b text)
a| CREATE TABLE without_key (a int, b text)
a| INSERT INTO both_keys VALUES (1, 'x', true, 1.5), (2, 'y', false, NULL)
a| INSERT INTO by_index VALUES (1, 'x', true), (2, 'y', NULL)
a| INSERT INTO whole VALUES (1, 'x'), (2, NULL)
a| INSERT INTO whole_without_key VALUES (1, 'x'), (2, NULL), (NULL, NULL)
a| INSERT INTO none VALUES (1, 'x')
a| INSERT INTO later VALUES (1, 'x')
a| INSERT INTO without_key VALUES (1, 'x')
a| ALTER TABLE both_keys DROP COLUMN gone
a| UPDATE both_keys SET b = NULL
a| UPDATE both_keys SET a = a + 10, d = 2
a| UPDATE by_index SET c = false
a| UPDATE by_index SET b = b || 'z'
a| UPDATE by_index SET id = id + 10
a| UPDATE whole SET b = 'new'
a| UPDATE whole_without_key SET b = 'new'
a| UPDATE none SET b = 'new'
a| UPDATE later SET b = 'new'
a| UPDATE without_key SET b = 'new'
a| DELETE FROM both_keys
a| DELETE FROM by_index
a| DELETE FROM whole
a| DELETE FROM whole_without_key
a| DELETE FROM none
a| DELETE FROM later
a| DELETE FROM without_key
a| CREATE TABLE empty ()
a| INSERT INTO empty DEFAULT VALUES
a| ALTER TABLE empty REPLICA IDENTITY FULL
a| DELETE FROM empty
a| ALTER PUBLICATION pub_all SET (publish = 'insert, update, delete, truncate')
""",
    "messages_as_json": r"""
a| SELECT pg_logical_emit_message(false, 'a', 'before "any" transaction')
a| CREATE TABLE t (id int PRIMARY KEY)
a| INSERT INTO t VALUES (1)
a| SELECT pg_logical_emit_message(false, 'a', 'after one change')
a| INSERT INTO t VALUES (2), (3)
a| SELECT pg_logical_emit_message(false, 'a', 'after two changes')
a| SELECT pg_logical_emit_message(false, 'b', E'and\nonce more')
a| SELECT pg_logical_emit_message(true, 'prefix', 'inside')
a| SELECT pg_logical_emit_message(false, 'pre"fix', 'after a message')
a| BEGIN
a| SELECT pg_logical_emit_message(true, 'a', 'first')
a| SELECT pg_logical_emit_message(false, 'a', 'comes before the first')
a| INSERT INTO t VALUES (4)
a| SELECT pg_logical_emit_message(true, 'left out', 'second')
a| SELECT pg_logical_emit_message(true, '', '')
a| COMMIT
a| SELECT pg_logical_emit_message(false, 'a', 'after three'), pg_logical_emit_message(true, 'x', 'y')
a| BEGIN
a| SELECT pg_logical_emit_message(true, 'a', 'never seen')
a| SELECT pg_logical_emit_message(false, 'a', 'seen all the same')
a| ROLLBACK
a| SELECT pg_logical_emit_message(true, 'a', '\x410042'::bytea), pg_logical_emit_message(false, 'a', '\x004100'::bytea)
a| CREATE TABLE u (id int PRIMARY KEY)
a| SELECT pg_logical_emit_message(false, 'a', 'after none')
""",
    "truncates_as_json": """
a| CREATE TABLE t (id int PRIMARY KEY)
a| CREATE TABLE u (id int REFERENCES t)
a| CREATE TABLE "odd ""name" (id int)
a| TRUNCATE t CASCADE
a| BEGIN
a| INSERT INTO t VALUES (1)
a| TRUNCATE t, u, "odd ""name" RESTART IDENTITY
a| INSERT INTO t VALUES (2)
a| SAVEPOINT s
a| TRUNCATE u
a| ROLLBACK TO s
a| COMMIT
""",
    "columns_that_change": f"""
a| CREATE TABLE t (a int, b text, c int NOT NULL DEFAULT 7, PRIMARY KEY (a))
a| INSERT INTO t VALUES (1, 'x'), (2, {BIG})
a| BEGIN
a| INSERT INTO t VALUES (3, 'in one transaction')
a| ALTER TABLE t RENAME a TO "new ""a"
a| INSERT INTO t VALUES (4, 'in one transaction')
a| ALTER TABLE t DROP COLUMN c
a| ALTER TABLE t ADD COLUMN d int NOT NULL DEFAULT 5, ADD COLUMN e int GENERATED ALWAYS AS ("new ""a" * 2) STORED
a| UPDATE t SET "new ""a" = "new ""a" + 10
a| COMMIT
a| UPDATE t SET d = 6 WHERE "new ""a" = 12
a| ALTER TABLE t ALTER b SET NOT NULL
a| UPDATE t SET d = 7
a| ALTER TABLE t REPLICA IDENTITY FULL
a| UPDATE t SET d = 8
a| DELETE FROM t
""",
    "key_that_is_toasted": """
a| CREATE TABLE t (k text PRIMARY KEY, n int, more text)
a| ALTER TABLE t ALTER k SET STORAGE external, ALTER more SET STORAGE external
a| INSERT INTO t VALUES (repeat('k', 2100), 1, repeat('m', 3000)), ('short', 2, repeat('m', 3000))
a| UPDATE t SET n = n + 1
a| UPDATE t SET k = k || 'x'
a| DELETE FROM t
""",
    "tables_to_choose_from": """
a| CREATE SCHEMA "*"
a| CREATE SCHEMA "a.b"
a| CREATE TABLE "*"."*" (id int)
a| CREATE TABLE "*".t (id int)
a| CREATE TABLE "a.b"."c,d" (id int)
a| CREATE TABLE "a.b"." blank" (id int)
a| CREATE TABLE "*" (id int)
a| CREATE TABLE "back\\slash" (id int)
a| CREATE TABLE "Upper" (id int)
a| INSERT INTO "*"."*" VALUES (1)
a| INSERT INTO "*".t VALUES (2)
a| INSERT INTO "a.b"."c,d" VALUES (3)
a| INSERT INTO "a.b"." blank" VALUES (4)
a| INSERT INTO "*" VALUES (5)
a| INSERT INTO "back\\slash" VALUES (6)
a| INSERT INTO "Upper" VALUES (7)
a| TRUNCATE "*"."*", "*".t, "a.b"."c,d", "Upper"
""",
}

JSON_SCENARIOS: dict[str, Scenario] = {name: Scenario("JSON", script) for name, script in _SCRIPTS.items()}
