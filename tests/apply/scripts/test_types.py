"""Types, encodings, collations and binary values: scripts 002, 005, 012 and 014."""

from __future__ import annotations

from apply.scripts.script_runner import Script, place, run_in
from serving.service import wait_until

TYPES = (
    "CREATE EXTENSION hstore",
    "CREATE TYPE mood AS ENUM ('a', 'b', 'c', 'd', 'e')",
    "CREATE TYPE pair AS (a float, b text, c int)",
    "CREATE TYPE moods AS (a float, b mood[], c int)",
    "CREATE TYPE mixed AS (a pair, b pair[], c mood, d mood[])",
)
TABLES = {
    "one_array": "a int PRIMARY KEY, b int[]",
    "arrays": "a int[] PRIMARY KEY, b text[], c float[], d interval[]",
    "enums": "a mood PRIMARY KEY, b mood[]",
    "pairs": "a pair PRIMARY KEY, b pair[]",
    "in_pairs": "a moods PRIMARY KEY, b moods[]",
    "mixes": "a mixed PRIMARY KEY, b mixed[]",
    "ranges": "a int PRIMARY KEY, b tstzrange, c int8range[]",
    "stores": "a int PRIMARY KEY, b hstore",
}
PAIR = "ROW({0}, '{1}', {2})::pair"
ROWS = (
    "INSERT INTO one_array VALUES (1, '{1,2,3}'), (2, '{5,NULL,3}'), (3, NULL)",
    "INSERT INTO arrays VALUES ('{1,2}', '{a,NULL,b}', '{1.1,2.2}', '{1 day,2 minutes,3 years}'), ('{5,NULL}', '{}', "
    "NULL, '{NULL,5 years}'), ('{7,8}', '{x}', '{NaN}', '{}')",
    "INSERT INTO enums VALUES ('a', '{b,c}'), ('c', '{b,a}'), ('e', '{d,NULL}')",
    "INSERT INTO pairs VALUES (ROW(1, 'a', 1), ARRAY[ROW(1, 'a', 1)::pair]), (ROW(5, 'e', NULL), ARRAY[NULL, "
    "ROW(5, NULL, 5)::pair]), (ROW(6, '\"q,(', 7), NULL)",
    "INSERT INTO in_pairs VALUES (ROW(1, '{a,b}', 1), ARRAY[ROW(1, '{a,NULL}', 1)::moods]), "
    "(ROW(5, '{c}', NULL), '{}')",
    "INSERT INTO mixes VALUES (ROW(ROW(1, 'a', 1), ARRAY[ROW(1, 'a', 1)::pair, NULL], 'a', '{a,NULL}'), "
    "ARRAY[ROW(ROW(2, 'b', 2), ARRAY[ROW(2, 'b', 2)::pair], 'b', '{c}')::mixed])",
    "INSERT INTO ranges VALUES (1, tstzrange('2014-08-04 CEST', 'infinity'), '{\"[1,2]\",\"[10,20]\"}'), "
    "(4, NULL, '{\"[4,5]\",NULL}'), (5, 'empty', NULL)",
    "INSERT INTO stores VALUES (1, '\"a\"=>\"1\"'), (2, '\"yellow horse\"=>NULL'), (4, '')",
)
CHANGES = (
    "UPDATE one_array SET b = '{4,5,6,1}' WHERE a > 1",
    "UPDATE arrays SET b = '{1a}', c = '{1,2,3}', d = '{1 day 1 second}' WHERE a = '{1,2}'",
    "UPDATE enums SET b = '{e,NULL}' WHERE a > 'b'",
    "UPDATE pairs SET b = ARRAY[NULL, ROW(9, 'x', NULL)::pair] WHERE (a).a > 1",
    "UPDATE in_pairs SET b = ARRAY[NULL, ROW(NULL, '{a,e}', 2)::moods] WHERE (a).a = 1",
    "UPDATE mixes SET b[2] = NULL",
    "UPDATE ranges SET c = '{NULL,\"[11,9999999]\"}', b = tstzrange(NULL, '2014-08-04 CEST') WHERE a > 1",
    'UPDATE stores SET b = \'"updated"=>"value"\' WHERE a < 3',
)
DELETES = (
    "DELETE FROM one_array WHERE a = 1",
    "DELETE FROM arrays WHERE a[1] = 5",
    "DELETE FROM enums WHERE b[1] = 'b'",
    "DELETE FROM pairs WHERE (a).b = 'a'",
    "DELETE FROM in_pairs WHERE (a).a = 5",
    "DELETE FROM ranges WHERE a = 1",
    "DELETE FROM stores WHERE a = 4",
)


def require_same(script: Script, *tables: str) -> int:
    """Require that tables have the same rows on both; return how many all have."""
    for table in tables:
        query = f'SELECT * FROM {table} x ORDER BY x::text COLLATE "C"'
        assert script.rows(query) == script.source_rows(query)
    return sum(len(script.rows(f"SELECT 1 FROM {table}")) for table in tables)


def test_002_arrays_enums_composites_and_ranges(script: Script) -> None:
    script.everywhere(*TYPES, *(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()))
    script.on_source("CREATE PUBLICATION p FOR ALL TABLES")
    script.subscribe("p")
    for work, count in ((ROWS, 21), (CHANGES, 21), (DELETES, 14)):
        script.on_source(*work)
        script.catch_up()
        assert require_same(script, *TABLES) == count


def test_002_a_domain_whose_check_asks_a_table(script: Script) -> None:
    script.everywhere(
        "SET check_function_bodies = off; CREATE FUNCTION grows(int) RETURNS bool LANGUAGE sql AS "
        "'SELECT $1 > max(a) FROM public.t'; CREATE DOMAIN growing AS int CHECK (public.grows(VALUE)); "
        "CREATE TABLE t (a growing)"
    )
    script.on_source("INSERT INTO t VALUES (10)", "CREATE PUBLICATION p FOR TABLE t")
    script.subscribe("p")
    script.on_source("INSERT INTO t VALUES (11)")
    script.catch_up()
    assert script.rows("SELECT sum(a) FROM t") == ["21"]


def test_005_another_encoding(script: Script) -> None:
    latin = f"{script.database}_latin"
    target = script.servers.target
    run_in(target, "postgres", f"CREATE DATABASE {latin} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    run_in(target, latin, "CREATE TABLE t (a int, b text)")
    script.on_source("CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, E'Mot\\u00f6rhead')")
    script.on_source("CREATE PUBLICATION p FOR ALL TABLES")
    script.subscribe("p", flags=["--to", place(target, latin)])
    script.on_source("INSERT INTO t VALUES (2, E'Mot\\u00f6rhead')")
    script.catch_up()
    with target.connect(latin) as session:
        query = "SELECT count(*) FROM t WHERE convert_to(b, 'LATIN1') = '\\x4d6f74f672686561640a'::bytea"
        assert session.execute(query.replace("0a'", "'").encode()).fetchall() == [(2,)]


def test_012_keys_of_a_nondeterministic_collation(script: Script) -> None:
    """The keys of both are equal by the target's collation, and different as bytes."""
    script.on_target("CREATE COLLATION loose (provider = icu, locale = 'und', deterministic = false)")
    for table, key in (("keyed", "PRIMARY KEY"), ("whole", "")):
        script.on_source(f"CREATE TABLE {table} (a text {key}, b text)", f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        script.on_source(f"INSERT INTO {table} VALUES (U&'\\00E4bc', 'foo')")
        script.on_target(f"CREATE TABLE {table} (a text COLLATE loose {key}, b text)")
        script.on_target(f"INSERT INTO {table} VALUES (U&'\\0061\\0308bc', 'foo')")
    script.on_source("ALTER TABLE keyed REPLICA IDENTITY DEFAULT", "CREATE PUBLICATION p FOR ALL TABLES")
    script.subscribe("p", flags=["--no-copy-data"])
    script.on_source("UPDATE keyed SET b = 'bar' WHERE b = 'foo'", "UPDATE whole SET b = 'bar' WHERE b = 'foo'")
    script.catch_up()
    assert script.rows("SELECT b FROM keyed") == script.rows("SELECT b FROM whole") == ["bar"]


NUMBERS = "CREATE TABLE numbers (a int PRIMARY KEY, b numeric, c float, d bigint)"
LISTS = "CREATE TABLE lists (a int[] PRIMARY KEY, b numeric[], c text[])"


def test_014_binary_values(script: Script) -> None:
    script.everywhere(NUMBERS, LISTS)
    script.on_source(
        "INSERT INTO numbers VALUES (1, 1.2, 1.3, 10), (2, 2.2, 2.3, 20)",
        "INSERT INTO lists VALUES ('{1,2,3}', '{1.1,1.2,1.3}', '{one,two,three}')",
        "CREATE PUBLICATION p FOR ALL TABLES",
    )
    script.subscribe("p", flags=["--binary"])
    assert require_same(script, "numbers", "lists") == 3
    script.on_source(
        "INSERT INTO numbers VALUES (3, 3.2, 3.3, 30)", "INSERT INTO lists VALUES ('{2,1}', '{1.2}', '{x}')"
    )
    script.on_source("UPDATE lists SET b[1] = 42, c = NULL", "UPDATE numbers SET b = 42, c = NULL WHERE a < 3")
    script.catch_up()
    assert require_same(script, "numbers", "lists") == 5
    script.alter("sub", "binary=false")
    script.on_source("INSERT INTO numbers VALUES (5, 5.2, 5.3, 50)")
    script.catch_up()
    script.alter("sub", "binary=true")
    script.on_source("INSERT INTO lists VALUES ('{2,3,1}', '{1.2}', '{two}')")
    script.catch_up()
    assert require_same(script, "numbers", "lists") == 7


WORDS = (
    "CREATE TYPE word",
    "CREATE FUNCTION word_in(cstring, oid, int) RETURNS word LANGUAGE internal IMMUTABLE STRICT AS 'varcharin'",
    "CREATE FUNCTION word_out(word) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'varcharout'",
    "CREATE TYPE word (input = word_in, output = word_out)",
    "CREATE TABLE words (a word)",
)
SENDING = (
    "CREATE FUNCTION word_send(word) RETURNS bytea LANGUAGE internal STABLE STRICT AS 'varcharsend'",
    "CREATE FUNCTION word_recv(internal, oid, int) RETURNS word LANGUAGE internal STABLE STRICT AS 'varcharrecv'",
    "ALTER TYPE word SET (send = word_send, receive = word_recv)",
)


def test_014_copies_in_binary_form_that_cannot_be(script: Script) -> None:
    """Copies are in binary form from 16 on: a type has to have such a form, and that of the other side."""
    script.everywhere(*WORDS)
    script.on_source("INSERT INTO words VALUES ('a')", "CREATE PUBLICATION p FOR ALL TABLES")
    applied = script.subscribe("p", flags=["--binary"], waits=False)
    wait_until(lambda: applied.has_met("no binary "))
    script.everywhere(*SENDING)
    script.catch_up()
    assert script.rows("SELECT a FROM words") == ["a"]
    script.on_source("CREATE TABLE wide (a bigint PRIMARY KEY); INSERT INTO wide VALUES (1), (2)")
    script.on_target("CREATE TABLE wide (a int PRIMARY KEY)")
    script.subscription("refresh", "sub")
    wait_until(lambda: applied.has_met("incorrect binary data format"))
    script.alter("sub", "binary=false")
    script.catch_up()
    assert script.rows("SELECT a FROM wide ORDER BY a") == ["1", "2"]


def test_values_that_are_names_of_objects(script: Script) -> None:
    """They come whole, as to a subscription: the session there has no search_path, either."""
    script.everywhere("CREATE TABLE t (a int PRIMARY KEY, b regclass, c regtype)", "CREATE TYPE kind AS ENUM ('x')")
    script.on_source("INSERT INTO t VALUES (1, 't', 'kind')", "CREATE PUBLICATION p FOR TABLE t")
    script.subscribe("p")
    script.on_source("INSERT INTO t VALUES (2, 't', 'kind')", "UPDATE t SET c = 'kind[]' WHERE a = 1")
    script.catch_up()
    assert script.rows("SELECT * FROM t ORDER BY 1") == ["1|t|kind[]", "2|t|kind"]
