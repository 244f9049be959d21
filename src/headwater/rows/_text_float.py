"""Kernels for float4 and float8: the shortest decimal that reads back as the same number.

PostgreSQL prints as Ryu does (``d2s.c``, ``f2s.c``) with one change: a decimal exactly on the border between two
floats is never taken (acceptBounds = false). Here the same number is found by Raffaello Giulietti's Schubfach method:
the float's value and the borders of its rounding interval are scaled by a power of ten, rounded to odd, and the
shortest multiple of a power of ten strictly inside is chosen, the one nearest to the value (ties to even). Powers of
ten are kept to 128 bits, rounded up; both formats share them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import Bytes, Int, load_u32, misfits, no_room
from headwater.rows._text_codes import CORRUPT, NEED_SPACE
from headwater.rows._text_number import put_infinity, put_magnitude, put_pair

FIRST_POWER, LAST_POWER = -292, 324
MAX_FLOAT_TEXT = 25  # -1.7976931348623157e+308 is 24

_U0, _U1, _U2, _U10 = (np.uint64(i) for i in (0, 1, 2, 10))
_U32 = np.uint64(32)
_LOW32 = np.uint64(0xFFFFFFFF)


def _powers_of_ten() -> NDArray[np.uint64]:
    """10**k for k in [FIRST_POWER, LAST_POWER], scaled to 128 bits and rounded up; two words each, high first."""
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
    """Floor of log2(10**k), exact for the powers kept here."""
    return (k * 1741647) >> 19


POWERS = _powers_of_ten()


@inline_kernel
def _multiply_high(a: Int, b: Int) -> Int:
    """The high 64 bits of the product of two uint64."""
    a_high, a_low, b_high, b_low = a >> _U32, a & _LOW32, b >> _U32, b & _LOW32
    middle = a_high * b_low + (a_low * b_low >> _U32)
    return a_high * b_high + (middle >> _U32) + (((middle & _LOW32) + a_low * b_high) >> _U32)


@inline_kernel
def _multiply_low(a: Int, b: Int) -> Int:
    """The low 64 bits of the product of two uint64, with no intermediate overflow."""
    a_low, b_low = a & _LOW32, b & _LOW32
    low = a_low * b_low
    middle = (low >> _U32) + ((a >> _U32) * b_low & _LOW32) + (a_low * (b >> _U32) & _LOW32)
    return (middle & _LOW32) << _U32 | low & _LOW32


@inline_kernel
def _round_to_odd(high: Int, low: Int, factor: Int) -> Int:
    """Factor * (high, low) / 2**128, the last bit set if anything was cut off (but for the power's own rounding)."""
    carry_in = _multiply_high(low, factor)
    middle = _multiply_low(high, factor)
    top = _multiply_high(high, factor)
    room = np.uint64(0xFFFFFFFFFFFFFFFF) - middle
    if carry_in > room:
        top += _U1
        rest = carry_in - room - _U1
    else:
        rest = middle + carry_in
    return top | _U1 if rest > _U1 else top


@borrowing_kernel
def shortest(mantissa: Int, exponent: Int, is_lowest: bool) -> tuple[Int, Int]:
    """The shortest decimal (digits: uint64, power of ten) strictly inside the rounding interval of a float.

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
def _put_fixed(digits: Int, count: Int, power: Int, out: Bytes, o: Int) -> Int:
    """Positional notation (to_chars_df): the point stands ``count + power`` digits in."""
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
def _put_scientific(digits: Int, count: Int, display: Int, out: Bytes, o: Int) -> Int:
    """``d[.ddd]e+XX``, no trailing zeros, at least two digits of exponent (to_chars)."""
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
    """Decimal digits of a uint64."""
    digits = 1
    while value >= _U10:
        value //= _U10
        digits += 1
    return digits


@borrowing_kernel
def _write_finite(mantissa: Int, exponent: Int, is_lowest: bool, fixed_below: Int, out: Bytes, o: Int) -> Int:
    """A positive float; positional for 1e-4 <= x < 10**fixed_below."""
    drop = np.uint64(-exponent) if -64 < exponent <= 0 else _U0
    if exponent <= 0 and exponent > -64 and (mantissa >> drop) << drop == mantissa:
        digits, power = mantissa >> drop, 0  # a whole number: all of its digits
    else:
        digits, power = shortest(mantissa, exponent, is_lowest)
    count = _decimal_length(digits)
    display = power + count - 1
    if -4 <= display < fixed_below:
        return _put_fixed(digits, count, power, out, o)
    return _put_scientific(digits, count, display, out, o)


@borrowing_kernel
def _write_special(negative: Int, fraction: Int, out: Bytes, o: Int) -> Int:
    """NaN, Infinity, -Infinity (copy_special_str). Room: 9."""
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
def _write_float(is_double: Int, negative: Int, biased: Int, fraction: Int, out: Bytes, o: Int) -> Int:
    """A float from its sign, biased exponent (int64) and fraction bits (uint64)."""
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
    return _write_finite(fraction, biased - bias, is_lowest, fixed_below, out, o)


@borrowing_kernel
def write_float8(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Text of a double (float8out, extra_float_digits > 0)."""
    if misfits(start, length, 8):
        return CORRUPT
    high = load_u32(src, start + 4)
    fraction = np.uint64(high & 0xFFFFF) << _U32 | np.uint64(load_u32(src, start))
    return _write_float(np.int64(1), high >> 31, high >> 20 & 0x7FF, fraction, out, o)


@borrowing_kernel
def write_float4(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Text of a single (float4out, extra_float_digits > 0)."""
    if misfits(start, length, 4):
        return CORRUPT
    bits = load_u32(src, start)
    return _write_float(np.int64(0), bits >> 31, bits >> 23 & 0xFF, np.uint64(bits & 0x7FFFFF), out, o)
