"""States that outlive the service: after a restart it goes on from the nearest, and what it streams is the server's."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import pytest

from bad_input.servers import now, run, small_server
from bad_input.standbys import base_backup, catch_up, standby_of
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from headwater.slots.kept_state import lsn_of_name
from landing.killed_landing import DRIVER
from serving.service import Serving, Twins, backup_of, recvlogical, wait_until
from slots.conftest import Command

pytestmark = pytest.mark.server

MIB = 1 << 20
TABLE = "CREATE TABLE t (id int PRIMARY KEY, name text)"
FOLLOWED = re.compile(r'database "postgres" (is followed from the copy of the cluster|goes on from the state at (\S+))')


def beginnings(serving: Serving) -> list[str]:
    """Return where the service has begun to follow the database since it was made: LSNs, empty for the backup."""
    return [match[2] or "" for match in FOLLOWED.finditer(serving.log.read_text())]


def states(slots: Path) -> list[Path]:
    """List the states of the database postgres, in the order of their LSNs."""
    return sorted((slots / ".shelf").glob("5-*/*/*.state"), key=lambda path: path.name)


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def wal_from(server: EmbeddedPostgres, directory: Path, lsn: Lsn) -> Path:
    """Copy the segments that have WAL from an LSN on."""
    directory.mkdir()
    for path in server.wal_directory.glob("0*"):
        if int(path.name[16:], 16) >= lsn // MIB:
            shutil.copy(path, directory)
    return directory


def check_new_slot(server: EmbeddedPostgres, serving: Serving, slot: str, row: int, directory: Path) -> None:
    """Check that a slot that is made now has a row that comes now."""
    twins = Twins(server, serving, slot)
    run(server, f"INSERT INTO t (id) VALUES ({row})")
    assert f"id[integer]:{row}" in twins.compare(directory)


def test_a_restart_goes_on_from_the_last_state(tmp_path: Path, command: Command) -> None:
    slots = tmp_path / "slots"
    with small_server(16) as server:
        catalog = backup_of(server, tmp_path / "base")
        run(server, TABLE, "INSERT INTO t VALUES (1, 'before')")
        with Serving(server.wal_directory, catalog, slots) as serving:
            older = Twins(server, serving, "a")
            run(server, "ALTER TABLE t ADD extra int", "INSERT INTO t SELECT i, 'x', i FROM generate_series(2, 900) i")
            assert serving.stop() == 0
            first = states(slots)
            serving.start()
            run(server, "ALTER TABLE t DROP name")
            check_new_slot(server, serving, "b", 1000, tmp_path)
            assert len(older.compare(tmp_path)) > 10_000
            last = Lsn(lsn_of_name(first[-1].name) or 0)
            assert beginnings(serving) == ["", str(last)]
            serving.stop(signal.SIGKILL)
            wal = wal_from(server, tmp_path / "wal", last)
            flags = ("--wal", wal, "--catalog", catalog, "--at", last)
            assert command("slot", "create", slots / "cut", *flags)[:2] == (0, f"{last}\n".encode())
            assert "is missing" in command("slot", "create", tmp_path / "elsewhere", *flags)[2]
            damage(states(slots)[-1])
            serving.start()
            check_new_slot(server, serving, "c", 1002, tmp_path)
            assert beginnings(serving)[2:] == [str(last)]
            assert "a kept state is not used: damaged: found" in serving.log.read_text()
            assert serving.stop() == 0


STEPS = [1, 2, 3]
"""Before the directory is made; once there is one, before a file is opened to be written, and before it is renamed."""


def test_killed_while_it_writes(tmp_path: Path) -> None:
    slots = tmp_path / "slots"
    with small_server(16) as server:
        catalog = backup_of(server, tmp_path / "base")
        run(server, TABLE)
        with Serving(server.wal_directory, catalog, slots) as serving:
            usual = serving.program
            for step in STEPS:
                assert serving.stop() == 0
                for path in states(slots):
                    path.unlink()
                serving.program = (str(DRIVER), str(slots / ".shelf"), str(step))
                serving.start()
                slot = ("--slot", f"s{step}", "--create-slot", "-P", "test_decoding")
                recvlogical(serving.environment(), 16, *slot)
                assert serving.wait() == -signal.SIGKILL
                assert states(slots) == []
                serving.program = usual
                serving.start()
                assert not list(slots.rglob("*.part"))
                check_new_slot(server, serving, f"t{step}", step, tmp_path)
            wait_until(lambda: states(slots) != [])
            assert serving.stop() == 0


def test_a_promotion(tmp_path: Path) -> None:
    """States of the old timeline are of use up to where that was left, and not after that."""
    slots = tmp_path / "slots"
    with small_server(16) as primary, standby_of(primary, base_backup(primary, tmp_path / "copy")) as standby:
        catalog = backup_of(primary, tmp_path / "base")
        run(primary, TABLE)
        with Serving(primary.wal_directory, catalog, slots) as serving:
            Twins(primary, serving, "before")
            catch_up(standby, now(primary))
            assert serving.stop() == 0
            (state,) = states(slots)
            standby.stop()
            run(primary, "ALTER TABLE t ADD lost int", "INSERT INTO t VALUES (1, 'lost', 1)")
            serving.start()
            Twins(primary, serving, "after")
            assert serving.stop() == 0
            assert len(states(slots)) == 2
        with (standby.data_directory / "postgresql.conf").open("a") as configuration:
            configuration.write("primary_conninfo = ''\n")
        standby.start()
        run(standby, "SELECT pg_promote()", "ALTER TABLE t ADD present int", "INSERT INTO t VALUES (1, 'there', 1)")
        with Serving(standby.wal_directory, catalog, slots) as serving:
            check_new_slot(standby, serving, "new", 2, tmp_path)
            assert beginnings(serving)[2:] == [str(Lsn(lsn_of_name(state.name) or 0))]
            assert serving.stop() == 0
            assert sorted({path.parent.name[:8] for path in states(slots)}) == ["00000001", "00000002"]
