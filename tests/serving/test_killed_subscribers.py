"""Stock subscribers that are killed, and recover, while large and small work goes on: nothing is lost, nothing twice.

What a subscriber has committed, and not synced, is gone then: the service has it still, as it was not confirmed.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from bad_input.servers import conninfo_of, small_server
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from packaged_servers import is_packaged
from serving.killed_parts import (
    Subscribers,
    kill_server,
    kill_worker,
    options_of,
    subscriber_of,
    wait_for_work,
)
from serving.large_work import LargeWork, make_publisher
from serving.service import Serving, backup_of

pytestmark = pytest.mark.server

KILLS = 20
PAIRS = [
    pytest.param(*pair, marks=pytest.mark.slow)
    for pair in ((16, 16), (18, 18), (16, 14), (15, 17), (17, 15), (19, 19))
    if all(map(is_packaged, pair))
]


@pytest.mark.parametrize(("major", "subscriber_major"), PAIRS)
def test_a_subscriber(tmp_path: Path, major: int, subscriber_major: int) -> None:
    """All of its processes, an immediate stop, or one that applies; every fifth time the service is killed as well."""
    choose = random.Random(major)
    with small_server(major) as publisher, subscriber_of(subscriber_major) as server:
        make_publisher(publisher, has_rows=True)
        catalog = backup_of(publisher, tmp_path / "base")
        flags = ("--from", conninfo_of(publisher), "--upstream", conninfo_of(publisher))
        with Serving(tmp_path / "wal", catalog, tmp_path / "slots", *flags) as serving:
            subscribers = Subscribers(server, serving, options_of(major, subscriber_major), copies=True)
            subscribers.wait_for_copies()
            with LargeWork(lambda: publisher, major) as work:
                for number in range(KILLS):
                    wait_for_work(work, choose.randint(3, 25))
                    if number % 5 == 4:
                        serving.stop(signal.SIGKILL)
                    choose.choice(WAYS)(server, choose)
                    if number % 5 == 4:
                        serving.start()
            subscribers.wait_for_equal(publisher)
            subscribers.drop()
            assert serving.stop() == 0


def _killed(server: EmbeddedPostgres, _: random.Random) -> None:
    kill_server(server)
    server.start()


def _stopped_at_once(server: EmbeddedPostgres, _: random.Random) -> None:
    server.crash()
    server.start()


WAYS: tuple[Callable[[EmbeddedPostgres, random.Random], None], ...] = (_killed, _stopped_at_once, kill_worker)
