"""A log decoded as a fold: cut into windows anywhere, with the state as a file would hold it in between."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from oracle.cut_windows import FEWEST, MOST, check_calls, check_planner, check_slices, check_states, check_windows
from oracle.oracle import TAKEN_FROM
from oracle.streams import RANDOM_PGOUTPUT, UP_TO

if TYPE_CHECKING:
    from pathlib import Path

    from oracle.decoded_run import DecodedRun

pytestmark = [pytest.mark.server]
DAILY = {"test_decoding", UP_TO, "pgoutput, all", "pgoutput, lists"}
STREAMS = [
    name if name in DAILY else pytest.param(name, marks=pytest.mark.slow)
    for name in ("test_decoding", UP_TO, *RANDOM_PGOUTPUT)
]
STATES_OF = [pytest.param("test_decoding", marks=pytest.mark.slow), "pgoutput, lists"]


@pytest.mark.parametrize("name", STREAMS)
def test_windows_say_together_what_the_server_says(threaded_run: DecodedRun, name: str) -> None:
    """A window stops with the server's error if it has the commit that the server stops at; those before it do not."""
    windows = random.Random(f"windows {name}").randint(FEWEST, MOST)
    check_windows(threaded_run, threaded_run.run.streams[name], windows, windows)


@pytest.mark.parametrize("name", ["pgoutput, lists"])
def test_many_slices_say_together_what_the_server_says(threaded_run: DecodedRun, name: str) -> None:
    stream = threaded_run.run.streams[name]
    if stream.error is None:
        check_slices(threaded_run, stream, 2000)


@pytest.mark.parametrize("name", STATES_OF)
def test_a_state_is_the_same_value_whichever_way_one_got_there(threaded_run: DecodedRun, name: str) -> None:
    check_states(threaded_run, threaded_run.run.streams[name], MOST, MOST)


@pytest.mark.parametrize("name", STATES_OF)
def test_one_planner_of_all_windows_has_these_states(threaded_run: DecodedRun, name: str, tmp_path: Path) -> None:
    check_planner(threaded_run, threaded_run.run.streams[name], tmp_path)


@pytest.mark.parametrize("name", TAKEN_FROM)
def test_each_call_says_what_the_servers_call_says(threaded_run: DecodedRun, name: str) -> None:
    """Each is a session of its own, from where the one before it stood; an error moves nothing."""
    check_calls(threaded_run, name)
