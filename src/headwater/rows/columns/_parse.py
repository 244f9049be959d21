"""Cells' text back into numbers, for Arrow columns: whole numbers, dates, timestamps, bytea.

Dates and times are read in ISO style, as ``text/_datetime.py`` writes them (PostgreSQL: ``EncodeDateTime`` of
``datetime.c``), years BC, beyond 9999 and offsets with seconds included. Dates become days, timestamps microseconds,
both since 1970-01-01. Infinity and years that are not 1 to 9999, for which Spark has no value, have a status.

``picks`` names the cells to read, -1 where the column has no value.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._copy import copy
from headwater.rows._text_bytes import Bytes, Int

DONE = -1

INTEGERS, DATES, TIMESTAMPS = 0, 1, 2
"""Forms that :func:`parse_numbers` reads."""

FITS, UNREADABLE, INFINITE, BEFORE_YEAR_1, AFTER_YEAR_9999 = 0, 1, 2, 3, 4
"""Statuses that :func:`parse_numbers` gives each value."""

TEXTS, BYTEA = 0, 1
"""Forms that :func:`parse_values` reads."""

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_BAD = -(1 << 63)
_LAST_TENTH = -922_337_203_685_477_580
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31

_0, _9, _LOWER_A, _LOWER_F, _UPPER_B, _UPPER_C, _SPACE = 48, 57, 97, 102, 66, 67, 32
_MINUS, _PLUS, _DOT, _COLON, _BACKSLASH, _LOWER_I, _LOWER_X = 45, 43, 46, 58, 92, 105, 120


@borrowing_kernel
def _digits(text: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Read digits from ``at`` on, 18 at most; (the number, where they end)."""
    value = np.int64(0)
    stop = min(end, at + 18)
    while at < stop and _0 <= text[at] <= _9:
        value = value * 10 + (np.int64(text[at]) - _0)
        at += 1
    return value, at


@borrowing_kernel
def _is_infinity(text: Bytes, at: Int, end: Int) -> Int:
    """Return 1 for ``infinity``, -1 for ``-infinity``, else 0."""
    if end - at == 8 and text[at] == _LOWER_I:
        return 1
    return -1 if end - at == 9 and text[at] == _MINUS and text[at + 1] == _LOWER_I else 0


@borrowing_kernel
def _days(year: Int, month: Int, day: Int) -> Int:
    """Count the days since 1970-01-01 of a date of the proleptic Gregorian calendar, year 0 being 1 BC."""
    years = year - (1 if month <= 2 else 0)
    era = years // 400
    of_era = years - era * 400
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year - 719_468


@borrowing_kernel
def _date(text: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Read ``YYYY-MM-DD``, its era looked up at the end of the text; (days or _BAD, where the date ends)."""
    has_era = end - at > 3 and text[end - 3] == _SPACE
    is_before_christ = has_era and text[end - 2] == _UPPER_B and text[end - 1] == _UPPER_C
    year, dash = _digits(text, at, end)
    month, second = _digits(text, dash + 1, end)
    day, last = _digits(text, second + 1, end)
    if dash - at < 4 or second - dash != 3 or last - second != 3 or last - at > 16:
        return _BAD, last
    if text[dash] != _MINUS or text[second] != _MINUS or not (1 <= month <= 12 and 1 <= day <= 31):
        return _BAD, last
    return _days(1 - year if is_before_christ else year, month, day), last


@borrowing_kernel
def _clock(text: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Read ``HH[:MM[:SS[.ffffff]]]``; (microseconds or _BAD, where it ends)."""
    total, unit, part = np.int64(0), 3600 * _SECOND, 0
    while part < 3:
        value, stop = _digits(text, at, end)
        if stop - at < 2 or stop - at > 3:
            return _BAD, at
        total += value * unit
        unit //= 60
        at = stop
        part += 1
        if at >= end or text[at] != _COLON:
            break
        at += 1
    if part == 3 and at < end and text[at] == _DOT:
        value, stop = _digits(text, at + 1, end)
        if stop - at < 2 or stop - at > 7:
            return _BAD, at
        for _ in range(7 - (stop - at)):
            value *= 10
        return total + value, stop
    return total, at


@borrowing_kernel
def _timestamp(text: Bytes, at: Int, end: Int) -> Int:
    """Read ``YYYY-MM-DD HH:MM:SS[.ffffff][+HH[:MM[:SS]]][ BC]``; microseconds UTC, or _BAD.

    Days far outside of what Spark shows count as near outside, so that their microseconds fit.
    """
    days, at = _date(text, at, end)
    if days == _BAD or at >= end or text[at] != _SPACE:
        return _BAD
    days = min(max(days, _FIRST_DAY - 1000), _LAST_DAY + 1000)
    micros, at = _clock(text, at + 1, end)
    if micros == _BAD:
        return _BAD
    if at < end and (text[at] == _PLUS or text[at] == _MINUS):
        is_east = text[at] == _PLUS
        offset, at = _clock(text, at + 1, end)
        if offset == _BAD:
            return _BAD
        micros += -offset if is_east else offset
    if at != end and not (end - at == 3 and text[at] == _SPACE):
        return _BAD
    return days * _DAY + micros


@borrowing_kernel
def _whole_number(text: Bytes, at: Int, end: Int) -> tuple[Int, bool]:
    """Read an int64, counted downwards as its range is longer there; (the number, whether it is one)."""
    is_negative = at < end and text[at] == _MINUS
    if is_negative:
        at += 1
    value = np.int64(0)
    is_number = at < end
    while at < end:
        digit = np.int64(text[at]) - _0
        if digit < 0 or digit > 9 or value < _LAST_TENTH or (value == _LAST_TENTH and digit > 8):
            return value, False
        value = value * 10 - digit
        at += 1
    if is_negative:
        return value, is_number
    return (value, False) if value == _BAD else (-value, is_number)


@inline_kernel
def _number(form: Int, text: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Read a cell of one of the forms that :func:`parse_numbers` knows; (the number, its status)."""
    if form == INTEGERS:
        value, is_number = _whole_number(text, at, end)
        return value, FITS if is_number else UNREADABLE
    if _is_infinity(text, at, end) != 0:
        return np.int64(0), INFINITE
    first, last = np.int64(_FIRST_DAY), np.int64(_LAST_DAY)
    if form == DATES:
        value, stop = _date(text, at, end)
        if stop != end and end - stop != 3:
            return np.int64(0), UNREADABLE
    else:
        value = _timestamp(text, at, end)
        first, last = first * _DAY, (last + 1) * _DAY - 1
    if value == _BAD:
        return np.int64(0), UNREADABLE
    if value < first:
        return np.int64(0), BEFORE_YEAR_1
    return (value, FITS) if value <= last else (np.int64(0), AFTER_YEAR_9999)


@borrowing_kernel
def parse_numbers(
    form: Int,
    text: Bytes,
    start: NDArray[np.int64],
    length: NDArray[np.int32],
    picks: NDArray[np.int64],
    out: NDArray[np.int64 | np.int32],
    fits: NDArray[np.uint8],
) -> Int:
    """Parse whole numbers, dates as days or timestamps as microseconds, both since 1970-01-01.

    Timestamps with an offset are in UTC.

    Args:
        form: INTEGERS, DATES or TIMESTAMPS.
        text: uint8[] of the cells.
        start: int64[m] of the cells.
        length: int32[m] of the cells.
        picks: int64[k] cells or -1.
        out: int64[k], for dates int32[k]; 0 where there is no value, or none that fits.
        fits: uint8[k] gets FITS, UNREADABLE, INFINITE, BEFORE_YEAR_1 or AFTER_YEAR_9999.

    Returns:
        how many do not fit.
    """
    misfits = 0
    for row in range(len(picks)):
        value, status = np.int64(0), FITS
        if picks[row] >= 0:
            at = start[picks[row]]
            value, status = _number(form, text, at, at + length[picks[row]])
        out[row], fits[row] = value, status
        misfits += status != FITS
    return misfits


@borrowing_kernel
def _nibble(digit: Int) -> Int:
    """Return the value of a lower-case hexadecimal digit, -1 for anything else."""
    if _0 <= digit <= _9:
        return np.int64(digit) - _0
    return np.int64(digit) - _LOWER_A + 10 if _LOWER_A <= digit <= _LOWER_F else np.int64(-1)


@borrowing_kernel
def _hexadecimal(text: Bytes, at: Int, end: Int, out: Bytes, o: Int) -> Int:
    """Turn pairs of digits into bytes; the new ``o`` or -1."""
    if (end - at) & 1:
        return -1
    while at < end:
        value = _nibble(text[at]) << 4 | _nibble(text[at + 1])
        if value < 0:
            return -1
        out[o] = value
        o += 1
        at += 2
    return o


@borrowing_kernel
def _escaped(text: Bytes, at: Int, end: Int, out: Bytes, o: Int) -> Int:
    r"""Read bytes with ``\\`` and ``\ooo`` among them; the new ``o`` or -1."""
    while at < end:
        if text[at] != _BACKSLASH:
            out[o] = text[at]
            at += 1
        elif at + 1 < end and text[at + 1] == _BACKSLASH:
            out[o] = _BACKSLASH
            at += 2
        else:
            value, stop = _digits(text, at + 1, min(at + 4, end))
            if stop != at + 4:
                return -1
            out[o] = (value // 100 * 64 + value // 10 % 10 * 8 + value % 10) & 0xFF
            at += 4
        o += 1
    return o


@inline_kernel
def _bytea(text: Bytes, at: Int, end: Int, out: Bytes, o: Int) -> Int:
    """Read bytes, in either form of ``bytea_output``; the new ``o`` or -1."""
    if end - at >= 2 and text[at] == _BACKSLASH and text[at + 1] == _LOWER_X:
        return _hexadecimal(text, at + 2, end, out, o)
    return _escaped(text, at, end, out, o)


@borrowing_kernel
def parse_values(
    form: Int,
    text: Bytes,
    start: NDArray[np.int64],
    length: NDArray[np.int32],
    picks: NDArray[np.int64],
    out: Bytes,
    offsets: NDArray[np.int64],
) -> Int:
    """Write the texts themselves, or the bytes that they stand for, one after the other.

    Returns DONE or the pick not to be read.

    Args:
        form: TEXTS or BYTEA.
        text: uint8[] of the cells.
        start: int64[m] of the cells.
        length: int32[m] of the cells.
        picks: int64[k] cells or -1.
        out: uint8[] as long as the cells' texts together.
        offsets: int64[k+1] gets each value's offset in out.
    """
    o = 0
    for row in range(len(picks)):
        offsets[row] = o
        if picks[row] >= 0:
            at, size = start[picks[row]], np.int64(length[picks[row]])
            o = copy(text, at, out, o, size) if form == TEXTS else _bytea(text, at, at + size, out, o)
            if o < 0:
                return row
    offsets[len(picks)] = o
    return DONE
