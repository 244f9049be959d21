"""The least and the greatest values of a file's columns, as tasks find them and manifests keep them.

Only of columns whose values have an order that everybody agrees about: numbers, dates, timestamps, times, texts by
their bytes, booleans, UUIDs. A column with a long text or a NaN at one end has no bounds.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

MOST_BYTES = 256
"""Of a text that is a bound."""

_WRITTEN: dict[type, tuple[str, Callable[[Any], str]]] = {
    datetime: ("timestamp", datetime.isoformat),
    date: ("date", date.isoformat),
    time: ("time", time.isoformat),
    Decimal: ("decimal", str),
    uuid.UUID: ("uuid", str),
    bytes: ("bytes", bytes.hex),
}
_READ: dict[str, Callable[[str], Any]] = {
    "timestamp": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "decimal": Decimal,
    "uuid": uuid.UUID,
    "bytes": bytes.fromhex,
}


def written_bounds(bounds: Mapping[str, Any]) -> dict[str, Any]:
    """Bounds for JSON: what it has no type for is an object of one key, which says the type."""
    return {name: _written(value) for name, value in bounds.items()}


def _written(value: Any) -> Any:
    known = _WRITTEN.get(type(value))
    return value if known is None else {known[0]: known[1](value)}


def read_bounds(bounds: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`written_bounds` has written.

    Raises:
        KeyError, ValueError: something else.
    """
    return {name: _read(value) for name, value in bounds.items()}


def _read(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, text),) = value.items()
    return _READ[kind](text)


def bounds_of(rows: pa.Table) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    """The least and the greatest values of columns, and how many nulls they have.

    Args:
        rows: of a file.

    Returns:
        by column; columns without bounds are missing in the first two.
    """
    lower: dict[str, Any] = {}
    upper: dict[str, Any] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if not has_order(column.type):
            continue
        least, greatest = _extremes(column)
        if is_bound(least) and is_bound(greatest):
            lower[name], upper[name] = least, greatest
    return lower, upper, {name: rows[name].null_count for name in rows.column_names}


def has_order(type: pa.DataType) -> bool:
    """Whether values of a type have bounds."""
    types = pa.types
    return bool(
        type == pa.uuid()
        or types.is_integer(type)
        or types.is_floating(type)
        or types.is_decimal(type)
        or types.is_string(type)
        or types.is_boolean(type)
        or types.is_date(type)
        or types.is_timestamp(type)
        or types.is_time(type)
    )


def _extremes(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """Both ends of a column, None for none."""
    if column.type == pa.uuid():
        return _uuid_extremes(column)
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        return None, None
    found = pc.min_max(column)
    try:
        return found["min"].as_py(), found["max"].as_py()
    except (ValueError, OverflowError):  # a date that Python has not
        return None, None


def _uuid_extremes(column: pa.ChunkedArray) -> tuple[Any, Any]:
    stored = pa.chunked_array([chunk.storage for chunk in column.chunks], pa.binary(16)).drop_null()
    order = pc.array_sort_indices(stored.cast(pa.binary()))
    if not len(order):
        return None, None
    return uuid.UUID(bytes=stored[order[0].as_py()].as_py()), uuid.UUID(bytes=stored[order[-1].as_py()].as_py())


def is_bound(value: Any) -> bool:
    """Whether a value serves as a bound."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return False
    return not isinstance(value, str) or len(value.encode()) <= MOST_BYTES
