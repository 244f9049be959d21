"""Partitions that go from table to table, window by window."""

from __future__ import annotations

from typing import Any

from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.landing.landing import land
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.plugins.table_patterns import TablePatterns
from landing.mirrored_log import as_of
from landing.mirrored_source import NEXT_WINDOW, Source, Statements
from landing.mirrors import (
    HeldColumn,
    Rows,
    columns_by_number,
    has_landed,
    held_columns,
    mirror_rows,
    read_table,
    server_rows,
)

WINDOWS = {"one window": 1 << 30, "windows": 1 << 20}

FIRST, SECOND = "FOR VALUES FROM (0) TO (100)", "FOR VALUES FROM (100) TO (200)"
SETUP = [
    "CREATE TABLE {0} (id int PRIMARY KEY, note text, big text) PARTITION BY RANGE (id)",
    f"CREATE TABLE {{0}}_0 PARTITION OF {{0}} {FIRST}",
    "CREATE TABLE {0}_9 PARTITION OF {0} FOR VALUES FROM (900) TO (999)",
    "CREATE TABLE {0}_apart (note text, gone int, big text, id int PRIMARY KEY)",
    "ALTER TABLE {0}_apart DROP gone",
    "ALTER TABLE {0} ALTER big SET STORAGE EXTERNAL",
    "ALTER TABLE {0}_9 ALTER big SET STORAGE EXTERNAL",
    "ALTER TABLE {0}_apart ALTER big SET STORAGE EXTERNAL",
    "INSERT INTO {0} SELECT i, 'before', repeat(i::text, 2000) FROM generate_series(901, 905) i",
    "INSERT INTO {0}_apart SELECT 'before', repeat(i::text, 2000), i FROM generate_series(101, 105) i",
]
"""A table with a partition that has rows, and one apart with rows and other columns; values out of line."""

ATTACH = f"ALTER TABLE {{0}} ATTACH PARTITION {{0}}_apart {SECOND}"
DETACH = "ALTER TABLE {0} DETACH PARTITION {0}_9"
WORK = {
    "attached": [
        "UPDATE {0}_apart SET note = 'seen' WHERE id = 102",
        "DELETE FROM {0}_apart WHERE id = 103",
        "INSERT INTO {0} VALUES (1, 'other', NULL)",
        NEXT_WINDOW,
        ATTACH,
        "UPDATE {0} SET note = 'attached' WHERE id IN (101, 102)",
        "DELETE FROM {0} WHERE id = 104",
        "INSERT INTO {0} VALUES (103, 'again', 'x')",
        "UPDATE {0} SET id = 110 WHERE id = 105",
    ],
    "made and attached": [
        "CREATE TABLE {0}_1 (LIKE {0})",
        "INSERT INTO {0}_1 SELECT i, 'new', repeat('y', 3000) FROM generate_series(120, 140) i",
        "ALTER TABLE {0} ATTACH PARTITION {0}_1 FOR VALUES FROM (110) TO (150)",
        "UPDATE {0} SET note = 'changed' WHERE id = 121",
        NEXT_WINDOW,
        "DELETE FROM {0} WHERE id = 122",
    ],
    "by one transaction": [
        "INSERT INTO {0} VALUES (1, 'other', NULL)",
        "BEGIN; CREATE TABLE {0}_1 (LIKE {0} INCLUDING INDEXES); "
        "INSERT INTO {0}_1 VALUES (120, 'a', 'b'), (121, 'a', 'b'); "
        "UPDATE {0}_1 SET note = 'early'; "
        "ALTER TABLE {0} ATTACH PARTITION {0}_1 FOR VALUES FROM (110) TO (150); "
        "UPDATE {0} SET note = 'late' WHERE id = 121; INSERT INTO {0} VALUES (122, 'c', 'd'); COMMIT",
        "DELETE FROM {0} WHERE id = 120",
    ],
    "attached and dropped": [
        "CREATE TABLE {0}_1 (LIKE {0})",
        "INSERT INTO {0}_1 VALUES (120, 'a', 'b')",
        "ALTER TABLE {0} ATTACH PARTITION {0}_1 FOR VALUES FROM (110) TO (150)",
        "BEGIN; CREATE TABLE {0}_2 (LIKE {0}); INSERT INTO {0}_2 VALUES (160, 'a', 'b'); "
        "ALTER TABLE {0} ATTACH PARTITION {0}_2 FOR VALUES FROM (150) TO (200); COMMIT",
        "INSERT INTO {0} VALUES (1, 'x', 'y'), (121, 'x', 'y'), (161, 'x', 'y')",
        NEXT_WINDOW,
        ATTACH.replace(SECOND, "FOR VALUES FROM (100) TO (110)"),
        "DROP TABLE {0}_1, {0}_2, {0}_apart",
    ],
    "detached": [
        "UPDATE {0} SET note = 'seen' WHERE id = 902",
        "INSERT INTO {0} VALUES (906, 'new', 'x')",
        NEXT_WINDOW,
        DETACH,
        "UPDATE {0}_9 SET note = 'alone' WHERE id < 903",
        "DELETE FROM {0}_9 WHERE id = 903",
        "INSERT INTO {0}_9 VALUES (1, 'anything', NULL)",
        "INSERT INTO {0} VALUES (2, 'other', NULL)",
    ],
    "detached and changed at once": [
        "BEGIN; UPDATE {0} SET note = 'in' WHERE id = 901; " + DETACH + "; "
        "UPDATE {0}_9 SET note = 'out' WHERE id IN (901, 902); INSERT INTO {0}_9 VALUES (7, 'x', 'y'); COMMIT",
        "ALTER TABLE {0}_9 ADD more int DEFAULT 7",
        "INSERT INTO {0}_9 VALUES (8, 'x', 'y', 8)",
        "ALTER TABLE {0}_9 RENAME note TO remark",
    ],
    "made, detached and changed": [
        "BEGIN; CREATE TABLE {0}_1 PARTITION OF {0} FOR VALUES FROM (110) TO (150); "
        "INSERT INTO {0}_1 VALUES (120, 'a', 'b'); COMMIT",
        "ALTER TABLE {0} DETACH PARTITION {0}_1",
        "INSERT INTO {0}_1 VALUES (1, 'c', 'd')",
        "UPDATE {0}_1 SET note = 'alone' WHERE id = 120",
    ],
    "detached concurrently": [
        "INSERT INTO {0} VALUES (906, 'new', 'x')",
        DETACH + " CONCURRENTLY",
        "UPDATE {0}_9 SET note = 'alone' WHERE id < 903",
    ],
    "emptied": [
        NEXT_WINDOW,
        DETACH,
        "TRUNCATE {0}_9",
        "INSERT INTO {0}_9 VALUES (901, 'again', 'x')",
        "TRUNCATE {0}_apart",
        ATTACH,
    ],
    "from one to the other": [
        "CREATE TABLE {0}_other (LIKE {0}) PARTITION BY RANGE (id)",
        "ALTER TABLE {0}_other ADD PRIMARY KEY (id)",
        DETACH,
        "UPDATE {0}_9 SET note = 'between' WHERE id = 901",
        "ALTER TABLE {0}_other ATTACH PARTITION {0}_9 FOR VALUES FROM (900) TO (999)",
        "UPDATE {0}_other SET note = 'there' WHERE id = 902",
    ],
}

Tables = dict[str, tuple[list[HeldColumn], Rows]]

_OWN = "SELECT relname FROM pg_class WHERE relname ~ %s AND relkind IN ('r', 'p') AND relispartition = %s"


class Moved:
    """One run of work on the server, with what its tables hold behind each statement."""

    def __init__(self, source: Source, name: str, work: Statements) -> None:
        self.source = source
        self.backup, _ = source.after([template.format(name) for template in SETUP], [], [])
        self.moments: list[tuple[int, Tables]] = []
        with source.server.connect() as connection:
            connection.autocommit = True
            for statement in work:
                connection.execute(statement.format(name))
                self.moments.append(_moment(connection, f"^{name}(_|$)"))
            connection.execute("CHECKPOINT")

    def land(self, engine: Engine, target: LandingTarget, window: int, *tables: str) -> None:
        """Land all of it, or some tables."""
        request = DecodeRequest(
            str(self.source.server.wal_directory), str(self.backup), "postgres", tables=TablePatterns(tables)
        )
        land(engine, request, target, bounds=WindowBounds(window))

    def require_same(self, target: LandingTarget) -> None:
        """See that mirrors are what the server has, histories at all moments."""
        last = self.moments[-1][1]
        for lsn, tables in self.moments if target.mode == "history" else self.moments[-1:]:
            for table, (held, rows) in tables.items():
                if table not in last:
                    continue  # dropped since: its mirror is what it was last
                numbers = {column.number for column in last[table][0]}
                at = [number for number, column in enumerate(held) if column.number in numbers]
                wanted: Rows = Rows()
                for row, count in rows.items():
                    wanted[tuple(row[number] for number in at)] += count
                ours = mirror_of(target, table, [held[number].number for number in at], lsn)
                assert ours == wanted, (f"{lsn:X}", table, ours - wanted, wanted - ours)


def _moment(connection: Any, pattern: str) -> tuple[int, Tables]:
    """Read the columns and rows of tables; a partition has no rows of its own."""
    tables: Tables = {}
    for is_partition in (True, False):
        for (name,) in connection.execute(_OWN, (pattern, is_partition)).fetchall():
            tables[name] = held_columns(connection, name), Rows() if is_partition else server_rows(connection, name)[1]
    (lsn,) = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    return int(lsn), tables


def mirror_of(target: LandingTarget, table: str, numbers: list[int], lsn: int) -> Rows:
    place = target.place / f"public.{table}"
    if not has_landed(place, target.format):
        return Rows()
    names = columns_by_number(place, target.format)
    rows = read_table(place, target.format)
    if target.mode == "history":
        assert rows["_valid_to"].null_count == rows["_valid_to_lsn"].null_count, "it is not known when rows went"
        rows = rows.filter(as_of(lsn))
    return mirror_rows(rows, [names[number] for number in numbers])
