"""Kernels for dates and timestamps in the styles SQL, Postgres and German (PostgreSQL: ``datetime.c``).

Mirrors EncodeDateOnly and EncodeDateTime. In these styles a timestamp with time zone shows the zone's abbreviation,
which no zone lacks; it may be empty. Abbreviations are numbered: ``tz_label`` (int32[n+1]) goes with the transitions as
``tz_offset`` does, and ``tz_labels`` has a slot of LABEL_SIZE bytes for each: its length, and up to ten bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel
from headwater.rows._text_bytes import Bytes, Int, load_i32, load_i64, misfits, no_room
from headwater.rows._text_codes import (
    CORRUPT,
    DATES_GERMAN,
    DATES_POSTGRES,
    DATES_SQL,
    LABEL_SIZE,
    NEED_SPACE,
)
from headwater.rows.text._datetime import (
    DAY,
    FIRST_DAY,
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    MAX_TIMESTAMP_TEXT,
    SECOND,
    calendar,
    put_before_christ,
    put_time,
    put_year,
    write_infinity,
)
from headwater.rows.text._number import put_pair

_ROOM = MAX_TIMESTAMP_TEXT + 4 + LABEL_SIZE
_DAYS = np.frombuffer(b"SunMonTueWedThuFriSat", np.uint8).copy()
_MONTHS = np.frombuffer(b"JanFebMarAprMayJunJulAugSepOctNovDec", np.uint8).copy()
_BLANK = 32


@borrowing_kernel
def _put_three(names: Bytes, number: Int, out: Bytes, o: Int) -> Int:
    """Write a name of three letters by its number, and a blank."""
    for i in range(3):
        out[o + i] = names[3 * number + i]
    out[o + 3] = _BLANK
    return o + 4


@borrowing_kernel
def _put_numbers(days: Int, style: Int, day_first: Int, out: Bytes, o: Int) -> Int:
    """Write ``12/31/1999`` or the like; return the end, made negative if the year is BC."""
    year, month, day = calendar(days)
    mark = 47 if style == DATES_SQL else 46 if style == DATES_GERMAN else 45
    leads_with_day = style == DATES_GERMAN or day_first != 0
    put_pair(day if leads_with_day else month, out, o)
    out[o + 2] = mark
    put_pair(month if leads_with_day else day, out, o + 3)
    out[o + 5] = mark
    o = put_year(year if year > 0 else 1 - year, out, o + 6)
    return o if year > 0 else -o


@borrowing_kernel
def _put_words(days: Int, micros: Int, day_first: Int, out: Bytes, o: Int) -> Int:
    """Write ``Fri Dec 31 23:59:59 1999``; return the end, made negative if the year is BC."""
    year, month, day = calendar(days)
    o = _put_three(_DAYS, (days + 6) % 7, out, o)
    if day_first == 0:
        o = _put_three(_MONTHS, month - 1, out, o)
    put_pair(day, out, o)
    out[o + 2] = _BLANK
    o += 3
    if day_first != 0:
        o = _put_three(_MONTHS, month - 1, out, o)
    o = put_time(micros, out, o)
    out[o] = _BLANK
    o = put_year(year if year > 0 else 1 - year, out, o + 1)
    return o if year > 0 else -o


@borrowing_kernel
def _put_local(usec: Int, east: Int, style: Int, day_first: Int, out: Bytes, o: Int) -> Int:
    """Write date and time of a UTC time at an offset; return the end, made negative if the year is BC."""
    days = usec // DAY
    micros = usec - days * DAY + east * SECOND
    shift = micros // DAY
    days, micros = days + shift, micros - shift * DAY
    if style == DATES_POSTGRES:
        return _put_words(days, micros, day_first, out, o)
    end = _put_numbers(days, style, day_first, out, o)
    o = abs(end)
    out[o] = _BLANK
    o = put_time(micros, out, o + 1)
    return o if end > 0 else -o


@borrowing_kernel
def write_styled_date(src: Bytes, start: Int, length: Int, style: Int, day_first: Int, out: Bytes, o: Int) -> Int:
    """Write the text of a date (date_out); `day_first`: the order is DMY."""
    if misfits(start, length, 4):
        return CORRUPT
    days = load_i32(src, start)
    if days in (INT32_MIN, INT32_MAX):
        return write_infinity(days < 0, out, o)
    if days < FIRST_DAY:
        return CORRUPT
    if no_room(out, o, _ROOM):
        return NEED_SPACE
    end = _put_numbers(days, style, day_first, out, o)
    return end if end > 0 else put_before_christ(out, -end)


@borrowing_kernel
def write_styled_timestamp(src: Bytes, start: Int, length: Int, style: Int, day_first: Int, out: Bytes, o: Int) -> Int:
    """Write the text of a timestamp without time zone (timestamp_out)."""
    if misfits(start, length, 8):
        return CORRUPT
    usec = load_i64(src, start)
    if usec in (INT64_MIN, INT64_MAX):
        return write_infinity(usec < 0, out, o)
    if usec // DAY < FIRST_DAY:
        return CORRUPT
    if no_room(out, o, _ROOM):
        return NEED_SPACE
    end = _put_local(usec, np.int64(0), style, day_first, out, o)
    return end if end > 0 else put_before_christ(out, -end)


@borrowing_kernel
def write_styled_timestamptz(
    zone: tuple[NDArray[np.int32], NDArray[np.int32], Bytes],
    period: Int,
    usec: Int,
    style: Int,
    day_first: Int,
    out: Bytes,
    o: Int,
) -> Int:
    """Write the text of a timestamp with time zone (timestamptz_out).

    Args:
        zone: seconds east of Greenwich (int32[n+1]), numbers of abbreviations (int32[n+1]), and the abbreviations
            (uint8[k * LABEL_SIZE]).
        period: ``period_at`` of the value.
        usec: the value.
        style: one of DATES_*, but for DATES_ISO.
        day_first: 1 if the order is DMY, else 0.
        out: uint8[] text is written at `o`.
        o: where.

    Returns:
        The end of the text, NEED_SPACE, or CORRUPT for a value out of range.
    """
    if usec in (INT64_MIN, INT64_MAX):
        return write_infinity(usec < 0, out, o)
    if usec // DAY < FIRST_DAY:
        return CORRUPT
    if no_room(out, o, _ROOM):
        return NEED_SPACE
    tz_offset, tz_label, tz_labels = zone
    end = _put_local(usec, np.int64(tz_offset[period]), style, day_first, out, o)
    o = abs(end)
    out[o] = _BLANK
    slot = LABEL_SIZE * np.int64(tz_label[period])
    size = np.int64(tz_labels[slot])
    for i in range(size):
        out[o + 1 + i] = tz_labels[slot + 1 + i]
    o += 1 + size
    return o if end > 0 else put_before_christ(out, o)
