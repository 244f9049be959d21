"""Row filters and blocks of transactions in progress: what is let pass, and announced before it, is as on the server.

All is decoded in this process, in small slices, so that announcements depend on other slices; and in windows that end
anywhere.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from arrow_types import values_of
from headwater.demo.stream_comparison import first_difference, joined
from headwater.errors import PluginError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pipeline.slot_moves import state_at
from headwater.reorder.commits.state import State
from oracle import scenario_streamed_filters
from oracle.calls import cut, record_ends
from oracle.folding import folded, one_window
from oracle.script import ScriptRun
from oracle.streamed_runs import (
    AT_ONCE,
    AT_ONCE_SINCE,
    Run,
    Streams,
    difference,
    pgoutput,
    request_of,
    run_live,
    since,
)
from oracle.streamed_workload import SESSIONS, StreamedWorkload, statements
from oracle.streams import STREAMED_LIMIT, TWO_PHASE, Options

pytestmark = pytest.mark.server

SINCE = 15
SMALL_SLICES = 1 << 12
WINDOWS, MORE_WINDOWS = (7,), (3, 12)
# The server takes invalidations of others at once, also while it decodes what they did later.
CAUGHT_UP_BEFORE = ("ROLLBACK", "ALTER", "TRUNCATE")


def filtered_streams(major: int, two_phase: bool = False) -> Streams:
    """Return the streams of publications with row filters."""
    rows = ",".join(f"pub_rows{n}" for n in range(SESSIONS))
    more = (("two_phase", "on"),) if two_phase else ()
    second: Options = (("proto_version", "2"), ("publication_names", f"{rows},pub_rooted"), ("streaming", "on"))
    kind = f", {TWO_PHASE}" if two_phase else ""
    return {
        f"filtered{kind}": ("pgoutput", pgoutput(major, f"{rows},pub_rooted", *more)),
        f"joined, binary{kind}": ("pgoutput", pgoutput(major, f"{rows},pub_inserts", ("binary", "true"), *more)),
        f"some filtered{kind}": ("pgoutput", pgoutput(major, "pub_some,pub_rows1,pub_rooted", *more)),
        **({} if two_phase else {"protocol 2": ("pgoutput", second)}),
    }


def run_workload(
    major: int, seed: int, directory: Path, steps: int, settings: Options = STREAMED_LIMIT, *, two_phase: bool = False
) -> Run:
    """Run a random workload of publications with row filters, which are altered meanwhile."""

    def work(server: EmbeddedPostgres, catch_up: Callable[[], object]) -> None:
        StreamedWorkload(server.connect, seed, catch_up, prepares=two_phase, filters=True).run(steps)

    streams = filtered_streams(major, two_phase)
    return run_live(major, directory, statements(major, filters=True), streams, work, settings)


def check(run: Run, windows: Sequence[int] = WINDOWS, slice_bytes: int = SMALL_SLICES) -> None:
    """Check that all streams are what was sent, in one window and in several, and what windows leave is the same."""
    for name in run.plugins:
        request = request_of(run, name)
        actual = joined([one_window(request, None, slice_bytes=slice_bytes).messages])
        mismatch = difference(run, name, actual)
        assert mismatch is None, f"{name}: {len(run.sent[name])} expected, {len(actual)} found\n{mismatch}"
        lsns = record_ends(run.wal)
        for count in windows:
            ends = cut(lsns, state_at(request, None, run.start).lsn, int(lsns[-1]), count, count)
            pieces = list(folded(request, ends))
            assert first_difference(actual, joined(piece.messages for piece in pieces)) is None, (name, ends)
            number = random.Random(count).randrange(count)
            at_once = one_window(replace(request, end=ends[number]), None, goes_on=True)
            assert in_session(at_once.value) == in_session(pieces[number].value)


def in_session(state: State) -> tuple[object, ...]:
    """Return what a state says of announcements; how tentative ones are called depends on how fine the index was."""
    (output,) = state.outputs
    announced = [announcement._replace(number=min(announcement.number, 1)) for announcement in output.memory.announced]
    return announced, [
        announcement._replace(number=min(announcement.number, 1)) for announcement in output.memory.streamed
    ]


@pytest.mark.parametrize("major", since(SINCE))
def test_rules(major: int, tmp_path: Path) -> None:
    def work(server: EmbeddedPostgres, catch_up: Callable[[], object]) -> None:
        script = ScriptRun(server, "public")
        for line in scenario_streamed_filters.lines():
            if any(word in line for word in CAUGHT_UP_BEFORE):
                catch_up()
            script.run(line)
        script.close()

    streams = {
        "rows": ("pgoutput", pgoutput(major, "pub_rows")),
        "joined": ("pgoutput", pgoutput(major, "pub_rows,pub_more", ("binary", "true"))),
        "at commit": ("pgoutput", (("proto_version", "1"), ("publication_names", "pub_rows"))),
    }
    run = run_live(major, tmp_path, scenario_streamed_filters.statements(), streams, work)
    assert any(data[:1] == b"S" and after == b"E" for (_, data), (_, after) in pairwise(run.sent["rows"]))
    check(run, slice_bytes=1)
    check_own_publication(run)


def check_own_publication(run: Run) -> None:
    """Check that one's own publication streams what passes in the blocks of all else, if blocks may be empty."""
    run.plugins["own"] = "test_decoding", (("stream-changes", "1"),)
    request = replace(request_of(run, "own"), publish=("t WHERE (a > 10)",))
    ours = Counter(values_of(one_window(request, None).messages.column("data")))
    every = Counter(values_of(one_window(request_of(run, "own"), None).messages.column("data")))
    assert all(count == every[text] for text, count in ours.items() if text.startswith(("opening", "closing")))
    assert 0 < sum(count for text, count in ours.items() if text.startswith("streaming change")) < 40
    skipping = replace(request, options=(("stream-changes", "1"), ("skip-empty-xacts", "1")))
    with pytest.raises(PluginError, match="cannot leave out streamed blocks") as refused:
        one_window(skipping, None)
    assert refused.value.lsn is not None


@pytest.mark.parametrize("major", since(AT_ONCE_SINCE))
def test_streaming_at_once(major: int, tmp_path: Path) -> None:
    """Every change has a block of its own, also the rows of one record; they are more than a task makes room for."""
    check(run_workload(major, 4, tmp_path, 30, AT_ONCE))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("major", since(SINCE))
def test_random_workload(major: int, seed: int, tmp_path: Path) -> None:
    check(run_workload(major, seed, tmp_path, 400), MORE_WINDOWS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4, 5])
@pytest.mark.parametrize("major", since(SINCE))
def test_prepared_transactions(major: int, seed: int, tmp_path: Path) -> None:
    check(run_workload(major, seed, tmp_path, 400, two_phase=True), MORE_WINDOWS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [6, 7])
@pytest.mark.parametrize("major", since(AT_ONCE_SINCE))
def test_more_at_once(major: int, seed: int, tmp_path: Path) -> None:
    check(run_workload(major, seed, tmp_path, 80, AT_ONCE), MORE_WINDOWS)
