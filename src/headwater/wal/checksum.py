"""CRC-32C of plain bytes, as control files and relation maps carry it (kernel: :mod:`headwater.wal._crc`)."""

from __future__ import annotations

import numpy as np

from headwater.wal._crc import POLYNOMIAL, words_crc

CASTAGNOLI = POLYNOMIAL
"""The polynomial, its bits reflected."""


def crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of `data`, 32 bits."""
    padded = np.zeros(-(-len(data) // 8), np.int64)
    padded.view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
    return int(words_crc(padded, len(data)))
