"""Kills around a table that ``--ddl hold`` holds: of the worker, the target and the source, from a slot and from WAL.

Each round the source's table gets a column. It is held until the target's has it, too, while another table goes on. At
any moment one of the three is killed. Neither table has a key: what is lost or comes twice is seen by its rows.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from apply.differential import SOURCE_DATABASE, place, rows_of, server_of
from apply.killed_servers import Writing, crash, end_session, kill_session
from forked_commands import MAIN, ForkedCommand
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import END_SECONDS, backup_of, wait_until

pytestmark = [pytest.mark.server, pytest.mark.slow]

TABLES = ("CREATE TABLE held (at int, part int)", "CREATE TABLE other (at int, part int)")
PUBLICATION = "CREATE PUBLICATION p FOR ALL TABLES"
LOST = {"wal_writer_delay": "2s", "wal_writer_flush_after": "0"}
ROUNDS, KILLS_A_ROUND = 5, 3
STATE = "SELECT srsubstate::text FROM headwater.subscription_rel WHERE relname = 'held'"


class Worker:
    """``headwater apply`` as a process that is killed and started again; a context manager that ends it."""

    def __init__(self, words: list[str], log: Path) -> None:
        self._words, self.log = words, log

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT if kind is None else signal.SIGABRT)
            self.process.wait(END_SECONDS)
        if kind is not None:
            print(self.log.read_text(errors="replace")[-6000:])

    def start(self) -> None:
        """Start it."""
        with self.log.open("ab") as log:
            self.process = ForkedCommand([*MAIN, *self._words], stderr=log)

    def kill(self) -> None:
        """Kill it, and start it again."""
        self.process.kill()
        self.process.wait(END_SECONDS)
        self.start()


def words_of(publisher: EmbeddedPostgres, target: EmbeddedPostgres, directory: Path, *, is_log: bool) -> list[str]:
    """Return the command's arguments."""
    words = ["apply", "--to", place(target, SOURCE_DATABASE), "--publication", "p", "--retry-interval", "0.2"]
    words += ["--ddl", "hold"]
    if not is_log:
        return [*words, "--from", place(publisher, SOURCE_DATABASE)]
    backup = backup_of(publisher, directory / "backup")
    words += ["--wal", str(publisher.wal_directory), "--catalog", str(backup), "--slots", str(directory / "slots")]
    return [*words, "--database", SOURCE_DATABASE]


def transaction(number: int) -> str:
    """Return a transaction of both tables."""
    values = f"SELECT {number}, g FROM generate_series(1, 3) g"
    return f"BEGIN; INSERT INTO held (at, part) {values}; INSERT INTO other (at, part) {values}; COMMIT"


def state_of(target: EmbeddedPostgres) -> str:
    """Return the state of the table; empty while there is none, or the target does not answer."""
    try:
        return "".join(state for (state,) in rows_of(target, STATE))
    except psycopg.Error:
        return ""


def kills_of(worker: Worker, publisher: EmbeddedPostgres, target: EmbeddedPostgres) -> list[Callable[[], None]]:
    """Return ways to kill."""
    return [
        worker.kill,
        lambda: crash(target),
        lambda: kill_session(target),
        lambda: end_session(target),
        lambda: crash(publisher),
    ]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("major", "is_log"), [(16, False), (18, False), (18, True)], ids=["16", "18", "WAL of 18"])
def test_nothing_is_lost_or_twice(tmp_path: Path, major: int, is_log: bool, seed: int) -> None:
    chance = random.Random(f"{major} {is_log} {seed}")
    with server_of(major) as publisher, server_of(major, **LOST) as target:
        for server in (publisher, target):
            for statement in TABLES:
                rows_of(server, statement)
        rows_of(publisher, PUBLICATION)
        words = words_of(publisher, target, tmp_path, is_log=is_log)
        with Worker(words, tmp_path / "log") as worker:
            kills = kills_of(worker, publisher, target)
            with Writing(publisher.connect, transaction, pace=0.02):
                for turn in range(ROUNDS):
                    wait_until(lambda: state_of(target) == "r")
                    rows_of(publisher, f"ALTER TABLE held ADD COLUMN c{turn} int DEFAULT {turn}")
                    for _ in range(KILLS_A_ROUND):
                        time.sleep(chance.random() * 0.8)
                        chance.choice(kills)()
                    wait_until(lambda: state_of(target) not in ("r", ""))
                    goes_on(publisher, target, "other")
                    rows_of(target, f"ALTER TABLE held ADD COLUMN c{turn} int DEFAULT {turn}")
                    for _ in range(KILLS_A_ROUND):
                        time.sleep(chance.random() * 0.5)
                        chance.choice(kills)()
            goes_on(publisher, target, "held", "other")
            for table in ("held", "other"):
                query = f"SELECT * FROM {table} ORDER BY at, part"
                assert rows_of(target, query) == rows_of(publisher, query), table


def count_of(server: EmbeddedPostgres, table: str) -> int:
    """Count a table's rows; -1 while the server does not answer."""
    try:
        return int(rows_of(server, f"SELECT count(*) FROM {table}")[0][0])
    except psycopg.Error:
        return -1


def goes_on(publisher: EmbeddedPostgres, target: EmbeddedPostgres, *tables: str) -> None:
    """Wait until tables have what the source has now, as long as more and more comes."""
    wanted, there = [count_of(publisher, table) for table in tables], [-1]
    while any(count < least for count, least in zip(there, wanted, strict=False)):
        before = list(there)

        def has_more(before: list[int] = before) -> bool:
            rows_of(publisher, "SELECT pg_logical_emit_message(true, 'x', '')")
            there[:] = [count_of(target, table) for table in tables]
            return there != before

        wait_until(has_more)
