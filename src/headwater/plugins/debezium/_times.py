"""Kernels of debezium for dates, times and intervals, from the server's text in ISO style to what the connector shows.

Results are as in Java: years are those of the proleptic Gregorian calendar, with a year 0; an hour 24 of a time of day
is midnight as ISO text, and 24 hours as a number. The interval's style must be ``postgres``. Infinities are those of
Java's ``LocalDate`` and ``Instant`` and of the driver's ``PGInterval``.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.plugins._messages import put_decimal
from headwater.plugins.debezium._numbers import MINUS, NINE, NO_VALUE, POINT, QUOTE, UNTELLABLE, ZERO
from headwater.rows._copy import copy
from headwater.rows._text_bytes import Bytes, Int

AS_MILLIS, AS_MICROS, AS_NANOS, AS_ISO = 0, 1, 2, 3
"""The forms in which moments and times of day are shown."""

DAY = 86_400_000_000
"""The microseconds of a day."""

_PLUS, _COLON, _LETTER_T, _LETTER_Z, _LETTER_I, _SPACE = 0x2B, 0x3A, 0x54, 0x5A, 0x69, 0x20

# Dates of the driver's infinity, in days, and moments, in microseconds, since 1970.
_MAX_DATE, _MIN_DATE = -2147472692, -2147472691
_MAX_TIME, _MIN_TIME = 9223372036825200000, -9223372036832400000
_MAX_LONG, _MIN_LONG = 9223372036854775807, -9223372036854775808

INFINITY_TEXT = np.frombuffer(b'"-infinity"', np.uint8).copy()


@inline_kernel
def put_signed(value: Int, out: Bytes, o: Int) -> Int:
    """Write a number in decimal digits; the caller has checked the room."""
    if value >= 0:
        return put_decimal(value, out, o)
    out[o] = MINUS
    if value == _MIN_LONG:
        o = put_decimal(np.int64(922337203685477580), out, o + 1)
        return put_decimal(np.int64(8), out, o)
    return put_decimal(-value, out, o + 1)


@inline_kernel
def _put_padded(value: Int, digits: Int, out: Bytes, o: Int) -> Int:
    for i in range(digits):
        out[o + digits - 1 - i] = ZERO + value % 10
        value //= 10
    return o + digits


@inline_kernel
def _number(src: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Read digits; return the number, and where it ends."""
    value = np.int64(0)
    while at < end and ZERO <= src[at] <= NINE:
        value = value * 10 + np.int64(src[at]) - ZERO
        at += 1
    return value, at


@inline_kernel
def _days(year: Int, month: Int, day: Int) -> Int:
    """Return the days since 1970-01-01 in the proleptic Gregorian calendar."""
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@inline_kernel
def _civil(days: Int) -> tuple[Int, Int, Int]:
    """Return year, month and day of a day since 1970-01-01."""
    days += 719468
    era = days // 146097
    of_era = days - era * 146097
    years = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * years + years // 4 - years // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return years + era * 400 + (month <= 2), month, day


@borrowing_kernel
def _read_date(src: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Read ``2020-02-29`` as days since 1970; return these, and where it ends.

    `end` is the end of the whole text, which may have BC.
    """
    year, at = _number(src, at, end)
    month, at = _number(src, at + 1, end)
    day, at = _number(src, at + 1, end)
    if end > at + 2 and src[end - 1] == 0x43 and src[end - 2] == 0x42:
        year = 1 - year
    return _days(year, month, day), at


@borrowing_kernel
def _read_time(src: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Read ``01:02:03.456`` as microseconds; return these, and where it ends."""
    hours, at = _number(src, at, end)
    minutes, at = _number(src, at + 1, end)
    seconds, at = _number(src, at + 1, end)
    micros = np.int64(0)
    if at < end and src[at] == POINT:
        first = at + 1
        micros, at = _number(src, first, end)
        for _ in range(6 - (at - first)):
            micros *= 10
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros, at


@borrowing_kernel
def _read_offset(src: Bytes, at: Int, end: Int) -> tuple[Int, Int, Int]:
    """Read ``+05:30`` as microseconds; return these, the number of its parts, and where it ends."""
    sign = -1 if src[at] == MINUS else 1
    seconds, parts, factor = np.int64(0), np.int64(0), np.int64(3600)
    while at < end and parts < 3 and (parts == 0 or src[at] == _COLON):
        value, at = _number(src, at + 1, end)
        seconds += value * factor
        factor //= 60
        parts += 1
    return sign * seconds * 1_000_000, parts, at


@inline_kernel
def _infinity(src: Bytes, start: Int, length: Int) -> Int:
    """Return 1 for infinity, -1 for -infinity, 0 for any other text."""
    if length > 8 and src[start] == MINUS and src[start + 1] == _LETTER_I:
        return -1
    return 1 if length > 7 and src[start] == _LETTER_I else 0


@borrowing_kernel
def _put_day(days: Int, out: Bytes, o: Int) -> Int:
    """Write a date as ``LocalDate`` prints it."""
    year, month, day = _civil(days)
    if year > 9999:
        out[o] = _PLUS
        o = put_decimal(year, out, o + 1)
    else:
        if year < 0:
            out[o] = MINUS
            o += 1
        o = put_decimal(abs(year), out, o) if abs(year) > 9999 else _put_padded(abs(year), 4, out, o)
    out[o] = MINUS
    o = _put_padded(month, 2, out, o + 1)
    out[o] = MINUS
    return _put_padded(day, 2, out, o + 1)


@borrowing_kernel
def _put_clock(micros: Int, digits: Int, out: Bytes, o: Int) -> Int:
    """Write a time of day with `digits` digits of a second's fraction; below 0, with as many as it has."""
    seconds = micros // 1_000_000
    o = _put_padded(seconds // 3600, 2, out, o)
    out[o] = _COLON
    o = _put_padded(seconds // 60 % 60, 2, out, o + 1)
    out[o] = _COLON
    o = _put_padded(seconds % 60, 2, out, o + 1)
    rest, count = micros % 1_000_000, 6
    if digits >= 0:
        for _ in range(6 - digits):
            rest //= 10
        count = digits
    while digits < 0 and count > 0 and rest % 10 == 0:
        rest //= 10
        count -= 1
    if count > 0:
        out[o] = POINT
        o = _put_padded(rest, count, out, o + 1)
    return o


@inline_kernel
def _put_end(out: Bytes, o: Int) -> Int:
    """Write ``Z"``, the end of an ISO text."""
    out[o] = _LETTER_Z
    out[o + 1] = QUOTE
    return o + 2


@borrowing_kernel
def put_date(src: Bytes, start: Int, length: Int, form: Int, out: Bytes, o: Int) -> Int:
    """Write a date, in days or as ISO text."""
    infinity = _infinity(src, start, length)
    days, _ = _read_date(src, start, start + length)
    if infinity != 0:
        days = np.int64(_MAX_DATE if infinity > 0 else _MIN_DATE)
    if form != AS_ISO:
        return put_signed(days, out, o)
    out[o] = QUOTE
    return _put_end(out, _put_day(days, out, o + 1))


@inline_kernel
def _put_micros(micros: Int, form: Int, out: Bytes, o: Int) -> Int:
    if form == AS_MILLIS:
        return put_signed(micros // 1000, out, o)
    return put_signed(micros if form == AS_MICROS else micros * 1000, out, o)


@borrowing_kernel
def put_time(src: Bytes, start: Int, length: Int, form: Int, out: Bytes, o: Int) -> Int:
    """Write a time of day."""
    micros, _ = _read_time(src, start, start + length)
    if form != AS_ISO:
        return _put_micros(micros, form, out, o)
    out[o] = QUOTE
    return _put_end(out, _put_clock(micros % DAY, np.int64(-1), out, o + 1))


@borrowing_kernel
def put_timetz(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a time of day with offset, as of UTC; UNTELLABLE for seconds in the offset: the connector stops at them."""
    end = start + length
    micros, at = _read_time(src, start, end)
    offset, parts, _ = _read_offset(src, at, end)
    if parts > 2:
        return UNTELLABLE
    out[o] = QUOTE
    return _put_end(out, _put_clock((micros - offset) % DAY, np.int64(-1), out, o + 1))


@borrowing_kernel
def put_timestamp(src: Bytes, start: Int, length: Int, form: Int, out: Bytes, o: Int) -> Int:
    """Write a moment without a zone; UNTELLABLE if its microseconds do not fit, NO_VALUE if its nanoseconds do not."""
    infinity = _infinity(src, start, length)
    days, at = _read_date(src, start, start + length)
    micros, _ = _read_time(src, at + 1, start + length)
    if infinity != 0:
        if form == AS_NANOS:
            return put_signed(np.int64(_MAX_LONG if infinity > 0 else _MIN_LONG), out, o)
        moment = np.int64(_MAX_TIME if infinity > 0 else _MIN_TIME)
        days, micros = moment // DAY, moment % DAY
    if form == AS_ISO:
        out[o] = QUOTE
        o = _put_day(days, out, o + 1)
        out[o] = _LETTER_T
        return _put_end(out, _put_clock(micros, np.int64(-1), out, o + 1))
    if form == AS_MILLIS:
        return put_signed(days * (DAY // 1000) + micros // 1000, out, o)
    if days > _MAX_LONG // DAY or (days == _MAX_LONG // DAY and micros > _MAX_LONG % DAY):
        return NO_VALUE if form == AS_NANOS else UNTELLABLE
    moment = days * DAY + micros
    if form == AS_NANOS and not _MIN_LONG // 1000 < moment <= _MAX_LONG // 1000:
        return NO_VALUE
    return _put_micros(moment, form, out, o)


@borrowing_kernel
def put_timestamptz(src: Bytes, start: Int, length: Int, digits: Int, out: Bytes, o: Int) -> Int:
    """Write a moment, as of UTC, with `digits` digits of a second's fraction."""
    end = start + length
    infinity = _infinity(src, start, length)
    if infinity != 0:
        out[o] = QUOTE
        skipped = 2 if infinity > 0 else 1
        return copy(INFINITY_TEXT, skipped, out, o + 1, len(INFINITY_TEXT) - skipped)
    days, at = _read_date(src, start, end)
    micros, at = _read_time(src, at + 1, end)
    offset, _, _ = _read_offset(src, at, end)
    micros -= offset
    out[o] = QUOTE
    o = _put_day(days + micros // DAY, out, o + 1)
    out[o] = _LETTER_T
    return _put_end(out, _put_clock(micros % DAY, digits, out, o + 1))


@borrowing_kernel
def _read_interval(src: Bytes, start: Int, length: Int) -> tuple[Int, Int, Int, Int, Int, Int, Int]:
    """Read an interval; return 1, or 0 if the text is none, and its parts, each with its sign.

    The parts are years, months, days, hours, minutes, and microseconds of seconds.
    """
    end, at = start + length, start
    years, months, days = np.int64(0), np.int64(0), np.int64(0)
    hours, minutes, micros = np.int64(0), np.int64(0), np.int64(0)
    while at < end:
        sign = -1 if src[at] == MINUS else 1
        at += src[at] == MINUS or src[at] == _PLUS
        if not ZERO <= src[at] <= NINE:
            return 0, years, months, days, hours, minutes, micros
        first = at
        value, at = _number(src, at, end)
        if at < end and src[at] == _COLON:
            time, at = _read_time(src, first, end)
            hours, minutes, micros = sign * (time // 3_600_000_000), sign * (time // 60_000_000 % 60), time % 60_000_000
            micros *= sign
        else:
            unit = src[at + 1] if at + 1 < end else 0
            if unit == 0x79:
                years = sign * value
            elif unit == 0x6D:
                months = sign * value
            elif unit == 0x64:
                days = sign * value
            else:
                return 0, years, months, days, hours, minutes, micros
            at += 1
            while at < end and src[at] != _SPACE:
                at += 1
        at += 1
    return 1, years, months, days, hours, minutes, micros


@inline_kernel
def _put_part(value: Int, letter: Int, out: Bytes, o: Int) -> Int:
    o = put_signed(value, out, o)
    out[o] = letter
    return o + 1


@borrowing_kernel
def put_interval(src: Bytes, start: Int, length: Int, is_iso: Int, out: Bytes, o: Int) -> Int:
    """Write an interval, in microseconds with months of 30.4375 days, or as ISO text; UNTELLABLE if it is infinite."""
    is_one, years, months, days, hours, minutes, micros = _read_interval(src, start, length)
    if not is_one:
        return UNTELLABLE
    if not is_iso:
        all_days = (years * 12 + months) * 30.4375 + days
        sign = -1 if micros < 0 else 1
        seconds = sign * (sign * micros // 1_000_000 + sign * micros % 1_000_000 / 1e6)
        value = (((all_days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1e6
        if value >= 9.2233720368547758e18:
            return put_signed(np.int64(_MAX_LONG), out, o)
        return put_signed(np.int64(_MIN_LONG) if value <= -9.2233720368547758e18 else np.int64(value), out, o)
    out[o] = QUOTE
    out[o + 1] = 0x50
    o = _put_part(years, 0x59, out, o + 2)
    o = _put_part(months, 0x4D, out, o)
    o = _put_part(days, 0x44, out, o)
    out[o] = _LETTER_T
    o = _put_part(hours, 0x48, out, o + 1)
    o = _put_part(minutes, 0x4D, out, o)
    o = _put_seconds(micros, out, o)
    out[o] = 0x53
    out[o + 1] = QUOTE
    return o + 2


@inline_kernel
def _put_seconds(micros: Int, out: Bytes, o: Int) -> Int:
    """Write seconds with as many digits of their fraction as they have.

    The driver adds the fraction to the whole seconds. Where the sum is less than it should be, the connector shows nine
    digits of the sum.
    """
    if micros < 0:
        out[o] = MINUS
        o += 1
        micros = -micros
    is_less = micros // 1_000_000 + micros % 1_000_000 / 1e6 < micros / 1e6
    nanos = micros * 1000 - np.int64(is_less)
    o = put_decimal(nanos // 1_000_000_000, out, o)
    rest, count = nanos % 1_000_000_000, 9
    while count > 0 and rest % 10 == 0:
        rest //= 10
        count -= 1
    if count > 0:
        out[o] = POINT
        o = _put_padded(rest, count, out, o + 1)
    return o
