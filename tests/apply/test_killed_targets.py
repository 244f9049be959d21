"""A target that is killed while conflicts are resolved: of each there is the row that won, and one line, or nothing.

Each transaction of the source meets three conflicts and, now and then, a row that the target refuses, which becomes a
dead letter. Triggers of the target make the moments long in which that is written.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from apply.differential import OURS, SOURCE_DATABASE, Applying, place, rows_of, server_of
from apply.killed_servers import SESSIONS, Writing, crash, end_session, kill_session, source_keys
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import wait_until

pytestmark = pytest.mark.server

ROWS = 20_000
REFUSED = 7
"""Of each so many rows one is refused."""
TABLES = (
    "CREATE TABLE log (at int, part int)",
    "CREATE TABLE taken (id int PRIMARY KEY, n int UNIQUE, who text)",
    "CREATE TABLE changed (id int PRIMARY KEY, who text)",
    "CREATE TABLE missing (id int PRIMARY KEY, who text)",
    "CREATE TABLE refused (id int PRIMARY KEY)",
)
OF_SOURCE = (
    f"INSERT INTO changed SELECT g, 'source' FROM generate_series(1, {ROWS}) g",
    f"INSERT INTO missing SELECT g, 'source' FROM generate_series(1, {ROWS}) g",
    "CREATE PUBLICATION p FOR ALL TABLES",
    f"SELECT pg_create_logical_replication_slot('{OURS}', 'pgoutput')",
)
SLOW = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_catalog.pg_sleep(random() * 0.004); RETURN NULL; END $$
"""
OF_TARGET = (
    f"INSERT INTO taken SELECT g, -g, 'local' FROM generate_series(1, {ROWS}) g",
    f"INSERT INTO changed SELECT g, 'local' FROM generate_series(1, {ROWS}) g",
    f"ALTER TABLE refused ADD CHECK (id % {REFUSED} <> 0)",
    SLOW,
    *(
        f"CREATE TRIGGER slow AFTER INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION slow(); "
        f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER slow"
        for table in ("taken", "changed")
    ),
)
OF_SCHEMA = (
    f"CREATE TRIGGER slow AFTER INSERT ON headwater.{table} FOR EACH ROW EXECUTE FUNCTION slow(); "
    f"ALTER TABLE headwater.{table} ENABLE ALWAYS TRIGGER slow"
    for table in ("conflicts", "dead_letters")
)
RULES = (
    "insert_exists=apply_remote",
    "update_origin_differs=apply_remote",
    "update_missing=apply_remote",
)
FLAGS = [word for rule in RULES for word in ("--conflict", rule)]
FLAGS += ["--log-conflicts", "table", "--dead-letters", "*.*"]
LOST = {"wal_writer_delay": "2s", "wal_writer_flush_after": "0"}
"""What is committed without waiting for the disk is not there yet when the server is killed."""


def transaction(number: int) -> str:
    """Return a transaction that meets three conflicts."""
    parts = [
        f"INSERT INTO log SELECT {number}, g FROM generate_series(1, 3) g",
        f"INSERT INTO taken VALUES ({number}, {number}, 'remote')",
        f"UPDATE changed SET who = 'remote' WHERE id = {number}",
        f"INSERT INTO refused VALUES ({number})",
        f"UPDATE missing SET who = 'remote' WHERE id = {number}",
    ]
    return "; ".join(["BEGIN", *parts, "COMMIT"])


def require_one_history(target: EmbeddedPostgres) -> list[int]:
    """Require that each transaction is there with all that has come of it, once, or not at all; return which are."""
    with target.connect(OURS) as session:
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")

        def keys(query: str) -> list[int]:
            return sorted(row[0] for row in session.execute(query.encode()).fetchall())

        there = keys("SELECT DISTINCT at FROM log")
        assert keys("SELECT at FROM log") == sorted(there * 3)
        for table in ("taken", "changed", "missing"):
            assert keys(f"SELECT id FROM {table} WHERE who = 'remote'") == there, table
        assert keys("SELECT id FROM refused") == [at for at in there if at % REFUSED]
        letters = "SELECT (new_tuple ->> 'id')::int FROM headwater.dead_letters"
        assert keys(letters) == [at for at in there if at % REFUSED == 0]
        for kind in ("insert_exists", "update_origin_differs", "update_missing"):
            noted = f"SELECT (remote_row ->> 'id')::int FROM headwater.conflicts WHERE kind = '{kind}'"
            assert keys(noted) == there, kind
        ((others,),) = session.execute(
            "SELECT count(*) FROM headwater.conflicts WHERE kind NOT IN "
            "('insert_exists', 'update_origin_differs', 'update_missing') OR resolution <> 'apply_remote'"
        ).fetchall()
        assert others == 0
    return there


WAYS: dict[str, Callable[[EmbeddedPostgres], None]] = {
    "crash": crash,
    "session killed": kill_session,
    "session ended": end_session,
}
CASES = [
    (way, kills, flags)
    for way, kills in (("crash", 20), ("session killed", 20), ("session ended", 15))
    for flags in ((), ("--no-batches",))
]


def _named(word: object) -> str:
    return ("one by one" if word else "batches") if isinstance(word, tuple) else str(word)


@pytest.mark.slow
@pytest.mark.parametrize(("way", "kills", "flags"), CASES, ids=_named)
@pytest.mark.parametrize("major", [16, 18])
def test_conflicts_are_resolved_once(tmp_path: Path, major: int, way: str, kills: int, flags: tuple[str, ...]) -> None:
    chance = random.Random(f"{major} {way} {flags}")
    with server_of(major) as publisher, server_of(major, **LOST) as target:
        rows_of(target, f"CREATE DATABASE {OURS}")
        for statement in (*TABLES, *OF_SOURCE):
            rows_of(publisher, statement)
        for statement in (*TABLES, *OF_TARGET):
            rows_of(target, statement, OURS)
        ends = (place(publisher, SOURCE_DATABASE), place(target, OURS))
        with Applying(*ends, tmp_path / "log", *FLAGS, *flags) as worker:
            wait_until(lambda: has_schema(target))
            for statement in OF_SCHEMA:
                rows_of(target, statement, OURS)
            with Writing(publisher.connect, transaction, pace=0.05) as writing:
                for _ in range(kills):
                    goes_on(writing, target)
                    time.sleep(chance.random() * 0.7)
                    WAYS[way](target)
                    require_one_history(target)
                    assert worker.process.poll() is None, worker.text()
            rows_of(publisher, "SELECT pg_logical_emit_message(true, 'x', '')")
            written = source_keys(publisher, "SELECT DISTINCT at FROM log")
            catch_up(target, written)
            assert len(written) > kills


def goes_on(writing: Writing, target: EmbeddedPostgres) -> None:
    """Wait until there is more to apply, and a session for it."""
    before = writing.done
    wait_until(lambda: writing.done > before and has_session(target))


def catch_up(target: EmbeddedPostgres, written: list[int]) -> None:
    """Wait until all transactions are there, as long as more and more of them are."""
    there: list[int] = []
    while there != written:
        before = len(there)

        def has_more(before: int = before) -> bool:
            there[:] = require_one_history(target)
            return len(there) > before

        wait_until(has_more)


def has_schema(target: EmbeddedPostgres) -> bool:
    """Tell whether the tables of the schema ``headwater`` are there."""
    return rows_of(target, "SELECT to_regclass('headwater.dead_letters') IS NOT NULL", OURS) == [(True,)]


def has_session(target: EmbeddedPostgres) -> bool:
    """Tell whether the worker has a session."""
    try:
        return rows_of(target, SESSIONS) != []
    except psycopg.Error:
        return False
