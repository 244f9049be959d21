"""The hash of Iceberg's bucket transform (spec, "Appendix B: 32-bit Hash Requirements"): Murmur3, x86, 32 bits, seed 0.

Of all values of a column at once, block by block: values of different lengths drop out as they end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

_FIRST, _SECOND = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_BLOCK = 4


def murmur3_of_integers(values: NDArray[np.int64]) -> Words:
    """Return uint32[n] the hashes of integers, each as 8 bytes, little-endian.

    Args:
        values: int64[n] they.
    """
    content = values.astype("<i8").view(np.uint8)
    return murmur3(content, np.arange(len(values) + 1, dtype=np.int64) * values.itemsize)


def murmur3(content: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Words:
    """Return uint32[n] the hashes of values.

    Args:
        content: their bytes, one after the other; offsets: int64[n + 1] where each begins, and the last one ends.
    """
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = np.zeros(len(starts), np.uint32)
    padded = np.append(content, np.zeros(_BLOCK, np.uint8))
    for block in range(int(lengths.max(initial=0)) // _BLOCK):
        which = np.flatnonzero(lengths >= (block + 1) * _BLOCK)
        hashes[which] = _rotated(hashes[which] ^ _mixed(_words(padded, starts[which] + block * _BLOCK)), 13)
        hashes[which] = hashes[which] * np.uint32(5) + np.uint32(0xE6546B64)
    rest = lengths % _BLOCK
    which = np.flatnonzero(rest)
    tails = _words(padded, starts[which] + lengths[which] - rest[which])
    mask = (np.uint64(1) << (np.uint64(8) * rest[which].astype(np.uint64))) - np.uint64(1)
    hashes[which] ^= _mixed(tails & mask.astype(np.uint32))
    return _ended(hashes ^ lengths.astype(np.uint32))


def _words(content: NDArray[np.uint8], at: NDArray[np.int64]) -> Words:
    parts = [content[at + number].astype(np.uint32) << np.uint32(8 * number) for number in range(_BLOCK)]
    words: Words = parts[0] | parts[1] | parts[2] | parts[3]
    return words


def _rotated(words: Words, bits: int) -> Words:
    rotated: Words = (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
    return rotated


def _mixed(words: Words) -> Words:
    return _rotated(words * _FIRST, 15) * _SECOND


def _ended(hashes: Words) -> Words:
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashes = (hashes ^ (hashes >> np.uint32(shift))) * np.uint32(factor)
    ended: Words = hashes ^ (hashes >> np.uint32(16))
    return ended
