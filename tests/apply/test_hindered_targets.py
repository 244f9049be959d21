"""A target that is full, read-only, locked or failed over: that is an error, tried again, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from apply.scripts.script_runner import Script, Servers, both_of, new_script, place, run_in
from bad_input.standbys import catch_up, standby_of
from headwater.local_servers.server_user import give_to_server
from serving.service import backup_of, wait_until

SEEN = "SELECT count(*), min(a), max(a) FROM t"


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Run both servers."""
    with both_of(18, wal_retrieve_retry_interval="200ms") as started:
        yield started


@pytest.fixture
def script(servers: Servers) -> Iterator[Script]:
    """Begin a script with a table that is published."""
    with new_script(servers) as begun:
        begun.everywhere("CREATE TABLE t (a int PRIMARY KEY, b text)")
        begun.on_source("CREATE PUBLICATION p FOR TABLE t")
        yield begun


def insert(script: Script, first: int, last: int) -> None:
    """Insert rows on the publisher, many transactions' worth."""
    for begin in range(first, last + 1, 100):
        script.on_source(f"INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series({begin}, {begin + 99}) i")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a small file system of its own."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a file system of its own needs root")
    directory = Path("/tmp") / f"headwater-disk-{os.getpid()}-{tmp_path.name}"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(directory)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode:
        directory.rmdir()
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    give_to_server(directory)
    directory.chmod(0o700)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)
        directory.rmdir()


def test_a_disk_that_is_full(script: Script, disk: Path) -> None:
    space = f"{script.database}_space"
    run_in(script.servers.target, "postgres", f"CREATE TABLESPACE {space} LOCATION '{disk}'")
    script.on_target(f"ALTER TABLE t SET TABLESPACE {space}")
    applied = script.subscribe("p")
    insert(script, 1, 12_000)
    wait_until(lambda: applied.has_met("No space left on device"))
    subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
    script.catch_up()
    assert script.rows(SEEN) == ["12000|1|12000"]
    script.on_target("ALTER TABLE t SET TABLESPACE pg_default")
    run_in(script.servers.target, "postgres", f"DROP TABLESPACE {space}")


def test_a_target_whose_sessions_are_read_only(script: Script) -> None:
    """What comes is applied all the same, as a subscription does; a standby refuses, see below."""
    applied = script.subscribe("p")
    read_only = f"ALTER DATABASE {script.database} SET default_transaction_read_only"
    end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{script.database}'"
    run_in(script.servers.target, "postgres", f"{read_only} = on", end)
    insert(script, 1, 300)
    script.catch_up()
    assert script.rows(SEEN) == ["300|1|300"]
    assert not applied.has_met("read-only")


def test_a_lock_that_is_held(script: Script) -> None:
    """It waits, as a subscription does; a time limit of the target's is an error, which is tried again."""
    applied = script.subscribe("p")
    target = script.servers.target
    with target.connect(script.database) as session:
        session.execute("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        insert(script, 1, 300)
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        wait_until(lambda: script.rows(waiting) == ["1"])
        ends = waiting.replace("count(*)", "pg_cancel_backend(pid)")
        for _ in range(3):
            applied.errors.clear()
            wait_until(lambda: script.rows(ends) == ["t"])
            wait_until(lambda: applied.has_met("canceling statement"))
        session.execute("ROLLBACK")
    script.catch_up()
    assert script.rows(SEEN) == ["300|1|300"]


def test_a_row_that_the_target_never_takes(script: Script) -> None:
    """It stands before all behind it, until the cause is mended; then all comes, each once."""
    applied = script.subscribe("p")
    script.on_target("ALTER TABLE t ADD CHECK (a <> 150)")
    insert(script, 1, 300)
    for _ in range(3):
        applied.errors.clear()
        wait_until(lambda: applied.has_met("violates check constraint"))
        assert script.rows(SEEN) == ["100|1|100"]
    script.on_target("ALTER TABLE t DROP CONSTRAINT t_a_check")
    script.catch_up()
    assert script.rows(SEEN) == ["300|1|300"]


def test_a_target_that_fails_over(script: Script, tmp_path: Path) -> None:
    """The standby has the origin and the states: it refuses until it is promoted, and then the run goes on there."""
    target = script.servers.target
    run_in(target, "postgres", "SELECT pg_create_physical_replication_slot('standby')")
    insert(script, 1, 100)
    applied = script.subscribe("p")
    backup = backup_of(target, tmp_path / "backup")
    with standby_of(target, backup) as standby:
        insert(script, 101, 300)
        script.catch_up()
        catch_up(standby, script.rows("SELECT pg_current_wal_lsn()")[0])
        applied.stop()
        insert(script, 301, 500)
        applied.start("--to", place(standby, script.database))
        wait_until(lambda: applied.has_met("recovery is in progress") or applied.has_met("read-only transaction"))
        run_in(standby, "postgres", "SELECT pg_promote()")
        end = script.end()
        script.end()
        wait_until(lambda: applied.is_at(end))
        with standby.connect(script.database) as session:
            assert session.execute(SEEN.encode()).fetchall() == [(500, 1, 500)]
        applied.stop()
    run_in(target, "postgres", "SELECT pg_drop_replication_slot('standby')")
