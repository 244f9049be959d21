"""A real server says what its own output plugins make of a workload, then stops and leaves its files.

The order matters: the data directory is copied while the server is stopped and before the slots are made (the base
backup), the workload runs, the slots are peeked at, and the server stops, in some runs by a crash. What is left is what
Headwater gets: the backup, ``pg_wal``, and per stream the options and the slot's ``confirmed_flush_lsn``.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from psycopg.types.string import ByteaBinaryLoader

from headwater.demo.embedded_postgres import EmbeddedPostgres, find_programs
from headwater.demo.stream_comparison import messages_table
from oracle import threads
from oracle.scenarios import SCENARIOS
from oracle.script import ScriptRun
from oracle.session import Session
from oracle.threads import ThreadedWorkload
from oracle.workload import Workload, setup_statements

SCENARIO_PREFIX = "oracle scenario"
PUBLICATIONS = (
    "CREATE PUBLICATION pub_all FOR ALL TABLES",
    "CREATE PUBLICATION pub_list",
    "CREATE PUBLICATION pub_some WITH (publish = 'insert, delete')",
)
SETTINGS = (("timezone", "America/St_Johns"), ("bytea_output", "escape"))

Options = tuple[tuple[str, str], ...]

TEST_DECODING: dict[str, Options] = {
    "test_decoding": (),
    "test_decoding, no empty transactions": (("include-xids", "0"), ("skip-empty-xacts", "1")),
    "test_decoding, more": (("include-timestamp", "1"), ("include-rewrites", "1"), ("only-local", "1")),
}
PGOUTPUT: dict[str, Options] = {
    "pgoutput, all": (("proto_version", "1"), ("publication_names", "pub_all"), ("messages", "true")),
    "pgoutput, lists": (("proto_version", "1"), ("publication_names", "pub_list,pub_some"), ("messages", "on")),
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
        settings: of the session that asked, where they are not the defaults.
        messages: lsn, xid and data in order; data as bytes, as a text plugin may print a message's raw bytes.
    """

    name: str
    plugin: str
    options: Options
    start: int
    end: int | None
    settings: Options
    messages: pa.Table


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
        log: what the sessions did, of a run that its seed does not give again.
    """

    major: int
    backup: Path
    wal: Path
    database: str
    streams: dict[str, Stream]
    errors: dict[str, int] = field(default_factory=dict)
    log: Path | None = None


@dataclass(frozen=True)
class ClusterShape:
    """How the server is set up; a seed picks one."""

    wal_segment_megabytes: int = 1
    data_checksums: bool = False
    crashes: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    autovacuum: bool = False

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


@dataclass
class _Work:
    """What a workload leaves to look at: sessions that hold transactions open, and a position in its middle."""

    sessions: Sequence[Session] = ()
    middle: int | None = None
    errors: dict[str, int] = field(default_factory=dict)
    log: Path | None = None


def run_random(major: int, seed: int, steps: int, directory: Path) -> OracleRun:
    """A random workload of a seed."""

    def work(server: EmbeddedPostgres, _: _Slots) -> _Work:
        workload = Workload(seed, server.connect, major)
        workload.run(steps // 2)
        with server.connect() as connection:
            middle = parse_lsn(_one(connection, "SELECT pg_current_wal_insert_lsn()::text"))
        workload.run(steps - steps // 2)
        workload.settle()
        return _Work(workload.sessions, middle, dict(workload.errors()))

    setup = setup_statements(random.Random(f"setup {seed}"))
    return _run(major, ClusterShape.of_seed(seed), setup, work, directory)


def run_threads(major: int, seed: int, steps: int, directory: Path) -> OracleRun:
    """Random sessions, each in a thread of its own."""

    def work(server: EmbeddedPostgres, _: _Slots) -> _Work:
        workload = ThreadedWorkload(seed, server.connect, major, steps)
        try:
            workload.run()
        finally:
            workload.write_log(directory / "statements.log")
        return _Work(workload.sessions, None, dict(workload.errors()), directory / "statements.log")

    shape = ClusterShape.of_seed(seed)
    shape = replace(shape, autovacuum=True, settings=(*shape.settings, *threads.SETTINGS))
    setup = [*setup_statements(random.Random(f"setup {seed}")), *threads.SETUP]
    return _run(major, shape, setup, work, directory)


def run_scenarios(major: int, names: Sequence[str], directory: Path) -> OracleRun:
    """Scenarios one after another on one server, each behind a message that says its name."""

    def work(server: EmbeddedPostgres, _: _Slots) -> None:
        for name in names:
            with server.connect() as connection:
                connection.execute("SELECT pg_logical_emit_message(false, %s, %s)", [SCENARIO_PREFIX, name])
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}".encode())
            script = ScriptRun(server, name)
            try:
                script.run(SCENARIOS[name].script)
            finally:
                script.close()
        _wait_for_backends(server)

    setup = [*PUBLICATIONS, *(statement for name in names for statement in _setup(name))]
    return _run(major, ClusterShape(), setup, work, directory)


def run_alone(major: int, name: str, directory: Path) -> OracleRun:
    """A scenario that needs a server of its own."""
    scenario = SCENARIOS[name]
    slots_come_later = "!slot" in scenario.script

    def work(server: EmbeddedPostgres, slots: _Slots) -> None:
        with server.connect() as connection:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}".encode())
        script = ScriptRun(server, name, slots.make)
        try:
            script.run(scenario.script)
        finally:
            script.close()
        _wait_for_backends(server)

    shape = ClusterShape(settings=scenario.settings)
    return _run(major, shape, [*PUBLICATIONS, *_setup(name)], work, directory, slots_come_later=slots_come_later)


def _wait_for_backends(server: EmbeddedPostgres) -> None:
    """Wait until no session is left: those that had temporary tables drop them on their way out."""
    query = "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    with server.connect() as connection:
        while connection.execute(query).fetchone():
            connection.execute("SELECT pg_sleep(0.005)")


def _setup(name: str) -> list[str]:
    statements = [part.strip() for part in SCENARIOS[name].setup.split(";\n") if part.strip()]
    return [f"CREATE SCHEMA {name}", f"SET search_path = {name}", *statements] if statements else []


@dataclass
class _Slots:
    """The slots of a run, one per plugin, and their positions."""

    server: EmbeddedPostgres
    starts: dict[str, int] = field(default_factory=dict)

    def make(self) -> None:
        for plugin in ("test_decoding", "pgoutput"):
            with self.server.connect() as connection:
                connection.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [f"oracle_{plugin}", plugin])
                query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
                self.starts[plugin] = parse_lsn(_one(connection, query, [f"oracle_{plugin}"]))


def _run(
    major: int,
    shape: ClusterShape,
    setup: Sequence[str],
    work: Callable[[EmbeddedPostgres, _Slots], _Work | None],
    directory: Path,
    *,
    slots_come_later: bool = False,
) -> OracleRun:
    with EmbeddedPostgres(
        find_programs(major, plugin="test_decoding"),
        settings=dict(shape.settings),
        autovacuum=shape.autovacuum,
        wal_segment_megabytes=shape.wal_segment_megabytes,
        data_checksums=shape.data_checksums,
    ) as server:
        with server.connect() as connection:
            for statement in setup:
                connection.execute(statement.encode())
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        slots = _Slots(server)
        if not slots_come_later:
            slots.make()
        done = work(server, slots) or _Work()
        with server.connect() as connection:
            # A commit of something written is flushed, and with it all WAL before it.
            connection.execute("SELECT pg_logical_emit_message(true, 'end', '')")
            end = parse_lsn(_one(connection, "SELECT pg_current_wal_flush_lsn()::text"))
            # Autovacuum goes on while the plugins are asked one after the other.
            streams = _peek_all(connection, slots.starts, done.middle, end if shape.autovacuum else None)
        if done.sessions and not shape.crashes:
            # Sessions that end in good order still commit something: they drop their temporary tables.
            streams = {name: replace(stream, end=stream.end or end) for name, stream in streams.items()}
        server.crash() if shape.crashes else server.stop()
        for session in done.sessions:
            session.connection.close()
        wal = Path(shutil.copytree(server.wal_directory, directory / "pg_wal"))
    return OracleRun(major, backup, wal, "postgres", streams, done.errors, done.log)


def _peek_all(
    connection: psycopg.Connection[Any], starts: dict[str, int], middle: int | None, end: int | None
) -> dict[str, Stream]:
    connection.adapters.register_loader("text", ByteaBinaryLoader)
    asked = [(name, "test_decoding", options) for name, options in TEST_DECODING.items()]
    asked += [(name, "pgoutput", options) for name, options in PGOUTPUT.items()]
    streams = [_peek(connection, starts, *one, end=end) for one in asked]
    for setting, value in SETTINGS:
        connection.execute(f"SET {setting} = '{value}'".encode())
    name, options = "test_decoding, other settings", (("include-timestamp", "1"),)
    streams.append(_peek(connection, starts, name, "test_decoding", options, end=end, settings=SETTINGS))
    if middle is not None:
        connection.execute("RESET ALL")
        streams.append(_peek(connection, starts, "test_decoding, up to", "test_decoding", (), end=middle))
    return {stream.name: stream for stream in streams}


def _peek(
    connection: psycopg.Connection[Any],
    starts: dict[str, int],
    name: str,
    plugin: str,
    options: Options,
    *,
    end: int | None = None,
    settings: Options = (),
) -> Stream:
    function = "pg_logical_slot_peek_changes" if plugin == "test_decoding" else "pg_logical_slot_peek_binary_changes"
    flat = [part for option in options for part in option]
    rows = connection.execute(
        f"SELECT lsn::text, xid::text, data FROM {function}(%s, %s::pg_lsn, NULL, VARIADIC %s::text[])",
        [f"oracle_{plugin}", None if end is None else format_lsn(end), flat],
        binary=True,
    ).fetchall()
    messages = messages_table((parse_lsn(lsn.decode()), int(xid), data) for lsn, xid, data in rows)
    return Stream(name, plugin, options, starts[plugin], end, settings, messages)


def _one(connection: psycopg.Connection[Any], query: str, arguments: Sequence[Any] = ()) -> str:
    row = connection.execute(query, list(arguments)).fetchone()
    assert row is not None
    return str(row[0])
