"""Many pg_recvlogical on one database, which share what is decoded: each stream is the server's, whatever others do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bad_input.servers import conninfo_of, now, run, small_server, value
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from landing.busy_servers import BUSY, Load
from serving.service import (
    Serving,
    Streaming,
    backup_of,
    content,
    make_slot_by_client,
    recvlogical,
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
        is_late: it is compared with one more of these that begins when the server is quiet. A server leaves out what it
            finds rolled back meanwhile.
    """

    plugin: str
    options: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    count: int = 1
    is_late: bool = False


def pgoutput(publications: str, *more: str) -> tuple[str, ...]:
    """Return options of pgoutput."""
    words = (f"publication_names={publications}", "proto_version=2", *more)
    return tuple(part for word in words for part in ("-o", word))


KINDS = {
    "all": Kind("pgoutput", pgoutput("everything"), count=2),
    "chosen": Kind("pgoutput", pgoutput("chosen"), count=2),
    "both": Kind("pgoutput", pgoutput("chosen,everything"), count=1),
    "streaming": Kind("pgoutput", pgoutput("everything", "streaming=on"), count=2, is_late=True),
    "text": Kind("test_decoding", ("-o", "skip-empty-xacts=1"), count=2),
    "prepared": Kind("test_decoding", (), ("--two-phase",), count=2),
}
PUBLICATIONS = (
    "CREATE PUBLICATION everything FOR ALL TABLES",
    "CREATE PUBLICATION chosen FOR TABLE busy{filter}, split",
)
JOBS = 60
"""Transactions between two connections of the client that connects again and again."""

SETTINGS = {"logical_decoding_work_mem": "64kB", "max_wal_senders": "20"}


class Clients:
    """The clients of a server and of a service, of the same kinds."""

    def __init__(self, server: EmbeddedPostgres, serving: Serving, directory: Path, kinds: dict[str, Kind]) -> None:
        self._server, self._serving, self._directory, self._kinds = server, serving, directory, kinds
        self.running: dict[str, Streaming] = {}
        self.files: dict[str, list[Path]] = {name: [] for name in kinds}

    def make_slots(self) -> None:
        """Make a slot of each kind at the server, and one for each subscriber of the service."""
        major = self._server.programs.major
        for name, kind in self._kinds.items():
            environment = self._serving.environment() if kind.is_late else self._server.client_environment()
            make_slot_by_client(environment, major, name, kind.plugin, *kind.flags)
            for number in range(kind.count):
                slot = f"{name}_{number}"
                make_slot_by_client(self._serving.environment(), major, slot, kind.plugin, *kind.flags)
                self.files[name].append(self._directory / slot)

    def start(self) -> None:
        """Start all of the service."""
        for name, files in self.files.items():
            for number, file in enumerate(files):
                self.begin(f"{name}_{number}", file)

    def begin(self, slot: str, file: Path) -> None:
        """Start a client of the service; its kind is the part of its slot's name before ``_``."""
        flags = ("--slot", slot, "-f", str(file), "--status-interval", "1", "--fsync-interval", "1")
        options = self._kinds[slot.partition("_")[0]].options
        self.running[slot] = Streaming(self._serving.environment(), self._server.programs.major, *flags, *options)

    def compare(self) -> dict[str, bytes]:
        """Stream from the server, once it is quiet, and wait until all clients have the same; return it by kind.

        A session of the server that decodes while others work is sent tables again that they have changed meanwhile.
        """
        end, environment, streams = now(self._server), self._server.client_environment(), {}
        for name, kind in self._kinds.items():
            file = self._directory / f"server-{name}"
            if kind.is_late:
                self.begin(name, file)
            else:
                flags = ("--slot", name, "--start", "--endpos", end, "-f", str(file), *kind.options)
                assert recvlogical(environment, self._server.programs.major, *flags).returncode == 0
            wait_for_equal_files([file, *self.files[name]])
            streams[name] = content(file)
        return streams

    def end(self) -> None:
        """End all of them."""
        assert {name: client.end() for name, client in self.running.items()} == dict.fromkeys(self.running, 0)


@contextmanager
def serving_of(directory: Path, major: int) -> Iterator[tuple[EmbeddedPostgres, Serving]]:
    """Run a server with tables, and a service that receives its WAL."""
    with small_server(major, **SETTINGS) as server:
        where = " WHERE (id % 2 = 0)" if major >= 15 else ""
        run(server, BUSY, *(text.format(filter=where) for text in PUBLICATIONS))
        catalog = backup_of(server, directory / "base")
        flags = ("--from", conninfo_of(server), "--verbose", "--server-version", value(server, "SHOW server_version"))
        with Serving(directory / "wal", catalog, directory / "slots", *flags) as serving:
            yield server, serving


def transactions(text: bytes) -> list[bytes]:
    """Return the whole transactions of what test_decoding says."""
    return re.findall(rb"^BEGIN (?:\d+)\n(?:(?!BEGIN \d|COMMIT \d).*\n)*COMMIT \d+\n", text, re.MULTILINE)


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
        parts = [tmp_path / f"again-{number}" for number in range(4)]
        for number, part in enumerate(parts[:-1]):
            clients.begin("text_again", part)
            with Load(server, major + number) as load:
                wait_until(_is_done(load, part))
                assert clients.running.pop("text_again").end() == 0
        clients.begin("text_again", parts[-1])
        expected = transactions(clients.compare()["text"])
        wait_until(lambda: again(parts)[-1:] == expected[-1:])
        assert again(parts) == expected
        clients.end()
        assert serving.stop() == 0


def _is_done(load: Load, file: Path) -> Callable[[], bool]:
    """Return whether enough was done, and the client has begun."""
    return lambda: load.done > JOBS and file.exists()


def again(parts: Sequence[Path]) -> list[bytes]:
    """Return the whole transactions of several streams of one slot, each once."""
    return list(dict.fromkeys(txn for part in parts for txn in transactions(content(part))))


def test_equal_subscribers_are_given_messages_that_were_made_once(tmp_path: Path) -> None:
    with serving_of(tmp_path, 16) as (server, serving):
        clients = Clients(server, serving, tmp_path, {"text": Kind("test_decoding", count=4)})
        clients.make_slots()
        clients.start()
        wait_until(lambda: b"4 subscribers share a fold, and 1 outputs" in content(serving.log))
        for number in range(20):
            run(server, f"UPDATE quiet SET v = '{number}' WHERE id < 1000")
        text = clients.compare()["text"]
        clients.end()
        assert serving.stop() == 0
        made, given, *_ = counts_of(serving)
        assert made == text.count(b"\n")
        assert given == 4 * made


def test_a_subscriber_that_stops_holds_up_nobody(tmp_path: Path) -> None:
    """It costs the bytes of its queue, and has everything when it has gone on."""
    kinds = {
        "all": Kind("pgoutput", pgoutput("everything", "streaming=on"), count=3),
        "text": Kind("test_decoding", count=1),
    }
    with serving_of(tmp_path, 16) as (server, serving):
        clients = Clients(server, serving, tmp_path, kinds)
        clients.make_slots()
        clients.start()
        wait_until(lambda: b"4 subscribers share a fold, and 2 outputs" in content(serving.log))
        clients.running["all_1"].pause()
        for number in range(5, 10):
            run(server, f"UPDATE quiet SET v = repeat('{number}', 300)")
        others = [*clients.files["all"][::2], *clients.files["text"]]
        wait_until(lambda: all(b"9" * 300 in content(file) for file in others))
        assert b"9" * 300 not in content(clients.files["all"][1])
        assert b"lags behind" in content(serving.log)
        clients.running["all_1"].resume()
        run(server, "UPDATE quiet SET v = 'together again'")
        clients.compare()
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
        flags = ("--slot", "all_lacking", "-f", str(tmp_path / "lacking"), "--no-loop", *pgoutput("everything,missing"))
        lacking = Streaming(serving.environment(), 16, *flags)
        wait_until(lambda: b"4 subscribers share a fold" in content(serving.log))
        run(server, "UPDATE quiet SET v = 'new' WHERE id < 10")
        assert lacking.wait() == 1
        assert 'publication "missing" does not exist' in lacking.errors
        again = Streaming(serving.environment(), 16, *flags)
        assert again.wait() == 1
        assert 'publication "missing" does not exist' in again.errors
        assert content(serving.log).count(b"4 subscribers share a fold") == 1
        run(server, "UPDATE quiet SET v = 'newer' WHERE id < 10")
        clients.compare()
        clients.end()
        assert serving.stop() == 0


def counts_of(serving: Serving) -> tuple[int, ...]:
    """Return the last counts of the folds that the service has logged: made, given, joined, detached."""
    text = rb"messages: (\d+) made, (\d+) given; (\d+) joined, (\d+) detached"
    return tuple(map(int, re.findall(text, content(serving.log))[-1]))
