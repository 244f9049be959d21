"""Transactions in progress: the blocks that we say a server streams are those that it streams, byte for byte."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from _pytest.mark.structures import ParameterSet
from pyspark.sql import SparkSession

from headwater.demo.embedded_postgres import EmbeddedPostgres, find_programs
from headwater.demo.stream_comparison import Difference, first_difference, joined, messages_table
from headwater.pipeline.decode import decode
from headwater.pipeline.request import DecodeRequest
from headwater.pipeline.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.slots.kept_state import KeptState
from oracle.decoded_run import CALLBACKS
from oracle.live import LiveStream
from oracle.streamed_workload import StreamedWorkload, statements
from oracle.streams import Options, parse_lsn

pytestmark = pytest.mark.server

LIMIT: Options = (("logical_decoding_work_mem", "64kB"),)
ONE_MEGABYTE: Options = (("logical_decoding_work_mem", "1MB"),)
AT_ONCE: Options = (("debug_logical_replication_streaming", "immediate"),)
PGOUTPUT_TWO_PHASE_SINCE, AT_ONCE_SINCE = 15, 16
DAILY = (14, 18)


def since(oldest: int) -> list[ParameterSet]:
    """Majors from one on; most of them are for the long form."""
    return [
        pytest.param(major, id=f"pg{major}", marks=() if major in DAILY else pytest.mark.slow)
        for major in (14, 15, 16, 17, 18, 19)
        if major >= oldest
    ]


TEST_DECODING: Options = (("stream-changes", "1"),)
SKIPPING: Options = (("stream-changes", "1"), ("skip-empty-xacts", "1"), ("include-timestamp", "1"))


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
    plugins: dict[str, tuple[str, Options]] = field(default_factory=dict)


def streams_of(major: int, two_phase: bool = False) -> dict[str, tuple[str, Options]]:
    """All that is compared on a major."""
    if two_phase:
        prepared = {"pgoutput": ("pgoutput", pgoutput(major, "pub_all", ("two_phase", "on")))}
        return {
            "test_decoding": ("test_decoding", TEST_DECODING),
            "test_decoding, no empty transactions": ("test_decoding", SKIPPING),
            **(prepared if major >= PGOUTPUT_TWO_PHASE_SINCE else {}),
        }
    return {
        "test_decoding": ("test_decoding", TEST_DECODING),
        "test_decoding, no empty transactions": ("test_decoding", SKIPPING),
        "pgoutput": ("pgoutput", pgoutput(major)),
        "pgoutput, some": ("pgoutput", pgoutput(major, "pub_some")),
        "pgoutput, binary": ("pgoutput", pgoutput(major, "pub_all", ("binary", "true"))),
    }


def run_workload(
    major: int,
    seed: int,
    directory: Path,
    steps: int,
    settings: Options = LIMIT,
    *,
    two_phase: bool = False,
    rolls_back: bool = True,
) -> Run:
    """A random workload, with a walsender for each stream."""
    server = EmbeddedPostgres(find_programs(major, plugin="test_decoding"), autovacuum=False, wal_segment_megabytes=1)
    with server:
        with server.connect() as admin:
            for statement in statements():
                admin.execute(statement.encode())
        server.stop()
        run = Run(major, directory / "backup", directory / "pg_wal", settings, two_phase)
        run.plugins = streams_of(major, two_phase)
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

            ways = {"prepares": two_phase, "rolls_back": rolls_back}
            StreamedWorkload(server.connect, seed, catch_up, **ways).run(steps)
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
    """What a stream asks for, of one that was sent or of a plugin of callbacks."""
    plugin, options = run.plugins.get(name, (CALLBACKS, TEST_DECODING))
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
    sent = list(_without_repeated(run.sent[name], datas) if name.startswith("pgoutput") else run.sent[name])
    known = [(lsn or ours, 0, data) for (lsn, data), ours in zip(sent, chain(lsns, repeat(0)), strict=False)]
    without_xids = actual.set_column(1, "xid", pa.array([0] * len(actual), pa.int64()))
    return first_difference(messages_table(known), without_xids)


def _without_repeated(sent: Sequence[tuple[int, bytes]], ours: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """What was sent, but for announcements that were sent before, be it by another xid, and that we do not make again.

    A server that decodes while others work takes invalidations that no WAL tells of.
    """
    before: set[bytes] = set()
    at = 0
    for lsn, data in sent:
        said = data[:1] + data[5:]
        is_repeated = data[:1] in (b"R", b"Y") and said in before and (at >= len(ours) or ours[at] != data)
        before.add(said)
        if not is_repeated:
            at += 1
            yield lsn, data


def check(spark: SparkSession, run: Run) -> None:
    """Whether all streams are what was sent, in one window and in many."""
    for name in run.plugins:
        actual = decoded(spark, run, name)
        found = difference(run, name, actual)
        assert found is None, f"{name}: {len(run.sent[name])} expected, {len(actual)} found\n{found}"
        in_windows = decoded(spark, run, name, WindowBounds(1 << 20))
        assert first_difference(actual, in_windows) is None, name
        if name == "test_decoding":
            for bounds in (DEFAULT_BOUNDS, WindowBounds(1 << 20)):
                assert first_difference(actual, decoded(spark, run, "callbacks", bounds)) is None


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("major", since(14))
def test_streams_are_the_walsenders(spark: SparkSession, major: int, seed: int, tmp_path: Path) -> None:
    check(spark, run_workload(major, seed, tmp_path, 120))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("major", since(14))
def test_prepared_transactions(spark: SparkSession, major: int, seed: int, tmp_path: Path) -> None:
    check(spark, run_workload(major, seed, tmp_path, 150, two_phase=True))


@pytest.mark.slow
@pytest.mark.parametrize("major", since(AT_ONCE_SINCE))
def test_streaming_at_once(spark: SparkSession, major: int, tmp_path: Path) -> None:
    check(spark, run_workload(major, 4, tmp_path, 40, AT_ONCE))


@pytest.mark.slow
@pytest.mark.parametrize("major", since(14))
def test_a_megabyte(spark: SparkSession, major: int, tmp_path: Path) -> None:
    run = run_workload(major, 5, tmp_path, 1500, ONE_MEGABYTE)
    assert any(data[:1] == b"S" for _, data in run.sent["pgoutput"])
    check(spark, run)


def test_another_session_streams_all_anew(spark: SparkSession, tmp_path: Path) -> None:
    run = run_workload(18, 6, tmp_path, 200, rolls_back=False)
    whole = replace(run, plugins={"whole": ("test_decoding", ())})
    said = decoded(spark, whole, "whole").to_pylist()
    request = request_of(run, "test_decoding")
    kept: list[KeptState] = []
    middle = sorted(message["lsn"] for message in said)[len(said) // 2]
    with decode(spark, replace(request, end=middle), keep=kept.append) as result:
        first = changes_by_xid(joined(result.tables()).to_pylist())
    anew = replace(kept[-1], state=kept[-1].state.in_new_session)
    with decode(spark, replace(request, start=None), kept=anew) as result:
        messages = joined(result.tables()).to_pylist()
    again, expected = changes_by_xid(messages), changes_by_xid(said)
    ended = {one["xid"] for one in messages if one["data"].startswith((b"committing", b"COMMIT"))}
    assert {xid: again[xid] for xid in ended} == {xid: expected[xid] for xid in ended}
    assert any(first[xid] for xid in ended)


def changes_by_xid(messages: Sequence[dict[str, Any]]) -> Counter[int]:
    """How many changes and truncates messages of test_decoding tell, by toplevel xid."""
    told = (b"table", b"streaming change", b"streaming truncate")
    return Counter(one["xid"] for one in messages if one["data"].startswith(told))
