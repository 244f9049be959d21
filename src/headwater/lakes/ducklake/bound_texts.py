"""Bounds of columns as text, which DuckLake's statistics have them in."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa


def bound_text(value: Any) -> str | None:
    """Return a bound as text.

    Args:
        value: as Python has it; None for none.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, datetime):
        zone = "" if value.tzinfo is None else "+00"
        return f"{(value.astimezone(UTC) if zone else value).replace(tzinfo=None).isoformat(' ')}{zone}"
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.isoformat() if isinstance(value, date | time) else str(value)


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[str], Any]], ...] = (
    (pa.types.is_boolean, lambda text: text in ("1", "true")),
    (pa.types.is_integer, int),
    (pa.types.is_floating, float),
    (pa.types.is_decimal, Decimal),
    (pa.types.is_timestamp, datetime.fromisoformat),
    (pa.types.is_date, date.fromisoformat),
    (pa.types.is_time, time.fromisoformat),
    (pa.types.is_string, str),
    (lambda type: type == pa.uuid(), uuid.UUID),
)


def read_bound(text: str | None, type: pa.DataType) -> Any:
    """Read a bound; None for one that is not known, or that Python has no value for.

    Args:
        text: it; type: the column's.
    """
    reader = next((read for is_of, read in _READERS if is_of(type)), None)
    if text is None or reader is None:
        return None
    try:
        return reader(text)
    except (ValueError, ArithmeticError):
        return None
