"""Transactions in progress: the blocks that we say a server streams are those that it streams, byte for byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.demo.stream_comparison import joined
from headwater.jobs.engine import Engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pipeline.decode import RunSettings, decode
from headwater.slots.kept_state import KeptState
from oracle.streamed_runs import (
    AT_ONCE,
    AT_ONCE_SINCE,
    Run,
    Streams,
    check,
    decoded,
    pgoutput,
    request_of,
    run_live,
    since,
)
from oracle.streamed_workload import StreamedWorkload, statements
from oracle.streams import STREAMED_LIMIT, TWO_PHASE, TWO_PHASE_PGOUTPUT_SINCE, Options

pytestmark = pytest.mark.server

ONE_MEGABYTE: Options = (("logical_decoding_work_mem", "1MB"),)

TEST_DECODING: Options = (("stream-changes", "1"),)
SKIPPING: Options = (("stream-changes", "1"), ("skip-empty-xacts", "1"), ("include-timestamp", "1"))


def streams_of(major: int, two_phase: bool = False) -> Streams:
    """Return all streams that are compared on a major."""
    if two_phase:
        prepared = {f"pgoutput, {TWO_PHASE}": ("pgoutput", pgoutput(major, "pub_all", ("two_phase", "on")))}
        return {
            f"test_decoding, {TWO_PHASE}": ("test_decoding", TEST_DECODING),
            f"test_decoding, {TWO_PHASE}, no empty transactions": ("test_decoding", SKIPPING),
            **(prepared if major >= TWO_PHASE_PGOUTPUT_SINCE else {}),
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
    settings: Options = STREAMED_LIMIT,
    *,
    two_phase: bool = False,
    rolls_back: bool = True,
) -> Run:
    """Run a random workload, with a walsender for each stream."""

    def work(server: EmbeddedPostgres, catch_up: Callable[[], object]) -> None:
        StreamedWorkload(server.connect, seed, catch_up, prepares=two_phase, rolls_back=rolls_back).run(steps)

    return run_live(major, directory, statements(major), streams_of(major, two_phase), work, settings)


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("major", since(14, daily=(14,)))
def test_streams_are_the_walsenders(engine: Engine, major: int, seed: int, tmp_path: Path) -> None:
    check(engine, run_workload(major, seed, tmp_path, 120))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("major", since(14))
def test_prepared_transactions(engine: Engine, major: int, seed: int, tmp_path: Path) -> None:
    check(engine, run_workload(major, seed, tmp_path, 150, two_phase=True))


@pytest.mark.slow
@pytest.mark.parametrize("major", since(AT_ONCE_SINCE))
def test_streaming_at_once(engine: Engine, major: int, tmp_path: Path) -> None:
    check(engine, run_workload(major, 4, tmp_path, 40, AT_ONCE))


@pytest.mark.slow
@pytest.mark.parametrize("major", since(14))
def test_a_megabyte(engine: Engine, major: int, tmp_path: Path) -> None:
    run = run_workload(major, 5, tmp_path, 1500, ONE_MEGABYTE)
    assert any(data[:1] == b"S" for _, data in run.sent["pgoutput"])
    check(engine, run)


def test_another_session_streams_all_anew(engine: Engine, tmp_path: Path) -> None:
    run = run_workload(18, 6, tmp_path, 200, rolls_back=False)
    whole = replace(run, plugins={"whole": ("test_decoding", ())})
    at_once = decoded(engine, whole, "whole").to_pylist()
    request = request_of(run, "test_decoding")
    states: list[KeptState] = []
    middle = sorted(message["lsn"] for message in at_once)[len(at_once) // 2]
    with decode(engine, replace(request, end=middle), settings=RunSettings(keep=states.append)) as result:
        first = changes_by_xid(joined(result.tables()).to_pylist())
    anew = replace(states[-1], state=states[-1].state.in_new_session)
    with decode(engine, replace(request, start=None), kept_state=anew) as result:
        messages = joined(result.tables()).to_pylist()
    again, expected = changes_by_xid(messages), changes_by_xid(at_once)
    ended = {line["xid"] for line in messages if line["data"].startswith((b"committing", b"COMMIT"))}
    assert {xid: again[xid] for xid in ended} == {xid: expected[xid] for xid in ended}
    assert any(first[xid] for xid in ended)


def changes_by_xid(messages: Sequence[dict[str, Any]]) -> Counter[int]:
    """Count how many changes and truncates messages of test_decoding tell, by toplevel xid."""
    kinds = (b"table", b"streaming change", b"streaming truncate")
    return Counter(message["xid"] for message in messages if message["data"].startswith(kinds))


@pytest.mark.slow
@pytest.mark.parametrize("major", since(14, daily=()))
def test_partition_sent_as_its_root_in_later_windows(engine: Engine, major: int, tmp_path: Path) -> None:
    """14 converts its rows as was found out when the transaction in progress announced it, windows before."""

    def work(server: EmbeddedPostgres, catch_up: Callable[[], object]) -> None:
        with server.connect() as session, session.transaction():
            for low in range(0, 40_000, 8_000):
                rows = f"generate_series({low + 1}, {low + 8_000}) g"
                session.execute(f"INSERT INTO regional SELECT g, g % 2, repeat('p', 60) FROM {rows}".encode())
        catch_up()

    streams = {"pgoutput": ("pgoutput", pgoutput(major, "pub_root"))}
    check(engine, run_live(major, tmp_path, statements(major), streams, work))
