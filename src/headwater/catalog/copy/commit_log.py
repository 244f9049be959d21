"""The backup's word on transactions, as a value: ``pg_xact`` in runs of equal bytes (PostgreSQL: clog.c).

An image of a catalog whose copy is not complete yet carries it: page images of the WAL may still bring rows of
transactions that ended before the copy began. A log of hundreds of megabytes is nearly all one byte, "four committed".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headwater.base.constant_columns import check_lengths
from headwater.catalog.snapshot import xid_precedes
from headwater.errors import CatalogError

FILE_BYTES = 32 * 8192
"""The size in bytes of a whole file of ``pg_xact``; four transactions a byte."""

_COMMITTED, _FOUR_COMMITTED = 1, 0x55
_NO_FILE, _PAST_END = -1, -2


class Transactions(Protocol):
    """A source that knows the transactions of before the WAL."""

    def is_committed(self, xid: int, /) -> bool:
        """Tell whether ``pg_xact`` has the transaction as committed."""

    def update_xid(self, multi: int, /) -> int:
        """Return the transaction of a multixact that updated or deleted; 0 without one."""

    def commit_log(self) -> CommitLog | None:
        """Return all of ``pg_xact``; None if nothing is known."""


@dataclass(frozen=True, eq=False)
class CommitLog:
    """``pg_xact`` of a backup, m runs.

    Attributes:
        starts: int64[m] number of each run's first byte, counted over all files that there can be.
        values: int16[m] the byte that the run repeats; -1 where there is no file, -2 after a file's end.
        next_xid, next_multi: the next ones of ``pg_control``, low 32 bits.
        is_online: whether the backup is an online backup, whose files may have been copied before they grew.
    """

    starts: NDArray[np.int64]
    values: NDArray[np.int16]
    next_xid: int
    next_multi: int
    is_online: bool

    def check_parts(self) -> None:
        """Check that the runs begin at the first byte, and are in order.

        Raises:
            ValueError: the runs do not.
        """
        check_lengths([self.starts, self.values])
        if not len(self.starts) or self.starts[0] != 0 or (np.diff(self.starts) < 0).any():
            raise ValueError("the runs of the commit log are not in order")

    def is_committed(self, xid: int) -> bool:
        """Tell whether the transaction committed; False for one that was to come.

        Raises:
            CatalogError: the file that should know of the transaction is missing, or too short.
        """
        at = int(np.searchsorted(self.starts, xid // 4, "right")) - 1
        value = int(self.values[at])
        is_lost = value == _NO_FILE or (value == _PAST_END and not self.is_online)
        if is_lost and xid_precedes(xid, self.next_xid):
            raise CatalogError(
                f"could not read the status of transaction {xid}: the backup did not have it",
                hint="the backup is incomplete; take it again",
            )
        return value >= 0 and value >> xid % 4 * 2 & 3 == _COMMITTED

    def update_xid(self, multi: int) -> int:
        """Return 0, as a multixact that was to come has no updater that matters here.

        Raises:
            CatalogError: the multixact is of before the copy, and its members are not kept.
        """
        if xid_precedes(multi, self.next_multi):
            raise CatalogError(
                f"the members of multixact {multi} are not known any more",
                hint="begin with a window that reaches to the end of the backup; if the catalog was exported, take a "
                "base backup instead",
            )
        return 0

    def commit_log(self) -> CommitLog:
        """Return this commit log itself."""
        return self


NO_COMMIT_LOG = CommitLog(np.zeros(1, np.int64), np.full(1, _NO_FILE, np.int16), 0, 0, True)
"""The commit log of a cluster without transactions."""


def commit_log_of(files: Mapping[int, bytes], next_xid: int, next_multi: int, is_online: bool) -> CommitLog:
    """Make the commit log of files by their numbers."""
    starts, values = [np.zeros(1, np.int64)], [np.full(1, _NO_FILE, np.int16)]
    for number, data in sorted(files.items()):
        content = np.frombuffer(data, np.uint8)[:FILE_BYTES]
        changes = np.flatnonzero(np.diff(content)) + 1
        begins = np.append(0, changes) if len(content) else changes
        ends = [len(content), FILE_BYTES] if len(content) < FILE_BYTES else [FILE_BYTES]
        starts.append(number * FILE_BYTES + np.append(begins, ends))
        gaps = [_PAST_END if len(content) else _NO_FILE, _NO_FILE][-len(ends) :]
        values.append(np.append(content[begins].astype(np.int16), gaps).astype(np.int16))
    return CommitLog(*_joined(np.concatenate(starts), np.concatenate(values)), next_xid, next_multi, is_online)


def commit_log_between(oldest: int, next_xid: int, not_committed: NDArray[np.int64], next_multi: int) -> CommitLog:
    """Make the commit log of a span of transactions nearly all of which committed.

    Args:
        oldest: 64 bits: nothing is known of xids before this one.
        next_xid: 64 bits: nothing is known of this one and those after it.
        not_committed: int64[n] those of the span that aborted or ran, sorted; 64 bits.
        next_multi: the first multixact that was to come, low 32 bits.
    """
    parts = []
    for epoch in range(oldest >> 32, (next_xid - 1 >> 32) + 1):
        lo, hi = max(oldest, epoch << 32) - (epoch << 32), min(next_xid, epoch + 1 << 32) - (epoch << 32)
        inside = not_committed[(not_committed >> 32) == epoch] & 0xFFFFFFFF
        parts.append((lo, _runs_between(lo, hi, inside)))
    runs = [run for _, run in sorted(parts, key=lambda part: part[0])]
    starts = np.concatenate([np.zeros(1, np.int64), *(run[0] for run in runs)])
    values = np.concatenate([np.full(1, _NO_FILE, np.int16), *(run[1] for run in runs)])
    return CommitLog(*_joined(starts, values), next_xid & 0xFFFFFFFF, next_multi, True)


def _runs_between(lo: int, hi: int, not_committed: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
    """Make the runs of a span of one epoch, whose ends are rounded to whole bytes."""
    at, number = np.unique(not_committed // 4, return_inverse=True)
    taken = np.full(len(at), _FOUR_COMMITTED, np.int16)
    np.bitwise_and.at(taken, number, (0xFF ^ (3 << not_committed % 4 * 2)).astype(np.int16))
    starts = np.concatenate([[lo // 4], np.column_stack([at, at + 1]).ravel(), [-(-hi // 4)]]).astype(np.int64)
    after = np.full(len(at), _FOUR_COMMITTED, np.int16)
    values = np.concatenate([[_FOUR_COMMITTED], np.column_stack([taken, after]).ravel(), [_NO_FILE]])
    return starts, values.astype(np.int16)


def _joined(starts: NDArray[np.int64], values: NDArray[np.int16]) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
    """Drop empty runs, and join runs that go on as the one before."""
    keep = np.append(starts[1:] != starts[:-1], True)
    starts, values = starts[keep], values[keep]
    keep = np.append(True, values[1:] != values[:-1])
    return starts[keep], values[keep]
