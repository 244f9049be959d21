"""Ordinary transactions applied in several sessions at a time: the same as one after the other."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pytest

from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from headwater.apply.incoming.parallel_options import COMMIT, KEYS, ORDERS, ParallelOptions
from headwater.apply.parallel import parallel_applier
from headwater.apply.worker import ApplyWorker
from headwater.errors import HeadwaterError, ServerError
from serving.service import wait_until

TABLES = (
    "CREATE TABLE s.account (id int PRIMARY KEY, n int NOT NULL, note text)",
    "CREATE TABLE s.hot (id int PRIMARY KEY, n bigint NOT NULL)",
    "CREATE TABLE s.log (account int, hot int, n int)",
    "CREATE TABLE s.named (id int PRIMARY KEY, name text UNIQUE)",
)
FILL = (
    "INSERT INTO s.account SELECT g, 0 FROM generate_series(1, 500) g",
    "INSERT INTO s.hot SELECT g, 0 FROM generate_series(1, 3) g",
    "INSERT INTO s.named SELECT g, 'name ' || g FROM generate_series(1, 30) g",
)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Run a server."""
    with pair_of(18, track_commit_timestamp="on") as started:
        yield started


@pytest.fixture(autouse=True)
def _small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_applier, "FEWEST_CHANGES", 20)
    monkeypatch.setattr(parallel_applier, "MOST_UNIT_CHANGES", 60)


def _begun(pair: Pair, more: Sequence[str] = ()) -> str:
    """Make the tables on both sides, with rows that were applied; return the slot."""
    pair.run(SOURCE, "DROP PUBLICATION IF EXISTS p")
    for database in (SOURCE, OURS):
        pair.run(database, "DROP SCHEMA IF EXISTS s CASCADE", "CREATE SCHEMA s", *TABLES)
    pair.run(SOURCE, "CREATE PUBLICATION p FOR TABLES IN SCHEMA s")
    _, slot = pair.slots()
    pair.run(SOURCE, *FILL)
    _apply(pair, slot, order=None)
    pair.run(OURS, *more)
    return slot


def _apply(pair: Pair, slot: str, order: str | None, lines: list[str] | None = None, **options: object) -> ApplyWorker:
    noted = lines if lines is not None else []
    errors: list[HeadwaterError] = []
    parallel = ParallelOptions() if order is None else ParallelOptions(3, order)
    worker = ApplyWorker(pair.request(slot, "p", parallel=parallel, **options), errors.append, noted.append)
    worker.run()
    assert errors == []
    return worker


def _work(pair: Pair, seed: int, transactions: int, named: float = 0.0) -> None:
    """Change rows in random small transactions, many of which have rows in common."""
    chance = random.Random(seed)
    statements = []
    for number in range(transactions):
        id, hot = chance.randint(1, 600), chance.randint(1, 3)
        parts = [
            f"INSERT INTO s.account VALUES ({id}, 1, 'new') ON CONFLICT (id) DO UPDATE SET n = account.n + 1",
            f"INSERT INTO s.log VALUES ({id}, {hot}, {number})",
        ]
        if chance.random() < 0.5:
            parts.append(f"UPDATE s.hot SET n = n + {number} WHERE id = {hot}")
        if chance.random() < 0.2:
            parts.append(f"DELETE FROM s.account WHERE id = {chance.randint(1, 600)}")
        if chance.random() < named:
            row = chance.randint(1, 40)
            parts.append(f"DELETE FROM s.named WHERE id = {row} OR name = 'name {row % 7}'")
            parts.append(f"INSERT INTO s.named VALUES ({row}, 'name {row % 7}')")
        chance.shuffle(parts[2:])
        statements.append("; ".join(["BEGIN", *parts, "COMMIT"]))
    pair.run(SOURCE, *statements)


@pytest.mark.parametrize("order", ORDERS)
def test_the_same_rows(pair: Pair, order: str) -> None:
    slot = _begun(pair)
    _work(pair, 1, 600)
    worker = _apply(pair, slot, order)
    assert pair.rows(OURS) == pair.rows(SOURCE)
    assert worker.batches.tried > 3
    assert worker.batches.fallbacks == 0


@pytest.mark.parametrize("order", ORDERS)
def test_unique_keys(pair: Pair, order: str) -> None:
    slot = _begun(pair)
    _work(pair, 2, 400, named=0.3)
    worker = _apply(pair, slot, order)
    assert pair.rows(OURS) == pair.rows(SOURCE)
    assert worker.batches.tried > 3


@contextmanager
def _locked(pair: Pair, statement: str) -> Iterator[Callable[[], object]]:
    """Hold locks on the target; give what lets go of them."""
    with pair.server.connect(OURS) as session:
        session.execute("BEGIN")
        session.execute(statement.encode())
        yield partial(session.execute, "ROLLBACK")


@contextmanager
def _applying(pair: Pair, slot: str, order: str, lines: list[str]) -> Iterator[ApplyWorker]:
    """Apply in a thread, to the end."""
    request = pair.request(slot, "p", parallel=ParallelOptions(3, order))
    worker = ApplyWorker(request, lambda error: lines.append(str(error)), lines.append)
    applying = threading.Thread(target=worker.run)
    applying.start()
    try:
        yield worker
        applying.join()
    finally:
        worker.stop()
        applying.join()


def _sessions(pair: Pair, condition: str) -> int:
    ((count,),) = pair.run(
        OURS,
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'headwater apply % unit %' AND " + condition,
    )
    return int(count)


@pytest.mark.parametrize("order", ORDERS)
def test_commits_come_in_their_order(pair: Pair, order: str) -> None:
    """The first transaction is held up by somebody's lock."""
    slot = _begun(pair)
    # The first transaction, of which tables are not known yet, is applied by itself.
    pair.run(SOURCE, "BEGIN; UPDATE s.account SET n = -1 WHERE id = 2; INSERT INTO s.log VALUES (0, 0, 0); COMMIT")
    pair.run(SOURCE, "UPDATE s.account SET n = -1 WHERE id = 1")
    pair.run(SOURCE, *(f"INSERT INTO s.log VALUES (0, 0, {number})" for number in range(1, 300)))
    lines: list[str] = []
    applied = "SELECT count(*), coalesce(max(n) + 1, 0) FROM s.log"
    lock = _locked(pair, "SELECT FROM s.account WHERE id = 1 FOR UPDATE")
    with lock as let_go, _applying(pair, slot, order, lines) as worker:
        wait_until(lambda: _sessions(pair, "wait_event_type = 'Lock'") == 1)
        if order == COMMIT:
            wait_until(lambda: _sessions(pair, "state = 'idle in transaction'") == 2)
            assert pair.run(OURS, applied) == [(1, 1)]
        else:
            wait_until(lambda: pair.run(OURS, applied)[0][0] >= 200)
        let_go()
        count = 0
        while count < 300:
            ((count, most),) = pair.run(OURS, applied)
            assert order != COMMIT or count == most
            assert lines == []
    assert lines == []
    assert pair.rows(OURS) == pair.rows(SOURCE)
    assert worker.batches.fallbacks == 0
    if order == COMMIT:
        ordered = "SELECT n, lag(n, 1, -1) OVER (ORDER BY pg_xact_commit_timestamp(xmin), n) FROM s.log"
        assert pair.run(OURS, f"SELECT bool_and(n > before) FROM ({ordered}) s(n, before)") == [(True,)]


FOREIGN_KEYS = (
    "CREATE TABLE s.parent (id int PRIMARY KEY)",
    "CREATE TABLE s.child (id int PRIMARY KEY, parent int)",
)
CHECKED = (
    "ALTER TABLE s.child ADD FOREIGN KEY (parent) REFERENCES s.parent",
    """DO $$ DECLARE own record; BEGIN
       FOR own IN SELECT tgrelid::regclass AS place, tgname FROM pg_trigger WHERE tgrelid::regclass::text ~ '^s' LOOP
           EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', own.place, own.tgname);
       END LOOP; END $$""",
)


@pytest.mark.parametrize("order", ORDERS)
def test_foreign_keys_that_are_checked(pair: Pair, order: str) -> None:
    """What a trigger of the target's locks or deletes depends on keys that are not sent: nothing is done at a time."""
    slot = _begun(pair)
    for database, more in ((SOURCE, ()), (OURS, CHECKED)):
        pair.run(database, *FOREIGN_KEYS, *more)
    parents = [f"INSERT INTO s.parent VALUES ({number})" for number in range(100)]
    children = [f"INSERT INTO s.child VALUES ({number}, {number % 100})" for number in range(300)]
    pair.run(SOURCE, *parents, *children, "UPDATE s.child SET parent = 2 WHERE parent = 1")
    pair.run(SOURCE, "DELETE FROM s.parent WHERE id = 1")
    worker = _apply(pair, slot, order)
    assert pair.rows(OURS) == pair.rows(SOURCE)
    assert worker.batches.fallbacks == 0


def test_sessions_that_wait_for_each_other(pair: Pair) -> None:
    """A later unit has a table that somebody waits for to alter, and the first one gets behind that."""
    slot = _begun(pair)
    pair.run(SOURCE, "BEGIN; UPDATE s.account SET n = 1 WHERE id = 2; INSERT INTO s.log VALUES (0, 0, 0); COMMIT")
    pair.run(
        SOURCE,
        "BEGIN; UPDATE s.account SET n = 1 WHERE id BETWEEN 3 AND 40; INSERT INTO s.log VALUES (0, 0, 1); COMMIT",
    )
    pair.run(SOURCE, "INSERT INTO s.log SELECT 0, 0, g FROM generate_series(2, 40) g")
    lines: list[str] = []
    lock = _locked(pair, "SELECT FROM s.account WHERE id = 3 FOR UPDATE")
    with lock as let_go, pair.server.connect(OURS) as other, _applying(pair, slot, COMMIT, lines) as worker:
        wait_until(lambda: _sessions(pair, "wait_event_type = 'Lock'") == 1)
        wait_until(lambda: _sessions(pair, "state = 'idle in transaction'") == 1)
        altering = threading.Thread(target=other.execute, args=["ALTER TABLE s.log ADD more int"])
        altering.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'ALTER TABLE%' AND wait_event_type = 'Lock'"
        wait_until(lambda: pair.run(OURS, waiting) == [(1,)])
        let_go()
        altering.join()
    assert lines == []
    assert worker.batches.fallbacks > 0
    pair.run(OURS, "ALTER TABLE s.log DROP more")
    assert pair.rows(OURS) == pair.rows(SOURCE)


@pytest.mark.parametrize(
    "parallel", [ParallelOptions(), ParallelOptions(2), ParallelOptions(3, KEYS)], ids=["alone", "commit", "keys"]
)
def test_what_was_applied_ahead_is_passed_over(pair: Pair, parallel: ParallelOptions) -> None:
    """It is ended while the first transaction waits for a lock, and later ones are committed."""
    slot = _begun(pair)
    pair.run(SOURCE, "BEGIN; UPDATE s.account SET n = 1 WHERE id = 2; INSERT INTO s.log VALUES (0, 0, 0); COMMIT")
    pair.run(SOURCE, "UPDATE s.account SET n = n + 1 WHERE id = 1")
    pair.run(SOURCE, *(f"INSERT INTO s.log VALUES (0, 0, {number})" for number in range(1, 200)))
    lines: list[str] = []
    with (
        _locked(pair, "SELECT FROM s.account WHERE id = 1 FOR UPDATE"),
        _applying(pair, slot, KEYS, lines) as worker,
    ):
        wait_until(lambda: pair.run(OURS, "SELECT count(*) FROM s.log")[0][0] >= 100)
        worker.stop()
    ((ahead, count),) = pair.run(
        OURS,
        "SELECT (SELECT sum(cardinality(finish_lsns)) FROM headwater.applied_ahead), (SELECT count(*) FROM s.log)",
    )
    assert 100 <= ahead == count - 1 < 200
    pair.run(SOURCE, "UPDATE s.account SET n = n + 1 WHERE id = 1", "INSERT INTO s.log VALUES (0, 0, 1000)")
    ApplyWorker(pair.request(slot, "p", parallel=parallel), lambda error: lines.append(str(error)), lines.append).run()
    assert lines == []
    assert pair.rows(OURS) == pair.rows(SOURCE)
    assert pair.run(OURS, "SELECT count(*) FROM headwater.applied_ahead") == [(0,)]


@pytest.mark.parametrize("order", ORDERS)
def test_a_session_that_is_ended(pair: Pair, order: str) -> None:
    """All begins again behind what is committed, as it does when the main session is lost."""
    slot = _begun(pair)
    _work(pair, 4, 300)
    locked = "SELECT FROM s.hot WHERE id = 1 FOR UPDATE"
    errors: list[HeadwaterError] = []
    options = {"disables_on_error": False, "retry_seconds": 0.1}
    request = pair.request(slot, "p", parallel=ParallelOptions(3, order), **options)
    # What tables are is known from the first transaction on.
    worker = ApplyWorker(request, errors.append, lambda _: None)
    applying = threading.Thread(target=worker.run)
    with _locked(pair, locked) as let_go:
        applying.start()
        try:
            waiting = "wait_event_type = 'Lock'"
            wait_until(lambda: _sessions(pair, waiting) >= 1)
            pair.run(
                OURS,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                f"WHERE application_name LIKE 'headwater apply % unit %' AND {waiting}",
            )
            wait_until(lambda: errors != [])
            let_go()
            applying.join()
        finally:
            worker.stop()
            applying.join()
    assert {error.sqlstate for error in errors if isinstance(error, ServerError)} <= {"57P01", "55006", None}
    assert pair.rows(OURS) == pair.rows(SOURCE)


def test_where_no_sessions_can_be_had() -> None:
    """The main session applies all, and it is told why."""
    with pair_of(18, max_active_replication_origins="2") as pair:
        slot = _begun(pair)
        _work(pair, 5, 100)
        errors: list[HeadwaterError] = []
        request = pair.request(slot, "p", parallel=ParallelOptions(2))
        ApplyWorker(request, errors.append, lambda _: None).run()
        assert pair.rows(OURS) == pair.rows(SOURCE)
        (error,) = errors
        assert isinstance(error, ServerError)
        assert error.sqlstate == "53400"
        assert _sessions(pair, "true") == 0
