"""A server that is busy while its backup is taken: tables, and sessions that change them in every way."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from typing import Any

import psycopg

from headwater.local_servers.embedded_postgres import EmbeddedPostgres

PACE_SECONDS = 0.01
"""Between two jobs of a session: what is taken beside them, and who follows them, have their share of the processor."""

EAGER = {"shared_buffers": "1MB", "bgwriter_delay": "10ms", "checkpoint_timeout": "30s", "autovacuum": "on"}

BUSY = """
CREATE TABLE busy (id int PRIMARY KEY, n int, note text, body text);
CREATE TABLE child (id serial PRIMARY KEY, busy int REFERENCES busy (id) ON DELETE CASCADE, v text);
CREATE TABLE rewritten (id int PRIMARY KEY, n int, body text);
CREATE TABLE emptied (id int PRIMARY KEY, v text);
CREATE TABLE quiet (id int PRIMARY KEY, v text);
CREATE TABLE split (id int, region int, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE split_0 PARTITION OF split FOR VALUES IN (0);
CREATE TABLE split_1 PARTITION OF split FOR VALUES IN (1);
INSERT INTO busy SELECT i, i, 'n' || i, CASE WHEN i % 4 = 0 THEN (SELECT string_agg(md5((i * j)::text), '')
    FROM generate_series(1, 120) j) END FROM generate_series(1, 2000) i;
INSERT INTO child (busy, v) SELECT i, 'c' || i FROM generate_series(1, 500) i;
INSERT INTO rewritten SELECT i, i, (SELECT string_agg(md5((i + j)::text), '') FROM generate_series(1, 100) j)
    FROM generate_series(1, 300) i;
INSERT INTO quiet SELECT i, repeat(md5(i::text), 20) FROM generate_series(1, 20000) i;
INSERT INTO split SELECT i, i % 2, 'p' || i FROM generate_series(1, 500) i;
UPDATE quiet SET v = 'once more' WHERE id % 50 = 0;
"""


class Load:
    """Sessions that work until they are told not to."""

    def __init__(self, server: EmbeddedPostgres, seed: int) -> None:
        self._server, self._over = server, threading.Event()
        jobs = [self._write, self._write, self._lock, self._define, self._clean]
        self._threads = [threading.Thread(target=self._work, args=(job, seed * 10 + i)) for i, job in enumerate(jobs)]
        self.done = 0
        self._made: list[str] = []

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _work(self, job: Any, seed: int) -> None:
        dice = random.Random(seed)
        with self._server.connect() as connection:
            connection.execute("SET lock_timeout = '300ms'")
            while not self._over.is_set():
                with suppress(psycopg.Error):
                    job(connection, dice)
                connection.rollback()
                self.done += 1
                self._over.wait(PACE_SECONDS)

    def _write(self, connection: psycopg.Connection[Any], dice: random.Random) -> None:
        body = f"(SELECT string_agg(md5((random() * j)::text), '') FROM generate_series(1, {dice.randint(1, 200)}) j)"
        row, other = dice.randint(1, 2000), dice.randint(1, 100000)
        choices = [
            f"UPDATE busy SET n = n + 1 WHERE id = {row}",
            f"UPDATE busy SET note = 'w' || {other} WHERE id BETWEEN {row} AND {row + 20}",
            f"UPDATE busy SET body = {body} WHERE id BETWEEN {row} AND {row + 5}",
            f"DELETE FROM busy WHERE id = {row}",
            f"INSERT INTO busy VALUES ({row}, 0, 'again', {body}) ON CONFLICT (id) DO UPDATE SET n = 0",
            f"INSERT INTO busy SELECT i FROM generate_series({other + 3000}, {other + 3050}) i ON CONFLICT DO NOTHING",
            f"UPDATE busy SET id = id + 200000 WHERE id = {row}",
            f"INSERT INTO child (busy, v) SELECT id, 'new' FROM busy WHERE id BETWEEN {row} AND {row + 3}",
            f"UPDATE split SET region = 1 - region WHERE id = {dice.randint(1, 500)}",
            f"INSERT INTO split VALUES ({other + 1000}, {dice.randint(0, 1)}, 'i') ON CONFLICT DO NOTHING",
            f"UPDATE rewritten SET n = n + 1 WHERE id = {dice.randint(1, 300)}",
            f"INSERT INTO emptied VALUES ({other}, 'e') ON CONFLICT DO NOTHING",
        ]
        connection.execute("BEGIN")
        for number in range(dice.randint(1, 5)):
            connection.execute(f"SAVEPOINT s{number}")
            connection.execute(dice.choice(choices))
            if dice.random() < 0.25:
                connection.execute(f"ROLLBACK TO s{number}")
        connection.execute("ROLLBACK" if dice.random() < 0.2 else "COMMIT")

    def _lock(self, connection: psycopg.Connection[Any], dice: random.Random) -> None:
        """Make multixacts: several sessions lock a row, of which one may also change it."""
        row = dice.randint(1, 2000)
        with self._server.connect() as second:
            second.execute("SET lock_timeout = '300ms'")
            connection.execute("BEGIN")
            second.execute("BEGIN")
            connection.execute(f"SELECT 1 FROM busy WHERE id BETWEEN {row} AND {row + 10} FOR KEY SHARE")
            second.execute(f"SELECT 1 FROM busy WHERE id BETWEEN {row} AND {row + 10} FOR KEY SHARE")
            second.execute(f"UPDATE busy SET n = n + 100 WHERE id BETWEEN {row} AND {row + 5}")
            second.execute("ROLLBACK" if dice.random() < 0.3 else "COMMIT")
            connection.execute("COMMIT")

    def _define(self, connection: psycopg.Connection[Any], dice: random.Random) -> None:
        self._made.append(f"passing_{len(self._made)}")
        name, older = self._made[-1], dice.choice(self._made)
        choices = [
            f"CREATE TABLE IF NOT EXISTS {name} AS SELECT i, repeat('z', 3000) AS v FROM generate_series(1, 30) i",
            f"DROP TABLE IF EXISTS {older}",
            "VACUUM FULL rewritten",
            "CLUSTER rewritten USING rewritten_pkey",
            "TRUNCATE emptied",
            f"ALTER TABLE rewritten ALTER n TYPE {dice.choice(['int', 'bigint'])}",
            "BEGIN; ALTER TABLE busy ADD COLUMN tried int DEFAULT 7; UPDATE busy SET n = 1 WHERE id < 9; ROLLBACK",
        ]
        for statement in dice.choice(choices).split("; "):
            connection.execute(statement)

    def _clean(self, connection: psycopg.Connection[Any], dice: random.Random) -> None:
        connection.execute(dice.choice(["VACUUM busy", "VACUUM FREEZE child", "VACUUM", "VACUUM split", "CHECKPOINT"]))
