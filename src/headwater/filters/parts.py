"""The parts of arrays and ranges, and arrays that are made of values."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import TypeInfo
from headwater.errors import RecordError
from headwater.filters.values import Index, Spans, Values, spans, stored
from headwater.pg.functions import built_in_types
from headwater.rows.columns import _nested_parts as _parts
from headwater.rows.session import SessionSettings
from headwater.rows.text._parts import NULL_PART, PLAIN_PART
from headwater.rows.text_tables import ALIGNMENT, TextTables, build_text_tables

_VARLENA, _HEADER = 4, 12
_NAME_SIZE = 64


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of n arrays or ranges, one after the other.

    Attributes:
        first: int64[n+1] the parts of value i are ``[first[i], first[i+1])``.
        there: bool[m] of a range whether there is such a bound.
        values: the m parts; of an array NULLs are NULL.
    """

    first: Index
    there: NDArray[np.bool_]
    values: Values


def type_info(oid: int, major: int) -> TypeInfo:
    """Describe one of the server's own types."""
    built_in = built_in_types(major)[oid]
    inner = type_info(built_in.element or built_in.subtype, major) if built_in.element or built_in.subtype else None
    is_array = built_in.element != 0
    return TypeInfo(
        *(
            oid,
            built_in.name,
            "pg_catalog",
            built_in.name,
            built_in.kind,
            built_in.length,
            built_in.align,
            built_in.is_by_value,
        ),
        element=inner if is_array else None,
        subtype=None if is_array else inner,
    )


@lru_cache(maxsize=64)
def _tables(oid: int, major: int) -> TextTables:
    return build_text_tables([type_info(oid, major)], SessionSettings(major=major))


def inner_type(oid: int, major: int) -> int:
    """Return the OID of an array's element type or a range's subtype; 0 for another type."""
    built_in = built_in_types(major)[oid]
    return built_in.element or built_in.subtype


def taken_apart(type: int, major: int, values: Spans) -> Parts:
    """Take values apart, none of which is NULL.

    Raises:
        RecordError: a value is malformed.
    """
    tables = _tables(type, major)
    counts = np.empty(len(values), dtype=np.int64)
    total = _parts.count_parts(tables, values.for_kernels, counts)
    size = max(total, 0)
    kinds, starts, lengths = np.empty(size, np.uint8), np.empty(size, np.int64), np.empty(size, np.int64)
    is_sound = total >= 0 and _parts.find_parts(tables, values.for_kernels, kinds, starts, lengths) >= 0
    if not is_sound or (kinds > PLAIN_PART).any():
        raise RecordError("malformed array or range in a column of a row filter")
    inner = stored(inner_type(type, major), values.data, starts, lengths, kinds != PLAIN_PART)
    return Parts(np.concatenate([[0], np.cumsum(counts)]), (kinds == PLAIN_PART) | (kinds == NULL_PART), inner)


def payloads(values: Values) -> list[bytes | None]:
    """Return each value as it is stored; None for NULL."""
    if isinstance(values, Spans):
        raw_values: list[bytes] = values.to_list()
    else:
        size = values.data.dtype.itemsize
        raw = values.data.tobytes()
        raw_values = [raw[at : at + size] for at in range(0, len(raw), size)]
    return [None if null else value for value, null in zip(raw_values, values.null.tolist(), strict=True)]


def elements_of(type: int, major: int, payload: bytes) -> list[bytes | None]:
    """Return the elements of one array, as they are stored."""
    return payloads(taken_apart(type, major, spans([payload])).values)


def shape_of(payload: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the lengths of an array's dimensions, and their lower bounds."""
    (dimensions,) = struct.unpack_from("<i", payload)
    numbers = struct.unpack_from(f"<{2 * dimensions}i", payload, _HEADER)
    return numbers[:dimensions], numbers[dimensions:]


def made_array(element: int, major: int, values: Sequence[bytes | None]) -> bytes:
    """Make an array of one dimension, as it is stored (construct_md_array)."""
    built_in = built_in_types(major)[element]
    if not values:
        return struct.pack("<iiI", 0, 0, element)
    has_null = None in values
    header = _VARLENA + _HEADER + 8 + (len(values) + 7) // 8 * has_null
    header = -(-header // 8) * 8
    bits = sum((value is not None) << at for at, value in enumerate(values))
    bitmap = bits.to_bytes((len(values) + 7) // 8, "little") if has_null else b""
    front = struct.pack("<iiIii", 1, header if has_null else 0, element, len(values), 1) + bitmap
    data = bytearray(front.ljust(header - _VARLENA, b"\0"))
    for value in values:
        if value is not None:
            data += b"\0" * (-(len(data) + _VARLENA) % ALIGNMENT[built_in.align])
            data += _datum(built_in.length, value)
    return bytes(data)


def _datum(length: int, value: bytes) -> bytes:
    if length == -1:
        return struct.pack("<I", (len(value) + _VARLENA) << 2) + value
    return value.ljust(_NAME_SIZE, b"\0") if length == _NAME_SIZE else value
