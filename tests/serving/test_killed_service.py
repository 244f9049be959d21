"""A service that is killed, and started again, while a stock subscriber applies a random workload: nothing is lost."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from bad_input.servers import run, small_server
from serving.service import Serving, backup_of, wait_until
from serving.subscribing import TABLES, subscribe, sums
from serving.workload import Workload

pytestmark = pytest.mark.server

KILLS = 6


@pytest.mark.parametrize(
    ("major", "options"), [(16, "streaming = on"), pytest.param(18, "two_phase = on", marks=pytest.mark.slow)]
)
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path, major: int, options: str) -> None:
    with small_server(major) as publisher, small_server(major) as subscriber:
        run(publisher, *TABLES, "CREATE PUBLICATION p FOR ALL TABLES")
        run(subscriber, *TABLES)
        catalog = backup_of(publisher, tmp_path / "base")
        with Serving(publisher.wal_directory, catalog, tmp_path / "slots") as serving:
            subscribe(subscriber, serving, f"copy_data = false, {options}")
            with Workload(publisher, major) as workload:
                for _ in range(KILLS):
                    before = workload.transactions
                    wait_until(lambda before=before: workload.transactions > before + 300)  # type: ignore[misc]
                    serving.stop(signal.SIGKILL)
                    serving.start()
            expected = sums(publisher)
            wait_until(lambda: sums(subscriber) == expected)
            run(subscriber, "DROP SUBSCRIPTION s")
            assert serving.stop() == 0
