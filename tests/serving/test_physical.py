"""WAL itself from the service: pg_receivewal writes the files that it writes from the server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bad_input.servers import conninfo_of, now, run, small_server
from bad_input.standbys import base_backup, catch_up, standby_of
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from headwater.receiver.wal_receiver import Position, ReceiveRequest, WalReceiver
from serving.service import END_SECONDS, Serving, backup_of, client

pytestmark = pytest.mark.server

MIB = 1 << 20
FILL = "SELECT pg_logical_emit_message(false, 'x', repeat('a', 700000)) FROM generate_series(1, 4)"


def receive(environment: dict[str, str], major: int, directory: Path, *arguments: str) -> None:
    """Run pg_receivewal."""
    directory.mkdir(exist_ok=True)
    command = [str(client("pg_receivewal", major)), "-D", str(directory), "--no-loop", *arguments]
    subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=END_SECONDS)


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("major", [16, pytest.param(18, marks=pytest.mark.slow)])
def test_the_same_files(tmp_path: Path, major: int) -> None:
    with small_server(major) as server:
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            environments = (server.client_environment(), serving.environment())
            for environment in environments:
                receive(environment, major, tmp_path / "none", "--slot", "p", "--create-slot")
            for statements in ((), (FILL, "SELECT pg_switch_wal()", FILL)):
                run(server, *statements)
                end = now(server)
                now(server)  # pg_receivewal ends as WAL comes from beyond its end
                for number, environment in enumerate(environments):
                    receive(environment, major, tmp_path / str(number), "--slot", "p", "--endpos", end)
            theirs, ours = files(tmp_path / "0"), files(tmp_path / "1")
            shared = sorted(theirs.keys() & ours.keys())
            assert len(shared) >= 2
            assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}
            for environment in environments:
                receive(environment, major, tmp_path / "none", "--slot", "p", "--drop-slot")
            assert serving.stop() == 0


def received(conninfo: str, directory: Path, begin: int, end: int) -> dict[str, bytes]:
    place = Position(lsn=begin - begin % MIB, timeline=1)
    WalReceiver(ReceiveRequest(conninfo=conninfo, directory=directory, begin=place, end=end)).run()
    return files(directory)


def test_a_timeline_is_left_as_by_a_server(tmp_path: Path) -> None:
    """A receiver of ours gets from the service what it gets from a promoted standby."""
    with small_server(16) as primary:
        backup = base_backup(primary, tmp_path / "backup")
        with standby_of(primary, backup) as standby:
            begin = int(Lsn.parse(now(primary)))
            run(primary, FILL)
            catch_up(standby, now(primary))
            run(standby, "SELECT pg_promote()")
            run(standby, FILL)
            check_equal(standby, tmp_path, begin)


def check_equal(server: EmbeddedPostgres, tmp_path: Path, begin: int) -> None:
    end = int(Lsn.parse(now(server)))
    catalog = backup_of(server, tmp_path / "base")
    with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
        ours = received(f"host=127.0.0.1 port={serving.port} user=postgres", tmp_path / "ours", begin, end)
        theirs = received(conninfo_of(server), tmp_path / "theirs", begin, end)
        assert any(name.endswith(".history") for name in theirs)
        assert ours == theirs
        assert serving.stop() == 0
