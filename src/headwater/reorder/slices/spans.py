"""Spans: the resolutions that the changes of a file have, from an LSN on, for one owner or for everybody.

A span gives a resolution to the changes of (owner, file) from its LSN on, up to the next span of the same two. It is a
number of a :class:`headwater.reorder.plan.RelationUse`, -1 for none. Owners are transactions that change the catalog,
later their units; -1 stands for all others. Spans are int64[4, s] rows (owner, file, from LSN, resolution), sorted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.integer_keys import distinct

Int64s = NDArray[np.int64]


def joined(spans: Int64s) -> Int64s:
    """Leave out spans that go on as the one before."""
    keep = np.ones(spans.shape[1], np.bool_)
    keep[1:] = (spans[[0, 1, 3], 1:] != spans[[0, 1, 3], :-1]).any(axis=0)
    return spans[:, keep]


def spans_by_unit(spans: Int64s, unit_of: Int64s) -> Int64s:
    """Give spans units as owners instead of transactions, without those of transactions that are not output.

    Args:
        spans: int64[4, s] owners are transactions.
        unit_of: int64[t] the unit of each transaction, -1 if it is not output; ascending but for these.
    """
    own = spans[0] >= 0
    unit = np.full(spans.shape[1], -1, np.int64)
    unit[own] = unit_of[spans[0, own]]
    by_unit = np.concatenate([unit[np.newaxis], spans[1:]])
    return by_unit[:, ~own | (unit >= 0)]


@dataclass(frozen=True)
class SpanIndex:
    """An index that finds spans without going through all of them.

    Attributes:
        spans: int64[4, s].
        files: number of files.
    """

    spans: Int64s
    files: int

    def in_force(self, owner: Int64s, file: Int64s, first: int, last: int) -> Int64s:
        """Find the spans of some owners and files that matter in a stretch of WAL, in order: places in ``spans``.

        Args:
            owner: int64[n]; file: int64[n] pairs, each once or several times.
            first: LSN where the stretch begins; last: LSN of the last record that starts in it.
        """
        pairs = distinct((owner + 1) * self.files + file).values
        groups, keys, lsns = self._sorted
        group = np.searchsorted(groups, pairs)
        base = group[np.append(groups, -1)[group] == pairs] * (len(lsns) + 1)
        start = np.searchsorted(keys, base + np.searchsorted(lsns, first, "right"), "right") - 1
        start = np.maximum(start, np.searchsorted(keys, base))
        stop = np.searchsorted(keys, base + np.searchsorted(lsns, last, "right"), "right")
        counts = stop - start
        return np.repeat(start - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())

    @cached_property
    def _sorted(self) -> tuple[Int64s, Int64s, Int64s]:
        """Sort keys of (owner, file), and of each span among all; and the LSNs that occur."""
        pair = (self.spans[0] + 1) * self.files + self.spans[1]
        groups, number = np.unique(pair, return_inverse=True)
        lsns, rank = np.unique(self.spans[2], return_inverse=True)
        return groups, number * (len(lsns) + 1) + rank + 1, lsns
