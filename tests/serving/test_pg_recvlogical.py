"""pg_recvlogical from the service and from the server: the same bytes, the same exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from bad_input.servers import now, run, small_server
from serving.service import Serving, backup_of, recvlogical

pytestmark = pytest.mark.server

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, name text, note text)",
    "CREATE TABLE u (a int, b numeric)",
    "CREATE PUBLICATION p FOR ALL TABLES",
)
WORK = (
    "INSERT INTO t SELECT i, 'name ' || i, repeat('x', i % 50) FROM generate_series(1, 3000) i",
    "UPDATE t SET name = upper(name) WHERE id % 3 = 0",
    "DELETE FROM t WHERE id % 7 = 0",
    "BEGIN; INSERT INTO u VALUES (1, 2.50); SAVEPOINT s; INSERT INTO u VALUES (2, 3); ROLLBACK TO s; COMMIT",
    "ALTER TABLE u ADD COLUMN c timestamptz DEFAULT '2026-01-02 03:04:05+00'",
    "INSERT INTO u VALUES (3, 4, NULL)",
    "TRUNCATE t, u",
    "SELECT pg_logical_emit_message(true, 'prefix', 'in a transaction')",
)
PLUGINS = {
    "test_decoding": ("-P", "test_decoding"),
    "pgoutput": ("-P", "pgoutput"),
}
OPTIONS = {
    "test_decoding": ("-o", "include-timestamp=1", "-o", "skip-empty-xacts=1"),
    "pgoutput": ("-o", "proto_version=1", "-o", "publication_names=p"),
}


@pytest.mark.parametrize(
    "major", [pytest.param(major, marks=() if major in (14, 16, 18) else pytest.mark.slow) for major in range(14, 19)]
)
def test_streams_are_equal(tmp_path: Path, major: int) -> None:
    with small_server(major) as server:
        run(server, *TABLES)
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            for plugin, arguments in PLUGINS.items():
                for environment in (server.client_environment(), serving.environment()):
                    made = recvlogical(environment, major, "--slot", plugin, "--create-slot", *arguments)
                    assert made.returncode == 0, made.stderr
            run(server, *WORK)
            end = now(server)
            for plugin, options in OPTIONS.items():
                texts = []
                for number, environment in enumerate((server.client_environment(), serving.environment())):
                    file = tmp_path / f"{plugin}-{number}"
                    streamed = recvlogical(
                        environment, major, "--slot", plugin, "--start", "--endpos", end, "-f", str(file), *options
                    )
                    assert streamed.returncode == 0, streamed.stderr
                    texts.append(file.read_bytes())
                assert texts[0] == texts[1]
                assert len(texts[0]) > 100_000
            assert serving.stop() == 0
