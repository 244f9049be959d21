"""The columns of a slice's tuples as row filters look at them, where ``rows.tuples.render.locate`` has found them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwater.filters.columns import NULL, UNCHANGED, VALUE, RawColumn
from headwater.rows import items
from headwater.rows.items import Items
from headwater.rows.tuples import _deform
from headwater.rows.tuples.layout import SliceLayouts
from headwater.rows.tuples.render import Located, locate


@dataclass(frozen=True, eq=False)
class LocatedTuples:
    """All tuples of a slice's items, taken apart.

    Attributes:
        located: the places of their payloads.
    """

    located: Located

    @property
    def new_first(self) -> NDArray[np.int64]:
        """int64[n] the first cell of each item's new tuple, -1 where there is none."""
        return self.located.new_first

    @property
    def old_first(self) -> NDArray[np.int64]:
        """int64[n] the first cell of each item's old tuple, -1 where there is none."""
        return self.located.old_first

    def columns(self, firsts: NDArray[np.int64], numbers: Iterable[int]) -> dict[int, RawColumn]:
        """Return columns of some tuples of one relation.

        Args:
            firsts: int64[n] their first cells, as new_first and old_first have them.
            numbers: attnums of the columns.
        """
        return {number: self.column(firsts, number) for number in numbers}

    def column(self, firsts: NDArray[np.int64], number: int, others: NDArray[np.int64] | None = None) -> RawColumn:
        """Return one column of some tuples of one relation.

        Args:
            firsts: int64[n] their first cells.
            number: the attnum of the column.
            others: int64[n] first cells of the tuples whose values fill UNCHANGED ones; None for none.
        """
        cells = firsts + (number - 1)
        if others is not None:
            kinds, older = self.located.cells.kinds, others + (number - 1)
            is_value = (kinds[older] == items.TEXT) | (kinds[older] == _deform.IN_ARENA)
            cells = np.where((kinds[cells] == items.UNCHANGED) & is_value, older, cells)
        cell_kinds, data, start = self.located.cells.kinds[cells], self.located.data, self.located.cells.starts[cells]
        is_in_arena = cell_kinds == _deform.IN_ARENA
        kind = np.full(len(cells), NULL, dtype=np.uint8)
        kind[(cell_kinds == items.TEXT) | is_in_arena] = VALUE
        kind[cell_kinds == items.UNCHANGED] = UNCHANGED
        if is_in_arena.any():
            data, start = self._joined, start + np.where(is_in_arena, len(self.located.data), 0)
        return RawColumn(kind, start, self.located.cells.lengths[cells], data)

    @cached_property
    def _joined(self) -> NDArray[np.uint8]:
        """The slice's own bytes, and the arena's after them."""
        return np.concatenate([self.located.data, self.located.arena])


def locate_tuples(data: NDArray[np.uint8], changes: Items, layouts: SliceLayouts) -> LocatedTuples:
    """Take all tuples apart; the arguments and errors are those of :func:`headwater.rows.tuples.render.render`."""
    return LocatedTuples(locate(data, changes, layouts))
