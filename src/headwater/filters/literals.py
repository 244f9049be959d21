"""Constants as they are written, read into values as they are stored (PostgreSQL: the types' input functions).

Only forms that mean the same under all settings are taken; other forms that the server reads are refused, not guessed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import date
from uuid import UUID

from headwater.errors import ExpressionError, UnsupportedFilterError
from headwater.filters.datetimes import julian_day
from headwater.filters.numerics import number_of_text, stored_number
from headwater.pg.encodings import encode_text
from headwater.pg.functions import type_name

BOOL, INT8, INT2, INT4, TEXT, FLOAT8, BPCHAR, VARCHAR = 16, 20, 21, 23, 25, 701, 1042, 1043
DATE, TIMESTAMP, TIMESTAMPTZ, NUMERIC, UUID_TYPE = 1082, 1114, 1184, 1700, 2950

_EPOCH = 2_451_545
_INTEGER = re.compile(r"\s*([+-]?[0-9]+)\s*")
_NUMBER = re.compile(r"\s*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?)?"
)
_OFFSET = re.compile(r"(?:Z|([+-])([0-9]{2})(?::?([0-9]{2}))?)")
_BOOLEANS = {"t": 1, "tr": 1, "tru": 1, "true": 1, "y": 1, "ye": 1, "yes": 1, "on": 1, "1": 1} | {
    "f": 0, "fa": 0, "fal": 0, "fals": 0, "false": 0, "n": 0, "no": 0, "of": 0, "off": 0, "0": 0,
}  # fmt: skip
_SIZES = {INT2: 2, INT4: 4, INT8: 8}


def literal(text: str, type: int, encoding: str) -> bytes:
    """Read a constant into its payload as a heap tuple stores it: of a varlena without its header.

    Args:
        text: as it is written between quotes.
        type: OID of its type.
        encoding: the database's.

    Raises:
        ExpressionError: the server also does not take it; in the server's words.
        UnsupportedFilterError: this type, or this form of it, is not read here.
    """
    read = _READERS.get(type)
    if read is None:
        raise UnsupportedFilterError(f"a constant of type {type_name(type)} is not supported")
    if type in (TEXT, VARCHAR, BPCHAR):
        return encode_text(text, encoding)
    payload = read(text)
    if payload is None:
        raise UnsupportedFilterError(
            f'"{text}" as a constant of type {type_name(type)} is not supported', hint="write it as ISO 8601 does"
        )
    return payload


def _boolean(text: str) -> bytes:
    value = _BOOLEANS.get(text.strip().lower())
    if value is None:
        raise ExpressionError(f'invalid input syntax for type boolean: "{text}"')
    return bytes([value])


def integer(text: str, type: int) -> bytes | None:
    """Read an int2, int4 or int8; None for a form that is not read."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    value, size = int(match[1]), _SIZES[type]
    if not -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1:
        name = {INT2: "smallint", INT4: "integer", INT8: "bigint"}[type]
        raise ExpressionError(f'value "{text}" is out of range for type {name}')
    return value.to_bytes(size, "little", signed=True)


def _numeric(text: str) -> bytes | None:
    match = _NUMBER.fullmatch(text)
    return None if match is None else stored_number(number_of_text(match[1]))


def _float8(text: str) -> bytes | None:
    match = _NUMBER.fullmatch(text)
    value = None if match is None else float(match[1])
    return None if value is None or value in (float("inf"), float("-inf")) else struct.pack("<d", value)


def _days(text: str) -> int | None:
    """Read a date into days since 2000-01-01; None for a form that is not read."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day = (int(part) for part in match.groups())
    try:
        date(year, month, day)
    except ValueError:
        raise ExpressionError(f'date/time field value out of range: "{text}"') from None
    return julian_day(year, month, day) - _EPOCH


def _date(text: str) -> bytes | None:
    days = _days(text.strip())
    return None if days is None else days.to_bytes(4, "little", signed=True)


def _microseconds(text: str) -> int | None:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    days = _days(match[1])
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:4])
    if days is None or hours > 23 or minutes > 59 or seconds > 59:
        return None
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return whole * 1_000_000 + int((match[5] or "").ljust(6, "0"))


def _timestamp(text: str) -> bytes | None:
    value = _microseconds(text.strip())
    return None if value is None else value.to_bytes(8, "little", signed=True)


def _timestamptz(text: str) -> bytes | None:
    """Read a timestamp with an offset: without one it would be a time of the session's zone."""
    stripped = text.strip()
    match = _OFFSET.search(stripped, len("2000-01-01"))
    if match is None or match.end() != len(stripped):
        return None
    value = _microseconds(stripped[: match.start()].rstrip())
    if value is None:
        return None
    offset = int(match[2] or 0) * 60 + int(match[3] or 0)
    ahead = -offset if match[1] == "-" else offset
    return (value - ahead * 60_000_000).to_bytes(8, "little", signed=True)


def _uuid(text: str) -> bytes | None:
    try:
        value = UUID(text)
    except ValueError:
        raise ExpressionError(f'invalid input syntax for type uuid: "{text}"') from None
    return value.bytes if str(value) == text.lower() else None


_READERS: dict[int, Callable[[str], bytes | None]] = {
    BOOL: _boolean,
    INT2: lambda text: integer(text, INT2),
    INT4: lambda text: integer(text, INT4),
    INT8: lambda text: integer(text, INT8),
    NUMERIC: _numeric,
    FLOAT8: _float8,
    TEXT: str.encode,
    VARCHAR: str.encode,
    BPCHAR: str.encode,
    DATE: _date,
    TIMESTAMP: _timestamp,
    TIMESTAMPTZ: _timestamptz,
    UUID_TYPE: _uuid,
}
