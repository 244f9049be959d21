"""A source that fails over, or is switched over, while the service that receives from it is killed again and again.

Stock subscribers apply large and small work of both primaries: nothing is lost, and nothing comes twice.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bad_input.servers import conninfo_of, run, small_server
from bad_input.standbys import base_backup, standby_of
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from packaged_servers import is_packaged
from serving.killed_parts import Subscribers, kill_server, kill_service, options_of, subscriber_of, wait_for_work
from serving.large_work import LargeWork, finish_prepared, make_publisher
from serving.service import Serving, wait_until

pytestmark = [pytest.mark.server, pytest.mark.slow]

KILLS = 6
"""Of the service, before the promotion, and after it; each second one amid its files."""


@dataclass
class Source:
    """A primary and its standby.

    Attributes:
        primary, standby: as they began; present: the one that takes changes now.
    """

    primary: EmbeddedPostgres
    standby: EmbeddedPostgres
    present: EmbeddedPostgres

    def promote(self) -> None:
        """Let the standby be the primary; what was prepared is committed there."""
        run(self.standby, "SELECT pg_promote()")
        finish_prepared(self.standby)
        self.present = self.standby


@contextmanager
def source_of(major: int, directory: Path) -> Iterator[Source]:
    with small_server(major) as primary:
        make_publisher(primary)
        with standby_of(primary, base_backup(primary, directory / "base")) as standby:
            yield Source(primary, standby, primary)


MAJORS = [major for major in (15, 16, 17, 18, 19) if is_packaged(major)]


@pytest.mark.parametrize("major", MAJORS)
def test_a_failover(tmp_path: Path, major: int) -> None:
    """The primary and the service are killed at once; the service receives from the standby, which is promoted."""
    with source_of(major, tmp_path) as source:
        check_promotion(source, tmp_path, conninfo_of(source.standby), is_crash=True)


@pytest.mark.parametrize("major", MAJORS)
def test_a_switchover(tmp_path: Path, major: int) -> None:
    """The service knows both, and receives from whoever is the primary; it is started while none is."""
    with source_of(major, tmp_path) as source:
        hosts = ",".join(str(server.socket_directory) for server in (source.primary, source.standby))
        info = f"host={hosts} port={source.primary.port} user=postgres target_session_attrs=primary"
        check_promotion(source, tmp_path, info, is_crash=False)


def check_promotion(source: Source, directory: Path, conninfo: str, is_crash: bool) -> None:
    """Kill the service, promote the standby, kill it again; all subscribers have what the new primary has."""
    major = source.primary.programs.major
    choose, flags = random.Random(major), ("--from", conninfo, "--wal", str(directory / "archive"))
    (directory / "archive").mkdir()
    with (
        subscriber_of(major) as server,
        Serving(directory / "wal", directory / "base", directory / "slots", *flags) as serving,
    ):
        subscribers = Subscribers(server, serving, options_of(major, major))
        with LargeWork(lambda: source.present, major) as work:
            for number in range(KILLS):
                kill_service(serving, work, choose, number % 2 == 1)
            wait_for_work(work, 5)
            fail_over(source, serving, is_crash)
            for number in range(KILLS):
                kill_service(serving, work, choose, number % 2 == 1)
        subscribers.wait_for_equal(source.standby)
        subscribers.drop()
        assert serving.stop() == 0
    assert any((directory / "wal").glob("00000002*"))


def fail_over(source: Source, serving: Serving, is_crash: bool) -> None:
    """Let the standby take over, while the service is killed and started."""
    serving.stop(signal.SIGKILL)
    if is_crash:
        kill_server(source.primary)
        serving.start()
        source.promote()
    else:
        source.primary.stop()
        serving.start()
        wait_until(lambda: "trying again in" in serving.log.read_text())
        source.promote()
