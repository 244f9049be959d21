"""The time, as PostgreSQL counts it."""

from __future__ import annotations

import time

_EPOCH = 946_684_800_000_000
"""Microseconds from 1970 to 2000."""


def now() -> int:
    """Return the time: microseconds since 2000-01-01 UTC."""
    return time.time_ns() // 1000 - _EPOCH
