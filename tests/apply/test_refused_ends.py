"""The end of a transaction that the target refuses: once it does not any more, the transaction is applied.

From 16 on a server moves the session's origin also where it rolls a transaction back that has an LSN to move it to.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apply.scripts.script_runner import Script, Servers, new_script, run_in, server_of
from serving.service import wait_until

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
