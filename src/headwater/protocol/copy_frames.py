"""Messages of an output plugin in CopyData, ready to be sent: bytes in pieces, between which something else may go.

PostgreSQL: WalSndPrepareWrite, WalSndWriteData (walsender.c).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.protocol import _copy_frames as _f
from headwater.protocol._copy_frames import FRAME_BYTES, HEADER_BYTES, frame_messages, frame_rows
from headwater.protocol.replication_messages import present

Int64s = NDArray[np.int64]

PIECE_BYTES = 256 << 10
"""Bytes after which something else, such as a reply, may go between messages."""


@dataclass(frozen=True)
class Piece:
    """Messages in CopyData, ready to be sent.

    Attributes:
        data: the bytes; count: of messages.
        lsn: the highest that one of them carries, 0 for none.
    """

    data: memoryview
    count: int
    lsn: int


def framed(lsn: Int64s, offsets: Int64s, data: NDArray[np.uint8]) -> Iterator[Piece]:
    """Give messages in CopyData, some at a time; none is cut. A piece has memory of its own, however long it waits.

    Args:
        lsn: int64[k] as they are sent.
        offsets: int64[k+1] byte offsets into data; data: uint8[].
    """
    count = len(lsn)
    if not count:
        return
    ends = offsets - offsets[0] + FRAME_BYTES * np.arange(count + 1)
    start = 0
    while start < count:
        stop = max(int(np.searchsorted(ends, ends[start] + PIECE_BYTES, "right")) - 1, start + 1)
        out = np.empty(int(ends[stop] - ends[start]), np.uint8)
        frame_messages(lsn[start:stop], offsets[start : stop + 1], data, present(), out)
        yield Piece(memoryview(out.data), stop - start, int(lsn[start:stop].max()))
        start = stop


def framed_rows(offsets: Int64s, data: NDArray[np.uint8]) -> memoryview:
    """Return payloads in CopyData, each in its own.

    Args:
        offsets: int64[k+1] byte offsets into data; data: uint8[].
    """
    out = np.empty(int(offsets[-1] - offsets[0]) + HEADER_BYTES * (len(offsets) - 1), np.uint8)
    frame_rows(offsets, data, out)
    return memoryview(out.data)


def whole_frames(data: bytes, start: int) -> int:
    """Return where whole messages of CopyData end that begin at a place, whatever comes behind them."""
    return int(_f.whole_frames(np.frombuffer(data, np.uint8), start))
