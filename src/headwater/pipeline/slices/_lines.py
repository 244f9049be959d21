"""Kernel: messages into lines of text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel
from headwater.plugins._messages import LONGEST_LSN, put_decimal, put_lsn

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
LSN_AND_XID = LONGEST_LSN + 1 + 20 + 1
"""Upper bound of the bytes of ``LSN<TAB>XID<TAB>``."""


@borrowing_kernel
def join_lines(
    lsn: Int64s, xid: Int64s, offsets: Int64s, data: Bytes, lsn_digits: int, as_hex: bool, out: Bytes
) -> int:
    r"""Write one line per message.

    Args:
        lsn, xid: int64[k]; offsets: int64[k+1]; data: uint8[].
        lsn_digits: each line starts with ``LSN<TAB>XID<TAB>``, and as many digits are after the LSN's slash or more; 0
            without.
        as_hex: data is binary and printed as ``\x...``.
        out: uint8[] long enough: k * (LSN_AND_XID + 3) + twice the data.

    Returns:
        bytes written.
    """
    o = 0
    for i in range(len(lsn)):
        if lsn_digits > 0:
            o = put_lsn(lsn[i], lsn_digits, out, o)
            out[o] = 9
            o = put_decimal(xid[i], out, o + 1)
            out[o] = 9
            o += 1
        if as_hex:
            out[o] = 92
            out[o + 1] = 120
            o += 2
            for j in range(offsets[i], offsets[i + 1]):
                out[o] = _HEX[data[j] >> 4]
                out[o + 1] = _HEX[data[j] & 15]
                o += 2
        else:
            for j in range(offsets[i], offsets[i + 1]):
                out[o] = data[j]
                o += 1
        out[o] = 10
        o += 1
    return o
