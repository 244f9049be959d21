"""Kernel: the headers of a record, for the index and decode kernels (PostgreSQL: DecodeXLogRecord, xlogreader.c).

The plain twin is :func:`headwater.wal.records.record.parse_record`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rmgr.header_slots import (
    BLOCK,
    BLOCKS,
    COMPRESSED,
    DATA_AT,
    DATA_LENGTH,
    DB,
    FORK,
    IMAGE,
    MAIN_AT,
    MAIN_LENGTH,
    ORIGIN,
    PAYLOAD_AT,
    REL,
    SPC,
    TOPLEVEL_XID,
)
from headwater.wal.layout import (
    BKPBLOCK_FORK_MASK,
    BKPBLOCK_HAS_IMAGE,
    BKPBLOCK_SAME_REL,
    BKPIMAGE_HAS_HOLE,
    RECORD_HEADER_SIZE,
    XLR_BLOCK_ID_DATA_LONG,
    XLR_BLOCK_ID_DATA_SHORT,
    XLR_BLOCK_ID_ORIGIN,
    XLR_BLOCK_ID_TOPLEVEL_XID,
    XLR_MAX_BLOCK_ID,
)

Int: TypeAlias = Any
"""int64 in a kernel, int in plain Python: a number for which type checkers have no common name."""

MALFORMED = -1
"""The result when the headers and the record's length disagree."""


# Indexes that are uint64 cannot be negative, so that LLVM makes one load of each of these.
_1, _2, _3 = np.uint64(1), np.uint64(2), np.uint64(3)


@inline_kernel
def u16(data: NDArray[np.uint8], at: Int) -> Int:
    """Read a little-endian uint16 at an offset the caller has checked."""
    i = np.uint64(at)
    return np.int64(data[i]) | np.int64(data[i + _1]) << 8


@inline_kernel
def u32(data: NDArray[np.uint8], at: Int) -> Int:
    """Read a little-endian uint32 at an offset the caller has checked."""
    i = np.uint64(at)
    return np.int64(data[i]) | np.int64(data[i + _1]) << 8 | np.int64(data[i + _2]) << 16 | np.int64(data[i + _3]) << 24


@inline_kernel
def u64(data: NDArray[np.uint8], at: Int) -> Int:
    """Read a little-endian int64 at an offset the caller has checked."""
    return u32(data, at) | u32(data, at + 4) << 32


@inline_kernel
def _image(data: NDArray[np.uint8], p: Int, end: Int, compressed: Int) -> tuple[Int, Int, Int]:
    """Read the header of a full-page image at ``p``: (the offset after it or MALFORMED, bytes stored, bimg_info)."""
    if p + 5 > end:
        return MALFORMED, np.int64(0), np.int64(0)
    info = np.int64(data[p + 4])
    hole = 2 if info & compressed and info & BKPIMAGE_HAS_HOLE else 0
    return p + 5 + hole, u16(data, p), info


@inline_kernel
def _block(
    data: NDArray[np.uint8], p: Int, end: Int, blocks: Int, payload: Int, headers: NDArray[np.int64]
) -> tuple[Int, Int]:
    """Read the header of block number ``blocks`` at ``p``: (the offset after it or MALFORMED, payload bytes so far)."""
    if p + 4 > end or blocks > XLR_MAX_BLOCK_ID:
        return MALFORMED, payload
    flags, length = data[p + 1], u16(data, p + 2)
    p += 4
    slot = BLOCKS + blocks * 8
    image: Int = np.int64(-1)
    stored: Int = np.int64(0)
    if flags & BKPBLOCK_HAS_IMAGE:
        p, stored, image = _image(data, p, end, headers[COMPRESSED])
        if p < 0:
            return MALFORMED, payload
    if flags & BKPBLOCK_SAME_REL:
        if blocks == 0:
            return MALFORMED, payload
        for field in range(SPC, REL + 1):
            headers[slot + field] = headers[slot - 8 + field]
    else:
        if p + 12 > end:
            return MALFORMED, payload
        headers[slot + SPC], headers[slot + DB], headers[slot + REL] = u32(data, p), u32(data, p + 4), u32(data, p + 8)
        p += 12
    if p + 4 > end:
        return MALFORMED, payload
    headers[slot + FORK], headers[slot + BLOCK] = flags & BKPBLOCK_FORK_MASK, u32(data, p)
    headers[slot + DATA_AT], headers[slot + DATA_LENGTH] = payload + stored, length
    headers[slot + IMAGE] = image
    return p + 4, payload + stored + length


@inline_kernel
def _main_length(data: NDArray[np.uint8], p: Int, end: Int) -> tuple[Int, Int]:
    """Read the header of the main data, short or long: (the offset after it or MALFORMED, bytes of main data)."""
    if data[p] == XLR_BLOCK_ID_DATA_SHORT:
        return (p + 2, np.int64(data[p + 1])) if p + 2 <= end else (MALFORMED, np.int64(0))
    return (p + 5, u32(data, p + 1)) if p + 5 <= end else (MALFORMED, np.int64(0))


@inline_kernel
def _origin_or_toplevel(data: NDArray[np.uint8], p: Int, end: Int, headers: NDArray[np.int64]) -> Int:
    """Read the replication origin or the toplevel xid; return the offset after it or MALFORMED."""
    if data[p] == XLR_BLOCK_ID_ORIGIN:
        if p + 3 > end:
            return MALFORMED
        headers[ORIGIN] = u16(data, p + 1)
        return p + 3
    if data[p] != XLR_BLOCK_ID_TOPLEVEL_XID or p + 5 > end:
        return MALFORMED
    headers[TOPLEVEL_XID] = u32(data, p + 1)
    return p + 5


@borrowing_kernel
def parse_headers(data: NDArray[np.uint8], at: Int, end: Int, headers: NDArray[np.int64]) -> Int:
    """Read the block references of the record ``data[at:end]`` into ``headers``.

    Args:
        data: uint8[] record bytes.
        at: offset of the record's XLogRecord.
        end: ``at + xl_tot_len``; the caller has checked it against ``len(data)``.
        headers: int64[HEADERS_LENGTH] made by header_scratch; receives the slots of
            :mod:`headwater.rmgr.header_slots`.

    Returns:
        the number of blocks, or MALFORMED.
    """
    headers[MAIN_LENGTH] = headers[TOPLEVEL_XID] = headers[ORIGIN] = 0
    p = at + RECORD_HEADER_SIZE
    blocks: Int = np.int64(0)
    payload: Int = np.int64(0)
    while end - p > payload:
        if data[p] <= XLR_MAX_BLOCK_ID:
            p, payload = _block(data, p, end, blocks, payload, headers)
            blocks += 1
        elif data[p] >= XLR_BLOCK_ID_DATA_LONG:
            p, headers[MAIN_LENGTH] = _main_length(data, p, end)
            payload += headers[MAIN_LENGTH]
            break
        else:
            p = _origin_or_toplevel(data, p, end, headers)
        if p < 0:
            return MALFORMED
    if p < 0 or end - p != payload:
        return MALFORMED
    for block in range(blocks):
        headers[BLOCKS + block * 8 + DATA_AT] += p
    headers[PAYLOAD_AT] = p
    headers[MAIN_AT] = end - headers[MAIN_LENGTH]
    return blocks
