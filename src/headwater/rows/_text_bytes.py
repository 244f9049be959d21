"""Kernels for types whose text is their bytes, or nearly: text, name, "char", bytea, uuid, bit strings, labels.

Also the loads and copies that all text kernels share. Mirrors ``varlena.c``, ``char.c``, ``name.c``, ``uuid.c``,
``varbit.c``. Every kernel checks lengths before it reads, and writes nothing past ``len(out)``.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_codes import CORRUPT, NEED_SPACE

Int: TypeAlias = Any
"""int64 in a kernel, int in plain Python: a number for which type checkers have no common name."""

Bytes: TypeAlias = NDArray[np.uint8]

BACKSLASH = 92
HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8).copy()


@inline_kernel
def no_room(out: Bytes, o: Int, size: Int) -> Int:
    """Tell whether `size` bytes do not fit at ``out[o:]``.

    That `o` is also known not to be negative lets LLVM drop the tests for indexes that count from the end.
    """
    return o < 0 or o + size > len(out)


@inline_kernel
def misfits(start: Int, length: Int, size: Int) -> Int:
    """Tell whether a payload is not of the size its type has; like :func:`no_room`, rule out negative positions."""
    return start < 0 or length != size


@inline_kernel
def load_u16(src: Bytes, at: Int) -> Int:
    """Load a little-endian uint16 as int64; the caller has checked the bounds."""
    return np.int64(src[at]) | np.int64(src[at + 1]) << 8


@inline_kernel
def load_i16(src: Bytes, at: Int) -> Int:
    """Load a little-endian int16 as int64; the caller has checked the bounds."""
    return np.int64(src[at]) | (np.int64(src[at + 1]) ^ 0x80) - 0x80 << 8


@inline_kernel
def load_u32(src: Bytes, at: Int) -> Int:
    """Load a little-endian uint32 as int64; the caller has checked the bounds."""
    return np.int64(src[at]) | np.int64(src[at + 1]) << 8 | np.int64(src[at + 2]) << 16 | np.int64(src[at + 3]) << 24


@inline_kernel
def load_i32(src: Bytes, at: Int) -> Int:
    """Load a little-endian int32 as int64; the caller has checked the bounds."""
    return (load_u32(src, at) ^ 0x80000000) - 0x80000000


@inline_kernel
def load_i64(src: Bytes, at: Int) -> Int:
    """Load a little-endian int64; the caller has checked the bounds."""
    return load_u32(src, at) | load_u32(src, at + 4) << 32


@inline_kernel
def store_u32(value: Int, out: Bytes, at: Int) -> None:
    """Store a little-endian uint32: the counterpart of load_u32."""
    out[at] = value & 255
    out[at + 1] = value >> 8 & 255
    out[at + 2] = value >> 16 & 255
    out[at + 3] = value >> 24 & 255


@borrowing_kernel
def write_verbatim(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Copy `length` bytes (textout, json_out)."""
    if start < 0 or no_room(out, o, length):
        return NEED_SPACE
    for i in range(length):
        out[o + i] = src[start + i]
    return o + length


@borrowing_kernel
def write_quoted(src: Bytes, begin: Int, end: Int, mark: Int, escape: Int, out: Bytes, o: Int) -> Int:
    """Write ``src[begin:end]`` between two quotation marks, with `escape` before marks and backslashes in it.

    Where that is the mark itself, a backslash is doubled, too (as in tsvector).
    """
    if begin < 0 or no_room(out, o, end - begin + 2):
        return NEED_SPACE
    out[o] = mark
    o += 1
    for at in range(begin, end):
        byte = np.int64(src[at])
        if no_room(out, o, 3):
            return NEED_SPACE
        if byte in (mark, BACKSLASH):
            out[o] = byte if escape == mark else escape
            o += 1
        out[o] = byte
        o += 1
    out[o] = mark
    return o + 1


@borrowing_kernel
def write_name(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write the bytes up to the first NUL (nameout)."""
    n = np.int64(0)
    if start < 0:
        return CORRUPT
    while n < length and src[start + n] != 0:
        n += 1
    return write_verbatim(src, start, n, out, o)


@borrowing_kernel
def write_char(src: Bytes, start: Int, length: Int, is_raw: bool, out: Bytes, o: Int) -> Int:
    r"""Write one byte of type "char": itself, nothing for 0, \ooo with the high bit set unless `is_raw` (charout)."""
    if misfits(start, length, 1):
        return CORRUPT
    if no_room(out, o, 4):
        return NEED_SPACE
    value = np.int64(src[start])
    if value == 0:
        return o
    if value < 128 or is_raw:
        out[o] = value
        return o + 1
    out[o] = 92
    out[o + 1] = 48 + (value >> 6)
    out[o + 2] = 48 + (value >> 3 & 7)
    out[o + 3] = 48 + (value & 7)
    return o + 4


@borrowing_kernel
def write_bytea(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    r"""Write ``\x`` and two lower-case digits a byte (byteaout, bytea_output = hex)."""
    if start < 0 or no_room(out, o, 2 + 2 * length):
        return NEED_SPACE
    out[o] = 92
    out[o + 1] = 120
    o += 2
    for i in range(length):
        value = np.int64(src[start + i])
        out[o + 2 * i] = HEX[value >> 4]
        out[o + 2 * i + 1] = HEX[value & 15]
    return o + 2 * length


@borrowing_kernel
def write_bytea_escape(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    r"""Write printable ASCII as it is, ``\\`` doubled, the rest ``\ooo`` (byteaout, bytea_output = escape)."""
    for i in range(length):
        value = np.int64(src[start + i])
        if no_room(out, o, 4):
            return NEED_SPACE
        out[o] = 92
        if value == 92:
            out[o + 1] = 92
            o += 2
        elif value < 32 or value > 126:
            out[o + 1] = 48 + (value >> 6)
            out[o + 2] = 48 + (value >> 3 & 7)
            out[o + 3] = 48 + (value & 7)
            o += 4
        else:
            out[o] = value
            o += 1
    return o


@borrowing_kernel
def write_uuid(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write 8-4-4-4-12 lower-case hexadecimal digits (uuid_out)."""
    if misfits(start, length, 16):
        return CORRUPT
    if no_room(out, o, 36):
        return NEED_SPACE
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            out[o] = 45
            o += 1
        value = np.int64(src[start + i])
        out[o] = HEX[value >> 4]
        out[o + 1] = HEX[value & 15]
        o += 2
    return o


@borrowing_kernel
def write_bit(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a bit string, of a bit count (int32) and the bits, most significant first, as 0 and 1 (varbit_out)."""
    if start < 0 or length < 4:
        return CORRUPT
    bits = load_i32(src, start)
    if bits < 0 or (bits + 7) // 8 > length - 4:
        return CORRUPT
    if no_room(out, o, bits):
        return NEED_SPACE
    for i in range(bits):
        out[o + i] = 48 + (np.int64(src[start + 4 + i // 8]) >> (7 - i % 8) & 1)
    return o + bits
