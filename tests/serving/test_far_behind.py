"""Sessions that are far behind catch up by an engine's tasks: what is sent is the server's, and a fold goes on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest

from bad_input.servers import now, run, small_server
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
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


STREAMED = {
    "on": ("pgoutput", ("-o", "proto_version=2", "-o", "publication_names=p", "-o", "streaming=on")),
    "parallel": ("pgoutput", ("-o", "proto_version=4", "-o", "publication_names=p", "-o", "streaming=parallel")),
    "text": ("test_decoding", ("-o", "stream-changes=1")),
}
"""Plugins and options of streams that have transactions before they end."""

BLOCK = re.compile(rb"(?:^|\n)S.{4}[\0\1]\n", re.S), re.compile(b"opening a streamed block")
"""The beginnings of blocks: of pgoutput, of test_decoding."""

LITTLE = {"logical_decoding_work_mem": "64kB", "max_prepared_transactions": "5"}
ROWS = 500
"""Of a piece of a transaction: more than is held before it is streamed. A few pieces are more than a stretch has."""


def write_open_transactions(server: EmbeddedPostgres, first: int, *, is_undone: bool) -> None:
    """Let transactions be open across each other, large ones and small ones; some of them, or parts of them, undone."""
    with ExitStack() as stack:
        sessions = [stack.enter_context(server.connect()) for _ in range(3)]
        for session in sessions:
            session.execute("BEGIN")
        for piece in range(3):
            for number, session in enumerate(sessions):
                begin = first + (3 * piece + number) * ROWS
                session.execute(f"SAVEPOINT s{piece}")
                session.execute(
                    f"INSERT INTO t SELECT i, 'row ' || i, i FROM generate_series({begin}, {begin + ROWS - 1}) i"
                )
                if is_undone and (piece + number) % 3 == 0:
                    session.execute(f"ROLLBACK TO SAVEPOINT s{piece}")
            run(server, f"INSERT INTO t VALUES ({-first - piece}, 'small', 1)")
        sessions[1].execute(f"PREPARE TRANSACTION 'p{first}'")
        sessions[0].execute("COMMIT")
        run(server, f"UPDATE t SET name = 'more' WHERE id BETWEEN {first} AND {first + 500}")
        sessions[2].execute("ROLLBACK" if is_undone else "COMMIT")
        run(server, f"COMMIT PREPARED 'p{first}'")


@pytest.mark.parametrize(("engine", "mode"), [("local", "failing"), ("local", "going on"), ("spark", "going on")])
@pytest.mark.parametrize("major", [16, 18])
def test_transactions_that_are_streamed_before_they_end(tmp_path: Path, engine: str, mode: str, major: int) -> None:
    """Compared with a service without an engine, and with the server where nothing is undone.

    Else a server leaves out what it finds undone meanwhile; 18 may send a stream of test_decoding without an end then.
    """
    with small_server(major, **LITTLE) as server:
        run(server, *TABLES, "CREATE PUBLICATION p FOR ALL TABLES")
        catalog = backup_of(server, tmp_path / "base")
        helped = Serving(server.wal_directory, catalog, tmp_path / "helped", "--engine", engine, "-v")
        helped.program = (str(DRIVER), mode)
        with helped, Serving(server.wal_directory, catalog, tmp_path / "alone") as alone:
            places = {
                "server": server.client_environment(),
                "helped": helped.environment(),
                "alone": alone.environment(),
            }
            for environment, (slot, (plugin, _)) in product(places.values(), STREAMED.items()):
                two_phase = ["--two-phase"] if slot == "text" else []
                make_slot_by_client(environment, major, slot, plugin, *two_phase)
            for part, is_undone in enumerate((False, True)):
                write_open_transactions(server, 1 + part * 100_000, is_undone=is_undone)
                end = now(server)
                for slot, (_, options) in STREAMED.items():
                    streams = {
                        name: streamed(environment, major, slot, end, tmp_path / f"{slot}-{name}-{part}", options)
                        for name, environment in places.items()
                        if name != "server" or not is_undone
                    }
                    assert streams["helped"] == streams["alone"], slot
                    assert is_undone or streams["helped"] == streams["server"], slot
                    assert len(BLOCK[slot == "text"].findall(streams["helped"])) > 5
            assert helped.stop(seconds=SPARK_SECONDS) == 0
        log = helped.log.read_text()
        assert log.count("an engine decodes for a subscriber that is far behind") >= 2 * len(STREAMED)
        assert ("goes on without an engine: it is to fail here" in log) == (mode == "failing")


def streamed(environment: dict[str, str], major: int, slot: str, end: str, file: Path, options: Sequence[str]) -> bytes:
    """Return what a slot streams up to an LSN."""
    flags = ("--slot", slot, "--start", "--endpos", end, "-f", str(file), *options)
    ended = recvlogical(environment, major, *flags, seconds=SPARK_SECONDS)
    assert ended.returncode == 0, ended.stderr
    return file.read_bytes()
