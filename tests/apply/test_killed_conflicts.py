"""Conflicts that are resolved while several sessions apply, killed anywhere: all is as if nothing had been killed.

The same slot's stream goes to two databases of the target: to one through kills of the worker, or of the target, to
the other one by one in one session. Rows, conflicts that are noted, and dead letters are the same.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from apply.conflicting_work import (
    FLAGS,
    OF_SOURCE,
    OF_TARGET,
    TABLES,
    WRITERS,
    contents,
    require_rows_of_source,
    require_same,
    require_whole,
    transaction,
)
from apply.differential import OURS, SOURCE_DATABASE, Applying, place, rows_of, server_of
from apply.killed_servers import SESSIONS, Writing, answers, crash, end_session, kill_session
from headwater.apply.incoming.parallel_options import COMMIT, KEYS, ORDERS
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import wait_until

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1200)]

CALM = "calm"
"""The database, subscription and slot that nothing disturbs."""
DRIVER = Path(__file__).with_name("killed_apply.py")
MOST_STEPS = 400
END_SECONDS = 500
LOST = {"wal_writer_delay": "2s", "wal_writer_flush_after": "0"}
STREAMED = {"logical_decoding_work_mem": "64kB"}
ROWS, PARTS = 200, 5
"""Of a large transaction: rows in each part, of which some are rolled back."""
LASTING = ROWS * len([part for part in range(PARTS) if part % 3 != 1])


class Pair:
    """A publisher and a target with the databases of both subscriptions, whose slots were made at the same time.

    Args:
        publisher, target: run; log: file that ours writes to; flags: more of ours.
    """

    def __init__(self, publisher: EmbeddedPostgres, target: EmbeddedPostgres, log: Path, *flags: str) -> None:
        self.publisher, self.target, self._flags = publisher, target, flags
        for database in (OURS, CALM):
            rows_of(target, f"CREATE DATABASE {database}")
            for statement in (*TABLES, *OF_TARGET):
                rows_of(target, statement, database)
        for statement in (*TABLES, *OF_SOURCE, "CREATE PUBLICATION p FOR ALL TABLES"):
            rows_of(publisher, statement)
        for slot in (OURS, CALM):
            rows_of(publisher, f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
        self.worker = self.applying(OURS, log, *flags)

    def applying(self, subscription: str, log: Path, *flags: str) -> Applying:
        """Make a run, not yet started."""
        ends = (place(self.publisher, SOURCE_DATABASE), place(self.target, subscription))
        return Applying(*ends, log, *FLAGS, *flags, subscription=subscription)

    def end(self) -> str:
        """Return the end of the publisher's WAL, behind which there is one more record."""
        message = "SELECT pg_logical_emit_message(true, 'x', '')"
        rows_of(self.publisher, message)
        ((end,),) = rows_of(self.publisher, "SELECT pg_current_wal_flush_lsn()::text")
        rows_of(self.publisher, message)
        return str(end)

    def finish(self, log: Path) -> None:
        """Apply what is left, and all of it to the other database; both have the same then."""
        end = self.end()
        calm_log = log.with_name("calm.log")
        for run in (self.applying(OURS, log, *self._flags), self.applying(CALM, calm_log, "--no-batches")):
            run.flags += ["--end", end]
            with run:
                assert run.process.wait(END_SECONDS) == 0
        actual, expected = contents(self.target, OURS), contents(self.target, CALM)
        require_rows_of_source(self.publisher, expected)
        require_same(actual, expected)
        assert len(expected["conflicts"]) > 10
        assert len(expected["dead letters"]) > 0
        assert rows_of(self.target, "SELECT * FROM headwater.applied_ahead", OURS) == []
        assert rows_of(self.target, "SELECT gid FROM pg_prepared_xacts") == []

    def sessions(self) -> int:
        """Return in how many sessions rows of the log were applied: each has an origin."""
        query = "SELECT count(DISTINCT s.roident) FROM log, pg_xact_commit_timestamp_origin(log.xmin) s"
        ((count,),) = rows_of(self.target, query, OURS)
        return int(count)


@contextmanager
def pair_of(major: int, log: Path, *flags: str, **settings: str) -> Iterator[Pair]:
    """Start the servers of a major."""
    with server_of(major, **settings) as publisher, server_of(major, **settings) as target:
        yield Pair(publisher, target, log, *flags)


def large(writer: int, at: int) -> str:
    """Return a large transaction."""
    return transaction(writer, at, rows=ROWS, parts=PARTS, met=0.08)


def mixed(writer: int, at: int) -> str:
    """Return a transaction, which is a large one now and then."""
    return large(writer, at) if writer == 0 and at % 8 == 0 else transaction(writer, at)


def worker_killed(pair: Pair, chance: random.Random) -> None:
    """Kill the worker, at a step of its own or at any moment; start it again."""
    worker, at_step = pair.worker, chance.random() < 0.5
    worker.stop(signal.SIGKILL)
    worker.program = (str(DRIVER), "small", str(chance.randint(1, MOST_STEPS) if at_step else 0))
    worker.start()
    if at_step:
        assert worker.process.wait(END_SECONDS) == -signal.SIGKILL, worker.text()[-3000:]
    else:
        wait_until(lambda: rows_of(pair.target, SESSIONS) != [])
        time.sleep(chance.random() * 0.5)
        worker.stop(signal.SIGKILL)
    worker.program = (str(DRIVER), "small", "0")
    worker.start()


def target_killed(pair: Pair, chance: random.Random) -> None:
    """Kill the target, or the processes of sessions, or end these; the worker connects again by itself."""
    wait_until(lambda: answers(pair.target) and rows_of(pair.target, SESSIONS) != [])
    time.sleep(chance.random() * 0.7)
    chance.choice((crash, kill_session, end_session))(pair.target)
    assert pair.worker.process.poll() is None, pair.worker.text()[-3000:]


WAYS: dict[str, Callable[[Pair, random.Random], None]] = {"worker": worker_killed, "target": target_killed}


@contextmanager
def writing(pair: Pair, of_writer: Callable[[int, int], str], pace: float) -> Iterator[list[Writing]]:
    """Let all writers write."""
    with ExitStack() as stack:
        made = [Writing(pair.publisher.connect, partial(of_writer, number), pace) for number in range(WRITERS)]
        yield [stack.enter_context(each) for each in made]


def go_through_kills(pair: Pair, way: str, kills: int, require: Callable[[], None]) -> None:
    """Kill something again and again."""
    chance = random.Random(f"{way} {kills}")
    worker = pair.worker
    worker.program = (str(DRIVER), "small", "0")
    with worker:
        for _ in range(kills):
            WAYS[way](pair, chance)
            require()
        worker.stop(signal.SIGKILL)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("major", "way", "kills"), [(18, "worker", 40), (18, "target", 20), (16, "worker", 20)])
def test_sessions_that_apply_at_a_time(tmp_path: Path, major: int, way: str, kills: int, order: str) -> None:
    settings = LOST if way == "target" else {}
    with pair_of(major, tmp_path / "log", "--workers", "3", "--order", order, **settings) as pair:
        with writing(pair, transaction, 0.05):
            require = partial(require_whole, pair.target, OURS, "3", has_gaps=order == KEYS)
            go_through_kills(pair, way, kills, require)
        pair.finish(tmp_path / "log")
        assert pair.sessions() > 2


@pytest.mark.parametrize("mode", ["parallel", "on"])
@pytest.mark.parametrize(("major", "way", "kills"), [(18, "worker", 30), (16, "target", 15)])
def test_transactions_that_come_before_they_end(tmp_path: Path, major: int, way: str, kills: int, mode: str) -> None:
    flags = ("--streaming", mode, "--max-parallel-apply-workers", "3")
    settings = STREAMED | (LOST if way == "target" else {})
    with pair_of(major, tmp_path / "log", *flags, **settings) as pair:
        with writing(pair, large, 1.0):
            require = partial(require_whole, pair.target, OURS, str(LASTING), has_gaps=False)
            go_through_kills(pair, way, kills, require)
        pair.finish(tmp_path / "log")
        assert (pair.sessions() > 1) == (mode == "parallel")


@pytest.mark.parametrize(
    ("order", "way", "kills"), [(COMMIT, "worker", 20), (KEYS, "worker", 20), (KEYS, "target", 15)]
)
def test_both(tmp_path: Path, order: str, way: str, kills: int) -> None:
    flags = ("--workers", "3", "--order", order, "--streaming", "parallel")
    settings = STREAMED | (LOST if way == "target" else {})
    with pair_of(18, tmp_path / "log", *flags, **settings) as pair:
        with writing(pair, mixed, 0.2):
            rows = f"CASE WHEN writer = 0 AND at % 8 = 0 THEN {LASTING} ELSE 3 END"
            require = partial(require_whole, pair.target, OURS, rows, has_gaps=order == KEYS)
            go_through_kills(pair, way, kills, require)
        pair.finish(tmp_path / "log")
        assert pair.sessions() > 2
