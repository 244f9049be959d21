"""The catalog of a running server instead of a backup: exported while transactions change it, then joined with WAL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bad_input.command import CommandHere
from bad_input.servers import SLOT, copy_wal, peek, run, small_server, value
from headwater.catalog.origin import CatalogOrigin
from headwater.cli.catalog import run_export
from headwater.demo.embedded_postgres import EmbeddedPostgres
from headwater.slots.kept_state import KeptState
from headwater.slots.value_file import load_value

pytestmark = [pytest.mark.server]

ROLE = "exporter"
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"


def dsn(server: EmbeddedPostgres, database: str = "postgres", role: str = ROLE) -> str:
    """As a user gives it."""
    return " ".join(f"{name}={word}" for name, word in {**server.connection_info(database), "user": role}.items())


def export(server: EmbeddedPostgres, file: Path, database: str = "postgres") -> CatalogOrigin:
    """Write the catalog to a file; what it says of itself."""
    run_export(dsn(server, database), file, checkpoint=False)
    return load_value(file, KeptState).state.catalog.origin


def wait_for(server: EmbeddedPostgres, waiting: int) -> None:
    """Until so many sessions wait for a transaction to end."""
    with server.connect() as connection:
        while connection.execute(WAITING).fetchone() != (waiting,):
            connection.execute("SELECT pg_sleep(0.01)")


@contextmanager
def in_threads(*calls: Callable[[], Any]) -> Iterator[None]:
    """Calls that run while the block does, and end with it."""
    failures: list[BaseException] = []

    def running(call: Callable[[], Any]) -> None:
        try:
            call()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=running, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


# -- transactions that run across it


SET_UP = """
CREATE ROLE exporter LOGIN REPLICATION;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN price AS numeric(10,2);
CREATE TABLE t (id int PRIMARY KEY, a text);
CREATE TABLE old (id int PRIMARY KEY, a text);
CREATE TABLE cut (id int PRIMARY KEY, a text, b int);
INSERT INTO old VALUES (1, 'short');
ALTER TABLE old ADD n int DEFAULT -7, ADD q text DEFAULT 'it''s \\ here', ADD j jsonb DEFAULT '{"a": [1, "b"]}',
    ADD l int[] DEFAULT '{1,NULL,3}', ADD p price DEFAULT 1.5, ADD m mood DEFAULT 'ok', ADD c char(3) DEFAULT 'z',
    ADD u uuid DEFAULT '00000000-0000-0000-0000-0000000000ff', ADD f float8 DEFAULT 0.1, ADD y "char" DEFAULT 'y',
    ADD b bit(5) DEFAULT '10101', ADD w timestamptz DEFAULT '2026-01-02 03:04:05+00', ADD s text[] DEFAULT '{"x y",z}';
CREATE PUBLICATION pub FOR TABLE t, old, cut;
CREATE TABLE r (id int, a text);
ALTER TABLE r REPLICA IDENTITY FULL;
INSERT INTO r VALUES (1, 'full')
"""


@dataclass(frozen=True)
class Exported:
    """A catalog that was exported while transactions changed it.

    Attributes:
        file: the export.
        wal: ``pg_wal`` at the end.
        slot: position of a slot that was made at the same time.
        text: what it says with test_decoding.
        ran_on: what a slot says that was made after it.
    """

    file: Path
    wal: Path
    slot: str
    text: bytes
    origin: CatalogOrigin


@pytest.fixture(
    scope="module",
    params=[(16, False), (15, True), (18, False), pytest.param((18, True), marks=pytest.mark.slow)],
    ids=lambda p: f"pg{p[0]}{'-checkpoint' if p[1] else ''}",
)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    major, checkpoint = request.param
    directory = tmp_path_factory.mktemp("exported")
    with small_server(major) as server:
        run(server, *(statement for statement in SET_UP.split(";\n") if statement.strip()))
        _leave_garbage(server)
        if checkpoint:
            run(server, "CHECKPOINT")
        origin = _export_across(server, directory / "catalog")
        _work_on(server)
        slot = value(server, "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 's'")
        text = peek(server, "s")
        server.stop()
        return Exported(directory / "catalog", copy_wal(server, directory / "wal"), slot, text, origin)


def _leave_garbage(server: EmbeddedPostgres) -> None:
    """Rows of catalogs that nobody sees any more, and that no hint bit calls dead."""
    for end in ("ROLLBACK", "COMMIT"):
        run(server, "BEGIN", *(f"CREATE TABLE gone{i} (a int, b text)" for i in range(20)), end)
    for i in range(20):
        run(server, f"ALTER TABLE gone{i} RENAME b TO c", f"ALTER TABLE gone{i} DROP a")
    run(server, *(f"DROP TABLE gone{i}" for i in range(10)))
    run(server, "BEGIN", "ALTER TABLE t RENAME a TO rolled_back", "ROLLBACK")


def _export_across(server: EmbeddedPostgres, file: Path) -> CatalogOrigin:
    """Export while one transaction after the other ends; the third is open when the snapshot is taken."""
    found: list[CatalogOrigin] = []

    def make_slot_beside() -> None:
        with server.connect() as connection:
            connection.execute(SLOT, ["s"])

    with server.connect() as first, server.connect() as second, server.connect() as third:
        first.execute("BEGIN")
        first.execute("ALTER TABLE t ADD first int; INSERT INTO t VALUES (1, 'first', 1)")
        with in_threads(lambda: found.append(export(server, file)), make_slot_beside):
            wait_for(server, 2)
            second.execute("BEGIN; INSERT INTO cut VALUES (0, 'second', 0)")
            first.execute("COMMIT")
            wait_for(server, 2)
            # Not before: the server's own slot loses what a transaction does to the catalog until the first has ended.
            second.execute("ALTER TABLE cut DROP b; CREATE TABLE made (id int PRIMARY KEY, m mood)")
            third.execute("BEGIN")
            third.execute("INSERT INTO old VALUES (2, 'before'); ALTER TABLE old RENAME a TO third")
            third.execute("CREATE TABLE late (id int PRIMARY KEY, a text DEFAULT 'late')")
            third.execute("SAVEPOINT s; ALTER TABLE old ADD undone int; ROLLBACK TO s")
            third.execute("INSERT INTO late VALUES (1); UPDATE old SET n = 8 WHERE id = 1")
            second.execute("COMMIT")
        third.execute("ALTER TABLE late ADD b int; INSERT INTO late VALUES (2, 'more', 2); ALTER TABLE r RENAME a TO z")
        run(server, "INSERT INTO cut VALUES (1, 'meanwhile')", "INSERT INTO made VALUES (1, 'sad')")
        third.execute("INSERT INTO r VALUES (2, 'third'); INSERT INTO made VALUES (2, 'ok'); COMMIT")
    return found[0]


def _work_on(server: EmbeddedPostgres) -> None:
    """Changes of all that the export has seen, and of catalogs' pages that nothing has changed since the checkpoint."""
    run(
        server,
        "UPDATE old SET third = 'touched'",
        "INSERT INTO t VALUES (3, 'three', 3)",
        "ALTER TYPE mood ADD VALUE 'fine'",
        "INSERT INTO made VALUES (3, 'fine')",
        "VACUUM pg_class, pg_attribute, pg_type",
        *(f"ALTER TABLE gone{i} RENAME c TO d" for i in range(10, 15)),
        *(f"INSERT INTO gone{i} VALUES ('{i}')" for i in range(10, 20)),
        "VACUUM FULL pg_class",
        "ALTER TABLE t RENAME TO renamed",
        "INSERT INTO renamed VALUES (4, 'four', 4)",
        "VACUUM FULL pg_attribute",
        "CHECKPOINT",
        "ALTER TABLE cut ADD back text",
        "INSERT INTO cut VALUES (2, 'two', 'back')",
        "DELETE FROM r",
    )


@pytest.mark.parametrize("flag", ["--catalog", "--from-state"])
def test_joins_the_wal(headwater: CommandHere, exported: Exported, flag: str) -> None:
    found = headwater("--wal", exported.wal, flag, exported.file, "--with-lsn").check_passed()
    assert found == exported.text


@pytest.mark.parametrize("window", [1 << 20])
def test_in_small_windows(headwater: CommandHere, exported: Exported, window: int) -> None:
    run = headwater("--wal", exported.wal, "--catalog", exported.file, "--with-lsn", "--window-bytes", str(window))
    assert run.check_passed() == exported.text
