"""Kernel for the commit times that plugins print."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import kernel
from headwater.rows._copy import copy
from headwater.rows._text_bytes import Bytes
from headwater.rows.text._datetime import write_timestamptz

LONGEST_STAMP = 96
"""Bytes that one stamp may need, with what stands around it."""

RANGE_TEXT = np.frombuffer(b"(timestamp out of range)", np.uint8).copy()


class Stamps(NamedTuple):
    """The commit times of t transactions as text, or nothing if they are not told.

    Attributes:
        start: int64[t+1] offsets into text.
        text: uint8[].
    """

    start: NDArray[np.int64]
    text: NDArray[np.uint8]


@kernel
def put_stamps(
    times: NDArray[np.int64],
    tz_at: NDArray[np.int64],
    tz_offset: NDArray[np.int32],
    cycle: bool,
    before: Bytes,
    after: Bytes,
    start: NDArray[np.int64],
    text: Bytes,
) -> None:
    """Write a stamp for each commit time.

    Args:
        times: int64[t] microseconds since 2000-01-01 00:00 UTC.
        tz_at: the session's time zone, as write_timestamptz takes it.
        tz_offset: likewise.
        cycle: likewise.
        before: uint8[] a few bytes that stand before each.
        after: uint8[] a few bytes that stand after each.
        start: int64[t+1] receives the stamps' offsets in text.
        text: uint8[t * LONGEST_STAMP] receives the stamps.
    """
    o = 0
    for t in range(len(times)):
        start[t] = o
        o = copy(before, 0, text, o, len(before))
        end = write_timestamptz(tz_at, tz_offset, cycle, times[t], text, o)
        o = end if end >= 0 else copy(RANGE_TEXT, 0, text, o, len(RANGE_TEXT))
        o = copy(after, 0, text, o, len(after))
    start[len(times)] = o
