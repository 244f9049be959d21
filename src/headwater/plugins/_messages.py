"""The ground of all output plugins' kernels: where messages go, and how numbers and ready-made ones get there.

A plugin's kernel writes message after message of a plan and comes back with how many it wrote; fewer than all means
that the next one might not fit. Its caller then grows the data array and calls again from there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import inline_kernel, kernel
from headwater.plugins._plan import Ready
from headwater.rows._copy import copy
from headwater.rows._text_bytes import Bytes, Int


class Out(NamedTuple):
    """The arrays that messages go to, k of them.

    Attributes:
        offsets: int64[k+1] byte offsets into data; message i is ``data[offsets[i]:offsets[i+1]]``.
        data: uint8[].
    """

    offsets: NDArray[np.int64]
    data: Bytes


@inline_kernel
def put_ready(ready: Ready, message: Int, out: Bytes, o: Int) -> Int:
    """Write a ready-made message; return its end, or -1 when there is no room."""
    start, end = ready.offsets[message], ready.offsets[message + 1]
    return copy(ready.data, start, out, o, end - start) if o + end - start <= len(out) else -1


@kernel
def put_decimal(value: Int, out: Bytes, o: Int) -> Int:
    """Write a number that is not negative in decimal digits, 20 at most; the caller has checked the room."""
    end = o + 1
    rest = value // 10
    while rest > 0:
        end += 1
        rest //= 10
    at = end
    while at > o:
        at -= 1
        out[at] = 48 + value % 10
        value //= 10
    return end


LONGEST_LSN = 17
"""Bytes of an LSN as text, at most."""

_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8).copy()


@inline_kernel
def _put_hex(value: Int, digits: Int, out: Bytes, o: Int) -> Int:
    shift = 28
    while shift > 4 * (digits - 1) and value >> shift == 0:
        shift -= 4
    while shift >= 0:
        out[o] = _HEX[(value >> shift) & 15]
        o += 1
        shift -= 4
    return o


@inline_kernel
def put_lsn(lsn: Int, digits: Int, out: Bytes, o: Int) -> Int:
    """Write an LSN as text, with so many digits after the slash or more.

    The caller has checked the room, LONGEST_LSN.
    """
    o = _put_hex(lsn >> 32, 1, out, o)
    out[o] = 47
    return _put_hex(lsn & 0xFFFFFFFF, digits, out, o + 1)


@inline_kernel
def put_i32(value: Int, out: Bytes, o: Int) -> Int:
    """Write four bytes, big-endian (pq_sendint32); the caller has checked the room."""
    out[o] = (value >> 24) & 0xFF
    out[o + 1] = (value >> 16) & 0xFF
    out[o + 2] = (value >> 8) & 0xFF
    out[o + 3] = value & 0xFF
    return o + 4


@inline_kernel
def put_i64(value: Int, out: Bytes, o: Int) -> Int:
    """Write eight bytes, big-endian (pq_sendint64); the caller has checked the room."""
    return put_i32(value, out, put_i32(value >> 32, out, o))
