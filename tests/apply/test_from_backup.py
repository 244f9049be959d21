"""Initial copies from a base backup and WAL: beside work and a stock subscriber, killed, the primary stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apply.sync_runs import (
    TABLES,
    Applying,
    Work,
    apply_until_now,
    are_ready,
    digests,
    leftovers,
    log_of,
    make_tables,
    sees_all,
    states,
    subscribe,
)
from bad_input.servers import now, run, value
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from serving.service import wait_until

ROWS = 1000
PAIRS = [(16, 16), (14, 14), (15, 16), (18, 18)]


@pytest.fixture
def pair() -> Iterator[tuple[EmbeddedPostgres, EmbeddedPostgres]]:
    with EmbeddedPostgres(find_programs(16)) as publisher, EmbeddedPostgres(find_programs(16)) as target:
        yield publisher, target


@pytest.mark.parametrize(("major", "target_major"), PAIRS)
def test_copies_beside_work_are_those_of_a_stock_subscriber(tmp_path: Path, major: int, target_major: int) -> None:
    with (
        EmbeddedPostgres(find_programs(major)) as publisher,
        EmbeddedPostgres(find_programs(target_major)) as target,
        EmbeddedPostgres(find_programs(max(major, target_major))) as stock,
    ):
        make_tables(publisher, target, stock, rows=ROWS)
        subscribe(stock, publisher)
        with Work(publisher, ROWS):
            log = log_of(publisher, tmp_path)
            with Applying(publisher, target, log=log):
                wait_until(lambda: are_ready(target))
        messages = apply_until_now(publisher, target, source=log)
        assert "is ready" not in messages
        end = now(publisher)
        confirmed = f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = 'stock'"
        ready = "SELECT count(*) = 4 FROM pg_subscription_rel WHERE srsubstate = 'r'"
        wait_until(lambda: value(stock, ready) == "True" and value(publisher, confirmed) == "True")
        assert digests(target) == digests(stock)
        assert [digests(publisher)[number] == digests(target)[number] for number in (0, 3)] == [True, True]
        assert leftovers(publisher, target) == []
        assert [path.name for path in log.slots.iterdir() if not path.name.startswith(".")] == ["headwater"]


def test_the_primary_is_stopped(tmp_path: Path, pair: tuple[EmbeddedPostgres, EmbeddedPostgres]) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    log = log_of(publisher, tmp_path)
    with Work(publisher, ROWS):
        wait_until(lambda: value(publisher, "SELECT count(*) > 0 FROM t WHERE v = 'new'") == "True")
    expected, end = digests(publisher), now(publisher)
    now(publisher)
    publisher.stop()
    with Applying(publisher, target, "--end", end, log=log) as applying:
        wait_until(lambda: applying.has_ended)
    copied = digests(target)
    assert [copied[0], copied[3]] == [expected[0], expected[3]]


FORMS: dict[str, tuple[str, ...]] = {"whole": (), "shared": ("--range-blocks", "2")}
"""Flags by which tables are copied in one connection, and in several."""

STEPS = {
    "few": ["16", "45", "+3", "+30"],
    "all": [*map(str, range(2, 60, 3)), *(f"+{n}" for n in range(2, 100, 4))],
}


@pytest.mark.parametrize("flags", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_killed_at_each_step(
    tmp_path: Path, pair: tuple[EmbeddedPostgres, EmbeddedPostgres], steps: list[str], flags: tuple[str, ...]
) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    log = log_of(publisher, tmp_path)
    with Work(publisher, ROWS, seed=len(steps)):
        for step in steps:
            with Applying(publisher, target, *flags, step=step, log=log) as applying:
                wait_until(lambda: applying.has_ended or are_ready(target))
    apply_until_now(publisher, target, source=log)
    sees_all(publisher, target)
    assert leftovers(publisher, target) == []


@pytest.mark.slow
@pytest.mark.parametrize("between", ["", "TRUNCATE t", "VACUUM FULL t"])
def test_a_large_copy_that_is_killed_goes_on(
    tmp_path: Path, pair: tuple[EmbeddedPostgres, EmbeddedPostgres], between: str
) -> None:
    """What is copied stays, unless the target's table has become another one: then it is begun anew."""
    publisher, target = pair
    make_tables(publisher, target, rows=10)
    run(publisher, "INSERT INTO t SELECT g, repeat(md5(g::text), 9), 1 FROM generate_series(11, 30000) g")
    log = log_of(publisher, tmp_path)
    run(publisher, "UPDATE t SET n = 2 WHERE id % 100 = 0", "DELETE FROM t WHERE id % 100 = 1")
    flags = ("--range-blocks", "100")
    noted = "SELECT count(*) FROM headwater.subscription_range"
    with target.connect() as locking, locking.transaction(force_rollback=True):
        locking.execute("INSERT INTO t VALUES (29990)")
        with Applying(publisher, target, *flags, log=log) as applying:
            wait_until(
                lambda: value(target, "SELECT to_regclass('headwater.subscription_range') IS NOT NULL") == "True"
            )
            wait_until(lambda: int(value(target, noted)) > 3)
            run(publisher, "UPDATE t SET n = 3 WHERE id % 100 = 2", "INSERT INTO t VALUES (-5)")
            applying.kill()
    copied = "SELECT count(*) FROM t WHERE xmin::text::int8 IN ({})"
    xids = value(target, "SELECT string_agg(DISTINCT xid::text, ',') FROM headwater.subscription_range")
    before = int(value(target, copied.format(xids)))
    assert before > 1000
    run(target, *filter(None, [between]))
    apply_until_now(publisher, target, *flags, source=log)
    sees_all(publisher, target)
    assert leftovers(publisher, target) == []
    assert value(target, noted) == "0"
    # The rows that have changed since were updated.
    stays = int(value(target, copied.format(xids)))
    assert stays > before * 0.9 if not between else stays == 0


def test_tables_come_later_and_one_that_waits_for_a_lock_does_not_stop_others(
    tmp_path: Path, pair: tuple[EmbeddedPostgres, EmbeddedPostgres]
) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    run(publisher, "ALTER PUBLICATION p DROP TABLE kept")
    log = log_of(publisher, tmp_path)
    run(publisher, "DELETE FROM narrow WHERE id < 20")
    with Work(publisher, ROWS), target.connect() as locking, Applying(publisher, target, log=log):
        with locking.transaction():
            locking.execute("LOCK TABLE t")
            wait_until(lambda: list(states(target).values()).count("r") == 2)
            run(publisher, "INSERT INTO parts VALUES (5000, 'new', 1)", "INSERT INTO t VALUES (5000, 'new', 1)")
            wait_until(lambda: value(target, "SELECT count(*) FROM parts WHERE id = 5000") == "1")
            assert states(target)["t"] == "d"
        wait_until(lambda: are_ready(target, 3))
    run(publisher, "ALTER PUBLICATION p ADD TABLE kept WHERE (id % 2 = 0)")
    messages = apply_until_now(publisher, target, source=log)
    assert 'table "public.kept" added to subscription "headwater"' in messages
    sees_all(publisher, target)
    assert set(states(target)) == set(TABLES)


def test_rows_that_the_target_refuses(tmp_path: Path, pair: tuple[EmbeddedPostgres, EmbeddedPostgres]) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    log = log_of(publisher, tmp_path)
    run(target, "ALTER TABLE t ADD CHECK (id <> 900)")
    with Work(publisher, ROWS), Applying(publisher, target, log=log):
        wait_until(lambda: list(states(target).values()).count("r") == 3)
        run(publisher, "DELETE FROM t WHERE id = 900", "INSERT INTO parts VALUES (5000, 'new', 1)")
        wait_until(lambda: value(target, "SELECT count(*) FROM parts WHERE id = 5000") == "1")
        run(target, "ALTER TABLE t DROP CONSTRAINT t_id_check")
        wait_until(lambda: are_ready(target))
    apply_until_now(publisher, target, source=log)
    sees_all(publisher, target)


def test_prepared_transactions(tmp_path: Path) -> None:
    settings = {"max_prepared_transactions": "10"}
    with (
        EmbeddedPostgres(find_programs(16), settings=settings) as publisher,
        EmbeddedPostgres(find_programs(16), settings=settings) as target,
    ):
        make_tables(publisher, target, rows=ROWS)
        run(publisher, "BEGIN; INSERT INTO t VALUES (7000, 'new', 1); PREPARE TRANSACTION 'before'")
        log = log_of(publisher, tmp_path)
        run(publisher, "COMMIT PREPARED 'before'", *2 * ["SELECT pg_log_standby_snapshot()"])
        run(publisher, "BEGIN; INSERT INTO t VALUES (6000, 'new', 1); PREPARE TRANSACTION 'early'")
        with Applying(publisher, target, "--two-phase", log=log):
            wait_until(lambda: are_ready(target))
            run(publisher, "BEGIN; INSERT INTO t VALUES (5000, 'new', 1); PREPARE TRANSACTION 'later'")
            wait_until(lambda: value(target, "SELECT count(*) FROM pg_prepared_xacts") == "2")
            run(publisher, "COMMIT PREPARED 'later'", "COMMIT PREPARED 'early'")
            wait_until(lambda: value(target, "SELECT count(*) FROM t WHERE id >= 5000") == "3")
        sees_all(publisher, target)
