"""Look-ups over whole columns: values by key, and distinct values.

Keys are mostly dense (xids of a window, numbers of files), so a table by key answers for a million rows in the time of
a few passes; where they are not, sorting does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

DENSE = 4
"""A table by key may have so many times more places than there are keys and questions."""


def _is_dense(low: int, high: int, count: int) -> bool:
    return high - low < DENSE * count + 1024


def lookup(keys: Int64s, values: Int64s, wanted: Int64s) -> Int64s:
    """``values`` at the (first) places of ``wanted`` in the sorted ``keys``, -1 where absent."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    low, high = int(keys[0]), int(keys[-1])
    if not _is_dense(low, high, len(keys) + len(wanted)):
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, values[at], -1)
    table = np.full(high - low + 2, -1, np.int64)
    table[keys[::-1] - low] = values[::-1]
    place = wanted - low
    place[(wanted < low) | (wanted > high)] = high - low + 1
    return table[place]


class Distinct(NamedTuple):
    """Distinct values, k of n.

    Attributes:
        values: int64[k] sorted.
        first: int64[k] where each is met first.
        number: int64[n] which of them each value is.
    """

    values: Int64s
    first: Int64s
    number: Int64s


def distinct(values: Int64s) -> Distinct:
    """The distinct values of a column (``np.unique``, which sorts)."""
    if not len(values):
        return Distinct(*(np.empty(0, np.int64) for _ in range(3)))
    low, high = int(values.min()), int(values.max())
    if not _is_dense(low, high, len(values)):
        return Distinct(*np.unique(values, return_index=True, return_inverse=True))
    place = values - low
    first = np.full(high - low + 1, -1, np.int64)
    first[place[::-1]] = np.arange(len(values) - 1, -1, -1)
    met = first >= 0
    return Distinct(np.flatnonzero(met) + low, first[met], (np.cumsum(met) - 1)[place])
