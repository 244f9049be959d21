"""Random workloads: what a server says and holds after many sessions wrote at once, and what Headwater says."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pytest

from headwater.jobs.engine import Engine
from oracle.decoded_run import DecodedRun
from oracle.option_matrix import NAME
from oracle.oracle import DRAWN, TAKEN_FROM
from oracle.row_frames import RowFrames
from oracle.streams import OTHER_SETTINGS, RANDOM_PGOUTPUT, TEST_DECODING, UP_TO, Stream, options_of, plugin_of

pytestmark = [pytest.mark.server, pytest.mark.spark]
STREAMS = [*TEST_DECODING, *RANDOM_PGOUTPUT, OTHER_SETTINGS, UP_TO]
DRAWN_STREAMS = [NAME.format(number) for number in range(DRAWN)]
IN_ONE_THREAD_ONLY = {"pgoutput, some", "pgoutput, binary", "pgoutput, lists"}
THREADED_STREAMS = [
    "test_decoding",
    UP_TO,
    *(n for n in RANDOM_PGOUTPUT if n not in IN_ONE_THREAD_ONLY),
    *DRAWN_STREAMS,
]


@pytest.mark.parametrize("name", THREADED_STREAMS)
def test_sessions_in_threads(threaded_run: DecodedRun, name: str) -> None:
    threaded_run.check(threaded_run.run.streams[name])


def test_a_plugin_of_callbacks(threaded_run: DecodedRun) -> None:
    stream = threaded_run.run.streams["test_decoding"]
    threaded_run.compare(stream, stream.messages, threaded_run.by_callbacks(stream))


@pytest.mark.parametrize("name", STREAMS)
def test_sessions_in_one_thread(random_run: DecodedRun, name: str) -> None:
    random_run.check(random_run.run.streams[name])


@pytest.mark.parametrize("name", STREAMS)
def test_another_engine_says_the_same(engine: Engine, threaded_run: DecodedRun, name: str) -> None:
    """Messages that Spark has decoded, this process decodes, too, byte for byte."""
    here = DecodedRun(engine, threaded_run.run)
    here.check(threaded_run.run.streams[name])


@pytest.mark.parametrize("name", TAKEN_FROM)
def test_slot_taken_from_piece_by_piece(threaded_run: DecodedRun, name: str) -> None:
    """Each call of the server is a session that begins where the slot stands."""
    calls = threaded_run.run.calls[name]
    for number, call in enumerate(calls):
        shown = f"{name}, call {number}"
        stream = Stream(shown, plugin_of(name), options_of(name), call.start, call.end, (), call.messages, call.error)
        threaded_run.check(stream)
    assert sum(len(call.messages) > 0 for call in calls) > 1


def test_images_make_what_tables_hold(spark: Any, threaded_run: DecodedRun) -> None:
    differences = RowFrames(spark, threaded_run.run).imaged()
    assert not {name: lines[:5] for name, lines in differences.items() if lines}, threaded_run.where_kept()
    assert len(differences) > 12


def test_typed_rows_make_what_tables_hold(spark: Any, threaded_run: DecodedRun) -> None:
    differences = RowFrames(spark, threaded_run.run).typed(2)
    assert not {name: lines[:5] for name, lines in differences.items() if lines}, threaded_run.where_kept()
    assert len(differences) >= 2


def test_sessions_in_threads_are_rich(threaded_run: DecodedRun) -> None:
    _check_rich(threaded_run, 800)


def test_sessions_in_one_thread_are_rich(random_run: DecodedRun) -> None:
    _check_rich(random_run, 2000)


def _check_rich(decoded: DecodedRun, count: int) -> None:
    messages = decoded.run.streams["test_decoding"].messages
    assert len(messages) > count
    assert sum(decoded.run.errors.values()) < len(messages) / 5
    for word in ("TRUNCATE", "DELETE", "unchanged-toast-datum", "message: transactional: 0"):
        assert pc.any(pc.match_substring(messages.column("data"), word)).as_py(), word
