"""The oracle rung: what a real server's plugins say of its WAL, and what Headwater says, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest

from headwater.demo.stream_comparison import first_difference
from oracle.cut_windows import check_calls
from oracle.oracle import SCENARIO_PREFIX, TAKEN_AMID
from oracle.scenarios import KNOWN_GAPS
from oracle.streams import OTHER_SETTINGS, PGOUTPUT, TEST_DECODING

if TYPE_CHECKING:
    import pyarrow as pa

    from oracle.decoded_run import DecodedRun

pytestmark = [pytest.mark.server, pytest.mark.spark]
MARKED_STREAMS = ["test_decoding", "test_decoding, more", "pgoutput, all", "pgoutput, lists", "pgoutput, binary"]


@pytest.mark.parametrize("name", MARKED_STREAMS)
def test_scenario(scenario_run: DecodedRun, scenario: str, name: str) -> None:
    stream = scenario_run.run.streams[name]
    expected, actual = (_part(table, scenario) for table in (stream.messages, scenario_run.decoded(stream)))
    streams, reason, since = KNOWN_GAPS.get(scenario, (frozenset(), "", 0))
    if name in streams and scenario_run.run.major >= since:
        assert first_difference(expected, actual) is not None, "the gap is closed: take it off the list"
        pytest.xfail(reason)
    scenario_run.compare(stream, expected, actual)


@pytest.mark.parametrize("name", [*TEST_DECODING, *PGOUTPUT, OTHER_SETTINGS])
def test_scenario_alone(alone_run: DecodedRun, name: str) -> None:
    alone_run.check(alone_run.run.streams[name])


@pytest.mark.parametrize("name", TAKEN_AMID)
def test_slots_asked_amid_a_scenario(alone_run: DecodedRun, name: str) -> None:
    check_calls(alone_run, name)


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
