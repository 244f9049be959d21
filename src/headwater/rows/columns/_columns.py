"""Kernels that make Arrow's buffers of stored values, a column of n values at a time.

A value is ``data[start:start+length]``, or the same of the arena if its kind is IN_ARENA; kinds other than VALUE and
IN_ARENA have none, and zeros stand for them. Every kernel checks lengths before it reads. A value that a type of Arrow
cannot hold gets a status (``fits``), and such values are counted; a value that no server writes stops a kernel with
CORRUPT, and its row.

PostgreSQL: ``numeric.c`` (the stored form of a numeric), ``datatype/timestamp.h``, ``utils/date.h``, ``inet.h``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._copy import copy, load_32, load_64, store_32, store_64
from headwater.rows._text_bytes import Bytes, Int, load_i16, load_i32, load_i64, load_u16
from headwater.rows.columns._stored_columns import Spans
from headwater.rows.text._number import numeric_header

NONE, VALUE, IN_ARENA = 0, 1, 2
"""Kinds: no value, one in the data, one in the arena."""

FITS, INFINITE, TOO_EARLY, TOO_LATE, NAN, TOO_MANY_DIGITS, TOO_LONG, TOO_PRECISE = range(8)
"""The statuses of a value: Arrow's type holds it; or it is an infinity; before the first, or after the last moment;
no number; of more digits; of more decimals."""

DONE = -1
"""The status that a kernel returns; else the row of a malformed value."""

_NAN = 0xC000
_LOW = np.uint64(0xFFFFFFFF)
_32, _U1 = np.uint64(32), np.uint64(1)
_LIMBS = 4
_DIGIT = 10_000
_DIGITS = np.array([1, 10, 100, 1000, 10_000], np.int64)


class Stored(NamedTuple):
    """Values of a column, n of them, as heap tuples hold them.

    Attributes:
        kind: uint8[n] NONE, VALUE or IN_ARENA.
        start: int64[n] where it begins; of a varlena its payload.
        length: int32[n] its bytes.
        data: uint8[]; arena: uint8[].
    """

    kind: NDArray[np.uint8]
    start: NDArray[np.int64]
    length: NDArray[np.int32]
    data: Bytes
    arena: Bytes


@borrowing_kernel
def gather_words(values: Stored, size: Int, out: Bytes) -> Int:
    """Gather values of 1, 2, 4, 8 or any other number of bytes, one after the other.

    Args:
        values: n values.
        size: of each.
        out: uint8[n * size].
    """
    kind, start, length, data, arena = values
    for row in range(len(kind)):
        at, o = start[row], row * size
        if kind[row] == NONE:
            for k in range(size):
                out[o + k] = 0
            continue
        if length[row] != size or at < 0:
            return row
        if kind[row] == IN_ARENA:
            copy(arena, at, out, o, size)
        elif size == 8:
            store_64(out, o, load_64(data, at))
        elif size == 4:
            store_32(out, o, load_32(data, at))
        else:
            copy(data, at, out, o, size)
    return DONE


@inline_kernel
def _moment(data: Bytes, at: Int, size: Int) -> tuple[Int, bool]:
    """Read a date or timestamp, and whether it is an infinity."""
    if size == 4:
        days = load_i32(data, at)
        return days, days == -(1 << 31) or days == (1 << 31) - 1
    micros = load_i64(data, at)
    return micros, micros == -(1 << 63) or micros == (1 << 63) - 1


@borrowing_kernel
def gather_moments(
    values: Stored,
    size: Int,
    shift: Int,
    limits: NDArray[np.int64],
    out: NDArray[np.int64 | np.int32],
    fits: NDArray[np.uint8],
) -> tuple[Int, Int]:
    """Gather dates, times and timestamps, counted from another day; (DONE or a row, how many do not fit).

    Args:
        values: n values.
        size: 4 for days, 8 for microseconds.
        shift: added to each.
        limits: int64[2] the first and the last that fit, before the shift.
        out: int64[n], or int32[n] for days; 0 where nothing fits.
        fits: uint8[n].
    """
    kind, start, length, data, arena = values
    misfits = 0
    for row in range(len(kind)):
        out[row], fits[row] = 0, FITS
        if kind[row] == NONE:
            continue
        if length[row] != size or start[row] < 0:
            return row, misfits
        if kind[row] == IN_ARENA:
            moment, is_infinite = _moment(arena, start[row], size)
        else:
            moment, is_infinite = _moment(data, start[row], size)
        if is_infinite:
            fits[row] = INFINITE
        elif moment < limits[0]:
            fits[row] = TOO_EARLY
        elif moment > limits[1]:
            fits[row] = TOO_LATE
        else:
            out[row] = moment + shift
            continue
        misfits += 1
    return DONE, misfits


@borrowing_kernel
def gather_intervals(
    values: Stored,
    months: NDArray[np.int32],
    days: NDArray[np.int32],
    micros: NDArray[np.int64],
    infinite: bool,
    fits: NDArray[np.uint8],
) -> tuple[Int, Int]:
    """Gather the three parts of intervals; (DONE or a row, how many do not fit).

    Args:
        values: n values.
        months, days, micros: [n] get the parts.
        infinite: the server has infinite intervals (17).
        fits: uint8[n].
    """
    kind, start, length, data, arena = values
    misfits = 0
    for row in range(len(kind)):
        months[row], days[row], micros[row], fits[row] = 0, 0, 0, FITS
        if kind[row] == NONE:
            continue
        if length[row] != 16 or start[row] < 0:
            return row, misfits
        source, at = data, start[row]
        if kind[row] == IN_ARENA:
            source = arena
        time, day, month = load_i64(source, at), load_i32(source, at + 8), load_i32(source, at + 12)
        lowest = time == -(1 << 63) and day == -(1 << 31) and month == -(1 << 31)
        highest = time == (1 << 63) - 1 and day == (1 << 31) - 1 and month == (1 << 31) - 1
        if infinite and (lowest or highest):
            fits[row] = INFINITE
            misfits += 1
        else:
            micros[row], days[row], months[row] = time, day, month
    return DONE, misfits


@borrowing_kernel
def measure(values: Stored, offsets: NDArray[np.int64]) -> Int:
    """Find where each value begins if all lie one after the other; DONE, or the row of one that has no place.

    Args:
        values: n values.
        offsets: int64[n+1].
    """
    kind, start, length, data, arena = values
    o = np.int64(0)
    for row in range(len(kind)):
        offsets[row] = o
        if kind[row] != NONE:
            size = len(arena) if kind[row] == IN_ARENA else len(data)
            if start[row] < 0 or length[row] < 0 or start[row] + length[row] > size:
                return row
            o += length[row]
    offsets[len(kind)] = o
    return DONE


@borrowing_kernel
def gather_bytes(values: Stored, offsets: NDArray[np.int64], out: Bytes) -> None:
    """Gather the values, one after the other, as :func:`measure` has measured them."""
    kind, start, length, data, arena = values
    for row in range(len(kind)):
        if kind[row] == VALUE:
            copy(data, start[row], out, offsets[row], np.int64(length[row]))
        elif kind[row] == IN_ARENA:
            copy(arena, start[row], out, offsets[row], np.int64(length[row]))


@inline_kernel
def _times_and_add(number: NDArray[np.uint64], factor: Int, digit: Int) -> bool:
    """Multiply a number of 32-bit limbs, and add to it; whether it is too long then."""
    carry = np.uint64(digit)
    for i in range(_LIMBS):
        product = number[i] * np.uint64(factor) + carry
        number[i], carry = product & _LOW, product >> _32
    return bool(carry != 0)


@inline_kernel
def _exceeds(number: NDArray[np.uint64], limit: NDArray[np.uint64]) -> bool:
    """Tell whether one number of limbs is greater than another."""
    for i in range(_LIMBS - 1, -1, -1):
        if number[i] != limit[i]:
            return bool(number[i] > limit[i])
    return False


@inline_kernel
def _scaled(data: Bytes, at: Int, end: Int, weight: Int, scale: Int, number: NDArray[np.uint64]) -> Int:
    """Read digits as a whole number of 10 ** -scale; a status of ``fits``, or CORRUPT below 0."""
    for i in range(_LIMBS):
        number[i] = 0
    place = 4 * weight + scale  # of the digit's last decimal
    while at < end:
        digit = load_u16(data, at)
        if digit >= _DIGIT:
            return -1
        if place >= 0:
            factor = np.int64(_DIGIT)
        else:
            lost = _DIGITS[min(-place, 4)]
            if digit % lost != 0:
                return TOO_PRECISE
            factor, digit = _DIGIT // lost, digit // lost
        if factor > 1 and _times_and_add(number, factor, digit):
            return TOO_LONG
        at += 2
        place -= 4
    place += 4  # after the last digit that there is come zeros
    while place > 0:
        if _times_and_add(number, _DIGITS[min(place, 4)], 0):
            return TOO_LONG
        place -= 4
    return FITS


@inline_kernel
def _store(number: NDArray[np.uint64], negative: bool, out: NDArray[np.uint64], row: Int) -> None:
    """Store a number of limbs as 128 bits, two's complement."""
    low, high = number[0] | number[1] << _32, number[2] | number[3] << _32
    if negative:
        low, high = ~low + _U1, ~high
        if low == 0:
            high += _U1
    out[2 * row], out[2 * row + 1] = low, high


@inline_kernel
def scaled_number(
    data: Bytes, start: Int, length: Int, scale: Int, limit: NDArray[np.uint64], number: NDArray[np.uint64]
) -> tuple[Int, bool]:
    """Read a numeric as a whole number; (a status of ``fits``, or CORRUPT below 0, whether it is negative)."""
    special, negative, weight, _, at = numeric_header(data, start, length)
    if special < 0:
        return -1, False
    if special > 0:
        return (NAN if special == _NAN else INFINITE), False
    if at == start + length:  # zero, which has no digits; its weight is 0
        weight = 0
    status = _scaled(data, at, start + length, weight, scale, number)
    if status == FITS and _exceeds(number, limit):
        return TOO_LONG, negative
    return status, negative


@borrowing_kernel
def gather_decimals(
    values: Stored,
    scale: Int,
    limit: NDArray[np.uint64],
    number: NDArray[np.uint64],
    out: NDArray[np.uint64],
    fits: NDArray[np.uint8],
) -> tuple[Int, Int]:
    """Gather numerics as decimals of a scale; (DONE or a row, how many do not fit).

    Args:
        values: n values.
        scale: decimals of each.
        limit: uint64[4] the greatest number, in limbs of 32 bits, the lowest first.
        number: uint64[4] for the kernel.
        out: uint64[2 * n] 128 bits each, the lower half first.
        fits: uint8[n].
    """
    kind, start, length, data, arena = values
    misfits = 0
    for row in range(len(kind)):
        out[2 * row], out[2 * row + 1], fits[row] = 0, 0, FITS
        if kind[row] == NONE:
            continue
        size = np.int64(length[row])
        if kind[row] == IN_ARENA:
            status, negative = scaled_number(arena, start[row], size, scale, limit, number)
        else:
            status, negative = scaled_number(data, start[row], size, scale, limit, number)
        if status < 0:
            return row, misfits
        fits[row] = status
        if status == FITS:
            _store(number, negative, out, row)
        else:
            misfits += 1
    return DONE, misfits


@borrowing_kernel
def array_shapes(values: Stored, dimensions: NDArray[np.int32], lower: NDArray[np.int32]) -> Int:
    """Find how many dimensions arrays have, and where the first one begins; DONE or a row.

    Args:
        values: n arrays.
        dimensions, lower: int32[n]; 0 and 1 of one that is empty, or not there.
    """
    kind, start, length, data, arena = values
    for row in range(len(kind)):
        dimensions[row], lower[row] = 0, 1
        if kind[row] == NONE:
            continue
        source, at = data, start[row]
        if kind[row] == IN_ARENA:
            source = arena
        if length[row] < 12 or at < 0:
            return row
        count = load_i32(source, at)
        if count < 0 or 12 + 8 * count > length[row]:
            return row
        dimensions[row] = count
        if count > 0:
            lower[row] = load_i32(source, at + 12 + 4 * count)
    return DONE


@borrowing_kernel
def range_flags(values: Stored, flags: NDArray[np.uint8]) -> Int:
    """Read the byte of flags at the end of each range; DONE or a row."""
    kind, start, length, data, arena = values
    for row in range(len(kind)):
        flags[row] = 0
        if kind[row] == NONE:
            continue
        if length[row] < 5 or start[row] < 0:
            return row
        at = start[row] + length[row] - 1
        flags[row] = arena[at] if kind[row] == IN_ARENA else data[at]
    return DONE


@borrowing_kernel
def gather_vectors(values: Stored, offsets: NDArray[np.int32], out: NDArray[np.uint8], width: Int) -> Int:
    """Gather the elements of pgvector's vectors one after the other; DONE or a row.

    Args:
        values: n vectors: a count of elements, two bytes of nothing, the elements.
        offsets: int32[n+1] gets where each begins, in elements.
        out: uint8[] as many bytes as the vectors have together.
        width: bytes of an element.
    """
    kind, start, length, data, arena = values
    o = np.int64(0)
    for row in range(len(kind)):
        offsets[row] = o // width
        if kind[row] == NONE:
            continue
        source, at = data, start[row]
        if kind[row] == IN_ARENA:
            source = arena
        if length[row] < 4 or at < 0:
            return row
        size = load_i16(source, at) * width
        if size < 0 or size + 4 != length[row]:
            return row
        o = copy(source, at + 4, out, o, size)
    offsets[len(kind)] = o // width
    return DONE


@borrowing_kernel
def multirange_flags(values: Spans, counts: NDArray[np.int64], flags: NDArray[np.uint8]) -> Int:
    """Gather the flags of each range of multiranges, one multirange after the other; DONE or a row.

    Args:
        values: n multiranges: type, count, an offset or length of each range but the first, their flags, the bounds.
        counts: int64[n] ranges of each.
        flags: uint8[] as many as there are ranges.
    """
    o = 0
    for row in range(len(counts)):
        at = values.start[row] + 8 + 4 * (counts[row] - 1)
        if counts[row] > 0 and at + counts[row] > values.start[row] + values.length[row]:
            return row
        for k in range(counts[row]):
            flags[o] = values.data[at + k]
            o += 1
    return DONE
