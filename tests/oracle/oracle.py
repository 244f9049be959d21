"""A real server says what its own output plugins make of a workload, then stops and leaves its files.

The order matters. The data directory is copied while the server is stopped and before the slots are made (the base
backup). Then the workload runs, the slots are peeked at, and the server stops, in some runs by a crash. What is left is
what Headwater gets: the backup, ``pg_wal``, and per stream the options and the slot's ``confirmed_flush_lsn``.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import ServerPrograms, find_programs
from oracle import threads
from oracle.calls import Call, Int64s, cut, get_piecewise, record_ends
from oracle.contents import Content, read_contents, snapshot_contents
from oracle.initial_schema import setup_statements
from oracle.lost_catalog_rows import CatalogRowLostError, require_catalog_rows
from oracle.option_matrix import draw, named
from oracle.scenario_marks import mark
from oracle.scenario_wrap import SETUP, WRAPS
from oracle.scenarios import SCENARIOS, Scenario
from oracle.script import ScriptRun
from oracle.session import Session
from oracle.streams import (
    PGOUTPUT,
    RANDOM_PGOUTPUT,
    RANDOM_PUBLICATIONS,
    SLOTS,
    TAKEN_TWO_PHASE,
    TWO_PHASE,
    Options,
    Stream,
    is_said_by,
    options_of,
    parse_lsn,
    peek_all,
    pgoutput_of,
    plugin_of,
    slot_name,
    two_phase_of,
    with_what_came_before,
)
from oracle.threads import ThreadedWorkload
from oracle.workload import Workload
from oracle.xid_wrap import check_wrapped, lead_to_wrap
from packaged_servers import letting_name

TAKEN_FROM = ("test_decoding", "pgoutput, columns")
"""Streams for which slots are asked piece by piece, too."""

TAKEN_AMID = ("test_decoding", "pgoutput, all", *TAKEN_TWO_PHASE)
"""Streams for which slots are asked where a script says so."""

DRAWN = 2
"""How many combinations of pgoutput's options a run with threads is asked for."""

WRAP_TAKEN_FROM = ("test_decoding", "pgoutput, all")
WRAP_PIECES = 12

SERVERS_PLUGIN = "test_decoding"
"""Servers that have it are asked for their own plugins."""

JSON = "wal2json"
"""Asked alone, on the server that has it."""

PUBLICATIONS = (
    "CREATE PUBLICATION pub_all FOR ALL TABLES",
    "CREATE PUBLICATION pub_list",
    "CREATE PUBLICATION pub_some WITH (publish = 'insert, delete')",
)


NO_STREAMS: Mapping[str, Options] = MappingProxyType({})
"""Of slots that decode prepared transactions at PREPARE. A server that is asked after they were rolled back leaves out
what it would have to look up in the catalog for them, so random workloads are not asked."""

_TRIES = 3


@dataclass(frozen=True)
class OracleRun:
    """A stopped server's files and its word on them.

    Attributes:
        major: PostgreSQL's major version.
        backup: a plain base backup taken before the workload.
        wal: the stopped server's ``pg_wal``.
        database: the database that was decoded.
        streams: what was said, by stream name.
        server_version: as the server shows it.
        errors: how many statements failed, by SQLSTATE.
        log: what the sessions did, of a run that its seed does not give again.
        statements: those of it that succeeded.
        calls: answers of slots that were asked piece by piece, by stream name.
        tables: what they held, of a run whose rows are followed.
    """

    major: int
    backup: Path
    wal: Path
    database: str
    streams: dict[str, Stream]
    server_version: str = ""
    errors: dict[str, int] = field(default_factory=dict)
    log: Path | None = None
    statements: tuple[str, ...] = ()
    calls: dict[str, tuple[Call, ...]] = field(default_factory=dict)
    tables: HeldTables | None = None


@dataclass(frozen=True)
class HeldTables:
    """The rows that tables held at two positions of the log, by OID.

    Attributes:
        lo: commits before it made ``before``.
        before: contents, taken while others wrote.
        hi: commits before it made ``after``.
        after: contents, with nobody writing.
    """

    lo: int
    before: dict[int, Content]
    hi: int
    after: dict[int, Content]


@dataclass(frozen=True)
class ClusterShape:
    """The settings of a server; a seed picks one."""

    wal_segment_megabytes: int = 1
    data_checksums: bool = False
    crashes: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    autovacuum: bool = False

    @classmethod
    def of_seed(cls, seed: int) -> ClusterShape:
        """Make a shape that differs with the seed."""
        rng = random.Random(f"shape {seed}")
        settings = (
            ("wal_compression", rng.choice(("off", "on"))),
            ("full_page_writes", rng.choice(("on", "on", "off"))),
            ("wal_log_hints", rng.choice(("on", "off"))),
            ("track_commit_timestamp", rng.choice(("on", "off"))),
            ("allow_in_place_tablespaces", "on"),
        )
        return cls(rng.choice((1, 1, 16)), rng.random() < 0.3, rng.random() < 0.3, settings)


@dataclass
class _Work:
    """The things that a workload leaves to look at.

    Attributes:
        sessions: they hold transactions open.
        middle: a position in its middle.
        errors: failed statements by SQLSTATE.
        log: of the statements.
        before: a position and what tables held there.
        pieces: how many pieces the slots are asked for that are taken from.
    """

    sessions: Sequence[Session] = ()
    middle: int | None = None
    errors: dict[str, int] = field(default_factory=dict)
    log: Path | None = None
    before: tuple[int, dict[int, Content]] | None = None
    pieces: Pieces | None = None


@dataclass(frozen=True)
class Pieces:
    """The cutting of a window for the slots that are taken from.

    Attributes:
        count: of pieces, 2 or more.
        seed: of the places where it is cut.
        between: one of these places lies between these positions.
    """

    count: int
    seed: int
    between: tuple[int, int]

    def ends(self, records: Int64s, lo: int, hi: int) -> tuple[int, ...]:
        """Choose the ends of the pieces of ``(lo, hi]``, of which these are the ends of records."""
        first = cut(records, *self.between, 2, self.seed)[0]
        return tuple(sorted({first, *cut(records, lo, hi, self.count - 1, self.seed)}))


def run_random(
    major: int, seed: int, steps: int, directory: Path, with_wal2json: ServerPrograms | None = None
) -> OracleRun:
    """Run a random workload of a seed, all sessions driven by one thread.

    Args:
        major: PostgreSQL's major version.
        seed: of the sessions' choices.
        steps: statements of all sessions.
        directory: where files are left.
        with_wal2json: the installation, where that plugin is asked.
    """

    def work(server: EmbeddedPostgres, _: _Slots) -> _Work:
        workload = Workload(seed, server.connect)
        workload.run(steps // 2)
        with server.connect() as connection:
            middle = parse_lsn(_one(connection, "SELECT pg_current_wal_insert_lsn()::text"))
        workload.run(steps - steps // 2)
        workload.settle()
        if with_wal2json is not None:
            # It locks the indexes of what it tells: whoever holds one of them would be waited for.
            workload.give_up()
        return _Work(workload.sessions, middle, dict(workload.errors()))

    setup = setup_statements(random.Random(f"setup {seed}"), major)
    shape = ClusterShape.of_seed(seed)
    return _run(major, shape, setup, work, directory, pgoutput=RANDOM_PGOUTPUT, with_wal2json=with_wal2json)


def run_threads(
    major: int,
    seed: int,
    steps: int,
    directory: Path,
    pieces: int = 3,
    segment_megabytes: int | None = None,
    xids_left: int | None = None,
) -> OracleRun:
    """Run a random workload, each session in a thread of its own.

    Args:
        major: PostgreSQL's major version.
        seed: of the sessions' choices.
        steps: statements of each writer.
        directory: where files are left, ``statements.log`` too.
        pieces: how many calls take from the slots that are asked piece by piece.
        segment_megabytes: size of the WAL's segments; None for one that the seed gives.
        xids_left: so many, before they begin again amid the run; None for a server that has spent few.
    """

    def work(server: EmbeddedPostgres, _: _Slots) -> _Work:
        workload = ThreadedWorkload(seed, server.connect, steps)
        taken: list[tuple[int, dict[int, Content]]] = []
        log = directory / "statements.log"
        try:
            between = workload.run(lambda: taken.append(snapshot_contents(server)))
        finally:
            workload.write_log(log)
        if xids_left is not None:
            check_wrapped(server)
        errors = dict(workload.errors())
        return _Work(workload.sessions, None, errors, log, taken[0], Pieces(pieces, seed, between))

    shape = ClusterShape.of_seed(seed)
    shape = replace(shape, autovacuum=True, settings=(*shape.settings, *threads.SETTINGS))
    if segment_megabytes is not None:
        shape = replace(shape, wal_segment_megabytes=segment_megabytes)
    setup = setup_statements(random.Random(f"setup {seed}"), major)

    options = random.Random(f"options {major} {seed}")
    drawn = named(draw(options, major, RANDOM_PUBLICATIONS) for _ in range(DRAWN))

    def attempt() -> OracleRun:
        return _run(
            major,
            shape,
            setup,
            work,
            directory,
            pgoutput=RANDOM_PGOUTPUT | drawn,
            taken_from=TAKEN_FROM,
            before_copy=None if xids_left is None else lambda server: lead_to_wrap(server, xids_left),
        )

    for _ in range(_TRIES - 1):
        with suppress(CatalogRowLostError):
            return attempt()
        shutil.rmtree(directory / "backup")
    return attempt()


def run_scenarios(
    major: int,
    names: Sequence[str],
    directory: Path,
    with_wal2json: ServerPrograms | None = None,
    scenarios: Mapping[str, Scenario] = SCENARIOS,
) -> OracleRun:
    """Run scenarios one after another on one server, each after a message that says its name.

    Args:
        major: PostgreSQL's major version.
        names: of the scenarios.
        directory: where files are left.
        with_wal2json: the installation, where that plugin is asked.
        scenarios: what the names stand for.
    """

    def work(server: EmbeddedPostgres, _: _Slots) -> None:
        for name in names:
            with server.connect() as connection:
                mark(connection, name)
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}".encode())
            script = ScriptRun(server, name)
            try:
                script.run(scenarios[name].script)
            finally:
                script.close()
        _wait_for_backends(server)

    setup = [*PUBLICATIONS, *(statement for name in names for statement in _setup(name, scenarios[name]))]
    pgoutput, two_phase = pgoutput_of(major), two_phase_of(major)
    return _run(
        major,
        ClusterShape(),
        setup,
        work,
        directory,
        pgoutput=pgoutput,
        two_phase=two_phase,
        with_wal2json=with_wal2json,
    )


def run_alone(major: int, name: str, directory: Path) -> OracleRun:
    """Run a scenario that needs a server of its own."""
    scenario = SCENARIOS[name]
    slots_come_later = "!slot" in scenario.script

    def work(server: EmbeddedPostgres, slots: _Slots) -> None:
        with server.connect() as connection:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}".encode())
        _play(server, name, scenario.script, slots)

    return _run(
        major,
        ClusterShape(settings=scenario.settings),
        [*PUBLICATIONS, *_setup(name, scenario)],
        work,
        directory,
        slots_come_later=slots_come_later,
        pgoutput=pgoutput_of(major),
        two_phase=two_phase_of(major),
        taken_from=[stream for stream in TAKEN_AMID if is_said_by(stream, major)] if scenario.takes else (),
    )


def run_wrap(major: int, name: str, directory: Path) -> OracleRun:
    """Run a scenario in which xids begin again."""
    wrap = WRAPS[name]

    def before_copy(server: EmbeddedPostgres) -> None:
        lead_to_wrap(server, wrap.left)
        _play(server, name, wrap.copied)

    def work(server: EmbeddedPostgres, slots: _Slots) -> _Work:
        _play(server, name, wrap.running)
        slots.make()
        lo, hi = _play(server, name, wrap.script)
        return _Work(pieces=Pieces(WRAP_PIECES, major, (lo, hi)))

    setup = [*PUBLICATIONS, f"CREATE SCHEMA {name}", f"SET search_path = {name}", *SETUP.strip().split(";\n")]
    return _run(
        major,
        ClusterShape(),
        setup,
        work,
        directory,
        slots_come_later=True,
        taken_from=WRAP_TAKEN_FROM,
        before_copy=before_copy,
    )


def _play(server: EmbeddedPostgres, schema: str, text: str, slots: _Slots | None = None) -> list[int]:
    """Run a script until all its sessions have ended; its marks."""
    script = ScriptRun(server, schema) if slots is None else ScriptRun(server, schema, slots.make, slots.take_all)
    try:
        script.run(text)
    finally:
        script.close()
    _wait_for_backends(server)
    return script.marks


def _wait_for_backends(server: EmbeddedPostgres) -> None:
    """Wait until no session is left: those that had temporary tables drop them on their way out."""
    query = "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    with server.connect() as connection:
        while connection.execute(query).fetchone():
            connection.execute("SELECT pg_sleep(0.005)")


def _setup(name: str, scenario: Scenario) -> list[str]:
    statements = [part.strip() for part in scenario.setup.split(";\n") if part.strip()]
    return [f"CREATE SCHEMA {name}", f"SET search_path = {name}", *statements] if statements else []


def _slots_of(decodes_prepared: bool) -> Sequence[str]:
    """Return a stream of each slot that the server's own plugins are peeked at over."""
    return SLOTS[: None if decodes_prepared else len(SLOTS) // 2]


@dataclass
class _Slots:
    """The slots of a run: one per plugin, and one for each stream that is taken from; and where they began.

    Attributes:
        slots: a stream of each slot that is one of a plugin's.
        taken: what was taken, by stream name.
    """

    server: EmbeddedPostgres
    taken_from: Sequence[str] = ()
    slots: Sequence[str] = ()
    starts: dict[str, int] = field(default_factory=dict)
    taken: dict[str, tuple[Call, ...]] = field(default_factory=dict)

    def make(self) -> None:
        with self.server.connect() as connection:
            for stream in self.slots:
                slot = slot_name(stream)
                self._make(connection, slot, stream)
                query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
                self.starts[slot] = parse_lsn(_one(connection, query, [slot]))
            for place, name in enumerate(self.taken_from):
                self._make(connection, f"taken_{place}", name)

    def take(self, connection: psycopg.Connection[Any], ends: Sequence[int]) -> None:
        """Take up to one end after the other."""
        for place, name in enumerate(self.taken_from):
            calls = get_piecewise(connection, f"taken_{place}", options_of(name), ends)
            self.taken[name] = (*self.taken.get(name, ()), *calls)

    def take_all(self) -> None:
        """Take what has committed."""
        with self.server.connect() as connection:
            self.take(connection, [_flushed(connection, "get")])

    def _make(self, connection: psycopg.Connection[Any], slot: str, stream: str) -> None:
        query = "SELECT pg_create_logical_replication_slot(%s, %s, false, %s)"
        connection.execute(query, [slot, plugin_of(stream), TWO_PHASE in stream])


def _run(
    major: int,
    shape: ClusterShape,
    setup: Sequence[str],
    work: Callable[[EmbeddedPostgres, _Slots], _Work | None],
    directory: Path,
    *,
    slots_come_later: bool = False,
    pgoutput: Mapping[str, Options] = PGOUTPUT,
    two_phase: Mapping[str, Options] = NO_STREAMS,
    taken_from: Sequence[str] = (),
    before_copy: Callable[[EmbeddedPostgres], None] | None = None,
    with_wal2json: ServerPrograms | None = None,
) -> OracleRun:
    allowed = {} if with_wal2json is None else letting_name(with_wal2json, JSON)
    with EmbeddedPostgres(
        with_wal2json or find_programs(major, plugin=SERVERS_PLUGIN),
        settings=dict(shape.settings) | allowed,
        autovacuum=shape.autovacuum,
        wal_segment_megabytes=shape.wal_segment_megabytes,
        data_checksums=shape.data_checksums,
    ) as server:
        with server.connect() as connection:
            for statement in setup:
                connection.execute(statement.encode())
        if before_copy is not None:
            before_copy(server)
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        asked = _slots_of(bool(two_phase)) if with_wal2json is None else (JSON,)
        slots = _Slots(server, taken_from, asked)
        if not slots_come_later:
            slots.make()
        done = work(server, slots) or _Work()
        made = OracleRun(major, backup, directory / "pg_wal", "postgres", {})
        run = _ask(made, shape, slots, done, pgoutput, two_phase)
        server.crash() if shape.crashes else server.stop()
        for session in done.sessions:
            session.connection.close()
        shutil.copytree(server.wal_directory, run.wal)
    return run


def _ask(
    run: OracleRun,
    shape: ClusterShape,
    slots: _Slots,
    done: _Work,
    pgoutput: Mapping[str, Options],
    two_phase: Mapping[str, Options],
) -> OracleRun:
    """Ask what the server says of its work, while it still runs."""
    with slots.server.connect() as connection:
        require_catalog_rows(connection)
        version = _one(connection, "SHOW server_version")
        if shape.autovacuum:
            _end_autovacuum(connection)
        end = _flushed(connection, "end")
        tables = HeldTables(*done.before, end, read_contents(connection)) if done.before else None
        middle = done.middle
        ends: tuple[int, ...] = (end,)
        if done.pieces is not None:
            lo = slots.starts[slot_name("pgoutput")]
            records = record_ends(slots.server.wal_directory, hi=end)
            ends = done.pieces.ends(records, lo, end)
            middle = cut(records, lo, end, 2, done.pieces.seed)[0]
        # The server goes on logging what runs while the plugins are asked one after the other.
        streams = peek_all(
            connection,
            slots.starts,
            pgoutput,
            two_phase,
            middle=middle,
            end=end if shape.autovacuum else None,
        )
        if done.pieces is not None:
            streams = with_what_came_before(connection, streams, records)
        slots.take(connection, ends)
    if done.sessions and not shape.crashes:
        # Sessions that end in good order still commit something: they drop their temporary tables.
        streams = {name: replace(stream, end=stream.end or end) for name, stream in streams.items()}
    statements = tuple(line[2] for session in done.sessions for line in session.log if not line[3])
    return replace(
        run,
        streams=streams,
        server_version=version,
        errors=done.errors,
        log=done.log,
        statements=statements,
        calls=slots.taken,
        tables=tables,
    )


def _flushed(connection: psycopg.Connection[Any], prefix: str) -> int:
    """Return where the log is flushed to: a commit of something written is, and with it all WAL before it."""
    connection.execute("SELECT pg_logical_emit_message(true, %s, '')", [prefix])
    return parse_lsn(_one(connection, "SELECT pg_current_wal_flush_lsn()::text"))


def _end_autovacuum(connection: psycopg.Connection[Any]) -> None:
    """End autovacuum: were relations invalidated while the plugins are asked, pgoutput would announce them once more.

    A session that decodes takes the invalidations of those that run beside it, too, which are not in what it decodes.
    """
    connection.execute("ALTER SYSTEM SET autovacuum = off")
    connection.execute("SELECT pg_reload_conf()")
    running = "FROM pg_stat_activity WHERE backend_type LIKE 'autovacuum %'"
    while connection.execute(f"SELECT 1 {running}".encode()).fetchone():
        # One may wait for a transaction that is left open, and that has changed the table's row of pg_class.
        connection.execute(f"SELECT pg_terminate_backend(pid) {running} AND wait_event_type = 'Lock'".encode())


def _one(connection: psycopg.Connection[Any], query: str, arguments: Sequence[Any] = ()) -> str:
    row = connection.execute(query, list(arguments)).fetchone()
    assert row is not None
    return str(row[0])
