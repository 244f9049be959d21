"""One server's run for the tests of slots, and what its plugins said of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from bad_input.servers import copy_wal, make_slot, peek, run, small_server


@dataclass(frozen=True)
class ServerRun:
    """Files of a stopped server, and all lines of its slot: LSN, xid, data."""

    backup: Path
    wal: Path
    lines: bytes


@pytest.fixture(scope="session")
def server_run(tmp_path_factory: pytest.TempPathFactory) -> ServerRun:
    directory = tmp_path_factory.mktemp("slots")
    with small_server(16) as server:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)")
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        make_slot(server, "s")
        for number in range(60):
            first, last = number * 100, number * 100 + 99
            run(server, f"INSERT INTO t SELECT g, 'row ' || g FROM generate_series({first}, {last}) g")
            run(server, f"UPDATE t SET a = a || '!' WHERE id = {first}")
            if number % 20 == 10:
                run(server, f"ALTER TABLE t ADD COLUMN c{number} int DEFAULT {number}")
        lines = peek(server, "s")
        server.stop()
        return ServerRun(backup, copy_wal(server, directory / "wal"), lines)
