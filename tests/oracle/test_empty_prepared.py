"""Prepared transactions without changes: of how they end, servers tell until August 2026, and so does Headwater."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater import DecodeRequest, decode
from headwater.demo.stream_comparison import first_difference, joined, messages_table
from headwater.jobs.engine import Engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from oracle.streams import Options, parse_lsn
from server_versions import saying, version_of

pytestmark = [pytest.mark.server]

SETUP = ("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (8)", "CREATE PUBLICATION p FOR TABLE t")
LOCK = ("BEGIN", "SELECT * FROM t WHERE id = 8 FOR SHARE", "PREPARE TRANSACTION 'locks'")
WORK = (
    *(*LOCK, "COMMIT PREPARED 'locks'"),
    *(*LOCK, "ROLLBACK PREPARED 'locks'"),
    *("BEGIN", "INSERT INTO t VALUES (9)", "PREPARE TRANSACTION 'writes'", "COMMIT PREPARED 'writes'"),
    *("BEGIN", "SELECT txid_current()", "PREPARE TRANSACTION 'nothing'", "COMMIT PREPARED 'nothing'"),
)
PGOUTPUT: Options = (("proto_version", "3"), ("publication_names", "p"), ("two_phase", "on"))


def asked(major: int) -> dict[str, Options]:
    """Return what slots are asked for; pgoutput of 14 does not decode at PREPARE."""
    return {"test_decoding": ()} if major == 14 else {"test_decoding": (), "pgoutput": PGOUTPUT}


@pytest.mark.parametrize(
    "major",
    [pytest.param(14, marks=pytest.mark.slow), 15, *(pytest.param(m, marks=pytest.mark.slow) for m in (16, 17))],
)
def test_how_they_end(engine: Engine, major: int, tmp_path: Path) -> None:
    with EmbeddedPostgres(find_programs(major, plugin="test_decoding"), autovacuum=False) as server:
        with server.connect() as connection:
            for statement in SETUP:
                connection.execute(statement.encode())
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        with server.connect() as connection:
            release = version_of(connection)
            starts = {name: _made(connection, name) for name in asked(major)}
            for statement in WORK:
                connection.execute(statement.encode())
            expected = {name: _said(connection, name, options) for name, options in asked(major).items()}
        server.stop()
        for name, options in asked(major).items():
            request = DecodeRequest(
                *(str(server.wal_directory), str(backup), "postgres", name, options, starts[name]),
                settings=saying(release),
                two_phase=True,
            )
            with decode(engine, request) as result:
                difference = first_difference(expected[name], joined(result.tables()))
            assert difference is None, f"{name} of {release}: {difference}"
    ends = [data for data in expected["test_decoding"].column("data").to_pylist() if b"'locks'" in data]
    assert len(ends) == (2 if release.finishes_empty_prepared else 0)


def _made(connection: Any, plugin: str) -> int:
    query = "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s, false, true)"
    return parse_lsn(connection.execute(query, [plugin, plugin]).fetchone()[0])


def _said(connection: Any, plugin: str, options: Options) -> Any:
    words = [word for option in options for word in option]
    kind = "" if plugin == "test_decoding" else "binary_"
    places = "".join(", %s" for _ in words)
    query = f"SELECT lsn::text, xid::text::int8, data FROM pg_logical_slot_peek_{kind}changes(%s, NULL, NULL{places})"
    rows = connection.execute(query.encode(), [plugin, *words]).fetchall()
    return messages_table(
        (parse_lsn(lsn), xid, data.encode() if isinstance(data, str) else bytes(data)) for lsn, xid, data in rows
    )
