"""The oracle rung: what a real server's plugins say of its WAL, and what Headwater says, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest

from headwater.demo.stream_comparison import first_difference
from oracle.oracle import PGOUTPUT, SCENARIO_PREFIX, TEST_DECODING
from oracle.scenarios import KNOWN_GAPS

if TYPE_CHECKING:
    import pyarrow as pa

    from oracle.conftest import DecodedRun

pytestmark = [pytest.mark.server, pytest.mark.spark]
STREAMS = [*TEST_DECODING, *PGOUTPUT, "test_decoding, other settings"]
THREADED_STREAMS = ["test_decoding", "pgoutput, all", "pgoutput, lists"]
MARKED_STREAMS = ["test_decoding", "test_decoding, more", "pgoutput, all", "pgoutput, lists"]


@pytest.mark.parametrize("name", [*STREAMS, "test_decoding, up to"])
def test_random_workload(random_run: DecodedRun, name: str) -> None:
    stream = random_run.run.streams[name]
    random_run.check(stream, stream.messages, random_run.decoded(stream))


def test_random_workload_is_rich(random_run: DecodedRun) -> None:
    messages = random_run.run.streams["test_decoding"].messages
    assert len(messages) > 2000
    assert sum(random_run.run.errors.values()) < len(messages) / 10
    for word in (b"TRUNCATE", b"DELETE", b"unchanged-toast-datum", b"message: transactional: 0"):
        assert pc.any(pc.match_substring(messages.column("data"), word)).as_py(), word


@pytest.mark.parametrize("name", THREADED_STREAMS)
def test_sessions_in_threads(threaded_run: DecodedRun, name: str) -> None:
    stream = threaded_run.run.streams[name]
    threaded_run.check(stream, stream.messages, threaded_run.decoded(stream))
    assert len(stream.messages) > (500 if name == "test_decoding" else 0)


@pytest.mark.parametrize("name", MARKED_STREAMS)
def test_scenario(scenario_run: DecodedRun, scenario: str, name: str) -> None:
    stream = scenario_run.run.streams[name]
    expected, actual = (_part(table, scenario) for table in (stream.messages, scenario_run.decoded(stream)))
    if scenario in KNOWN_GAPS and name != "pgoutput, lists":
        assert first_difference(expected, actual) is not None, "the gap is closed: take it off the list"
        pytest.xfail(KNOWN_GAPS[scenario])
    scenario_run.check(stream, expected, actual)


@pytest.mark.parametrize("name", STREAMS)
def test_scenario_alone(alone_run: DecodedRun, name: str) -> None:
    stream = alone_run.run.streams[name]
    alone_run.check(stream, stream.messages, alone_run.decoded(stream))


def _part(messages: pa.Table, scenario: str) -> pa.Table:
    """Messages from a scenario's mark to the next mark."""
    is_mark = pc.match_substring(messages.column("data"), SCENARIO_PREFIX.encode())
    marks = pc.indices_nonzero(is_mark).to_pylist()
    names = [messages.column("data")[at].as_py() for at in marks]
    at = next((i for i, data in enumerate(names) if data.endswith((b":" + scenario.encode(), scenario.encode()))), None)
    if at is None:
        return messages.slice(0, 0)
    end = marks[at + 1] if at + 1 < len(marks) else len(messages)
    return messages.slice(marks[at], end - marks[at])
