"""Kernels for intervals in every IntervalStyle (PostgreSQL: ``datetime.c``, EncodeInterval; ``timestamp.c``).

An interval is microseconds (int64), days and months (int32 each), whose signs may differ. Years are twelve months,
hours are made of the microseconds: both have the sign of the number they are taken from.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel
from headwater.rows._text_bytes import Bytes, Int, load_i32, load_i64, misfits, no_room
from headwater.rows._text_codes import (
    CORRUPT,
    INTERVALS_ISO,
    INTERVALS_SQL,
    INTERVALS_VERBOSE,
    NEED_SPACE,
    SET_INFINITE_INTERVALS,
    SET_INTERVAL_STYLE,
    SET_NARROW_INTERVALS,
)
from headwater.rows.text._datetime import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    SECOND,
    put_fraction,
    write_infinity,
)
from headwater.rows.text._number import put_magnitude, put_pair

MAX_INTERVAL_TEXT = 110

_HOUR, _MINUTE = 3600 * SECOND, 60 * SECOND
_HOURS_LEAST, _DAYS_LEAST = 1, 2  # bits of `least`
_BLANK, _PLUS, _MINUS, _COLON, _S = 32, 43, 45, 58, 115

# Words of five letters or fewer, the first one in the lowest byte.
_YEAR, _MON, _DAY = 0x7261_6579, 0x6E_6F6D, 0x79_6164
_HOURS, _MIN, _SEC, _AGO = 0x7275_6F68, 0x6E_696D, 0x63_6573, 0x6F_6761


@borrowing_kernel
def _put_word(word: Int, out: Bytes, o: Int) -> Int:
    """Write a blank and a word."""
    out[o] = _BLANK
    o += 1
    while word:
        out[o] = word & 255
        word >>= 8
        o += 1
    return o


@borrowing_kernel
def _put_number(value: Int, out: Bytes, o: Int) -> Int:
    """Write a whole number that is not the lowest int64."""
    if value < 0:
        out[o] = _MINUS
        o += 1
    return put_magnitude(np.uint64(abs(value)), out, o)


@borrowing_kernel
def _clock(micros: Int) -> tuple[Int, Int, Int, Int]:
    """Return hours, minutes, seconds and microseconds, all without the sign."""
    size = np.uint64(micros) if micros >= 0 else np.uint64(-(micros + 1)) + np.uint64(1)
    hours = size // np.uint64(_HOUR)
    below = np.int64(size - hours * np.uint64(_HOUR))
    minutes = below // _MINUTE
    seconds = below // SECOND
    return np.int64(hours), minutes, seconds - minutes * 60, below - seconds * SECOND


@borrowing_kernel
def _put_clock(micros: Int, fill: Int, least: Int, out: Bytes, o: Int) -> Int:
    """Write ``H:MM:SS[.ffffff]`` without the sign; hours with at least two digits if `fill`.

    For `least` see :func:`write_interval`.
    """
    hours, minutes, seconds, fraction = _clock(micros)
    if least & _HOURS_LEAST:
        out[o] = _MINUS
        o += 1
    if fill and hours < 100:
        put_pair(hours, out, o)
        o += 2
    else:
        o = put_magnitude(np.uint64(hours), out, o)
    out[o] = _COLON
    put_pair(minutes, out, o + 1)
    out[o + 3] = _COLON
    put_pair(seconds, out, o + 4)
    return put_fraction(fraction, out, o + 6)


@borrowing_kernel
def _put_part(value: Int, word: Int, before: Int, out: Bytes, o: Int) -> Int:
    """Write ``[+]N unit[s]`` unless 0; `before`: sign of the last part printed, 0 for none (AddPostgresIntPart)."""
    if value == 0:
        return o
    if before != 0:
        out[o] = _BLANK
        o += 1
    if before < 0 and value > 0:
        out[o] = _PLUS
        o += 1
    o = _put_word(word, out, _put_number(value, out, o))
    if value != 1:
        out[o] = _S
        o += 1
    return o


@borrowing_kernel
def _sign(value: Int, otherwise: Int) -> Int:
    """Return the sign of a number that is not 0, else another one."""
    return otherwise if value == 0 else np.int64(1) if value > 0 else np.int64(-1)


@borrowing_kernel
def _put_postgres(years: Int, months: Int, days: Int, micros: Int, least: Int, out: Bytes, o: Int) -> Int:
    """Write ``1 year -2 mons +3 days -04:05:06``: a sign where it differs from that of the part before."""
    before: Int = np.int64(0)
    o = _put_part(years, _YEAR, before, out, o)
    before = _sign(years, before)
    o = _put_part(months, _MON, before, out, o)
    before = _sign(months, before)
    o = _put_part(days, _DAY, before, out, o)
    before = _sign(days, before)
    if before != 0 and micros == 0:
        return o
    if before != 0:
        out[o] = _BLANK
        o += 1
    if micros < 0 or before < 0:
        out[o] = _MINUS if micros < 0 else _PLUS
        o += 1
    return _put_clock(micros, True, least, out, o)


@borrowing_kernel
def _put_verbose_part(value: Int, word: Int, first: Int, out: Bytes, o: Int) -> Int:
    """Write `` N unit[s]`` unless 0 (AddVerboseIntPart).

    `first` is the sign of the first part printed, 0 if it is this one.
    """
    if value == 0:
        return o
    shown = abs(value) if first == 0 else value * first
    out[o] = _BLANK
    o = _put_word(word, out, _put_number(shown, out, o + 1))
    if shown != 1:
        out[o] = _S
        o += 1
    return o


@borrowing_kernel
def _put_verbose(years: Int, months: Int, days: Int, micros: Int, least: Int, out: Bytes, o: Int) -> Int:
    """Write ``@ 1 year 2 mons -3 days ... ago``: signs are as against the first part's."""
    out[o] = 64
    o = _put_verbose_part(years, _YEAR, np.int64(0), out, o + 1)
    first = _sign(years, np.int64(0))
    o = _put_verbose_part(months, _MON, first, out, o)
    first = _sign(months, np.int64(0)) if first == 0 else first
    o = _put_verbose_part(days, _DAY, np.int64(1) if least & _DAYS_LEAST else first, out, o)
    first = _sign(days, np.int64(0)) if first == 0 else first
    hours, minutes, seconds, fraction = _clock(micros)
    sign = _sign(micros, np.int64(1))
    o = _put_verbose_part(sign * hours, _HOURS, np.int64(1) if least & _HOURS_LEAST else first, out, o)
    first = sign if first == 0 and hours != 0 else first
    o = _put_verbose_part(sign * minutes, _MIN, first, out, o)
    first = sign if first == 0 and minutes != 0 else first
    if seconds != 0 or fraction != 0:
        first = sign if first == 0 else first
        out[o] = _BLANK
        o += 1
        if sign != first:
            out[o] = _MINUS
            o += 1
        o = put_fraction(fraction, out, put_magnitude(np.uint64(seconds), out, o))
        o = _put_word(_SEC, out, o)
        if seconds != 1 or fraction != 0:
            out[o] = _S
            o += 1
    if first == 0:
        out[o] = _BLANK
        out[o + 1] = 48
        o += 2
    return _put_word(_AGO, out, o) if first < 0 else o


@borrowing_kernel
def _put_days(days: Int, least: Int, out: Bytes, o: Int) -> Int:
    """Write a count of days without its sign, unless 14 gives it one."""
    if least & _DAYS_LEAST:
        out[o] = _MINUS
        o += 1
    return put_magnitude(np.uint64(abs(days)), out, o)


@borrowing_kernel
def _put_signed_parts(years: Int, months: Int, days: Int, micros: Int, least: Int, out: Bytes, o: Int) -> Int:
    """Write ``+1-2 -3 +4:05:06``: intervals without a form in the SQL standard, with all their parts and signs."""
    out[o] = _MINUS if years < 0 or months < 0 else _PLUS
    o = put_magnitude(np.uint64(abs(years)), out, o + 1)
    out[o] = _MINUS
    o = put_magnitude(np.uint64(abs(months)), out, o + 1)
    out[o] = _BLANK
    out[o + 1] = _MINUS if days < 0 else _PLUS
    o = _put_days(days, least, out, o + 2)
    out[o] = _BLANK
    out[o + 1] = _MINUS if micros < 0 else _PLUS
    return _put_clock(micros, False, least, out, o + 2)


@borrowing_kernel
def _put_sql(years: Int, months: Int, days: Int, micros: Int, least: Int, out: Bytes, o: Int) -> Int:
    """Write ``1-2`` of years and months, or ``3 4:05:06`` of days and time, of one sign only."""
    is_negative = years < 0 or months < 0 or days < 0 or micros < 0
    is_positive = years > 0 or months > 0 or days > 0 or micros > 0
    has_months, has_time = years != 0 or months != 0, days != 0 or micros != 0
    if (is_negative and is_positive) or (has_months and has_time):
        return _put_signed_parts(years, months, days, micros, least, out, o)
    if not is_negative and not is_positive:
        out[o] = 48
        return o + 1
    if is_negative:
        out[o] = _MINUS
        o += 1
    if has_months:
        o = put_magnitude(np.uint64(abs(years)), out, o)
        out[o] = _MINUS
        return put_magnitude(np.uint64(abs(months)), out, o + 1)
    if days != 0:
        o = _put_days(days, least, out, o)
        out[o] = _BLANK
        o += 1
    return _put_clock(micros, False, least, out, o)


@borrowing_kernel
def _put_iso_part(value: Int, unit: Int, out: Bytes, o: Int) -> Int:
    """Write a number and its unit unless 0 (AddISO8601IntPart)."""
    if value == 0:
        return o
    o = _put_number(value, out, o)
    out[o] = unit
    return o + 1


@borrowing_kernel
def _put_iso(years: Int, months: Int, days: Int, micros: Int, out: Bytes, o: Int) -> Int:
    """Write ``P1Y2M3DT4H5M6S``, each part with its own sign."""
    is_zero = years == 0 and months == 0 and days == 0 and micros == 0
    out[o] = 80
    o = _put_iso_part(years, 89, out, o + 1)
    o = _put_iso_part(months, 77, out, o)
    o = _put_iso_part(days, 68, out, o)
    if micros != 0 or is_zero:
        out[o] = 84
        o += 1
    hours, minutes, seconds, fraction = _clock(micros)
    sign = -1 if micros < 0 else 1
    o = _put_iso_part(sign * hours, 72, out, o)
    o = _put_iso_part(sign * minutes, 77, out, o)
    if seconds == 0 and fraction == 0 and not is_zero:
        return o
    if micros < 0:
        out[o] = _MINUS
        o += 1
    o = put_fraction(fraction, out, put_magnitude(np.uint64(seconds), out, o))
    out[o] = 83
    return o + 1


@borrowing_kernel
def write_interval(src: Bytes, start: Int, length: Int, settings: NDArray[np.int64], out: Bytes, o: Int) -> Int:
    """Write the text of an interval: microseconds (int64), days (int32), months (int32) (interval_out).

    `settings` of ``TextTables``: one of INTERVALS_*; from 17 on the extremes of all three fields mean infinity. 14
    counts hours and days with an int, has no text for more hours, and cannot turn the sign of the least one (`least`).
    """
    if misfits(start, length, 16):
        return CORRUPT
    micros, days, months = load_i64(src, start), load_i32(src, start + 8), load_i32(src, start + 12)
    if settings[SET_INFINITE_INTERVALS] != 0:
        lowest = micros == INT64_MIN and days == INT32_MIN and months == INT32_MIN
        if lowest or (micros == INT64_MAX and days == INT32_MAX and months == INT32_MAX):
            return write_infinity(lowest, out, o)
    least: Int = np.int64(0)
    if settings[SET_NARROW_INTERVALS] != 0:
        if micros >= -INT32_MIN * _HOUR or micros <= (INT32_MIN - 1) * _HOUR:
            return CORRUPT
        least = (_HOURS_LEAST if micros <= INT32_MIN * _HOUR else 0) | (_DAYS_LEAST if days == INT32_MIN else 0)
    if no_room(out, o, MAX_INTERVAL_TEXT):
        return NEED_SPACE
    sign, style = -1 if months < 0 else 1, settings[SET_INTERVAL_STYLE]
    years = sign * (abs(months) // 12)
    months -= 12 * years
    if style == INTERVALS_VERBOSE:
        return _put_verbose(years, months, days, micros, least, out, o)
    if style == INTERVALS_SQL:
        return _put_sql(years, months, days, micros, least, out, o)
    if style == INTERVALS_ISO:
        return _put_iso(years, months, days, micros, out, o)
    return _put_postgres(years, months, days, micros, least, out, o)
