"""Random work on tables of every replica identity, by several sessions whose transactions interleave.

One thread drives all sessions, so a seed gives the same statements. A statement that would wait gives up, and its
transaction is rolled back with it; so are others, for good measure, or to a savepoint.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

SETUP = """
CREATE TABLE keyed (id int PRIMARY KEY, note text, total numeric(10,2), tags text[], made timestamptz, free numeric);
ALTER TABLE keyed ALTER note SET STORAGE EXTERNAL;
CREATE TABLE pair (a int, b text, note text, PRIMARY KEY (a, b));
ALTER TABLE pair ALTER note SET STORAGE EXTERNAL;
CREATE TABLE bag (a int, b text, f float8, l int[]);
ALTER TABLE bag REPLICA IDENTITY FULL;
CREATE TABLE full_key (id uuid PRIMARY KEY, note text);
ALTER TABLE full_key REPLICA IDENTITY FULL;
CREATE TABLE by_index (id bigint NOT NULL, other int, note text);
CREATE UNIQUE INDEX by_index_id ON by_index (id);
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_id;
CREATE TABLE event (id int, region int, note text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE event_0 PARTITION OF event FOR VALUES IN (0);
CREATE TABLE event_1 PARTITION OF event FOR VALUES IN (1);
CREATE TABLE event_2 PARTITION OF event FOR VALUES IN (2);
CREATE TABLE diary (at int, note text)
"""
TABLES = ("keyed", "pair", "bag", "full_key", "by_index", "event", "diary")
_DROP_LAST = """
DO $$ BEGIN EXECUTE (
    SELECT 'DROP TABLE ' || max(relname) FROM pg_class
    WHERE relname LIKE 'event%' AND relispartition AND relkind = 'r' AND regexp_replace(relname, '.*_', '')::int > 2
); EXCEPTION WHEN null_value_not_allowed THEN NULL; END $$
"""
BIG = "repeat(md5(random()::text), 100)"


class Work:
    """A run of it.

    Args:
        connect: opens a session.
        seed: says what is done.
        ddl: tables are altered, too.
    """

    def __init__(self, connect: Callable[[], Any], seed: int, *, ddl: bool) -> None:
        self.random = random.Random(seed)
        self.connect = connect
        self.ddl = ddl
        self.tables: tuple[str, ...] = TABLES
        self.truncated: tuple[str, ...] = (*TABLES, "event_1", "event_2")
        self.parts, self.stride = 2, 1
        # A window in which a partition is dropped and its root gets columns cannot be landed.
        self.drops_partitions = self.random.random() < 0.5
        self.done = 0

    def run(self, steps: int, sessions: int = 3) -> None:
        """Run so many statements."""
        open_sessions = [self.connect() for _ in range(sessions)]
        for session in open_sessions:
            session.autocommit = True
            session.execute("SET lock_timeout = '20ms'")
            session.execute(f"SELECT setseed({self.random.random()})")
        is_open = [False] * sessions
        for _ in range(steps):
            at = self.random.randrange(sessions)
            is_open[at] = self._step(open_sessions[at], is_open[at])
        for at, session in enumerate(open_sessions):
            if is_open[at]:
                session.execute("COMMIT")
            session.close()

    def _step(self, session: Any, is_open: bool) -> bool:
        try:
            if not is_open:
                session.execute("BEGIN")
            for _ in range(self.random.randint(1, 3)):
                self._statement(session)
        except psycopg.Error:
            session.execute("ROLLBACK")
            return False
        chance = self.random.random()
        if chance < 0.5:
            self._end(session, chance)
            return False
        return True

    def _end(self, session: Any, chance: float) -> None:
        session.execute("COMMIT" if chance < 0.42 else "ROLLBACK")

    def _statement(self, session: Any) -> None:
        if self.random.random() < 0.15:
            session.execute("SAVEPOINT s")
            with suppress(psycopg.Error):
                self._change(session)
            session.execute("ROLLBACK TO s" if self.random.random() < 0.5 else "RELEASE s")
        else:
            self._change(session)

    def _change(self, session: Any) -> None:
        self.done += 1
        if self.ddl and self.random.random() < 0.04:
            session.execute(self._definition())
            return
        if self.random.random() < 0.02:
            session.execute(f"TRUNCATE {self.random.choice(self.truncated)}")
            return
        session.execute(self._statement_of(self.random.choice(self.tables)))

    def _statement_of(self, table: str) -> str:
        name = table.strip('"').lower()
        statement: str = getattr(self, f"_{name}")()
        return statement

    def _id(self) -> int:
        return self.random.randrange(40)

    def _pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def _keyed(self) -> str:
        id, other = self._id(), self._id()
        return self._pick(
            f"INSERT INTO keyed (id, note, total, tags, made, free) VALUES "
            f"({id}, {BIG}, {id} / 8.0, ARRAY['{id}', NULL], '2024-01-01 00:00+00', 1.50) ON CONFLICT DO NOTHING",
            f"INSERT INTO keyed (id, note) VALUES ({id}, 'short') ON CONFLICT (id) DO UPDATE SET total = {other}",
            f"INSERT INTO keyed (id, free) SELECT i, i FROM generate_series({id}, {id + 5}) i ON CONFLICT DO NOTHING",
            f"UPDATE keyed SET total = total + 1 WHERE id = {id}",
            f"UPDATE keyed SET id = {other} WHERE id = {id}",
            f"UPDATE keyed SET id = id + 1000, total = {id} WHERE id BETWEEN {id} AND {id + 2}",
            f"UPDATE keyed SET id = id - 1000 WHERE id >= 1000 AND id % 3 = {id % 3}",
            f"UPDATE keyed SET note = {BIG} WHERE id = {id}",
            f"DELETE FROM keyed WHERE id = {id}",
        )

    def _pair(self) -> str:
        a, other = self._id() % 5, self._id()
        return self._pick(
            f"INSERT INTO pair VALUES ({a}, '{other}', {BIG}) ON CONFLICT DO NOTHING",
            f"UPDATE pair SET b = b || 'x' WHERE a = {a} AND b = '{other}'",
            f"UPDATE pair SET note = note WHERE a = {a}",
            f"UPDATE pair SET a = {self._id() % 5} WHERE b = '{other}'",
            f"DELETE FROM pair WHERE b > '{other}' AND a = {a}",
        )

    def _bag(self) -> str:
        a = self._id() % 4
        return self._pick(
            f"INSERT INTO bag VALUES ({a}, 'x', -0.0, ARRAY[{a}, NULL]), ({a}, 'x', 0.0, ARRAY[{a}, NULL])",
            f"INSERT INTO bag VALUES ({a}, NULL, 'NaN', NULL), ({a}, NULL, 'NaN', NULL)",
            f"DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE a = {a} LIMIT 1)",
            f"UPDATE bag SET b = b || 'y' WHERE ctid IN (SELECT ctid FROM bag WHERE a = {a} LIMIT 2)",
            f"UPDATE bag SET a = a WHERE a = {a}",
        )

    def _full_key(self) -> str:
        id, other = self._id() % 15, self._id() % 15
        return self._pick(
            f"INSERT INTO full_key VALUES (md5('{id}')::uuid, {BIG}) ON CONFLICT DO NOTHING",
            f"UPDATE full_key SET id = md5('{other}')::uuid WHERE id = md5('{id}')::uuid",
            f"UPDATE full_key SET note = 'short' WHERE id = md5('{id}')::uuid",
            f"DELETE FROM full_key WHERE id = md5('{id}')::uuid",
        )

    def _by_index(self) -> str:
        id, other = self._id(), self._id()
        return self._pick(
            f"INSERT INTO by_index VALUES ({id}, {other}, 'x') ON CONFLICT DO NOTHING",
            f"UPDATE by_index SET other = {other} WHERE id = {id}",
            f"UPDATE by_index SET id = {other} WHERE id = {id}",
            f"DELETE FROM by_index WHERE other = {id}",
        )

    def _event(self) -> str:
        id, region = self._id(), self.random.randrange(3)
        return self._pick(
            f"INSERT INTO event (id, region, note) VALUES ({id}, {region}, {BIG}) ON CONFLICT DO NOTHING",
            f"UPDATE event SET region = {region} WHERE id = {id}",
            f"UPDATE event SET note = 'short' WHERE id = {id}",
            f"UPDATE event SET id = id + 1 WHERE id = {id} AND region = {region}",
            f"DELETE FROM event WHERE id = {id}",
        )

    def _diary(self) -> str:
        return f"INSERT INTO diary (at, note) SELECT i, 'x' FROM generate_series(1, {self._id()}) i"

    def _definition(self) -> str:
        self.parts += self.stride
        altered = ("keyed", "pair", "bag", "by_index", *(() if self.drops_partitions else ("event",)))
        number, table = self.parts, self._pick(*altered)
        return self._pick(
            f"ALTER TABLE {table} ADD COLUMN c{number} int DEFAULT {number}",
            f"ALTER TABLE {table} ADD COLUMN c{number} text DEFAULT 'given'",
            f"ALTER TABLE {table} ADD COLUMN c{number} numeric(6,2)",
            f"ALTER TABLE {table} ADD COLUMN c{number} float8 DEFAULT random()",
            "ALTER TABLE by_index ALTER other TYPE bigint USING other + 1",
            "ALTER TABLE by_index ALTER other TYPE int USING other - 1",
            "ALTER TABLE pair ALTER a TYPE bigint",
            "VACUUM FULL keyed",
            f"CREATE TABLE event_{number} PARTITION OF event FOR VALUES IN ({number})",
            f"INSERT INTO event (id, region) SELECT {self._id()}, max(regexp_replace(relname, '.*_', '')::int) "
            "FROM pg_class WHERE relname LIKE 'event%' AND relispartition AND relkind = 'r' ON CONFLICT DO NOTHING",
            _DROP_LAST if self.drops_partitions else "SELECT",
        )
