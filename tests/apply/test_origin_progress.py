"""The row of the target's that says how far an origin is: found where it was left, and missed where it is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apply.scripts.script_runner import Script, Servers, both_of, new_script, place
from headwater.apply.incoming.messages import Insert, SentTuple
from headwater.apply.incoming.remote_transaction import RemoteTransaction
from headwater.apply.progress.installation import install
from headwater.apply.progress.origin_progress import come_to, read_progress, take_progress
from headwater.apply.progress.origins import ensure_origin, use_origin
from headwater.apply.progress.positions import FlushPositions
from headwater.apply.serial.serial_applier import SerialApplier
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.relation_map import RelationMap
from headwater.apply.target.session import TargetFacts, open_target
from headwater.errors import TargetError
from headwater.remote_slots.announced_relations import SentColumn, SentRelation
from serving.service import wait_until

NAME = "headwater_sub"
PAGES = "SELECT pg_relation_size('headwater.origin_progress') / 8192"


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Run both servers."""
    with both_of(16) as started:
        yield started


@pytest.fixture
def script(servers: Servers) -> Iterator[Script]:
    """Begin a script with a table of its own."""
    with new_script(servers) as begun:
        begun.everywhere("CREATE TABLE t (a int PRIMARY KEY)")
        begun.on_source("CREATE PUBLICATION p FOR TABLE t")
        yield begun


@pytest.fixture
def connection(script: Script) -> Iterator[TargetConnection]:
    """Open a session of the target's with the schema."""
    opened, _ = open_target(place(script.servers.target, script.database), "progress")
    with opened:
        install(opened)
        yield opened


def come(connection: TargetConnection, first: int, last: int) -> None:
    """Commit how far it is, again and again."""
    for lsn in range(first, last + 1):
        connection.send(come_to(lsn))
        connection.sync()
    connection.drain()


def test_a_page_is_tidied_up_as_it_is_written(connection: TargetConnection, script: Script) -> None:
    take_progress(connection, NAME)
    come(connection, 1, 2000)
    assert script.rows(PAGES) == ["1"]
    assert read_progress(connection, NAME) == {NAME: 2000}


def test_versions_that_a_long_transaction_keeps_are_not_looked_through(
    connection: TargetConnection, script: Script
) -> None:
    take_progress(connection, NAME)
    with script.servers.target.connect(script.database) as holding:
        holding.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holding.execute("SELECT 1")
        come(connection, 1, 2000)
        read = "SELECT heap_blks_hit FROM pg_statio_user_tables WHERE relname = 'origin_progress'"
        connection.rows("SELECT pg_stat_force_next_flush()")
        before = int(script.rows(read)[0])
        come(connection, 2001, 3000)
        connection.rows("SELECT pg_stat_force_next_flush()")
        after = int(script.rows(read)[0])
        holding.execute("COMMIT")
    assert int(script.rows(PAGES)[0]) > 10
    assert after - before < 20 * 1000
    assert read_progress(connection, NAME) == {NAME: 3000}


def test_it_never_goes_back(connection: TargetConnection) -> None:
    take_progress(connection, NAME, 500)
    come(connection, 7, 8)
    take_progress(connection, NAME, 400)
    assert read_progress(connection, NAME) == {NAME: 500}


@pytest.mark.parametrize("spoils", ["DELETE FROM headwater.origin_progress", "VACUUM FULL headwater.origin_progress"])
def test_a_row_that_is_gone_fails_the_commit(connection: TargetConnection, script: Script, spoils: str) -> None:
    take_progress(connection, NAME)
    come(connection, 1, 10)
    script.on_target(spoils)
    with pytest.raises(TargetError, match="row_of_origin_progress_is_gone"):
        come(connection, 11, 11)
    take_progress(connection, NAME, 10)
    come(connection, 11, 11)
    assert read_progress(connection, NAME) == {NAME: 11}


def test_a_run_goes_on_behind_a_row_that_is_gone(script: Script) -> None:
    applied = script.subscribe("p")
    script.on_source("INSERT INTO t VALUES (1)")
    script.catch_up()
    script.on_target("DELETE FROM headwater.origin_progress")
    script.on_source("INSERT INTO t VALUES (2)")
    wait_until(lambda: script.rows("SELECT a FROM t ORDER BY 1") == ["1", "2"])
    assert applied.has_met("row_of_origin_progress_is_gone")


def test_an_origin_that_was_moved_by_hand_is_set_back(script: Script) -> None:
    applied = script.subscribe("p")
    script.on_source("INSERT INTO t VALUES (1)")
    script.catch_up()
    applied.stop()
    script.on_source("INSERT INTO t VALUES (2)")
    script.on_target(f"SELECT pg_replication_origin_advance('headwater_{script.name('sub')}', '7F/0')")
    applied.start()
    script.catch_up()
    assert script.rows("SELECT a FROM t ORDER BY 1") == ["1", "2"]
    status = "SELECT remote_lsn < '7F/0' FROM pg_replication_origin_status"
    assert script.rows(f"{status} WHERE external_id = 'headwater_{script.name('sub')}'") == ["t"]


def test_an_empty_transaction_confirms_nothing_that_is_on_its_way(connection: TargetConnection) -> None:
    facts = TargetFacts(connection.version, "postgres", "postgres", "UTF8", True)
    relations, positions = RelationMap(connection, facts), FlushPositions(50)
    relations.announce(SentRelation(1, "public", "t", "d", (SentColumn("a", 23, -1, True),)))
    take_progress(connection, NAME)
    origin = ensure_origin(connection, NAME)
    use_origin(connection, origin)
    applier = SerialApplier(connection, relations, origin, positions)
    applier.begin(RemoteTransaction(7, 90))
    applier.change(Insert(0, 1, SentTuple(b"t", (b"1",))))
    applier.commit(100, 0)
    applier.begin(RemoteTransaction(8, 190))
    applier.commit(200, 0)
    assert positions.durable == 50
    applier.flush()
    assert (positions.durable, positions.applied, positions.waits) == (50, 200, True)

    def is_durable() -> bool:
        applier.look_for_flushed()
        return not positions.waits

    wait_until(is_durable)
    assert positions.durable == 200
