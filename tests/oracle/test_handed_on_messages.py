"""A transaction that receives more invalidation messages than the server keeps for one forgets everything at its end.

Temporary tables of many columns make the messages; no other transaction needs to know of them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from psycopg.types.string import ByteaBinaryLoader

from arrow_types import values_of
from headwater import DecodeRequest, decode
from headwater.demo.stream_comparison import first_difference, joined, messages_table
from headwater.jobs.engine import Engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from oracle.streams import parse_lsn

pytestmark = [pytest.mark.server, pytest.mark.slow]

COLUMNS = ", ".join(f"c{number} int" for number in range(300))
OPTIONS = (("proto_version", "1"), ("publication_names", "p"))
PEEK = """
    SELECT lsn::text, xid::text, data
    FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')
"""


# One such table makes 1,200 messages, and the limit lies at 524,288.
@pytest.mark.parametrize(("tables", "announced"), [(300, 2), (600, 4)])
@pytest.mark.parametrize("major", [pytest.param(14, marks=pytest.mark.slow), 16, 18])
def test_messages_beyond_the_limit(engine: Engine, tmp_path: Path, major: int, tables: int, announced: int) -> None:
    with EmbeddedPostgres(find_programs(major, plugin="test_decoding"), autovacuum=False) as server:
        with server.connect() as connection:
            connection.execute("CREATE TABLE t (a int); CREATE TABLE u (a int); CREATE PUBLICATION p FOR ALL TABLES")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        with server.connect() as a, server.connect() as b:
            # The schema of temporary tables is there when the slot is made.
            a.execute("CREATE TEMP TABLE first (a int)")
            a.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
            start = a.execute("SELECT confirmed_flush_lsn::text FROM pg_replication_slots").fetchone()
            a.execute("INSERT INTO t VALUES (1)")
            a.execute("INSERT INTO u VALUES (1)")
            b.autocommit = False
            b.execute("INSERT INTO t VALUES (2)")
            a.execute("SET synchronous_commit = off")
            for _ in range(tables):
                a.execute(f"CREATE TEMP TABLE wide ({COLUMNS}) ON COMMIT DROP".encode())
            a.execute("SET synchronous_commit = on")
            b.execute("COMMIT")
            a.execute("INSERT INTO t VALUES (3)")
            a.execute("INSERT INTO u VALUES (3)")
            # The session's end drops its temporary table, of which 14 would say BEGIN and COMMIT.
            end = a.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
            a.adapters.register_loader("text", ByteaBinaryLoader)
            rows = a.execute(PEEK.encode(), binary=True).fetchall()
        server.stop()
        wal = Path(shutil.copytree(server.wal_directory, tmp_path / "pg_wal"))
    assert start is not None
    assert end is not None
    expected = messages_table((parse_lsn(lsn.decode()), int(xid), data) for lsn, xid, data in rows)
    request = DecodeRequest(
        str(wal), str(backup), "postgres", "pgoutput", OPTIONS, parse_lsn(start[0]), parse_lsn(end[0])
    )
    with decode(engine, request) as result:
        actual: pa.Table = joined(result.tables())
    assert first_difference(expected, actual) is None
    # 14 forgets how the relations are published, not that they are announced.
    announced = min(announced, 2) if major == 14 else announced
    assert sum(data[:1] == b"R" for data in values_of(expected.column("data"))) == announced
