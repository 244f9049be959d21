"""Timestamps with time zone as text outside the decode kernels: COMMIT lines, messages to the user.

PostgreSQL: ``timestamptz_to_str`` (``timestamp.c``), which prints in the session's zone and ISO style.
"""

from __future__ import annotations

import numpy as np

from headwater.errors import UsageError
from headwater.rows._text_datetime import MAX_TIMESTAMP_TEXT, write_timestamptz
from headwater.rows.session import SessionSettings


def timestamptz_text(usec: int, session: SessionSettings) -> str:
    """Text of a timestamp with time zone in the session's zone.

    Args:
        usec: microseconds since 2000-01-01 00:00 UTC.
        session: whose time zone to use.

    Raises:
        UsageError: the value is out of range.
    """
    zone = session.zone
    out = np.empty(MAX_TIMESTAMP_TEXT, dtype=np.uint8)
    end = write_timestamptz(zone.at, zone.offset, zone.cycle, usec, out, 0)
    if end < 0:
        raise UsageError(f"timestamp out of range: {usec} microseconds")
    return out[:end].tobytes().decode("ascii")
