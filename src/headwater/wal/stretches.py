"""A range of WAL gone through piece by piece, so that memory is bounded and used again.

Fresh memory for a whole range costs more than the work on it: the kernel has to zero every page of it. Pieces of a few
segments stay in memory that the process has already.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from headwater.wal.directory import WalDirectory
from headwater.wal.frames import Frames, read_frames

STRETCH_BYTES = 16 << 20
"""WAL bytes of one piece; whole pages."""


def stretches(lo: int, hi: int) -> Iterator[tuple[int, int]]:
    """Cut ``[lo, hi)`` at multiples of STRETCH_BYTES; at least one piece."""
    cuts = range((lo // STRETCH_BYTES + 1) * STRETCH_BYTES, hi, STRETCH_BYTES)
    return pairwise([lo, *cuts, hi])


def read_stretches(
    directory: WalDirectory, lo: int, hi: int, *, check: bool = True
) -> Iterator[tuple[int, int, Frames]]:
    """The records that start in ``[lo, hi)``, piece by piece, up to the end of the log.

    Args:
        directory: the segments.
        lo: a record's start, or a page's start.
        hi: an LSN.
        check: verify checksums.

    Yields:
        ``(from LSN, to LSN, records)`` of each piece, at least one.

    Raises:
        WalError: as :func:`headwater.wal.frames.read_frames`.
    """
    for low, high in stretches(lo, hi):
        frames = read_frames(directory, low, high, check=check)
        yield low, high, frames
        if frames.end is not None:
            return
