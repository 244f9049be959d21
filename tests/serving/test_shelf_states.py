"""New slots begin at states that others have passed by: they have nothing of those others' own."""

from __future__ import annotations

from pathlib import Path

import pytest

from bad_input.servers import now, run, small_server
from serving.service import Serving, Streaming, backup_of, content, make_slot_by_client, recvlogical, wait_until
from slots.conftest import Command, done

pytestmark = pytest.mark.server


def test_a_new_slot_prints_as_its_server_does(command: Command, tmp_path: Path) -> None:
    """Another slot, whose WAL was read before, is of a session that had asked for another style."""
    with small_server(16, datestyle="German") as server:
        run(server, "CREATE TABLE t (day date)")
        catalog = backup_of(server, tmp_path / "base")
        place = ("--wal", server.wal_directory, "--catalog", catalog, "--database", "postgres")
        (tmp_path / "slots").mkdir()
        done(command, "slot", "create", tmp_path / "slots" / "iso", *place, "-c", "datestyle=ISO")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            file = tmp_path / "iso"
            first = Streaming(serving.environment(), 16, "--slot", "iso", "-f", str(file), "--fsync-interval", "1")
            wait_until(file.exists)
            run(server, "INSERT INTO t VALUES ('2026-02-01')")
            wait_until(lambda: b"COMMIT" in content(file))
            assert b"day[date]:'2026-02-01'" in content(file)
            assert first.end() == 0
            make_slot_by_client(serving.environment(), 16, "new", "test_decoding")
            make_slot_by_client(server.client_environment(), 16, "new", "test_decoding")
            run(server, "INSERT INTO t VALUES ('2026-03-02')")
            end = now(server)
            texts = [
                recvlogical(environment, 16, "--slot", "new", "--start", "-f", "-", "--endpos", end).stdout
                for environment in (serving.environment(), server.client_environment())
            ]
            assert texts[0] == texts[1]
            assert "day[date]:'02.03.2026'" in texts[0]
            assert serving.stop() == 0
