"""Sizes and spans of time as users write them: a whole number and a unit, as in PostgreSQL's configuration."""

from __future__ import annotations

import re

BYTES = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_QUANTITY = re.compile(r"(\d+)\s*([A-Za-z]+)")


def bytes_of(text: str) -> int | None:
    """Return the bytes that a text such as ``10GB`` means; None if it is no size."""
    return _parsed(text, BYTES)


def seconds_of(text: str) -> int | None:
    """Return the seconds that a text such as ``7d`` means; None if it is no span of time."""
    return _parsed(text, SECONDS)


def _parsed(text: str, units: dict[str, int]) -> int | None:
    match = _QUANTITY.fullmatch(text.strip())
    return None if match is None or match[2] not in units else int(match[1]) * units[match[2]]
