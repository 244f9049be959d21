"""Random DDL over a few names, of all kinds of objects: statements may fail, transactions may be given up."""

from __future__ import annotations

import random
from collections.abc import Callable

import psycopg

SETUP = (
    "CREATE SCHEMA other",
    'CREATE SCHEMA "Odd Schema"',
    "CREATE FUNCTION double(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2'",
)
"""The function is none of what is repeated: it is made in the copy beforehand."""

SCHEMAS = ["public", "public", "other", '"Odd Schema"']
TABLES = [f"t{i}" for i in range(6)]
COLUMNS = ["a", "b", "c", '"Col D"', "select_"]
TYPES = [
    *("int", "bigint", "smallint", "text", "varchar(20)", "char(3)", "numeric(8,2)", "numeric", "boolean", "date"),
    *("timestamptz(3)", "timestamp", "interval", "time", "float8", "real", "uuid", "jsonb", "int[]", "text[]", "bytea"),
    *("bit(5)", "varbit(9)", "inet", "int4range", '"char"', "name", "oid", "public.mood", "public.pair", "other.pos"),
    *('text COLLATE "C"', "public.mood[]", "interval day to second(2)", "tsvector", "xml", "json", "regclass"),
]
DEFAULTS = {
    "int": [
        "1",
        "-1",
        "2 + 3 * 4",
        "double(5)",
        "CASE WHEN true THEN 1 ELSE 0 END",
        "length('abc')",
        "coalesce(NULL, 4)",
    ],
    "bigint": ["7", "-7000000000", "greatest(1, 2)", "(extract(epoch FROM now()))::bigint"],
    "smallint": ["3"],
    "text": ["'x'", "'it''s'", "upper('a' || 'b')", "CURRENT_USER", "'a\\b'", "trim(both ' ' from ' q ')", "NULL"],
    "varchar(20)": ["'v'", "left('abcdef', 3)", "substring('abc' from 2 for 1)", "format('%s', 1)"],
    "numeric(8,2)": ["1.5", "-2", "1e3", "round(2.567, 1)", "abs(-3)"],
    "numeric": ["'NaN'", "0.000000001", "12345678901234567890"],
    "boolean": ["true", "1 > 2 OR NOT false", "(1 = ANY (ARRAY[1, 2]))", "NULL IS NULL", "true IS NOT FALSE"],
    "date": ["CURRENT_DATE", "'2020-02-29'", "'infinity'", "now()::date + 1"],
    "timestamptz(3)": ["now()", "CURRENT_TIMESTAMP(3)", "'2020-01-01 00:00:00+02'", "now() AT TIME ZONE 'UTC'"],
    "timestamp": ["LOCALTIMESTAMP", "date_trunc('day', now())", "'2001-01-01 01:02:03.5'"],
    "interval": ["'1 day 02:03:04'", "make_interval(days => 3)", "interval '1' month"],
    "float8": ["1.5", "random()", "'-Infinity'", "pi() ^ 2"],
    "uuid": ["gen_random_uuid()", "'00000000-0000-0000-0000-000000000001'"],
    "jsonb": ["'{\"a\": [1, 2]}'", "jsonb_build_object('k', 1)", "'{}'::jsonb || '{\"b\": null}'"],
    "int[]": ["'{1,2,NULL}'", "ARRAY[1, 2] || 3", "ARRAY[]::int[]", "(ARRAY[1,2,3])[2:3]"],
    "text[]": ["ARRAY['a', 'b c']", "string_to_array('a,b', ',')"],
    "public.mood": ["'ok'", "'bad'::public.mood"],
    "public.pair": ["ROW(1, 'x')", "'(2,y)'"],
    "inet": ["'10.0.0.1/8'"],
    "int4range": ["'[1,5)'", "int4range(1, 3, '[]')"],
    "bytea": ["'\\xdead'"],
    "bit(5)": ["B'10101'"],
    "xml": ["'<a/>'"],
    "regclass": ["'pg_class'", "'public.t0'"],
    "other.pos": ["3"],
}
CHECKS = [
    *("a > 0", "a IS NOT NULL OR b IS NULL", "b <> ''", "length(b::text) < 100", "a BETWEEN 1 AND 100"),
    *("a IN (1, 2, 3)", "b LIKE 'x%'", "NOT (a = 5 AND b = 'q')", "double(a) > 0", "b ~* '^[a-z]'", "a % 2 = 0"),
    *("coalesce(a, 0) >= 0", "CASE a WHEN 1 THEN true WHEN 2 THEN false ELSE a > 3 END", "a IS DISTINCT FROM 7"),
    *("nullif(a, 3) IS NULL OR a > 1", "(a, b) IS NOT NULL", "(a + 1) * 2 > - a", "position('x' in b) = 0"),
    *("c IS NOT NULL", '"Col D" IS NULL OR a = 1', "(b COLLATE \"C\") > 'a'", "b::varchar(5) = b", "tableoid > 0"),
]
INDEXED = [
    *(
        "a",
        "b",
        "c",
        "a, b DESC NULLS LAST",
        "lower(b::text)",
        "(a + 1)",
        "b text_pattern_ops",
        '"Col D", a',
        "a NULLS FIRST",
    ),
    *("(double(a)) DESC", 'b COLLATE "C"', "(CASE WHEN a > 1 THEN a END)", "select_"),
]
METHODS = ["btree", "btree", "btree", "hash", "gin", "gist", "brin"]
LITERALS = ["plain", "it''s", "back\\slash", "ünïcode", "two\nlines"]


class RandomDefinitions:
    """A session, and a stream of choices.

    Args:
        connection: the session.
        seed: of the choices.
        major: of the server.
    """

    def __init__(self, connection: psycopg.Connection[tuple[object, ...]], seed: int, major: int) -> None:
        self._connection = connection
        self._r = random.Random(seed)
        self._major = major
        self._serial = 0
        self.done = 0

    def set_up(self) -> None:
        """Make what the statements need."""
        for statement in SETUP:
            self._connection.execute(statement.encode())
        for statement in (
            "CREATE TYPE mood AS ENUM ('bad', 'ok', 'good')",
            "CREATE TYPE pair AS (x int, y text)",
            "CREATE DOMAIN other.pos AS int CHECK (VALUE > 0)",
        ):
            self._connection.execute(statement.encode())

    def transaction(self) -> None:
        """Run one statement, or several, of which some are taken back."""
        if self._r.random() < 0.6:
            self._attempt(self._statement())
            return
        self._connection.execute(b"BEGIN")
        for _ in range(self._r.randint(2, 5)):
            self._connection.execute(b"SAVEPOINT s")
            done = self._attempt(self._statement())
            if not done or self._r.random() < 0.1:
                self._connection.execute(b"ROLLBACK TO s")
        self._connection.execute(b"ROLLBACK" if self._r.random() < 0.15 else b"COMMIT")

    def _attempt(self, statement: str) -> bool:
        try:
            self._connection.execute(statement.encode())
        except psycopg.Error:
            return False
        self.done += 1
        return True

    # -- names

    def _new(self, prefix: str) -> str:
        self._serial += 1
        return f"{prefix}{self._serial}"

    def _table(self) -> str:
        return f"{self._r.choice(SCHEMAS)}.{self._r.choice(TABLES)}"

    def _column(self) -> str:
        return self._r.choice(COLUMNS)

    def _type(self) -> str:
        return self._r.choice(TYPES)

    def _default(self, type: str) -> str:
        defaults = DEFAULTS.get(type)
        return "" if defaults is None or self._r.random() < 0.4 else f" DEFAULT {self._r.choice(defaults)}"

    def _definition(self, column: str) -> str:
        type = self._type()
        draw = self._r.random()
        if draw < 0.06:
            return f"{column} {self._r.choice(('serial', 'bigserial', 'smallserial'))}"
        if draw < 0.12:
            how = self._r.choice(("ALWAYS", "BY DEFAULT"))
            return f"{column} bigint GENERATED {how} AS IDENTITY{self._r.choice(('', ' (START 5 INCREMENT 3)'))}"
        if draw < 0.18 and column != "a":
            return f"{column} int GENERATED ALWAYS AS ({self._r.choice(('a * 2', 'double(a) + 1'))}) STORED"
        null = self._r.choice(("", "", " NOT NULL"))
        return f"{column} {type}{self._default(type)}{null}"

    # -- statements

    def _statement(self) -> str:
        kinds: list[tuple[int, Callable[[], str]]] = [
            (16, self._create_table),
            (6, self._create_partition),
            (34, self._alter_table),
            (7, self._create_index),
            (3, self._alter_index),
            (8, self._constraint),
            (7, self._types),
            (6, self._sequences),
            (3, self._schemas),
            (5, self._publications),
            (3, self._comments),
            (6, self._drops),
            (2, self._temporary),
        ]
        return self._r.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]()

    def _create_table(self) -> str:
        r, name = self._r, self._table()
        columns = [f"a int{self._default('int')}", "b text"]
        columns += [self._definition(column) for column in r.sample(COLUMNS[2:], r.randint(0, 3))]
        if r.random() < 0.3:
            columns.append(f"CONSTRAINT {self._new('ck')} CHECK ({r.choice(CHECKS)})")
        if r.random() < 0.3:
            columns.append(
                r.choice(("PRIMARY KEY (a)", "UNIQUE (a, b)", "UNIQUE (b) INCLUDE (a)", "PRIMARY KEY (a, b)"))
            )
        if r.random() < 0.15:
            columns.append(f"FOREIGN KEY (a) REFERENCES {self._table()}")
        body = f"({', '.join(columns)})"
        tail = r.choice(("", "", "", " WITH (fillfactor = 80, autovacuum_enabled = off)"))
        draw = r.random()
        if draw < 0.15:
            return f"CREATE TABLE {name} (extra{self._serial % 3} int) INHERITS ({self._table()}){tail}"
        if draw < 0.35:
            key = r.choice(
                ("LIST (a)", "RANGE (a)", "HASH (a)", "RANGE (a, b)", "RANGE ((a + 1))", 'LIST (b COLLATE "C")')
            )
            return f"CREATE TABLE {name} {body} PARTITION BY {key}"
        if draw < 0.42:
            return f"CREATE TABLE {name} (LIKE {self._table()} INCLUDING ALL)"
        if draw < 0.46:
            return f"CREATE TABLE {name} AS SELECT 1 AS a, 'x'::text AS b, now() AS c"
        if draw < 0.5:
            return f"CREATE TABLE {name} OF public.pair (x WITH OPTIONS DEFAULT 4 NOT NULL)"
        return f"CREATE {r.choice(('', '', 'UNLOGGED '))}TABLE {name} {body}{tail}"

    def _bound(self) -> str:
        r = self._r
        low = r.randint(0, 20)
        return r.choice(
            (
                "DEFAULT",
                f"FOR VALUES IN ({low}, {low + 1})",
                f"FOR VALUES IN ('k{low}', NULL)",
                f"FOR VALUES FROM ({low * 10}) TO ({low * 10 + 10})",
                f"FOR VALUES FROM (MINVALUE) TO ({-low})",
                f"FOR VALUES FROM ({low}, 'a') TO ({low}, MAXVALUE)",
                f"FOR VALUES WITH (MODULUS 4, REMAINDER {low % 4})",
            )
        )

    def _create_partition(self) -> str:
        r = self._r
        sub = r.choice(("", "", "", " PARTITION BY LIST (b)", " PARTITION BY RANGE (a)"))
        if r.random() < 0.4:
            return f"ALTER TABLE {self._table()} ATTACH PARTITION {self._table()} {self._bound()}"
        return f"CREATE TABLE {self._table()} PARTITION OF {self._table()} {self._bound()}{sub}"

    def _alter_table(self) -> str:
        r, table, column = self._r, self._table(), self._column()
        type = self._type()
        only = r.choice(("", "", "", "ONLY "))
        return r.choice(
            (
                f"ALTER TABLE {table} ADD COLUMN {self._definition(column)}",
                f"ALTER TABLE {table} ADD COLUMN {self._definition(column)}",
                f"ALTER TABLE {table} ADD COLUMN {self._definition(column)}, DROP COLUMN {self._column()}",
                f"ALTER TABLE {table} DROP COLUMN {column}",
                f"ALTER TABLE {table} DROP COLUMN {column} CASCADE",
                f"ALTER TABLE {table} ALTER {column} TYPE {type} USING NULL",
                f"ALTER TABLE {table} ALTER {column} TYPE {r.choice(('bigint', 'text', 'numeric', 'varchar(30)'))}",
                f"ALTER TABLE {table} ALTER {column} SET DEFAULT {r.choice(r.choice(list(DEFAULTS.values())))}",
                f"ALTER TABLE {only}{table} ALTER {column} SET DEFAULT {r.choice(DEFAULTS['int'])}",
                f"ALTER TABLE {table} ALTER {column} DROP DEFAULT",
                f"ALTER TABLE {table} ALTER {column} SET NOT NULL",
                f"ALTER TABLE {table} ALTER {column} DROP NOT NULL",
                f"ALTER TABLE {table} ALTER {column} ADD GENERATED ALWAYS AS IDENTITY",
                f"ALTER TABLE {table} ALTER {column} DROP IDENTITY IF EXISTS",
                f"ALTER TABLE {table} ALTER {column} SET GENERATED BY DEFAULT SET INCREMENT BY 7",
                f"ALTER TABLE {table} ALTER {column} DROP EXPRESSION IF EXISTS",
                f"ALTER TABLE {table} ALTER {column} SET STORAGE {r.choice(('EXTERNAL', 'PLAIN', 'MAIN', 'EXTENDED'))}",
                f"ALTER TABLE {table} ALTER {column} SET COMPRESSION pglz",
                f"ALTER TABLE {only}{table} ALTER {column} SET STATISTICS {r.choice((100, 0, -1))}",
                f"ALTER TABLE {table} ALTER {column} SET (n_distinct = {r.choice((5, -0.5))})",
                f"ALTER TABLE {table} RENAME {column} TO {self._column()}",
                f"ALTER TABLE {table} RENAME TO {r.choice(TABLES)}",
                f"ALTER TABLE {table} SET SCHEMA {r.choice(SCHEMAS)}",
                f"ALTER TABLE {table} SET (fillfactor = {r.randint(50, 100)}, toast.autovacuum_enabled = off)",
                f"ALTER TABLE {table} RESET (fillfactor)",
                f"ALTER TABLE {table} SET {r.choice(('LOGGED', 'UNLOGGED'))}",
                f"ALTER TABLE {table} REPLICA IDENTITY {r.choice(('FULL', 'NOTHING', 'DEFAULT'))}",
                f"ALTER TABLE {table} {r.choice(('ENABLE', 'DISABLE', 'FORCE', 'NO FORCE'))} ROW LEVEL SECURITY",
                f"ALTER TABLE {table} INHERIT {self._table()}",
                f"ALTER TABLE {table} NO INHERIT {self._table()}",
                f"ALTER TABLE {table} DETACH PARTITION {self._table()}",
                f"TRUNCATE {table}",
                f"INSERT INTO {table} (a, b) VALUES ({r.randint(1, 50)}, 'x')",
            )
        )

    def _create_index(self) -> str:
        r = self._r
        unique = r.choice(("", "", "UNIQUE "))
        where = r.choice(("", "", " WHERE a > 5", " WHERE b IS NOT NULL AND double(a) < 9"))
        method = "btree" if unique else r.choice(METHODS)
        what = r.choice(INDEXED)
        name = r.choice(("", self._new("i"), self._new('"I ') + '"'))
        only = r.choice(("", "", "", "ONLY "))
        include = r.choice(("", "", " INCLUDE (b)")) if method == "btree" else ""
        options = r.choice(("", "", " WITH (fillfactor = 60)")) if method == "btree" else ""
        distinct = " NULLS NOT DISTINCT" if unique and self._major > 14 and r.random() < 0.3 else ""
        tail = f"{include}{distinct}{options}{where}"
        return f"CREATE {unique}INDEX {name} ON {only}{self._table()} USING {method} ({what}){tail}"

    def _some_index(self) -> str:
        return f"{self._r.choice(SCHEMAS)}.i{self._r.randint(1, self._serial + 1)}"

    def _alter_index(self) -> str:
        r, index = self._r, self._some_index()
        return r.choice(
            (
                f"ALTER INDEX {index} RENAME TO {self._new('i')}",
                f"ALTER INDEX {index} SET (fillfactor = {r.randint(50, 90)})",
                f"DROP INDEX {index}",
                f"ALTER TABLE {self._table()} CLUSTER ON {index.partition('.')[2]}",
                f"ALTER TABLE {self._table()} REPLICA IDENTITY USING INDEX {index.partition('.')[2]}",
                f"ALTER INDEX {index} ATTACH PARTITION {self._some_index()}",
            )
        )

    def _constraint(self) -> str:
        r, table = self._r, self._table()
        name, old = self._new("k"), f"k{r.randint(1, self._serial + 1)}"
        action = r.choice(
            ("", " ON DELETE CASCADE", " ON UPDATE SET NULL ON DELETE RESTRICT", " DEFERRABLE INITIALLY DEFERRED")
        )
        return r.choice(
            (
                f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({r.choice(CHECKS)})",
                f"ALTER TABLE {table} ADD CHECK ({r.choice(CHECKS)})",
                f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({r.choice(CHECKS)}) NOT VALID",
                f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({r.choice(CHECKS)}) NO INHERIT",
                f"ALTER TABLE {table} ADD PRIMARY KEY (a)",
                f"ALTER TABLE {table} ADD CONSTRAINT {name} UNIQUE (a){r.choice(('', ' DEFERRABLE'))}",
                f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY (a) REFERENCES {self._table()}{action}",
                f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY (a) REFERENCES {self._table()} NOT VALID",
                f"ALTER TABLE {table} ADD CONSTRAINT {name} EXCLUDE (a WITH =, b WITH =) WHERE (a > 0)",
                f"ALTER TABLE {table} ADD CONSTRAINT {name} EXCLUDE USING btree (a WITH =) INCLUDE (b)",
                f"ALTER TABLE {table} DROP CONSTRAINT {old} CASCADE",
                f"ALTER TABLE {table} RENAME CONSTRAINT {old} TO {name}",
                f"ALTER TABLE {table} VALIDATE CONSTRAINT {old}",
                f"ALTER TABLE {table} ALTER CONSTRAINT {old} DEFERRABLE",
            )
        )

    def _types(self) -> str:
        r = self._r
        name = f"{r.choice(SCHEMAS)}.y{r.randint(1, 5)}"
        label, base = r.choice(("bad", "ok", "good")), r.choice(("int", "text", "numeric(6,1)", "varchar(9)"))
        return r.choice(
            (
                f"CREATE TYPE {name} AS ENUM ('p', 'q''r')",
                f"CREATE TYPE {name} AS (f1 int, f2 {self._type()})",
                f"CREATE TYPE {name} AS RANGE (subtype = {r.choice(('float8', 'text', 'int', 'public.mood'))})",
                f"CREATE DOMAIN {name} AS {base} {r.choice(('', 'NOT NULL'))}",
                f"CREATE DOMAIN {name} AS int DEFAULT 3 CONSTRAINT {self._new('d')} CHECK (VALUE BETWEEN 1 AND 9)",
                f"ALTER TYPE public.mood ADD VALUE '{self._new('m')}' {r.choice(('', 'BEFORE', 'AFTER'))} "
                f"'{label}'".replace(f"  '{label}'", ""),
                f"ALTER TYPE public.mood RENAME VALUE 'm{r.randint(1, self._serial)}' TO '{self._new('m')}'",
                f"ALTER TYPE {name} ADD VALUE '{self._new('v')}'",
                f"ALTER TYPE {name} ADD ATTRIBUTE {self._new('f')} {self._type()}",
                f"ALTER TYPE {name} DROP ATTRIBUTE f2",
                f"ALTER TYPE {name} ALTER ATTRIBUTE f1 TYPE bigint",
                f"ALTER TYPE {name} RENAME ATTRIBUTE f1 TO {self._new('f')}",
                f"ALTER DOMAIN {name} SET DEFAULT 5",
                f"ALTER DOMAIN {name} DROP DEFAULT",
                f"ALTER DOMAIN {name} {r.choice(('SET', 'DROP'))} NOT NULL",
                f"ALTER DOMAIN {name} ADD CONSTRAINT {self._new('d')} CHECK (VALUE IS NOT NULL) NOT VALID",
                f"ALTER DOMAIN {name} DROP CONSTRAINT d{r.randint(1, self._serial + 1)}",
                f"ALTER TYPE {name} RENAME TO y{r.randint(1, 5)}",
                f"ALTER TYPE {name} SET SCHEMA {r.choice(SCHEMAS)}",
                f"ALTER TABLE {self._table()} ADD COLUMN {self._column()} {name}",
                f"DROP TYPE {name}",
                f"DROP TYPE {name} CASCADE",
            )
        )

    def _sequences(self) -> str:
        r = self._r
        name = f"{r.choice(SCHEMAS)}.s{r.randint(1, 4)}"
        return r.choice(
            (
                f"CREATE SEQUENCE {name} {r.choice(('', 'AS smallint', 'INCREMENT -3', 'START 7 CACHE 9 CYCLE'))}",
                f"CREATE SEQUENCE {name} MAXVALUE 1000",
                f"ALTER SEQUENCE {name} INCREMENT {r.randint(2, 9)} {r.choice(('', 'CYCLE', 'NO CYCLE'))}",
                f"ALTER SEQUENCE {name} OWNED BY {self._table()}.{self._column()}",
                f"ALTER SEQUENCE {name} OWNED BY NONE",
                f"ALTER SEQUENCE {name} RENAME TO s{r.randint(1, 4)}",
                f"ALTER SEQUENCE {name} SET SCHEMA {r.choice(SCHEMAS)}",
                f"ALTER TABLE {self._table()} ALTER {self._column()} SET DEFAULT nextval('{name}')",
                f"DROP SEQUENCE {name}",
                f"DROP SEQUENCE {name} CASCADE",
            )
        )

    def _schemas(self) -> str:
        r = self._r
        name = f"n{r.randint(1, 3)}"
        return r.choice(
            (
                f"CREATE SCHEMA {name}",
                f"CREATE TABLE {name}.inside (a int PRIMARY KEY, b text)",
                f"CREATE TYPE {name}.kind AS ENUM ('x')",
                f"ALTER SCHEMA {name} RENAME TO n{r.randint(1, 3)}",
                f"DROP SCHEMA {name} CASCADE",
                f"DROP SCHEMA {name}",
            )
        )

    def _publications(self) -> str:
        r = self._r
        name, table = f"p{r.randint(1, 3)}", self._table()
        member = table + (r.choice(("", "", " (a)", " WHERE (a > 3)")) if self._major > 14 else "")
        schemas = (f"ALTER PUBLICATION {name} ADD TABLES IN SCHEMA other",) * (self._major > 14)
        return r.choice(
            (
                f"CREATE PUBLICATION {name}",
                f"CREATE PUBLICATION {name} FOR ALL TABLES WITH (publish = 'insert, delete')",
                f"CREATE PUBLICATION {name} FOR TABLE {member} WITH (publish_via_partition_root = true)",
                f"ALTER PUBLICATION {name} ADD TABLE {member}",
                f"ALTER PUBLICATION {name} DROP TABLE {table}",
                f"ALTER PUBLICATION {name} SET TABLE {member}",
                f"ALTER PUBLICATION {name} SET (publish = '{r.choice(('insert', 'update, truncate', ''))}')",
                f"ALTER PUBLICATION {name} RENAME TO p{r.randint(1, 3)}",
                f"DROP PUBLICATION {name}",
                *schemas,
            )
        )

    def _comments(self) -> str:
        r, table = self._r, self._table()
        text = r.choice(
            (*(f"E'{word}'" for word in ("plain", "it\\'s", "ünïcode", "two\\nlines", "back\\\\slash")), "NULL")
        )
        return r.choice(
            (
                f"COMMENT ON TABLE {table} IS {text}",
                f"COMMENT ON COLUMN {table}.{self._column()} IS {text}",
                f"COMMENT ON SCHEMA {r.choice(SCHEMAS)} IS {text}",
                f"COMMENT ON TYPE public.mood IS {text}",
                f"COMMENT ON DOMAIN other.pos IS {text}",
                f"COMMENT ON INDEX {self._some_index()} IS {text}",
                f"COMMENT ON PUBLICATION p1 IS {text}",
                f"COMMENT ON CONSTRAINT k{r.randint(1, self._serial + 1)} ON {table} IS {text}",
                f"COMMENT ON SEQUENCE {r.choice(SCHEMAS)}.s{r.randint(1, 4)} IS {text}",
            )
        )

    def _drops(self) -> str:
        tables = self._r.sample(TABLES, self._r.choice((1, 1, 1, 2)))
        names = ", ".join(f"{self._r.choice(SCHEMAS)}.{table}" for table in tables)
        return f"DROP TABLE {names}{self._r.choice(('', ' CASCADE'))}"

    def _temporary(self) -> str:
        return self._r.choice(
            (
                f"CREATE TEMP TABLE {self._new('tmp')} (a serial PRIMARY KEY, b public.mood)",
                f"CREATE TEMP TABLE {self._new('tmp')} ON COMMIT DROP AS SELECT 1 AS a",
                "CREATE TEMP SEQUENCE IF NOT EXISTS tempseq",
                "ANALYZE",
                "VACUUM FULL pg_class",
                "VACUUM FULL pg_constraint",
            )
        )
