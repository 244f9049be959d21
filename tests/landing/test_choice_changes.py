"""Tables that leave the choice of --tables by their name, and come back: nothing is missing in silence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arrow_types import values_of
from headwater.errors import HeadwaterWarning, LakeError
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.parquet_table import read_parquet_table
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.plugins.table_patterns import TablePatterns
from landing.existing_rows import landed, run, server_of

pytestmark = [pytest.mark.server]

SETUP = """
CREATE SCHEMA shop;
CREATE TABLE shop.item (id int PRIMARY KEY, note text);
INSERT INTO shop.item SELECT i, 'before' FROM generate_series(1, 10) i;
CREATE TABLE shop.part (id int, region int) PARTITION BY LIST (region);
CREATE TABLE shop.part_0 PARTITION OF shop.part FOR VALUES IN (0);
INSERT INTO shop.part VALUES (1, 0)
"""

OUT = {
    "table": "ALTER TABLE shop.item RENAME TO kept_out",
    "schema": "ALTER SCHEMA shop RENAME TO kept_out",
    "root": "ALTER TABLE shop.part RENAME TO kept_out",
}
BACK = {
    "table": "ALTER TABLE shop.kept_out RENAME TO item",
    "schema": "ALTER SCHEMA kept_out RENAME TO shop",
    "root": "ALTER TABLE shop.kept_out RENAME TO part",
}
MISSED = {
    "table": "INSERT INTO shop.kept_out VALUES (20, 'missed')",
    "schema": "INSERT INTO kept_out.item VALUES (20, 'missed')",
    "root": "INSERT INTO shop.kept_out VALUES (20, 0)",
}
NAMES = {"table": "shop.item", "schema": "shop.item", "root": "shop.part"}


@contextmanager
def shop(place: Path) -> Iterator[tuple[EmbeddedPostgres, Path]]:
    """Run a server; give it, and a backup of it."""
    with server_of(16) as server:
        with server.connect() as connection:
            run(connection, SETUP)
        server.stop()
        backup = server.copy_data_directory(place / "backup")
        server.start()
        yield server, backup


@pytest.mark.parametrize("what", ["table", "root"])
def test_a_table_that_leaves_the_choice_and_comes_back(engine: Engine, tmp_path: Path, what: str) -> None:
    """In windows of its own: the first warns, the second is refused, and nothing of it is in the lake."""
    name = NAMES[what]
    target, tables = LandingTarget(tmp_path / "lake"), TablePatterns.parse([name])
    with shop(tmp_path) as (server, backup):
        with server.connect() as connection:
            run(connection, OUT[what] + ";\n" + MISSED[what])
            connection.execute("SELECT pg_switch_wal()")
        with pytest.warns(HeadwaterWarning, match=f'"{name}" is called .*kept_out.* its changes do not land'):
            landed(engine, server.wal_directory, backup, target, tables=tables)
        before = read_parquet_table(target.place / name)
        with server.connect() as connection:
            run(connection, BACK[what])
            connection.execute(f"INSERT INTO {name} VALUES (21, 0)")
            connection.execute("SELECT pg_switch_wal()")
        with pytest.raises(LakeError, match=f'is called "{name}".*its changes from before') as refused:
            landed(engine, server.wal_directory, backup, target, tables=tables)
        assert refused.value.lsn
        assert read_parquet_table(target.place / name).equals(before)


def test_a_mirror_that_leaves_the_choice_and_comes_back_has_what_was_missed(engine: Engine, tmp_path: Path) -> None:
    target, tables = LandingTarget(tmp_path / "lake", mode="current"), TablePatterns.parse(["shop.item"])
    with shop(tmp_path) as (server, backup):
        with server.connect() as connection:
            run(connection, OUT["schema"] + ";\n" + MISSED["schema"])
            connection.execute("SELECT pg_switch_wal()")
        with pytest.warns(HeadwaterWarning, match=r'"shop\.item" is called .*kept_out.* its changes do not land'):
            landed(engine, server.wal_directory, backup, target, tables=tables)
        with server.connect() as connection:
            run(connection, BACK["schema"])
            connection.execute("INSERT INTO shop.item VALUES (21, '0')")
            connection.execute("SELECT pg_switch_wal()")
        landed(engine, server.wal_directory, backup, target, tables=tables)
    ids = values_of(read_parquet_table(target.place / "shop.item")["id"])
    assert sorted(ids) == [*range(1, 11), 20, 21]


def test_a_table_that_comes_into_the_choice(engine: Engine, tmp_path: Path) -> None:
    """Changes: out and back in one window is refused; a table that takes a chosen name lacks what it had."""
    tables = TablePatterns.parse(["shop.item,shop.taken"])
    with shop(tmp_path) as (server, backup):
        with server.connect() as connection:
            run(connection, "CREATE TABLE shop.made (id int PRIMARY KEY);\nINSERT INTO shop.made VALUES (1)")
            run(connection, "ALTER TABLE shop.made RENAME TO taken;\nINSERT INTO shop.taken VALUES (2)")
            connection.execute("SELECT pg_switch_wal()")
        changes, mirror = LandingTarget(tmp_path / "changes"), LandingTarget(tmp_path / "mirror", mode="current")
        with pytest.warns(HeadwaterWarning, match="what it had before has not landed"):
            landed(engine, server.wal_directory, backup, changes, tables=tables)
        assert read_parquet_table(changes.place / "shop.taken")["id"].to_pylist() == [2]
        landed(engine, server.wal_directory, backup, mirror, tables=tables)
        assert sorted(values_of(read_parquet_table(mirror.place / "shop.taken")["id"])) == [1, 2]
        with server.connect() as connection:
            run(connection, f"{OUT['table']};\n{MISSED['table']};\n{BACK['table']}")
            connection.execute("SELECT pg_switch_wal()")
        with (
            pytest.warns(HeadwaterWarning, match="its changes do not land"),
            pytest.raises(LakeError, match=r'is called "shop.item".*its changes from before'),
        ):
            landed(engine, server.wal_directory, backup, changes, tables=tables)


WITHIN = {
    "made": "CREATE TABLE shop.made AS SELECT 1 AS id; ALTER TABLE shop.made RENAME TO taken",
    "moved": "CREATE TABLE taken (id int); INSERT INTO taken VALUES (1); ALTER TABLE taken SET SCHEMA shop",
    "table": f"{OUT['table']}; {MISSED['table']}; {BACK['table']}",
    "root": f"{OUT['root']}; {MISSED['root']}; {BACK['root']}",
    "schema": f"{OUT['schema']}; {MISSED['schema']}; {BACK['schema']}",
}
"""What one transaction does to a table before it gives it a chosen name."""


@pytest.mark.parametrize(
    "what", ["moved", "schema", *(pytest.param(case, marks=pytest.mark.slow) for case in ("made", "table", "root"))]
)
def test_a_table_that_one_transaction_changes_and_gives_a_chosen_name(
    engine: Engine, tmp_path: Path, what: str
) -> None:
    """A mirror has all of it, and a table of changes of what had the name before."""
    name = NAMES.get(what, "shop.taken")
    changes, mirror = LandingTarget(tmp_path / "changes"), LandingTarget(tmp_path / "mirror", mode="current")
    with shop(tmp_path) as (server, backup):
        with server.connect() as connection:
            run(connection, f"BEGIN; {WITHIN[what]}; COMMIT;\nINSERT INTO {name} SELECT 30{', 0' * (what == 'root')}")
            connection.execute("SELECT pg_switch_wal()")
            held = sorted(row[0] for row in connection.execute(f"SELECT id FROM {name}").fetchall())
        request = {"tables": TablePatterns.parse(["shop.item", "shop.part", name])}
        landed(engine, server.wal_directory, backup, mirror, **request)
        assert sorted(values_of(read_parquet_table(mirror.place / name)["id"])) == held
        if what in NAMES:
            landed(engine, server.wal_directory, backup, changes, **request)
            assert sorted(values_of(read_parquet_table(changes.place / name)["id"])) == held
            return
        with pytest.warns(HeadwaterWarning, match="what it had before has not landed"):
            landed(engine, server.wal_directory, backup, changes, **request)
        assert values_of(read_parquet_table(changes.place / name)["id"]) == [30]
