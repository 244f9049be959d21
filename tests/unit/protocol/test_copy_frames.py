"""Messages in CopyData: each framed as a walsender does it, in pieces that keep nothing but themselves."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.protocol.copy_frames import PIECE_BYTES, framed


@given(
    sizes=st.lists(st.sampled_from([0, 1, 100, PIECE_BYTES // 2, 2 * PIECE_BYTES]), max_size=12),
    first=st.integers(0, 9),
)
def test_pieces_joined_are_the_messages(sizes: list[int], first: int) -> None:
    offsets = first + np.cumsum([0, *sizes]).astype(np.int64)
    data = np.arange(int(offsets[-1]), dtype=np.int64).astype(np.uint8)
    lsns = np.arange(len(sizes), dtype=np.int64) << 32
    pieces, sent = list(framed(lsns, offsets, data)), list[tuple[int, bytes]]()
    for piece in pieces:
        assert memoryview(piece.data.obj).nbytes == piece.data.nbytes
        rest, count = bytes(piece.data), 0
        while rest:
            kind, size, message, lsn, end = struct.unpack_from(">cIcQQ", rest)
            assert (kind, message, lsn) == (b"d", b"w", end)
            sent.append((lsn, rest[30 : size + 1]))
            rest, count = rest[size + 1 :], count + 1
        assert (count, piece.lsn) == (piece.count, sent[-1][0])
    assert sent == [
        (int(lsn), data[start:end].tobytes()) for lsn, start, end in zip(lsns, offsets, offsets[1:], strict=False)
    ]
