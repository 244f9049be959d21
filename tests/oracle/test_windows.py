"""A log decoded as a fold: cut into windows anywhere, with the state as a file would hold it in between."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headwater.demo.stream_comparison import joined
from headwater.errors import HeadwaterError
from headwater.flat_values import read_value
from headwater.pipeline.request import DecodeRequest
from headwater.pipeline.slot_moves import state_at
from headwater.reorder.schema_memory import NOTHING_IN_MIND
from headwater.reorder.state import State
from oracle.calls import cut, record_ends
from oracle.folding import Piece, differing, folded, one_window
from oracle.oracle import TAKEN_FROM
from oracle.streams import RANDOM_PGOUTPUT, UP_TO, Stream, options_of, plugin_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oracle.decoded_run import DecodedRun

pytestmark = [pytest.mark.server, pytest.mark.spark]
STREAMS = ["test_decoding", UP_TO, *RANDOM_PGOUTPUT]
FEWEST, MOST = 2, 40


@pytest.mark.parametrize("name", STREAMS)
def test_windows_say_together_what_the_server_says(threaded_run: DecodedRun, name: str) -> None:
    """Where the server stops with an error, the window stops with it that has the commit; those before it do not."""
    stream = threaded_run.run.streams[name]
    ends = _ends(threaded_run, stream, random.Random(f"windows {name}").randint(FEWEST, MOST))
    pieces, error = _until_it_stops(folded(_request(threaded_run, stream), ends))
    found = joined(piece.messages for piece in pieces)
    if stream.error is not None or error is not None:
        threaded_run.check_stop(stream, found if error is None else error)
    threaded_run.compare(stream, stream.messages, found)
    if stream.said_to is not None:
        assert len(pieces) == ends.index(stream.said_to) + 1


def _until_it_stops(pieces: Iterator[Piece]) -> tuple[list[Piece], HeadwaterError | None]:
    """Pieces before an error, and the error."""
    made: list[Piece] = []
    try:
        for piece in pieces:
            made.append(piece)
    except HeadwaterError as error:
        return made, error
    return made, None


@pytest.mark.parametrize("name", [pytest.param("test_decoding", marks=pytest.mark.slow), "pgoutput, lists"])
def test_a_state_is_the_same_value_whichever_way_one_got_there(threaded_run: DecodedRun, name: str) -> None:
    stream = threaded_run.run.streams[name]
    request, ends = _request(threaded_run, stream), _ends(threaded_run, stream, MOST)
    states = [piece.state for piece in folded(request, ends)]
    for number in random.Random(f"states {name}").sample(range(len(ends)), 3):
        at_once = one_window(replace(request, end=ends[number]), None, goes_on=True).state
        assert at_once == states[number], differing(at_once, states[number])


@pytest.mark.parametrize("name", TAKEN_FROM)
def test_each_call_says_what_the_servers_call_says(threaded_run: DecodedRun, name: str) -> None:
    """Each is a session of its own, from where the one before it stood; an error moves nothing."""
    calls = threaded_run.run.calls[name]
    request = replace(_request(threaded_run, threaded_run.run.streams[name]), end=None)
    state = state_at(request, None, calls[0].start)
    for number, call in enumerate(calls):
        asked = replace(request, start=call.start, end=call.end)
        stream = Stream(
            f"{name}, call {number}", plugin_of(name), options_of(name), call.start, call.end, (), None, None
        )
        if call.error is not None:
            with pytest.raises(HeadwaterError) as raised:
                one_window(asked, state)
            assert call.error.is_same(raised.value), (call.error, raised.value)
            continue
        piece = one_window(asked, state)
        threaded_run.compare(stream, call.messages, joined([piece.messages]))
        state = replace(read_value(State, memoryview(bytearray(piece.state))), memory=NOTHING_IN_MIND)
        assert state.lsn == call.confirmed
        again = one_window(asked, state)
        assert len(again.messages) == 0


def _request(decoded: DecodedRun, stream: Stream) -> DecodeRequest:
    run = decoded.run
    return DecodeRequest(
        wal=str(run.wal),
        catalog=str(run.backup),
        database=run.database,
        plugin=stream.plugin,
        options=stream.options,
        start=stream.start,
        end=stream.end,
        settings=stream.settings,
    )


def _ends(decoded: DecodedRun, stream: Stream, pieces: int) -> tuple[int, ...]:
    ends = record_ends(decoded.run.wal)
    start = state_at(_request(decoded, stream), None, stream.start or 0).lsn
    picked = cut(ends, start, stream.end or int(ends[-1]), pieces, pieces)
    return picked if stream.said_to is None else tuple(sorted({*picked, stream.said_to}))
