"""A CRC of pieces is that of the whole."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from headwater.receiver.running_crc import PIECE, RunningCrc
from headwater.wal.checksum import crc32c


@given(st.lists(st.integers(0, 3000), max_size=6), st.integers(0, 1 << 32))
def test_small_pieces(sizes: list[int], seed: int) -> None:
    check(sizes, seed)


def test_pieces_longer_than_what_is_summed_up_at_a_time() -> None:
    check([PIECE - 1, 2, 3 * PIECE + 17, 0, 5], 1)


def check(sizes: list[int], seed: int) -> None:
    rng = Random(seed)
    pieces = [rng.randbytes(size) for size in sizes]
    crc = RunningCrc()
    for piece in pieces:
        crc.add(piece)
    assert crc.value() == crc32c(b"".join(pieces))
