"""The least and the greatest values of a file's columns: which columns have them, and how manifests keep them.

Only of columns whose values have an order that everybody agrees about: numbers, dates, timestamps, times, texts by
their bytes, booleans, UUIDs. A column with a long text or a NaN at one end has no bounds.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa

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
    """Return bounds for JSON: what it has no type for is an object of one key, which says the type."""
    return {name: _written(value) for name, value in bounds.items()}


def _written(value: Any) -> Any:
    known = _WRITTEN.get(type(value))
    return value if known is None else {known[0]: known[1](value)}


def read_bounds(bounds: Mapping[str, Any]) -> dict[str, Any]:
    """Read what :func:`written_bounds` has written.

    Raises:
        KeyError, ValueError: something else.
    """
    return {name: _read(value) for name, value in bounds.items()}


def _read(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, text),) = value.items()
    return _READ[kind](text)


def has_order(type: pa.DataType) -> bool:
    """Tell whether values of a type have bounds."""
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


def is_bound(value: Any) -> bool:
    """Tell whether a value serves as a bound."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return False
    return not isinstance(value, str) or len(value.encode()) <= MOST_BYTES


def has_place(type: pa.DataType) -> bool:
    """Tell whether Arrow puts values of a type in an order, one that not everybody agrees about included."""
    return type == pa.uuid() or not (pa.types.is_nested(type) or isinstance(type, pa.BaseExtensionType))


def comparable(values: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Return values as Arrow compares them."""
    if values.type == pa.uuid():
        storage = [cast("pa.ExtensionArray[Any]", chunk).storage for chunk in values.chunks]
        # The stubs lack this type.
        plain: pa.ChunkedArray[Any] = pa.chunked_array(storage, pa.binary(16))  # type: ignore[call-overload]
        return plain
    return values
