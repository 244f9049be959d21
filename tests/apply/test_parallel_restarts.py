"""Sessions that apply at a time, killed anywhere with their worker or their target: nothing is lost, nothing is twice.

The tables say so themselves: see ``test_restarts.py``. Writers do not wait for each other, but for rows that several of
them change. Each numbers its own transactions, so that in the source's order there is never a gap.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from apply.differential import OURS, SOURCE_DATABASE, Applying, Differential, differential, rows_of, source_rows
from headwater.apply.incoming.parallel_options import COMMIT, KEYS, ORDERS
from serving.service import wait_until
from working_sessions import WorkingSessions

pytestmark = pytest.mark.server

TABLES = (
    "CREATE TABLE log (writer int, at int, part int)",
    "CREATE TABLE own (id int PRIMARY KEY, total bigint)",
    "CREATE TABLE shared (id int PRIMARY KEY, total bigint)",
    "CREATE TABLE named (id int PRIMARY KEY, name text UNIQUE)",
    "INSERT INTO shared SELECT i, 0 FROM generate_series(0, 4) i",
)
DRIVER = Path(__file__).with_name("killed_apply.py")
WRITERS = 3
MOST_STEPS = 400
"""That a run does before it is killed."""
END_SECONDS = 60
KILLS = [*(pytest.param(6, order) for order in ORDERS)]
KILLS += [pytest.param(60, order, marks=pytest.mark.slow) for order in ORDERS]


class Writers(WorkingSessions):
    """Sessions that write.

    Args:
        connect: opens a session; seed: says what is written.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], seed: int) -> None:
        super().__init__(range(WRITERS))
        self._connect, self._seed = connect, seed

    def _run(self, number: int) -> None:
        chance = random.Random(f"{self._seed} {number}")
        with self._connect() as session:
            for at in count(1):
                session.execute(_transaction(chance, number, at).encode())
                if self._is_over.wait(0.01):
                    break


def _transaction(chance: random.Random, writer: int, at: int) -> str:
    row = writer * 1000 + chance.randint(0, 40)
    parts = [
        f"INSERT INTO log SELECT {writer}, {at}, i FROM generate_series(1, 3) i",
        f"INSERT INTO own VALUES ({row}, 1) ON CONFLICT (id) DO UPDATE SET total = own.total + 1",
    ]
    if chance.random() < 0.3:
        parts.append(f"UPDATE shared SET total = total + 1 WHERE id = {chance.randint(0, 4)}")
    if chance.random() < 0.05:
        parts.append(f"DELETE FROM own WHERE id = {writer * 1000 + chance.randint(0, 40)} AND total % 3 = 0")
    if chance.random() < 0.01:
        name = f"INSERT INTO named VALUES ({row}, 'w{writer} {at % 3}')"
        parts += [f"DELETE FROM named WHERE id = {row} OR name = 'w{writer} {at % 3}'", name]
    return "; ".join(["BEGIN", *parts, "COMMIT"])


def flags_of(order: str) -> list[str]:
    """Return the flags of an order."""
    return ["--workers", "3", "--order", order]


@pytest.mark.parametrize(("kills", "order"), KILLS)
def test_a_worker_that_is_killed(tmp_path: Path, kills: int, order: str) -> None:
    """Half of the kills are at a step of its own, half at any moment; each finds work that was written meanwhile."""
    chance = random.Random(kills)
    with differential(tmp_path, (18, 18), TABLES, flags=flags_of(order)) as pair:
        worker = pair.worker
        with Writers(pair.publisher.connect, kills):
            for kill in range(kills):
                if worker.process.poll() is None:
                    worker.stop(signal.SIGKILL)
                time.sleep(chance.random() * 0.4)
                _start(worker, chance.randint(1, MOST_STEPS) if kill % 2 else 0)
                if kill % 2:
                    assert worker.process.wait(END_SECONDS) == -signal.SIGKILL, worker.text()
                else:
                    wait_until(lambda: _has_session(pair))
                    time.sleep(chance.random() * 0.5)
                    worker.stop(signal.SIGKILL)
                require_one_history(pair, order)
        _start(worker, 0)
        pair.catch_up(is_clean=False)
        pair.compare()
        assert rows_of(pair.target, "SELECT * FROM headwater.applied_ahead", OURS) == []


@pytest.mark.parametrize(
    ("crashes", "order"), [(3, KEYS), *(pytest.param(25, order, marks=pytest.mark.slow) for order in ORDERS)]
)
def test_a_target_that_crashes(tmp_path: Path, crashes: int, order: str) -> None:
    """Commits that were not on disk are lost with it; the source still has them, as they were not confirmed."""
    settings = {"wal_writer_delay": "2s", "wal_writer_flush_after": "0"}
    chance = random.Random(crashes)
    with differential(tmp_path, (16, 16), TABLES, flags=flags_of(order), is_apart=True, settings=settings) as pair:
        worker = pair.worker
        worker.stop(signal.SIGKILL)
        _start(worker, 0)
        with Writers(pair.publisher.connect, crashes):
            for _ in range(crashes):
                wait_until(lambda: _has_session(pair))
                time.sleep(chance.random())
                pair.target.crash()
                pair.target.start()
                require_one_history(pair, order)
        pair.catch_up(is_clean=False)
        pair.compare()
        for table in ("log", "own", "shared", "named"):
            assert source_rows(pair.target, OURS, table) == source_rows(pair.publisher, SOURCE_DATABASE, table)


def _start(worker: Applying, step: int) -> None:
    """Start it; it kills itself at a step, or not."""
    worker.program = (str(DRIVER), "small", str(step))
    worker.start()


def _has_session(pair: Differential) -> bool:
    query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'headwater apply ours'"
    return bool(rows_of(pair.target, query))


def require_one_history(pair: Differential, order: str) -> None:
    """Require that the target has whole transactions, each once; in the source's order of each writer no gap."""
    doubles = "SELECT writer, at, part FROM log GROUP BY 1, 2, 3 HAVING count(*) > 1"
    parts = "SELECT writer, at FROM log GROUP BY 1, 2 HAVING count(*) <> 3"
    gaps = "SELECT writer, count(*), max(at) FROM log GROUP BY 1 HAVING count(*) <> 3 * max(at)"
    for query in (doubles, parts, *([gaps] if order == COMMIT else [])):
        assert rows_of(pair.target, query, OURS) == []
