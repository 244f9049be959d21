"""A window of WAL decoded as a fold, in this process: piece by piece, with the state as bytes in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headwater.base.value_codec import read_value, value_bytes
from headwater.pipeline.requests.open_request import OpenRequest, open_request
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.scope import Scope
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.slices.message_files import message_batches, message_schema
from headwater.pipeline.slices.tentative_messages import Settlement
from headwater.pipeline.windows.index_job import index_in_threads
from headwater.pipeline.windows.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.pipeline.windows.windows import PlanWindows
from headwater.reorder.commits.state import State
from headwater.reorder.plan import Slice
from headwater.reorder.slices.cutting import cut_slices
from headwater.slots.kept_state import KeptState

SLICE_BYTES = 1 << 20


@dataclass(frozen=True)
class Piece:
    """One piece: its messages, the state behind it as bytes, and in how many slices it was decoded."""

    messages: pa.Table
    state: bytes
    slices: int

    @property
    def value(self) -> State:
        """The state, as what reads a file has it."""
        return read_value(State, memoryview(bytearray(self.state)))


def folded(request: DecodeRequest, ends: Sequence[int]) -> Iterator[Piece]:
    """Decode the windows that end at ``upto_lsn`` values, in one session; each begins with what a file would hold."""
    state: State | None = None
    settlement = Settlement()
    for number, end in enumerate(ends):
        goes_on = number < len(ends) - 1
        (piece,) = _pieces(replace(request, end=end), state, goes_on, DEFAULT_BOUNDS, SLICE_BYTES, settlement)
        state = piece.value
        yield piece


def one_window(
    request: DecodeRequest, state: State | None, goes_on: bool = False, slice_bytes: int = SLICE_BYTES
) -> Piece:
    """Decode up to the request's end, from a state or from the catalog on."""
    (piece,) = _pieces(request, state, goes_on, DEFAULT_BOUNDS, slice_bytes, Settlement())
    return piece


def windows_in_a_row(request: DecodeRequest, state: State | None) -> Iterator[Piece]:
    """Decode the windows of one planner, as small as it makes them; the session ends with the last one."""
    return _pieces(request, state, False, WindowBounds(1), SLICE_BYTES, Settlement())


def _pieces(
    request: DecodeRequest,
    state: State | None,
    goes_on: bool,
    bounds: WindowBounds,
    slice_bytes: int,
    settlement: Settlement,
) -> Iterator[Piece]:
    opened = open_request(request, kept_state=None if state is None else KeptState(state))
    scope = Scope(opened.directory.segment_size, request.start or 0, request.tables)
    windows = PlanWindows(opened, scope, lambda tasks: index_in_threads(tasks, 2), 2, bounds=bounds, goes_on=goes_on)
    for window in windows:
        slices = cut_slices(window.assembly.plan, slice_bytes)
        messages = pa.concat_tables(_tables(opened, slices, settlement))
        yield Piece(messages, value_bytes(windows.state_behind(window.behind)), len(slices))


def _tables(opened: OpenRequest, slices: Sequence[Slice], settlement: Settlement) -> Iterator[pa.Table]:
    decoder = SliceDecoder(opened.directory, opened.plugin, opened.session)
    yield message_schema(opened.is_text).empty_table()
    for part in slices:
        for batch in message_batches(settlement.settled(decoder.messages(part)), opened.is_text):
            yield pa.Table.from_batches([batch])


def differing(first: bytes, other: bytes) -> list[str]:
    """Name what differs between two states, for people."""
    states = (read_value(State, memoryview(bytearray(data))) for data in (first, other))
    return list(_differing("state", *states))


def _differing(name: str, first: object, other: object) -> Iterator[str]:
    if type(first) is not type(other):
        yield f"{name}: {first!r} and {other!r}"
    elif hasattr(first, "__dataclass_fields__"):
        for field in first.__dataclass_fields__:
            yield from _differing(f"{name}.{field}", getattr(first, field), getattr(other, field))
    elif isinstance(first, tuple) and isinstance(other, tuple):
        if len(first) != len(other):
            yield f"{name}: {len(first)} and {len(other)} elements"
        for number, (a, b) in enumerate(zip(first, other, strict=False)):
            yield from _differing(f"{name}[{number}]", a, b)
    elif not np.array_equal(np.asarray(first, object), np.asarray(other, object)):
        yield f"{name}: {str(first)[:200]} and {str(other)[:200]}"
