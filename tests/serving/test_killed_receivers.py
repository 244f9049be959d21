"""Receivers that are killed at any moment, and amid their files, beside a service and inside of it.

Stock subscribers apply large and small work meanwhile: nothing is lost, and nothing comes twice.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from bad_input.servers import conninfo_of, now, small_server
from forked_commands import MAIN
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from packaged_servers import is_packaged
from serving.killed_parts import (
    LONG_SECONDS,
    Receiver,
    Subscribers,
    kill_service,
    options_of,
    random_failpoint,
    subscriber_of,
    wait_for_work,
)
from serving.large_work import LargeWork, make_publisher
from serving.service import Serving, backup_of, content, wait_until

pytestmark = pytest.mark.server

KILLS, FEW_KILLS = 20, 2
SLOW_PAIRS = [
    pytest.param(*pair, KILLS, marks=pytest.mark.slow)
    for pair in ((18, 18), (14, 16), (15, 17), (17, 15), (19, 19))
    if all(map(is_packaged, pair))
]
SLOT = ("--slot", "received", "--create-slot", "--status-interval", "0.5")


@pytest.mark.parametrize(("major", "subscriber_major", "kills"), [(16, 16, FEW_KILLS), *SLOW_PAIRS])
def test_beside_the_service(tmp_path: Path, major: int, subscriber_major: int, kills: int) -> None:
    """By every second kill the receiver dies amid a write, or before a file is synced, opened or renamed."""
    choose, wal, copies = random.Random(major), tmp_path / "wal", kills > FEW_KILLS
    with small_server(major) as publisher, subscriber_of(subscriber_major) as server:
        make_publisher(publisher, has_rows=copies)
        catalog = backup_of(publisher, tmp_path / "base")
        with Receiver(conninfo_of(publisher), wal, *SLOT) as receiver:
            wait_until(lambda: any(wal.glob("*.partial")))
            sources = ("--wal", str(catalog / "pg_wal"))
            with Serving(wal, catalog, tmp_path / "slots", *sources) as serving:
                subscribers = Subscribers(
                    server, serving, options_of(major, subscriber_major)[: 2 * kills], copies=copies
                )
                with LargeWork(lambda: publisher, major) as work:
                    for number in range(kills):
                        kill_receiver(receiver, work, choose, number % 2 == 1)
                receiver.program = MAIN
                receiver.stop()
                receiver.start()
                subscribers.wait_for_equal(publisher)
                subscribers.drop()
                assert serving.stop() == 0
            assert receiver.stop() == 0
        check_files(publisher, wal)


def kill_receiver(receiver: Receiver, work: LargeWork, choose: random.Random, is_amid: bool) -> None:
    """Kill a receiver, at a moment or by itself amid its files, and start it again."""
    if is_amid:
        receiver.stop(signal.SIGKILL)
        receiver.program = random_failpoint(choose)
        receiver.start()
        wait_until(lambda: receiver.has_ended, LONG_SECONDS)
        receiver.program = MAIN
    else:
        wait_for_work(work, choose.randint(3, 25))
        assert receiver.stop(signal.SIGKILL) == -signal.SIGKILL
    receiver.start()


@pytest.mark.slow
@pytest.mark.parametrize(("major", "subscriber_major"), [(16, 18), (18, 16), (15, 15), (17, 17)])
def test_inside_of_the_service(tmp_path: Path, major: int, subscriber_major: int) -> None:
    """The service dies with its receiver, also amid what it writes of slots and states; each start has both again."""
    choose, wal = random.Random(major), tmp_path / "wal"
    with small_server(major) as publisher, subscriber_of(subscriber_major) as server:
        make_publisher(publisher, has_rows=True)
        catalog = backup_of(publisher, tmp_path / "base")
        info = conninfo_of(publisher)
        flags = ("--from", info, "--receive-slot", "received", "--keep", "16MB", "--upstream", info)
        with Serving(wal, catalog, tmp_path / "slots", *flags) as serving:
            subscribers = Subscribers(server, serving, options_of(major, subscriber_major), copies=True)
            subscribers.wait_for_copies()
            with LargeWork(lambda: publisher, major) as work:
                for number in range(KILLS):
                    kill_service(serving, work, choose, number % 2 == 1)
            subscribers.wait_for_equal(publisher)
            subscribers.drop()
            assert b"no WAL is removed" not in content(serving.log)
            assert serving.stop() == 0
        check_files(publisher, wal)


def check_files(server: EmbeddedPostgres, wal: Path) -> None:
    """Check that whole segments are the server's."""
    now(server)
    whole = [path for path in wal.iterdir() if len(path.name) == 24]
    assert whole
    for path in whole:
        assert path.read_bytes() == (server.wal_directory / path.name).read_bytes(), path.name
