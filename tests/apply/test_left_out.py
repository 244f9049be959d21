"""Changes of a table that is not applied yet, left out of the stream: the same as passing over them one by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from apply.target_pairs import OURS, SOURCE, STOCK, Pair, pair_of
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.progress.subscriptions import State, SubscribedTable
from headwater.apply.progress.table_states import NEVER, OnlyTable, TableStates
from headwater.apply.table_sync.moving_ahead import FEWEST_BYTES, STEP_SECONDS
from headwater.apply.worker import ApplyWorker
from headwater.pg.lsn import Lsn
from serving.service import wait_until

WAIT_SECONDS = 200
"""Kernels may have to be compiled first."""

TABLES = (
    "CREATE TABLE s.ready (id int PRIMARY KEY, v text)",
    "CREATE TABLE s.waiting (id int PRIMARY KEY, v text)",
    "CREATE TABLE s.whole (id int, v text)",
)
LARGE = "BEGIN; INSERT INTO s.waiting SELECT g, 'large' FROM generate_series({0}, {0} + 1500) g; {1}; COMMIT"


def mixed(number: int) -> str:
    """Return a transaction of rows of all tables."""
    rows = f"SELECT g, 'v' || g FROM generate_series({number * 100}, {number * 100 + 20}) g"
    first = f"id = {number * 100}"
    return (
        f"BEGIN; INSERT INTO s.waiting {rows}; INSERT INTO s.ready {rows}; INSERT INTO s.whole {rows}; "
        f"UPDATE s.whole SET v = 'new' WHERE {first}; DELETE FROM s.waiting WHERE {first}; "
        f"UPDATE s.waiting SET id = -id WHERE {first} + 1; UPDATE s.ready SET v = 'new' WHERE {first}; COMMIT"
    )


WORK = (
    *map(mixed, range(1, 6)),
    "INSERT INTO s.waiting VALUES (1, 'alone')",
    *(f"UPDATE s.waiting SET v = v || {turn} WHERE id = 1" for turn in range(20)),
    LARGE.format(10_000, "INSERT INTO s.ready VALUES (1, 'in a large one')"),
    LARGE.format(20_000, "DELETE FROM s.waiting WHERE id % 2 = 0"),
    "BEGIN; TRUNCATE s.whole; INSERT INTO s.ready VALUES (2, 'behind'); DELETE FROM s.waiting WHERE id = 1; COMMIT",
    *map(mixed, range(6, 9)),
    "INSERT INTO s.ready VALUES (3, 'last')",
)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Run a server."""
    with pair_of(18, logical_decoding_work_mem="64kB") as started:
        yield started


def begun(pair: Pair, streaming: str) -> dict[str, ApplyRequest]:
    """Make tables and subscriptions in two databases, in which two tables of three are not ready."""
    for database in (SOURCE, OURS, STOCK):
        pair.run(database, "DROP SCHEMA IF EXISTS s CASCADE", "CREATE SCHEMA s", *TABLES)
    pair.run(SOURCE, "ALTER TABLE s.whole REPLICA IDENTITY FULL", "DROP PUBLICATION IF EXISTS p")
    pair.run(SOURCE, "CREATE PUBLICATION p FOR TABLE s.ready")
    names = dict(zip((STOCK, OURS), pair.slots(), strict=True))
    requests = {place: pair.request(name, "p", target=pair.place(place)) for place, name in names.items()}
    for request in requests.values():
        ApplyWorker(request, lambda _: None).run()
    pair.run(SOURCE, "ALTER PUBLICATION p ADD TABLE s.waiting, s.whole", *WORK)
    more: dict[str, Any] = {"streaming": streaming, "copies_data": True, "end": pair.end(), "max_sync_workers": 0}
    return {place: replace(request, batches=place == OURS, **more) for place, request in requests.items()}


def passed(request: ApplyRequest) -> ApplyWorker:
    """Apply what is there, without any copy."""
    worker = ApplyWorker(request, lambda _: None)
    applying = threading.Thread(target=worker.run)
    applying.start()
    try:
        wait_until(lambda: worker.durable >= (request.end or 0), WAIT_SECONDS)
    finally:
        worker.stop()
        applying.join()
    return worker


def progress(pair: Pair, place: str, request: ApplyRequest) -> list[tuple[object, ...]]:
    """Return how far the origin is, and the states of tables."""
    name = f"'headwater_{request.subscription}'"
    return [
        *pair.run(place, f"SELECT remote_lsn FROM pg_replication_origin_status WHERE external_id = {name}"),
        *pair.run(place, "SELECT relname, srsubstate::text FROM headwater.subscription_rel ORDER BY 1"),
    ]


@pytest.mark.parametrize("streaming", ["off", "on"])
def test_the_same_rows_and_progress(pair: Pair, streaming: str) -> None:
    requests = begun(pair, streaming)
    workers = {place: passed(request) for place, request in requests.items()}
    assert workers[OURS].batches.tried > 0
    assert workers[OURS].batches.fallbacks == 0
    assert pair.rows(OURS) == pair.rows(STOCK)
    assert pair.rows(OURS)["s.ready"] == pair.rows(SOURCE)["s.ready"]
    assert (pair.rows(OURS)["s.waiting"], pair.rows(OURS)["s.whole"]) == ([], [])
    assert progress(pair, OURS, requests[OURS]) == progress(pair, STOCK, requests[STOCK])
    counts = [(worker.counts.transactions, worker.counts.changes) for worker in workers.values()]
    assert counts[0] == counts[1]
    pair.run(SOURCE, mixed(50))
    for request in requests.values():
        ApplyWorker(replace(request, max_sync_workers=2, end=pair.end()), lambda _: None).run()
    assert pair.rows(OURS) == pair.rows(STOCK) == pair.rows(SOURCE)


@pytest.mark.parametrize("moves", [True, False])
def test_an_old_slot_is_moved_to_where_all_tables_are_copied(pair: Pair, moves: bool) -> None:
    for database in (SOURCE, OURS):
        pair.run(database, "DROP SCHEMA IF EXISTS s CASCADE", "CREATE SCHEMA s", *TABLES)
    pair.run(SOURCE, "DROP PUBLICATION IF EXISTS p", "CREATE PUBLICATION p FOR TABLE s.ready")
    _, slot = pair.slots()
    if not moves:
        ApplyWorker(pair.request(slot, "p"), lambda _: None).run()
    pair.run(SOURCE, "INSERT INTO s.ready VALUES (1, 'old')", "ALTER PUBLICATION p ADD TABLE s.waiting")
    pair.run(SOURCE, f"SELECT pg_logical_emit_message(false, 'test', repeat('x', {FEWEST_BYTES}))", mixed(1))
    before = pair.end()
    lines: list[str] = []
    ApplyWorker(replace(pair.request(slot, "p"), copies_data=True), lambda _: None, lines.append).run()
    moved = [line for line in lines if line.startswith(f'moved replication slot "{slot}" to ')]
    assert len(moved) == moves
    assert all(int(Lsn.parse(line.split(" to ")[1].split(",")[0])) >= before for line in moved)
    pair.run(SOURCE, "UPDATE s.waiting SET v = 'later'; DELETE FROM s.ready WHERE id = 1")
    ApplyWorker(replace(pair.request(slot, "p"), copies_data=True), lambda _: None).run()
    for table in ("s.ready", "s.waiting"):
        assert pair.rows(OURS)[table] == pair.rows(SOURCE)[table]


def test_a_slot_that_is_being_moved_does_not_hinder_the_end(pair: Pair) -> None:
    """Moving a slot that fails over waits for standbys, and here none comes."""
    held = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'WaitForStandbyConfirmation'"
    for database in (SOURCE, OURS):
        pair.run(database, "DROP SCHEMA IF EXISTS s CASCADE", "CREATE SCHEMA s", *TABLES)
    pair.run(SOURCE, "DROP PUBLICATION IF EXISTS p", "CREATE PUBLICATION p FOR TABLE s.ready")
    pair.run(SOURCE, "SELECT pg_create_logical_replication_slot('moved', 'pgoutput', failover => true)")
    pair.run(SOURCE, f"SELECT pg_logical_emit_message(false, 'test', repeat('x', {FEWEST_BYTES}))", mixed(1))
    pair.run(SOURCE, "SELECT pg_create_physical_replication_slot('standby', true)")
    pair.run(SOURCE, "ALTER SYSTEM SET synchronized_standby_slots = 'standby'", "SELECT pg_reload_conf()")
    request = replace(pair.request("moved", "p"), copies_data=True)
    worker = ApplyWorker(request, lambda _: None)
    applying = threading.Thread(target=worker.run)
    applying.start()
    try:
        wait_until(lambda: pair.run(SOURCE, held) != [(0,)], WAIT_SECONDS)
    finally:
        began = time.monotonic()
        worker.stop()
        applying.join()
        took = time.monotonic() - began
        pair.run(SOURCE, "ALTER SYSTEM RESET synchronized_standby_slots", "SELECT pg_reload_conf()")
        pair.run(SOURCE, "SELECT pg_drop_replication_slot('standby')")
    assert took < STEP_SECONDS / 2
    assert pair.run(SOURCE, "SELECT active FROM pg_replication_slots WHERE slot_name = 'moved'") == [(False,)]


def test_a_place_that_is_chosen_counts_before_it_is_written() -> None:
    states = TableStates()
    states.load([SubscribedTable(7, "s", "t", State.CATCHUP, 0), SubscribedTable(8, "s", "u", State.READY, 0)], 0)
    states.begins(100)
    assert (states.applied_from(7), states.applied_from(8), states.applied_from(9)) == (NEVER, 0, NEVER)
    assert not states.choose(7, 100)
    assert states.choose(7, 150)
    assert states.applied_from(7) == 150
    states.set(7, State.SYNCDONE, 150)
    assert (states.applied_from(7), states.applies(7, 149), states.applies(7, 150)) == (150, False, True)
    states.set(7, State.READY, 200)
    assert states.applied_from(7) == 0


def test_a_tables_own_worker_applies_nothing_else() -> None:
    only = OnlyTable(7)
    assert (only.applied_from(7), only.applied_from(8)) == (0, NEVER)
