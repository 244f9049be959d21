"""Tables that others take the name of, window by window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from landing.mirrored_source import NEXT_WINDOW, Source, Statements

PLAIN = "CREATE TABLE {} (id int PRIMARY KEY, note text, n int)"
ROWS = "INSERT INTO {} SELECT i, 'old', i FROM generate_series(1, 20) i"
OTHER = "CREATE TABLE {} (n bigint, extra date, note text, id int PRIMARY KEY)"
OTHER_ROWS = "INSERT INTO {} SELECT i * 10, '2024-01-01', 'new', i FROM generate_series(11, 30) i"
CHANGES = ["UPDATE {} SET note = 'changed' WHERE id = 12", "DELETE FROM {} WHERE id = 13"]


def with_names(statements: Statements, *names: str) -> Statements:
    return [statement.format(*names) for statement in statements]


SETUP: Statements = [
    *(
        PLAIN.format(name)
        for name in ("again", "at_once", "staged", "swapped", "round_a", "round_b", "called", "twice")
    ),
    *(ROWS.format(name) for name in ("again", "at_once", "staged", "swapped", "round_a", "called", "twice")),
    "INSERT INTO round_b SELECT i, 'b', -i FROM generate_series(5, 9) i",
    *(PLAIN.format(name) for name in ("emptied", "later", "typed", "kept_apart")),
    *(ROWS.format(name) for name in ("emptied", "later", "typed", "kept_apart")),
    "CREATE TABLE alike (v int, note text)",
    "ALTER TABLE alike REPLICA IDENTITY FULL",
    "INSERT INTO alike VALUES (1, 'x'), (1, 'x'), (2, NULL)",
    "CREATE TABLE parted (id int PRIMARY KEY, note text) PARTITION BY RANGE (id)",
    "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100)",
    "INSERT INTO parted SELECT i, 'old' FROM generate_series(1, 10) i",
    "CREATE SCHEMA shop",
    PLAIN.format("shop.moved"),
    ROWS.format("shop.moved"),
]

WORK: Statements = [
    # Dropped and made again, each by a transaction of its own.
    "INSERT INTO again VALUES (100, 'late', NULL)",
    "DROP TABLE again",
    OTHER.format("again"),
    OTHER_ROWS.format("again"),
    *with_names(CHANGES, "again"),
    # By one transaction.
    f"BEGIN; DELETE FROM at_once WHERE id < 3; DROP TABLE at_once; {OTHER.format('at_once')}; "
    f"{OTHER_ROWS.format('at_once')}; UPDATE at_once SET n = 1 WHERE id = 20; COMMIT",
    *with_names(CHANGES, "at_once"),
    NEXT_WINDOW,
    # Staged beside it, and renamed into place.
    OTHER.format("staged_new"),
    OTHER_ROWS.format("staged_new"),
    "DELETE FROM staged_new WHERE id = 30",
    "BEGIN; DROP TABLE staged; UPDATE staged_new SET note = 'last' WHERE id = 29; "
    "ALTER TABLE staged_new RENAME TO staged; UPDATE staged SET note = 'first' WHERE id = 28; COMMIT",
    *with_names(CHANGES, "staged"),
    # Swapped by two renames.
    OTHER.format("swapped_new"),
    OTHER_ROWS.format("swapped_new"),
    NEXT_WINDOW,
    "BEGIN; ALTER TABLE swapped RENAME TO swapped_old; ALTER TABLE swapped_new RENAME TO swapped; COMMIT",
    *with_names(CHANGES, "swapped"),
    "UPDATE swapped_old SET note = 'older' WHERE id = 2",
    "INSERT INTO swapped_old VALUES (200, 'older', 3)",
    # In a circle.
    "UPDATE round_a SET note = 'a' WHERE id < 4",
    "BEGIN; ALTER TABLE round_a RENAME TO round_c; ALTER TABLE round_b RENAME TO round_a; "
    "ALTER TABLE round_c RENAME TO round_b; COMMIT",
    "UPDATE round_a SET n = 7 WHERE id = 6",
    "DELETE FROM round_b WHERE id > 15",
    # Renamed only.
    "ALTER TABLE called RENAME TO called_otherwise",
    "UPDATE called_otherwise SET note = 'here' WHERE id = 1",
    # Replaced twice.
    "DROP TABLE twice",
    OTHER.format("twice"),
    "INSERT INTO twice VALUES (1, NULL, 'between', 1)",
    "DROP TABLE twice",
    PLAIN.format("twice"),
    "INSERT INTO twice VALUES (2, 'last', 5)",
    # The newer one is empty.
    f"BEGIN; DROP TABLE emptied; {PLAIN.format('emptied')}; COMMIT",
    # Dropped long before it is made again.
    "DROP TABLE later",
    NEXT_WINDOW,
    NEXT_WINDOW,
    OTHER.format("later"),
    "INSERT INTO later VALUES (1, NULL, 'x', 1)",
    # A column is of another type.
    "CREATE TABLE typed_new (id int PRIMARY KEY, note int, n text)",
    "INSERT INTO typed_new VALUES (1, 2, 'three')",
    "BEGIN; DROP TABLE typed; ALTER TABLE typed_new RENAME TO typed; ALTER TABLE typed ADD more int DEFAULT 4; COMMIT",
    "UPDATE typed SET note = 3",
    # Rows that only all of their columns tell.
    "CREATE TABLE alike_new (v int, note text)",
    "ALTER TABLE alike_new REPLICA IDENTITY FULL",
    "INSERT INTO alike_new VALUES (5, 'y'), (5, 'y')",
    "BEGIN; DROP TABLE alike; ALTER TABLE alike_new RENAME TO alike; COMMIT",
    "DELETE FROM alike WHERE ctid = '(0,1)'",
    # A partitioned table.
    "CREATE TABLE parted_new (note text, id int PRIMARY KEY) PARTITION BY RANGE (id)",
    "CREATE TABLE parted_new_1 PARTITION OF parted_new FOR VALUES FROM (0) TO (50)",
    "CREATE TABLE parted_new_2 PARTITION OF parted_new FOR VALUES FROM (50) TO (99)",
    "INSERT INTO parted_new SELECT 'new', i FROM generate_series(45, 55) i",
    "BEGIN; DROP TABLE parted; ALTER TABLE parted_new RENAME TO parted; COMMIT",
    "UPDATE parted SET note = 'changed' WHERE id = 46",
    "TRUNCATE parted_new_2",
    # To another schema, and with it.
    "ALTER SCHEMA shop RENAME TO store",
    "UPDATE store.moved SET note = 'in the store' WHERE id = 1",
    "DROP TABLE kept_apart",
]

TABLES = (
    *("public.again", "public.at_once", "public.staged", "public.swapped", "public.swapped_old", "public.round_a"),
    *("public.round_b", "public.called_otherwise", "public.twice", "public.emptied", "public.later", "public.typed"),
    *("public.alike", "public.parted", "store.moved"),
)


@pytest.fixture(scope="module")
def replaced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Source, Path, dict[str, Any]]]:
    """Replace tables; give the server, the backup of before the work, and what the tables hold after it."""
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        source = Source(server, tmp_path_factory.mktemp("replaced"))
        yield source, *source.after(SETUP, WORK, list(TABLES))
