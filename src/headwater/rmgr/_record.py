"""Kernel: the headers of one record, for the index and decode kernels (PostgreSQL: DecodeXLogRecord, xlogreader.c).

The plain twin is :func:`headwater.wal.record.parse_record`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.kernels import borrowing_kernel, inline_kernel

Int: TypeAlias = Any
"""int64 in a kernel, int in plain Python: a number for which type checkers have no common name."""

HEADERS_LENGTH = 4 + 33 * 8
"""Length of the scratch array that :func:`parse_headers` fills."""

MAIN_AT, MAIN_LENGTH, TOPLEVEL_XID, ORIGIN = 0, 1, 2, 3
"""Slots of the scratch array, before the blocks."""

BLOCKS = 4
"""Where the blocks' slots start; each block takes eight."""

SPC, DB, REL, FORK, BLOCK, DATA_AT, DATA_LENGTH, IMAGE = 0, 1, 2, 3, 4, 5, 6, 7
"""Slots of one block; IMAGE is -1 without an image, else its ``bimg_info``."""

MALFORMED = -1
"""Returned when the headers and the record's length disagree."""


# Indexes that are uint64 cannot be negative, so that LLVM makes one load of each of these.
_1, _2, _3 = np.uint64(1), np.uint64(2), np.uint64(3)


@inline_kernel
def u16(data: NDArray[np.uint8], at: Int) -> Int:
    """Little-endian uint16 at an offset the caller has checked."""
    i = np.uint64(at)
    return np.int64(data[i]) | np.int64(data[i + _1]) << 8


@inline_kernel
def u32(data: NDArray[np.uint8], at: Int) -> Int:
    """Little-endian uint32 at an offset the caller has checked."""
    i = np.uint64(at)
    return np.int64(data[i]) | np.int64(data[i + _1]) << 8 | np.int64(data[i + _2]) << 16 | np.int64(data[i + _3]) << 24


@inline_kernel
def u64(data: NDArray[np.uint8], at: Int) -> Int:
    """Little-endian int64 at an offset the caller has checked."""
    return u32(data, at) | u32(data, at + 4) << 32


@borrowing_kernel
def parse_headers(data: NDArray[np.uint8], at: Int, end: Int, headers: NDArray[np.int64]) -> Int:
    """Read the block references of the record ``data[at:end]`` into ``headers``.

    Args:
        data: uint8[] record bytes.
        at: offset of the record's XLogRecord.
        end: ``at + xl_tot_len``; the caller has checked it against ``len(data)``.
        headers: int64[HEADERS_LENGTH] receives the slots named above.

    Returns:
        the number of blocks, or MALFORMED.
    """
    headers[MAIN_AT] = 0
    headers[MAIN_LENGTH] = 0
    headers[TOPLEVEL_XID] = 0
    headers[ORIGIN] = 0
    p = at + 24
    blocks = 0
    payload: Int = 0
    spc: Int = np.int64(-1)
    db: Int = np.int64(0)
    rel: Int = np.int64(0)
    while end - p > payload:
        ident = data[p]
        if ident <= 32:
            if p + 4 > end or blocks > 32:
                return MALFORMED
            flags = data[p + 1]
            length = u16(data, p + 2)
            p += 4
            slot = BLOCKS + blocks * 8
            image: Int = np.int64(-1)
            stored: Int = np.int64(0)
            if flags & 0x10:
                if p + 5 > end:
                    return MALFORMED
                stored = u16(data, p)
                image = np.int64(data[p + 4])
                p += 5
                if image & 0x1C and image & 0x01:
                    p += 2
            if not flags & 0x80:
                if p + 12 > end:
                    return MALFORMED
                spc = u32(data, p)
                db = u32(data, p + 4)
                rel = u32(data, p + 8)
                p += 12
            if p + 4 > end or spc < 0:
                return MALFORMED
            headers[slot + SPC] = spc
            headers[slot + DB] = db
            headers[slot + REL] = rel
            headers[slot + FORK] = flags & 0x0F
            headers[slot + BLOCK] = u32(data, p)
            headers[slot + DATA_AT] = payload + stored
            headers[slot + DATA_LENGTH] = length
            headers[slot + IMAGE] = image
            payload += stored + length
            p += 4
            blocks += 1
        elif ident == 255:
            if p + 2 > end:
                return MALFORMED
            headers[MAIN_LENGTH] = data[p + 1]
            payload += np.int64(data[p + 1])
            p += 2
            break
        elif ident == 254:
            if p + 5 > end:
                return MALFORMED
            headers[MAIN_LENGTH] = u32(data, p + 1)
            payload += u32(data, p + 1)
            p += 5
            break
        elif ident == 253:
            if p + 3 > end:
                return MALFORMED
            headers[ORIGIN] = u16(data, p + 1)
            p += 3
        elif ident == 252:
            if p + 5 > end:
                return MALFORMED
            headers[TOPLEVEL_XID] = u32(data, p + 1)
            p += 5
        else:
            return MALFORMED
    if end - p != payload:
        return MALFORMED
    for block in range(blocks):
        headers[BLOCKS + block * 8 + DATA_AT] += p
    headers[MAIN_AT] = end - headers[MAIN_LENGTH]
    return blocks
