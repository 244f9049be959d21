"""A source that fails over to a standby with the slot: applying goes on from there, nothing lost and nothing twice.

From 17 on standbys synchronize slots. Each round the source is killed, its standby promoted, and a new standby made.
What the old source had committed and the standby has not is not on the target either, as its walsender waits for the
standby (``synchronized_standby_slots``).
"""

from __future__ import annotations

import random
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from apply.differential import OURS, SOURCE_DATABASE, Applying, place, rows_of, server_of
from apply.killed_servers import Writing
from bad_input.standbys import standby_of
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import backup_of, wait_until

pytestmark = [pytest.mark.server, pytest.mark.slow]

TABLES = (
    "CREATE TABLE log (round int, at int, part int)",
    "CREATE TABLE counter (id int PRIMARY KEY, total bigint)",
)
FILL = ("INSERT INTO counter SELECT g, 0 FROM generate_series(0, 9) g",)
SLOT = f"SELECT pg_create_logical_replication_slot('{OURS}', 'pgoutput', failover => true)"
LEADS = (
    "SELECT pg_create_physical_replication_slot('standby', true)",
    "ALTER SYSTEM SET synchronized_standby_slots = 'standby'",
    "SELECT pg_reload_conf()",
)
PROMOTED = ("SELECT pg_promote()", "ALTER SYSTEM RESET synchronized_standby_slots", "SELECT pg_reload_conf()")
OF_STANDBY = "sync_replication_slots = on\nhot_standby_feedback = on\nprimary_slot_name = 'standby'\n"
SYNCED = f"SELECT synced AND NOT temporary FROM pg_replication_slots WHERE slot_name = '{OURS}'"
ACTIVE = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{OURS}'"
ALL = ("SELECT * FROM log ORDER BY 1, 2, 3", "SELECT * FROM counter ORDER BY 1")


def run(server: EmbeddedPostgres, *statements: str) -> None:
    """Run statements in a session."""
    for statement in statements:
        rows_of(server, statement)


def new_standby(stack: ExitStack, primary: EmbeddedPostgres, directory: Path) -> EmbeddedPostgres:
    """Make a standby to which the slot is synchronized, and wait until it is."""
    run(primary, *LEADS)
    backup = backup_of(primary, directory)
    with (backup / "postgresql.conf").open("a") as configuration:
        configuration.write(OF_STANDBY)
    standby = stack.enter_context(standby_of(primary, backup))

    def is_synced() -> bool:
        run(primary, "SELECT pg_log_standby_snapshot()")
        return rows_of(standby, SYNCED) == [(True,)]

    wait_until(is_synced)
    return standby


def transaction(number: int, turn: int) -> str:
    """Return a transaction of a round."""
    insert = f"INSERT INTO log SELECT {turn}, {number}, g FROM generate_series(1, 3) g"
    return f"BEGIN; {insert}; UPDATE counter SET total = total + 1 WHERE id = {number % 10}; COMMIT"


@pytest.mark.parametrize("flags", [(), ("--workers", "3", "--order", "keys")], ids=["alone", "keys"])
@pytest.mark.parametrize("major", [17, 18, 19])
@pytest.mark.parametrize("rounds", [2, 9])
def test_each_standby_takes_over(tmp_path: Path, rounds: int, major: int, flags: tuple[str, ...]) -> None:
    chance = random.Random(f"{major} {flags}")
    with ExitStack() as stack:
        source, target = stack.enter_context(server_of(major)), stack.enter_context(server_of(major))
        run(target, f"CREATE DATABASE {OURS}")
        run(source, *TABLES, *FILL, "CREATE PUBLICATION p FOR ALL TABLES", SLOT)
        for statement in (*TABLES, *FILL):
            rows_of(target, statement, OURS)
        worker = Applying(place(source, SOURCE_DATABASE), place(target, OURS), tmp_path / "log", *flags)
        stack.enter_context(worker)
        for turn in range(rounds):
            with Writing(source.connect, lambda number, turn=turn: transaction(number, turn)):  # type: ignore[misc]
                standby = new_standby(stack, source, tmp_path / f"backup-{turn}")
                time.sleep(chance.random())
                source.crash()
            if turn % 2:
                worker.stop(signal.SIGKILL)
            run(standby, *PROMOTED)
            if worker.process.poll() is None:
                worker.stop(chance.choice((signal.SIGINT, signal.SIGKILL)))
            worker.flags[worker.flags.index("--from") + 1] = place(standby, SOURCE_DATABASE)
            worker.start()
            source = standby
            catch_up(source, target)
            for query in ALL:
                assert rows_of(target, query, OURS) == rows_of(source, query)
        assert rows_of(source, "SELECT count(DISTINCT round) FROM log") == [(rounds,)]


def catch_up(source: EmbeddedPostgres, target: EmbeddedPostgres) -> None:
    """Wait until the target has all that the source has."""
    run(source, "INSERT INTO log VALUES (0, 0, 0)")
    ((count,),) = rows_of(source, "SELECT count(*) FROM log")
    wait_until(lambda: rows_of(target, "SELECT count(*) FROM log", OURS) == [(count,)])


@pytest.mark.parametrize("major", [17, 18])
def test_both_servers_are_named(tmp_path: Path, major: int) -> None:
    """The worker finds the promoted server by itself."""
    with ExitStack() as stack:
        source, target = stack.enter_context(server_of(major)), stack.enter_context(server_of(major))
        run(target, f"CREATE DATABASE {OURS}")
        run(source, *TABLES, *FILL, "CREATE PUBLICATION p FOR ALL TABLES", SLOT)
        for statement in (*TABLES, *FILL):
            rows_of(target, statement, OURS)
        worker = Applying(place(source, SOURCE_DATABASE), place(target, OURS), tmp_path / "log")
        stack.enter_context(worker)
        with Writing(source.connect, lambda number: transaction(number, 0)):
            standby = new_standby(stack, source, tmp_path / "backup")
            hosts = f"host='{source.socket_directory},{standby.socket_directory}' target_session_attrs=read-write"
            either = f"{hosts} port={source.port} user=postgres dbname={SOURCE_DATABASE}"
            worker.stop()
            worker.flags[worker.flags.index("--from") + 1] = either
            worker.start()
            wait_until(lambda: rows_of(source, ACTIVE) == [(True,)])
            source.crash()
        run(standby, *PROMOTED)
        with Writing(standby.connect, lambda number: transaction(number, 1)):
            wait_until(lambda: rows_of(target, "SELECT count(*) > 100 FROM log WHERE round = 1", OURS) == [(True,)])
        catch_up(standby, target)
        for query in ALL:
            assert rows_of(target, query, OURS) == rows_of(standby, query)
