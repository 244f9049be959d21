"""LZ4 blocks, the decompressing half (the format of ``LZ4_decompress_safe``; no frame around it)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.kernels import kernel

MIN_MATCH = 4
MALFORMED = -1


@kernel
def lz4_decompress(
    source: NDArray[np.uint8], start: int, length: int, out: NDArray[np.uint8], at: int, raw_size: int
) -> int:
    """Decompress source[start : start + length] to out[at : at + raw_size].

    Args:
        source: uint8[] one compressed block.
        start: first byte.
        length: bytes.
        out: uint8[] destination.
        at: first byte to write.
        raw_size: bytes the result must have.

    Returns:
        at + raw_size, or MALFORMED if the input is malformed, too short or too long.
    """
    end = start + length
    last = at + raw_size
    if start < 0 or length < 0 or end > source.shape[0] or at < 0 or raw_size < 0 or last > out.shape[0]:
        return MALFORMED
    i = start
    o = at
    while i < end:
        token = np.int64(source[i])
        i += 1
        size = token >> 4
        if size == 15:
            more = np.int64(255)
            while more == 255:
                if i >= end:
                    return MALFORMED
                more = np.int64(source[i])
                i += 1
                size += more
        if size > end - i or size > last - o:
            return MALFORMED
        for _ in range(size):
            out[o] = source[i]
            i += 1
            o += 1
        # The last sequence is literals only.
        if i == end:
            return o if o == last else MALFORMED
        if i + 2 > end:
            return MALFORMED
        back = np.int64(source[i]) | np.int64(source[i + 1]) << 8
        i += 2
        size = (token & 15) + MIN_MATCH
        if token & 15 == 15:
            more = np.int64(255)
            while more == 255:
                if i >= end:
                    return MALFORMED
                more = np.int64(source[i])
                i += 1
                size += more
        if back == 0 or back > o - at or size > last - o:
            return MALFORMED
        for _ in range(size):
            out[o] = out[o - back]
            o += 1
    return MALFORMED
