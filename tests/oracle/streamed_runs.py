"""Runs of a server to which walsenders are subscribed all the while, and how what they sent is compared with ours.

What a slot says when it is asked afterwards leaves out transactions that have been rolled back since, and blocks of
them; so whoever wants to know what is streamed of transactions in progress lets the subscribers catch up before
anything is rolled back. A stream whose name has ``two-phase`` in it is of a slot that decodes at PREPARE.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
import pyarrow as pa
import pytest
from _pytest.mark.structures import ParameterSet

from arrow_types import values_of
from headwater.demo.stream_comparison import Difference, first_difference, joined, messages_table
from headwater.jobs.engine import Engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.decode import RunSettings, decode
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import DEFAULT_BOUNDS, WindowBounds
from oracle.decoded_run import CALLBACKS
from oracle.live import LiveStream
from oracle.scenario_marks import part
from oracle.streams import STREAMED_LIMIT, TWO_PHASE, Options, newest_streaming, parse_lsn
from server_versions import saying, version_text

CAUGHT_UP = "caught up"
"""Prefix of the messages by which the log is flushed to where subscribers are waited for."""

AT_ONCE: Options = (("debug_logical_replication_streaming", "immediate"),)
AT_ONCE_SINCE = 16
DAILY = (14, 18)

Streams = dict[str, tuple[str, Options]]
"""Plugins and options by the name of a stream."""

Work = Callable[[EmbeddedPostgres, Callable[[], object]], None]
"""What is done on a server; the second makes the walsenders catch up, as they must before anything is rolled back."""


def since(oldest: int, daily: Sequence[int] = DAILY) -> list[ParameterSet]:
    """Mark majors from one on; most of them are for the long form."""
    return [
        pytest.param(major, id=f"pg{major}", marks=() if major in daily else pytest.mark.slow)
        for major in (14, 15, 16, 17, 18, 19)
        if major >= oldest
    ]


def pgoutput(major: int, publication: str = "pub_all", *more: tuple[str, str]) -> Options:
    """Return the options of a stream of the highest protocol."""
    return *newest_streaming(major), ("publication_names", publication), ("messages", "true"), *more


@dataclass
class Run:
    """A stopped server's files, and what its walsenders sent.

    Attributes:
        major: PostgreSQL's.
        backup, wal: where the files are.
        plugins: and options, by name of the stream.
        settings: of the walsenders' sessions.
        version: as the server shows it.
        start: of all slots; end: up to where they were read.
        sent: (lsn, data) by name of the stream.
    """

    major: int
    backup: Path
    wal: Path
    plugins: Streams
    settings: Options = STREAMED_LIMIT
    version: str = ""
    start: int = 0
    end: int | None = None
    sent: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)


class Subscribers:
    """A walsender for each stream of a run, from its slot's beginning on.

    Args:
        server: which runs.
        run: whose start is set on entering, and what was sent on leaving.
    """

    def __init__(self, server: EmbeddedPostgres, run: Run) -> None:
        self._server, self._run = server, run
        self._stack = ExitStack()
        self._live: dict[str, LiveStream] = {}

    def __enter__(self) -> Self:
        try:
            self._admin: psycopg.Connection[Any] = self._stack.enter_context(self._server.connect())
            self._admin.execute("SET lock_timeout = '1s'")
            self._run.version = version_text(self._admin)
            query = "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s, false, %s)"
            for number, (name, (plugin, options)) in enumerate(self._run.plugins.items()):
                slot = f"live_{number}"
                lsn = self._one(query, [slot, plugin, TWO_PHASE in name])
                self._run.start = max(self._run.start, parse_lsn(lsn))
                stream = LiveStream(self._server, slot, options, self._run.settings)
                self._live[name] = self._stack.enter_context(stream)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if error is None:
                self._run.end = self.catch_up()
            self._run.sent = {name: stream.messages for name, stream in self._live.items()}

    def catch_up(self) -> int:
        """Wait until all that has been written was decoded; up to there.

        Raises:
            psycopg.errors.LockNotAvailable: a transaction has locked catalogs, of whoever decodes, too.
        """
        self._admin.execute("SELECT pg_logical_emit_message(true, %s, '')", [CAUGHT_UP])
        lsn = parse_lsn(self._one("SELECT pg_current_wal_flush_lsn()::text"))
        for stream in self._live.values():
            stream.read_to(lsn)
        return lsn

    def _one(self, query: str, arguments: Sequence[Any] = ()) -> str:
        row = self._admin.execute(query.encode(), list(arguments)).fetchone()
        assert row is not None
        return str(row[0])


def run_live(
    major: int,
    directory: Path,
    statements: Sequence[str],
    streams: Streams,
    work: Work,
    settings: Options = STREAMED_LIMIT,
) -> Run:
    """Run work on a server, with a walsender for each stream.

    Args:
        major: PostgreSQL's; directory: for the server's files.
        statements: run before the base copy is taken.
        streams: what walsenders are asked for.
        work: what they tell of.
        settings: of their sessions.
    """
    run = Run(major, directory / "backup", directory / "pg_wal", streams, settings)
    programs = find_programs(major, plugin="test_decoding")
    with EmbeddedPostgres(programs, autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as admin:
            for statement in statements:
                admin.execute(statement.encode())
        server.stop()
        server.copy_data_directory(run.backup)
        server.start()
        with Subscribers(server, run) as subscribers:
            work(server, subscribers.catch_up)
        # A server that stops waits for subscribers that have not confirmed anything.
        server.stop()
        shutil.copytree(server.wal_directory, run.wal)
    return run


def request_of(run: Run, name: str) -> DecodeRequest:
    """Make the request of a stream."""
    plugin, options = run.plugins[name]
    return DecodeRequest(
        wal=str(run.wal),
        catalog=str(run.backup),
        database="postgres",
        plugin=plugin,
        options=options,
        start=run.start,
        end=run.end,
        settings=(*run.settings, *saying(run.version)),
        two_phase=TWO_PHASE in name,
    )


def decoded(engine: Engine, run: Run, name: str, bounds: WindowBounds = DEFAULT_BOUNDS) -> pa.Table:
    """Decode our messages of a stream."""
    with decode(engine, request_of(run, name), settings=RunSettings(bounds=bounds)) as result:
        return joined(result.tables())


def sent_messages(run: Run, name: str, scenario: str | None = None) -> pa.Table:
    """Return what a walsender sent, of all or of one scenario; without xids, which it does not tell."""
    sent = messages_table((lsn, 0, data) for lsn, data in run.sent[name])
    return sent if scenario is None else part(sent, scenario)


def difference(run: Run, name: str, actual: pa.Table, scenario: str | None = None) -> Difference | None:
    """Find where our messages, of all or of one scenario, part from what a walsender sent.

    The replication protocol carries no xids, and no LSN of a message that others of the same change follow: there ours
    are put. Left out is what was announced once more without anything that the WAL tells of.
    """
    sent = sent_messages(run, name, scenario)
    actual = actual if scenario is None else part(actual, scenario)
    lsns, xids, datas = (values_of(actual.column(name)) for name in ("lsn", "xid", "data"))
    pairs = zip(values_of(sent.column("lsn")), values_of(sent.column("data")), strict=True)
    rest = _without_repeated(pairs, datas) if run.plugins[name][0] == "pgoutput" else pairs
    ours = chain(zip(lsns, xids, strict=True), repeat((0, 0)))
    expected = ((lsn or our_lsn, xid, data) for (lsn, data), (our_lsn, xid) in zip(rest, ours, strict=False))
    return first_difference(messages_table(expected), actual)


def _without_repeated(sent: Iterable[tuple[int, bytes]], ours: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Give what was sent, but for announcements that still count, and that we do not make again.

    A server that decodes while others work takes invalidations that no WAL tells of. What a streamed transaction has
    announced counts for itself until a part of it is rolled back, and for all once it has committed.
    """
    announced: dict[int, set[bytes]] = {0: set()}
    at, inside = 0, 0
    for lsn, data in sent:
        kind, xid = data[:1], int.from_bytes(data[1:5], "big")
        if kind in (b"S", b"E"):
            inside = xid if kind == b"S" else 0
        elif kind in (b"A", b"c"):
            gone = announced.pop(xid, set())
            announced[0] |= gone if kind == b"c" else set()
        announcement, known = (data[:1] + data[5:] if inside else data), announced.setdefault(inside, set())
        is_repeated = kind in (b"R", b"Y") and announcement in known and (at >= len(ours) or ours[at] != data)
        known.add(announcement)
        if not is_repeated:
            at += 1
            yield lsn, data


def check(engine: Engine, run: Run) -> None:
    """Check that all streams are what was sent, in one window and in many, and a plugin of callbacks says the same."""
    for name in run.plugins:
        actual = decoded(engine, run, name)
        mismatch = difference(run, name, actual)
        assert mismatch is None, f"{name}: {len(run.sent[name])} expected, {len(actual)} found\n{mismatch}"
        in_windows = decoded(engine, run, name, WindowBounds(1 << 20))
        assert first_difference(actual, in_windows) is None, name
        if name == "test_decoding":
            alike = replace(run, plugins={name: (CALLBACKS, run.plugins[name][1])})
            for bounds in (DEFAULT_BOUNDS, WindowBounds(1 << 20)):
                assert first_difference(actual, decoded(engine, alike, name, bounds)) is None
