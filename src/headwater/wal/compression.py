"""Decompression of what the server compressed: page images, values inside rows (``common/pg_lzcompress.c``, LZ4)."""

from __future__ import annotations

import numpy as np

from headwater.wal._lz4 import lz4_decompress
from headwater.wal._pglz import pglz_decompress

_KERNELS = {"pglz": pglz_decompress, "lz4": lz4_decompress}


def decompressed(method: str, data: bytes, size: int) -> bytes | None:
    """Decompress bytes; return None if they do not come out at their size.

    Args:
        method: ``pglz`` or ``lz4``, as raw blocks without any header.
        data: the compressed bytes.
        size: bytes it must have.
    """
    out = np.zeros(size, np.uint8)
    end = _KERNELS[method](np.frombuffer(data, np.uint8), 0, len(data), out, 0, size)
    return out.tobytes() if end == size else None
