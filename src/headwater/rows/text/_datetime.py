"""Kernels for date and time types in ISO style (PostgreSQL: ``datetime.c``, ``timestamp.c``, ``date.c``).

Times of day print alike in every style; dates and timestamps in the others are in ``_datestyle.py``.

Times are microseconds since 2000-01-01, dates days since then, both in the proleptic Gregorian calendar. A time zone is
a sorted table ``tz_at`` (int64[n], UTC microseconds of the transitions) and a table ``tz_offset``: int32[n+1], seconds
east of Greenwich before, between and after them. With `cycle` the last 400 years of transitions repeat for ever, as in
``localtime.c`` (goahead).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import Bytes, Int, load_i32, load_i64, misfits, no_room
from headwater.rows._text_codes import CORRUPT, NEED_SPACE
from headwater.rows.text._number import put_four, put_infinity, put_magnitude, put_pair

SECOND = 1_000_000
DAY = 86_400 * SECOND
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
CYCLE = 146_097 * DAY  # 400 Gregorian years
FIRST_DAY = -2_451_545  # Julian day 0, 4714-11-24 BC: nothing earlier is valid

_U3, _U4, _U32, _U60 = (np.uint64(i) for i in (3, 4, 32, 60))
_LOW32 = np.uint64(0xFFFFFFFF)
_CENTURY, _YEAR_FACTOR, _MONTH_FACTOR = np.uint64(146_097), np.uint64(2_939_745), np.uint64(2141)
_SECOND = np.uint64(SECOND)

MAX_DATE_TEXT = 16
MAX_TIMESTAMP_TEXT = 44  # 294276-12-31 23:59:59.999999+15:59:59 BC, the year with up to 10 digits


@inline_kernel
def put_year(year: Int, out: Bytes, o: Int) -> Int:
    """Write at least four digits (pg_ultostr_zeropad)."""
    if year < 10000:
        put_four(year, out, o)
        return o + 4
    return put_magnitude(np.uint64(year), out, o)


@inline_kernel
def calendar(days: Int) -> tuple[Int, Int, Int]:
    """Return year (0 is 1 BC), month and day.

    The same calendar as j2date, by the method of Neri and Schneider: years begin in March, 4800 BC and later, and
    each division by the length of a cycle gives the remainder as well.
    """
    quarters = _U4 * np.uint64(days + 2_483_589) + _U3
    century = quarters // _CENTURY
    product = _YEAR_FACTOR * ((quarters - century * _CENTURY) | _U3)
    year = np.int64(century * np.uint64(100) + (product >> _U32)) - 4800
    day_of_year = np.int64((product & _LOW32) // _YEAR_FACTOR) >> 2
    scaled = 2141 * day_of_year + 197_913
    month, day = scaled >> 16, np.int64(np.uint64(scaled & 0xFFFF) // _MONTH_FACTOR) + 1
    if day_of_year >= 306:
        month -= 12
        year += 1
    return year, month, day


@borrowing_kernel
def put_date(days: Int, out: Bytes, o: Int) -> Int:
    """Write ``YYYY-MM-DD``; return the end, made negative (``-end``) if the year is BC. Room: MAX_DATE_TEXT."""
    if o < 0:
        return o
    year, month, day = calendar(days)
    o = put_year(year if year > 0 else 1 - year, out, o)
    out[o] = 45
    put_pair(month, out, o + 1)
    out[o + 3] = 45
    put_pair(day, out, o + 4)
    return o + 6 if year > 0 else -(o + 6)


@borrowing_kernel
def put_fraction(micros: Int, out: Bytes, o: Int) -> Int:
    """Write nothing for 0, else a point and six digits without trailing zeros (AppendSeconds). Room: 7."""
    if o < 0 or micros == 0:
        return o
    out[o] = 46
    high = micros // 100
    put_four(high, out, o + 1)
    put_pair(micros - high * 100, out, o + 5)
    o += 7
    while out[o - 1] == 48:
        o -= 1
    return o


@borrowing_kernel
def put_time(micros: Int, out: Bytes, o: Int) -> Int:
    """Write ``HH:MM:SS[.ffffff]`` of the microseconds of a day, 24:00:00 included. Room: 15."""
    if o < 0:
        return o
    seconds = np.uint64(micros) // _SECOND
    minutes = seconds // _U60
    hours = minutes // _U60
    put_pair(np.int64(hours), out, o)
    out[o + 2] = 58
    put_pair(np.int64(minutes - hours * _U60), out, o + 3)
    out[o + 5] = 58
    put_pair(np.int64(seconds - minutes * _U60), out, o + 6)
    return put_fraction(micros - np.int64(seconds) * SECOND, out, o + 8)


@borrowing_kernel
def put_offset(east: Int, out: Bytes, o: Int) -> Int:
    """Write ``+HH[:MM[:SS]]`` (EncodeTimezone); a zone may be up to 167 hours off. Room: 10."""
    if o < 0:
        return o
    out[o] = 43 if east >= 0 else 45
    seconds = abs(east)
    minutes = seconds // 60
    hours = minutes // 60
    o += 1
    if hours >= 100:
        out[o] = 49
        o += 1
    put_pair(hours % 100, out, o)
    o += 2
    if seconds % 3600 == 0:
        return o
    out[o] = 58
    put_pair(minutes - hours * 60, out, o + 1)
    o += 3
    if seconds % 60 == 0:
        return o
    out[o] = 58
    put_pair(seconds - minutes * 60, out, o + 1)
    return o + 3


@inline_kernel
def period_at(tz_at: NDArray[np.int64], cycle: bool, usec: Int) -> Int:
    """Count the transitions before a UTC time, or before its like in the last 400 years of them (localsub)."""
    n = len(tz_at)
    if n == 0 or usec < tz_at[0]:
        return np.int64(0)
    if cycle and usec > tz_at[n - 1]:
        usec -= ((usec - tz_at[n - 1] - 1) // CYCLE + 1) * CYCLE
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if usec < tz_at[middle]:
            high = middle
        else:
            low = middle + 1
    return np.int64(low)


@borrowing_kernel
def offset_at(tz_at: NDArray[np.int64], tz_offset: NDArray[np.int32], cycle: bool, usec: Int) -> Int:
    """Find the seconds east of Greenwich at a UTC time."""
    return np.int64(tz_offset[period_at(tz_at, cycle, usec)])


@borrowing_kernel
def write_infinity(negative: bool, out: Bytes, o: Int) -> Int:
    """Write ``infinity`` or ``-infinity`` (EncodeSpecialTimestamp)."""
    if no_room(out, o, 9):
        return NEED_SPACE
    if negative:
        out[o] = 45
        o += 1
    put_infinity(out, o, False)
    return o + 8


@borrowing_kernel
def put_before_christ(out: Bytes, o: Int) -> Int:
    """Write `` BC``."""
    out[o] = 32
    out[o + 1] = 66
    out[o + 2] = 67
    return o + 3


@borrowing_kernel
def _write_local(usec: Int, east: Int, zoned: Int, out: Bytes, o: Int) -> Int:
    """Write date, time, offset if `zoned` is not 0, era; `usec` is UTC (or plain local time with `east` 0)."""
    if no_room(out, o, MAX_TIMESTAMP_TEXT):
        return NEED_SPACE
    if usec // DAY < FIRST_DAY:
        return CORRUPT
    day = usec // DAY
    micros = usec - day * DAY + east * SECOND
    shift = micros // DAY
    end = put_date(day + shift, out, o)
    o = abs(end)
    out[o] = 32
    o = put_time(micros - shift * DAY, out, o + 1)
    if zoned != 0:
        o = put_offset(east, out, o)
    return o if end > 0 else put_before_christ(out, o)


@borrowing_kernel
def write_timestamp(usec: Int, out: Bytes, o: Int) -> Int:
    """Write the text of a timestamp without time zone (timestamp_out)."""
    if usec in (INT64_MIN, INT64_MAX):
        return write_infinity(usec < 0, out, o)
    return _write_local(usec, np.int64(0), np.int64(0), out, o)


@borrowing_kernel
def write_timestamptz(
    tz_at: NDArray[np.int64], tz_offset: NDArray[np.int32], cycle: bool, usec: Int, out: Bytes, o: Int
) -> Int:
    """Write the text of a timestamp with time zone in the zone given (timestamptz_out).

    Args:
        tz_at: int64[n] transitions, UTC microseconds since 2000-01-01.
        tz_offset: int32[n+1] seconds east of Greenwich.
        cycle: the last 400 years of transitions repeat.
        usec: the value.
        out: uint8[] text is written at `o`.
        o: where.

    Returns:
        The end of the text, NEED_SPACE, or CORRUPT for a value out of range.
    """
    if usec in (INT64_MIN, INT64_MAX):
        return write_infinity(usec < 0, out, o)
    return _write_local(usec, offset_at(tz_at, tz_offset, cycle, usec), np.int64(1), out, o)


@borrowing_kernel
def write_date(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write the text of a date (date_out)."""
    if misfits(start, length, 4):
        return CORRUPT
    days = load_i32(src, start)
    if days in (INT32_MIN, INT32_MAX):
        return write_infinity(days < 0, out, o)
    if days < FIRST_DAY:
        return CORRUPT
    if no_room(out, o, MAX_DATE_TEXT + 3):
        return NEED_SPACE
    end = put_date(days, out, o)
    return end if end > 0 else put_before_christ(out, -end)


@borrowing_kernel
def write_time(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write the text of a time of day (time_out)."""
    if misfits(start, length, 8):
        return CORRUPT
    micros = load_i64(src, start)
    if micros < 0 or micros > DAY:
        return CORRUPT
    if no_room(out, o, 15):
        return NEED_SPACE
    return put_time(micros, out, o)


@borrowing_kernel
def write_timetz(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write the text of a time of day (int64) with its own offset (int32, seconds west) (timetz_out)."""
    if misfits(start, length, 12):
        return CORRUPT
    micros = load_i64(src, start)
    east = -load_i32(src, start + 8)
    if micros < 0 or micros > DAY or abs(east) >= 16 * 3600:
        return CORRUPT
    if no_room(out, o, 24):
        return NEED_SPACE
    return put_offset(east, out, put_time(micros, out, o))
