"""CRC-32C, as every WAL record and control file carries it (PostgreSQL: ``port/pg_crc32c.h``).

Kernels with one contract: eight bytes at a time through the processor's own instruction where there is one (SSE 4.2,
ARMv8 CRC), by eight tables otherwise. ``update_words`` and ``update_low_bytes`` are those that fit this machine.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from headwater.base.kernels import inline_kernel, kernel

POLYNOMIAL = 0x82F63B78
MASK = 0xFFFFFFFF

_FEATURES = {} if numba.config.DISABLE_JIT else llvmlite.binding.get_host_cpu_features()
_TRIPLE = llvmlite.binding.get_process_triple()
HAS_SSE42 = _TRIPLE.startswith("x86_64") and bool(_FEATURES.get("sse4.2", False))
HAS_ARM_CRC = _TRIPLE.startswith(("aarch64", "arm64")) and bool(_FEATURES.get("crc", False))


def _tables() -> NDArray[np.int64]:
    """Return the tables, int64[8, 256]: table k holds the CRC of one byte followed by k zero bytes."""
    tables = np.zeros((8, 256), np.int64)
    value = np.arange(256, dtype=np.int64)
    for _ in range(8):
        value = np.where(value & 1, (value >> 1) ^ POLYNOMIAL, value >> 1)
    tables[0] = value
    for k in range(1, 8):
        tables[k] = (tables[k - 1] >> 8) ^ tables[0][tables[k - 1] & 0xFF]
    return tables


TABLES = _tables()


def _instruction(name: str, held: int, taken: int) -> Any:
    """Make an instruction that carries a CRC over bytes, as a function of two int64 for kernels.

    Args:
        name: LLVM's name for it.
        held: bits that it takes and gives the CRC in; taken: bits that it takes the bytes in, the low ones count.
    """

    def step(_typing_context: Any, _crc: Any, _word: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            kinds = ir.IntType(held), ir.IntType(taken)
            function = builder.module.declare_intrinsic(name, (), ir.FunctionType(kinds[0], kinds))
            pairs = zip(arguments, kinds, strict=True)
            given = [value if kind.width == 64 else builder.trunc(value, kind) for value, kind in pairs]
            crc = builder.call(function, given)
            return crc if held == 64 else builder.zext(crc, ir.IntType(64))

        return types.int64(types.int64, types.int64), generate

    return intrinsic(step)


if HAS_ARM_CRC:
    _EIGHT, _FOUR = _instruction("llvm.aarch64.crc32cx", 32, 64), _instruction("llvm.aarch64.crc32cw", 32, 32)
    _TWO, _ONE = _instruction("llvm.aarch64.crc32ch", 32, 32), _instruction("llvm.aarch64.crc32cb", 32, 32)
else:
    _EIGHT, _FOUR = (
        _instruction("llvm.x86.sse42.crc32.64.64", 64, 64),
        _instruction("llvm.x86.sse42.crc32.32.32", 32, 32),
    )
    _TWO, _ONE = _instruction("llvm.x86.sse42.crc32.32.16", 32, 16), _instruction("llvm.x86.sse42.crc32.32.8", 32, 8)


@inline_kernel
def instruction_words(crc: int, words: NDArray[np.int64], first: int, count: int) -> int:
    """Carry a CRC over whole words by the processor's instruction."""
    for i in range(first, first + count):
        crc = _EIGHT(crc, words[i])
    return crc


@inline_kernel
def instruction_low_bytes(crc: int, word: int, count: int) -> int:
    """Carry a CRC over the first `count` (0 to 7) bytes of a little-endian word by the processor's instructions."""
    if count & 4:
        crc = _FOUR(crc, word)
        word >>= 32
    if count & 2:
        crc = _TWO(crc, word)
        word >>= 16
    return _ONE(crc, word) if count & 1 else crc


@inline_kernel
def table_words(crc: int, words: NDArray[np.int64], first: int, count: int) -> int:
    """Carry a CRC over whole words by table lookups (slicing by eight)."""
    for i in range(first, first + count):
        word = np.int64(words[i])
        low = (word ^ crc) & MASK
        high = (word >> 32) & MASK
        crc = (
            TABLES[7, low & 0xFF]
            ^ TABLES[6, (low >> 8) & 0xFF]
            ^ TABLES[5, (low >> 16) & 0xFF]
            ^ TABLES[4, low >> 24]
            ^ TABLES[3, high & 0xFF]
            ^ TABLES[2, (high >> 8) & 0xFF]
            ^ TABLES[1, (high >> 16) & 0xFF]
            ^ TABLES[0, high >> 24]
        )
    return crc


@inline_kernel
def table_low_bytes(crc: int, word: int, count: int) -> int:
    """Carry a CRC over the first `count` (0 to 7) bytes of a little-endian word."""
    for k in range(count):
        crc = (crc >> 8) ^ TABLES[0, (crc ^ (word >> (8 * k))) & 0xFF]
    return crc


HAS_INSTRUCTION = HAS_SSE42 or HAS_ARM_CRC
update_words = instruction_words if HAS_INSTRUCTION else table_words
update_low_bytes = instruction_low_bytes if HAS_INSTRUCTION else table_low_bytes


@kernel
def words_crc(words: NDArray[np.int64], size: int) -> int:
    """Return the CRC-32C of the first `size` bytes of int64[n] (n * 8 >= size); -1 if the array is too short."""
    if size < 0 or size > words.shape[0] * 8:
        return -1
    crc = update_words(MASK, words, 0, size // 8)
    if size % 8:
        crc = update_low_bytes(crc, words[size // 8], size % 8)
    return crc ^ MASK


@inline_kernel
def record_crc(words: NDArray[np.int64], at: int, size: int) -> int:
    """Return the CRC-32C of a record as ``xl_crc`` holds it: bytes [24, size) first, then the header's first 20.

    Args:
        words: int64[n] payload.
        at: index of the record's first word; (at + ceil(size / 8)) <= n is the caller's duty.
        size: xl_tot_len, at least 24.
    """
    body = size - 24
    crc = update_words(MASK, words, at + 3, body // 8)
    if body % 8:
        crc = update_low_bytes(crc, words[at + 3 + body // 8], body % 8)
    crc = update_words(crc, words, at, 2)
    return update_low_bytes(crc, words[at + 2], 4) ^ MASK
