"""The compressed form of a varlena back to the bytes it was.

Mirrors ``access/common/toast_compression.c``. A compressed varlena's payload is a 4-byte ``va_tcinfo`` (raw size in the
low 30 bits, method in the top two: 0 pglz, 1 lz4) and the block. One thing is stricter than the server: an lz4 block
has to give exactly the size that ``va_tcinfo`` says, not at most that.
"""

from __future__ import annotations

from headwater.base.kernels import borrowing_kernel
from headwater.rows._copy import read_u32
from headwater.rows._text_bytes import Bytes, Int
from headwater.wal._lz4 import lz4_decompress
from headwater.wal._pglz import pglz_decompress

CORRUPT = -2
PGLZ, LZ4 = 0, 1

# The best either method can do: pglz makes 273 bytes of 3 and a control bit, lz4 255 of one.
_MAX_RATIO = 256


@borrowing_kernel
def raw_size(src: Bytes, start: Int, length: Int) -> Int:
    """Return the size a compressed payload promises, or CORRUPT if no block of that length could hold it.

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
    if raw < 0:
        return CORRUPT
    method = read_u32(src, start) >> 30
    if method == PGLZ:
        end = pglz_decompress(src, start + 4, length - 4, out, o, raw)
    elif method == LZ4:
        end = lz4_decompress(src, start + 4, length - 4, out, o, raw)
    else:
        return CORRUPT
    return end if end >= 0 else CORRUPT
