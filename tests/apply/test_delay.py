"""A delayed apply: nothing sooner than it is due, all of it then, and an end at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apply.differential import Applying
from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.incoming.slot_source import slot_feed
from headwater.apply.mapped.delayed_feed import read_delay
from headwater.errors import UsageError
from headwater.remote_slots import slot_feed as slot_feed_module
from serving.service import wait_until

TABLES = ("CREATE TABLE s.t (id int PRIMARY KEY, at timestamptz)", "CREATE TABLE s.seen (id int, at timestamptz)")
NOTING = (
    """CREATE FUNCTION s.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       INSERT INTO s.seen VALUES (NEW.id, pg_catalog.clock_timestamp()); RETURN NEW; END $$""",
    "CREATE TRIGGER note AFTER INSERT ON s.t FOR EACH ROW EXECUTE FUNCTION s.note()",
    "ALTER TABLE s.t ENABLE ALWAYS TRIGGER note",
)
SECONDS = 2.0
SETTINGS = {"max_prepared_transactions": "10", "logical_decoding_work_mem": "64kB"}


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with pair_of(18, **SETTINGS) as servers:
        yield servers


def _applying(pair: Pair, log: Path, *flags: str, two_phase: bool = False) -> Applying:
    number = next(pair.numbers)
    name = f"delayed_{number}"
    for database, more in ((SOURCE, ()), (OURS, NOTING)):
        pair.run(database, "DROP SCHEMA IF EXISTS s CASCADE", "CREATE SCHEMA s", *TABLES, *more)
    pair.run(SOURCE, f"CREATE PUBLICATION {name} FOR TABLE s.t")
    option = ", false, true" if two_phase else ""
    pair.run(SOURCE, f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput'{option})")
    return Applying(pair.place(SOURCE), pair.place(OURS), log / "log", *flags, subscription=name, publication=name)


WORK = {
    "ordinary": (("--no-batches",), "INSERT INTO s.t VALUES ({}, clock_timestamp())"),
    "batches": ((), "INSERT INTO s.t SELECT {} * 100 + g, clock_timestamp() FROM generate_series(1, 50) g"),
    "streamed": (
        ("--streaming", "on"),
        "INSERT INTO s.t SELECT {} * 10000 + g, clock_timestamp() FROM generate_series(1, 3000) g",
    ),
    "prepared": (("--two-phase",), "INSERT INTO s.t VALUES ({}, clock_timestamp())"),
}


@pytest.mark.parametrize("kind", ["batches", *(pytest.param(kind, marks=pytest.mark.slow) for kind in WORK)])
def test_nothing_comes_sooner(pair: Pair, tmp_path: Path, kind: str) -> None:
    flags, statement = WORK[kind]
    is_prepared = kind == "prepared"
    with _applying(pair, tmp_path, "--delay", "2s", *flags, two_phase=is_prepared):
        for number in range(3):
            insert = statement.format(number)
            around = ["BEGIN", insert, f"PREPARE TRANSACTION 'p{number}'", f"COMMIT PREPARED 'p{number}'"]
            pair.run(SOURCE, *(around if is_prepared else [insert]))
        count = pair.run(SOURCE, "SELECT count(*) FROM s.t")
        wait_until(lambda: pair.run(OURS, "SELECT count(*) FROM s.t") == count)
    early = f"SELECT count(*) FROM s.seen JOIN s.t USING (id) WHERE seen.at - t.at < '{SECONDS} s'"
    assert pair.run(OURS, early) == [(0,)]
    assert pair.run(OURS, "SELECT count(*) FROM s.seen") == count


def test_it_ends_at_once_and_says_that_it_waits(pair: Pair, tmp_path: Path) -> None:
    worker = _applying(pair, tmp_path, "--delay", "1h")
    with worker:
        pair.run(SOURCE, "INSERT INTO s.t VALUES (1)")
        wait_until(lambda: "applying waits until" in worker.text())
        before = time.monotonic()
        assert worker.stop() == 0
        assert time.monotonic() - before < 30
    assert pair.run(OURS, "SELECT count(*) FROM s.t") == [(0,)]


@pytest.mark.slow
def test_tables_are_copied_while_transactions_wait(pair: Pair, tmp_path: Path) -> None:
    worker = _applying(pair, tmp_path, "--delay", "1h")
    worker.flags.remove("--no-copy-data")
    pair.run(SOURCE, "INSERT INTO s.t VALUES (1)")
    with worker:
        wait_until(lambda: pair.run(OURS, "SELECT count(*) FROM s.t") == [(1,)])
        pair.run(SOURCE, "INSERT INTO s.t VALUES (2)")
        wait_until(lambda: "applying waits until" in worker.text())
        assert pair.run(OURS, "SELECT count(*) FROM s.t") in ([(1,)], [(2,)])


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h", 3600), ("30min", 1800), ("90 s", 90), ("1.5s", 1.5), ("250ms", 0.25), ("2d", 172800)]
)
def test_delays(text: str, seconds: float) -> None:
    assert read_delay(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "1 hour", "-1s", "99d", "1h30min"])
def test_delays_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        read_delay(text)


def test_what_would_hold_locks_is_refused(pair: Pair) -> None:
    options: dict[str, Any] = {"delay_seconds": 5.0, "streaming": "parallel"}
    with pytest.raises(UsageError, match="would hold its locks"):
        ApplyRequest(slot=pair.request("x", "p").slot, target="", subscription="x", **options)


def test_a_feed_that_nobody_takes_from_is_not_lost(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds has a bound; while that is reached the server is not heard, and is not taken for lost."""
    pair.run(SOURCE, "CREATE PUBLICATION held FOR ALL TABLES")
    pair.run(SOURCE, "SELECT pg_create_logical_replication_slot('held', 'pgoutput')")
    request = pair.request("held", "held")
    pair.run(
        SOURCE, "CREATE TABLE held (t text)", "INSERT INTO held SELECT repeat('x', 1000) FROM generate_series(1, 2000)"
    )
    monkeypatch.setattr(slot_feed_module, "MOST_BYTES", 100_000)
    monkeypatch.setattr(slot_feed_module, "TIMEOUT_SECONDS", 0.5)
    with slot_feed(replace(request, end=None), 0) as feed:
        wait_until(lambda: len(feed._data) >= 100_000)
        begin = time.monotonic()
        wait_until(lambda: time.monotonic() - begin > 1.5)
        assert feed._error is None
        rows = 0
        while rows < 2000:
            rows += feed.take(1.0).data.count(b"x" * 1000)
