"""Servers with ``wal_level = replica`` that write what decoding needs while there is a slot (19 and newer)."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from bad_input.command import CommandHere
from bad_input.servers import copy_wal, make_slot, now, peek, run, small_server
from control_files import read_control_file
from headwater.local_servers.embedded_postgres import EmbeddedPostgres

pytestmark = [pytest.mark.server, pytest.mark.slow]
MAJOR = 19


def wait_for_level(server: EmbeddedPostgres, level: str) -> None:
    """Wait until a server writes what a level asks for."""
    deadline = time.monotonic() + 60
    with server.connect() as connection:
        while connection.execute("SHOW effective_wal_level").fetchone() != (level,):
            assert time.monotonic() < deadline, f"the server did not come to {level}"


def test_switched_on_while_a_transaction_runs(headwater: CommandHere, tmp_path: Path) -> None:
    """It goes on as it began: decoding begins behind it, as that of the slot does."""
    with small_server(MAJOR, wal_level="replica") as server:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        run(server, "INSERT INTO t VALUES (1, 'too early')", "CHECKPOINT")
        with server.connect() as older:
            older.execute("BEGIN")
            older.execute("INSERT INTO t VALUES (2, 'began too early')")
            older.execute("ALTER TABLE t ADD COLUMN b int")
            maker = threading.Thread(target=make_slot, args=(server, "s"))
            maker.start()
            wait_for_level(server, "logical")
            older.execute("INSERT INTO t VALUES (3, 'began too early')")
            older.execute("COMMIT")
            maker.join()
        run(server, "INSERT INTO t VALUES (4, 'after the slot', 4)", "ALTER TABLE t DROP COLUMN a")
        server.stop()
        server.start()
        run(server, "UPDATE t SET b = 5 WHERE id = 4")
        expected = peek(server, "s")
        server.stop()
        window = ["--wal", copy_wal(server, tmp_path / "wal"), "--database", "postgres", "--with-lsn"]
        lines = headwater(*window, "--catalog", backup).check_warned("2 transactions", "wal_level was below logical")
        assert lines == expected
        assert b"'after the slot'" in expected
        assert b"5" in expected


def test_a_backup_of_a_server_that_decodes_on_demand(headwater: CommandHere, tmp_path: Path) -> None:
    with small_server(MAJOR, wal_level="replica") as server:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)")
        make_slot(server, "s")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        control = read_control_file(backup)
        assert (control.wal_level, control.decodes_on_demand) == (1, True)
        server.start()
        run(server, "INSERT INTO t VALUES (1, 'needed by the slot')")
        end = now(server)
        expected = peek(server, "s")
        run(server, "SELECT pg_drop_replication_slot('s')")
        wait_for_level(server, "replica")
        run(server, "INSERT INTO t VALUES (2, 'not decoded')")
        server.stop()
        window = ["--wal", copy_wal(server, tmp_path / "wal"), "--catalog", backup, "--database", "postgres"]
        headwater(*window).check_failed("wal_level fell to replica, expected logical", "--end ", begun=True)
        assert headwater(*window, "--with-lsn", "--end", end).check_passed() == expected
        assert b"'needed by the slot'" in expected


def test_a_window_that_ends_while_decoding_waits_to_begin_again(headwater: CommandHere, tmp_path: Path) -> None:
    """Changes that were decoded before the gap are there all the same."""
    with small_server(MAJOR, wal_level="replica") as server:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)")
        make_slot(server, "s")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        run(server, "INSERT INTO t VALUES (1, 'before the gap')")
        expected = peek(server, "s")
        run(server, "SELECT pg_drop_replication_slot('s')")
        wait_for_level(server, "replica")
        with server.connect() as older:
            older.execute("BEGIN")
            older.execute("INSERT INTO t VALUES (2, 'in the gap')")
            maker = threading.Thread(target=make_slot, args=(server, "s"))
            maker.start()
            wait_for_level(server, "logical")
            run(server, "INSERT INTO t VALUES (3, 'while decoding waits')")
            wal = copy_wal(server, tmp_path / "wal")
            older.execute("COMMIT")
            maker.join()
    window = ["--wal", wal, "--catalog", backup, "--database", "postgres", "--with-lsn", "--on-level-gap", "skip"]
    outcome = headwater(*window)
    assert (outcome.status, outcome.stdout) == (0, expected)
    gap, waiting = outcome.stderr.splitlines()
    assert "wal_level was replica from" in gap
    assert "1 transaction that committed at" in waiting
    assert "where wal_level was raised, had not all ended" in waiting
