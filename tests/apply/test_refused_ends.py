"""The end of a transaction that the target refuses: once it does not any more, the transaction is applied.

From 16 on a server moves the session's origin also where it rolls a transaction back that has an LSN to move it to.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial

import psycopg
import pytest

from apply import locked_ends
from apply.scripts.script_runner import Script, Servers, new_script, run_in, server_of
from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from forked_commands import ForkedCommand
from serving.service import END_SECONDS, wait_until

LATE = """
CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'too late'; END$$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late();
ALTER TABLE t ENABLE ALWAYS TRIGGER late;
"""
MAJORS = [18, pytest.param(14, marks=pytest.mark.slow), pytest.param(16, marks=pytest.mark.slow)]
SEEN = "SELECT count(*), min(a), max(a) FROM t"


@pytest.fixture(params=MAJORS)
def script(request: pytest.FixtureRequest) -> Iterator[Script]:
    """Begin a script with a table of its own servers."""
    with (
        server_of(request.param) as publisher,
        server_of(request.param) as target,
        new_script(Servers(publisher, target)) as begun,
    ):
        begun.everywhere("CREATE TABLE t (a int PRIMARY KEY)")
        begun.on_source("CREATE PUBLICATION p FOR TABLE t")
        yield begun


@pytest.mark.parametrize("streaming", ["off", "on", pytest.param("parallel", marks=pytest.mark.slow)])
def test_constraints_that_are_deferred(script: Script, streaming: str) -> None:
    if streaming == "parallel" and script.major < 16:
        pytest.skip("servers of 16 stream so that it can be applied at once")
    applied = script.subscribe("p", flags=["--streaming", streaming])
    script.on_target(LATE)
    script.on_source("INSERT INTO t SELECT generate_series(1, 2000)")
    wait_until(lambda: applied.has_met("too late"))
    applied.stop()
    script.on_target("DROP TRIGGER late ON t")
    applied.start()
    script.catch_up()
    assert script.rows(SEEN) == ["2000|1|2000"]


@pytest.mark.parametrize("streaming", ["off", pytest.param("parallel", marks=pytest.mark.slow)])
def test_transactions_that_cannot_be_prepared(script: Script, streaming: str) -> None:
    if script.major < 16:
        pytest.skip("servers of 16 can do both")
    applied = script.subscribe("p", flags=["--two-phase", "--streaming", streaming])
    wait_until(lambda: script.rows("SELECT subtwophasestate FROM headwater.subscription") == ["e"])
    target = script.servers.target
    for value, sets in (("0", "SET max_prepared_transactions = 0"), ("20", "RESET max_prepared_transactions")):
        run_in(target, "postgres", f"ALTER SYSTEM {sets}")
        target.stop()
        target.start()
        if value == "0":
            script.on_source("BEGIN; INSERT INTO t SELECT generate_series(1, 2000); PREPARE TRANSACTION 'x'")
            script.on_source("INSERT INTO t VALUES (5000)")
            wait_until(lambda: applied.has_met("prepared transactions are disabled"))
    script.catch_up()
    assert script.rows(SEEN) == ["1|5000|5000"]
    script.on_source("COMMIT PREPARED 'x'")
    script.catch_up()
    assert script.rows(SEEN) == ["2001|1|5000"]


WAITING = """
SELECT pid, application_name ~ 'unit' FROM pg_stat_activity
WHERE wait_event = 'advisory' AND datname = current_database()
"""
MADE_SOURCE = ("CREATE TABLE t (a int PRIMARY KEY)", "CREATE PUBLICATION p FOR ALL TABLES")


def _has(pair: Pair, rows: int) -> bool:
    return pair.run(OURS, "SELECT count(*) FROM t") == [(rows,)]


@pytest.mark.parametrize(
    "major", [18, pytest.param(14, marks=pytest.mark.slow), pytest.param(16, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("transactions", "rows", "workers"), [(1, 5, 1), (1, 2000, 1), (4, 2000, 2)])
def test_sessions_that_are_ended_before_their_commit(major: int, transactions: int, rows: int, workers: int) -> None:
    """One by one, as a batch, as units: the origin has moved, but nothing of it was committed."""
    with pair_of(major) as pair:
        pair.run(SOURCE, *MADE_SOURCE)
        pair.run(OURS, MADE_SOURCE[0])
        command = [str(locked_ends.__file__), "apply", "--from", pair.place(SOURCE)]
        command += ["--to", pair.place(OURS), "--publication", "p", "--no-copy-data", "--retry-interval", "0.2"]
        command += ["--workers", str(workers)]
        process = ForkedCommand(command)
        with psycopg.connect(pair.place(OURS), autocommit=True) as holding:
            try:
                wait_until(lambda: pair.run(SOURCE, "SELECT count(*) FROM pg_replication_slots WHERE active") == [(1,)])
                pair.run(SOURCE, "INSERT INTO t SELECT generate_series(1, 30)")
                wait_until(partial(_has, pair, 30))
                holding.execute(f"SELECT pg_advisory_lock({locked_ends.LOCK})".encode())
                process.send_signal(signal.SIGSTOP)
                for first in range(101, 101 + transactions * rows, rows):
                    pair.run(SOURCE, f"INSERT INTO t SELECT generate_series({first}, {first + rows - 1})")
                process.send_signal(signal.SIGCONT)
                wait_until(lambda: pair.run(OURS, WAITING) != [])
                # With workers that is a unit's session, unless the first transaction has come by itself.
                pid, is_unit = pair.run(OURS, WAITING)[0]
                assert workers > 1 or not is_unit
                pair.run(OURS, f"SELECT pg_terminate_backend({pid})")
                holding.execute(f"SELECT pg_advisory_unlock({locked_ends.LOCK})".encode())
                pair.run(SOURCE, "INSERT INTO t VALUES (0)")
                wait_until(partial(_has, pair, 31 + transactions * rows))
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(END_SECONDS)
