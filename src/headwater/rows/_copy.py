"""Unaligned loads and copies of bytes, eight at a time.

Indexes are uint64, for which Numba emits no code for negative ones; LLVM then makes one load or store of eight bytes.
The caller has checked all ranges.
"""

from __future__ import annotations

import numpy as np

from headwater.kernels import borrowing_kernel
from headwater.rows._text_bytes import Bytes, Int

_1, _2, _3, _4, _5, _6, _7, _8 = (np.uint64(i) for i in range(1, 9))
_S8, _S16, _S24, _S32, _S40, _S48, _S56 = (np.uint64(8 * i) for i in range(1, 8))
_0, _BYTE = np.uint64(0), np.uint64(0xFF)


@borrowing_kernel
def read_u32(data: Bytes, at: Int) -> Int:
    """The little-endian uint32 at an offset (data uint8[], at bytes)."""
    i = np.uint64(at)
    return (
        np.int64(data[i])
        | np.int64(data[i + _1]) << np.int64(8)
        | np.int64(data[i + _2]) << np.int64(16)
        | np.int64(data[i + _3]) << np.int64(24)
    )


@borrowing_kernel
def _load(data: Bytes, i: Int) -> Int:
    """The little-endian uint64 at a uint64 offset."""
    return (
        np.uint64(data[i])
        | np.uint64(data[i + _1]) << _S8
        | np.uint64(data[i + _2]) << _S16
        | np.uint64(data[i + _3]) << _S24
        | np.uint64(data[i + _4]) << _S32
        | np.uint64(data[i + _5]) << _S40
        | np.uint64(data[i + _6]) << _S48
        | np.uint64(data[i + _7]) << _S56
    )


@borrowing_kernel
def _store(out: Bytes, i: Int, word: Int) -> None:
    """Eight bytes at a uint64 offset."""
    out[i] = np.uint8(word & _BYTE)
    out[i + _1] = np.uint8(word >> _S8 & _BYTE)
    out[i + _2] = np.uint8(word >> _S16 & _BYTE)
    out[i + _3] = np.uint8(word >> _S24 & _BYTE)
    out[i + _4] = np.uint8(word >> _S32 & _BYTE)
    out[i + _5] = np.uint8(word >> _S40 & _BYTE)
    out[i + _6] = np.uint8(word >> _S48 & _BYTE)
    out[i + _7] = np.uint8(word >> _S56)


@borrowing_kernel
def copy(src: Bytes, at: Int, out: Bytes, o: Int, length: Int) -> Int:
    """Copy ``src[at:at+length]`` to ``out[o:]``; ranges of one array must not overlap. Returns the new ``o``."""
    source, target = np.uint64(at), np.uint64(o)
    if length >= 8:
        last, i = np.uint64(length - 8), _0
        while i < last:
            _store(out, target + i, _load(src, source + i))
            i += _8
        _store(out, target + last, _load(src, source + last))
    else:
        for k in range(length):
            out[target + np.uint64(k)] = src[source + np.uint64(k)]
    return o + length
