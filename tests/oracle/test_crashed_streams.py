"""Transactions that were streamed, and whose server crashed: no record ends them, and yet they are over.

A session of after the crash finds in the commit log that they are, as soon as it looks into a catalog. From 18 on it
always does: then it does not stream them. So the table is one that it knows already, on a server that does not look.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater import DecodeRequest, decode
from headwater.demo.stream_comparison import first_difference, joined, messages_table
from headwater.jobs.engine import Engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from server_versions import saying, version_text

pytestmark = [pytest.mark.server]

LIMIT = (("logical_decoding_work_mem", "64kB"),)
SETUP = """
CREATE TABLE t (id int PRIMARY KEY, x text);
ALTER TABLE t ALTER x SET STORAGE PLAIN;
CREATE PUBLICATION p FOR TABLE t;
"""
FILL = "INSERT INTO t SELECT {0} * 1000 + i, repeat('x', 1900) FROM generate_series(1, 60) i"


def options_of(streaming: str) -> tuple[tuple[str, str], ...]:
    version = {"on": "2", "parallel": "4"}[streaming]
    return ("proto_version", version), ("publication_names", "p"), ("streaming", streaming)


@pytest.mark.parametrize("major", [15, pytest.param(16, marks=pytest.mark.slow), 17], ids=lambda major: f"pg{major}")
def test_a_crash_amid_streamed_transactions(engine: Engine, major: int, tmp_path: Path) -> None:
    ways = ["on"] if major < 16 else ["on", "parallel"]
    with EmbeddedPostgres(find_programs(major), autovacuum=False) as server:
        with server.connect() as connection:
            run(connection, SETUP)
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        with server.connect() as connection:
            query = "SELECT lsn - '0/0' FROM pg_create_logical_replication_slot('s', 'pgoutput')"
            start = int(connection.execute(query).fetchall()[0][0])
            run(connection, "INSERT INTO t VALUES (1, 'known')")
        crash_amid(server)
        server.start()
        with server.connect() as connection:
            run(connection, "INSERT INTO t VALUES (3, 'behind');\nCHECKPOINT;\nINSERT INTO t VALUES (4, 'later')")
            expected = {way: said_of(connection, options_of(way)) for way in ways}
            settings = (*LIMIT, *saying(version_text(connection)))
        server.stop()
        request = DecodeRequest(
            str(server.wal_directory), str(backup), plugin="pgoutput", start=start, settings=settings
        )
        for way in ways:
            kinds = [data[:1] for data in expected[way].column("data").to_pylist()]
            assert kinds.count(b"A") == 2, kinds
            assert kinds.count(b"S") >= 2, kinds
            with decode(engine, replace(request, options=options_of(way))) as result:
                actual = joined(result.tables())
            assert first_difference(expected[way], actual) is None, first_difference(expected[way], actual)


def crash_amid(server: EmbeddedPostgres) -> None:
    """Crash amid two transactions in progress, one with a subtransaction; all that they have written is on disk."""
    with closing(server.connect()) as first, closing(server.connect()) as other, closing(server.connect()) as third:
        run(first, f"BEGIN;\n{FILL.format(1)};\nSAVEPOINT s;\n{FILL.format(2)}")
        run(other, f"BEGIN;\n{FILL.format(3)}")
        run(third, "INSERT INTO t VALUES (2, 'beside')")
        server.crash()


def run(connection: Any, statements: str) -> None:
    for statement in filter(str.strip, statements.split(";\n")):
        connection.execute(statement.encode())


def said_of(connection: Any, options: tuple[tuple[str, str], ...]) -> Any:
    connection.execute("SET logical_decoding_work_mem = '64kB'")
    words = [word for option in options for word in option]
    query = (
        "SELECT lsn - '0/0', xid::text::int8, data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, "
        + ", ".join(["%s"] * len(words))
        + ")"
    )
    rows = connection.execute(query.encode(), words).fetchall()
    return messages_table((int(lsn), xid, bytes(data)) for lsn, xid, data in rows)
