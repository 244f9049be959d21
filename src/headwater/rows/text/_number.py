"""Kernels for whole numbers, bool and numeric (PostgreSQL: ``numutils.c``, ``int.c``, ``bool.c``, ``numeric.c``).

A numeric on disk is a header (2 bytes short form, or 4 bytes: sign and display scale, weight) and base-10000 digits,
leading and trailing zero digits stripped; its value is the sum of digit[i] * 10000 ** (weight - i).
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import Bytes, Int, load_i16, load_u16, load_u32, misfits, no_room
from headwater.rows._text_codes import CORRUPT, NEED_SPACE

PAIRS = np.frombuffer("".join(f"{i:02d}" for i in range(100)).encode(), dtype=np.uint8).copy()
"""The two digits of every number below 100."""

MAX_INT_TEXT = 20

_U1, _U10, _U100, _U10000 = (np.uint64(i) for i in (1, 10, 100, 10000))


@inline_kernel
def put_pair(value: Int, out: Bytes, o: Int) -> None:
    """Write two digits of a number below 100; the caller has checked the room."""
    out[o] = PAIRS[2 * value]
    out[o + 1] = PAIRS[2 * value + 1]


@inline_kernel
def put_four(value: Int, out: Bytes, o: Int) -> None:
    """Write four digits of a number below 10000; the caller has checked the room."""
    high = value * 5243 >> 19  # value // 100
    put_pair(high, out, o)
    put_pair(value - high * 100, out, o + 2)


@borrowing_kernel
def put_magnitude(value: Int, out: Bytes, o: Int) -> Int:
    """Write the digits of a uint64; the caller has checked for 20 bytes of room.

    A status instead of a place is handed back.
    """
    if o < 0:
        return o
    digits = 1
    rest = value
    while rest >= _U10000:
        rest //= _U10000
        digits += 4
    if rest >= _U100:
        digits += 3 if rest >= np.uint64(1000) else 2
    elif rest >= _U10:
        digits += 1
    at = o + digits
    while value >= _U100:
        high = value // _U100
        at -= 2
        put_pair(np.int64(value - high * _U100), out, at)
        value = high
    if value >= _U10:
        put_pair(np.int64(value), out, o)
    else:
        out[o] = 48 + np.int64(value)
    return o + digits


@inline_kernel
def _load_u64(src: Bytes, at: Int) -> Int:
    """Load a little-endian uint64; the caller has checked the bounds."""
    return np.uint64(load_u32(src, at)) | np.uint64(load_u32(src, at + 4)) << np.uint64(32)


@borrowing_kernel
def write_int(value: Int, out: Bytes, o: Int) -> Int:
    """Write the decimal text of an int64 (pg_lltoa)."""
    if no_room(out, o, MAX_INT_TEXT):
        return NEED_SPACE
    if value < 0:
        out[o] = 45
        return put_magnitude(np.uint64(-(value + 1)) + _U1, out, o + 1)
    return put_magnitude(np.uint64(value), out, o)


@borrowing_kernel
def write_uint64(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write the decimal text of an unsigned 64-bit number (xid8out)."""
    if misfits(start, length, 8):
        return CORRUPT
    if no_room(out, o, MAX_INT_TEXT):
        return NEED_SPACE
    return put_magnitude(_load_u64(src, start), out, o)


@borrowing_kernel
def write_snapshot(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write ``xmin:xmax:xip,xip`` (pg_snapshot_out)."""
    if start < 0 or length < 20:
        return CORRUPT
    count = load_u32(src, start)
    if 20 + 8 * count > length:
        return CORRUPT
    for i in range(count + 2):
        if no_room(out, o, MAX_INT_TEXT + 2):
            return NEED_SPACE
        if i > 0:
            out[o] = 58 if i < 3 else 44
            o += 1
        o = put_magnitude(_load_u64(src, start + 4 + 8 * i), out, o)
    if count == 0:
        out[o] = 58
        o += 1
    return o


@borrowing_kernel
def write_bool(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write ``t`` or ``f`` (boolout)."""
    if misfits(start, length, 1):
        return CORRUPT
    if no_room(out, o, 1):
        return NEED_SPACE
    out[o] = 116 if src[start] != 0 else 102
    return o + 1


@borrowing_kernel
def _write_special(header: Int, out: Bytes, o: Int) -> Int:
    """Write NaN, Infinity or -Infinity (numeric_out)."""
    if no_room(out, o, 9):
        return NEED_SPACE
    if header == 0xC000:
        out[o] = 78
        out[o + 1] = 97
        out[o + 2] = 78
        return o + 3
    if header != 0xD000 and header != 0xF000:
        return CORRUPT
    if header == 0xF000:
        out[o] = 45
        o += 1
    put_infinity(out, o, True)
    return o + 8


@inline_kernel
def put_infinity(out: Bytes, o: Int, capital: bool) -> None:
    """Write ``Infinity`` or ``infinity``; the caller has checked the room."""
    out[o] = 73 if capital else 105
    out[o + 1] = 110
    out[o + 2] = 102
    out[o + 3] = 105
    out[o + 4] = 110
    out[o + 5] = 105
    out[o + 6] = 116
    out[o + 7] = 121


@inline_kernel
def numeric_header(src: Bytes, start: Int, length: Int) -> tuple[Int, bool, Int, Int, Int]:
    """Read a numeric's header.

    Returns:
        0, CORRUPT or, of NaN and the infinities, the header itself; whether it is negative; the weight of its first
        digit; its display scale; where its digits begin.
    """
    if start < 0 or length < 2 or length & 1:
        return CORRUPT, False, 0, 0, 0
    header = load_u16(src, start)
    if header & 0xC000 == 0xC000:
        return header, False, 0, 0, start + 2
    if header & 0x8000:
        return 0, header & 0x2000 != 0, (header & 0x3F) - (header & 0x40), header >> 7 & 0x3F, start + 2
    if length < 4:
        return CORRUPT, False, 0, 0, 0
    return 0, header & 0x4000 != 0, load_i16(src, start + 2), header & 0x3FFF, start + 4


@borrowing_kernel
def write_numeric(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write the decimal text with the value's own display scale (numeric_out, get_str_from_var)."""
    kind, negative, weight, dscale, at = numeric_header(src, start, length)
    if kind < 0:
        return CORRUPT
    if kind > 0:
        return _write_special(kind, out, o)
    return _write_digits(src, at, start + length, negative, weight, dscale, out, o)


@borrowing_kernel
def _write_digits(src: Bytes, at: Int, end: Int, negative: bool, weight: Int, dscale: Int, out: Bytes, o: Int) -> Int:
    """Write base-10000 digits ``src[at:end]`` as sign, whole part, and `dscale` decimals."""
    count = (end - at) >> 1
    if at < 0 or no_room(out, o, 12 + max(4 * weight, 0) + dscale):
        return NEED_SPACE
    if negative:
        out[o] = 45
        o += 1
    first = o
    if weight < 0:
        out[o] = 48
        o += 1
    for i in range(weight + 1):
        digit = load_u16(src, at + 2 * i) if i < count else 0
        if digit > 9999:
            return CORRUPT
        put_four(digit, out, o)
        if i == 0:
            skip = 0
            while skip < 3 and out[first + skip] == 48:
                skip += 1
            for k in range(4 - skip):
                out[first + k] = out[first + k + skip]
            o -= skip
        o += 4
    if dscale == 0:
        return o
    out[o] = 46
    o += 1
    limit = o + dscale
    i = weight + 1
    while o < limit:
        digit = load_u16(src, at + 2 * i) if 0 <= i < count else 0
        if digit > 9999:
            return CORRUPT
        put_four(digit, out, o)
        o += 4
        i += 1
    return limit
