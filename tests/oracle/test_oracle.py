"""The oracle rung: what a real server's plugins say of its WAL, and what Headwater says, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headwater.demo.stream_comparison import first_difference
from headwater.pg.version import version_named
from oracle.conformance import COMPARED
from oracle.cut_windows import check_calls
from oracle.known_gaps import KNOWN_GAPS, older_minor_differs
from oracle.oracle import TAKEN_AMID
from oracle.scenario_marks import part
from oracle.streams import (
    NO_ORIGIN,
    OTHER_SETTINGS,
    PGOUTPUT,
    TAKEN_TWO_PHASE,
    TEST_DECODING,
    TWO_PHASE_PGOUTPUT,
    TWO_PHASE_TEST_DECODING,
)

if TYPE_CHECKING:
    from oracle.decoded_run import DecodedRun

pytestmark = [pytest.mark.server]
MARKED_STREAMS = [
    "test_decoding",
    "test_decoding, more",
    "pgoutput, all",
    "pgoutput, lists",
    "pgoutput, binary",
    NO_ORIGIN,
    *TWO_PHASE_TEST_DECODING,
    *TWO_PHASE_PGOUTPUT,
]
Note = Callable[[str, object], None]


@pytest.mark.parametrize("name", MARKED_STREAMS)
def test_scenario(scenario_run: DecodedRun, scenario: str, name: str, record_property: Note) -> None:
    stream = scenario_run.run.streams[name]
    expected, actual = (part(table, scenario) for table in (stream.messages, scenario_run.decoded(stream)))
    _note(record_property, scenario_run, scenario, name, len(expected))
    gap = KNOWN_GAPS.get(scenario)
    if gap is not None and gap.is_of(version_named(scenario_run.run.server_version, scenario_run.run.major), name):
        assert first_difference(expected, actual) is not None, "the gap is closed: take it off the list"
        pytest.xfail(gap.reason)
    older = older_minor_differs(scenario, scenario_run.run.server_version)
    if older is not None and first_difference(expected, actual) is not None:
        pytest.xfail(older)
    scenario_run.compare(stream, expected, actual)


@pytest.mark.parametrize("name", ["test_decoding", TAKEN_TWO_PHASE[0]])
def test_plugin_of_callbacks(scenario_run: DecodedRun, name: str) -> None:
    """The same events in the same order as the plugin has that renders slices."""
    stream = scenario_run.run.streams[name]
    scenario_run.compare(stream, scenario_run.decoded(stream), scenario_run.by_callbacks(stream))


@pytest.mark.parametrize(
    "name", [*TEST_DECODING, *PGOUTPUT, NO_ORIGIN, OTHER_SETTINGS, *TWO_PHASE_TEST_DECODING, *TWO_PHASE_PGOUTPUT]
)
def test_scenario_alone(alone_run: DecodedRun, alone: str, name: str, record_property: Note) -> None:
    stream = alone_run.run.streams[name]
    _note(record_property, alone_run, alone, name, len(stream.messages))
    alone_run.check(stream)


@pytest.mark.parametrize("name", TAKEN_AMID)
def test_slots_asked_amid_a_scenario(alone_run: DecodedRun, alone: str, name: str, record_property: Note) -> None:
    messages = sum(len(call.messages) for call in alone_run.run.calls[name])
    _note(record_property, alone_run, alone, f"{name}, call by call", messages)
    check_calls(alone_run, name)


def _note(record_property: Note, decoded: DecodedRun, scenario: str, stream: str, messages: int) -> None:
    """Note what is compared, for the page of conformance."""
    record_property(COMPARED, [decoded.run.major, decoded.run.server_version, scenario, stream, messages])
