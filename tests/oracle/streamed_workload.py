"""Large transactions side by side, for what a server streams of them: rows of all sorts, savepoints, every kind of end.

Each of some sessions has a table of its own and is inside a transaction most of the time; steps come one after the
other, so that a subscriber can be waited for before anything is rolled back. All is said by a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import psycopg

SESSIONS = 4
ORIGIN = "upstream {n}"

SETUP = """
CREATE TABLE shared (id integer, note text);
CREATE TABLE regional (id integer, region integer, note text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE regional_0 PARTITION OF regional FOR VALUES IN (0);
CREATE TABLE regional_1 (note text, region integer NOT NULL, id integer NOT NULL);
ALTER TABLE regional ATTACH PARTITION regional_1 FOR VALUES IN (1);
CREATE TABLE figures (twice bigint GENERATED ALWAYS AS (a::bigint * 2) STORED, id integer PRIMARY KEY, a integer);
CREATE SCHEMA aside;
CREATE TABLE aside.thing (id integer, note text);
CREATE PUBLICATION pub_all FOR ALL TABLES;
CREATE PUBLICATION pub_some FOR TABLE own0, own2;
CREATE PUBLICATION pub_actions FOR TABLE own0, own1, shared, regional WITH (publish = 'insert, delete');
CREATE PUBLICATION pub_root FOR TABLE regional, own2 WITH (publish_via_partition_root);
CREATE PUBLICATION pub_leaves FOR TABLE regional_1, shared
"""
SETUP_SINCE = {
    15: """
CREATE PUBLICATION pub_schema FOR TABLES IN SCHEMA aside, TABLE own1;
CREATE PUBLICATION pub_columns FOR TABLE own0 (a, id), own2 (id), regional (region, id), figures (a, id)
    WITH (publish_via_partition_root)
""",
    18: """
CREATE PUBLICATION pub_generated FOR TABLE figures, own0 WITH (publish_generated_columns = stored)
""",
}
PUBLICATIONS = {
    14: ("pub_all", "pub_all", "pub_some", "pub_actions", "pub_root", "pub_leaves", "pub_some,pub_leaves"),
    15: ("pub_schema", "pub_columns", "pub_schema,pub_actions"),
    18: ("pub_generated",),
}
ROWS = ",".join(f"pub_rows{n}" for n in range(SESSIONS))
FILTERED_PUBLICATIONS = {15: (ROWS, f"{ROWS},pub_rooted", f"pub_some,{ROWS},pub_inserts", "pub_rooted", "pub_inserts")}
"""What streams may ask for, by the major since which there is such a publication."""
OWN = """
CREATE TABLE own{n} (id integer PRIMARY KEY, a text, big text, b integer);
ALTER TABLE own{n} ALTER big SET STORAGE EXTERNAL;
ALTER TABLE own{n} REPLICA IDENTITY {identity}
"""
IDENTITIES = ("DEFAULT", "FULL", "DEFAULT", "NOTHING")
FILTERED = """
CREATE TABLE parted (id integer PRIMARY KEY, a text, session integer) PARTITION BY RANGE (id);
CREATE TABLE parted_low (a text, gone integer, session integer, id integer NOT NULL);
ALTER TABLE parted_low DROP gone;
ALTER TABLE parted ATTACH PARTITION parted_low FOR VALUES FROM (0) TO (300);
CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (300) TO (2000000000);
CREATE PUBLICATION pub_rooted FOR TABLE parted WHERE (id % 31 = 4), shared WHERE (id % 41 = 40)
    WITH (publish_via_partition_root = true);
CREATE PUBLICATION pub_inserts FOR TABLE own0 WHERE (id % 16 = 3), own1, parted WHERE (id % 9 = 1), own2 WHERE (false)
    WITH (publish = 'insert, truncate', publish_via_partition_root = true)
"""
FILTERS = (
    ("id % 97 = 5", "id < 0", "id > 500 AND id % 3 = 0", "id = ANY (ARRAY[1, 60, 700])"),
    ("b % 67 = 5", "a LIKE '%u'", "length(big) > 8000", "b > 400 OR a = 'toast'"),
    ("id % 7 = 5", "id BETWEEN 30 AND 45", "true", "id < 0"),
    ("b % 59 = 1", "a IS NULL", "length(a) = 89", "id % 200 < 2"),
)
"""Of each session's table, one after the other: mostly few rows are let pass, or none."""


def statements(major: int, filters: bool = False) -> list[str]:
    """List the statements before the base copy is taken, with publications that have row filters or without."""
    own = [OWN.format(n=n, identity=IDENTITIES[n]) for n in range(SESSIONS)]
    filtered = [FILTERED, *(filtered_by("CREATE PUBLICATION pub_rows{n} FOR", n, 0) for n in range(SESSIONS))]
    later = [script for since, script in SETUP_SINCE.items() if since <= major]
    origins = [f"SELECT pg_replication_origin_create('{ORIGIN.format(n=n)}')" for n in range(SESSIONS)]
    scripts = [*own, SETUP, *later, *(filtered if filters else [])]
    return [*(part.strip() for script in scripts for part in script.split(";\n")), *origins]


def publications(major: int, filters: bool = False) -> list[str]:
    """List the publications that a stream may ask for."""
    kinds = (PUBLICATIONS, FILTERED_PUBLICATIONS) if filters else (PUBLICATIONS,)
    return [name for kind in kinds for since, names in kind.items() if since <= major for name in names]


def filtered_by(what: str, session: int, number: int) -> str:
    """Write a statement about a session's publication, with one of its filters."""
    return f"{what} TABLE own{{n}} WHERE ({FILTERS[session][number]})".format(n=session)


class StreamedWorkload:
    """Steps of some sessions.

    Args:
        connect: makes a session.
        seed: of the steps.
        before_rollback: called before anything is rolled back.
        prepares: transactions may be prepared.
        rolls_back: what may be rolled back is.
        filters: publications with row filters are there, and are altered.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        seed: int,
        before_rollback: Callable[[], object],
        *,
        prepares: bool = False,
        rolls_back: bool = True,
        filters: bool = False,
    ) -> None:
        self._rng = random.Random(seed)
        self._sessions = [_Session(connect(), n, self._rng, filters) for n in range(SESSIONS)]
        self._before_rollback = before_rollback
        self._prepares, self._rolls_back = prepares, rolls_back

    def run(self, steps: int) -> None:
        """Run so many steps; then all transactions end."""
        for _ in range(steps):
            self._step(self._rng.choice(self._sessions))
        for session in self._sessions:
            session.end("COMMIT")
            session.connection.close()

    def _step(self, session: _Session) -> None:
        draw = self._rng.random()
        if draw < 0.72:
            session.change()
        elif draw < 0.86:
            self._savepoint(session)
        elif draw < 0.90:
            session.define()
        elif not self._rolls_back or self._rng.random() < 0.6:
            session.end("prepare" if self._prepares and self._rng.random() < 0.4 else "COMMIT")
        elif session.is_open:
            self._before_rollback()
            session.end("ROLLBACK")

    def _savepoint(self, session: _Session) -> None:
        if self._rng.random() < 0.5 or not session.savepoints:
            session.savepoint()
        elif self._rng.random() < 0.5 or not self._rolls_back:
            session.release()
        else:
            self._before_rollback()
            session.roll_back()


class _Session:
    def __init__(self, connection: psycopg.Connection[Any], number: int, rng: random.Random, filters: bool) -> None:
        self.connection, self.savepoints, self._filters = connection, list[str](), filters
        self._rng, self._number, self._next, self._names = rng, number, 1, 0
        self.is_open, self._has_origin = False, False

    def _run(self, statement: str) -> None:
        if not self.is_open:
            self._choose_origin()
            self.connection.execute("BEGIN")
            self.is_open = True
        self.connection.execute(statement.encode())

    def _choose_origin(self) -> None:
        """Change now and then whose writing this is: someone's who repeats what was written elsewhere."""
        if self._rng.random() < 0.2:
            self._has_origin = not self._has_origin
            setup = f"setup('{ORIGIN.format(n=self._number)}')" if self._has_origin else "reset()"
            self.connection.execute(f"SELECT pg_replication_origin_session_{setup}".encode())

    def change(self) -> None:
        """Change rows of one kind or another, few or many."""
        table, rng = f"own{self._number}", self._rng
        count, first = rng.choice((1, 3, 40, 400)), self._next
        low = rng.randrange(max(1, first))
        own_low = self._number * 1_000_000 + low
        rows = f"generate_series({first}, {first + count - 1}) g"
        self._next += count
        changes = (
            f"INSERT INTO {table} SELECT g, repeat('a', g % 90), NULL, g FROM {rows}",
            f"INSERT INTO {table} SELECT g, 'toast', repeat(g::text, 3000), g FROM {rows} WHERE g < {first + 6}",
            f"INSERT INTO {table} SELECT g, 'conflict' FROM {rows} ON CONFLICT (id) DO NOTHING",
            f"INSERT INTO {table} SELECT g, 'again' FROM generate_series({low}, {min(low + 9, first - 1)}) g "
            "ON CONFLICT (id) DO UPDATE SET a = excluded.a",
            f"UPDATE {table} SET a = a || 'u', b = b + 1 WHERE id BETWEEN {low} AND {low + count}",
            f"UPDATE {table} SET big = repeat('x', 9000) WHERE id BETWEEN {low} AND {low + 3}",
            f"DELETE FROM {table} WHERE id BETWEEN {low} AND {low + count // 2}",
            f"INSERT INTO shared SELECT g, 'session {self._number}' FROM {rows}",
            f"SELECT pg_logical_emit_message(true, 'said', repeat('m', {count}))",
            f"SELECT pg_logical_emit_message(false, 'at once', 'by {self._number}')",
            f"TRUNCATE {table}",
            "copy",
            f"INSERT INTO regional SELECT {self._number}000000 + g, g % 2, repeat('p', g % 50) FROM {rows}",
            f"UPDATE regional SET region = 1 - region WHERE id BETWEEN {own_low} AND {own_low + count}",
            f"DELETE FROM regional WHERE id BETWEEN {own_low} AND {own_low + 5}",
            f"INSERT INTO figures (id, a) SELECT {self._number}000000 + g, g FROM {rows}",
            f"UPDATE figures SET a = a + 1 WHERE id BETWEEN {own_low} AND {own_low + count}",
            f"INSERT INTO aside.thing SELECT g, 'thing' FROM {rows}",
            *(self._changes_of_parted(first, count, low) if self._filters else ()),
        )
        weights = (6, 2, 1, 1, 3, 1, 2, 2, 1, 0.3, 0.2, 3, 1, 0.7, 0.5, 1, 0.5, 1, 2, 2, 1, 0.2)
        chosen = rng.choices(changes, weights[: len(changes)])[0]
        if chosen == "copy":
            self._copy(table, first, count)
        elif ("UPDATE" not in chosen and "DELETE" not in chosen) or self._number != 3 or " own3" not in chosen:
            self._run(chosen)

    def _changes_of_parted(self, first: int, count: int, low: int) -> tuple[str, ...]:
        """Write changes of the partitioned table, each session's rows; some go from one partition to the other."""
        own, number = f"session = {self._number}", self._number
        rows = (
            f"SELECT {SESSIONS} * g + {number}, 'parted', {number} FROM generate_series({first}, {first + count - 1}) g"
        )
        moved = f"SELECT max(id) FROM parted WHERE {own} AND id < {SESSIONS * (low + count)}"
        return (
            f"INSERT INTO parted {rows}",
            f"UPDATE parted SET a = 'moved', id = id + 1000000000 WHERE {own} AND id = ({moved})",
            f"DELETE FROM parted WHERE {own} AND id BETWEEN {SESSIONS * low} AND {SESSIONS * (low + count // 2)}",
            f"TRUNCATE {f'own{number}'} RESTART IDENTITY",
        )

    def _copy(self, table: str, first: int, count: int) -> None:
        self._run("SELECT 1")
        with (
            self.connection.cursor() as cursor,
            cursor.copy(f"COPY {table} (id, a, big, b) FROM STDIN".encode()) as copy,
        ):
            for row in range(first, first + count):
                copy.write_row((row, "copied" * (row % 7), None, row))

    def define(self) -> None:
        """Change a definition inside of the transaction."""
        table, name = f"own{self._number}", f"c{self._names}"
        self._names += 1
        choice = self._rng.randrange(5 if self._filters else 3)
        if choice == 0:
            self._run(f"ALTER TABLE {table} ADD COLUMN {name} integer DEFAULT {self._names}")
        elif choice == 1:
            self._run(f"CREATE TABLE made{self._number}_{name} (id integer, note text)")
            self._run(f"INSERT INTO made{self._number}_{name} SELECT g, 'made' FROM generate_series(1, 50) g")
        elif choice == 2:
            self._run(f"ALTER TABLE {table} ALTER b SET STATISTICS {self._names % 100}")
        else:
            number = self._rng.randrange(len(FILTERS[self._number]))
            self._run(filtered_by(f"ALTER PUBLICATION pub_rows{self._number} SET", self._number, number))

    def savepoint(self) -> None:
        """Begin a subtransaction."""
        self._names += 1
        self.savepoints.append(f"s{self._names}")
        self._run(f"SAVEPOINT {self.savepoints[-1]}")

    def release(self) -> None:
        """Release the last savepoint, or several."""
        at = self._rng.randrange(len(self.savepoints))
        self._run(f"RELEASE {self.savepoints[at]}")
        del self.savepoints[at:]

    def roll_back(self) -> None:
        """Roll back the last savepoint, or several."""
        at = self._rng.randrange(len(self.savepoints))
        self._run(f"ROLLBACK TO {self.savepoints[at]}")
        del self.savepoints[at + 1 :]

    def end(self, how: str) -> None:
        """End the transaction."""
        if not self.is_open:
            return
        if how == "prepare":
            gid = f"s{self._number}_{self._next}_{self._names}"
            self._names += 1
            self.connection.execute(f"PREPARE TRANSACTION '{gid}'".encode())
            self.connection.execute(f"COMMIT PREPARED '{gid}'".encode())
        else:
            self.connection.execute(how.encode())
        self.is_open = False
        self.savepoints.clear()
