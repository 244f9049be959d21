"""The completeness of changes: whether each shows the whole row, where WAL of a wal_level below logical is decoded.

Of an insert and an update it is the new row that counts, of a delete the old one. A TOAST value that an update did not
write again counts as missing, unless the old row has it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.rows.items import DELETE, LITERAL, OLD_IS_KEY, TEXT, UNCHANGED, UNKNOWN, Items
from headwater.rows.tuples._deform import IN_ARENA

ABSENT_ROW, PARTIAL, COMPLETE = 0, 1, 2
WORDS = ("absent", "partial", "complete")
"""By number: nothing of the row is known, some of its columns are, all are."""


def completeness(
    items: Items,
    kinds: NDArray[np.uint8],
    firsts: tuple[NDArray[np.int64], NDArray[np.int64]],
    natts: NDArray[np.int64],
) -> NDArray[np.uint8]:
    """Return one of the above for each change, ABSENT_ROW for other items: uint8[n].

    Args:
        items: n of them.
        kinds: uint8[m] of the cells of their tuples, printed or located.
        firsts: int64[n] the first cell of each new tuple, -1 where there is none; likewise of each old one.
        natts: int64[l] attributes of each layout.
    """
    (new_first, old_first), is_change = firsts, items.kind < LITERAL
    counts = np.where(is_change, natts[np.where(is_change, items.layout, 0)] if len(natts) else 0, 0)
    shown = np.where(items.kind == DELETE, old_first, new_first)
    has_row = is_change & (shown >= 0)
    is_missing = (kinds == UNCHANGED) | (kinds == UNKNOWN)
    missing = _any(is_missing, shown, np.where(has_row, counts, 0))
    both = np.flatnonzero(missing & (items.kind != DELETE) & (old_first >= 0))
    for item in both.tolist():
        new, old = (slice(first, first + counts[item]) for first in (new_first[item], old_first[item]))
        is_old = (kinds[new] == UNCHANGED) & ((kinds[old] == TEXT) | (kinds[old] == IN_ARENA))
        missing[item] = bool((is_missing[new] & ~is_old).any())
    missing |= (items.kind == DELETE) & (items.flags & OLD_IS_KEY != 0)
    return np.where(has_row, np.where(missing, PARTIAL, COMPLETE), ABSENT_ROW).astype(np.uint8)


def _any(values: NDArray[np.bool_], first: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell whether one of ``counts`` values from ``first`` on is set: bool[n]."""
    sums = np.concatenate([[0], np.cumsum(values)])
    start = np.where(counts > 0, first, 0)
    is_any: NDArray[np.bool_] = sums[start + counts] > sums[start]
    return is_any
