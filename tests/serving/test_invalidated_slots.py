"""Slots that keep more WAL than they may, or are idle for too long: what becomes of them is what the server does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg import pq
from psycopg.pq.abc import PGconn

from bad_input.servers import conninfo_of, run, small_server, value
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import program_version
from headwater.pg.lsn import Lsn
from serving.answers import ALL_FIELDS, Answer, answer_in, connected, places
from serving.service import Serving, backup_of, wait_until

pytestmark = pytest.mark.server

MIB = 1 << 20
KEPT = "3MB"
LOST = "SELECT slot_name FROM pg_replication_slots WHERE wal_status = 'lost' ORDER BY 1"
VIEW = (
    "SELECT slot_name, plugin, slot_type, database, temporary, active, active_pid, xmin, restart_lsn IS NULL, "
    "confirmed_flush_lsn IS NULL, wal_status, safe_wal_size, {} two_phase FROM pg_replication_slots ORDER BY 1"
)
SAFE = "SELECT wal_status, safe_wal_size, restart_lsn, pg_current_wal_lsn() FROM pg_replication_slots LIMIT 1"
STATEMENTS = (
    *("SHOW max_slot_wal_keep_size", "SHOW idle_replication_slot_timeout"),
    "SELECT * FROM pg_logical_slot_get_changes('a', NULL, NULL)",
    "SELECT * FROM pg_logical_slot_peek_binary_changes('a', NULL, 1)",
    "SELECT * FROM pg_replication_slot_advance('a', 'FFFFFF/0')",
    "SELECT * FROM pg_replication_slot_advance('p', 'FFFFFF/0')",
    "SELECT pg_copy_logical_replication_slot('a', 'c')",
    "SELECT pg_copy_physical_replication_slot('p', 'c')",
    "SELECT pg_create_logical_replication_slot('a', 'test_decoding')",
)
COMMANDS = ("START_REPLICATION SLOT a LOGICAL 0/0", "DROP_REPLICATION_SLOT a", "DROP_REPLICATION_SLOT p")
OF_17 = ("ALTER_REPLICATION_SLOT a (FAILOVER)", *COMMANDS)
SENT = "SELECT sent_lsn = pg_current_wal_lsn() FROM pg_stat_replication WHERE application_name = 'headwater'"
MAJORS = [14, 16, 18, *(pytest.param(major, marks=pytest.mark.slow) for major in (15, 17, 19))]


@dataclass(frozen=True)
class Sides:
    """A server and a service over its WAL: two connections to each, in this order; and what of each differs.

    Attributes:
        sessions: plain ones; walsenders: of replication.
    """

    sessions: tuple[PGconn, PGconn]
    walsenders: tuple[PGconn, PGconn]

    def lost(self, side: int) -> list[str]:
        """Name the slots of a side that were invalidated."""
        result = self.sessions[side].exec_(LOST.encode())
        assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
        return [(result.get_value(row, 0) or b"").decode() for row in range(result.ntuples)]

    def do(self, statement: str) -> None:
        """Run a statement on both sides."""
        for session in self.sessions:
            result = session.exec_(statement.encode())
            assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message

    def compare(self, *, statements: tuple[str, ...] = (), commands: tuple[str, ...] = ()) -> list[Answer]:
        """Compare what both sides answer; return the answers."""
        answers = []
        for connections, asked in ((self.sessions, statements), (self.walsenders, commands)):
            for text in asked:
                theirs, ours = (
                    answer_in(connection.exec_(text.encode()), connection, fields=ALL_FIELDS)
                    for connection in connections
                )
                assert ours == theirs, text
                answers.append(ours)
        return answers


@contextmanager
def sides(server: EmbeddedPostgres, serving: Serving) -> Iterator[Sides]:
    """Connect to both sides."""
    with ExitStack() as stack:
        theirs, ours = (stack.enter_context(connected(**place)) for place in places(server, serving))
        senders = [stack.enter_context(connected(**place)) for place in places(server, serving, replication="database")]
        yield Sides((theirs, ours), (senders[0], senders[1]))


@contextmanager
def streams_of(server: EmbeddedPostgres, serving: Serving, slot: str) -> Iterator[list[PGconn]]:
    """Stream from a slot on both sides, without ever confirming anything."""
    with ExitStack() as stack:
        connections = []
        for place in places(server, serving, replication="database"):
            connection = stack.enter_context(connected(**place))
            result = connection.exec_(f"START_REPLICATION SLOT {slot} LOGICAL 0/0".encode())
            assert result.status == pq.ExecStatus.COPY_BOTH, result.error_message
            connections.append(connection)
        yield connections


def end_of(stream: PGconn) -> tuple[object, ...]:
    """Return how a stream has ended."""
    while stream.get_copy_data(0)[0] > 0:
        pass
    result = stream.get_result()
    assert result is not None
    return tuple(result.error_field(field) for field in ALL_FIELDS.values())


@contextmanager
def served(
    directory: Path, major: int, settings: dict[str, str], *flags: str
) -> Iterator[tuple[EmbeddedPostgres, Serving]]:
    """Start a server, and a service that receives its WAL."""
    with small_server(major, wal_keep_size="0", min_wal_size="2MB", max_wal_size="64MB", **settings) as server:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, name text)", "INSERT INTO t VALUES (1, '')")
        catalog = backup_of(server, directory / "base")
        release = program_version(server.programs.program("postgres"))
        flags = ("--from", conninfo_of(server), "--server-version", release, *flags)
        with Serving(directory / "wal", catalog, directory / "slots", *flags) as serving:
            yield server, serving


def go_on(server: EmbeddedPostgres, segments: int) -> None:
    """Let the log go on by so many segments, and the server look at its slots when all were sent."""
    for _ in range(segments):
        run(server, "UPDATE t SET name = name || 'x' WHERE id = 1", "SELECT pg_switch_wal()")
    wait_until(lambda: value(server, SENT) == "True")
    run(server, "CHECKPOINT")


def columns(major: int) -> str:
    """Name the columns of the view that came later."""
    names = {16: "conflicting, ", 17: "invalidation_reason, inactive_since IS NULL, "}
    return "".join(text for since, text in names.items() if major >= since)


def safe_segments(session: PGconn) -> tuple[object, int]:
    """Return the status of the slot, and how many segments it may keep behind the one that it needs."""
    result = session.exec_(SAFE.encode())
    status, safe, restart, end = ((result.get_value(0, i) or b"").decode() for i in range(4))
    limit = int(safe) + Lsn.parse(end)
    assert limit % MIB == 0
    return status, limit // MIB - Lsn.parse(restart) // MIB


def headwater(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command."""
    command = [sys.executable, "-m", "headwater.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("major", MAJORS)
def test_slots_that_keep_too_much(tmp_path: Path, major: int) -> None:
    flags = "--max-slot-wal-keep-size", KEPT, "--keep", "2MB"
    slots, wal = tmp_path / "slots", tmp_path / "wal"
    with served(tmp_path, major, {"max_slot_wal_keep_size": KEPT}, *flags) as (server, serving):
        with sides(server, serving) as both, streaming(both, server, serving) as streams:
            assert [safe_segments(session) for session in both.sessions] == [("reserved", 4)] * 2
            first = min(path.name for path in wal.iterdir() if len(path.name) == 24)
            go_on(server, 6)
            wait_until(lambda: both.lost(0) == both.lost(1) == ["a", "b", "p"])
            ends = [end_of(stream) for stream in streams]
            assert ends[0] == ends[1]
            assert ends[0][:2] == (b"FATAL", b"57P01")
            both.compare(statements=(VIEW.format(columns(major)), *STATEMENTS))
            go_on(server, 4)
            wait_until(lambda: min(path.name for path in wal.iterdir() if len(path.name) == 24) > first)
            refused = headwater("decode", "--slot", slots / "a")
            assert (refused.returncode, refused.stdout) == (1, "")
            assert 'replication slot "a" has been invalidated due to "wal_removed"' in refused.stderr
            assert "invalidation_reason: wal_removed" in headwater("slot", "show", slots / "a").stdout
            assert 'to release replication slot "b"' in serving.log.read_text()
        assert serving.stop() == 0
        serving.start()
        with sides(server, serving) as both:
            assert both.lost(1) == ["a", "b", "p"]
            both.compare(commands=OF_17 if major >= 17 else COMMANDS)
        assert headwater("slot", "drop", slots / "b").returncode == 0


@contextmanager
def streaming(both: Sides, server: EmbeddedPostgres, serving: Serving) -> Iterator[list[PGconn]]:
    """Make slots on both sides, and stream from one of them."""
    for slot in "ab":
        both.do(f"SELECT pg_create_logical_replication_slot('{slot}', 'test_decoding')")
    both.do("SELECT pg_create_physical_replication_slot('p', true)")
    with streams_of(server, serving, "b") as streams:
        yield streams


@pytest.mark.parametrize("major", [18, pytest.param(19, marks=pytest.mark.slow)])
def test_slots_that_are_idle(tmp_path: Path, major: int) -> None:
    settings = {"idle_replication_slot_timeout": "1s"}
    with (
        served(tmp_path, major, settings, "--idle-replication-slot-timeout", "1s") as (server, serving),
        sides(server, serving) as both,
        streaming(both, server, serving),
    ):

        def are_lost() -> bool:
            run(server, "CHECKPOINT")
            return both.lost(0) == both.lost(1) == ["a", "p"]

        wait_until(are_lost)
        view = VIEW.format(columns(major)).replace("active_pid, ", "")
        both.compare(statements=(view, *STATEMENTS), commands=OF_17)


def test_a_release_without_idle_timeout(tmp_path: Path) -> None:
    with small_server(16) as server:
        catalog = backup_of(server, tmp_path / "base")
        flags = "--wal", server.wal_directory, "--catalog", catalog, "--slots", tmp_path / "slots", "--listen", ":0"
        refused = headwater("serve", *flags, "--idle-replication-slot-timeout", "1d")
        assert refused.returncode == 2
        assert "PostgreSQL 16 has no idle_replication_slot_timeout" in refused.stderr
