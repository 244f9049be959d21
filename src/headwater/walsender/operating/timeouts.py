"""Timeouts that a client sets: their values, and what becomes of a session that is idle for too long.

PostgreSQL: parse_int (guc.c), ProcessInterrupts (postgres.c).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwater.errors import SessionError
from headwater.pg.sqlstates import (
    IDLE_IN_TRANSACTION_TIMEOUT,
    IDLE_SESSION_TIMEOUT,
    INVALID_PARAMETER_VALUE,
    TRANSACTION_TIMEOUT,
)
from headwater.pg.version import Version

MOST_MILLISECONDS = 2**31 - 1
TIMEOUTS = frozenset(
    (
        *("wal_sender_timeout", "statement_timeout", "lock_timeout", "transaction_timeout"),
        *("idle_session_timeout", "idle_in_transaction_session_timeout"),
    )
)
"""Settings that are a time, of which 0 is none."""

_UNITS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000, "ms": 1}
_TIME = re.compile(r"\s*([-+]?(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?))\s*(\w*)\s*")
_HINT = 'Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".'


def parse_timeout(name: str, text: str, version: Version) -> int:
    """Return the milliseconds that a setting's value means.

    Raises:
        SessionError: it is no time, or none that can be.
    """
    match = _TIME.fullmatch(text)
    units = {**_UNITS, "us": 0.001, "": 1}
    if match is None or match[2] not in units:
        hint = None if match is None else _HINT
        raise SessionError(
            f'invalid value for parameter "{name}": "{text}"', sqlstate=INVALID_PARAMETER_VALUE, hint=hint
        )
    try:
        number = float(int(match[1], 16)) if "x" in match[1].lower() else float(match[1])
        value = round(number * units[match[2]])
    except OverflowError:
        value = 2**63
    if abs(value) > 2**31 - 1:
        raise SessionError(
            f'invalid value for parameter "{name}": "{text}"',
            sqlstate=INVALID_PARAMETER_VALUE,
            hint="Value exceeds integer range.",
        )
    if value < 0:
        unit = " ms" if version.quotes_setting_names else ""
        most = f"0{unit} .. {MOST_MILLISECONDS}{unit}"
        raise SessionError(
            f'{value} ms is outside the valid range for parameter "{name}" ({most})', sqlstate=INVALID_PARAMETER_VALUE
        )
    return value


def shown_timeout(milliseconds: int) -> str:
    """Show milliseconds in the largest unit that they are a multiple of, as SHOW does."""
    for unit, size in _UNITS.items():
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return "0"


@dataclass(frozen=True)
class IdleLimit:
    """The limit of waiting for a client's next message.

    Attributes:
        seconds: how long; error: the end of the session.
    """

    seconds: float
    error: SessionError


def idle_limit(milliseconds: dict[str, int], transaction_seconds: float | None) -> IdleLimit | None:
    """Return the limit of a session that waits for its client; None without one.

    Args:
        milliseconds: of timeouts that are set, by name.
        transaction_seconds: since the transaction began; None outside of one.
    """
    if transaction_seconds is None:
        idle = milliseconds.get("idle_session_timeout", 0)
        return _limit(idle / 1000, "idle-session", IDLE_SESSION_TIMEOUT) if idle else None
    limits = []
    if idle := milliseconds.get("idle_in_transaction_session_timeout", 0):
        limits.append(_limit(idle / 1000, "idle-in-transaction", IDLE_IN_TRANSACTION_TIMEOUT))
    if whole := milliseconds.get("transaction_timeout", 0):
        left = max(0.0, whole / 1000 - transaction_seconds)
        limits.append(_limit(left, "transaction", TRANSACTION_TIMEOUT))
    return min(limits, key=lambda limit: limit.seconds, default=None)


def _limit(seconds: float, name: str, sqlstate: str) -> IdleLimit:
    return IdleLimit(seconds, SessionError(f"terminating connection due to {name} timeout", sqlstate=sqlstate))
