"""Kernels that find the cells of one column in the tuples of a table's changes, whatever versions these are of.

A tuple's cells lie side by side from its first one on. ``place`` says which of them is the column's, for each version
of the table, -1 where a version has no such column. Cells found are ready to be made an array of: kinds are those of
:mod:`headwater.rows.columns._columns`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import Int
from headwater.rows.columns._columns import IN_ARENA, NONE, VALUE
from headwater.rows.items import TEXT, UNCHANGED, UNKNOWN
from headwater.rows.tuples import _deform

_CELL_IN_ARENA = _deform.IN_ARENA


class Picks(NamedTuple):
    """The places of a column's values in k rows, which kernels fill in.

    Attributes:
        kind: uint8[k]; start: int64[k]; length: int32[k] as in :class:`~headwater.rows.columns._columns.Stored`.
        unchanged: bool[k] the new tuple has a value that is neither in it nor in the old one.
    """

    kind: NDArray[np.uint8]
    start: NDArray[np.int64]
    length: NDArray[np.int32]
    unchanged: NDArray[np.bool_]


class Tuples(NamedTuple):
    """The tuples of k rows.

    Attributes:
        new, old: int64[k] the first cell of each, -1 for none.
        layout: int32[k] the version of the table.
        kinds: uint8[m]; starts: int64[m]; lengths: int32[m] all cells.
    """

    new: NDArray[np.int64]
    old: NDArray[np.int64]
    layout: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int32]


@inline_kernel
def _take(tuples: Tuples, cell: Int, picks: Picks, row: Int) -> bool:
    """Note where a cell's value lies; whether it has one."""
    _, _, _, kinds, starts, lengths = tuples
    kind, start, length, _ = picks
    if cell < 0 or (kinds[cell] != TEXT and kinds[cell] != _CELL_IN_ARENA):
        kind[row], start[row], length[row] = NONE, 0, 0
        return False
    kind[row] = VALUE if kinds[cell] == TEXT else IN_ARENA
    start[row], length[row] = starts[cell], lengths[cell]
    return True


@borrowing_kernel
def pick_new(tuples: Tuples, place: NDArray[np.int64], picks: Picks) -> Int:
    """Pick the column in new tuples; return how many are unknown.

    Where there is no new tuple, or the value has not changed, it is picked in the old one.

    Args:
        tuples: k rows.
        place: int64[v] the cell of a tuple that is the column's, by version.
        picks: of k rows.
    """
    new, old, layout, kinds, _, _ = tuples
    unknown = 0
    for row in range(len(new)):
        at = place[layout[row]]
        before = old[row] + at if old[row] >= 0 and at >= 0 else -1
        after = new[row] + at if new[row] >= 0 and at >= 0 else -1
        is_unchanged = after >= 0 and kinds[after] == UNCHANGED
        is_found = _take(tuples, before if new[row] < 0 or is_unchanged else after, picks, row)
        picks.unchanged[row] = (is_unchanged and not is_found) or (after >= 0 and kinds[after] == UNKNOWN)
        unknown += picks.unchanged[row]
    return unknown


@borrowing_kernel
def pick_old(tuples: Tuples, place: NDArray[np.int64], picks: Picks) -> None:
    """Pick the column in old tuples.

    Args:
        tuples: k rows.
        place: see :func:`pick_new`.
        picks: of k rows; nothing is unchanged.
    """
    old, layout = tuples.old, tuples.layout
    for row in range(len(old)):
        at = place[layout[row]]
        _take(tuples, old[row] + at if old[row] >= 0 and at >= 0 else -1, picks, row)
