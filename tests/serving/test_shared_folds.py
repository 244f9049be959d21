"""Many pg_recvlogical on one database, which share what is decoded: each stream is the server's, whatever others do."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bad_input.servers import conninfo_of, run, small_server
from headwater.demo.embedded_postgres import EmbeddedPostgres
from landing.busy_servers import BUSY, Load
from serving.service import (
    Serving,
    Streaming,
    backup_of,
    content,
    make_slot_by_client,
    wait_for_equal_files,
    wait_until,
)

pytestmark = pytest.mark.server


@dataclass(frozen=True)
class Kind:
    """A kind of subscribers.

    Attributes:
        plugin: of the slot; options: of the stream.
        flags: of the slot.
        count: subscribers of the service.
    """

    plugin: str
    options: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    count: int = 1


def pgoutput(publications: str, *more: str) -> tuple[str, ...]:
    """Return options of pgoutput."""
    words = (f"publication_names={publications}", "proto_version=2", *more)
    return tuple(part for word in words for part in ("-o", word))


KINDS = {
    "all": Kind("pgoutput", pgoutput("everything"), count=3),
    "some": Kind("pgoutput", pgoutput("some"), count=2),
    "both": Kind("pgoutput", pgoutput("some,everything"), count=1),
    "streaming": Kind("pgoutput", pgoutput("everything", "streaming=on"), count=2),
    "text": Kind("test_decoding", ("-o", "skip-empty-xacts=1"), count=2),
    "prepared": Kind("test_decoding", (), ("--two-phase",), count=2),
}
PUBLICATIONS = (
    "CREATE PUBLICATION everything FOR ALL TABLES",
    "CREATE PUBLICATION some FOR TABLE busy WHERE (id % 2 = 0), split",
)
SETTINGS = {"logical_decoding_work_mem": "64kB", "max_wal_senders": "20"}


class Clients:
    """The clients of a server and of a service, of the same kinds; a context manager that makes their slots."""

    def __init__(self, server: EmbeddedPostgres, serving: Serving, directory: Path, kinds: dict[str, Kind]) -> None:
        self._server, self._serving, self._directory, self._kinds = server, serving, directory, kinds
        self.running: dict[str, Streaming] = {}
        self.files: dict[str, list[Path]] = {name: [directory / f"server-{name}"] for name in kinds}

    def make_slots(self) -> None:
        """Make a slot of each kind at the server, and one for each subscriber of the service."""
        major = self._server.programs.major
        for name, kind in self._kinds.items():
            make_slot_by_client(self._server.client_environment(), major, name, kind.plugin, *kind.flags)
            for number in range(kind.count):
                slot = f"{name}_{number}"
                make_slot_by_client(self._serving.environment(), major, slot, kind.plugin, *kind.flags)
                self.files[name].append(self._directory / slot)

    def start(self) -> None:
        """Start all of them."""
        for name, kind in self._kinds.items():
            self._start(self._server.client_environment(), name, self.files[name][0], kind)
            for number in range(kind.count):
                self.begin(f"{name}_{number}", self.files[name][1 + number])

    def begin(self, slot: str, file: Path) -> None:
        """Start a client of the service."""
        self._start(self._serving.environment(), slot, file, self._kinds[slot.rpartition("_")[0]])

    def wait(self) -> None:
        """Wait until all have what the server has sent."""
        for files in self.files.values():
            wait_for_equal_files(files)

    def end(self) -> None:
        """End all of them."""
        assert {name: client.end() for name, client in self.running.items()} == dict.fromkeys(self.running, 0)

    def _start(self, environment: dict[str, str], slot: str, file: Path, kind: Kind) -> None:
        flags = ("--slot", slot, "-f", str(file), "--status-interval", "1", "--fsync-interval", "1", *kind.options)
        self.running[slot] = Streaming(environment, self._server.programs.major, *flags)


@contextmanager
def serving_of(directory: Path, major: int) -> Iterator[tuple[EmbeddedPostgres, Serving]]:
    """Run a server with tables, and a service that receives its WAL."""
    with small_server(major, **SETTINGS) as server:
        run(server, BUSY, *PUBLICATIONS)
        catalog = backup_of(server, directory / "base")
        flags = ("--from", conninfo_of(server), "--verbose")
        with Serving(directory / "wal", catalog, directory / "slots", *flags) as serving:
            yield server, serving


def transactions(text: bytes) -> list[bytes]:
    """Return the whole transactions of what test_decoding says."""
    return re.findall(rb"^BEGIN (?:\d+)\n(?:(?!BEGIN \d|COMMIT \d).*\n)*COMMIT \d+\n", text, re.MULTILINE)


def without_repeated(items: list[bytes]) -> list[bytes]:
    """Return the same, each once."""
    return list(dict.fromkeys(items))


@pytest.mark.parametrize(
    "major", [16, pytest.param(14, marks=pytest.mark.slow), pytest.param(18, marks=pytest.mark.slow)]
)
def test_each_stream_is_the_servers(tmp_path: Path, major: int) -> None:
    """Subscribers of many kinds while a server works; one of them connects again and again."""
    with serving_of(tmp_path, major) as (server, serving):
        clients = Clients(server, serving, tmp_path, KINDS)
        make_slot_by_client(serving.environment(), major, "text_again", "test_decoding")
        clients.make_slots()
        clients.start()
        parts = [tmp_path / f"again-{number}" for number in range(6)]
        with Load(server, major) as load:
            for part in parts:
                clients.begin("text_again", part)
                before, done = content(parts[0]), load.done
                wait_until(lambda part=part, done=done: len(content(part)) > 0 and load.done > done + 100)  # type: ignore[misc]
                assert before is not None
                assert clients.running.pop("text_again").end() == 0
        clients.wait()
        clients.begin("text_again", tmp_path / "again-last")
        expected = transactions(content(clients.files["text"][0]))

        def again() -> list[bytes]:
            return [txn for part in [*parts, tmp_path / "again-last"] for txn in transactions(content(part))]

        wait_until(lambda: without_repeated(again())[-1:] == expected[-1:])
        assert without_repeated(again()) == expected
        clients.end()
        assert serving.stop() == 0


def test_equal_subscribers_are_given_messages_that_were_made_once(tmp_path: Path) -> None:
    with serving_of(tmp_path, 16) as (server, serving):
        clients = Clients(server, serving, tmp_path, {"text": Kind("test_decoding", count=4)})
        clients.make_slots()
        clients.start()
        wait_until(lambda: b"4 subscribers share a fold, and 1 outputs" in content(serving.log))
        for number in range(20):
            run(server, f"UPDATE quiet SET v = '{number}' WHERE id < 1000")
        clients.wait()
        clients.end()
        assert serving.stop() == 0
        made, given, *_ = counts_of(serving)
        assert made == content(clients.files["text"][0]).count(b"\n")
        assert given == 4 * made


def test_a_subscriber_that_stops_holds_up_nobody(tmp_path: Path) -> None:
    """It costs the bytes of its queue, and has everything when it has gone on."""
    kinds = {"all": Kind("pgoutput", pgoutput("everything"), count=3), "text": Kind("test_decoding", count=1)}
    with serving_of(tmp_path, 16) as (server, serving):
        clients = Clients(server, serving, tmp_path, kinds)
        clients.make_slots()
        clients.start()
        wait_until(lambda: b"4 subscribers share a fold, and 2 outputs" in content(serving.log))
        clients.running["all_1"].pause()
        for number in range(10):
            run(server, f"UPDATE quiet SET v = repeat('{number}', 300)")
        stopped = clients.files["all"].pop(2)
        began = time.monotonic()
        clients.wait()
        assert content(stopped) != content(clients.files["all"][0])
        assert b"lags behind" in content(serving.log)
        clients.files["all"].append(stopped)
        clients.running["all_1"].resume()
        clients.wait()
        run(server, "UPDATE quiet SET v = 'together again'")
        clients.wait()
        assert time.monotonic() > began
        clients.end()
        assert serving.stop() == 0
        assert max(map(int, re.findall(rb"at most (\d+) bytes", content(serving.log)))) <= 9 << 20


def test_who_asks_for_what_is_not_there_ends_alone(tmp_path: Path) -> None:
    kinds = {"all": Kind("pgoutput", pgoutput("everything"), count=2), "text": Kind("test_decoding", count=1)}
    with serving_of(tmp_path, 16) as (server, serving):
        clients = Clients(server, serving, tmp_path, kinds)
        clients.make_slots()
        make_slot_by_client(serving.environment(), 16, "all_lacking", "pgoutput")
        clients.start()
        wait_until(lambda: b"3 subscribers share a fold" in content(serving.log))
        lacking = Streaming(
            serving.environment(),
            16,
            "--slot",
            "all_lacking",
            "-f",
            str(tmp_path / "lacking"),
            "--no-loop",
            *pgoutput("everything,missing"),
        )
        wait_until(lambda: b"4 subscribers share a fold" in content(serving.log))
        run(server, "UPDATE quiet SET v = 'new' WHERE id < 10")
        assert lacking.wait() == 1
        assert 'publication "missing" does not exist' in lacking.errors
        run(server, "UPDATE quiet SET v = 'newer' WHERE id < 10")
        clients.wait()
        clients.end()
        assert serving.stop() == 0


def counts_of(serving: Serving) -> tuple[int, ...]:
    """Return the last counts of the folds that the service has logged: made, given, joined, detached."""
    text = rb"messages: (\d+) made, (\d+) given; (\d+) joined, (\d+) detached"
    return tuple(map(int, re.findall(text, content(serving.log))[-1]))
