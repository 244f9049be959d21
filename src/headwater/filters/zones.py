"""``timestamptz AT TIME ZONE`` of a zone of the time zone database, or UTC.

Zones that are called by an abbreviation of the server's own table are refused, and so is a zone that is no constant.
The rules are those of :mod:`headwater.rows.timezones`.

PostgreSQL: ``timestamp.c`` (timestamptz_zone).

Known gap: ``timestamp AT TIME ZONE``, of local times.
"""

from __future__ import annotations

from headwater.errors import ExpressionError, UnsupportedFilterError, UsageError
from headwater.filters.datetimes import is_finite, is_timestamp
from headwater.filters.functions import Context, each, register
from headwater.rows.text._datetime import offset_at
from headwater.rows.timezones import TimeZone, load_timezone

_SECOND = 1_000_000
_UTC = ("utc", "gmt")


def _zone(payload: bytes) -> TimeZone:
    return load_timezone(payload.decode())


def _needs_known_zone(context: Context) -> None:
    what = f"{context.function.signature} (OID {context.function.oid})"
    payload = context.constants[0]
    if payload is None:
        raise UnsupportedFilterError(f"{what} with a zone that is no constant is not supported")
    name = payload.decode(errors="replace")
    try:
        if "/" not in name and name.lower() not in _UTC:
            raise UnsupportedFilterError(f'{what} with the zone "{name}" is not supported', hint="as of Area/City")
        load_timezone(name)
    except UsageError as error:
        raise UnsupportedFilterError(f"{what} is not supported: {error.message}") from None


def _offset(zone: TimeZone, timestamp: int) -> int:
    """Return the microseconds east of Greenwich at a time of UTC."""
    return int(offset_at(zone.at, zone.offset, zone.cycle, timestamp)) * _SECOND


def _checked(timestamp: int) -> int:
    if not is_timestamp(timestamp):
        raise ExpressionError("timestamp out of range")
    return timestamp


def _to_local(_: Context, name: bytes, timestamp: int) -> int:
    return _checked(timestamp + _offset(_zone(name), timestamp)) if is_finite(timestamp) else timestamp


register("timestamptz_zone", each(_to_local), _needs_known_zone)
