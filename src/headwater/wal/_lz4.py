"""LZ4 blocks, the decompressing half (the format of ``LZ4_decompress_safe``; no frame around it)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import inline_kernel, kernel

MIN_MATCH, LONG = 4, 15
MALFORMED = -1


@inline_kernel
def _length(nibble: np.int64, source: NDArray[np.uint8], i: int, end: int) -> tuple[np.int64, int]:
    """Read a length that begins in a token and, when LONG there, goes on at source[i:end].

    Returns (length or MALFORMED, new i).
    """
    size = nibble
    more = np.int64(255 if nibble == LONG else 0)
    while more == 255:
        if i >= end:
            return np.int64(MALFORMED), i
        more = np.int64(source[i])
        i += 1
        size += more
    return size, i


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
        size, i = _length(token >> 4, source, i, end)
        if size < 0 or size > end - i or size > last - o:
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
        size, i = _length(token & 15, source, i, end)
        if back == 0 or back > o - at or size < 0 or size + MIN_MATCH > last - o:
            return MALFORMED
        for _ in range(size + MIN_MATCH):
            out[o] = out[o - back]
            o += 1
    return MALFORMED
