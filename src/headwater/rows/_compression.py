"""The two compressed forms of a varlena: pglz and lz4 blocks back to the bytes they were.

Mirrors ``common/pg_lzcompress.c`` (``pglz_decompress`` with ``check_complete``), ``access/common/toast_compression.c``
and the public LZ4 block format. A compressed varlena's payload is a 4-byte ``va_tcinfo`` (raw size in the low 30 bits,
method in the top two: 0 pglz, 1 lz4) and the block.

Every read and every copy is checked, so that any input ends in the promised size or in :data:`CORRUPT`. One thing is
stricter than the server: an lz4 block has to give exactly the size that ``va_tcinfo`` says, not at most that.
"""

from __future__ import annotations

import numpy as np

from headwater.kernels import borrowing_kernel
from headwater.rows._copy import copy, read_u32
from headwater.rows._text_bytes import Bytes, Int

CORRUPT = -2
PGLZ, LZ4 = 0, 1

# The best either method can do: pglz makes 273 bytes of 3 and a control bit, lz4 255 of one.
_MAX_RATIO = 256


@borrowing_kernel
def _repeat(out: Bytes, o: Int, distance: Int, length: Int) -> Int:
    """Copy ``length`` bytes from ``distance`` back, byte by byte where the ranges overlap; the new ``o``."""
    if distance >= length:
        return copy(out, o - distance, out, o, length)
    window = out[o - distance : o + length]
    shift = np.uint64(distance)
    for k in range(length):
        window[np.uint64(k) + shift] = window[k]
    return o + length


@borrowing_kernel
def pglz(src: Bytes, start: Int, end: Int, out: Bytes, o: Int, raw: Int) -> Int:
    """Decompress one pglz block.

    Args:
        src: uint8[] holds the block at ``[start, end)``, which lies inside.
        start: bytes.
        end: bytes.
        out: uint8[] takes the result at ``[o, o + raw)``, which lies inside; may be src if the ranges are apart.
        o: bytes.
        raw: size of the result, bytes.

    Returns:
        ``o + raw``, or CORRUPT.
    """
    first, stop, at = o, o + raw, start
    while at < end and o < stop:
        control = np.int64(src[at])
        at += 1
        for _ in range(8):
            if at >= end or o >= stop:
                break
            if control & 1:
                if at + 2 > end:
                    return CORRUPT
                tag = np.int64(src[at])
                length = (tag & 15) + 3
                distance = (tag & 0xF0) << 4 | np.int64(src[at + 1])
                at += 2
                if length == 18:
                    if at >= end:
                        return CORRUPT
                    length += np.int64(src[at])
                    at += 1
                if distance == 0 or distance > o - first:
                    return CORRUPT
                o = _repeat(out, o, distance, min(length, stop - o))
            else:
                out[o] = src[at]
                o += 1
                at += 1
            control >>= 1
    return o if o == stop and at == end else CORRUPT


@borrowing_kernel
def _lz4_length(src: Bytes, at: Int, end: Int, length: Int) -> tuple[Int, Int]:
    """A length whose nibble was 15 goes on in bytes of 255 and a last one; (new at or CORRUPT, length)."""
    if length != 15:
        return at, length
    while True:
        if at >= end:
            return CORRUPT, length
        more = np.int64(src[at])
        at += 1
        length += more
        if more != 255:
            return at, length


@borrowing_kernel
def lz4(src: Bytes, start: Int, end: Int, out: Bytes, o: Int, raw: Int) -> Int:
    """Decompress one LZ4 block; arguments and result as of :func:`pglz`."""
    first, stop, at = o, o + raw, start
    while at < end:
        token = np.int64(src[at])
        at, literals = _lz4_length(src, at + 1, end, token >> 4)
        if at < 0 or literals > end - at or literals > stop - o:
            return CORRUPT
        o = copy(src, at, out, o, literals)
        at += literals
        if at == end:
            return o if o == stop else CORRUPT
        if at + 2 > end:
            return CORRUPT
        distance = np.int64(src[at]) | np.int64(src[at + 1]) << 8
        at, length = _lz4_length(src, at + 2, end, token & 15)
        length += 4
        if at < 0 or distance == 0 or distance > o - first or length > stop - o:
            return CORRUPT
        o = _repeat(out, o, distance, length)
    return CORRUPT


@borrowing_kernel
def raw_size(src: Bytes, start: Int, length: Int) -> Int:
    """The size a compressed payload promises, or CORRUPT if no block of that length could hold it.

    Args:
        src: uint8[] holds the payload (``va_tcinfo`` and block) at ``[start, start + length)``, which lies inside.
        start: bytes.
        length: bytes.
    """
    if length < 4:
        return CORRUPT
    size = read_u32(src, start) & 0x3FFFFFFF
    return size if size <= (length - 4) * _MAX_RATIO else CORRUPT


@borrowing_kernel
def decompress(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Decompress a payload that begins with ``va_tcinfo``; ``out`` has room for :func:`raw_size` bytes from ``o`` on.

    Returns:
        The new ``o``, or CORRUPT (also for a method that is neither pglz nor lz4).
    """
    raw = raw_size(src, start, length)
    if raw < 0 or o + raw > len(out):
        return CORRUPT
    method = read_u32(src, start) >> 30
    if method == PGLZ:
        return pglz(src, start + 4, start + length, out, o, raw)
    if method == LZ4:
        return lz4(src, start + 4, start + length, out, o, raw)
    return CORRUPT
