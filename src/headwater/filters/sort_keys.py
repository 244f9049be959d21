"""Sort keys of values: Python compares them as the server compares the values of a type.

They are for values that are compared singly: elements of arrays, bounds of ranges. ``comparisons.py`` compares whole
columns.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from headwater.errors import UnsupportedFilterError
from headwater.filters.functions import Context, needs_byte_order
from headwater.filters.numerics import number
from headwater.pg.functions import type_name

SortKey: TypeAlias = Callable[[bytes], Any]

_DAY = 86_400_000_000


def _signed(payload: bytes) -> int:
    return int.from_bytes(payload, "little", signed=True)


def _unsigned(payload: bytes) -> int:
    return int.from_bytes(payload, "little")


def _float(payload: bytes) -> tuple[bool, float]:
    (value,) = struct.unpack("<f" if len(payload) == 4 else "<d", payload)
    return math.isnan(value), 0.0 if math.isnan(value) else value


def _numeric(payload: bytes) -> tuple[int, Any]:
    value = number(payload)
    if value.is_nan:
        return 2, 0
    return (value.sign, 0) if value.is_special else (0, value.fraction)


def _bpchar(payload: bytes) -> bytes:
    return payload.rstrip(b" ")


def _interval(payload: bytes) -> int:
    time, day, month = struct.unpack("<qii", payload)
    return int(time + (month * 30 + day) * _DAY)


def _zoned_time(payload: bytes) -> tuple[int, int]:
    time, zone = struct.unpack("<qi", payload)
    return time + zone * 1_000_000, zone


def _bytes(payload: bytes) -> bytes:
    return payload


_KEYS: dict[int, SortKey] = {
    **dict.fromkeys((20, 21, 23, 790, 1082, 1083, 1114, 1184), _signed),
    **dict.fromkeys((16, 18, 26, 3220, 5069), _unsigned),
    **dict.fromkeys((700, 701), _float),
    **dict.fromkeys((17, 19, 25, 1043, 2950, 829, 774), _bytes),
    1700: _numeric,
    1042: _bpchar,
    1186: _interval,
    1266: _zoned_time,
}
_TEXTS = (19, 25, 1042, 1043)


def sort_key(type: int) -> SortKey:
    """Return the function from a type's value in its stored form to the value's sort key."""
    return _KEYS[type]


def needs_keys(type: int, context: Context, *, ordered: bool) -> None:
    """Refuse types whose values are not compared here, and collations whose order is not known here."""
    if type not in _KEYS:
        raise UnsupportedFilterError(
            f"{context.function.signature} (OID {context.function.oid}) of {type_name(type)} is not supported"
        )
    if ordered and type in _TEXTS:
        needs_byte_order(context)
