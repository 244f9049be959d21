"""A stream of a server's run in windows: cut at random ends of records, by segments, or by the calls of a slot.

What is checked is what they say together, and the states at their boundaries.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.demo.stream_comparison import joined
from headwater.errors import HeadwaterError
from headwater.pipeline.slot_moves import state_at
from headwater.reorder.announced_schemas import NOTHING_REMEMBERED
from headwater.reorder.commits.state import State
from headwater.slots.kept_state import KeptState, find_state, keep_state
from oracle.calls import cut, record_ends
from oracle.decoded_run import DecodedRun
from oracle.folding import Piece, differing, folded, one_window, windows_in_a_row
from oracle.streams import Stream, options_of, plugin_of

FEWEST, MOST = 2, 40
"""Windows of a stream."""


def window_ends(decoded: DecodedRun, stream: Stream, windows: int, seed: int) -> tuple[int, ...]:
    """Choose where that many windows end; and one more, where the commit comes next that the server's plugin stops at.

    Args:
        decoded: the run.
        stream: one of its.
        windows: how many.
        seed: decides where.
    """
    ends = record_ends(decoded.run.wal)
    start = state_at(decoded.request(stream), None, stream.start).lsn
    picked = cut(ends, start, stream.end or int(ends[-1]), windows, seed)
    assert len(picked) == windows
    return picked if stream.said_to is None else tuple(sorted({*picked, stream.said_to}))


def check_windows(decoded: DecodedRun, stream: Stream, windows: int, seed: int) -> None:
    """Fail unless windows say together what the server says.

    Where the server stops with an error, the window stops with it that has the commit; those before it do not.

    Args:
        decoded: the run.
        stream: one of its.
        windows: how many.
        seed: decides where they end.
    """
    ends = window_ends(decoded, stream, windows, seed)
    pieces, error = _until_it_stops(folded(decoded.request(stream), ends))
    actual = joined(piece.messages for piece in pieces)
    if stream.error is not None or error is not None:
        decoded.check_stop(stream, actual if error is None else error)
    decoded.compare(stream, stream.messages, actual)
    if stream.error is None:
        assert len(pieces) == len(ends) == windows
    elif stream.said_to is not None:
        assert len(pieces) == ends.index(stream.said_to) + 1
    reached = [piece.value.lsn for piece in pieces if piece is not pieces[-1] or error is not None]
    assert reached == list(ends[: len(reached)])


def check_slices(decoded: DecodedRun, stream: Stream, slice_bytes: int) -> None:
    """Fail unless many slices of one window say together what the server says.

    Args:
        decoded: the run.
        stream: one of its, without an error.
        slice_bytes: bytes of WAL that a slice should hold.
    """
    piece = one_window(decoded.request(stream), None, slice_bytes=slice_bytes)
    assert piece.slices > 10
    decoded.compare(stream, stream.messages, joined([piece.messages]))


def check_states(decoded: DecodedRun, stream: Stream, windows: int, seed: int) -> list[State]:
    """Fail unless the states between windows are those of one window each; gives them.

    Args:
        decoded: the run.
        stream: one of its.
        windows: how many.
        seed: decides where they end, and which states are looked at.
    """
    request, ends = decoded.request(stream), window_ends(decoded, stream, windows, seed)
    pieces = list(folded(request, ends))
    for number in random.Random(f"states {seed}").sample(range(len(ends)), 3):
        at_once = one_window(replace(request, end=ends[number]), None, goes_on=True).state
        assert at_once == pieces[number].state, differing(at_once, pieces[number].state)
    return [piece.value for piece in pieces]


def check_planner(decoded: DecodedRun, stream: Stream, directory: Path) -> None:
    """Fail unless one planner that goes through all segments says the same and has the states of one window each.

    It goes on in memory from window to window, as the command's does; from each of its states in a file, too.

    Args:
        decoded: the run.
        stream: one of its, without an error.
        directory: for states.
    """
    request = decoded.request(stream)
    pieces = list(windows_in_a_row(request, None))
    assert len(pieces) > 1
    decoded.compare(stream, stream.messages, joined(piece.messages for piece in pieces))
    inner, last = pieces[:-1], pieces[-1]
    rng = random.Random(f"states {stream.name}")
    for piece in rng.sample(inner, min(6, len(inner))):
        at_once = one_window(replace(request, end=piece.value.lsn), None, goes_on=True).state
        assert at_once == piece.state, differing(at_once, piece.state)
    at_once = one_window(request, None).state
    assert at_once == last.state, differing(at_once, last.state)
    for piece in inner:
        keep_state(directory, KeptState(piece.value))
    for number in rng.sample(range(len(inner)), min(3, len(inner))):
        again = list(windows_in_a_row(request, find_state(directory, inner[number].value.lsn).state))
        assert [window.state for window in again] == [window.state for window in pieces[number + 1 :]]


def check_calls(decoded: DecodedRun, name: str) -> None:
    """Fail unless each call says what the server's call says, and one more nothing.

    Each is a session of its own, from where the one before it stood; an error moves nothing.

    Args:
        decoded: the run.
        name: of a stream that the server's slots were asked for piece by piece.
    """
    calls = decoded.run.calls[name]
    request = replace(decoded.request(decoded.run.streams[name]), end=None)
    state = state_at(request, None, calls[0].start)
    for number, call in enumerate(calls):
        asked = replace(request, start=call.start, end=call.end)
        if call.start < state.lsn:
            # A crash has set the slot back to what was on disk of it.
            state = state_at(request, None, call.start)
        stream = Stream(
            f"{name}, call {number}", plugin_of(name), options_of(name), call.start, call.end, (), call.messages
        )
        if call.error is not None:
            with pytest.raises(HeadwaterError) as raised:
                one_window(asked, state)
            assert call.error.is_same(raised.value), (call.error, raised.value)
            continue
        piece = one_window(asked, state)
        decoded.compare(stream, call.messages, joined([piece.messages]))
        state = replace(
            piece.value, outputs=tuple(replace(output, memory=NOTHING_REMEMBERED) for output in piece.value.outputs)
        )
        assert state.lsn == call.confirmed
        again = one_window(asked, state)
        assert len(again.messages) == 0


def _until_it_stops(pieces: Iterator[Piece]) -> tuple[list[Piece], HeadwaterError | None]:
    """Return the pieces before an error, and the error."""
    made: list[Piece] = []
    try:
        for piece in pieces:
            made.append(piece)
    except HeadwaterError as error:
        return made, error
    return made, None
