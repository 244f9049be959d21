"""The fates of transactions up to an LSN: ``pg_xact`` of a copy, and the ends that the log has had since.

In: the files of ``pg_xact`` and the ends of transactions between the copy's first LSN and the one asked for. Out: two
bits a transaction from the oldest one on that is known. A copy's files are of many moments between its beginning and
its end, which is not after the LSN. The facts in them are right; ends of transactions that began after the first LSN,
which they lack, are in the log. They have all transactions that began before, or the copy has lost a part of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.copy.commit_log import FILE_BYTES
from headwater.catalog.snapshot import full_xid, full_xids

COMMITTED, ABORTED = 1, 2


@dataclass(frozen=True, eq=False)
class TransactionStatus:
    """The fates of n transactions.

    Attributes:
        bits: uint8[] two bits each, four transactions a byte.
        oldest: 64-bit xid of the first.
        lost: int64[g, 2] 64-bit xids, the first and the one after the last, that the files should have and do not; the
            log may have had the end of some.
    """

    bits: NDArray[np.uint8]
    oldest: int
    lost: NDArray[np.int64]

    @property
    def count(self) -> int:
        """The number of transactions."""
        return 4 * len(self.bits)


def transaction_status(
    files: Mapping[int, bytes],
    next_xid: int,
    xids: NDArray[np.int64],
    is_commit: NDArray[np.bool_],
    begun: int,
) -> TransactionStatus:
    """Put the fates of transactions together.

    Args:
        files: the files of ``pg_xact``, by their numbers.
        next_xid: 64 bits, some xid that is not far from those of the files.
        xids: int64[n] low halves of transactions that the log has had the end of; is_commit: bool[n] whether they
            committed.
        begun: 64-bit xid before which the files have all.
    """
    per_file = 4 * FILE_BYTES
    starts = {number: full_xid(number * per_file & 0xFFFFFFFF, next_xid) for number in files}
    ends = full_xids(xids, next_xid)
    oldest = min(starts.values(), default=int(ends.min(initial=next_xid)) // per_file * per_file)
    newest = max([*(start + per_file for start in starts.values()), int(ends.max(initial=0)) + 1, next_xid])
    bits = np.zeros(-(-(newest - oldest) // 4), np.uint8)
    for number, data in files.items():
        at = (starts[number] - oldest) // 4
        content = np.frombuffer(data, np.uint8)[: min(FILE_BYTES, len(bits) - at)]
        bits[at : at + len(content)] = content
    known = ends >= oldest
    place, which = (ends - oldest)[known], np.where(is_commit, COMMITTED, ABORTED)[known]
    shift = (place % 4 * 2).astype(np.uint8)
    np.bitwise_and.at(bits, place // 4, ~(np.uint8(3) << shift))
    np.bitwise_or.at(bits, place // 4, which.astype(np.uint8) << shift)
    covered = sorted((start, start + 4 * min(len(files[number]), FILE_BYTES)) for number, start in starts.items())
    return TransactionStatus(bits, oldest, _gaps(covered, oldest, begun))


def _gaps(covered: Sequence[tuple[int, int]], lo: int, hi: int) -> NDArray[np.int64]:
    """Return the stretches of ``[lo, hi)`` that sorted stretches leave out: int64[g, 2]."""
    ends = [lo, *(end for _, end in covered)]
    begins = [*(min(begin, hi) for begin, _ in covered), hi]
    gaps = [(end, begin) for end, begin in zip(ends, begins, strict=True) if end < begin]
    return np.array(gaps, np.int64).reshape(-1, 2)
