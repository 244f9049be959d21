"""The columns of a slice's tuples as row filters look at them: where ``_deform.locate`` has found their payloads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.rows import _deform, items
from headwater.rows.filters.columns import NULL, UNCHANGED, VALUE, RawColumn
from headwater.rows.items import Items
from headwater.rows.layout import SliceLayouts
from headwater.rows.render import LocatedCells, locate_cells


@dataclass(frozen=True, eq=False)
class LocatedTuples:
    """All tuples of a slice's items, taken apart.

    Attributes:
        new_first: int64[n] the first cell of each item's new tuple, -1 where there is none.
        old_first: int64[n] likewise of its old tuple.
        cells: of each attribute of each tuple.
        data: uint8[] in which payloads lie, those of the arena behind the slice's own bytes.
        arena_at: where the arena begins.
    """

    new_first: NDArray[np.int64]
    old_first: NDArray[np.int64]
    cells: LocatedCells
    data: NDArray[np.uint8]
    arena_at: int

    def columns(self, firsts: NDArray[np.int64], numbers: Iterable[int]) -> dict[int, RawColumn]:
        """Columns of some tuples of one relation.

        Args:
            firsts: int64[n] their first cells, as new_first and old_first have them.
            numbers: attnums of the columns.
        """
        return {number: self._column(firsts + (number - 1)) for number in numbers}

    def _column(self, cells: NDArray[np.int64]) -> RawColumn:
        found = self.cells.kinds[cells]
        is_in_arena = found == _deform.IN_ARENA
        kind = np.full(len(cells), NULL, dtype=np.uint8)
        kind[(found == items.TEXT) | is_in_arena] = VALUE
        kind[found == items.UNCHANGED] = UNCHANGED
        start = self.cells.starts[cells] + np.where(is_in_arena, self.arena_at, 0)
        return RawColumn(kind, start, self.cells.lengths[cells], self.data)


def locate_tuples(data: NDArray[np.uint8], changes: Items, layouts: SliceLayouts) -> LocatedTuples:
    """Take all tuples apart; the arguments and errors are those of :func:`headwater.rows.render.render`."""
    data = np.require(data, dtype=np.uint8, requirements=["C", "W"])
    new_first, old_first = np.empty((2, len(changes.kind)), dtype=np.int64)
    counts = np.zeros(2, dtype=np.int64)
    _deform.count_cells(changes, layouts.first_column, counts)
    cells = LocatedCells(*(np.empty(counts[0], dtype=type) for type in (np.uint8, np.int64, np.int32, np.int32)))
    arena = locate_cells(data, changes, layouts, cells, new_first, old_first, int(counts[1]), 1 << 16)
    return LocatedTuples(new_first, old_first, cells, np.concatenate([data, arena]), len(data))
