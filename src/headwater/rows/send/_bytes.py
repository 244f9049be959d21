"""Kernels for values that are sent as numbers in network byte order, and for strings of bytes and bits.

PostgreSQL: ``pqformat.h`` (pq_sendint), ``int.c``, ``float.c``, ``date.c``, ``timestamp.c``, ``geo_ops.c``,
``numeric.c`` (numeric_send), ``varbit.c``, ``network.c``, ``bool.c``. The contract of every kernel is in ``_send.py``.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._send_codes import FIELDS, FIELDS_SIZE
from headwater.rows._text_bytes import Bytes, Int, load_i16, load_i32, load_u16, misfits, no_room, write_verbatim
from headwater.rows._text_codes import CODE_PATH, CORRUPT, NEED_SPACE
from headwater.rows.text._network import FAMILY_IPV4, FAMILY_IPV6
from headwater.rows.text._vector import ARRAY_HEADER, item_count


@inline_kernel
def put_16(value: Int, out: Bytes, o: Int) -> None:
    """Write the low 16 bits, big-endian; the caller has checked the room."""
    out[o] = value >> 8 & 255
    out[o + 1] = value & 255


@inline_kernel
def put_32(value: Int, out: Bytes, o: Int) -> None:
    """Write the low 32 bits, big-endian; the caller has checked the room."""
    put_16(value >> 16, out, o)
    put_16(value, out, o + 2)


@borrowing_kernel
def send_numbers(src: Bytes, at: Int, width: Int, count: Int, out: Bytes, o: Int) -> Int:
    """Write `count` little-endian numbers of `width` bytes turned round; the caller has checked what is read."""
    if at < 0 or no_room(out, o, width * count):
        return NEED_SPACE
    for i in range(0, width * count, width):
        for k in range(width):
            out[o + i + k] = src[at + i + width - 1 - k]
    return o + width * count


@borrowing_kernel
def send_fields(row: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a value of numbers whose widths a row of FIELDS has (int4send, timestamp_send, interval_send, ...)."""
    if misfits(start, length, FIELDS_SIZE[row]):
        return CORRUPT
    for field in range(4):
        width = FIELDS[row, field]
        if width > 0 and o >= 0:
            o = send_numbers(src, start, width, np.int64(1), out, o)
            start += width
    return o


@borrowing_kernel
def send_bool(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write 1 or 0 (boolsend)."""
    if misfits(start, length, 1):
        return CORRUPT
    if no_room(out, o, 1):
        return NEED_SPACE
    out[o] = 1 if src[start] != 0 else 0
    return o + 1


@borrowing_kernel
def send_bit(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a bit count and the bits (bit_send, varbit_send)."""
    if start < 0 or length < 4:
        return CORRUPT
    bits = load_i32(src, start)
    if bits < 0 or (bits + 7) // 8 > length - 4:
        return CORRUPT
    o = send_numbers(src, start, np.int64(4), np.int64(1), out, o)
    return write_verbatim(src, start + 4, length - 4, out, o) if o >= 0 else o


@borrowing_kernel
def send_numeric(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write counts of digits, weight, sign, display scale and base-10000 digits, 16 bits each (numeric_send).

    NaN and the infinities have their header's bits as a sign, and as a scale what the short header's bits would be.
    """
    if start < 0 or length < 2 or length & 1:
        return CORRUPT
    header = load_u16(src, start)
    if header & 0x8000:
        at = start + 2
        weight, dscale = (header & 0x3F) - (header & 0x40), header >> 7 & 0x3F
        sign = (header & 0x2000) << 1
        if header & 0xC000 == 0xC000:
            sign = header & 0xF000
    else:
        if length < 4:
            return CORRUPT
        at = start + 4
        weight, dscale, sign = load_i16(src, start + 2), header & 0x3FFF, header & 0x4000
    if no_room(out, o, 8):
        return NEED_SPACE
    count = start + length - at >> 1
    put_16(count, out, o)
    put_16(weight, out, o + 2)
    put_16(sign, out, o + 4)
    put_16(dscale, out, o + 6)
    return send_numbers(src, at, np.int64(2), count, out, o + 8)


@borrowing_kernel
def send_inet(src: Bytes, start: Int, length: Int, is_cidr: bool, out: Bytes, o: Int) -> Int:
    """Write family, bits, whether it is a cidr, the address's size and the address (inet_send, cidr_send)."""
    if start < 0 or length < 2:
        return CORRUPT
    family = np.int64(src[start])
    size = 4 if family == FAMILY_IPV4 else 16
    if (family != FAMILY_IPV4 and family != FAMILY_IPV6) or length < 2 + size:
        return CORRUPT
    if no_room(out, o, 4):
        return NEED_SPACE
    out[o], out[o + 1], out[o + 2], out[o + 3] = family, src[start + 1], 1 if is_cidr else 0, size
    return write_verbatim(src, start + 2, np.int64(size), out, o + 4)


@borrowing_kernel
def send_point_list(code: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a path (a byte: is it closed; count, points) or a polygon (count, points)."""
    first = 12 if code == CODE_PATH else 36
    if start < 0 or length < first:
        return CORRUPT
    count = load_i32(src, start)
    if count < 0 or length != first + 16 * count:
        return CORRUPT
    if no_room(out, o, 5):
        return NEED_SPACE
    if code == CODE_PATH:
        out[o] = 1 if load_i32(src, start + 4) != 0 else 0
        o += 1
    put_32(count, out, o)
    return send_numbers(src, start + first, np.int64(8), 2 * count, out, o + 4)


@inline_kernel
def _digit(byte: Int) -> Int:
    """Return the number that a hexadecimal digit stands for."""
    return (byte & 15) + (9 if byte >= 65 else 0)


@borrowing_kernel
def put_together(out: Bytes, o: Int, end: Int) -> Int:
    """Turn the hexadecimal digits ``out[o:end]`` into the bytes they stand for, in place; their end."""
    if o < 0 or end < o:
        return NEED_SPACE
    count = end - o >> 1
    for i in range(count):
        out[o + i] = _digit(np.int64(out[o + 2 * i])) << 4 | _digit(np.int64(out[o + 2 * i + 1]))
    return o + count


@borrowing_kernel
def send_integer_vector(width: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write int2vector (`width` 2) or oidvector (4) as any array (int2vectorsend, oidvectorsend)."""
    items = item_count(src, start, length)
    if items < 0:
        return CORRUPT
    dimensions = load_i32(src, start)
    at = start + ARRAY_HEADER + 8 * dimensions
    if dimensions > 1 or load_i32(src, start + 4) != 0 or at + width * items > start + length:
        return CORRUPT
    o = send_array_head(src, start, out, o)
    for item in range(items):
        if no_room(out, o, 4):
            return NEED_SPACE
        put_32(width, out, o)
        o = send_numbers(src, at + width * item, width, np.int64(1), out, o + 4)
    return o


@borrowing_kernel
def send_array_head(src: Bytes, start: Int, out: Bytes, o: Int) -> Int:
    """Write an array's head: dimensions, whether it has NULLs, its elements' type, sizes and lower bounds."""
    dimensions = load_i32(src, start)
    if start < 0 or no_room(out, o, ARRAY_HEADER + 8 * dimensions):
        return NEED_SPACE
    put_32(dimensions, out, o)
    put_32(1 if load_i32(src, start + 4) != 0 else 0, out, o + 4)
    o = send_numbers(src, start + 8, np.int64(4), np.int64(1), out, o + 8)
    for i in range(dimensions):
        for word in range(2):
            at = start + ARRAY_HEADER + 4 * (i + word * dimensions)
            o = send_numbers(src, at, np.int64(4), np.int64(1), out, o)
    return o
