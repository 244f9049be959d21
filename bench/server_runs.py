"""The server's own decoding, timed: its best case inside, and what a client gets."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from headwater.local_servers.embedded_postgres import EmbeddedPostgres

Options = Sequence[tuple[str, str]]

RUNS = 5
OPTIONS = (("proto_version", "1"), ("publication_names", "everything"))
SETTINGS = {"logical_decoding_work_mem": "1GB", "work_mem": "1GB", "shared_buffers": "512MB"}


def make_slot(server: EmbeddedPostgres) -> str:
    """Make a slot for the server's own decoding; return where its stream begins."""
    with server.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('bench', 'pgoutput')")
        return str(one_row(connection, "SELECT confirmed_flush_lsn::text FROM pg_replication_slots")[0])


def time_server(
    server: EmbeddedPostgres, options: Options = OPTIONS, runs: int = RUNS
) -> tuple[tuple[int, int], tuple[float, ...]]:
    """Time the server; return (messages, bytes) of its stream, and the seconds of each run after one to warm up."""
    with server.connect() as connection:
        return time_session(connection, runs, options)


def time_session(
    connection: psycopg.Connection[Any], runs: int, options: Options = OPTIONS, end: str | None = None
) -> tuple[tuple[int, int], tuple[float, ...]]:
    """Do as :func:`time_server` in one session, so many times, up to an LSN if there is one."""
    arguments = ", ".join(f"'{part}'" for option in options for part in option)
    bound = "NULL" if end is None else f"'{end}'"
    peek = f"pg_logical_slot_peek_binary_changes('bench', {bound}, NULL, {arguments})"
    seconds = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        row = one_row(connection, f"SELECT count(*), sum(length(data))::bigint FROM {peek}")
        seconds.append(time.perf_counter() - began)
    return (row[0], row[1]), tuple(seconds[1:])


def time_client(server: EmbeddedPostgres, directory: Path, end: str | None = None) -> float:
    """Measure the seconds in which ``pg_recvlogical`` writes the stream to a file, up to an LSN if there is one."""
    with server.connect() as connection:
        connection.execute("SELECT pg_copy_logical_replication_slot('bench', 'client')")
        end = end or str(one_row(connection, "SELECT pg_current_wal_flush_lsn()::text")[0])
    out = directory / "client"
    command = [str(server.programs.program("pg_recvlogical")), "--dbname", "postgres", "--slot", "client", "--start"]
    command += ["--endpos", end, "--no-loop", "--file", str(out)]
    command += [part for name, value in OPTIONS for part in ("--option", f"{name}={value}")]
    began = time.perf_counter()
    subprocess.run(command, env=server.client_environment(), check=True, capture_output=True)
    seconds = time.perf_counter() - began
    out.unlink()
    with server.connect() as connection:
        connection.execute("SELECT pg_drop_replication_slot('client')")
    return seconds


def one_row(connection: psycopg.Connection[Any], query: str) -> tuple[Any, ...]:
    """Return the only row of a result."""
    row: tuple[Any, ...] | None = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row
