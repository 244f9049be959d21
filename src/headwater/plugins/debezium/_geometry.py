"""Kernels of debezium for points, PostGIS and pgvector, from text to the structures of Debezium's own schemas.

Mirrors ``Point``, ``PostgisGeometry``, ``DoubleVector``, ``FloatVector`` and ``SparseDoubleVector`` of Debezium 3.6.1.
A double is read from its text without an exact parser: from a guess on, neighbouring doubles are printed until one has
this text, which is the shortest of exactly one double. Intermediate bytes lie in `out` after the result; the caller has
checked the room.
"""

from __future__ import annotations

import math

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.plugins.debezium._numbers import (
    MINUS,
    POINT,
    UNTELLABLE,
    ZERO,
    hex_byte,
    is_number,
    put_base64,
    put_double,
    put_hex_as_base64,
)
from headwater.plugins.debezium._times import put_signed
from headwater.rows._copy import copy
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.text._float import write_float8

_COMMA, _COLON, _CLOSE, _LETTER_E, _LETTER_N = 0x2C, 0x3A, 0x7D, 0x65, 0x4E
_INFINITE, _NAN = 0x7FF0000000000000, 0x7FF8000000000000
_NEIGHBOURS = 64
_MOST_DIMENSIONS = 32767
_SRID_FLAG = 0x20000000
_POINT_BYTES = 21
_HEAD_DIGITS = 10

X_TEXT = np.frombuffer(b'{"x":,"y":,"wkb":,"srid":null}', np.uint8).copy()
WKB_TEXT = np.frombuffer(b'{"wkb":,"srid":null}', np.uint8).copy()
SPARSE_TEXT = np.frombuffer(b'{"dimensions":,"vector":[]}', np.uint8).copy()


@inline_kernel
def _bits_near(value: float) -> Int:
    """Return the bits of a positive double, or of one next to it."""
    if math.isinf(value):
        return np.int64(_INFINITE)
    if value == 0.0:
        return np.int64(0)
    fraction, exponent = math.frexp(value)
    mantissa, biased = np.int64(fraction * 9007199254740992.0), np.int64(exponent) + 1022
    if biased <= 0:
        return mantissa >> min(1 - biased, np.int64(63))
    return (biased << 52) + (mantissa - 4503599627370496)


@inline_kernel
def _guess(src: Bytes, at: Int, end: Int) -> Int:
    """Return the bits of a double near a number's text without its sign."""
    digits, scale, is_behind = 0.0, np.int64(0), np.int64(0)
    while at < end and src[at] != _LETTER_E:
        if src[at] == POINT:
            is_behind = np.int64(1)
        else:
            digits = digits * 10.0 + float(src[at] - ZERO)
            scale -= is_behind
        at += 1
    if at < end:
        is_small = src[at + 1] == MINUS
        power = np.int64(0)
        for i in range(at + 2, end):
            power = power * 10 + (src[i] - ZERO)
        scale += -power if is_small else power
    half = scale // 2
    return _bits_near(digits * math.pow(10.0, half) * math.pow(10.0, scale - half))


@inline_kernel
def _put_bits(bits: Int, out: Bytes, o: Int) -> None:
    for i in range(8):
        out[o + i] = (bits >> (8 * i)) & 0xFF


@inline_kernel
def _is_text_of(src: Bytes, at: Int, end: Int, out: Bytes, raw: Int) -> Int:
    """Tell whether a text is that of the double whose bytes are at ``out[raw:]``."""
    after = np.int64(write_float8(out, raw, np.int64(8), np.int64(0), out, raw + 8))
    if after - raw - 8 != end - at:
        return False
    same = 0
    while same < end - at and out[raw + 8 + same] == src[at + same]:
        same += 1
    return same == end - at


@borrowing_kernel
def put_float8_bytes(src: Bytes, at: Int, end: Int, out: Bytes, raw: Int) -> Int:
    """Write the eight bytes of a double from its shortest text, the lowest first; tell if there is such a double.

    Args:
        src: uint8[] the text is ``src[at:end]``.
        at: where the text begins.
        end: where the text ends.
        out: uint8[] with room for 64 bytes more.
        raw: where in `out` the bytes go.
    """
    sign = np.int64(src[at] == MINUS)
    if not is_number(src, at, end - at):
        is_nan = src[at] == _LETTER_N
        _put_bits(_NAN if is_nan else _INFINITE, out, raw)
        out[raw + 7] |= sign << 7
        return True
    guess = _guess(src, at + sign, end)
    for step in range(2 * _NEIGHBOURS):
        bits = guess + ((step + 1) // 2 if step % 2 else -(step // 2))
        if bits >= 0:
            _put_bits(bits, out, raw)
            out[raw + 7] |= sign << 7
            if _is_text_of(src, at, end, out, raw):
                return True
    return False


@inline_kernel
def _find(src: Bytes, at: Int, end: Int, byte: Int) -> Int:
    while at < end and src[at] != byte:
        at += 1
    return at


@borrowing_kernel
def put_point(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write ``(1,2)`` with its coordinates and as WKB."""
    end = start + length - 1
    comma = _find(src, start, end, _COMMA)
    raw = o + 8 * length + 128
    if comma <= start or comma >= end:
        return UNTELLABLE
    for i in range(5):
        out[raw + i] = 1 if i < 2 else 0
    if not put_float8_bytes(src, start + 1, comma, out, raw + 5):
        return UNTELLABLE
    if not put_float8_bytes(src, comma + 1, end, out, raw + 13):
        return UNTELLABLE
    o = put_double(src, start + 1, comma - start - 1, out, copy(X_TEXT, 0, out, o, 5))
    o = put_double(src, comma + 1, end - comma - 1, out, copy(X_TEXT, 5, out, o, 5))
    o = put_base64(out, raw, raw + _POINT_BYTES, 0, out, copy(X_TEXT, 10, out, o, 7))
    return copy(X_TEXT, 17, out, o, 13)


@inline_kernel
def _uint32(src: Bytes, at: Int, is_little: Int) -> Int:
    """Read a number of four bytes from their hexadecimal digits."""
    value = np.int64(0)
    for i in range(4):
        value = value << 8 | hex_byte(src, at + 2 * (3 - i if is_little else i))
    return value


@borrowing_kernel
def put_geometry(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write hexadecimal EWKB as bytes, and its SRID."""
    if length < _HEAD_DIGITS:
        return UNTELLABLE
    is_little = np.int64(hex_byte(src, start) == 1)
    has_srid = _uint32(src, start + 2, is_little) & _SRID_FLAG != 0
    if has_srid and length < _HEAD_DIGITS + 8:
        return UNTELLABLE
    o = put_hex_as_base64(src, start, start + length, 0, out, copy(WKB_TEXT, 0, out, o, 7))
    if not has_srid:
        return copy(WKB_TEXT, 7, out, o, 13)
    srid = _uint32(src, start + _HEAD_DIGITS, is_little)
    o = put_signed(srid - (srid >> 31 << 32), out, copy(WKB_TEXT, 7, out, o, 8))
    out[o] = _CLOSE
    return o + 1


@borrowing_kernel
def put_vector(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write ``[1,2,3]`` as numbers with a point."""
    at, end = start + 1, start + length - 1
    out[o] = 0x5B
    o += 1
    while at < end:
        after = _find(src, at, end, _COMMA)
        o = put_double(src, at, after - at, out, o)
        if after < end:
            out[o] = _COMMA
            o += 1
        at = after + 1
    out[o] = 0x5D
    return o + 1


@inline_kernel
def _put_pair(src: Bytes, at: Int, colon: Int, after: Int, out: Bytes, o: Int) -> Int:
    out[o] = 0x5B
    o = copy(src, at, out, o + 1, colon - at)
    out[o] = _COMMA
    o = put_double(src, colon + 1, after - colon - 1, out, o + 1)
    out[o] = 0x5D
    return o + 1


@inline_kernel
def _dimensions(src: Bytes, at: Int, end: Int) -> Int:
    value = np.int64(0)
    for i in range(at, end):
        value = min(value * 10 + (src[i] - ZERO), np.int64(_MOST_DIMENSIONS + 1))
    return value


@borrowing_kernel
def put_sparse_vector(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write ``{1:1.5,3:2}/5`` with its dimensions, which must fit into 16 bits, and pairs of index and value."""
    end = start + length
    close = _find(src, start, end, _CLOSE)
    if close + 2 > end or _dimensions(src, close + 2, end) > _MOST_DIMENSIONS:
        return UNTELLABLE
    o = copy(src, close + 2, out, copy(SPARSE_TEXT, 0, out, o, 14), end - close - 2)
    o = copy(SPARSE_TEXT, 14, out, o, 11)
    at = start + 1
    while at < close:
        after = _find(src, at, close, _COMMA)
        o = _put_pair(src, at, _find(src, at, after, _COLON), after, out, o)
        if after < close:
            out[o] = _COMMA
            o += 1
        at = after + 1
    return copy(SPARSE_TEXT, 25, out, o, 2)
