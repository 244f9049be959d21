"""A stretch of the log that begins inside a long value that nobody wants, in a TOAST file that another change needs."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import ServerPrograms
from headwater.pg.lsn import Lsn
from headwater.reorder.slices.cutting import READ_GAP
from headwater.rmgr.index.wal_index import GRID
from reorder.huge_transactions import decoded, run_server

pytestmark = pytest.mark.server

SCHEMA = """
CREATE TABLE big (id int PRIMARY KEY, v text);
ALTER TABLE big ALTER v SET STORAGE EXTERNAL;
CREATE TABLE small (id int PRIMARY KEY);
INSERT INTO big VALUES (0, 'updated');
CREATE PUBLICATION picked FOR TABLE big, small WITH (publish = 'update');
INSERT INTO small VALUES (0);
"""
ATTEMPTS = 20


def write_values(server: EmbeddedPostgres) -> None:
    """Update a row to long values while another session writes a much longer one; all are of the same slice."""
    with server.connect() as writer, server.connect() as updater:
        for attempt in range(1, ATTEMPTS + 1):
            writer.execute("BEGIN")
            writer.execute("UPDATE small SET id = id + 1")
            updates = _update_while_inserting(writer, updater, attempt)
            writer.execute("COMMIT")
            if updates > 3:
                return
    raise AssertionError("no updates came into the middle of an insert")


def _update_while_inserting(writer: Any, updater: Any, attempt: int) -> int:
    """Count the updates that were logged before the end of the insert."""
    begin, ends = _insert_lsn(writer), list[int]()

    def insert() -> None:
        writer.execute("INSERT INTO big VALUES (%s, repeat('x', 33554432))", [attempt])
        ends.append(_insert_lsn(writer))

    thread = Thread(target=insert)
    thread.start()
    while _insert_lsn(updater) < begin + 4 * READ_GAP and thread.is_alive():
        pass
    updated = []
    while thread.is_alive():
        updater.execute("UPDATE big SET v = repeat('y', 10000) WHERE id = 0")
        updated.append(_insert_lsn(updater))
    thread.join()
    return sum(lsn < ends[0] for lsn in updated)


def _insert_lsn(connection: Any) -> int:
    return int(Lsn.parse(connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]))


def test_a_value_is_not_taken_from_its_middle(programs: ServerPrograms, tmp_path: Path) -> None:
    run = run_server(programs, tmp_path, SCHEMA, write_values)
    ((_, actual),) = decoded(run, "pgoutput", GRID, [1 << 40])
    assert actual == run.messages["pgoutput"]
    assert sum(data[:1] == b"U" for _, _, data in actual) >= 2
