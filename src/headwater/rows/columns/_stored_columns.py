"""Kernels over columns of stored values: gathered, measured, and compared, two columns of n values each.

A kernel that compares writes -1, 0 or 1 for every pair, as the type's comparison function would. It returns the number
of pairs compared, or CORRUPT. A value is ``data[start:start+length]``, whose bounds the caller has checked.

PostgreSQL: ``varlena.c`` (byteacmp, and varstr_cmp under the collation "C"), ``numeric.c`` (cmp_numerics),
``network.c`` (network_cmp_internal), ``varchar.c`` (bpchartruelen).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import Bytes, Int, load_u16
from headwater.rows._text_codes import CORRUPT
from headwater.rows.text._number import numeric_header

_NAN, _INFINITE, _NEGATIVE_INFINITE = 0xC000, 0xD000, 0xF000
_IPV4, _IPV6 = 2, 3


class Spans(NamedTuple):
    """Values in one array of bytes, n of them.

    Attributes:
        data: uint8[].
        start: int64[n].
        length: int64[n].
    """

    data: Bytes
    start: NDArray[np.int64]
    length: NDArray[np.int64]


@borrowing_kernel
def gather(values: Spans, null: NDArray[np.bool_], width: Int, out: Bytes) -> Int:
    """Gather values of a fixed width one after the other, zeros for NULL; how many there are, or CORRUPT."""
    for i in range(len(null)):
        if null[i]:
            for k in range(width):
                out[i * width + k] = 0
            continue
        if values.length[i] != width:
            return CORRUPT
        for k in range(width):
            out[i * width + k] = values.data[values.start[i] + k]
    return len(null)


@inline_kernel
def _bytes_order(a: Bytes, at: Int, size: Int, b: Bytes, b_at: Int, b_size: Int) -> Int:
    """Return -1, 0 or 1 as the bytes compare; of two that begin alike the shorter one comes first."""
    for i in range(min(size, b_size)):
        if a[at + i] != b[b_at + i]:
            return -1 if a[at + i] < b[b_at + i] else 1
    return np.sign(size - b_size)


@borrowing_kernel
def compare_bytes(left: Spans, right: Spans, out: NDArray[np.int8]) -> Int:
    """Compare values by their bytes, unsigned."""
    for i in range(len(out)):
        out[i] = _bytes_order(left.data, left.start[i], left.length[i], right.data, right.start[i], right.length[i])
    return len(out)


@borrowing_kernel
def equal_bytes(left: Spans, right: Spans, out: NDArray[np.int8]) -> Int:
    """Write 0 for the same bytes, else 1."""
    for i in range(len(out)):
        out[i] = 1
        if left.length[i] == right.length[i]:
            out[i] = 0
            for k in range(left.length[i]):
                if left.data[left.start[i] + k] != right.data[right.start[i] + k]:
                    out[i] = 1
                    break
    return len(out)


@borrowing_kernel
def without_trailing(values: Spans, byte: Int, out: NDArray[np.int64]) -> None:
    """Measure values without a certain byte at their ends."""
    for i in range(len(out)):
        size = values.length[i]
        while size > 0 and values.data[values.start[i] + size - 1] == byte:
            size -= 1
        out[i] = size


@borrowing_kernel
def until_byte(values: Spans, byte: Int, out: NDArray[np.int64]) -> None:
    """Measure values up to the first of a certain byte."""
    for i in range(len(out)):
        size = np.int64(0)
        while size < values.length[i] and values.data[values.start[i] + size] != byte:
            size += 1
        out[i] = size


@borrowing_kernel
def count_characters(values: Spans, out: NDArray[np.int32]) -> None:
    """Count the characters of values in UTF8."""
    for i in range(len(out)):
        count = 0
        for k in range(values.length[i]):
            count += values.data[values.start[i] + k] & 0xC0 != 0x80
        out[i] = count


@inline_kernel
def _special_rank(header: Int) -> Int:
    """Rank a numeric that is no number: beyond all numbers, NaN last."""
    if header == _NAN:
        return 3
    if header == _INFINITE:
        return 2
    return -2 if header == _NEGATIVE_INFINITE else 0


@borrowing_kernel
def _numeric_order(a: Bytes, at: Int, size: Int, b: Bytes, b_at: Int, b_size: Int) -> Int:
    """Compare two numerics: -1, 0 or 1; CORRUPT."""
    kind, negative, weight, _, digits = numeric_header(a, at, size)
    b_kind, b_negative, b_weight, _, b_digits = numeric_header(b, b_at, b_size)
    if kind < 0 or b_kind < 0:
        return CORRUPT
    if kind > 0 or b_kind > 0:
        return np.sign(_special_rank(kind) - _special_rank(b_kind))
    count, b_count = (at + size - digits) >> 1, (b_at + b_size - b_digits) >> 1
    if count == 0 or b_count == 0:
        left = 0 if count == 0 else -1 if negative else 1
        return left - (0 if b_count == 0 else -1 if b_negative else 1)
    if negative != b_negative:
        return -1 if negative else 1
    order = np.sign(weight - b_weight)
    for i in range(max(count, b_count)):
        if order != 0:
            break
        digit = load_u16(a, digits + 2 * i) if i < count else 0
        b_digit = load_u16(b, b_digits + 2 * i) if i < b_count else 0
        order = np.sign(digit - b_digit)
    return -order if negative else order


@borrowing_kernel
def compare_numerics(left: Spans, right: Spans, out: NDArray[np.int8]) -> Int:
    """Compare numerics by their values, exactly; NaN is equal to itself and comes last."""
    for i in range(len(out)):
        order = _numeric_order(left.data, left.start[i], left.length[i], right.data, right.start[i], right.length[i])
        if order == CORRUPT:
            return CORRUPT
        out[i] = order
    return len(out)


@inline_kernel
def _bits_order(a: Bytes, at: Int, b: Bytes, b_at: Int, bits: Int) -> Int:
    """Compare so many leading bits: -1, 0 or 1 (bitncmp)."""
    for i in range((bits + 7) >> 3):
        mask = 255 if bits >= 8 * i + 8 else 255 << (8 * i + 8 - bits) & 255
        byte, b_byte = np.int64(a[at + i]) & mask, np.int64(b[b_at + i]) & mask
        if byte != b_byte:
            return -1 if byte < b_byte else 1
    return 0


@borrowing_kernel
def compare_networks(left: Spans, right: Spans, out: NDArray[np.int8]) -> Int:
    """Compare addresses by family, network part, length of the netmask, and whole address."""
    for i in range(len(out)):
        a, b, at, b_at = left.data, right.data, left.start[i], right.start[i]
        if left.length[i] < 2 or right.length[i] < 2:
            return CORRUPT
        order = np.sign(np.int64(a[at]) - np.int64(b[b_at]))
        bits, b_bits = np.int64(a[at + 1]), np.int64(b[b_at + 1])
        full = 32 if a[at] == _IPV4 else 128
        if left.length[i] != 2 + (full >> 3) or bits > full:
            return CORRUPT
        b_full = 32 if b[b_at] == _IPV4 else 128
        if right.length[i] != 2 + (b_full >> 3) or b_bits > b_full:
            return CORRUPT
        if order == 0:
            order = _bits_order(a, at + 2, b, b_at + 2, min(bits, b_bits))
            if order == 0:
                order = np.sign(bits - b_bits)
            if order == 0:
                order = _bits_order(a, at + 2, b, b_at + 2, full)
        out[i] = order
    return len(out)
