"""A real server says what its own output plugins make of a workload, then stops and leaves its files.

The order matters: the data directory is copied while the server is stopped and before the slots are made (the base
backup), the workload runs, the slots are peeked at, and the server stops, in some runs by a crash. What is left is what
Headwater gets: the backup, ``pg_wal``, and per stream the options and the slot's ``confirmed_flush_lsn``.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.string import ByteaBinaryLoader

from headwater.cli.embedded_postgres import EmbeddedPostgres, find_programs
from oracle.workload import Workload, setup_statements

Options = tuple[tuple[str, str], ...]
Message = tuple[int, int, bytes]

TEST_DECODING: dict[str, Options] = {
    "test_decoding": (),
    "test_decoding, no empty transactions": (("include-xids", "0"), ("skip-empty-xacts", "1")),
    "test_decoding, more": (("include-timestamp", "1"), ("include-rewrites", "1"), ("only-local", "1")),
}
PGOUTPUT: dict[str, Options] = {
    "pgoutput, all": (("proto_version", "1"), ("publication_names", "pub_all"), ("messages", "true")),
    "pgoutput, lists": (("proto_version", "1"), ("publication_names", "pub_list,pub_some")),
    "pgoutput, some": (("proto_version", "1"), ("publication_names", "pub_some")),
}


@dataclass(frozen=True)
class Stream:
    """What one plugin said with some options.

    Attributes:
        name: for people.
        plugin: the plugin's name.
        options: as given to the server's function.
        start: the slot's ``confirmed_flush_lsn``.
        end: ``upto_lsn``, or None.
        messages: (lsn, xid, data) in order; data as bytes, as a text plugin may print a message's raw bytes.
    """

    name: str
    plugin: str
    options: Options
    start: int
    end: int | None
    messages: tuple[Message, ...]


@dataclass(frozen=True)
class OracleRun:
    """A stopped server's files and its word on them.

    Attributes:
        major: PostgreSQL's major version.
        backup: a plain base backup taken before the workload.
        wal: the stopped server's ``pg_wal``.
        database: the database that was decoded.
        streams: what was said, by stream name.
        errors: how many statements failed, by SQLSTATE.
    """

    major: int
    backup: Path
    wal: Path
    database: str
    streams: dict[str, Stream]
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterShape:
    """How the server is set up; a seed picks one."""

    wal_segment_megabytes: int = 1
    data_checksums: bool = False
    crashes: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of_seed(cls, seed: int) -> ClusterShape:
        """A shape that differs with the seed."""
        rng = random.Random(f"shape {seed}")
        settings = (
            ("wal_compression", rng.choice(("off", "pglz"))),
            ("full_page_writes", rng.choice(("on", "on", "off"))),
            ("wal_log_hints", rng.choice(("on", "off"))),
            ("track_commit_timestamp", rng.choice(("on", "off"))),
        )
        return cls(rng.choice((1, 1, 16)), rng.random() < 0.3, rng.random() < 0.3, settings)


def parse_lsn(text: str) -> int:
    """``X/Y`` in bytes."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def format_lsn(lsn: int) -> str:
    """Bytes as ``X/Y``."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def run_random(major: int, seed: int, steps: int, directory: Path) -> OracleRun:
    """A random workload of a seed."""

    def work(server: EmbeddedPostgres) -> tuple[dict[str, int], int | None]:
        workload = Workload(seed, server.connect, major)
        workload.run(steps // 2)
        with server.connect() as connection:
            middle = parse_lsn(_one(connection, "SELECT pg_current_wal_insert_lsn()::text"))
        workload.run(steps - steps // 2)
        sessions.append(workload)
        return dict(workload.errors()), middle

    sessions: list[Workload] = []
    setup = setup_statements(random.Random(f"setup {seed}"))
    return _run(major, ClusterShape.of_seed(seed), setup, work, directory)


def run_script(
    major: int, setup: Sequence[str], script: Callable[[EmbeddedPostgres], None], directory: Path, shape: ClusterShape
) -> OracleRun:
    """A scripted scenario."""

    def work(server: EmbeddedPostgres) -> tuple[dict[str, int], int | None]:
        script(server)
        return {}, None

    return _run(major, shape, setup, work, directory)


def _run(
    major: int,
    shape: ClusterShape,
    setup: Sequence[str],
    work: Callable[[EmbeddedPostgres], tuple[dict[str, int], int | None]],
    directory: Path,
) -> OracleRun:
    with EmbeddedPostgres(
        find_programs(major, plugin="test_decoding"),
        settings=dict(shape.settings),
        autovacuum=False,
        wal_segment_megabytes=shape.wal_segment_megabytes,
        data_checksums=shape.data_checksums,
    ) as server:
        with server.connect() as connection:
            for statement in setup:
                connection.execute(statement.encode())
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        with server.connect() as connection:
            starts = {plugin: _make_slot(connection, plugin) for plugin in ("test_decoding", "pgoutput")}
        errors, middle = work(server)
        with server.connect() as connection:
            streams = _peek_all(connection, starts, middle)
        server.crash() if shape.crashes else server.stop()
        wal = Path(shutil.copytree(server.wal_directory, directory / "pg_wal"))
    return OracleRun(major, backup, wal, "postgres", streams, errors)


def _make_slot(connection: psycopg.Connection[Any], plugin: str) -> int:
    connection.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [f"oracle_{plugin}", plugin])
    query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
    return parse_lsn(_one(connection, query, [f"oracle_{plugin}"]))


def _peek_all(connection: psycopg.Connection[Any], starts: dict[str, int], middle: int | None) -> dict[str, Stream]:
    wanted = [(name, "test_decoding", options, None) for name, options in TEST_DECODING.items()]
    wanted += [(name, "pgoutput", options, None) for name, options in PGOUTPUT.items()]
    streams = [_peek(connection, *stream, starts[stream[1]]) for stream in wanted]
    if middle is not None:
        streams.append(_peek(connection, "test_decoding, up to", "test_decoding", (), middle, starts["test_decoding"]))
    return {stream.name: stream for stream in streams}


def _peek(
    connection: psycopg.Connection[Any], name: str, plugin: str, options: Options, end: int | None, start: int
) -> Stream:
    function = "pg_logical_slot_peek_changes" if plugin == "test_decoding" else "pg_logical_slot_peek_binary_changes"
    connection.adapters.register_loader("text", ByteaBinaryLoader)
    flat = [part for option in options for part in option]
    rows = connection.execute(
        f"SELECT lsn::text, xid::text, data FROM {function}(%s, %s::pg_lsn, NULL, VARIADIC %s::text[])",
        [f"oracle_{plugin}", None if end is None else format_lsn(end), flat],
        binary=True,
    ).fetchall()
    messages = tuple((parse_lsn(lsn.decode()), int(xid), data) for lsn, xid, data in rows)
    return Stream(name, plugin, options, start, end, messages)


def _one(connection: psycopg.Connection[Any], query: str, arguments: Sequence[Any] = ()) -> str:
    row = connection.execute(query, list(arguments)).fetchone()
    assert row is not None
    return str(row[0])
