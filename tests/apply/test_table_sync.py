"""Initial copies beside the stream: with random work, beside stock subscribers, killed at each step, refreshed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apply.sync_runs import (
    Applying,
    Work,
    address,
    apply_until_now,
    are_ready,
    arguments,
    digests,
    leftovers,
    make_tables,
    sees_all,
    states,
    subscribe,
)
from bad_input.servers import now, run, value
from forked_commands import MAIN, run_forked
from headwater.apply.progress.installation import FORM
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from serving.service import END_SECONDS, Serving, backup_of, wait_until

ROWS = 1000
PAIRS = [(18, 18), (16, 14), (14, 16), (18, 16), (16, 18)]


@pytest.fixture
def pair() -> Iterator[tuple[EmbeddedPostgres, EmbeddedPostgres]]:
    with EmbeddedPostgres(find_programs(18)) as publisher, EmbeddedPostgres(find_programs(18)) as target:
        yield publisher, target


@pytest.mark.parametrize(("major", "target_major"), PAIRS)
def test_copies_beside_work_are_those_of_a_stock_subscriber(major: int, target_major: int) -> None:
    with (
        EmbeddedPostgres(find_programs(major)) as publisher,
        EmbeddedPostgres(find_programs(target_major)) as target,
        EmbeddedPostgres(find_programs(max(major, target_major))) as stock,
    ):
        make_tables(publisher, target, stock, rows=ROWS)
        with Work(publisher, ROWS), Applying(publisher, target):
            subscribe(stock, publisher)
            wait_until(lambda: are_ready(target))
        apply_until_now(publisher, target)
        end = now(publisher)
        confirmed = f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = 'stock'"
        ready = "SELECT count(*) = 4 FROM pg_subscription_rel WHERE srsubstate = 'r'"
        wait_until(lambda: value(stock, ready) == "True" and value(publisher, confirmed) == "True")
        assert digests(target) == digests(stock)
        assert [digests(publisher)[number] == digests(target)[number] for number in (0, 3)] == [True, True]
        assert leftovers(publisher, target) == []


SETTING_UP = ["5", "17", "28", "39", "50", "61"]
COPYING = [f"+{step}" for step in range(2, 120, 5)]


STEPS = {"first": SETTING_UP[::3], "copies": COPYING[::8], "all": [*SETTING_UP, *COPYING]}
WHOLE: tuple[str, ...] = ()
RANGES = ("--range-blocks", "2")
"""Flags by which the tables are copied as a whole, and by ranges."""
FORMS = {"whole": WHOLE, "ranges": RANGES}


@pytest.mark.parametrize("flags", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_killed_at_each_step(
    pair: tuple[EmbeddedPostgres, EmbeddedPostgres], steps: list[str], flags: tuple[str, ...]
) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    with Work(publisher, ROWS, seed=len(steps)):
        for step in steps:
            with Applying(publisher, target, *flags, step=step) as applying:
                wait_until(lambda: applying.has_ended or are_ready(target))
    apply_until_now(publisher, target)
    sees_all(publisher, target)
    assert leftovers(publisher, target) == []


def test_killed_publisher(pair: tuple[EmbeddedPostgres, EmbeddedPostgres]) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    with Work(publisher, ROWS), Applying(publisher, target):
        wait_until(lambda: "d" in states(target).values() or "f" in states(target).values())
        publisher.crash()
        publisher.start()
        wait_until(lambda: are_ready(target))
    apply_until_now(publisher, target)
    sees_all(publisher, target)


@pytest.mark.parametrize("flags", FORMS.values(), ids=FORMS)
def test_killed_target(pair: tuple[EmbeddedPostgres, EmbeddedPostgres], flags: tuple[str, ...]) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    with Work(publisher, ROWS), Applying(publisher, target, *flags):
        wait_until(lambda: "d" in states(target).values() or "f" in states(target).values())
        target.crash()
        target.start()
        wait_until(lambda: are_ready(target))
    apply_until_now(publisher, target)
    sees_all(publisher, target)
    assert leftovers(publisher, target) == []


def test_a_table_that_is_locked_does_not_stop_others(pair: tuple[EmbeddedPostgres, EmbeddedPostgres]) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    with target.connect() as locking, Applying(publisher, target):
        with locking.transaction():
            locking.execute("LOCK TABLE t")
            wait_until(lambda: list(states(target).values()).count("r") == 3)
            run(publisher, "INSERT INTO parts VALUES (5000, 'new', 1)", "INSERT INTO t VALUES (5000, 'new', 1)")
            wait_until(lambda: value(target, "SELECT count(*) FROM parts WHERE id = 5000") == "1")
            assert states(target)["t"] == "d"
        wait_until(lambda: are_ready(target))
        wait_until(lambda: value(target, "SELECT count(*) FROM t WHERE id = 5000") == "1")
    sees_all(publisher, target)


@pytest.mark.parametrize("flags", FORMS.values(), ids=FORMS)
def test_rows_that_the_target_refuses(pair: tuple[EmbeddedPostgres, EmbeddedPostgres], flags: tuple[str, ...]) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    run(target, "ALTER TABLE t ADD CHECK (id <> 900)")
    messages = fails(publisher, target, *flags)
    assert 'new row for relation "t" violates check constraint "t_id_check"' in messages
    run(target, "ALTER TABLE t DROP CONSTRAINT t_id_check")
    assert 'subscription "headwater" is disabled since ' in fails(publisher, target, *flags, status=2)
    apply_until_now(publisher, target, "--enable", *flags)
    sees_all(publisher, target)
    assert leftovers(publisher, target) == []


def test_tables_come_and_go(pair: tuple[EmbeddedPostgres, EmbeddedPostgres]) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    run(publisher, "ALTER PUBLICATION p DROP TABLE t")
    messages = apply_until_now(publisher, target)
    assert 'created replication slot "headwater" on publisher' in messages
    assert value(target, "SELECT count(*) FROM t") == "0"
    run(publisher, "CREATE TABLE there_only (id int PRIMARY KEY)")
    run(publisher, "ALTER PUBLICATION p ADD TABLE t, there_only", "ALTER PUBLICATION p DROP TABLE kept")
    messages = apply_until_now(publisher, target)
    assert 'table "public.t" added to subscription "headwater"' in messages
    assert 'table "public.kept" removed from subscription "headwater"' in messages
    assert 'table "public.there_only" is not added to subscription "headwater": relation' in messages
    assert digests(target)[0] == digests(publisher)[0]
    assert states(target) == {"t": "r", "narrow": "r", "parts": "r"}


def test_refreshed_beside_a_run(pair: tuple[EmbeddedPostgres, EmbeddedPostgres]) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    run(publisher, "ALTER PUBLICATION p DROP TABLE t")
    with Applying(publisher, target):
        wait_until(lambda: are_ready(target, 3))
        run(publisher, "ALTER PUBLICATION p ADD TABLE t")
        refresh = run_forked([*MAIN, *arguments(address(publisher), target, "--refresh")], END_SECONDS)
        assert refresh.returncode == 0, refresh.stderr
        messages = refresh.stderr
        assert messages == 'headwater: table "public.t" added to subscription "headwater"\n'
        wait_until(lambda: are_ready(target))
    sees_all(publisher, target)


def test_rows_that_are_there_are_left(pair: tuple[EmbeddedPostgres, EmbeddedPostgres]) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    apply_until_now(publisher, target, "--no-copy-data")
    run(publisher, "INSERT INTO t VALUES (5000, 'new', 1)")
    apply_until_now(publisher, target, "--no-copy-data")
    assert value(target, "SELECT string_agg(id::text, ',') FROM t") == "5000"


def test_transactions_come_at_prepare_once_all_tables_are_ready(
    pair: tuple[EmbeddedPostgres, EmbeddedPostgres],
) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    enabled = "SELECT count(*) FROM headwater.subscription WHERE subtwophasestate = 'e'"
    with Applying(publisher, target, "--two-phase"):
        wait_until(lambda: are_ready(target) and value(target, enabled) == "1")
        run(publisher, "BEGIN; INSERT INTO t VALUES (5000, 'new', 1); PREPARE TRANSACTION 'later'")
        wait_until(lambda: value(target, "SELECT count(*) FROM pg_prepared_xacts") == "1")


def test_what_a_publisher_keeps_of_its_own_subscriptions_stays_there(
    pair: tuple[EmbeddedPostgres, EmbeddedPostgres],
) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    run(publisher, "DROP PUBLICATION p", "CREATE PUBLICATION p FOR ALL TABLES")
    run(publisher, "CREATE SCHEMA headwater", "CREATE TABLE headwater.form (version int4 PRIMARY KEY)")
    run(publisher, "INSERT INTO headwater.form VALUES (7)")
    apply_until_now(publisher, target)
    run(publisher, "INSERT INTO headwater.form VALUES (8)", "INSERT INTO t VALUES (5000, 'new', 1)")
    apply_until_now(publisher, target)
    assert value(target, "SELECT string_agg(version::text, ',') FROM headwater.form") == str(FORM)
    assert digests(target) == digests(publisher)


def test_a_slot_that_is_lost_is_not_made_anew(pair: tuple[EmbeddedPostgres, EmbeddedPostgres]) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=10)
    apply_until_now(publisher, target)
    run(publisher, "SELECT pg_drop_replication_slot('headwater')")
    assert 'replication slot "headwater" does not exist' in fails(publisher, target)


def fails(publisher: EmbeddedPostgres, target: EmbeddedPostgres, *flags: str, status: int = 1) -> str:
    """Run the command, which fails, and return what it says."""
    words = arguments(address(publisher), target, "--disable-on-error", *flags)
    result = run_forked([*MAIN, *words], END_SECONDS)
    assert result.returncode == status, result.stderr
    return result.stderr


def test_a_beginning_that_is_refused_leaves_nothing(pair: tuple[EmbeddedPostgres, EmbeddedPostgres]) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=10)
    run(publisher, "SELECT pg_create_logical_replication_slot('headwater', 'pgoutput')")
    assert 'replication slot "headwater" already exists' in fails(publisher, target)
    run(publisher, "SELECT pg_drop_replication_slot('headwater')")
    run(target, "DROP TABLE kept")
    assert 'relation "public.kept" does not exist' in fails(publisher, target)
    assert value(target, "SELECT count(*) FROM headwater.subscription") == "0"
    assert value(publisher, "SELECT count(*) FROM pg_replication_slots") == "0"
    run(target, "UPDATE headwater.form SET version = 1000")
    assert f"the target's schema headwater is of form 1000, expected {FORM}" in fails(publisher, target)


def test_from_a_service_whose_server_is_stopped(
    pair: tuple[EmbeddedPostgres, EmbeddedPostgres], tmp_path: Path
) -> None:
    publisher, target = pair
    make_tables(publisher, target, rows=ROWS)
    backup = backup_of(publisher, tmp_path / "backup")
    run(publisher, "UPDATE t SET v = 'changed' WHERE id < 10", "DELETE FROM parts WHERE id = 77")
    end = now(publisher)
    run(publisher, "SELECT pg_switch_wal()")
    expected = digests(publisher)
    publisher.stop()
    with Serving(publisher.wal_directory, backup, tmp_path / "slots") as serving:
        source = f"host=127.0.0.1 port={serving.port} dbname=postgres user=postgres"
        words = arguments(source, target, "--end", end, "--disable-on-error")
        result = run_forked([*MAIN, *words], END_SECONDS)
        assert result.returncode == 0, result.stderr
    assert [digests(target)[number] for number in (0, 3)] == [expected[0], expected[3]]
    assert set(states(target).values()) == {"r"}
