"""pg_recvlogical from the service and from the server: the same bytes, the same exit status."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from bad_input.servers import conninfo_of, now, run, small_server
from serving.service import (
    END_SECONDS,
    Serving,
    Streaming,
    backup_of,
    client,
    content,
    make_slot_by_client,
    recvlogical,
    wait_until,
)
from slots.conftest import Command

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
OPTIONS = {
    "test_decoding": ("-o", "include-timestamp=1", "-o", "skip-empty-xacts=1"),
    "pgoutput": ("-o", "proto_version=1", "-o", "publication_names=p"),
}


LAST = "the last transaction"
"""In a row whose transaction ends a part of a stream."""
COMMIT_BYTES = 26
"""Of pgoutput's message, which pg_recvlogical writes as a line."""


def have_all(files: Sequence[Path]) -> bool:
    """Tell whether files end with the commit of the transaction that has :data:`LAST`."""
    return all(map(_has_all, files))


def without_repeats(data: bytes) -> bytes:
    """Return a stream with the announcement of the first table once.

    A server that decodes while a table is truncated learns of that from the other session, too: it announces the table
    anew amid the transaction before.
    """
    start = data.index(b"R")
    announcement = data[start : data.index(b"\n", start) + 1]
    assert data.count(announcement) >= 20
    return data.replace(announcement, b"")


def _has_all(file: Path) -> bool:
    _, is_there, rest = content(file).rpartition(LAST.encode())
    lines = rest.split(b"\nC", 1)
    return bool(is_there) and len(lines) == 2 and len(lines[1]) == COMMIT_BYTES


@pytest.mark.parametrize(
    "major", [pytest.param(major, marks=() if major in (14, 16, 18) else pytest.mark.slow) for major in range(14, 20)]
)
def test_streams_are_equal(tmp_path: Path, major: int) -> None:
    with small_server(major) as server:
        run(server, *TABLES)
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            for plugin in OPTIONS:
                for environment in (server.client_environment(), serving.environment()):
                    make_slot_by_client(environment, major, plugin, plugin)
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


def test_a_stream_goes_on_as_wal_is_received(tmp_path: Path) -> None:
    """The service receives WAL itself; clients stream while transactions come, and again from where they ended.

    Both have ended at one place only if each of them has all: files are equal on the way, too.
    """
    with small_server(16) as server:
        run(server, *TABLES)
        catalog = backup_of(server, tmp_path / "base")
        conninfo = conninfo_of(server)
        with Serving(tmp_path / "wal", catalog, tmp_path / "slots", "--from", conninfo) as serving:
            environments = (server.client_environment(), serving.environment())
            for environment in environments:
                make_slot_by_client(environment, 16, "s", "pgoutput")
            for part in range(2):
                files = [tmp_path / f"{part}-{number}" for number in range(2)]
                clients = [
                    Streaming(environment, 16, "--slot", "s", "-f", str(file), *OPTIONS["pgoutput"])
                    for environment, file in zip(environments, files, strict=True)
                ]
                for i in range(20):
                    run(server, f"INSERT INTO t SELECT i, '{i}', NULL FROM generate_series(1, {i}) i", "TRUNCATE t")
                run(server, f"INSERT INTO t VALUES ({-part}, '{LAST}', NULL)")
                wait_until(partial(have_all, files))
                assert [client.end() for client in clients] == [0, 0]
                assert without_repeats(content(files[0])) == without_repeats(content(files[1]))
            assert serving.stop() == 0


def test_a_stream_that_fails_has_all_before(tmp_path: Path) -> None:
    """The publication is dropped: what committed before the next change is sent, again and again."""
    with small_server(16) as server:
        run(server, *TABLES)
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            environments = (server.client_environment(), serving.environment())
            for environment in environments:
                make_slot_by_client(environment, 16, "s", "pgoutput")
            run(server, *WORK[:4], "DROP PUBLICATION p", "INSERT INTO u VALUES (5)", "INSERT INTO u VALUES (6)")
            for part in range(2):
                files = [tmp_path / f"{part}-{number}" for number in range(2)]
                errors = []
                for environment, file in zip(environments, files, strict=True):
                    flags = ("--slot", "s", "--start", "--no-loop", "-f", str(file), *OPTIONS["pgoutput"])
                    streamed = recvlogical(environment, 16, *flags)
                    assert streamed.returncode == 1
                    errors.append(streamed.stderr)
                assert all('publication "p" does not exist' in text for text in errors)
                assert content(files[0]) == content(files[1])
                assert len(content(files[0])) > 100_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_service_ends_when_streams_have_been_finished(command: Command, tmp_path: Path, number: int) -> None:
    with small_server(16) as server:
        run(server, *TABLES)
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            environment = serving.environment()
            make_slot_by_client(environment, 16, "s", "test_decoding")
            client = Streaming(environment, 16, "--slot", "s", "-f", str(tmp_path / "out"), "--no-loop")
            run(server, "INSERT INTO t SELECT i, '', '' FROM generate_series(1, 500) i")
            wait_until(lambda: b"COMMIT" in content(tmp_path / "out"))
            assert serving.stop(number) == 0
            assert client.wait() == 1
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            end = now(server)
            again = recvlogical(serving.environment(), 16, "--slot", "s", "--start", "--endpos", end, "-f", "-")
            assert again.returncode == 0
            assert "INSERT" not in again.stdout
        status, printed, _ = command("decode", "--slot", tmp_path / "slots" / "s")
        assert (status, printed) == (0, b"")


def test_a_slot_waits_for_transactions_that_ran_at_the_backup(command: Command, tmp_path: Path) -> None:
    """Else what commits after it was made, and before decoding can begin, would be lost.

    A slot that is to begin before that is refused, though the service has kept a state of there.
    """
    with small_server(16) as server:
        run(server, *TABLES)
        with server.connect() as session:
            session.execute("BEGIN; INSERT INTO u VALUES (1, 1)")
            catalog = backup_of(server, tmp_path / "base")
            with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
                words = [str(client("pg_recvlogical", 16)), "-d", "postgres", "--slot", "s", "--create-slot"]
                process = subprocess.Popen([*words, "-P", "test_decoding"], env=serving.environment())
                wait_until(lambda: b"waiting for transactions" in content(serving.log))
                early = now(server)
                run(server, "INSERT INTO u VALUES (2, 2)", "CHECKPOINT")
                assert process.poll() is None
                session.execute("COMMIT")
                run(server, "CHECKPOINT")
                assert process.wait(END_SECONDS) == 0
                run(server, "INSERT INTO u VALUES (3, 3)")
                end = now(server)
                streamed = recvlogical(serving.environment(), 16, "--slot", "s", "--start", "--endpos", end, "-f", "-")
                assert serving.stop() == 0
            source = ("--wal", server.wal_directory, "--catalog", catalog, "--plugin", "test_decoding")
            status, _, error = command("slot", "create", tmp_path / "slots" / "early", *source, "--at", early)
    assert streamed.stdout.count("INSERT") == 1
    assert "a[integer]:3" in streamed.stdout
    assert (status, f"a slot cannot begin at {early}" in error) == (1, True)
