"""PostgreSQL's own LZ compression, the decompressing half (``common/pg_lzcompress.c``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import kernel


@kernel
def pglz_decompress(
    source: NDArray[np.uint8], start: int, length: int, out: NDArray[np.uint8], at: int, raw_size: int
) -> int:
    """Decompress source[start : start + length] to out[at : at + raw_size].

    Args:
        source: uint8[] compressed bytes without any header.
        start: first byte.
        length: bytes.
        out: uint8[] destination.
        at: first byte to write.
        raw_size: bytes the result must have.

    Returns:
        at + raw_size, or -1 if the input is malformed, too short or too long.
    """
    end = start + length
    last = at + raw_size
    if start < 0 or length < 0 or end > source.shape[0] or at < 0 or raw_size < 0 or last > out.shape[0]:
        return -1
    i = start
    o = at
    while i < end and o < last:
        control = np.int64(source[i])
        i += 1
        for bit in range(8):
            if i >= end or o >= last:
                break
            if (control >> bit) & 1 == 0:
                out[o] = source[i]
                i += 1
                o += 1
                continue
            if i + 2 > end:
                return -1
            size = (np.int64(source[i]) & 0x0F) + 3
            back = (np.int64(source[i]) & 0xF0) << 4 | np.int64(source[i + 1])
            i += 2
            if size == 18:
                if i >= end:
                    return -1
                size += np.int64(source[i])
                i += 1
            if back == 0 or back > o - at:
                return -1
            for _ in range(min(int(size), last - o)):
                out[o] = out[o - back]
                o += 1
    return o if i == end and o == last else -1
