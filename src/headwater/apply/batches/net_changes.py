"""The net changes of a batch, table by table, as bound statements and data for COPY.

Rows are deleted first, then updated, then inserted. So a row that is deleted and inserted anew is two of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.apply.batches import _folding as _f
from headwater.apply.batches.batch import TableChanges
from headwater.apply.batches.bulk_table import BulkTable
from headwater.apply.target.connection import Bound, Statement
from headwater.remote_slots.framed_messages import Cells
from headwater.rows.items import UPDATE

COPY_ROWS = 200
"""Rows from which on inserts go by COPY, which the pipeline has to be left for."""

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Counted:
    """A statement, and how many rows it has to be about for the batch to be what it was taken for."""

    bound: Bound
    rows: int


@dataclass(frozen=True)
class Copied:
    """Rows for COPY: the command, the data, how many rows they are."""

    command: str
    data: bytes
    rows: int


class NetChanges:
    """The net changes of one table.

    Args:
        table: it; data: uint8[] that cells lie in.
        changes: of the table; cells: of all tuples.

    Raises:
        Unfoldable: a change does not follow from the one before it.
    """

    def __init__(self, table: BulkTable, data: NDArray[np.uint8], changes: TableChanges, cells: Cells) -> None:
        self._table, self._data, self._natts = table, data, table.columns
        count = len(changes.kind)
        size = 1 << max(4, (2 * count).bit_length())
        flags = np.zeros(count, np.uint8)
        room = count * self._natts
        self._rows: Cells = np.empty(room, np.uint8), np.empty(room, np.int64), np.empty(room, np.int32)
        rows = _f.fold(
            data,
            (changes.kind, changes.first),
            np.array(table.keys, np.int32),
            self._natts,
            cells,
            (np.full(size, -1, np.int64), np.empty(count, np.int64)),
            flags,
            self._rows,
        )
        if rows < 0:
            raise Unfoldable
        self._flags = flags[:rows]
        # Changes are put into another order, and values between are passed over.
        kinds = set(np.unique(changes.kind).tolist())
        if table.sees_order and (len(kinds) > 1 or UPDATE in kinds):
            raise Unfoldable
        if table.sees_values and (self._flags & _f.SEVERAL).any():
            raise Unfoldable

    def statements(self) -> Iterator[Counted | Copied]:
        """Give what is to be done, in its order."""
        existed, alive = (self._flags & _f.EXISTED) != 0, (self._flags & _f.ALIVE) != 0
        replaced = (self._flags & _f.REPLACED) != 0
        table, keys = self._table, self._table.keys
        yield from self._counted(table.delete, existed & (~alive | replaced), keys)
        # Rows that came and went were not there before: the apply worker would have noticed.
        passing = np.flatnonzero(~existed & ~alive)
        if len(passing):
            yield Counted(self._bound(table.present(), passing, keys), 0)
        yield from self._updates(np.flatnonzero(existed & alive & ~replaced))
        yield from self._inserts(np.flatnonzero(alive & (~existed | replaced)))

    def _counted(self, statement: object, chosen: NDArray[np.bool_], places: Sequence[int]) -> Iterator[Counted]:
        rows = np.flatnonzero(chosen)
        if len(rows):
            assert callable(statement)
            yield Counted(self._bound(statement(), rows, places), len(rows))

    def _updates(self, rows: Int64s) -> Iterator[Counted]:
        if not len(rows):
            return
        masks = np.empty(len(rows), np.int64)
        _f.unchanged_columns(self._rows[0], rows, self._natts, masks)
        for mask in np.unique(masks).tolist():
            chosen = rows[masks == mask]
            sent = [at for at in range(self._natts) if not mask >> at & 1]
            yield Counted(self._bound(self._table.update(sent), chosen, sent), len(chosen))

    def _inserts(self, rows: Int64s) -> Iterator[Counted | Copied]:
        if not len(rows):
            return
        if len(rows) < COPY_ROWS:
            yield Counted(self._bound(self._table.insert(), rows, range(self._natts)), len(rows))
            return
        out = np.empty(_f.copy_size(self._rows, rows, self._natts), np.uint8)
        size = _f.write_copy(self._data, self._rows, rows, self._natts, out)
        yield Copied(self._table.copy(), out[:size].tobytes(), len(rows))

    def _bound(self, statement: Statement, rows: Int64s, places: Sequence[int]) -> Bound:
        return Bound(statement, tuple(self._array(rows, at) for at in places))

    def _array(self, rows: Int64s, column: int) -> bytes:
        size = _f.array_size(self._data, self._rows, rows, self._natts, column)
        out = np.empty(size, np.uint8)
        return out[: _f.write_array(self._data, self._rows, rows, self._natts, column, out)].tobytes()


class Unfoldable(Exception):
    """Changes that cannot be folded: one does not follow from the one before it."""
