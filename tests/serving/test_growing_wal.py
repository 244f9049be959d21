"""WAL that comes while it is served: the next segment, whose file is there and has nothing yet, is waited for."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from bad_input.servers import copy_wal, run, small_server
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
