"""A range of WAL, read piece by piece, so that memory is bounded and used again.

Fresh memory for a whole range costs more than the work on it: the kernel has to zero every page of it. Pieces of a few
segments stay in memory that the process has already. A piece begins at a page that WAL was written to: in a segment
longer than a piece, the pages after a switch record were not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from headwater.wal.layout import PAGE_SIZE
from headwater.wal.records.frames import Frames, read_frames
from headwater.wal.segments.directory import WalDirectory

STRETCH_BYTES = 16 << 20
"""WAL bytes of one piece; whole pages."""


def stretches(lo: int, hi: int) -> Iterator[tuple[int, int]]:
    """Cut ``[lo, hi)`` at multiples of STRETCH_BYTES; at least one piece."""
    cuts = range((lo // STRETCH_BYTES + 1) * STRETCH_BYTES, hi, STRETCH_BYTES)
    return pairwise([lo, *cuts, hi])


def read_stretches(
    directory: WalDirectory, lo: int, hi: int, *, check: bool = True
) -> Iterator[tuple[int, int, Frames]]:
    """Give the records that start in ``[lo, hi)``, piece by piece, up to the end of the log.

    Args:
        directory: the segments.
        lo: a record's start, or a page's start.
        hi: an LSN.
        check: verify checksums.

    Yields:
        ``(from LSN, to LSN, records)`` of each piece, at least one.

    Raises:
        WalError: as :func:`headwater.wal.records.frames.read_frames`.
    """
    reached = lo
    for low, high in stretches(lo, hi):
        if lo < high <= reached:
            continue
        start = max(low, reached)
        frames = read_frames(directory, start, high, check=check)
        reached = max(high, _last_page(frames))
        yield start, min(reached, hi), frames
        if frames.end is not None:
            return


def _last_page(frames: Frames) -> int:
    """Find the page that the last record ends on, or ends before: what follows it starts there or later."""
    end = int(frames.end_lsns[-1]) if len(frames.end_lsns) else 0
    return end - end % PAGE_SIZE
