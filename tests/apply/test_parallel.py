"""Ordinary transactions applied in several sessions at a time: the same as one after the other."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from headwater.apply.incoming.parallel_options import ORDERS, ParallelOptions
from headwater.apply.parallel import parallel_applier
from headwater.apply.worker import ApplyWorker
from headwater.errors import HeadwaterError

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


def _apply(
    pair: Pair, slot: str, order: str | None, lines: list[str] | None = None, **options: object
) -> ApplyWorker:
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
