"""Kernels for float4 and float8: the shortest decimal that reads back as the same number, or so many digits of it.

PostgreSQL prints as Ryu does (``d2s.c``, ``f2s.c``) with one change: a decimal exactly on the border between two
floats is never taken (acceptBounds = false). Here the same number is found by Raffaello Giulietti's Schubfach method.
The float's value and the borders of its rounding interval are scaled by a power of ten, and rounded to odd. Then the
shortest multiple of a power of ten strictly inside is chosen, the one nearest to the value (ties to even). Powers of
ten are kept to 128 bits, rounded up; both formats share them.

With extra_float_digits of 0 or less the server prints "%.*g" instead: the exact value rounded to so many digits, ties
to even. The value is scaled by the same powers, which is off by less than 2**-72 of the last digit. A double may lie
exactly half-way between two decimals of up to 15 digits. No other comes nearer than 2**-67 to being so
(``tests/unit/rows/test_text_float.py`` works that out). So what looks half-way is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import Bytes, Int, load_u32, misfits, no_room
from headwater.rows._text_codes import CORRUPT, NEED_SPACE
from headwater.rows.text._number import put_infinity, put_magnitude, put_pair

FIRST_POWER, LAST_POWER = -308, 338
MAX_FLOAT_TEXT = 25  # -1.7976931348623157e+308 is 24

_U0, _U1, _U2, _U10 = (np.uint64(i) for i in (0, 1, 2, 10))
_U32, _U64 = np.uint64(32), np.uint64(64)
_LOW32 = np.uint64(0xFFFFFFFF)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def _powers_of_ten() -> NDArray[np.uint64]:
    """Make the table of 10**k for k in [FIRST_POWER, LAST_POWER], two words each, high first.

    They are scaled to 128 bits and rounded up.
    """
    table = np.zeros(2 * (LAST_POWER - FIRST_POWER + 1), dtype=np.uint64)
    for k in range(FIRST_POWER, LAST_POWER + 1):
        shift = _floor_log2_pow10(k) - 127
        numerator = 10 ** max(k, 0) << max(-shift, 0)
        denominator = 10 ** max(-k, 0) << max(shift, 0)
        scaled = -(-numerator // denominator)
        table[2 * (k - FIRST_POWER)] = scaled >> 64
        table[2 * (k - FIRST_POWER) + 1] = scaled & (1 << 64) - 1
    return table


def _floor_log2_pow10(k: int) -> int:
    """Return the floor of log2(10**k), exact for the powers kept here."""
    return (k * 1741647) >> 19


POWERS = _powers_of_ten()

MOST_DIGITS = 15  # DBL_DIG
_TENS = np.array([10**i for i in range(MOST_DIGITS + 1)], dtype=np.uint64)
_HALF, _NEAR = np.uint64(1 << 63), np.uint64(1 << 58)


@inline_kernel
def _multiply_high(a: Int, b: Int) -> Int:
    """Return the high 64 bits of the product of two uint64."""
    a_high, a_low, b_high, b_low = a >> _U32, a & _LOW32, b >> _U32, b & _LOW32
    middle = a_high * b_low + (a_low * b_low >> _U32)
    return a_high * b_high + (middle >> _U32) + (((middle & _LOW32) + a_low * b_high) >> _U32)


@inline_kernel
def _multiply_low(a: Int, b: Int) -> Int:
    """Return the low 64 bits of the product of two uint64, with no intermediate overflow."""
    a_low, b_low = a & _LOW32, b & _LOW32
    low = a_low * b_low
    middle = (low >> _U32) + ((a >> _U32) * b_low & _LOW32) + (a_low * (b >> _U32) & _LOW32)
    return (middle & _LOW32) << _U32 | low & _LOW32


@inline_kernel
def _round_to_odd(high: Int, low: Int, factor: Int) -> Int:
    """Return factor * (high, low) / 2**128, the last bit set if anything was cut off.

    The power's own rounding does not count.
    """
    carry_in = _multiply_high(low, factor)
    middle = _multiply_low(high, factor)
    top = _multiply_high(high, factor)
    room = _ALL - middle
    if carry_in > room:
        top += _U1
        rest = carry_in - room - _U1
    else:
        rest = middle + carry_in
    return top | _U1 if rest > _U1 else top


@borrowing_kernel
def shortest(mantissa: Int, exponent: Int, is_lowest: bool) -> tuple[Int, Int]:
    """Find the shortest decimal (digits: uint64, power of ten) strictly inside the rounding interval of a float.

    Args:
        mantissa: uint64, not 0; the value is mantissa * 2**exponent.
        exponent: int64.
        is_lowest: the next float below is at half the usual distance.
    """
    k = (exponent * 1262611 - (524031 if is_lowest else 0)) >> 22
    shift = np.uint64(exponent + (((-k) * 1741647) >> 19) + 1)
    at = 2 * (-k - FIRST_POWER)
    high, low = POWERS[at], POWERS[at + 1]
    centre = mantissa << _U2
    lower = _round_to_odd(high, low, (centre - (_U1 if is_lowest else _U2)) << shift) + _U1
    value = _round_to_odd(high, low, centre << shift)
    upper = _round_to_odd(high, low, (centre + _U2) << shift) - _U1
    digits = value >> _U2
    tens = digits // _U10
    low_ten = tens * np.uint64(40)
    high_ten = low_ten + np.uint64(40)
    if (lower <= low_ten) != (high_ten <= upper):
        digits = tens + (_U1 if high_ten <= upper else _U0)
        k += 1
        while digits != _U0 and digits % _U10 == _U0:
            digits //= _U10
            k += 1
        return digits, k
    floor = digits << _U2
    ceiling = floor + np.uint64(4)
    if (lower <= floor) != (ceiling <= upper):
        return digits + (_U1 if ceiling <= upper else _U0), k
    middle = floor + _U2
    up = value > middle or (value == middle and digits & _U1 != _U0)
    return digits + (_U1 if up else _U0), k


@borrowing_kernel
def _scaled(normal: Int, shift: Int, power: Int) -> Int:
    """Return normal * 10**power without its last `shift` bits and 128 more, rounded to a whole number, ties to even."""
    at = 2 * (power - FIRST_POWER)
    high, low = POWERS[at], POWERS[at + 1]
    carry = _multiply_high(low, normal)
    middle = _multiply_low(high, normal)
    top = _multiply_high(high, normal)
    room = _ALL - middle
    if carry > room:
        top += _U1
        middle = carry - room - _U1
    else:
        middle += carry
    left = _U64 - shift
    digits = top >> shift
    rest = top << left | middle >> shift
    further = middle << left | _multiply_low(low, normal) >> shift
    is_tie = rest == _HALF and further < _NEAR
    return digits + (_U1 if rest >= _HALF and (not is_tie or digits & _U1 != _U0) else _U0)


@borrowing_kernel
def rounded(mantissa: Int, exponent: Int, count: Int) -> tuple[Int, Int]:
    """Round a float to `count` decimal digits (digits: uint64, power of ten), exactly as ``%.{count-1}e`` does.

    The digits may be 10**count, where all of them were 9 and were rounded up.

    Args:
        mantissa: uint64, not 0 and less than 2**53; the value is mantissa * 2**exponent.
        exponent: int64, of a double.
        count: 1 to MOST_DIGITS.
    """
    zeros = np.int64(0)
    while mantissa < _HALF:
        mantissa <<= _U1
        zeros += 1
    # 10**magnitude <= value < 10**(magnitude + 2)
    magnitude = (exponent + 63 - zeros) * 1262611 >> 22
    while True:
        power = count - 1 - magnitude
        shift = zeros - exponent - (power * 1741647 >> 19) - 1
        digits = _scaled(mantissa, np.uint64(shift), power)
        if digits <= _TENS[count]:
            return digits, -power
        magnitude += 1


@borrowing_kernel
def _put_fixed(digits: Int, count: Int, power: Int, out: Bytes, o: Int) -> Int:
    """Write positional notation (to_chars_df): the point stands ``count + power`` digits in."""
    point = count + power
    if point <= 0:
        out[o] = 48
        out[o + 1] = 46
        for i in range(-point):
            out[o + 2 + i] = 48
        return put_magnitude(digits, out, o + 2 - point)
    end = put_magnitude(digits, out, o)
    if power >= 0:
        for i in range(power):
            out[end + i] = 48
        return end + power
    for i in range(-power):
        out[end - i] = out[end - i - 1]
    out[o + point] = 46
    return end + 1


@borrowing_kernel
def _put_scientific(digits: Int, display: Int, out: Bytes, o: Int) -> Int:
    """Write ``d[.ddd]e+XX``, no trailing zeros, at least two digits of exponent (to_chars)."""
    end = put_magnitude(digits, out, o + 1)
    out[o] = out[o + 1]
    while end > o + 2 and out[end - 1] == 48:
        end -= 1
    if end == o + 2:
        end = o + 1
    else:
        out[o + 1] = 46
    out[end] = 101
    out[end + 1] = 45 if display < 0 else 43
    size = abs(display)
    end += 2
    if size >= 100:
        out[end] = 48 + size // 100
        end += 1
    put_pair(size % 100, out, end)
    return end + 2


@borrowing_kernel
def _decimal_length(value: Int) -> Int:
    """Count the decimal digits of a uint64."""
    digits = 1
    while value >= _U10:
        value //= _U10
        digits += 1
    return digits


@borrowing_kernel
def _write_finite(mantissa: Int, exponent: Int, is_lowest: bool, fixed_below: Int, out: Bytes, o: Int) -> Int:
    """Write a positive float; positional for 1e-4 <= x < 10**fixed_below."""
    drop = np.uint64(-exponent) if -64 < exponent <= 0 else _U0
    if exponent <= 0 and exponent > -64 and (mantissa >> drop) << drop == mantissa:
        digits, power = mantissa >> drop, 0  # a whole number: all of its digits
    else:
        digits, power = shortest(mantissa, exponent, is_lowest)
    return _put_decimal(digits, power, fixed_below, out, o)


@borrowing_kernel
def _put_decimal(digits: Int, power: Int, fixed_below: Int, out: Bytes, o: Int) -> Int:
    """Write digits * 10**power; positional for 1e-4 <= x < 10**fixed_below."""
    count = _decimal_length(digits)
    display = power + count - 1
    if -4 <= display < fixed_below:
        return _put_fixed(digits, count, power, out, o)
    return _put_scientific(digits, display, out, o)


@borrowing_kernel
def _write_rounded(mantissa: Int, exponent: Int, count: Int, out: Bytes, o: Int) -> Int:
    """Write a positive float as ``%.{count}g`` prints it."""
    digits, power = rounded(mantissa, exponent, count)
    while digits % _U10 == _U0:
        digits //= _U10
        power += 1
    return _put_decimal(digits, power, count, out, o)


@borrowing_kernel
def _write_special(negative: Int, fraction: Int, out: Bytes, o: Int) -> Int:
    """Write NaN, Infinity, -Infinity (copy_special_str). Room: 9."""
    if fraction != _U0:
        out[o] = 78
        out[o + 1] = 97
        out[o + 2] = 78
        return o + 3
    if negative != 0:
        out[o] = 45
        o += 1
    put_infinity(out, o, True)
    return o + 8


@borrowing_kernel
def _write_float(is_double: Int, negative: Int, biased: Int, fraction: Int, count: Int, out: Bytes, o: Int) -> Int:
    """Write a float from its sign, biased exponent (int64) and fraction bits (uint64).

    `count` is as of :func:`write_float8`.
    """
    if no_room(out, o, MAX_FLOAT_TEXT):
        return NEED_SPACE
    if is_double != 0:
        highest, bias, hidden, fixed_below = 0x7FF, 1075, np.uint64(0x10000000000000), 15
    else:
        highest, bias, hidden, fixed_below = 0xFF, 150, np.uint64(0x800000), 6
    if biased == highest:
        return _write_special(negative, fraction, out, o)
    if negative != 0:
        out[o] = 45
        o += 1
    if biased == 0 and fraction == _U0:
        out[o] = 48
        return o + 1
    is_lowest = fraction == _U0 and biased > 1
    if biased == 0:
        biased = 1
    else:
        fraction |= hidden
    if count != 0:
        return _write_rounded(fraction, biased - bias, count, out, o)
    return _write_finite(fraction, biased - bias, is_lowest, fixed_below, out, o)


@borrowing_kernel
def write_float8(src: Bytes, start: Int, length: Int, count: Int, out: Bytes, o: Int) -> Int:
    """Write the text of a double (float8out).

    It is rounded to `count` significant digits, MOST_DIGITS at most, or 0: shortest.
    """
    if misfits(start, length, 8):
        return CORRUPT
    high = load_u32(src, start + 4)
    fraction = np.uint64(high & 0xFFFFF) << _U32 | np.uint64(load_u32(src, start))
    return _write_float(np.int64(1), high >> 31, high >> 20 & 0x7FF, fraction, np.int64(count), out, o)


@borrowing_kernel
def write_float4(src: Bytes, start: Int, length: Int, count: Int, out: Bytes, o: Int) -> Int:
    """Write the text of a single (float4out); `count` as of :func:`write_float8`."""
    if misfits(start, length, 4):
        return CORRUPT
    bits = load_u32(src, start)
    fraction = np.uint64(bits & 0x7FFFFF)
    return _write_float(np.int64(0), bits >> 31, bits >> 23 & 0xFF, fraction, np.int64(count), out, o)
