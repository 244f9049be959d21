"""WAL that comes while it is served: the next segment, whose file is there and has nothing yet, is waited for."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from psycopg import pq

from bad_input.servers import copy_wal, run, small_server, value
from serving.service import Serving, backup_of

pytestmark = pytest.mark.server


def test_a_segment_that_was_just_made_is_not_there_yet(tmp_path: Path) -> None:
    with small_server(16) as server:
        run(server, "CREATE TABLE t (a int)")
        catalog = backup_of(server, tmp_path / "base")
        run(server, "INSERT INTO t SELECT generate_series(1, 100)")
        wal = copy_wal(server, tmp_path / "wal")
    last = max(file.name for file in wal.iterdir() if len(file.name) == 24)
    (wal / f"{int(last, 16) + 1:024X}.partial").touch()
    with Serving(wal, catalog, tmp_path / "slots") as serving:
        place = f"host=127.0.0.1 user=postgres dbname=postgres port={serving.port}"
        with psycopg.connect(place, autocommit=True) as connection:
            for sql in (
                "SELECT set_config('search_path', '', false)",
                "SELECT pg_create_logical_replication_slot('s', 'test_decoding')",
                "SELECT pg_logical_slot_get_changes('s', NULL, NULL)",
                "SELECT pg_replication_slot_advance('s', pg_current_wal_lsn())",
                "SELECT relname FROM pg_publication_tables, pg_class",
            ):
                connection.execute(sql.encode())
        assert serving.stop() == 0


def test_rows_whose_wal_is_written_anew_are_refused(tmp_path: Path) -> None:
    """As the segment in which a timeline was left is, of the next one: it has zeros where it is not written yet."""
    with small_server(16) as server:
        run(server, "CREATE TABLE t (a int)")
        catalog = backup_of(server, tmp_path / "base")
        run(server, "SELECT pg_switch_wal()", "INSERT INTO t SELECT generate_series(1, 3000)")
        wal = copy_wal(server, tmp_path / "wal")
        last = value(server, "SELECT pg_walfile_name(pg_current_wal_insert_lsn())")
    with Serving(wal, catalog, tmp_path / "slots") as serving:
        place = f"host=127.0.0.1 user=postgres dbname=postgres replication=database port={serving.port}"
        connection = pq.PGconn.connect(place.encode())
        connection.exec_(b"BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
        assert connection.exec_(b"CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'use')").ntuples == 1
        with (wal / last).open("r+b") as file:
            file.truncate(8192)
            file.truncate(1 << 20)
        copied = connection.exec_(b"COPY public.t (a) TO STDOUT")
        assert copied.status == pq.ExecStatus.FATAL_ERROR
        assert b"is not there now" in copied.error_message
        connection.finish()
        assert serving.stop() == 0
