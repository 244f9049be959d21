"""Transactions that come before they end: the same rows as a stock subscription with the same option."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import pytest

from apply.noted_conflicts import conflicts_in, conflicts_in_log, without_conflicts
from apply.streamed_work import OURS, STOCK, Applying, Pair, contents, run_in, servers_of, work
from bad_input.servers import value
from serving.service import content, wait_until

pytestmark = pytest.mark.server

TRANSACTIONS = 6
"""Of each of the writers."""

RUNNING_AHEAD = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = %s AND application_name LIKE '%%parallel%%' AND state = 'idle in transaction'
"""

OF_ABORTED = {
    f'conflict detected on relation "public.rows": conflict={kind}' for kind in ("update_missing", "delete_missing")
}
"""Conflicts of what is rolled back: a publisher that sees an abort ahead of it stops in the midst of its changes.

What comes of the same subtransaction in the next block is about rows that never came. It is rolled back, too. Where the
publisher stands by then is a matter of time, so each subscription meets other conflicts.
"""


@pytest.mark.parametrize(
    ("majors", "mode"),
    [((18, 18), "parallel"), ((14, 16), "on"), ((16, 16), "parallel"), ((18, 14), "on"), ((14, 18), "parallel")],
)
def test_random_transactions(tmp_path: Path, majors: tuple[int, int], mode: str) -> None:
    with servers_of(*majors) as (publisher, target):
        pair = Pair(publisher, target, f"streaming = {mode}")
        with pair.applying(tmp_path / "log", "--streaming", mode) as applying:
            work(publisher, 1, TRANSACTIONS)
            pair.catch_up()
            pair.compare()
            assert pair.streamed(OURS) > 5
            assert without_conflicts(applying.text()) == ""
            logged = target.log_file.read_text(errors="replace")
            assert set(conflicts_in(applying.text()) + conflicts_in_log(logged)) <= OF_ABORTED
        pair.drop_subscription()


@pytest.mark.parametrize(
    ("majors", "mode"), [((18, 18), "parallel"), ((15, 15), "on"), ((16, 18), "parallel"), ((18, 16), "parallel")]
)
def test_random_transactions_that_are_prepared(tmp_path: Path, majors: tuple[int, int], mode: str) -> None:
    with servers_of(*majors) as (publisher, target):
        pair = Pair(publisher, target, f"streaming = {mode}", two_phase=True)
        with pair.applying(tmp_path / "log", "--streaming", mode, "--two-phase") as applying:
            work(publisher, 2, TRANSACTIONS, prepares=True)
            pair.catch_up()
            pair.compare()
            assert without_conflicts(applying.text()) == ""
        pair.drop_subscription()


@pytest.mark.parametrize("mode", ["on", "parallel"])
def test_killed_amid_streamed_transactions(tmp_path: Path, mode: str) -> None:
    with servers_of(18, 18) as (publisher, target):
        pair = Pair(publisher, target, f"streaming = {mode}")
        with pair.applying(tmp_path / "log", "--streaming", mode) as applying:
            pair.catch_up(OURS)
            with publisher.connect() as session:
                session.autocommit = True
                for round in range(4):
                    streamed = pair.streamed(OURS)
                    session.execute("BEGIN")
                    numbers = f"generate_series({round * 10_000}, {round * 10_000 + 5000})"
                    session.execute(f"INSERT INTO rows SELECT i, 1, repeat('x', 200) FROM {numbers} i".encode())
                    wait_until(partial(has_streamed_more, pair, streamed))
                    if round % 2:
                        session.execute("COMMIT")
                    applying.stop(signal.SIGKILL)
                    if not round % 2:
                        session.execute("COMMIT")
                    applying.start()
            pair.catch_up()
            pair.compare()
        pair.drop_subscription()


def test_locks_in_the_way(tmp_path: Path) -> None:
    """A key that only the target wants to be unique lets what commits first wait for what runs ahead of its commit."""
    unique = ("CREATE UNIQUE INDEX ON rows (note)",)
    with servers_of(18, 18) as (publisher, target):
        pair = Pair(publisher, target, "streaming = off", more=unique)
        with pair.applying(tmp_path / "log", "--streaming", "parallel") as applying:
            with publisher.connect() as session:
                session.autocommit = True
                session.execute("BEGIN")
                session.execute(
                    "INSERT INTO rows SELECT i, 1, 'n' || i || repeat('x', 200) FROM generate_series(1, 2000) i"
                )
                session.execute("SAVEPOINT a")
                session.execute("UPDATE rows SET note = 'moved' || id")
                wait_until(lambda: value(target, RUNNING_AHEAD, [OURS]) == "1")
                run_in(publisher, "postgres", "INSERT INTO rows VALUES (-1, 1, 'n7' || repeat('x', 200))")
                run_in(publisher, "postgres", "DELETE FROM rows WHERE id = -1")
                pair.catch_up(OURS)
                session.execute("COMMIT")
            pair.catch_up()
            pair.compare()
            assert applying.text() == ""
        pair.drop_subscription()


@pytest.mark.parametrize("mode", ["on", "parallel"])
def test_runs_are_folded(tmp_path: Path, mode: str) -> None:
    with servers_of(18, 18) as (publisher, target):
        pair = Pair(publisher, target, f"streaming = {mode}")
        with pair.applying(tmp_path / "log", "--streaming", mode) as applying:
            with publisher.connect() as session:
                session.execute("BEGIN")
                session.execute("INSERT INTO rows SELECT i, 1, repeat('x', 20) FROM generate_series(1, 50000) i")
                session.execute("SAVEPOINT a")
                session.execute("UPDATE rows SET note = 'in ' || id WHERE id % 2 = 0")
                session.execute("SAVEPOINT b")
                session.execute("DELETE FROM rows WHERE id % 3 = 0")
                session.execute("ROLLBACK TO a")
                session.execute("UPDATE rows SET note = 'out ' || id WHERE id % 5 = 0")
                session.execute("COMMIT")
            pair.catch_up()
            pair.compare()
            # Each run is behind a savepoint, of which its rows have the number.
            with target.connect(OURS) as session:
                assert session.execute("SELECT count(DISTINCT xmin::text) > 2 FROM rows").fetchall() == [(True,)]
            assert applying.text() == ""
        pair.drop_subscription()


def test_memory_is_bounded(tmp_path: Path) -> None:
    """A transaction of 200 MB is kept in a file that no name leads to."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with servers_of(18, 18) as (publisher, target):
        pair = Pair(publisher, target, "streaming = off")
        pair.drop_subscription()
        with pair.applying(tmp_path / "log", "--streaming", "on", "--scratch", str(scratch)) as applying:
            # What it runs the first time has to be compiled first, maybe.
            run_in(publisher, "postgres", "INSERT INTO rows SELECT -i, 1, 'x' FROM generate_series(1, 1000) i")
            pair.catch_up(OURS)
            before = resident(applying)
            run_in(
                publisher,
                "postgres",
                "INSERT INTO rows SELECT i, 1, repeat('x', 20000) FROM generate_series(1, 10000) i",
            )
            pair.catch_up(OURS)
            assert list(scratch.iterdir()) == []
            assert resident(applying) - before < 150_000
        assert contents(target, OURS) == contents(publisher, "postgres")


def has_streamed_more(pair: Pair, streamed: int) -> bool:
    """Tell whether the publisher has streamed more transactions to ours than so many."""
    return pair.streamed(OURS) > streamed


def resident(applying: Applying) -> int:
    """Return the most memory that a process has had, in kB."""
    text = Path(f"/proc/{applying.process.pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0])


REFUSED = "INSERT INTO rows SELECT i, 1, repeat('x', 200) FROM generate_series(1, 2000) i"


@pytest.mark.parametrize("mode", ["on", "parallel"])
def test_what_the_target_refuses(tmp_path: Path, mode: str) -> None:
    """The error is that of a whole transaction, and the next attempt goes on from there."""
    with servers_of(18, 18) as (publisher, target):
        pair = Pair(publisher, target, f"streaming = {mode}", more=("INSERT INTO rows VALUES (1500, 1, 'own')",))
        with pair.applying(tmp_path / "log", "--streaming", mode) as applying:
            run_in(publisher, "postgres", REFUSED)
            wait_until(lambda: b"rows_pkey" in content(applying.log))
            run_in(target, OURS, "DELETE FROM rows")
            run_in(target, STOCK, "DELETE FROM rows")
            pair.catch_up()
            pair.compare()
            text = applying.text()
            assert 'conflict detected on relation "public.rows": conflict=insert_exists (SQLSTATE 23505)' in text
            assert 'Key already exists in unique index "rows_pkey", modified' in text
            assert 'during message type "INSERT" for replication target relation "public.rows" in transaction' in text
            assert ", finished at " in text
        pair.drop_subscription()
