"""Kernel for money: a count of the smallest unit, int64, shown as the locale lc_monetary has it (``cash.c``, cash_out).

The strings before, after and between the digits are worked out beforehand (``headwater.rows.money_format``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel
from headwater.rows._text_bytes import Bytes, Int, load_i64, misfits, no_room, write_verbatim
from headwater.rows._text_codes import (
    CORRUPT,
    MONEY_AFTER,
    MONEY_AFTER_DEBT,
    MONEY_BEFORE,
    MONEY_BEFORE_DEBT,
    MONEY_POINT,
    MONEY_SEPARATOR,
    NEED_SPACE,
)

_U10 = np.uint64(10)
_TENS = np.array([10**i for i in range(20)], dtype=np.uint64)


@borrowing_kernel
def _put_piece(at: NDArray[np.int64], pieces: Bytes, piece: Int, out: Bytes, o: Int) -> Int:
    """Write one of the strings; hand back a status instead of a place."""
    if o < 0:
        return o
    return write_verbatim(pieces, at[piece], at[piece + 1] - at[piece], out, o)


@borrowing_kernel
def write_money(
    at: NDArray[np.int64],
    pieces: Bytes,
    decimals: Int,
    group: Int,
    src: Bytes,
    start: Int,
    length: Int,
    out: Bytes,
    o: Int,
) -> Int:
    """Write the text of an amount.

    Args:
        at: int64[MONEY_PIECES + 1] piece i is ``pieces[at[i]:at[i + 1]]``.
        pieces: uint8[].
        decimals: digits after the decimal point, 0 to 10.
        group: digits between two separators.
        src: uint8[] the payload is ``src[start:start+length]``.
        start: where it begins.
        length: its bytes.
        out: uint8[] the text is written at `o`.
        o: where.

    Returns:
        The end of the text, NEED_SPACE, or CORRUPT.
    """
    if misfits(start, length, 8):
        return CORRUPT
    value = load_i64(src, start)
    size = np.uint64(value) if value >= 0 else np.uint64(-(value + 1)) + np.uint64(1)
    count = decimals + 1
    divisor = _TENS[count - 1]
    while count < len(_TENS) and size >= _TENS[count]:
        divisor = _TENS[count]
        count += 1
    o = _put_piece(at, pieces, MONEY_BEFORE_DEBT if value < 0 else MONEY_BEFORE, out, o)
    for i in range(count):
        left = count - decimals - i  # digits up to the decimal point, this one included
        if i > 0 and (left == 0 or (left > 0 and left % group == 0)):
            o = _put_piece(at, pieces, MONEY_POINT if left == 0 else MONEY_SEPARATOR, out, o)
        if no_room(out, o, 1):
            return NEED_SPACE
        digit = size // divisor
        out[o] = 48 + np.int64(digit)
        size -= digit * divisor
        divisor //= _U10
        o += 1
    return _put_piece(at, pieces, MONEY_AFTER_DEBT if value < 0 else MONEY_AFTER, out, o)
