"""Kernels for network addresses and other fixed forms: inet, cidr, macaddr, pg_lsn, tid.

PostgreSQL: ``network.c``, ``inet_net_ntop.c``, ``mac.c``, ``mac8.c``, ``pg_lsn.c``, ``tid.c``.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import HEX, Bytes, Int, load_u16, load_u32, misfits, no_room
from headwater.rows._text_codes import CORRUPT, NEED_SPACE
from headwater.rows.text._number import put_magnitude

FAMILY_IPV4, FAMILY_IPV6 = 2, 3
MAX_INET_TEXT = 56


@borrowing_kernel
def _put_quad(src: Bytes, start: Int, out: Bytes, o: Int) -> Int:
    """Write ``a.b.c.d``. Room: 35 (each number is written as if it could be long)."""
    for i in range(4):
        if i > 0:
            out[o] = 46
            o += 1
        o = put_magnitude(np.uint64(src[start + i]), out, o)
    return o


@borrowing_kernel
def _put_hex(value: Int, capital: Int, digits: Int, out: Bytes, o: Int) -> Int:
    """Write at least `digits` hexadecimal digits of a uint32; `capital` is 32 for capital letters, else 0. Room: 8."""
    shift = 28
    while shift > 4 * (digits - 1) and value >> shift == 0:
        shift -= 4
    while shift >= 0:
        digit = np.int64(HEX[value >> shift & 15])
        out[o] = digit - capital if digit > 57 else digit
        o += 1
        shift -= 4
    return o


@inline_kernel
def _word(src: Bytes, start: Int, i: Int) -> Int:
    """Read the i-th 16-bit group of an IPv6 address."""
    return np.int64(src[start + 2 * i]) << 8 | np.int64(src[start + 2 * i + 1])


@borrowing_kernel
def _put_ipv6(src: Bytes, start: Int, out: Bytes, o: Int) -> Int:
    """Write an IPv6 address, its longest run of zero groups as ``::`` (inet_net_ntop_ipv6). Room: 48."""
    best, best_length, run = -1, 1, 0
    for i in range(8):
        run = run + 1 if _word(src, start, i) == 0 else 0
        if run > best_length:
            best, best_length = i + 1 - run, run
    for i in range(8):
        if best >= 0 and best <= i < best + best_length:
            if i == best:
                out[o] = 58
                o += 1
            continue
        if i != 0:
            out[o] = 58
            o += 1
        if (
            i == 6
            and best == 0
            and (
                best_length == 6
                or (best_length == 7 and _word(src, start, 7) != 1)
                or (best_length == 5 and _word(src, start, 5) == 0xFFFF)
            )
        ):
            return _put_quad(src, start + 12, out, o)
        o = _put_hex(_word(src, start, i), np.int64(0), 1, out, o)
    if best >= 0 and best + best_length == 8:
        out[o] = 58
        o += 1
    return o


@borrowing_kernel
def write_inet(src: Bytes, start: Int, length: Int, is_cidr: bool, out: Bytes, o: Int) -> Int:
    """Write an address, and ``/bits`` where not all bits count, or always for cidr (network_out)."""
    if start < 0 or length < 2:
        return CORRUPT
    family, bits = np.int64(src[start]), np.int64(src[start + 1])
    width = 32 if family == FAMILY_IPV4 else 128
    if family not in (FAMILY_IPV4, FAMILY_IPV6) or bits > width or length < 2 + width // 8:
        return CORRUPT
    if no_room(out, o, MAX_INET_TEXT):
        return NEED_SPACE
    if family == FAMILY_IPV4:
        o = _put_quad(src, start + 2, out, o)
    else:
        o = _put_ipv6(src, start + 2, out, o)
    if bits == width and not is_cidr:
        return o
    out[o] = 47
    return put_magnitude(np.uint64(bits), out, o + 1)


@borrowing_kernel
def write_macaddr(src: Bytes, start: Int, length: Int, size: Int, out: Bytes, o: Int) -> Int:
    """Write `size` (6 or 8) bytes in lower-case hexadecimal with colons (macaddr_out, macaddr8_out)."""
    if misfits(start, length, size):
        return CORRUPT
    if no_room(out, o, 3 * size):
        return NEED_SPACE
    for i in range(size):
        value = np.int64(src[start + i])
        out[o] = HEX[value >> 4]
        out[o + 1] = HEX[value & 15]
        out[o + 2] = 58
        o += 3
    return o - 1


@borrowing_kernel
def write_pg_lsn(src: Bytes, start: Int, length: Int, digits: Int, out: Bytes, o: Int) -> Int:
    """Write ``X/X`` in capital hexadecimal, after the slash at least so many digits (pg_lsn_out)."""
    if misfits(start, length, 8):
        return CORRUPT
    if no_room(out, o, 17):
        return NEED_SPACE
    o = _put_hex(load_u32(src, start + 4), np.int64(32), 1, out, o)
    out[o] = 47
    return _put_hex(load_u32(src, start), np.int64(32), digits, out, o + 1)


@borrowing_kernel
def write_tid(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write ``(block,offset)``; the block is two uint16, high first (tidout)."""
    if misfits(start, length, 6):
        return CORRUPT
    if no_room(out, o, 40):
        return NEED_SPACE
    out[o] = 40
    block = load_u16(src, start) << 16 | load_u16(src, start + 2)
    o = put_magnitude(np.uint64(block), out, o + 1)
    out[o] = 44
    o = put_magnitude(np.uint64(load_u16(src, start + 4)), out, o + 1)
    out[o] = 41
    return o + 1
