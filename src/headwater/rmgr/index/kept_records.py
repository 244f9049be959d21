"""Records that the index keeps whole, as flat arrays: those of catalogs, running transactions, checkpoints.

In: the records of a stretch. Out: their bytes, one after the other, in LSN order. Made in index tasks; the driver turns
them into values one by one as it rolls the catalog forward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.wal.layout import RMID_AT
from headwater.wal.records.frames import Frames

WORD = 8
_AT_ONCE = 4096


class KeptRecord(NamedTuple):
    """A record kept whole: its start and end LSN and its bytes."""

    lsn: int
    end_lsn: int
    data: bytes


@dataclass(frozen=True, eq=False)
class KeptRecords:
    """Records that are kept whole, n of them, in LSN order.

    Attributes:
        lsn: int64[n] start of each; end_lsn: int64[n] its end.
        length: int64[n] length of each in bytes.
        data: uint64[] the bytes of each record, each from a word on.
    """

    lsn: NDArray[np.int64]
    end_lsn: NDArray[np.int64]
    length: NDArray[np.int64]
    data: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.lsn)

    def __iter__(self) -> Iterator[KeptRecord]:
        data, at = self.data.data.cast("B"), _starts(_words(self.length)) * WORD
        columns = (self.lsn, self.end_lsn, at, at + self.length)
        for first in range(0, len(self), _AT_ONCE):
            some = [column[first : first + _AT_ONCE].tolist() for column in columns]
            for lsn, end_lsn, lo, hi in zip(*some, strict=True):
                yield KeptRecord(lsn, end_lsn, bytes(data[lo:hi]))

    def since(self, lsn: int) -> KeptRecords:
        """Return the records that start at an LSN or later."""
        first = int(np.searchsorted(self.lsn, lsn))
        words = int(_words(self.length[:first]).sum())
        return KeptRecords(self.lsn[first:], self.end_lsn[first:], self.length[first:], self.data[words:])

    def of_manager(self, rmid: int) -> KeptRecords:
        """Return the records of a resource manager."""
        at = _starts(_words(self.length)) * WORD + RMID_AT
        return self.take(self.data.view(np.uint8)[at] == rmid)

    def take(self, which: NDArray[np.bool_]) -> KeptRecords:
        """Return the records for which bool[n] ``which`` is true."""
        if which.all():
            return self
        words = np.repeat(which, _words(self.length))
        return KeptRecords(self.lsn[which], self.end_lsn[which], self.length[which], self.data[words])


def _words(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return (lengths + (WORD - 1)) // WORD


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.cumsum(counts) - counts


def keep_records(frames: Frames, numbers: NDArray[np.int64]) -> KeptRecords:
    """Copy records out of a stretch.

    Args:
        frames: the stretch.
        numbers: int64[n] the numbers of the records to copy, in order.
    """
    lengths = frames.lengths_of(numbers)
    words = _words(lengths)
    at = np.repeat(frames.positions[numbers] // WORD - _starts(words), words) + np.arange(int(words.sum()))
    return KeptRecords(frames.lsns[numbers], frames.end_lsns[numbers], lengths, frames.data.view(np.uint64)[at])


def join_kept(parts: Sequence[KeptRecords]) -> KeptRecords:
    """Join the records of neighbouring stretches."""
    return KeptRecords(
        np.concatenate([part.lsn for part in parts]),
        np.concatenate([part.end_lsn for part in parts]),
        np.concatenate([part.length for part in parts]),
        np.concatenate([part.data for part in parts]),
    )


NONE_KEPT = KeptRecords(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint64))
