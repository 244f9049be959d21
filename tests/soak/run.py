"""The run: a server under load, a service that is killed now and then, and who is subscribed to it.

In the first two fifths of the time the service is killed and started again, and its receiver's connection is ended, in
turns. After that the connection alone is, so that the memory of one process is seen long enough. One client is stopped
from a quarter of the time to three quarters of it.
"""

from __future__ import annotations

import argparse
import json
import signal
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bad_input.servers import conninfo_of, now, run, small_server
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import Serving, backup_of, wait_until
from serving.subscribing import TABLES
from serving.workload import Workload
from soak.memory import Judgement, Sample, judged, rss_of_tree
from soak.subscribers import KINDS, MAJOR, PUBLICATIONS, SUBSCRIPTIONS, FileClients, StockSubscribers

PAUSE_SECONDS = 0.1
"""Between two transactions of a session."""

KILLED_PART, STOPPED_PART = 0.4, (0.25, 0.75)
STOPPED = "k0_0"
"""The client that is stopped."""

DISTURBANCES = 24
"""Kills of the service, and ends of its connection, in the whole time."""

PUBLISHER = {"max_wal_senders": "20", "max_replication_slots": "20", "logical_decoding_work_mem": "64kB"}
SUBSCRIBER = {
    "max_logical_replication_workers": "30",
    "max_worker_processes": "40",
    "max_replication_slots": "20",
    "wal_retrieve_retry_interval": "1s",
}
END_CONNECTION = "SELECT pg_terminate_backend(pid) FROM pg_stat_replication WHERE application_name = 'headwater'"


@dataclass
class Report:
    """The report of a run.

    Attributes:
        kills: of the service; ended_connections: of its receiver; revived: clients that had ended.
        transactions: of the load; samples: of memory.
        unequal: names of those that have not come to what the server has.
    """

    seconds: float
    kills: int = 0
    ended_connections: int = 0
    revived: int = 0
    transactions: int = 0
    samples: list[Sample] = field(default_factory=list)
    unequal: list[str] = field(default_factory=list)

    def content(self, judgement: Judgement) -> dict[str, object]:
        """Return what is written as JSON."""
        count = len(SUBSCRIPTIONS) + sum(kind.count for kind in KINDS)
        verdict = {"is_flat": judgement.is_flat, "is_small": judgement.is_small}
        return {"subscribers": count, **asdict(judgement), **verdict, **asdict(self)}


class Disturber:
    """The one who kills, ends and stops, at its time.

    Args:
        report: where it is counted; publisher, serving, clients: who is disturbed.
    """

    def __init__(self, report: Report, publisher: EmbeddedPostgres, serving: Serving, clients: FileClients) -> None:
        self._report, self._publisher, self._serving = report, publisher, serving
        self._clients = clients
        self._is_stopped = False
        self._done = 0

    def look(self, part: float) -> None:
        """Do what is due after a part of the time."""
        self._report.revived += self._clients.revive()
        self.stop_or_resume(STOPPED_PART[0] <= part < STOPPED_PART[1])
        if part * DISTURBANCES < self._done + 1:
            return
        self._done += 1
        if part < KILLED_PART and self._done % 2:
            self._serving.stop(signal.SIGKILL)
            self._serving.start()
            self._report.kills += 1
        else:
            run(self._publisher, END_CONNECTION)
            self._report.ended_connections += 1

    def stop_or_resume(self, is_stopped: bool) -> None:
        """Let the client be stopped, or go on."""
        if is_stopped and not self._is_stopped:
            self._clients.running[STOPPED].pause()
        elif self._is_stopped and not is_stopped:
            self._clients.running[STOPPED].resume()
        self._is_stopped = is_stopped


def soak(seconds: float, directory: Path) -> Report:
    """Run for so long, and until all subscribers have all; return what has happened."""
    report = Report(seconds)
    with small_server(MAJOR, **PUBLISHER) as publisher, small_server(MAJOR, **SUBSCRIBER) as subscriber:
        run(publisher, *TABLES, *PUBLICATIONS)
        catalog = backup_of(publisher, directory / "base")
        flags = ("--from", conninfo_of(publisher), "--keep", "64MB")
        with Serving(directory / "wal", catalog, directory / "slots", *flags) as serving:
            files = FileClients(publisher, serving, directory)
            stock = StockSubscribers(publisher, subscriber, serving)
            with Workload(publisher, 1, PAUSE_SECONDS) as workload:
                disturber = Disturber(report, publisher, serving, files)
                _watch(report, serving, disturber)
            report.transactions = workload.transactions
            disturber.stop_or_resume(False)
            _settle(report, publisher, stock, files)
            files.end()
            stock.drop()
            assert serving.stop() == 0
    return report


def _watch(report: Report, serving: Serving, disturber: Disturber) -> None:
    began = time.monotonic()
    while (passed := time.monotonic() - began) < report.seconds:
        disturber.look(passed / report.seconds)
        report.samples.append(Sample(time.monotonic() - began, serving.pid, rss_of_tree(serving.pid)))
        time.sleep(1)  # Between two samples.


def _settle(report: Report, publisher: EmbeddedPostgres, stock: StockSubscribers, files: FileClients) -> None:
    """Wait until all have all, and note who has not."""
    expected = files.expected(now(publisher))
    assert all(expected.values())

    def are_equal() -> bool:
        report.revived += files.revive()
        report.unequal = [*stock.unequal(), *files.unequal(expected)]
        return not report.unequal

    try:
        wait_until(are_equal)
    except AssertionError:
        assert report.unequal, "it is noted who is not equal"


def main() -> int:
    """Run as a program; return the exit status: 1 where a side is not equal, or memory is not flat or too large."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--out", type=Path, default=Path("build/soak.json"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headwater-soak-") as directory:
        report = soak(arguments.seconds, Path(directory))
    judgement = judged(report.samples)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report.content(judgement), indent=1) + "\n")
    print(_line(report, judgement))
    return 0 if judgement.is_flat and judgement.is_small and not report.unequal else 1


def _line(report: Report, judgement: Judgement) -> str:
    sides = f"unequal: {', '.join(report.unequal)}" if report.unequal else "all sides equal"
    growth = f"{judgement.growth >> 20} MB in the last half of the service's last life ({judgement.slope >> 20} MB/h)"
    return (
        f"{report.transactions} transactions, {report.kills} kills, {report.ended_connections} ended connections, "
        f"{report.revived} clients started again: "
        f"{sides}; memory: peak {judgement.peak >> 20} MB, mean {judgement.mean >> 20} MB, growth {growth}"
    )
