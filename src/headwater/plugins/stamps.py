"""Commit times as test_decoding prints them (timestamptz_to_str, utils/adt/timestamp.c): ISO, in the session's zone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.plugins._stamps import LONGEST_STAMP, put_stamps
from headwater.plugins._test_decoding import Stamps
from headwater.rows.session import SessionSettings


def commit_stamps(times: NDArray[np.int64], session: SessionSettings) -> Stamps:
    """`` (at 2026-01-01 00:00:00.5+00)`` for each of t commit times (microseconds since 2000-01-01 UTC)."""
    zone = session.zone
    start = np.zeros(len(times) + 1, np.int64)
    text = np.empty(LONGEST_STAMP * len(times), np.uint8)
    put_stamps(times, zone.at, zone.offset, zone.cycle, start, text)
    return Stamps(start, text[: start[-1]])
