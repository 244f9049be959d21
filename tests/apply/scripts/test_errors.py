"""Counts of errors, subscriptions that are disabled by them, and transactions that are skipped: scripts 026 and 029."""

from __future__ import annotations

import re

import pytest

from apply.scripts.script_runner import Applied, Script
from serving.service import wait_until

FINISHED = re.compile(r"finished at ([0-9A-F]+/[0-9A-F]+)")


def test_026_counts_of_errors_and_conflicts(script: Script) -> None:
    script.on_source("CREATE TABLE t (a int); ALTER TABLE t REPLICA IDENTITY FULL; INSERT INTO t VALUES (1)")
    script.on_target("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)")
    script.on_source("CREATE PUBLICATION p FOR TABLE t")
    applied = script.subscribe("p", waits=False)
    wait_until(lambda: applied.has_met("duplicate key"))

    def counts(*columns: str) -> bool:
        over = " AND ".join(f"{column} > 0" for column in columns)
        query = f"SELECT count(*) FROM headwater.stat_subscription_stats WHERE subname = '{script.name('sub')}' AND "
        return script.rows(query + over) == ["1"]

    wait_until(lambda: counts("sync_error_count"))
    script.on_target("TRUNCATE t")
    script.catch_up()
    assert script.rows("SELECT a FROM t") == ["1"]
    script.on_source("INSERT INTO t VALUES (1)")
    detects = script.major >= 18
    wait_until(lambda: counts("apply_error_count", *(["confl_insert_exists"] if detects else [])))
    script.on_target("TRUNCATE t")
    script.on_source("DELETE FROM t")
    script.catch_up()
    if detects:
        wait_until(lambda: counts("confl_delete_missing"))
    script.drop()
    assert script.rows("SELECT count(*) FROM headwater.stat_subscription_stats") == ["0"]


def skip(script: Script, applied: Applied) -> None:
    """Wait until the subscription is disabled, and let it go on behind the transaction that has done so."""
    error = applied.waits()
    assert error is not None
    match = FINISHED.search("\n".join(error.details()))
    assert match is not None, error.details()
    assert script.rows("SELECT subenabled FROM headwater.subscription_run") == ["f"]
    applied.start("--enable", "--skip-lsn", match[1])
    script.catch_up()
    assert applied.has_said(f"logical replication completed skipping transaction at LSN {match[1]}")


def test_029_disabled_by_an_error_and_skipping(script: Script) -> None:
    if script.major < 15:
        pytest.skip("subscriptions of 15 can be disabled by errors, and have two_phase")
    script.on_source("CREATE TABLE t (i int, t bytea); ALTER TABLE t REPLICA IDENTITY FULL; INSERT INTO t VALUES (1)")
    script.on_target("CREATE TABLE t (i int PRIMARY KEY, t bytea); INSERT INTO t VALUES (1)")
    script.on_source("CREATE PUBLICATION p FOR TABLE t")
    flags = ["--disable-on-error", "--streaming", "on", "--two-phase"]
    applied = script.subscribe("p", flags=flags, waits=False)
    assert "duplicate key value" in str(applied.waits())
    applied.start()
    assert "disabled" in str(applied.waits())
    script.on_target("TRUNCATE t")
    applied.start("--enable")
    script.catch_up()
    count = "SELECT count(*) FROM t"
    assert script.rows(count) == ["1"]
    conflicts = (
        ("BEGIN; INSERT INTO t VALUES (1); COMMIT", "2"),
        ("BEGIN; UPDATE t SET i = 2 WHERE i = 1; PREPARE TRANSACTION 'x'", "3"),
        ("BEGIN; INSERT INTO t SELECT i, sha256(i::text::bytea) FROM generate_series(1, 5000) i; COMMIT", "4"),
    )
    for work, number in conflicts:
        script.on_source(work, *(["COMMIT PREPARED 'x'"] if "PREPARE" in work else []))
        skip(script, applied)
        script.on_source(f"INSERT INTO t VALUES ({number})")
        script.catch_up()
        assert script.rows(count) == [number]
    assert script.rows("SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()") == ["0"]
