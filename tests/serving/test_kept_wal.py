"""WAL that a service receives and removes: what slots and kept states need stays, and from that it goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bad_input.servers import conninfo_of, run, small_server, value
from headwater.errors import SlotError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from headwater.receiver.retention import needed_by_states
from headwater.slots.shelf_directory import all_files, restart_lsn
from serving.service import Serving, Twins, backup_of, recvlogical, wait_until

pytestmark = pytest.mark.server

MIB = 1 << 20
TABLE = "CREATE TABLE t (id int PRIMARY KEY, name text)"


def numbers(wal: Path) -> list[int]:
    """List the numbers of the whole segments of a directory."""
    return sorted(int(path.name[16:], 16) for path in wal.iterdir() if len(path.name) == 24)


def go_on(server: EmbeddedPostgres, count: int) -> None:
    """Let the log go on by so many segments, with changes in each."""
    for _ in range(count):
        run(server, "UPDATE t SET name = name || 'x' WHERE id = 1", "SELECT pg_switch_wal()")


def check_what_states_need(slots: Path) -> None:
    """Check what another process that receives keeps for the states, also where some are damaged."""
    files = sorted(all_files(slots), key=lambda file: file.lsn)
    newest = {file.database: file for file in files}
    last = files[-1].lsn
    assert needed_by_states([slots], last) == min(map(restart_lsn, newest.values()))
    assert needed_by_states([slots.with_name("none")], last) == last
    before = needed_by_states([slots], min(file.lsn for file in newest.values()) - 1)
    assert files[0].lsn // MIB - 1 <= before // MIB <= min(file.lsn for file in newest.values()) // MIB
    for file in files:
        file.path.write_bytes(b"damaged")
    restart_lsn.cache_clear()
    with pytest.raises(SlotError, match="no kept state of a database can be read"):
        needed_by_states([slots], last)


def test_what_slots_and_states_need_stays(tmp_path: Path) -> None:
    slots, wal = tmp_path / "slots", tmp_path / "wal"
    with small_server(16) as server:
        run(server, TABLE, "INSERT INTO t VALUES (1, '')", "CREATE DATABASE quiet")
        catalog = backup_of(server, tmp_path / "base")
        begin = numbers(catalog / "pg_wal")[0]
        with Serving(wal, catalog, slots, "--from", conninfo_of(server), "--keep", "4MB") as serving:
            twins = Twins(server, serving, "a")
            place = int(Lsn.parse(value(server, "SELECT pg_current_wal_lsn()")))
            go_on(server, 90)
            needed = place // MIB
            wait_until(lambda: numbers(wal)[0] == needed and numbers(wal)[-1] >= needed + 89)
            assert numbers(wal)[0] > begin
            assert "UPDATE" in twins.compare(tmp_path)
            run(server, "INSERT INTO t VALUES (2, 'seen')")
            wait_until(lambda: len(numbers(wal)) < 90)
            assert serving.stop() == 0
            go_on(server, 3)
            serving.start()
            new = Twins(server, serving, "b")
            run(server, "INSERT INTO t VALUES (3, 'new')")
            assert "id[integer]:3" in new.compare(tmp_path)
            assert serving.stop() == 0
            check_what_states_need(slots)
            shutil.rmtree(slots / ".shelf")
            serving.start()
            assert 'database "quiet" cannot be followed: restore the WAL since the backup' in serving.log.read_text()
            refused = recvlogical(serving.environment(), 16, "--slot", "c", "--create-slot", "-P", "test_decoding")
            assert refused.returncode == 1
            assert "is missing, found" in refused.stderr
            assert "give --catalog a newer one" in refused.stderr
            assert serving.stop() == 0
