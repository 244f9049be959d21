"""Prepared transactions, over crashes, streamed, and handed on: scripts 021, 022 and 023."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from apply.scripts.script_runner import Script, place, rows_in, run_in
from serving.service import wait_until

PREPARED = "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()"
KEYS = "SELECT string_agg(a::text, ' ' ORDER BY a) FROM t"
NAME = "g"
COMMIT, ROLLBACK = f"COMMIT PREPARED '{NAME}'", f"ROLLBACK PREPARED '{NAME}'"


def prepared(*statements: str) -> str:
    """Return a transaction that is prepared."""
    return f"BEGIN; {'; '.join(statements)}; PREPARE TRANSACTION '{NAME}'"


def begin(script: Script, *flags: str) -> None:
    """Make a table with a row of a prepared transaction, and apply it at PREPARE."""
    if script.major < 15:
        pytest.skip("subscriptions of 15 have two_phase")
    script.everywhere("CREATE TABLE t (a int PRIMARY KEY)")
    script.on_source(prepared("INSERT INTO t VALUES (1)"), COMMIT, "CREATE PUBLICATION p FOR TABLE t")
    script.subscribe("p", flags=["--two-phase", *flags])
    wait_until(lambda: script.rows("SELECT subtwophasestate FROM headwater.subscription") == ["e"])


def test_021_prepared_committed_and_rolled_back(script: Script) -> None:
    begin(script)
    for end, keys in ((COMMIT, "1 11"), (ROLLBACK, "1 11")):
        script.on_source(prepared(f"INSERT INTO t VALUES ({11 if end == COMMIT else 12})"))
        script.catch_up()
        assert script.rows(PREPARED) == ["1"]
        script.on_source(end)
        script.catch_up()
        assert script.rows(PREPARED) == ["0"]
        assert script.rows(KEYS) == [keys]
    savepoint = "INSERT INTO t VALUES (21); SAVEPOINT s; INSERT INTO t VALUES (22); ROLLBACK TO s"
    script.on_source(prepared(savepoint), COMMIT)
    script.on_source("BEGIN; INSERT INTO t VALUES (51); PREPARE TRANSACTION ''")
    script.catch_up()
    assert script.rows(PREPARED) == ["1"]
    script.on_source("ROLLBACK PREPARED ''")
    # What holds nothing but row locks does not come.
    script.on_source(prepared("SELECT a FROM t WHERE a = 1 FOR SHARE"), COMMIT)
    script.on_source(prepared("SELECT a FROM t WHERE a = 1 FOR SHARE"), ROLLBACK, "INSERT INTO t VALUES (31)")
    script.catch_up()
    assert script.rows(PREPARED) == ["0"]
    assert script.rows(KEYS) == ["1 11 21 31"]


def _crash_source(script: Script) -> None:
    script.end_source(crashes=True)
    script.start_source()


def _crash_target(script: Script) -> None:
    script.servers.target.crash()
    script.servers.target.start()


def _crash_both(script: Script) -> None:
    _crash_source(script)
    _crash_target(script)


@pytest.mark.parametrize("crash", [_crash_both, _crash_target, _crash_source])
def test_021_crashes_between_prepare_and_the_end(script: Script, crash: Callable[[Script], None]) -> None:
    begin(script)
    for number, end in ((12, ROLLBACK), (14, COMMIT)):
        script.on_source(prepared(f"INSERT INTO t VALUES ({number}), ({number + 1})"))
        crash(script)
        script.on_source(end)
        script.catch_up()
    assert script.rows(KEYS) == ["1 14 15"]
    assert script.rows(PREPARED) == ["0"]


def test_021_a_target_that_takes_no_prepared_transactions(script: Script) -> None:
    begin(script)
    target = script.servers.target
    run_in(target, "postgres", "ALTER SYSTEM SET max_prepared_transactions = 0")
    target.stop()
    target.start()
    try:
        script.on_source(prepared("INSERT INTO t VALUES (11)"))
        wait_until(lambda: script.applied["sub"].has_met("prepared transactions are disabled"))
    finally:
        run_in(target, "postgres", "ALTER SYSTEM RESET max_prepared_transactions")
        target.stop()
        target.start()
    script.catch_up()
    assert script.rows(PREPARED) == ["1"]
    script.on_source(COMMIT)
    script.catch_up()
    assert script.rows(KEYS) == ["1 11"]


def test_021_two_subscriptions_and_a_clean_end(script: Script) -> None:
    """Both prepare the transaction, each under a name of its own."""
    begin(script)
    script.everywhere("CREATE TABLE other (a int PRIMARY KEY)")
    script.on_source("INSERT INTO other SELECT generate_series(1, 5)", "CREATE PUBLICATION q FOR TABLE other")
    script.on_target("INSERT INTO other VALUES (88)")
    script.subscribe("q", name="second", flags=["--two-phase", "--no-copy-data"])
    script.on_source(prepared("INSERT INTO other VALUES (99)", "INSERT INTO t VALUES (99)"))
    script.catch_up()
    assert script.rows(PREPARED) == ["2"]
    script.on_source(COMMIT)
    script.catch_up()
    assert script.rows(PREPARED) == ["0"]
    assert script.rows("SELECT a FROM other ORDER BY 1") == ["88", "99"]
    script.drop()
    script.drop("second")
    assert script.leftovers() == []


@pytest.mark.parametrize("streaming", ["off", "on"])
def test_022_handed_on(script: Script, streaming: str) -> None:
    """A second subscription takes what the first has applied: it is prepared, and ends, on each."""
    begin(script, "--streaming", streaming)
    further = f"{script.database}_further"
    target = script.servers.publisher
    run_in(target, "postgres", f"CREATE DATABASE {further}")
    run_in(target, further, "CREATE TABLE t (a int PRIMARY KEY)")
    script.on_target("CREATE PUBLICATION further FOR TABLE t")
    flags = ["--from", place(script.servers.target, script.database), "--to", place(target, further)]
    onward = script.subscribe("further", name="further", flags=[*flags, "--two-phase"], waits=False)

    def sees(query: str, expected: str) -> None:
        wait_until(lambda: rows_in(target, further, query) == [expected])

    wait_until(lambda: onward.status()["tables"] != [] and onward.is_at(0))
    wait_until(lambda: rows_in(target, further, "SELECT subtwophasestate FROM headwater.subscription") == ["e"])
    last = 5000 if streaming == "on" else 11
    for end in (ROLLBACK, COMMIT):
        script.on_source(prepared(f"INSERT INTO t SELECT generate_series(11, {last})"))
        sees(PREPARED, "1")
        script.on_source(end)
        sees(PREPARED, "0")
    sees("SELECT count(*) FROM t", str(last - 9))


@pytest.mark.parametrize("streaming", ["on", "parallel"])
def test_023_large_prepared_transactions(script: Script, streaming: str) -> None:
    if streaming == "parallel" and script.major < 16:
        pytest.skip("servers of 16 stream so that it can be applied at once")
    begin(script, "--streaming", streaming)
    large = "INSERT INTO t SELECT generate_series(3, 3000); UPDATE t SET a = -a WHERE a % 2 = 0"
    large += "; DELETE FROM t WHERE a % 3 = 0"
    for end, amid in ((COMMIT, False), (ROLLBACK, False), (ROLLBACK, True), (COMMIT, True)):
        script.on_source(prepared(large))
        script.catch_up()
        assert script.rows(PREPARED) == ["1"]
        if amid:
            script.on_source("INSERT INTO t VALUES (99999)")
        script.on_source(end)
        script.catch_up()
        assert script.rows(PREPARED) == ["0"]
        assert script.rows(KEYS) == script.source_rows(KEYS)
        script.on_source("DELETE FROM t WHERE a <> 1")
