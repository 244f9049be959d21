"""Debezium's own connector at the service: its snapshot and its stream are those that the primary gives it.

Part of ``make test-peers``: the connector is a Java process, and Maven brings it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.walsender.access.users import User, Users, write_users
from packaged_servers import is_packaged
from peers.comparison import difference, of_connector
from peers.connector import DATABASE, END, HERE, JARS, NULLS, PREFIX, PUBLICATION, WAYS, statements
from serving.service import Serving, all_are_let_in, backup_of, wait_until

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("connector")]

SECONDS = 240
# Rows of the unlogged table are in no backup: the connector is told to leave it out of both.
ROLE = (
    "CREATE ROLE peer LOGIN REPLICATION",
    "GRANT SELECT ON ALL TABLES IN SCHEMA public TO peer",
    f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES",
)
OF_THE_MOMENT = ("ts_ms", "ts_us", "ts_ns", "lsn", "txId", "sequence")
"""Fields of the source block of a row that was there before: when and where the connector read it."""


@pytest.fixture(scope="module")
def connector(request: pytest.FixtureRequest) -> None:
    """Skip unless Debezium's own connector is asked for."""
    if not request.config.getoption("--peers"):
        pytest.skip("part of make test-peers")


class Connector:
    """A connector in a process of its own; a context manager.

    Args:
        port: that it connects to; slot: that it makes; directory: for its files.
    """

    def __init__(self, port: int, slot: str, directory: Path) -> None:
        self.file = directory / f"{slot}.properties"
        self.events = self.file.with_suffix(".json")
        self._log = self.file.with_suffix(".log")
        properties = {
            "name": "peer",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
            "database.hostname": "127.0.0.1",
            "database.port": str(port),
            "database.user": "peer",
            "database.password": "none",
            "database.dbname": DATABASE,
            "topic.prefix": PREFIX,
            "plugin.name": "pgoutput",
            "slot.name": slot,
            "publication.name": PUBLICATION,
            "publication.autocreate.mode": "disabled",
            "snapshot.mode": "initial",
            "table.exclude.list": "public.unl",
            "errors.max.retries": "0",
            "print.to": str(self.events),
            "print.end": END,
            **NULLS,
            **WAYS["plain"],
        }
        self.file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def __enter__(self) -> Connector:
        java = ["java", "-Xmx400m", "-Duser.timezone=UTC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"]
        command = [*java, "-cp", f"{JARS}/*", str(HERE / "PrintEvents.java"), str(self.file)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def wait_for_stream(self) -> None:
        """Wait until it has read what there was, and follows what comes."""

        def streams() -> bool:
            assert self._process.poll() is None, self._log.read_text()[-4000:]
            return "Processing messages" in self._log.read_text()

        wait_until(streams)

    def wait(self) -> list[Any]:
        """Wait until it ends; return its events."""
        assert self._process.wait(SECONDS) == 0, self._log.read_text()[-4000:]
        return list(map(of_connector, self.events.read_text().splitlines()))


@pytest.mark.parametrize("major", [major for major in (16, 18) if is_packaged(major)])
def test_snapshot_and_stream_are_those_of_the_primary(tmp_path: Path, major: int) -> None:
    work = statements("work.sql")
    half = len(work) // 2
    with EmbeddedPostgres(find_programs(major), autovacuum=False, loopback=True) as server, ExitStack() as stack:
        execute(server, statements("setup.sql"))
        catalog = backup_of(server, tmp_path / "base")
        execute(server, [*ROLE, *work[:half]])
        serving = Serving(server.wal_directory, catalog, tmp_path / "slots")
        write_users(Path(all_are_let_in(tmp_path)[-1]), Users().with_user(User("peer", may_copy_all=True)))
        stack.enter_context(serving)
        theirs = stack.enter_context(Connector(server.port, "theirs", tmp_path))
        ours = stack.enter_context(Connector(serving.port, "ours", tmp_path))
        theirs.wait_for_stream()
        ours.wait_for_stream()
        execute(server, work[half:])
        execute(server, [f"SELECT pg_logical_emit_message(false, '{END}', '')"])
        check(theirs.wait(), ours.wait())


def execute(server: EmbeddedPostgres, texts: Iterable[str]) -> None:
    """Run statements in one session."""
    with server.connect() as connection:
        for text in texts:
            connection.execute(text.encode())


def check(theirs: Sequence[Any], ours: Sequence[Any]) -> None:
    """Check that both have the same events."""
    kinds = [(event["value"] or {}).get("op") for event in theirs]
    assert kinds.count("r") > 20
    assert kinds.count("c") > 20
    for number, (expected, event) in enumerate(zip(theirs, ours, strict=False)):
        mismatch = difference(plain(expected), plain(event))
        assert mismatch is None, f"event {number}, {expected['topic']}{mismatch}"
    assert len(theirs) == len(ours)


def plain(event: Any) -> Any:
    """Take away what differs from run to run."""
    value = event["value"]
    if value is not None and value.get("op") == "r":
        for name in OF_THE_MOMENT:
            value["source"].pop(name, None)
    return event
