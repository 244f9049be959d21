"""Random DDL from two sessions: statements may fail, transactions may be given up."""

from __future__ import annotations

import random

import psycopg

from catalog.recording import Recorder

TABLES = [f"r{i}" for i in range(6)]
COLUMNS = [f"c{i}" for i in range(5)]
KINDS = ["int", "bigint DEFAULT 5", "pg_catalog.text DEFAULT 'some'", "numeric(8,2)", "mood", "int[]", "positive"]
HOUSEKEEPING = [
    "CHECKPOINT",
    "VACUUM pg_class",
    "VACUUM pg_attribute",
    "VACUUM",
    "ANALYZE",
    "VACUUM FULL pg_class",
    "VACUUM FULL pg_enum",
    "VACUUM FULL pg_attribute",
    "VACUUM FULL pg_type",
    "VACUUM FREEZE pg_attribute",
]
SETUP = (
    "CREATE TYPE mood AS ENUM ('a', 'b')",
    "CREATE DOMAIN positive AS int",
    "CREATE PUBLICATION pub",
    "CREATE SCHEMA other",
)


class RandomDdl:
    """Two sessions, ``a`` and ``b``, and a stream of choices."""

    def __init__(self, recorder: Recorder, seed: int) -> None:
        self._recorder = recorder
        self._rng = random.Random(seed)
        self._serial = 0
        self._savepoints: dict[str, int] = {"a": 0, "b": 0}

    def set_up(self) -> None:
        """Make what the statements need."""
        for statement in SETUP:
            self._recorder.quietly("a", statement)
        self.sessions_lost()

    def sessions_lost(self) -> None:
        """Set new sessions up; they must not wait for each other, as one program runs both."""
        for name in "ab":
            self._recorder.quietly(name, "SET lock_timeout = 50; SET client_min_messages = error")

    def step(self, mark: bool = True) -> None:
        """Run one statement of one session, and set marks."""
        name = self._rng.choice("ab")
        connection = self._recorder.session(name)
        is_open = connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        if not is_open:
            self._savepoints[name] = 0
        statement = self._in_block(name) if is_open else self._alone()
        try:
            self._recorder.quietly(name, statement)
        except psycopg.Error:
            if is_open:
                back = self._savepoints[name] and self._rng.random() < 0.7
                self._recorder.quietly(name, f"ROLLBACK TO s{self._savepoints[name]}" if back else "ROLLBACK")
        if mark:
            self._recorder.mark(f"{name}: {statement}")
            self._recorder.mark_inside(name, statement)

    def finish(self) -> None:
        """End both transactions."""
        for name in "ab":
            self._recorder.quietly(name, self._rng.choice(("COMMIT", "ROLLBACK")))

    def _alone(self) -> str:
        draw = self._rng.random()
        if draw < 0.45:
            return "BEGIN"
        if draw < 0.6:
            return self._rng.choice(HOUSEKEEPING)
        return self._change()

    def _in_block(self, name: str) -> str:
        draw = self._rng.random()
        if draw < 0.12:
            return self._rng.choice(("COMMIT", "COMMIT", "ROLLBACK"))
        if draw < 0.22:
            self._savepoints[name] += 1
            return f"SAVEPOINT s{self._savepoints[name]}"
        if draw < 0.32 and self._savepoints[name]:
            level = self._rng.randint(1, self._savepoints[name])
            if self._rng.random() < 0.5:
                self._savepoints[name] = level - 1
                return f"RELEASE s{level}"
            self._savepoints[name] = level
            return f"ROLLBACK TO s{level}"
        return self._change()

    def _change(self) -> str:
        rng, self._serial = self._rng, self._serial + 1
        table, column, kind = rng.choice(TABLES), rng.choice(COLUMNS), rng.choice(KINDS)
        return rng.choice(
            (
                f"CREATE TABLE {table} (id int PRIMARY KEY, {column} {kind})",
                f"CREATE TABLE {table} (LIKE pg_class)",
                f"ALTER TABLE {table} ADD {column} {kind}",
                f"ALTER TABLE {table} ADD {column} {kind}",
                f"ALTER TABLE {table} DROP {column}",
                f"ALTER TABLE {table} ALTER {column} TYPE pg_catalog.text USING {column}::pg_catalog.text",
                f"ALTER TABLE {table} RENAME {column} TO x{self._serial}",
                f"ALTER TABLE {table} RENAME TO {rng.choice(TABLES)}",
                f"ALTER TABLE {table} SET SCHEMA other",
                f"ALTER TABLE other.{table} SET SCHEMA public",
                f"ALTER TABLE {table} REPLICA IDENTITY {rng.choice(('FULL', 'NOTHING', 'DEFAULT'))}",
                f"CREATE UNIQUE INDEX i{self._serial} ON {table} (id)",
                f"TRUNCATE {table}",
                f"DROP TABLE {table}",
                f"ALTER TYPE mood ADD VALUE 'm{self._serial}' BEFORE 'b'",
                f"CREATE TYPE t{self._serial} AS ENUM ('p', 'q')",
                f"ALTER PUBLICATION pub ADD TABLE {table}",
                f"ALTER PUBLICATION pub DROP TABLE {table}",
                f"GRANT SELECT ON {table} TO PUBLIC",
                f"ANALYZE {table}",
            )
        )
