"""Sessions that are far behind catch up by an engine's tasks: what is sent is the server's, and a fold goes on."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from bad_input.servers import now, run, small_server
from serving.service import (
    Serving,
    Streaming,
    backup_of,
    content,
    make_slot_by_client,
    recvlogical,
    wait_for_equal_files,
    wait_until,
)
from serving.subscribing import TABLES

pytestmark = [pytest.mark.server, pytest.mark.slow]

DRIVER = Path(__file__).with_name("bulk_driver.py")
WORK = (
    "INSERT INTO t SELECT i, 'name ' || i, i FROM generate_series(1, 5000) i",
    "BEGIN; INSERT INTO t VALUES (-1, 'gone', 1); ROLLBACK",
    "ALTER TABLE t ADD more text DEFAULT 'x'",
    "UPDATE t SET name = upper(name), more = NULL WHERE id % 3 = 0",
    "INSERT INTO parts SELECT i, CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END FROM generate_series(1, 3000) i",
    "DELETE FROM t WHERE id % 7 = 0",
    "SELECT pg_logical_emit_message(false, 'between', 'transactions')",
    "TRUNCATE parts",
)
SPARK_SECONDS = 240
"""For Spark to start, its workers to compile kernels, and Java to keep its classes at its end."""

PLUGINS = {
    "test_decoding": ("-o", "skip-empty-xacts=1"),
    "pgoutput": ("-o", "proto_version=4", "-o", "publication_names=p", "-o", "messages=on"),
}


@pytest.mark.parametrize(("engine", "mode"), [("local", "failing"), ("local", "going on"), ("spark", "going on")])
def test_streams_are_equal(tmp_path: Path, engine: str, mode: str) -> None:
    """Also where the engine fails amid a stretch: what was sent of it is not sent again."""
    with small_server(16) as server:
        run(server, *TABLES, "CREATE PUBLICATION p FOR ALL TABLES")
        catalog = backup_of(server, tmp_path / "base")
        serving = Serving(server.wal_directory, catalog, tmp_path / "slots", "--engine", engine, "-v")
        serving.program = (str(DRIVER), mode)
        with serving:
            places = server.client_environment(), serving.environment()
            for environment, plugin in product(places, PLUGINS):
                make_slot_by_client(environment, 16, plugin, plugin)
            run(server, *WORK, *(f"UPDATE t SET price = {number}" for number in range(4)))
            end = now(server)
            for plugin, options in PLUGINS.items():
                files = [tmp_path / f"{plugin}-{number}" for number in range(2)]
                for file, environment in zip(files, places, strict=True):
                    flags = ("--slot", plugin, "--start", "--endpos", end, "-f", str(file), *options)
                    streamed = recvlogical(environment, 16, *flags, seconds=SPARK_SECONDS)
                    assert streamed.returncode == 0, streamed.stderr
                assert files[0].read_bytes() == files[1].read_bytes()
                assert files[0].stat().st_size > 100_000
            run(server, *(f"UPDATE t SET price = {number}" for number in range(4)))
            files = [tmp_path / f"followed-{number}" for number in range(2)]
            clients = [
                Streaming(environment, 16, "--slot", "pgoutput", "-f", str(file), *PLUGINS["pgoutput"])
                for environment, file in zip(places, files, strict=True)
            ]
            wait_for_equal_files(files)
            run(server, "DROP TABLE parts", "ALTER TABLE t DROP more", "INSERT INTO t VALUES (-5, 'the last', 1)")
            wait_until(lambda: all(b"the last" in content(file) for file in files))
            wait_for_equal_files(files)
            assert [client.end() for client in clients] == [0, 0]
            assert serving.stop(seconds=SPARK_SECONDS) == 0
        log = serving.log.read_text()
        assert log.count("an engine decodes for a subscriber that is far behind") >= 3
        assert ("goes on without an engine: it is to fail here" in log) == (mode == "failing")
