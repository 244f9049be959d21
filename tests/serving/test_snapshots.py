"""Snapshots of slots: another session reads by them, in its own encoding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from bad_input.servers import run, small_server
from serving.service import Serving, backup_of

pytestmark = pytest.mark.server

TABLE = 'CREATE TABLE "größe" (id int PRIMARY KEY, "wörter" text)'
PUBLISHED = "SELECT DISTINCT t.schemaname, t.tablename FROM pg_catalog.pg_publication_tables t WHERE t.pubname IN ('p')"


def session(serving: Serving, **words: str) -> psycopg.Connection[Any]:
    place = {"host": "127.0.0.1", "port": str(serving.port), "user": "postgres", "dbname": "postgres", **words}
    return psycopg.connect(**place, autocommit=True, replication="database")  # type: ignore[arg-type]


def test_another_session_reads_by_it(tmp_path: Path) -> None:
    with small_server(16) as server:
        run(server, TABLE, "INSERT INTO \"größe\" VALUES (1, 'vor')", "CREATE PUBLICATION p FOR ALL TABLES")
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            with session(serving) as maker, session(serving, client_encoding="LATIN1") as reader:
                row = maker.execute("CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'export')").fetchone()
                assert row is not None
                snapshot = str(row[2])
                run(server, "INSERT INTO \"größe\" VALUES (2, 'nach')", 'ALTER TABLE "größe" RENAME TO other')
                reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                reader.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'".encode())
                assert reader.execute(PUBLISHED).fetchall() == [("public", "größe")]
                with reader.cursor().copy('COPY public."größe" (id, "wörter") TO STDOUT'.encode("latin-1")) as copied:
                    assert b"".join(bytes(piece) for piece in copied) == b"1\tvor\n"
                reader.execute("COMMIT")
                assert reader.execute(PUBLISHED).fetchall() == [("public", "other")]
                maker.execute("IDENTIFY_SYSTEM")
                reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                with pytest.raises(psycopg.errors.UndefinedObject, match="does not exist"):
                    reader.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'".encode())
            assert serving.stop() == 0
