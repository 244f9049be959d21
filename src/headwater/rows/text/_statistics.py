"""Text of extended statistics: numbers of distinct combinations, and functional dependencies.

PostgreSQL: ``statistics/mvdistinct.c`` (pg_ndistinct_out), ``statistics/dependencies.c`` (pg_dependencies_out). The
contract of every kernel is in ``_text.py``.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel
from headwater.rows._text_bytes import (
    Bytes,
    Int,
    load_i16,
    load_i32,
    load_i64,
    load_u32,
    misfits,
    no_room,
    write_verbatim,
)
from headwater.rows._text_codes import CORRUPT, NEED_SPACE
from headwater.rows.text._number import write_int

_NDISTINCT, _DEPENDENCIES = 0xA352BFA4, 0xB4549A2C
_BASIC = 1
_HEAD = 12
_MOST_ATTRIBUTES = 8
_ROOM = 256
_QUOTE = np.frombuffer(b'"', np.uint8)
_ARROW = np.frombuffer(b" => ", np.uint8)
_END_OF_KEY = np.frombuffer(b'": ', np.uint8)
_OBJECT = np.frombuffer(b'{"attributes": [', np.uint8)
_DISTINCT = np.frombuffer(b'], "ndistinct": ', np.uint8)
_DEPENDENCY = np.frombuffer(b'], "dependency": ', np.uint8)
_DEGREE = np.frombuffer(b', "degree": ', np.uint8)


@borrowing_kernel
def _millionths(bits: Int) -> Int:
    """Return a double of 0 to 1 in millionths, rounded to nearest, ties to even; -1 for another double."""
    if bits < 0 or bits > 0x3FF0000000000000:
        return np.int64(-1)
    mantissa, shift = bits & ((1 << 52) - 1) | 1 << 52, 1075 - (bits >> 52)
    if shift > 88:
        return np.int64(0)
    high, low = (mantissa >> 26) * 1000000, (mantissa & ((1 << 26) - 1)) * 1000000
    high += low >> 26
    low &= (1 << 26) - 1
    shift -= 26
    whole, rest, half = high >> shift, high & ((1 << shift) - 1), 1 << (shift - 1)
    if rest > half or (rest == half and (low > 0 or whole & 1)):
        whole += 1
    return whole


@borrowing_kernel
def _put_degree(millionths: Int, out: Bytes, o: Int) -> Int:
    """Write six decimals."""
    out[o] = 48 + millionths // 1000000
    out[o + 1] = 46
    for place in range(6):
        out[o + 7 - place] = 48 + millionths % 10
        millionths //= 10
    return o + 8


@borrowing_kernel
def _put_numbers(count: Int, src: Bytes, at: Int, out: Bytes, o: Int) -> Int:
    """Write ``1, 2``."""
    for number in range(count):
        if number > 0:
            out[o], out[o + 1] = 44, 32
            o += 2
        o = write_int(load_i16(src, at + 2 * number), out, o)
    return o


@borrowing_kernel
def _put_key(is_dependency: bool, is_json: bool, count: Int, src: Bytes, at: Int, out: Bytes, o: Int) -> Int:
    """Write the text before an item's number: ``"1, 2": ``, ``"1 => 2": `` or, from 19 on, an object of JSON."""
    known = count - 1 if is_dependency else count
    before = _OBJECT if is_json else _QUOTE
    o = write_verbatim(before, 0, len(before), out, o)
    o = _put_numbers(known, src, at, out, o)
    if is_dependency:
        between = _DEPENDENCY if is_json else _ARROW
        o = write_verbatim(between, 0, len(between), out, o)
        o = write_int(load_i16(src, at + 2 * known), out, o)
    after = _END_OF_KEY
    if is_json:
        after = _DEGREE if is_dependency else _DISTINCT
    return write_verbatim(after, 0, len(after), out, o)


@borrowing_kernel
def write_statistics(
    is_dependency: bool, is_json: bool, src: Bytes, start: Int, length: Int, out: Bytes, o: Int
) -> Int:
    """Write items in braces, or an array of JSON.

    An item is attributes, and the number of combinations or the degree of dependency.
    """
    end = start + length
    if length < _HEAD or misfits(start, length, length):
        return CORRUPT
    if load_u32(src, start) != (_DEPENDENCIES if is_dependency else _NDISTINCT) or load_u32(src, start + 4) != _BASIC:
        return CORRUPT
    items, at = load_u32(src, start + 8), start + _HEAD
    if items == 0 or no_room(out, o, 2):
        return CORRUPT if items == 0 else NEED_SPACE
    out[o] = 91 if is_json else 123
    o += 1
    width = 2 if is_dependency else 4
    for item in range(items):
        if end - at < 8 + width:
            return CORRUPT
        value = load_i64(src, at)
        count = np.int64(load_i16(src, at + 8)) if is_dependency else np.int64(load_i32(src, at + 8))
        at += 8 + width
        if not 2 <= count <= _MOST_ATTRIBUTES or end - at < 2 * count:
            return CORRUPT
        if no_room(out, o, _ROOM):
            return NEED_SPACE
        if item > 0:
            out[o], out[o + 1] = 44, 32
            o += 2
        o = _put_key(is_dependency, is_json, count, src, at, out, o)
        at += 2 * count
        number = _millionths(value) if is_dependency else _whole(value)
        if number < 0:
            return CORRUPT
        o = _put_degree(number, out, o) if is_dependency else write_int(number, out, o)
        if is_json:
            out[o] = 125
            o += 1
    if at != end or no_room(out, o, 1):
        return CORRUPT if at != end else NEED_SPACE
    out[o] = 93 if is_json else 125
    return o + 1


@borrowing_kernel
def _whole(bits: Int) -> Int:
    """Return a double of 0 to 2**31 without its fraction, as an int; -1 for another double."""
    shift = 1075 - (bits >> 52)
    if bits < 0 or shift < 22:
        return np.int64(-1)
    return (bits & ((1 << 52) - 1) | 1 << 52) >> shift if shift < 53 else np.int64(0)
