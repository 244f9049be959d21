"""Text of the extension seg's intervals, and of the extension isn's numbers of articles, books, music and serials.

PostgreSQL: ``contrib/seg/seg.c`` (seg_out, restore), ``contrib/isn/isn.c`` (ean2string, ean2ISBN and its kin). The
contract of every kernel is in ``_text.py``.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel
from headwater.rows._text_bytes import Bytes, Int, load_i64, load_u32, misfits, no_room
from headwater.rows._text_codes import CORRUPT, NEED_SPACE
from headwater.rows.text._float import rounded
from headwater.rows.text.isn_hyphens import HYPHENS

_SEG_SIZE = 12
_MOST_DIGITS = 6
_LARGEST_ISN = 9999999999999
_LONGEST_ISN = 19
_TENS = 10 ** np.arange(_MOST_DIGITS + 1)
_FIRST = np.array([first for first, _ in HYPHENS], np.int64)
_MASK = np.array([mask for _, mask in HYPHENS], np.int64)
_LESS, _MORE, _ABOUT, _OPEN, _POINT = 60, 62, 126, 45, 46
_ISBN, _ISSN, _ISMN = 978, 977, 9790


@borrowing_kernel
def _digits_of(bits: Int, count: Int) -> tuple[Int, Int]:
    """Return a positive single as `count` decimal digits, and the exponent of the first one."""
    fraction, biased = bits & 0x7FFFFF, bits >> 23 & 0xFF
    if bits & 0x7FFFFFFF == 0:
        return np.int64(0), np.int64(0)
    mantissa = fraction if biased == 0 else fraction | 1 << 23
    whole, power = rounded(np.uint64(mantissa), np.int64(max(biased, 1) - 150), np.int64(count))
    digits = np.int64(whole)
    if digits >= _TENS[count]:
        return digits // 10, power + count
    return digits, power + count - 1


@borrowing_kernel
def _put_digits(digits: Int, count: Int, point: Int, out: Bytes, o: Int) -> Int:
    """Write digits with a point after the first `point` of them, if any follow."""
    end = o + count + (0 < point < count)
    at = end - 1
    for place in range(count - 1, -1, -1):
        out[at] = 48 + digits % 10
        digits //= 10
        at -= 1
        if place == point and place > 0:
            out[at] = _POINT
            at -= 1
    return end


@borrowing_kernel
def _put_exponent(exponent: Int, out: Bytes, o: Int) -> Int:
    """Write ``e+XX``."""
    out[o] = 101
    out[o + 1] = 43 if exponent >= 0 else _OPEN
    out[o + 2] = 48 + abs(exponent) // 10
    out[o + 3] = 48 + abs(exponent) % 10
    return o + 4


@borrowing_kernel
def _put_bound(bits: Int, significant: Int, out: Bytes, o: Int) -> Int:
    """Write a bound with its significant digits.

    It is plain between 1e-4 and 1e5 only, and if it has a digit for every place.
    """
    count = np.int64(_MOST_DIGITS if significant == 0 or significant > 127 else min(significant, _MOST_DIGITS))
    if bits >> 31:
        out[o] = _OPEN
        o += 1
    digits, exponent = _digits_of(bits & 0x7FFFFFFF, count)
    if abs(exponent) > 4:
        return _put_exponent(exponent, out, _put_digits(digits, count, np.int64(1), out, o))
    if exponent > 0 and exponent + 1 >= count:
        o = _put_digits(digits, count, np.int64(1), out, o)
        out[o] = 101
        out[o + 1] = 48 + exponent
        return o + 2
    if exponent >= 0:
        return _put_digits(digits, count, exponent + 1, out, o)
    out[o], out[o + 1] = 48, _POINT
    for place in range(-1 - exponent):
        out[o + 2 + place] = 48
    return _put_digits(digits, count, np.int64(0), out, o + 1 - exponent)


@borrowing_kernel
def write_seg(is_by_lower: bool, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write ``lower .. upper``, or a point, each with its sign of uncertainty.

    With `is_by_lower` a sign ``~`` of the lower bound decides whether the upper one's is written (seg_out before 19).
    """
    if length != _SEG_SIZE or misfits(start, length, _SEG_SIZE):
        return CORRUPT
    if no_room(out, o, 48):
        return NEED_SPACE
    lower, upper = load_u32(src, start), load_u32(src, start + 4)
    low_digits, high_digits = np.int64(src[start + 8]), np.int64(src[start + 9])
    low_sign, high_sign = src[start + 10], src[start + 11]
    is_point = low_sign == high_sign and (lower == upper or (lower | upper) & 0x7FFFFFFF == 0)
    has_low, has_high = is_point or low_sign != _OPEN, not is_point and high_sign != _OPEN
    is_finite_low, is_finite_high = lower >> 23 & 0xFF != 0xFF, upper >> 23 & 0xFF != 0xFF
    if (has_low and not is_finite_low) or (has_high and not is_finite_high):
        return CORRUPT
    if low_sign in (_LESS, _MORE, _ABOUT):
        out[o] = low_sign
        o += 1
    if has_low:
        o = _put_bound(lower, low_digits, out, o)
    if is_point:
        return o
    if has_low:
        out[o] = 32
        o += 1
    out[o], out[o + 1] = _POINT, _POINT
    o += 2
    if not has_high:
        return o
    out[o] = 32
    o += 1
    if high_sign in (_LESS, _MORE) or (low_sign if is_by_lower else high_sign) == _ABOUT:
        if high_sign == 0:
            return o  # the server's text ends here, at the zero byte
        out[o] = high_sign
        o += 1
    return _put_bound(upper, high_digits, out, o)


@borrowing_kernel
def _hyphens(number: Int) -> Int:
    """Find which of the first twelve digits of a number hyphens stand after."""
    low, high = 0, len(_FIRST)
    while high - low > 1:
        middle = (low + high) >> 1
        if _FIRST[middle] <= number:
            low = middle
        else:
            high = middle
    return _MASK[low]


@borrowing_kernel
def _check_digit(digits: Bytes, size: Int) -> Int:
    """Return the check digit of the last `size` - 1 of twelve digits, modulo 11 (weight_checkdig): a character."""
    weight = np.int64(0)
    for place in range(size - 1):
        weight += (size - place) * (np.int64(digits[place]) - 48)
    digit = (11 - weight % 11) % 11
    return 88 if digit == 10 else 48 + digit


@borrowing_kernel
def write_isn(is_short: bool, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write thirteen digits with hyphens, and ``!`` if one was put right; short: as ISBN, ISSN, ISMN, UPC are.

    The short forms are made from the long one as the server makes them: what it cuts off, and where, is alike.
    """
    if length != 8 or misfits(start, length, 8):
        return CORRUPT
    stored = load_i64(src, start)
    number = stored >> 1
    if not 0 <= number <= _LARGEST_ISN:
        return CORRUPT
    if no_room(out, o, _LONGEST_ISN + 13):
        return NEED_SPACE
    mask, rest, begin = _hyphens(number // 10), number, o
    digits = out[o + _LONGEST_ISN : o + _LONGEST_ISN + 13]
    for place in range(12, -1, -1):
        digits[place] = 48 + rest % 10
        rest //= 10
    prefix = number // 10**10
    is_grouped = mask >> 2 & 1 != 0
    is_short = is_short and is_grouped
    if is_short and digits[0] == 48:
        for place in range(12):
            out[o + place] = digits[place + 1]
        return o + 12
    is_isbn = is_short and prefix == _ISBN
    is_issn = is_short and prefix == _ISSN
    is_ismn = is_short and number // 10**9 == _ISMN
    first = 3 if is_isbn or is_issn or is_ismn else 0
    for place in range(first, 13):
        out[o] = digits[place]
        o += 1
        if mask >> place & 1:
            out[o] = _OPEN
            o += 1
    if is_issn:
        out[begin + 8] = _check_digit(digits[3:], np.int64(8))
        return begin + 9
    if is_isbn:
        out[o - 1] = _check_digit(digits[3:], np.int64(10))
    if is_ismn:
        out[begin] = 77
    if stored & 1:
        out[o] = 33
        o += 1
    return o
