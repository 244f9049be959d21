"""What the kernels of all output plugins share: where messages go, and how bytes get there.

A kernel writes message after message and comes back with NEED_SPACE when the next one might not fit; its caller grows
the data array and calls again. Everything it has to remember is in ``Out.state``, so it goes on where it stopped. The
arrays per message are long enough from the start (:func:`headwater.plugins.buffer.render_all`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.kernels import inline_kernel, kernel
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.items import Literals

DONE, NEED_SPACE = 0, 1

# Indexes into Out.state: the transaction, its next item (-1: its BEGIN is next), whether a message of it that counts
# was written, whether the next item's schema was, messages so far.
TXN, ITEM, WROTE, SCHEMA, COUNT = 0, 1, 2, 3, 4


class Out(NamedTuple):
    """Where messages go; k is the number of messages there can be.

    Attributes:
        lsn: int64[k].
        xid: int64[k].
        offsets: int64[k+1] byte offsets into data; message i is ``data[offsets[i]:offsets[i+1]]``.
        data: uint8[].
        state: int64[5] see above.
    """

    lsn: NDArray[np.int64]
    xid: NDArray[np.int64]
    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]
    state: NDArray[np.int64]


@inline_kernel
def put_bytes(src: Bytes, start: Int, end: Int, out: Bytes, o: Int) -> Int:
    """Copy ``src[start:end]`` to ``out[o:]``; the caller has checked the room."""
    n = end - start
    for i in range(n):
        out[o + i] = src[start + i]
    return o + n


@kernel
def put_decimal(value: Int, out: Bytes, o: Int) -> Int:
    """A number that is not negative in decimal digits, 20 at most; the caller has checked the room."""
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


@inline_kernel
def put_i32(value: Int, out: Bytes, o: Int) -> Int:
    """Four bytes, big-endian (pq_sendint32); the caller has checked the room."""
    out[o] = (value >> 24) & 0xFF
    out[o + 1] = (value >> 16) & 0xFF
    out[o + 2] = (value >> 8) & 0xFF
    out[o + 3] = value & 0xFF
    return o + 4


@inline_kernel
def put_i64(value: Int, out: Bytes, o: Int) -> Int:
    """Eight bytes, big-endian (pq_sendint64); the caller has checked the room."""
    return put_i32(value, out, put_i32(value >> 32, out, o))


@inline_kernel
def end_message(out: Out, end: Int, lsn: Int, xid: Int) -> None:
    """The message being written ends at ``end``; the next one begins there."""
    k = out.state[COUNT]
    out.lsn[k] = lsn
    out.xid[k] = xid
    out.offsets[k + 1] = end
    out.state[COUNT] = k + 1


@kernel
def put_ready(first: Int, last: Int, ready: Literals, out: Out, lsn: Int, xid: Int) -> bool:
    """Write ready-made messages ``[first, last)``, all of them or, for want of room, none.

    Returns:
        Whether there was room.
    """
    o = out.offsets[out.state[COUNT]]
    if o + ready.offsets[last] - ready.offsets[first] > len(out.data):
        return False
    for i in range(first, last):
        o = put_bytes(ready.data, ready.offsets[i], ready.offsets[i + 1], out.data, o)
        end_message(out, o, lsn, xid)
    return True
