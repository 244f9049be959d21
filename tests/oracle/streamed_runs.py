"""Walsenders that stream transactions in progress, and whether what we say is what they sent."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from pathlib import Path

import pyarrow as pa
import pytest
from _pytest.mark.structures import ParameterSet
from pyspark.sql import SparkSession

from headwater.demo.embedded_postgres import EmbeddedPostgres, find_programs
from headwater.demo.stream_comparison import Difference, first_difference, joined, messages_table
from headwater.pipeline.decode import decode
from headwater.pipeline.request import DecodeRequest
from headwater.pipeline.run_index import DEFAULT_BOUNDS, WindowBounds
from oracle.decoded_run import CALLBACKS
from oracle.live import LiveStream
from oracle.streams import Options, parse_lsn

LIMIT: Options = (("logical_decoding_work_mem", "64kB"),)
AT_ONCE: Options = (("debug_logical_replication_streaming", "immediate"),)
AT_ONCE_SINCE = 16
DAILY = (14, 18)

Streams = dict[str, tuple[str, Options]]
"""Plugins and options by the name of a stream."""

Work = Callable[[EmbeddedPostgres, Callable[[], None]], None]
"""What is done on a server; the second makes the walsenders catch up, as they must before anything is rolled back."""


def since(oldest: int) -> list[ParameterSet]:
    """Majors from one on; most of them are for the long form."""
    return [
        pytest.param(major, id=f"pg{major}", marks=() if major in DAILY else pytest.mark.slow)
        for major in (14, 15, 16, 17, 18, 19)
        if major >= oldest
    ]


def pgoutput(major: int, publication: str = "pub_all", *more: tuple[str, str]) -> Options:
    """Options of a stream of the highest protocol."""
    newest, mode = (4, "parallel") if major >= 16 else (3 if major == 15 else 2, "on")
    options = (("proto_version", str(newest)), ("publication_names", publication), ("streaming", mode))
    return *options, ("messages", "true"), *more


@dataclass
class Run:
    """A stopped server's files, and what its walsenders sent.

    Attributes:
        major: PostgreSQL's.
        backup, wal: where the files are.
        settings: of the walsenders' sessions; two_phase: of the slots.
        start: of all slots.
        sent: (lsn, data) by name of the stream; plugins and options: by the same.
    """

    major: int
    backup: Path
    wal: Path
    settings: Options = LIMIT
    two_phase: bool = False
    start: int = 0
    sent: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    plugins: Streams = field(default_factory=dict)


def run_live(
    major: int,
    directory: Path,
    statements: Sequence[str],
    streams: Streams,
    work: Work,
    settings: Options = LIMIT,
    *,
    two_phase: bool = False,
) -> Run:
    """Work on a server, with a walsender for each stream.

    Args:
        major: PostgreSQL's; directory: for the server's files.
        statements: run before the base copy is taken.
        streams: what walsenders are asked for.
        work: what they tell of.
        settings: of their sessions; two_phase: of their slots.
    """
    server = EmbeddedPostgres(find_programs(major, plugin="test_decoding"), autovacuum=False, wal_segment_megabytes=1)
    with server:
        with server.connect() as admin:
            for statement in statements:
                admin.execute(statement.encode())
        server.stop()
        run = Run(major, directory / "backup", directory / "pg_wal", settings, two_phase)
        run.plugins = streams
        shutil.copytree(server.data_directory, run.backup, symlinks=True)
        server.start()
        with ExitStack() as stack:
            admin = stack.enter_context(server.connect())
            live = dict(_subscribed(server, run, stack))

            def catch_up() -> None:
                admin.execute("INSERT INTO heard DEFAULT VALUES")
                row = admin.execute("SELECT pg_current_wal_lsn()::text").fetchone()
                assert row is not None
                for stream in live.values():
                    stream.read_to(parse_lsn(row[0]))

            work(server, catch_up)
            catch_up()
            run.sent = {name: stream.messages for name, stream in live.items()}
        # A server that stops waits for subscribers that have not confirmed anything.
        server.stop()
        shutil.copytree(server.wal_directory, run.wal)
    return run


def _subscribed(server: EmbeddedPostgres, run: Run, stack: ExitStack) -> Iterator[tuple[str, LiveStream]]:
    query = "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s, false, %s)"
    with server.connect() as admin:
        for number, (name, (plugin, options)) in enumerate(run.plugins.items()):
            row = admin.execute(query, [f"live{number}", plugin, run.two_phase]).fetchone()
            assert row is not None
            run.start = max(run.start, parse_lsn(row[0]))
            yield name, stack.enter_context(LiveStream(server, f"live{number}", options, run.settings))


def request_of(run: Run, name: str) -> DecodeRequest:
    """What a stream asks for."""
    plugin, options = run.plugins[name]
    return DecodeRequest(
        wal=str(run.wal),
        catalog=str(run.backup),
        database="postgres",
        plugin=plugin,
        options=options,
        start=run.start,
        settings=run.settings,
        two_phase=run.two_phase,
    )


def decoded(spark: SparkSession, run: Run, name: str, bounds: WindowBounds = DEFAULT_BOUNDS) -> pa.Table:
    """Our messages of a stream."""
    with decode(spark, request_of(run, name), bounds=bounds) as result:
        return joined(result.tables())


def difference(run: Run, name: str, actual: pa.Table) -> Difference | None:
    """Where what we say parts from what a walsender sent.

    The replication protocol carries no xids, and no LSN of a message that others of the same change follow.
    """
    lsns, datas = (actual.column(name).to_pylist() for name in ("lsn", "data"))
    sent = list(_without_repeated(run.sent[name], datas) if run.plugins[name][0] == "pgoutput" else run.sent[name])
    known = [(lsn or ours, 0, data) for (lsn, data), ours in zip(sent, chain(lsns, repeat(0)), strict=False)]
    without_xids = actual.set_column(1, "xid", pa.array([0] * len(actual), pa.int64()))
    return first_difference(messages_table(known), without_xids)


def _without_repeated(sent: Sequence[tuple[int, bytes]], ours: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """What was sent, but for announcements that still count, and that we do not make again.

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
        said, known = (data[:1] + data[5:] if inside else data), announced.setdefault(inside, set())
        is_repeated = kind in (b"R", b"Y") and said in known and (at >= len(ours) or ours[at] != data)
        known.add(said)
        if not is_repeated:
            at += 1
            yield lsn, data


def check(spark: SparkSession, run: Run) -> None:
    """Whether all streams are what was sent, in one window and in many, and a plugin of callbacks says the same."""
    for name in run.plugins:
        actual = decoded(spark, run, name)
        found = difference(run, name, actual)
        assert found is None, f"{name}: {len(run.sent[name])} expected, {len(actual)} found\n{found}"
        in_windows = decoded(spark, run, name, WindowBounds(1 << 20))
        assert first_difference(actual, in_windows) is None, name
        if name == "test_decoding":
            alike = replace(run, plugins={name: (CALLBACKS, run.plugins[name][1])})
            for bounds in (DEFAULT_BOUNDS, WindowBounds(1 << 20)):
                assert first_difference(actual, decoded(spark, alike, name, bounds)) is None
