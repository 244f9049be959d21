"""Kernel: messages of a plugin into CopyData, as a walsender wraps them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]
Int = int | np.int64

HEADER_BYTES = 1 + 4
"""Bytes of CopyData before its payload: a letter and a length."""

FRAME_BYTES = 1 + 4 + 1 + 8 + 8 + 8
"""Bytes before the data of each: CopyData's letter and length; ``w``, two LSNs, a time."""


@borrowing_kernel
def frame_messages(lsn: Int64s, offsets: Int64s, data: Bytes, now: int, out: Bytes) -> int:
    """Write a CopyData for each message.

    Args:
        lsn: int64[k] as they are sent; offsets: int64[k+1] byte offsets into data.
        data: uint8[].
        now: the time that they carry, microseconds since 2000-01-01.
        out: uint8[k * FRAME_BYTES + size of the data].

    Returns:
        bytes written.
    """
    o = 0
    for i in range(len(lsn)):
        start, end = offsets[i], offsets[i + 1]
        out[o] = 100
        _put(end - start + FRAME_BYTES - 1, 4, out, o + 1)
        out[o + 5] = 119
        _put(lsn[i], 8, out, o + 6)
        _put(lsn[i], 8, out, o + 14)
        _put(now, 8, out, o + 22)
        o += FRAME_BYTES
        for at in range(start, end):
            out[o] = data[at]
            o += 1
    return o


@borrowing_kernel
def whole_frames(data: Bytes, start: int) -> Int:
    """Return where whole messages of CopyData end that begin at a place.

    Args:
        data: uint8[] messages; behind those of CopyData another one may begin, or a part of one.
    """
    at: Int = start
    while at + HEADER_BYTES <= len(data) and data[at] == 100:
        size: Int = 0
        for place in range(at + 1, at + HEADER_BYTES):
            size = size << 8 | np.int64(data[place])
        if at + 1 + size > len(data):
            break
        at += 1 + size
    return at


@borrowing_kernel
def frame_rows(offsets: Int64s, data: Bytes, out: Bytes) -> int:
    """Write a CopyData for each payload.

    Args:
        offsets: int64[k+1] byte offsets into data; data: uint8[].
        out: uint8[k * HEADER_BYTES + size of the data].

    Returns:
        bytes written.
    """
    o = 0
    for i in range(len(offsets) - 1):
        start, end = offsets[i], offsets[i + 1]
        out[o] = 100
        _put(end - start + HEADER_BYTES - 1, 4, out, o + 1)
        o += HEADER_BYTES
        for at in range(start, end):
            out[o] = data[at]
            o += 1
    return o


@borrowing_kernel
def _put(value: int, size: int, out: Bytes, o: int) -> None:
    """Write a number in big-endian order."""
    for at in range(size):
        out[o + at] = (value >> (8 * (size - 1 - at))) & 255
