"""Commit times as plugins print them (timestamptz_to_str, utils/adt/timestamp.c): ISO, in the session's zone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.plugins._stamps import LONGEST_STAMP, Stamps, put_stamps
from headwater.rows.session import SessionSettings


def commit_stamps(
    times: NDArray[np.int64], session: SessionSettings, before: bytes = b"", after: bytes = b""
) -> Stamps:
    """Print ``2026-01-01 00:00:00.5+00`` for each of t commit times.

    Args:
        times: int64[t] microseconds since 2000-01-01 UTC.
        session: whose time zone counts.
        before, after: a few bytes that stand around each.
    """
    zone = session.zone
    start = np.zeros(len(times) + 1, np.int64)
    text = np.empty(LONGEST_STAMP * len(times), np.uint8)
    left, right = (np.frombuffer(bytearray(part), np.uint8) for part in (before, after))
    put_stamps(times, zone.at, zone.offset, zone.cycle, left, right, start, text)
    return Stamps(start, text[: start[-1]])


def no_stamps(count: int) -> Stamps:
    """Return stamps of nothing, for so many transactions."""
    return Stamps(np.zeros(count + 1, np.int64), np.zeros(0, np.uint8))
