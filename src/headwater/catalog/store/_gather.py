"""Kernel: the bytes of many rows put one after another. The twin in plain Python is in the tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import kernel

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]


@kernel
def gather(source: Bytes, at: Int64s, length: Int64s, to: Int64s, out: Bytes) -> bool:
    """Copy ``source[at[i] : at[i] + length[i]]`` to ``out[to[i]]`` and after.

    Args:
        source: uint8[].
        at, length, to: int64[n] bytes.
        out: uint8[] written.

    Returns:
        False, with nothing more written, at the first span that lies outside of either.
    """
    for i in range(len(at)):
        start, size, place = at[i], length[i], to[i]
        if start < 0 or size < 0 or place < 0 or size > len(source) - start or size > len(out) - place:
            return False
        out[place : place + size] = source[start : start + size]
    return True
