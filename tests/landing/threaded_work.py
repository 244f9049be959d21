"""Random work by sessions in threads of their own, on the tables of :mod:`landing.mirror_workload` and on more.

Records of several transactions interleave inside statements, autovacuum runs, transactions are prepared, tables are
rebuilt. Between two rounds nobody does anything: what is committed then, the server's tables say. Transactions may be
open over such a moment. What landing refuses, as its documentation says, is not done: so each window can be landed, but
for one table that has a value now and then which the lake does not hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

import psycopg

from landing.mirror_workload import BIG, SETUP, TABLES, Work

MORE_SETUP = """
CREATE TYPE mood AS ENUM ('calm', 'glad');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE spot AS (x int, y text);
CREATE TABLE typed (id bigint PRIMARY KEY, flag bool, small smallint, r real, f float8, d date, ts timestamp,
    tz timestamptz, iv interval, j jsonb, raw bytea, how mood, dom positive, span int4range,
    at spot, arr int[], net inet, bits varbit, ch char(5), u uuid, n numeric(20,5), wide numeric);
ALTER TABLE typed ALTER raw SET STORAGE EXTERNAL;
CREATE TABLE parent (id int PRIMARY KEY, label text);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE, label text);
CREATE TABLE log (at int, kind int, note text) PARTITION BY LIST (kind);
CREATE TABLE log_0 PARTITION OF log FOR VALUES IN (0);
CREATE TABLE log_1 (note text, gone int, kind int, at int);
ALTER TABLE log_1 DROP COLUMN gone;
ALTER TABLE log ATTACH PARTITION log_1 FOR VALUES IN (1);
ALTER TABLE log_0 REPLICA IDENTITY FULL;
ALTER TABLE log_1 REPLICA IDENTITY FULL;
CREATE TABLE deep (id int, a int, b int, note text, PRIMARY KEY (id, a, b)) PARTITION BY LIST (a);
CREATE TABLE deep_0 PARTITION OF deep FOR VALUES IN (0);
CREATE TABLE deep_1 PARTITION OF deep FOR VALUES IN (1) PARTITION BY LIST (b);
CREATE TABLE deep_1_0 PARTITION OF deep_1 FOR VALUES IN (0);
CREATE TABLE deep_1_1 (b int NOT NULL, note text, gone text, id int NOT NULL, a int NOT NULL);
ALTER TABLE deep_1_1 DROP COLUMN gone;
ALTER TABLE deep_1 ATTACH PARTITION deep_1_1 FOR VALUES IN (1);
CREATE TABLE shelf (id int, part int, note text, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
CREATE TABLE shelf_0 PARTITION OF shelf FOR VALUES IN (0);
ALTER TABLE shelf ALTER note SET STORAGE EXTERNAL;
CREATE TABLE figures (id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED, note text);
ALTER TABLE event ALTER note SET STORAGE EXTERNAL;
ALTER TABLE log ALTER note SET STORAGE EXTERNAL;
ALTER TABLE deep ALTER note SET STORAGE EXTERNAL;
ALTER TABLE figures ALTER note SET STORAGE EXTERNAL;
ALTER TABLE full_key ALTER note SET STORAGE EXTERNAL;
ALTER TABLE child ALTER label SET STORAGE EXTERNAL;
CREATE TABLE "Odd" ("Id" int PRIMARY KEY, "select" text, "größe" int);
CREATE TABLE made_0 (id int PRIMARY KEY, note text);
CREATE TABLE nightly (id int PRIMARY KEY, note text);
CREATE TABLE blue (id int PRIMARY KEY, note text);
CREATE TABLE green (id int PRIMARY KEY, note text);
ALTER TABLE blue ALTER note SET STORAGE EXTERNAL;
CREATE TABLE halting (id int PRIMARY KEY, amount numeric(6,2), note text);
ALTER TABLE halting ALTER note SET STORAGE EXTERNAL;
CREATE UNLOGGED TABLE unlogged (id int);
CREATE MATERIALIZED VIEW seen AS SELECT id, note FROM keyed
"""
REPLACED = ("nightly", "blue", "green")
"""Tables that others take the place of."""
HALTING = "halting"
"""A table that has values which the lake does not hold, now and then."""
MORE_TABLES = ("typed", "parent", "child", "log", "deep", "figures", "shelf", '"Odd"', HALTING, *REPLACED)
KEYS = {
    "pair": ("a", "b"),
    "event": ("id", "region"),
    "deep": ("id", "a", "b"),
    '"Odd"': ("Id",),
    "bag": (),
    "diary": (),
    "log": (),
}
"""Of tables that have another key than ``id``, or none."""

_LITERALS = {
    "flag": ("true", "false"),
    "small": ("-32768", "32767", "0"),
    "r": ("1.1", "'NaN'", "'-Infinity'"),
    "f": ("1e300", "-0.0", "0.1", "'NaN'"),
    "d": ("'2024-02-29'", "'0001-01-01'", "'9999-12-31'"),
    "ts": ("'2024-02-03 04:05:06.789'", "'1901-01-01'"),
    "tz": ("'2024-02-03 04:05:06.789+01'", "'1969-12-31 23:59:59.999999+00'", "now()"),
    "iv": ("'1 mon -2 days 03:04:05.678'", "'-1 year'", "'0'"),
    "j": ("""'{"a": [1, 2.50, null]}'""", "'null'", "to_jsonb(array_fill(random(), ARRAY[300]))"),
    "raw": ("''", "decode(repeat(md5(random()::text), 100), 'hex')", "'\\x00ff'"),
    "how": ("'calm'", "'glad'"),
    "dom": ("1", "2147483647"),
    "span": ("'[1,5)'", "'empty'", "'(,3]'"),
    "at": ("ROW(1, 'x')", "ROW(NULL, NULL)", "ROW(2, repeat('y', 3000))"),
    "arr": ("'{}'", "'{1,NULL,-3}'", "(SELECT array_agg(i) FROM generate_series(1, 1000) i)"),
    "net": ("'10.0.0.0/8'", "'::1'"),
    "bits": ("B'101'", "B''"),
    "ch": ("'ab'", "''"),
    "u": ("md5('x')::uuid", "md5(random()::text)::uuid"),
    "n": ("1.5", "-99999.99999", "0"),
    "wide": ("1.500", "'NaN'", "1e40", "-0.0001"),
}
_ADDED = (
    "int DEFAULT 7",
    "text DEFAULT 'given'",
    "numeric(6,2)",
    "float8 DEFAULT random()",
    "timestamptz DEFAULT '2024-01-01 00:00+00'",
    "text",
    "bool DEFAULT true NOT NULL",
    "int[] DEFAULT '{1,2}'",
)
_MOVED = """
ALTER TABLE diary RENAME TO made_diary;
INSERT INTO made_diary SELECT i, 'renamed' FROM generate_series(1, 3) i;
ALTER TABLE made_diary RENAME TO diary
"""
_SWAPPED = """
ALTER TABLE blue RENAME TO turning;
ALTER TABLE green RENAME TO blue;
ALTER TABLE turning RENAME TO green
"""
_DETACH_LAST = """
DO $$ DECLARE name text; BEGIN
    SELECT max(relname) INTO name FROM pg_class
    WHERE relname LIKE 'event%' AND relispartition AND relkind = 'r' AND regexp_replace(relname, '.*_', '')::int > 2;
    IF name IS NOT NULL THEN
        EXECUTE 'ALTER TABLE event DETACH PARTITION ' || name;
        EXECUTE 'DROP TABLE ' || name;
    END IF;
END $$
"""
REBUILT = ("keyed", "pair", "bag", "typed", "child", "figures", "deep_1_1", "event_1", "log_0")
SETTINGS = {
    "shared_buffers": "1MB",
    "bgwriter_delay": "10ms",
    "checkpoint_timeout": "30s",
    "autovacuum_naptime": "1s",
    "autovacuum_vacuum_threshold": "5",
    "autovacuum_vacuum_scale_factor": "0",
}
"""Pages go to disk at once, so that a copy has some of every moment; autovacuum is always at work."""
WRITERS = 4


class Writer(Work):
    """A session.

    Args:
        connect: opens it.
        seed: says what is done.
        number: among the sessions; generation: of work on the same server. Their new tables have other names.
        drops_partitions: see :class:`~landing.mirror_workload.Work`.
    """

    def __init__(
        self, connect: Callable[[], Any], seed: str, number: int, generation: int, *, drops_partitions: bool
    ) -> None:
        super().__init__(connect, 0, ddl=True)
        self.random = random.Random(f"{seed} {number}")
        self.number, self.parts, self.stride = number, 100_000 * generation + 10 + number, 10
        self.drops_partitions = drops_partitions
        self.tables = (*TABLES, *MORE_TABLES)
        self.truncated = (*self.truncated, *MORE_TABLES, "deep_1", "log_0", "parent CASCADE", "typed, child, figures")
        self.prepared: list[str] = []
        self.made: list[str] = []
        self.shelves: list[int] = []
        self.staged = 0
        self.failures: list[BaseException] = []
        self.is_open = False
        self.session = connect()
        self.session.prepare_threshold = None
        self.session.execute("SET lock_timeout = '30ms'")

    def go(self, steps: int) -> None:
        """Do so many steps, each of some statements; in a thread."""
        try:
            for _ in range(steps):
                if not self.is_open and self.random.random() < 0.12:
                    self._beside()
                else:
                    self.is_open = self._step(self.session, self.is_open)
        except BaseException as error:
            self.failures.append(error)

    def settle(self) -> None:
        """End whatever is open or prepared."""
        if self.is_open:
            self._end(self.session, self.random.random() / 2)
            self.is_open = False
        while self.prepared:
            self._end_prepared()

    def _end(self, session: Any, chance: float) -> None:
        if chance < 0.05:
            name = f"{self.number} {self.done}"
            with suppress(psycopg.Error):  # it has touched temporary tables: it is rolled back
                session.execute(f"PREPARE TRANSACTION '{name}'")
                self.prepared.append(name)
        else:
            super()._end(session, chance)

    def _end_prepared(self) -> None:
        how = "COMMIT" if self.random.random() < 0.7 else "ROLLBACK"
        self.session.execute(f"{how} PREPARED '{self.prepared.pop()}'")

    def _beside(self) -> None:
        """Do what cannot be in a transaction, or ends one."""
        if self.prepared and self.random.random() < 0.6:
            self._end_prepared()
            return
        table = self.random.choice(REBUILT)
        statement = self._pick(
            f"VACUUM FULL {table}",
            f"VACUUM (FREEZE) {table}",
            f"VACUUM {table}",
            f"REINDEX TABLE {table}",
            "CLUSTER typed USING typed_pkey",
            "CHECKPOINT",
            "REFRESH MATERIALIZED VIEW seen",
            "ALTER TYPE mood ADD VALUE IF NOT EXISTS 'more'",
            "VACUUM FULL pg_attribute",
            "SELECT pg_switch_wal()",
            "SELECT pg_logical_emit_message(false, 'p', 'beside')",
        )
        with suppress(psycopg.Error):
            self.session.execute(statement)

    def _change(self, session: Any) -> None:
        super()._change(session)
        if self.random.random() < 0.02:
            session.execute(f"INSERT INTO unlogged VALUES ({self._id()})")

    def _typed(self) -> str:
        id, columns = self._id(), self.random.sample(sorted(_LITERALS), self.random.randint(1, len(_LITERALS)))
        values = [self._literal(name) for name in columns]
        names, given = ", ".join(columns), ", ".join(values)
        sets = ", ".join(f"{name} = {value}" for name, value in zip(columns, values, strict=True))
        return self._pick(
            f"INSERT INTO typed (id, {names}) VALUES ({id}, {given}) ON CONFLICT DO NOTHING",
            f"INSERT INTO typed (id, {names}) VALUES ({id}, {given}) ON CONFLICT (id) DO UPDATE SET flag = true",
            f"UPDATE typed SET {sets} WHERE id = {id}",
            f"UPDATE typed SET flag = NOT flag WHERE id BETWEEN {id} AND {id + 5}",
            f"UPDATE typed SET id = {self._id()} WHERE id = {id}",
            f"UPDATE typed SET id = id + 10000000000 WHERE id = {id}",
            f"UPDATE typed SET (raw, j) = (raw, j), small = {id} WHERE id = {id}",
            f"DELETE FROM typed WHERE id = {id}",
        )

    def _literal(self, column: str) -> str:
        return "NULL" if self.random.random() < 0.2 else self._pick(*_LITERALS[column])

    def _parent(self) -> str:
        id = self._id()
        return self._pick(
            f"INSERT INTO parent VALUES ({id}, 'p{id}') ON CONFLICT DO NOTHING",
            f"UPDATE parent SET id = {self._id()} WHERE id = {id}",
            f"DELETE FROM parent WHERE id = {id}",
        )

    def _child(self) -> str:
        id = self._id()
        return self._pick(
            f"INSERT INTO child SELECT {id}, min(id), {BIG} FROM parent ON CONFLICT DO NOTHING",
            "INSERT INTO child SELECT id + 100, id, 'c' FROM parent ON CONFLICT DO NOTHING",
            f"UPDATE child SET label = {BIG} WHERE id = {id}",
            f"UPDATE child SET id = id + 200 WHERE id = {id}",
            f"DELETE FROM child WHERE id = {id} OR id > 200",
        )

    def _log(self) -> str:
        at, kind = self._id() % 4, self.random.randrange(2)
        return self._pick(
            f"INSERT INTO log VALUES ({at}, {kind}, 'x'), ({at}, {kind}, 'x'), ({at}, {kind}, NULL)",
            f"INSERT INTO log SELECT {at}, {kind}, {BIG}",
            f"UPDATE log SET kind = 1 - kind WHERE ctid IN (SELECT ctid FROM log_{kind} LIMIT 1) AND kind = {kind}",
            f"UPDATE log SET at = at + 1 WHERE at = {at} AND kind = {kind}",
            f"DELETE FROM log_{kind} WHERE ctid IN (SELECT ctid FROM log_{kind} WHERE at = {at} LIMIT 2)",
        )

    def _deep(self) -> str:
        id, a, b = self._id(), self.random.randrange(2), self.random.randrange(2)
        return self._pick(
            f"INSERT INTO deep VALUES ({id}, {a}, {b}, {BIG}) ON CONFLICT DO NOTHING",
            f"INSERT INTO deep VALUES ({id}, {a}, {b}, 'short') ON CONFLICT DO NOTHING",
            f"UPDATE deep SET b = {b} WHERE id = {id}",
            f"UPDATE deep SET a = {a}, note = 'moved' WHERE id = {id}",
            f"UPDATE deep SET id = {self._id()} WHERE id = {id}",
            f"DELETE FROM deep WHERE id = {id}",
        )

    def _shelf(self) -> str:
        """Change a table whose partitions come with rows, or go with them, each once.

        A window in which one does both cannot be landed.
        """
        id, known = self._id(), self.random.choice([0, *self.shelves])
        if self.random.random() < 0.15:
            return self._moved_shelf(id)
        return self._pick(
            f"INSERT INTO shelf VALUES ({id}, {known}, {BIG}) ON CONFLICT DO NOTHING",
            f"INSERT INTO shelf VALUES ({id}, 0, 'short') ON CONFLICT DO NOTHING",
            f"INSERT INTO shelf_{known} VALUES ({id}, {known}, {BIG}) ON CONFLICT DO NOTHING",
            f"UPDATE shelf_{known} SET note = 'changed' WHERE id = {id}",
            f"UPDATE shelf_{known} SET id = id + 100 WHERE id = {id}",
            f"UPDATE shelf SET part = {known} WHERE id = {id}",
            f"DELETE FROM shelf_{known} WHERE id = {id}",
        )

    def _moved_shelf(self, first: int) -> str:
        self.parts += self.stride
        number, known = self.parts, self.random.choice([0, *self.shelves])
        self.shelves.append(number)
        made = f"CREATE TABLE shelf_{number} (LIKE shelf INCLUDING ALL)"
        filled = f"INSERT INTO shelf_{number} SELECT i, {number}, {BIG} FROM generate_series({first}, {first + 9}) i"
        attached = "ALTER TABLE shelf ATTACH PARTITION shelf_{0} FOR VALUES IN ({0})"
        # An odd number of tens: it begins apart, and can only be attached; an even one can only be detached.
        is_apart = number // self.stride % 2
        if known and self.random.random() < 0.5:
            is_apart = known // self.stride % 2
            return attached.format(known) if is_apart else f"ALTER TABLE shelf DETACH PARTITION shelf_{known}"
        if is_apart:
            return self._pick(made, f"{made}; {filled}", f"{made}; {filled}; {attached.format(number)}")
        return f"CREATE TABLE shelf_{number} PARTITION OF shelf FOR VALUES IN ({number}); {filled}"

    def _figures(self) -> str:
        id = self._id()
        return self._pick(
            f"INSERT INTO figures (id, a, note) VALUES ({id}, {id}, {BIG}) ON CONFLICT DO NOTHING",
            f"UPDATE figures SET a = a + 1 WHERE id = {id}",
            f"UPDATE figures SET id = -id WHERE id = {id}",
            f"DELETE FROM figures WHERE id = {id}",
        )

    def _odd(self) -> str:
        id = self._id()
        return self._pick(
            f"""INSERT INTO "Odd" ("Id", "select", "größe") VALUES ({id}, 'ü', {id}) ON CONFLICT DO NOTHING""",
            f"""UPDATE "Odd" SET "select" = {BIG} WHERE "Id" = {id}""",
            f"""DELETE FROM "Odd" WHERE "Id" = {id}""",
        )

    def _halting(self) -> str:
        id, amount = self._id(), "'NaN'" if self.random.random() < 0.05 else "1.5"
        return self._pick(
            f"INSERT INTO halting VALUES ({id}, {amount}, {BIG}) ON CONFLICT DO NOTHING",
            f"INSERT INTO halting SELECT i, i, 'x' FROM generate_series({id}, {id + 5}) i ON CONFLICT DO NOTHING",
            f"UPDATE halting SET amount = {amount} WHERE id = {id}",
            f"UPDATE halting SET id = id + 100 WHERE id = {id}",
            f"DELETE FROM halting WHERE id BETWEEN {id} AND {id + 3}",
        )

    def _nightly(self) -> str:
        return self._renewed() if self.random.random() < 0.1 else self._replaced("nightly")

    def _blue(self) -> str:
        return _SWAPPED if self.random.random() < 0.05 else self._replaced("blue")

    def _green(self) -> str:
        return self._replaced("green")

    def _replaced(self, table: str) -> str:
        id = self._id()
        return self._pick(
            f"INSERT INTO {table} VALUES ({id}, {BIG}) ON CONFLICT DO NOTHING",
            f"INSERT INTO {table} SELECT i, '{table}' FROM generate_series({id}, {id + 5}) i ON CONFLICT DO NOTHING",
            f"UPDATE {table} SET note = 'changed' WHERE id = {id}",
            f"UPDATE {table} SET id = id + 100 WHERE id = {id}",
            f"DELETE FROM {table} WHERE id BETWEEN {id} AND {id + 3}",
        )

    def _renewed(self) -> str:
        """Put another table in the place of one: made again, at once or by two transactions, or staged."""
        self.parts += self.stride
        number, id = self.parts, self._id()
        made = "CREATE TABLE {} (id int PRIMARY KEY, note text)"
        filled = f"INSERT INTO {{}} SELECT i, {BIG} FROM generate_series({id}, {id + 9}) i"
        staged, last = f"staged_{number}", f"staged_{self.staged}"
        renamed = "DROP TABLE nightly; ALTER TABLE {} RENAME TO nightly"
        self.staged = number
        return self._pick(
            f"DROP TABLE nightly; {made.format('nightly')}; {filled.format('nightly')}",
            f"DROP TABLE nightly; {made.format('nightly')}",
            f"{made.format(staged)}; {filled.format(staged)}",
            f"{made.format(staged)}; {filled.format(staged)}; {renamed.format(staged)}",
            f"UPDATE {last} SET note = 'late' WHERE id = {id}; {renamed.format(last)}",
            renamed.format(last),
            f"ALTER TABLE {last} RENAME TO renamed_{number}",
        )

    def _definition(self) -> str:
        if self.random.random() < 0.4:
            return super()._definition()
        self.parts += self.stride
        number, column, id = self.parts, f"e{self.random.randrange(4)}", self._id()
        table = self._pick("typed", "child", "figures", "parent", '"Odd"', "keyed")
        self.made.append(f"made_{number}")
        return self._pick(
            f"ALTER TABLE {table} ADD COLUMN {column} {self._pick(*_ADDED)}",
            f"ALTER TABLE {table} ADD COLUMN {column} {self._pick(*_ADDED)}",
            f"ALTER TABLE {table} DROP COLUMN IF EXISTS {column}",
            f"ALTER TABLE {table} RENAME COLUMN {column} TO e{self.random.randrange(4)}",
            f"ALTER TABLE {table} ALTER COLUMN {column} TYPE text USING {column}::text",
            f"UPDATE {table} SET {column} = DEFAULT",
            f"UPDATE {table} SET {column} = NULL",
            f"ALTER TABLE {self._pick('keyed', 'typed', 'child', 'full_key')} REPLICA IDENTITY "
            + self._pick("FULL", "DEFAULT"),
            "ALTER TABLE child ALTER label TYPE " + self._pick("varchar(4000)", "text"),
            f"ALTER TABLE figures ADD COLUMN g{number} int GENERATED ALWAYS AS (id + 1) STORED",
            _MOVED,
            _DETACH_LAST if self.drops_partitions else "SELECT",
            f"CREATE TABLE event_{number} (LIKE event INCLUDING ALL); "
            f"ALTER TABLE event ATTACH PARTITION event_{number} FOR VALUES IN ({number}); "
            f"INSERT INTO event (id, region) VALUES ({id}, {number})",
            f"CREATE TABLE made_{number} (id int PRIMARY KEY, note text); "
            f"INSERT INTO made_{number} SELECT i, {BIG} FROM generate_series(1, 3) i",
            f"CREATE TABLE made_{number} AS SELECT id, note FROM keyed; "
            f"ALTER TABLE made_{number} ADD PRIMARY KEY (id); UPDATE made_{number} SET note = 'x' WHERE id = {id}",
            f"DROP TABLE IF EXISTS {self.random.choice(self.made)}",
            f"UPDATE {self.random.choice(self.made)} SET note = 'changed' WHERE id = 2",
            "CREATE TEMP TABLE IF NOT EXISTS short (a int); INSERT INTO short VALUES (1)",
        )


class ThreadedWork:
    """Sessions that work at once, round by round.

    Args:
        connect: opens a session.
        seed: says what is done, as far as threads let it.
        generation: of work on the same server.
    """

    def __init__(self, connect: Callable[[], Any], seed: int, generation: int) -> None:
        drops = random.Random(seed).random() < 0.5
        self.writers = [
            Writer(connect, f"{seed} {generation}", number, generation, drops_partitions=drops)
            for number in range(WRITERS)
        ]

    def round(self, steps: int) -> None:
        """Let each session do so many steps.

        Raises:
            BaseException: what a thread raised.
        """
        threads = [Thread(target=writer.go, args=(steps,)) for writer in self.writers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for writer in self.writers:
            for failure in writer.failures:
                raise failure

    def settle(self) -> None:
        """End all that is open."""
        for writer in self.writers:
            writer.settle()

    def close(self) -> None:
        """Close the sessions, with nothing open."""
        self.settle()
        for writer in self.writers:
            writer.session.close()


def set_up(connection: Any) -> None:
    """Make the tables."""
    for statement in (*SETUP.split(";\n"), *MORE_SETUP.split(";\n")):
        connection.execute(statement)
