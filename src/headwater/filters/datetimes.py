"""Arithmetic of dates, times, timestamps and intervals, their parts, and casts between them.

Timestamps count microseconds and dates days from 2000-01-01 on; an interval is microseconds, days and months. Years are
counted with a year 0, as the server counts them internally.

PostgreSQL: ``date.c``, ``timestamp.c``, ``datetime.c`` (date2j, j2date), ``utils/datetime.h``. 17 has infinite
intervals.

Known gaps: abbreviations of units, units that are no constants, ``interval * float8``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from headwater.errors import ExpressionError, UnsupportedFilterError
from headwater.filters.functions import Context, each, register
from headwater.filters.numerics import Number, stored_number
from headwater.pg.version import VERSIONS

Interval: TypeAlias = tuple[int, int, int]
"""An interval: microseconds, days, months."""

DAY = 86_400_000_000
_SECOND, _MINUTE, _HOUR = 1_000_000, 60_000_000, 3_600_000_000
_NOBEGIN, _NOEND = -(1 << 63), (1 << 63) - 1
_DATE_NOBEGIN, _DATE_NOEND = -(1 << 31), (1 << 31) - 1
_EPOCH_JULIAN, _UNIX_JULIAN = 2_451_545, 2_440_588
_FIRST, _END = -211_813_488_000_000_000, 9_223_371_331_200_000_000
_DATE_END = 2_147_483_494 - _EPOCH_JULIAN
_TIMESTAMP_END_DATE = 109_203_528 - _EPOCH_JULIAN
_INT32 = range(-(1 << 31), 1 << 31)
_INT64 = range(-(1 << 63), 1 << 63)
INFINITE, NEGATIVE_INFINITE = (_NOEND, _DATE_NOEND, _DATE_NOEND), (_NOBEGIN, _DATE_NOBEGIN, _DATE_NOBEGIN)

_TIMESTAMP_RANGE, _DATE_RANGE, _INTERVAL_RANGE = (f"{what} out of range" for what in ("timestamp", "date", "interval"))


# The calendar.


def julian_day(year: int, month: int, day: int) -> int:
    """Return the Julian day of a date of the Gregorian calendar."""
    year -= month <= 2
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + of_year + 1_721_120


def civil(julian: int) -> tuple[int, int, int]:
    """Return year, month and day of a Julian day."""
    era, of_era = divmod(julian - 1_721_120, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return 400 * era + year + (month <= 2), month, day


def _days_of_month(year: int, month: int) -> int:
    if month == 2:
        return 28 + (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))
    return 31 - (month in (4, 6, 9, 11))


def _split(timestamp: int) -> tuple[int, int]:
    """Split a timestamp into its Julian day, and microseconds of the day."""
    days, time = divmod(timestamp, DAY)
    return days + _EPOCH_JULIAN, time


def _timestamp(julian: int, time: int) -> int:
    timestamp = (julian - _EPOCH_JULIAN) * DAY + time
    if not _FIRST <= timestamp < _END:
        raise ExpressionError(_TIMESTAMP_RANGE)
    return timestamp


def is_timestamp(timestamp: int) -> bool:
    """Tell whether a number is in the range of finite timestamps."""
    return _FIRST <= timestamp < _END


def is_finite(timestamp: int) -> bool:
    """Tell whether a timestamp is not infinite."""
    return _NOBEGIN < timestamp < _NOEND


def _is_finite_date(date: int) -> bool:
    return _DATE_NOBEGIN < date < _DATE_NOEND


def _infinite_intervals(context: Context) -> bool:
    return VERSIONS[context.settings.major].has_infinite_intervals


def _sign_of(context: Context, interval: Interval) -> int:
    """Return 1 and -1 for infinite intervals, else 0."""
    if not _infinite_intervals(context):
        return 0
    return (interval == INFINITE) - (interval == NEGATIVE_INFINITE)


def _checked(context: Context, time: int, day: int, month: int) -> Interval:
    """Check that an interval is finite, and that its fields fit.

    Raises:
        ExpressionError: a field does not fit.
    """
    if time not in _INT64 or day not in _INT32 or month not in _INT32 or _sign_of(context, (time, day, month)):
        raise ExpressionError(_INTERVAL_RANGE)
    return time, day, month


# Dates.


def _date_plus(sign: int) -> Callable[[Context, int, int], int]:
    def add(_: Context, date: int, days: int) -> int:
        if not _is_finite_date(date):
            return date
        moved = date + sign * days
        if not -_EPOCH_JULIAN <= moved < _DATE_END:
            raise ExpressionError(_DATE_RANGE)
        return moved

    return add


def _date_minus_date(_: Context, date: int, other: int) -> int:
    if not (_is_finite_date(date) and _is_finite_date(other)):
        raise ExpressionError("cannot subtract infinite dates")
    return date - other


def _date_timestamp(_: Context, date: int) -> int:
    if not _is_finite_date(date):
        return _NOBEGIN if date < 0 else _NOEND
    if date >= _TIMESTAMP_END_DATE:
        raise ExpressionError("date out of range for timestamp")
    return date * DAY


def _timestamp_date(_: Context, timestamp: int) -> int:
    if not is_finite(timestamp):
        return _DATE_NOBEGIN if timestamp < 0 else _DATE_NOEND
    return timestamp // DAY


def _date_and_time(context: Context, date: int, time: int) -> int:
    timestamp = _date_timestamp(context, date)
    if not is_finite(timestamp):
        return timestamp
    if not _FIRST <= timestamp + time < _END:
        raise ExpressionError(_TIMESTAMP_RANGE)
    return timestamp + time


def _make_date(_: Context, year: int, month: int, day: int) -> int:
    is_year = year != 0 and year != _INT32[0]
    astronomical = year + 1 if is_year and year < 0 else year
    shown = f"{astronomical}-{month:02d}-{day:02d}"
    if not is_year or not 1 <= month <= 12 or not 1 <= day <= _days_of_month(astronomical, month):
        raise ExpressionError(f"date field value out of range: {shown}")
    date = julian_day(astronomical, month, day) - _EPOCH_JULIAN
    if not -_EPOCH_JULIAN <= date < _DATE_END:
        raise ExpressionError(f"date out of range: {shown}")
    return date


# Times.


def _time_plus(sign: int) -> Callable[[Context, int, Interval], int]:
    def add(context: Context, time: int, interval: Interval) -> int:
        if _sign_of(context, interval):
            what = "add infinite interval to" if sign > 0 else "subtract infinite interval from"
            raise ExpressionError(f"cannot {what} time")
        return (time + sign * interval[0]) % DAY

    return add


def _interval_time(context: Context, interval: Interval) -> int:
    if _sign_of(context, interval):
        raise ExpressionError("cannot convert infinite interval to time")
    return interval[0] % DAY


def _timestamp_time(_: Context, timestamp: int) -> int | None:
    return timestamp % DAY if is_finite(timestamp) else None


# Timestamps and intervals.


def _plus_interval(sign: int) -> Callable[[Context, int, Interval], int]:
    def add(context: Context, timestamp: int, interval: Interval) -> int:
        infinite = sign * _sign_of(context, interval)
        if infinite:
            if timestamp == (_NOBEGIN if infinite > 0 else _NOEND):
                raise ExpressionError(_TIMESTAMP_RANGE)
            return _NOEND if infinite > 0 else _NOBEGIN
        if not is_finite(timestamp):
            return timestamp
        return _moved(timestamp, interval if sign > 0 else _negative(context, interval))

    return add


def _moved(timestamp: int, interval: Interval) -> int:
    """Add an interval to a timestamp: months first, then days, then the rest."""
    time, days, months = interval
    if months:
        timestamp = _months_later(timestamp, months)
    if days:
        julian, rest = _split(timestamp)
        if julian + days not in range(1 << 31):
            raise ExpressionError(_TIMESTAMP_RANGE)
        timestamp = _timestamp(julian + days, rest)
    timestamp += time
    if not _FIRST <= timestamp < _END:
        raise ExpressionError(_TIMESTAMP_RANGE)
    return timestamp


def _months_later(timestamp: int, months: int) -> int:
    julian, rest = _split(timestamp)
    year, month, day = civil(julian)
    if month + months not in _INT32:
        raise ExpressionError(_TIMESTAMP_RANGE)
    years, month = divmod(month + months - 1, 12)
    year, month = year + years, month + 1
    return _timestamp(julian_day(year, month, min(day, _days_of_month(year, month))), rest)


def _negative(context: Context, interval: Interval) -> Interval:
    sign = _sign_of(context, interval)
    if sign:
        return NEGATIVE_INFINITE if sign > 0 else INFINITE
    time, day, month = interval
    return _checked(context, -time, -day, -month)


def _interval_sum(sign: int) -> Callable[[Context, Interval, Interval], Interval]:
    def add(context: Context, left: Interval, right: Interval) -> Interval:
        left_sign, right_sign = _sign_of(context, left), sign * _sign_of(context, right)
        if left_sign or right_sign:
            if left_sign == -right_sign:
                raise ExpressionError(_INTERVAL_RANGE)
            return INFINITE if left_sign + right_sign > 0 else NEGATIVE_INFINITE
        time, day, month = (a + sign * b for a, b in zip(left, right, strict=True))
        return _checked(context, time, day, month)

    return add


def _justified_hours(context: Context, time: int, day: int, month: int) -> Interval:
    days = abs(time) // DAY * (1 if time >= 0 else -1)
    time, day = time - days * DAY, day + days
    _checked(context, time, day, month)
    if day > 0 and time < 0:
        return time + DAY, day - 1, month
    if day < 0 and time > 0:
        return time - DAY, day + 1, month
    return time, day, month


def _timestamp_difference(context: Context, left: int, right: int) -> Interval:
    if not (is_finite(left) and is_finite(right)):
        if not _infinite_intervals(context):
            raise ExpressionError("cannot subtract infinite timestamps")
        if left == right:
            raise ExpressionError(_INTERVAL_RANGE)
        return INFINITE if left == _NOEND or right == _NOBEGIN else NEGATIVE_INFINITE
    time = left - right
    if time not in _INT64:
        if VERSIONS[context.settings.major].checks_timestamp_differences:
            raise ExpressionError(_INTERVAL_RANGE)
        time = (time + (1 << 63)) % (1 << 64) - (1 << 63)
    return _justified_hours(context, time, 0, 0)


def _date_moved(sign: int) -> Callable[[Context, int, Interval], int]:
    move = _plus_interval(sign)
    return lambda context, date, interval: move(context, _date_timestamp(context, date), interval)


# Parts.

_DATE_UNITS = frozenset(
    [
        "day",
        "month",
        "quarter",
        "week",
        "year",
        "decade",
        "century",
        "millennium",
        "julian",
        "isoyear",
        "dow",
        "isodow",
        "doy",
    ]
)
_TIME_UNITS = frozenset(["microseconds", "milliseconds", "second", "minute", "hour"])
_CYCLIC = frozenset(["day", "month", "quarter", "week", "dow", "isodow", "doy"]) | _TIME_UNITS
_ZONE_UNITS = frozenset(["timezone", "timezone_hour", "timezone_minute"])
_UNITS = _DATE_UNITS | _TIME_UNITS | _ZONE_UNITS | {"epoch"}
_TRUNCATED = frozenset(["week", "month", "quarter", "year", "decade", "century", "millennium", "day"]) | _TIME_UNITS


def _unit(payload: bytes) -> str:
    return payload.decode(errors="replace").lower()


def needs_known_unit(context: Context) -> None:
    """Refuse units that are not constants, and abbreviated ones."""
    payload = context.constants[0]
    if payload is None or _unit(payload) not in _UNITS:
        what = "a unit that is no constant" if payload is None else f'the unit "{payload.decode(errors="replace")}"'
        raise UnsupportedFilterError(
            f"{context.function.signature} (OID {context.function.oid}) with {what} is not supported",
            hint=f"known are {', '.join(sorted(_UNITS))}",
        )


def _refused(unit: str, type: str) -> ExpressionError:
    return ExpressionError(f'unit "{unit}" not supported for type {type}')


def _thursday(julian: int) -> int:
    """Return the Thursday of a day's week, both as Julian days; the week belongs to the Thursday's year."""
    return julian - julian % 7 + 3


def _date_part(unit: str, julian: int) -> int:
    year, month, day = civil(julian)
    if unit in ("day", "month"):
        return day if unit == "day" else month
    if unit == "quarter":
        return (month - 1) // 3 + 1
    if unit in ("dow", "isodow"):
        weekday = (julian + 1) % 7
        return 7 if unit == "isodow" and weekday == 0 else weekday
    if unit == "doy":
        return julian - julian_day(year, 1, 1) + 1
    if unit in ("week", "isoyear"):
        return _iso_part(unit, julian)
    return _year_part(unit, year)


def _iso_part(unit: str, julian: int) -> int:
    thursday = _thursday(julian)
    year = civil(thursday)[0]
    if unit == "week":
        return (thursday - julian_day(year, 1, 1)) // 7 + 1
    return year if year > 0 else year - 1


def _year_part(unit: str, year: int) -> int:
    if unit == "year":
        return year if year > 0 else year - 1
    if unit == "decade":
        return year // 10 if year >= 0 else -((9 - year) // 10)
    size = 100 if unit == "century" else 1000
    return (year + size - 1) // size if year > 0 else -((size - year) // size)


def _clock_part(unit: str, time: int) -> Number:
    """Return a part of a time in microseconds of a day; seconds have their fractions."""
    if unit in ("hour", "minute"):
        return Number(time // _HOUR if unit == "hour" else time // _MINUTE % 60, 0)
    return Number(time % _MINUTE, {"microseconds": 0, "milliseconds": 3, "second": 6}[unit])


def _extract_date(_: Context, unit: bytes, date: int) -> Number | None:
    name = _unit(unit)
    if name not in _DATE_UNITS and name != "epoch":
        raise _refused(name, "date")
    if not _is_finite_date(date):
        return None if name in _CYCLIC else Number(0, 0, math.copysign(math.inf, date))
    julian = date + _EPOCH_JULIAN
    if name == "epoch":
        return Number((julian - _UNIX_JULIAN) * 86_400, 0)
    return Number(julian if name == "julian" else _date_part(name, julian), 0)


def _extract_timestamp(_: Context, unit: bytes, timestamp: int) -> Number | None:
    name = _unit(unit)
    if not is_finite(timestamp):
        if name in _CYCLIC | _ZONE_UNITS:
            return None
        return Number(0, 0, math.copysign(math.inf, timestamp))
    if name in _ZONE_UNITS:
        raise _refused(name, "timestamp without time zone")
    julian, time = _split(timestamp)
    if name == "epoch":
        return Number(timestamp + (_EPOCH_JULIAN - _UNIX_JULIAN) * DAY, 6)
    if name in _TIME_UNITS:
        return _clock_part(name, time)
    if name == "julian":
        raise UnsupportedFilterError('the unit "julian" of a timestamp is not supported')
    return Number(_date_part(name, julian), 0)


def _extract_time(_: Context, unit: bytes, time: int) -> Number:
    name = _unit(unit)
    if name == "epoch":
        return Number(time, 6)
    if name in _TIME_UNITS:
        return _clock_part(name, time)
    if name in _DATE_UNITS - {"julian", "dow", "isodow", "doy", "isoyear"} or name in _ZONE_UNITS:
        raise _refused(name, "time without time zone")
    raise UnsupportedFilterError(f'the unit "{name}" of a time is not supported')


def _as_stored(extract: Callable[..., Number | None]) -> Callable[..., bytes | None]:
    def stored(context: Context, unit: bytes, value: int) -> bytes | None:
        number = extract(context, unit, value)
        return None if number is None else stored_number(number)

    return stored


def _as_float(extract: Callable[..., Number | None]) -> Callable[..., float | None]:
    """Convert parts to floats, as ``date_part`` gives them: whole and fraction are added as the server adds floats."""

    def convert(context: Context, unit: bytes, value: int) -> float | None:
        number = extract(context, unit, value)
        if number is None or number.is_special:
            return None if number is None else number.special
        if number.scale == 0 or _unit(unit) == "epoch":
            return number.coefficient / (10.0**number.scale)
        seconds, rest = divmod(number.coefficient, 1_000_000)
        scale = 1000.0 if number.scale == 3 else 1.0
        return seconds * scale + rest / (1_000_000.0 / scale)

    return convert


def _part_of_date(context: Context, unit: bytes, date: int) -> Number | None:
    """Extract a part of a date as ``date_part`` does, from the date as a timestamp."""
    return _extract_timestamp(context, unit, _date_timestamp(context, date))


def _truncated(_: Context, unit: bytes, timestamp: int) -> int:
    name = _unit(unit)
    if not is_finite(timestamp):
        return timestamp
    if name not in _TRUNCATED:
        if name in _ZONE_UNITS or name in _DATE_UNITS - {"dow", "isodow", "doy", "julian", "isoyear"}:
            raise _refused(name, "timestamp without time zone")
        raise UnsupportedFilterError(f'date_trunc with the unit "{name}" is not supported')
    size = {"microseconds": 1, "milliseconds": 1000, "second": _SECOND, "minute": _MINUTE, "hour": _HOUR, "day": DAY}
    julian, time = _split(timestamp)
    if name in size:
        return _timestamp(julian, time // size[name] * size[name])
    if name == "week":
        return _timestamp(julian - julian % 7, 0)
    year, month, _day = civil(julian)
    if name == "quarter":
        month = (month - 1) // 3 * 3 + 1
    elif name != "month":
        year, month = _truncated_year(name, year), 1
    return _timestamp(julian_day(year, month, 1), 0)


def _truncated_year(unit: str, year: int) -> int:
    if unit == "year":
        return year
    if unit == "decade":
        return year // 10 * 10 if year > 0 else -((9 - year) // 10) * 10
    size = 100 if unit == "century" else 1000
    if year > 0:
        return (year + size - 1) // size * size - size + 1
    return -((size - year) // size) * size + 1


def _turned(function: Callable[..., object]) -> Callable[..., object]:
    return lambda context, first, second: function(context, second, first)


def _is_finite_interval(context: Context, interval: Interval) -> bool:
    return _sign_of(context, interval) == 0


register("date_pli", each(_date_plus(1)))
register("date_mii", each(_date_plus(-1)))
register("integer_pl_date(int4,date)", each(_turned(_date_plus(1))), turned=True)
register("date_mi", each(_date_minus_date))
register("date_timestamp", each(_date_timestamp))
register("timestamp_date", each(_timestamp_date))
register("datetime_timestamp", each(_date_and_time))
register("timedate_pl(time,date)", each(_turned(_date_and_time)), turned=True)
register("make_date", each(_make_date))
register("date_finite", each(lambda _, date: _is_finite_date(date)))
register("timestamp_finite", each(lambda _, timestamp: is_finite(timestamp)))
register("interval_finite", each(_is_finite_interval))
register("timestamp_time", each(_timestamp_time))
register("time_interval", each(lambda _, time: (time, 0, 0)))
register("interval_time", each(_interval_time))
register("time_mi_time", each(lambda _, left, right: (left - right, 0, 0)))
register("time_pl_interval", each(_time_plus(1)))
register("time_mi_interval", each(_time_plus(-1)))
register("interval_pl_time(interval,time)", each(_turned(_time_plus(1))), turned=True)
register("timestamp_pl_interval", each(_plus_interval(1)))
register("timestamp_mi_interval", each(_plus_interval(-1)))
register("interval_pl_timestamp(interval,timestamp)", each(_turned(_plus_interval(1))), turned=True)
register("date_pl_interval", each(_date_moved(1)))
register("date_mi_interval", each(_date_moved(-1)))
register("interval_pl_date(interval,date)", each(_turned(_date_moved(1))), turned=True)
register("timestamp_mi", each(_timestamp_difference))
register("interval_um", each(_negative))
register("interval_pl", each(_interval_sum(1)))
register("interval_mi", each(_interval_sum(-1)))
register("extract_date", each(_as_stored(_extract_date)), needs_known_unit)
register("extract_timestamp", each(_as_stored(_extract_timestamp)), needs_known_unit)
register("extract_time", each(_as_stored(_extract_time)), needs_known_unit)
register("date_part(text,date)", each(_as_float(_part_of_date)), needs_known_unit)
register("timestamp_part", each(_as_float(_extract_timestamp)), needs_known_unit)
register("time_part", each(_as_float(_extract_time)), needs_known_unit)
register("timestamp_trunc", each(_truncated), needs_known_unit)
