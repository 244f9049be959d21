"""Kernels of debezium for numbers, bytes and bits: decimals as Kafka Connect has them, Base64, amounts of money.

A decimal is its unscaled value, the digits without their point, in Base64. The value is a big-endian two's complement
of as few bytes as possible (``BigInteger.toByteArray``). Texts are those of the server's output functions. Intermediate
bytes of a kernel lie in `out` after its result; the caller has checked the room (:func:`room_for`).
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._copy import copy
from headwater.rows._text_bytes import Bytes, Int

UNTELLABLE, NO_VALUE = -2, -3
"""The status of a value at which the connector stops, and of one that it does not show.

For the latter the connector warns, and leaves the field null.
"""

MINUS, POINT, ZERO, NINE, QUOTE = 0x2D, 0x2E, 0x30, 0x39, 0x22

_DIGITS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8).copy()
_URL_DIGITS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8).copy()

_CHUNK = 1_000_000_000


@inline_kernel
def room_for(length: Int, scale: Int) -> Int:
    """Return the bytes of `out` that a value of `length` bytes may need, intermediate ones included."""
    return 16 * (length + max(scale, 0)) + 512


@borrowing_kernel
def put_base64(src: Bytes, start: Int, end: Int, is_url: Int, out: Bytes, o: Int) -> Int:
    """Write bytes in Base64, in quotes; if `src` is `out`, they must lie after all that is written."""
    digits = _URL_DIGITS if is_url else _DIGITS
    out[o] = QUOTE
    o += 1
    for at in range(start, end, 3):
        left = end - at
        group = np.int64(src[at]) << 16
        if left > 1:
            group |= np.int64(src[at + 1]) << 8
        if left > 2:
            group |= np.int64(src[at + 2])
        out[o] = digits[group >> 18]
        out[o + 1] = digits[(group >> 12) & 63]
        out[o + 2] = digits[(group >> 6) & 63] if left > 1 else 0x3D
        out[o + 3] = digits[group & 63] if left > 2 else 0x3D
        o += 4
    out[o] = QUOTE
    return o + 1


@inline_kernel
def _nibble(byte: Int) -> Int:
    return byte - ZERO if byte <= NINE else (byte | 0x20) - 87


@inline_kernel
def hex_byte(src: Bytes, at: Int) -> Int:
    """Read a byte from its two hexadecimal digits."""
    return _nibble(np.int64(src[at])) << 4 | _nibble(np.int64(src[at + 1]))


@borrowing_kernel
def put_hex_as_base64(src: Bytes, start: Int, end: Int, is_url: Int, out: Bytes, o: Int) -> Int:
    """Write bytes in Base64, whose text is hexadecimal digits."""
    raw = o + 4 * (end - start) + 16
    count = (end - start) // 2
    for i in range(count):
        out[raw + i] = hex_byte(src, start + 2 * i)
    return put_base64(out, raw, raw + count, is_url, out, o)


@borrowing_kernel
def put_bits(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a bit string: its last bit is the lowest of the first byte; bytes of zeros at the end are omitted."""
    raw = o + 4 * length + 16
    count = (length + 7) // 8
    for i in range(count):
        out[raw + i] = 0
    for i in range(length):
        if src[start + length - 1 - i] == ZERO + 1:
            out[raw + i // 8] |= 1 << (i % 8)
    while count > 0 and out[raw + count - 1] == 0:
        count -= 1
    return put_base64(out, raw, raw + count, 0, out, o)


@inline_kernel
def is_number(src: Bytes, start: Int, length: Int) -> Int:
    """Tell whether a number's text is not NaN, Infinity or -Infinity."""
    at = start + 1 if length > 1 and src[start] == MINUS else start
    return length > 0 and ZERO <= src[at] <= NINE


@inline_kernel
def fraction_digits(src: Bytes, start: Int, length: Int) -> Int:
    """Count the digits after the point."""
    for at in range(start, start + length):
        if src[at] == POINT:
            return start + length - at - 1
    return 0


@inline_kernel
def put_scaled(src: Bytes, start: Int, length: Int, scale: Int, out: Bytes, o: Int) -> Int:
    """Write a number's text with zeros added up to `scale` digits after the point; it must not have more."""
    o = copy(src, start, out, o, length)
    missing = scale - fraction_digits(src, start, length)
    if missing > 0 and missing == scale:
        out[o] = POINT
        o += 1
    for _ in range(missing):
        out[o] = ZERO
        o += 1
    return o


@inline_kernel
def _multiply_add(out: Bytes, first: Int, end: Int, factor: Int, more: Int) -> Int:
    """Multiply a little-endian number at ``out[first:end]`` and add to it; return its new end."""
    carry = more
    for at in range(first, end):
        carry += np.int64(out[at]) * factor
        out[at] = carry & 0xFF
        carry >>= 8
    while carry > 0:
        out[end] = carry & 0xFF
        carry >>= 8
        end += 1
    return end


@inline_kernel
def _negate(out: Bytes, first: Int, end: Int) -> None:
    """Replace a little-endian number by its two's complement."""
    carry = np.int64(1)
    for at in range(first, end):
        carry += np.int64(out[at]) ^ 0xFF
        out[at] = carry & 0xFF
        carry >>= 8


@borrowing_kernel
def put_unscaled(src: Bytes, start: Int, length: Int, scale: Int, out: Bytes, o: Int) -> Int:
    """Write the unscaled value of a number's text at a scale, in Base64; further digits are zeros."""
    raw = o + 6 * (length + max(scale, 0)) + 64
    end, factor, chunk, seen = raw, np.int64(1), np.int64(0), np.int64(-1)
    for at in range(start, start + length):
        byte = np.int64(src[at])
        if byte == POINT:
            seen = np.int64(0)
        elif ZERO <= byte <= NINE and seen < scale:
            chunk, factor = chunk * 10 + byte - ZERO, factor * 10
            seen += seen >= 0
        if factor == _CHUNK:
            end = _multiply_add(out, raw, end, factor, chunk)
            chunk, factor = np.int64(0), np.int64(1)
    for _ in range(scale - max(seen, 0)):
        chunk, factor = chunk * 10, factor * 10
        if factor == _CHUNK:
            end = _multiply_add(out, raw, end, factor, chunk)
            chunk, factor = np.int64(0), np.int64(1)
    end = _multiply_add(out, raw, end, factor, chunk)
    return _put_integer(raw, end, np.int64(src[start] == MINUS), out, o)


@inline_kernel
def _put_integer(raw: Int, end: Int, is_negative: Int, out: Bytes, o: Int) -> Int:
    """Write a little-endian magnitude as a big-endian two's complement, in Base64."""
    out[end] = 0
    end += 1
    if is_negative:
        _negate(out, raw, end)
    top = np.int64(0xFF if is_negative and out[end - 1] == 0xFF else 0)
    while end - raw > 1 and out[end - 1] == top and (out[end - 2] & 0x80) == (top & 0x80):
        end -= 1
    low, high = raw, end - 1
    while low < high:
        byte = out[low]
        out[low] = out[high]
        out[high] = byte
        low += 1
        high -= 1
    return put_base64(out, raw, end, 0, out, o)


@borrowing_kernel
def shortest_scale(src: Bytes, start: Int, length: Int) -> Int:
    """Count the digits after the point, without zeros at the end (stripTrailingZeros, but never a scale below 0)."""
    scale = fraction_digits(src, start, length)
    while scale > 0 and src[start + length - 1] == ZERO:
        scale -= 1
        length -= 1
    return scale


@borrowing_kernel
def plain_money(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write an amount as a number's text at ``out[o:]``; return its end, or UNTELLABLE.

    The connector knows one sign of a currency, commas between groups and a point before the fraction
    (PostgresMoney.java).
    """
    at, end = start, start + length
    if at < end and (src[at] == MINUS or src[at] == 0x28):
        out[o] = MINUS
        o += 1
        end -= src[at] == 0x28
        at += 1
    if at < end and src[at] != POINT and not ZERO <= src[at] <= NINE:
        at += 1
        while at < end and src[at] & 0xC0 == 0x80:
            at += 1
    while at < end:
        byte = src[at]
        if byte != 0x2C:
            if byte != POINT and not ZERO <= byte <= NINE:
                return UNTELLABLE
            out[o] = byte
            o += 1
        at += 1
    return o


@inline_kernel
def put_quoted(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a text that needs no escaping, in quotes."""
    out[o] = QUOTE
    o = copy(src, start, out, o + 1, length)
    out[o] = QUOTE
    return o + 1


@inline_kernel
def _has_fraction(src: Bytes, start: Int, length: Int) -> Int:
    """Tell whether a number has a point or an exponent."""
    at = start
    while at < start + length and src[at] not in (POINT, 0x65):
        at += 1
    return at < start + length


@inline_kernel
def put_double(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a number of any size so that JSON readers take it for a floating-point one."""
    if not is_number(src, start, length):
        return put_quoted(src, start, length, out, o)
    o = copy(src, start, out, o, length)
    if not _has_fraction(src, start, length):
        out[o] = POINT
        out[o + 1] = ZERO
        o += 2
    return o
