"""States that outlive the service: after a restart it goes on from the nearest, and what it streams is the server's."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from bad_input.servers import now, run, small_server
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import Serving, backup_of, make_slot_by_client, recvlogical, wait_until

pytestmark = pytest.mark.server

TABLE = "CREATE TABLE t (id int PRIMARY KEY, name text)"
FOLLOWED = re.compile(r'database "postgres" (is followed from the copy of the cluster|goes on from the state at (\S+))')


def beginnings(serving: Serving) -> list[str]:
    """Return where the service has begun to follow the database since it was made: LSNs, empty for the backup."""
    return [match[2] or "" for match in FOLLOWED.finditer(serving.log.read_text())]


def states(slots: Path) -> list[Path]:
    """List the states of the database postgres, in the order of their LSNs."""
    return sorted((slots / ".shelf").glob("5-*/*/*.state"))


def stream(server: EmbeddedPostgres, serving: Serving, slot: str, directory: Path) -> tuple[bytes, bytes]:
    """Stream a slot of each, up to now; return what both have sent."""
    end, texts = now(server), []
    for number, environment in enumerate((server.client_environment(), serving.environment())):
        file = directory / f"{slot}-{number}"
        flags = ("--slot", slot, "--start", "--endpos", end, "-f", str(file), "-o", "skip-empty-xacts=1")
        streamed = recvlogical(environment, 16, *flags)
        assert streamed.returncode == 0, streamed.stderr
        texts.append(file.read_bytes())
    return texts[0], texts[1]


def make_slots(server: EmbeddedPostgres, serving: Serving, slot: str) -> None:
    for environment in (server.client_environment(), serving.environment()):
        make_slot_by_client(environment, 16, slot, "test_decoding")


def test_a_restart_goes_on_from_the_last_state(tmp_path: Path) -> None:
    slots = tmp_path / "slots"
    with small_server(16) as server:
        catalog = backup_of(server, tmp_path / "base")
        run(server, TABLE, "INSERT INTO t VALUES (1, 'before')")
        with Serving(server.wal_directory, catalog, slots) as serving:
            make_slots(server, serving, "a")
            run(server, "ALTER TABLE t ADD extra int", "INSERT INTO t SELECT i, 'x', i FROM generate_series(2, 900) i")
            assert serving.stop() == 0
            assert beginnings(serving) == [""]
            assert states(slots)
            serving.start()
            run(server, "ALTER TABLE t DROP name", "INSERT INTO t VALUES (1000, 1)")
            make_slots(server, serving, "b")
            run(server, "INSERT INTO t VALUES (1001, 1)")
            for slot in ("a", "b"):
                theirs, ours = stream(server, serving, slot, tmp_path)
                assert theirs == ours
            assert len(theirs) > 100
            assert len(beginnings(serving)) == 2
            assert beginnings(serving)[1] != ""
            serving.stop(signal.SIGKILL)
            serving.start()
            make_slots(server, serving, "c")
            run(server, "INSERT INTO t VALUES (1002, 1)")
            theirs, ours = stream(server, serving, "c", tmp_path)
            assert theirs == ours
            assert beginnings(serving)[2] != ""
            assert serving.stop() == 0
