"""Kernel: the printed text of arrays, rows and ranges taken apart into the texts of their parts.

PostgreSQL: array_out (arrayfuncs.c), record_out (rowtypes.c), range_out (rangetypes.c), multirange_out. A part between
quotation marks is what they hold, without escapes. One that is not, is null if it says so: ``NULL`` in an array,
nothing in a row or a range.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import Bytes, Int

ARRAY, ROW, RANGE, MULTIRANGE = 0, 1, 2, 3
"""Forms of text."""

FITS, MALFORMED, DIMENSIONS, BOUNDS = 0, 1, 2, 3
"""Statuses of values; the last two are arrays of several dimensions, and such as do not begin with 1."""

EMPTY, LOWER_INC, UPPER_INC = 1, 2, 4
"""Flags of a range."""

_QUOTE, _BACKSLASH, _COMMA, _OPEN, _CLOSE = 34, 92, 44, 123, 125
_ROUND_OPEN, _ROUND_CLOSE, _SQUARE_OPEN, _SQUARE_CLOSE, _LOWER_E = 40, 41, 91, 93, 101
_NULL = np.frombuffer(b"NULL", np.uint8).copy()

Int64s = NDArray[np.int64]


@inline_kernel
def _ends(byte: Int, form: Int, delimiter: Int) -> bool:
    """Tell whether a byte ends a part that is not quoted."""
    if byte == delimiter:
        return True
    if form == ARRAY:
        return bool(byte == _CLOSE)
    return bool(byte == _ROUND_CLOSE or (form != ROW and byte == _SQUARE_CLOSE))


@borrowing_kernel
def _part(text: Bytes, at: Int, end: Int, form: Int, delimiter: Int, arena: Bytes, o: Int) -> tuple[Int, Int, Int]:
    """Copy a part; (where it ends in the text, where in the arena, 1 if anything of it was quoted)."""
    quoted, inside = 0, False
    while at < end:
        byte = text[at]
        if byte == _QUOTE:
            if inside and form != ARRAY and at + 1 < end and text[at + 1] == _QUOTE:
                arena[o] = byte
                o, at = o + 1, at + 2
                continue
            inside, quoted, at = not inside, 1, at + 1
            continue
        if byte == _BACKSLASH and at + 1 < end:
            at += 1
            byte = text[at]
        elif not inside and _ends(byte, form, delimiter):
            return at, o, quoted
        arena[o] = byte
        o, at = o + 1, at + 1
    return -1, o, quoted


@inline_kernel
def _is_null(arena: Bytes, start: Int, end: Int, form: Int) -> bool:
    """Tell whether a part that is not quoted stands for nothing."""
    if form != ARRAY:
        return bool(start == end)
    same = 0
    for at in range(min(end - start, 4)):
        same += arena[start + at] == _NULL[at]
    return bool(same == 4 and end - start == 4)


@borrowing_kernel
def _parts(
    text: Bytes,
    span: tuple[Int, Int],
    form: Int,
    delimiter: Int,
    arena: Bytes,
    place: tuple[Int, Int],
    out: tuple[NDArray[np.uint8], Int64s, Int64s],
) -> tuple[Int, Int, Int]:
    """Take parts from behind an opening bracket on; (where the closing one is or -1, parts in all, end in the arena).

    Args:
        text: in which the value lies; span: where its first part begins, and where it ends.
        form: ARRAY, ROW or RANGE; delimiter: between parts.
        arena: gets texts of parts; place: how many parts there are, and where the arena goes on.
        out: whether each part is there, where it lies in the arena, how long it is; empty to count only.
    """
    at, end = span
    number, o = place
    is_there, starts, lengths = out
    while at < end:
        if form == ARRAY and text[at] == _OPEN:
            return -2, number, o
        stop, after, quoted = _part(text, at, end, form, delimiter, arena, o)
        if stop < 0:
            return -1, number, o
        if len(starts):
            is_there[number] = 0 if not quoted and _is_null(arena, o, after, form) else 1
            starts[number], lengths[number] = o, after - o
        number, o = number + 1, after
        if text[stop] != delimiter:
            return stop, number, o
        at = stop + 1
    return -1, number, o


@borrowing_kernel
def _array(
    text: Bytes,
    span: tuple[Int, Int],
    delimiter: Int,
    arena: Bytes,
    place: tuple[Int, Int],
    out: tuple[NDArray[np.uint8], Int64s, Int64s],
) -> tuple[Int, Int, Int]:
    """Take an array apart; (its status, parts in all, end in the arena)."""
    at, end = span
    number, o = place
    if at < end and text[at] == _SQUARE_OPEN:
        while at < end and text[at] != _SQUARE_CLOSE:
            at += 1
        return (DIMENSIONS if at + 1 < end and text[at + 1] == _SQUARE_OPEN else BOUNDS), number, o
    if end - at < 2 or text[at] != _OPEN:
        return MALFORMED, number, o
    if end - at == 2 and text[at + 1] == _CLOSE:
        return FITS, number, o
    stop, parts, o = _parts(text, (at + 1, end), ARRAY, delimiter, arena, place, out)
    if stop == -2:
        return DIMENSIONS, number, o
    return (FITS if stop == end - 1 else MALFORMED), parts, o


@borrowing_kernel
def _row(
    text: Bytes,
    span: tuple[Int, Int],
    arena: Bytes,
    place: tuple[Int, Int],
    out: tuple[NDArray[np.uint8], Int64s, Int64s],
) -> tuple[Int, Int, Int]:
    """Take a row apart; as :func:`_array`."""
    at, end = span
    if end - at < 2 or text[at] != _ROUND_OPEN:
        return MALFORMED, place[0], place[1]
    stop, parts, o = _parts(text, (at + 1, end), ROW, _COMMA, arena, place, out)
    return (FITS if stop == end - 1 else MALFORMED), parts, o


@borrowing_kernel
def _range(
    text: Bytes,
    span: tuple[Int, Int],
    arena: Bytes,
    place: tuple[Int, Int],
    out: tuple[NDArray[np.uint8], Int64s, Int64s],
) -> tuple[Int, Int, Int, Int]:
    """Take a range apart; (its flags or -1, where it ends, parts in all, end in the arena)."""
    at, end = span
    if end - at >= 5 and text[at] == _LOWER_E:
        return EMPTY, at + 5, place[0], place[1]
    if end - at < 3 or (text[at] != _SQUARE_OPEN and text[at] != _ROUND_OPEN):
        return -1, at, place[0], place[1]
    stop, parts, o = _parts(text, (at + 1, end), RANGE, _COMMA, arena, place, out)
    if stop < 0 or parts != place[0] + 2:
        return -1, at, parts, o
    flags = (LOWER_INC if text[at] == _SQUARE_OPEN else 0) | (UPPER_INC if text[stop] == _SQUARE_CLOSE else 0)
    return flags, stop + 1, parts, o


@borrowing_kernel
def take_ranges_apart(
    text: Bytes,
    spans: tuple[Int64s, Int64s],
    form: Int,
    counts: Int64s,
    flags: NDArray[np.uint8],
    arena: Bytes,
    out: tuple[NDArray[np.uint8], Int64s, Int64s],
) -> tuple[Int, Int, Int]:
    """Take ranges, or multiranges, apart.

    Args:
        text: in which values lie; spans: int64[n] where each begins, and where it ends.
        form: RANGE or MULTIRANGE.
        counts: int64[n] gets how many ranges each has.
        flags: uint8[ranges] gets those of each range; empty to count only.
        arena: uint8[] as long as the text; out: see :func:`_parts`.

    Returns:
        FITS or MALFORMED, the value at which it stopped or the number of ranges, how many parts there are.
    """
    starts, ends = spans
    ranges, parts, o = 0, 0, 0
    for value in range(len(starts)):
        at, end = starts[value], ends[value]
        is_multi = form == MULTIRANGE
        last = end - 1 if is_multi else end
        if is_multi and (end - at < 2 or text[at] != _OPEN or text[last] != _CLOSE):
            return MALFORMED, value, parts
        at += 1 if is_multi else 0
        counts[value] = 0
        while at < last:
            own, at, parts, o = _range(text, (at, last), arena, (parts, o), out)
            if own < 0 or (at < last and (not is_multi or text[at] != _COMMA)):
                return MALFORMED, value, parts
            if len(flags):
                flags[ranges] = own
            at += 1 if at < last else 0
            ranges, counts[value] = ranges + 1, counts[value] + 1
        if not is_multi and counts[value] != 1:
            return MALFORMED, value, parts
    return FITS, ranges, parts


@borrowing_kernel
def take_apart(
    text: Bytes,
    spans: tuple[Int64s, Int64s],
    form: Int,
    delimiter: Int,
    counts: Int64s,
    statuses: NDArray[np.uint8],
    arena: Bytes,
    out: tuple[NDArray[np.uint8], Int64s, Int64s],
) -> Int:
    """Take arrays or rows apart.

    Args:
        text: in which values lie; spans: int64[n] where each begins, and where it ends.
        form: ARRAY or ROW; delimiter: between an array's parts.
        counts: int64[n] gets how many parts each has, statuses: uint8[n] FITS, or why it has none.
        arena: uint8[] as long as the text; out: see :func:`_parts`.

    Returns:
        how many parts there are.
    """
    starts, ends = spans
    number, o = 0, 0
    for value in range(len(starts)):
        span, place = (starts[value], ends[value]), (number, o)
        if form == ARRAY:
            status, parts, after = _array(text, span, delimiter, arena, place, out)
        else:
            status, parts, after = _row(text, span, arena, place, out)
        statuses[value], counts[value] = status, 0
        if status == FITS:
            counts[value] = parts - number
            number, o = parts, after
    return number


_MINUS, _PLUS, _DOT, _COLON, _SPACE, _0, _9 = 45, 43, 46, 58, 32, 48, 57
_MINUTE, _SECOND = 60, 1_000_000


@borrowing_kernel
def _number(text: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Read digits, 18 at most; (the number, where they end)."""
    value, stop = np.int64(0), min(end, at + 18)
    while at < stop and _0 <= text[at] <= _9:
        value = value * 10 + (np.int64(text[at]) - _0)
        at += 1
    return value, at


@borrowing_kernel
def _clock(text: Bytes, at: Int, end: Int) -> Int:
    """Read ``HH:MM:SS[.ffffff]`` to the end; microseconds, -1 for anything else."""
    hours, minute_at = _number(text, at, end)
    minutes, second_at = _number(text, minute_at + 1, end)
    seconds, stop = _number(text, second_at + 1, end)
    if minute_at - at < 2 or second_at - minute_at != 3 or stop - second_at != 3 or stop > end:
        return -1
    if text[minute_at] != _COLON or text[second_at] != _COLON:
        return -1
    micros = np.int64(0)
    if stop < end:
        micros, last = _number(text, stop + 1, end)
        if text[stop] != _DOT or last != end or not 2 <= last - stop <= 7:
            return -1
        for _ in range(7 - (last - stop)):
            micros *= 10
    return ((hours * _MINUTE + minutes) * _MINUTE + seconds) * _SECOND + micros


@borrowing_kernel
def parse_times(text: Bytes, spans: tuple[Int64s, Int64s], out: Int64s) -> None:
    """Parse times of day.

    Args:
        text: in which values lie; spans: int64[n] where each begins, and where it ends.
        out: int64[n] gets microseconds, -1 for what is no time.
    """
    starts, ends = spans
    for value in range(len(starts)):
        out[value] = _clock(text, starts[value], ends[value])


@borrowing_kernel
def _interval(text: Bytes, at: Int, end: Int) -> tuple[Int, Int, Int, Int]:
    """Read an interval in the style ``postgres``; (1 if it is one, months, days, microseconds)."""
    months, days = np.int64(0), np.int64(0)
    while at < end:
        sign = np.int64(1)
        if text[at] == _MINUS or text[at] == _PLUS:
            sign, at = np.int64(-1 if text[at] == _MINUS else 1), at + 1
        value, stop = _number(text, at, end)
        if stop == at:
            return 0, months, days, np.int64(0)
        if stop < end and text[stop] == _COLON:
            micros = _clock(text, at, end)
            return (1 if micros >= 0 else 0), months, days, sign * micros
        if stop + 1 >= end or text[stop] != _SPACE:
            return 0, months, days, np.int64(0)
        unit = text[stop + 1]
        if unit == 121:
            months += 12 * sign * value
        elif unit == 109:
            months += sign * value
        elif unit == 100:
            days += sign * value
        else:
            return 0, months, days, np.int64(0)
        at = stop + 1
        while at < end and text[at] != _SPACE:
            at += 1
        at += 1
    return 1, months, days, np.int64(0)


@borrowing_kernel
def parse_intervals(
    text: Bytes,
    spans: tuple[Int64s, Int64s],
    months: NDArray[np.int32],
    days: NDArray[np.int32],
    micros: Int64s,
    fits: NDArray[np.uint8],
) -> None:
    """Parse intervals in the style ``postgres``, as in ``1 year 2 mons -3 days +04:05:06.7``.

    Args:
        text: in which values lie; spans: int64[n] where each begins, and where it ends.
        months, days, micros: [n] get the three numbers.
        fits: uint8[n] gets 1 for what is an interval.
    """
    starts, ends = spans
    for value in range(len(starts)):
        is_one, month, day, micro = _interval(text, starts[value], ends[value])
        months[value], days[value], micros[value], fits[value] = month, day, micro, is_one
