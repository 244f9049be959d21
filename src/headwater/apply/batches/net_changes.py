"""The net changes of a batch, table by table, as bound statements and data for COPY.

In a run of changes rows are deleted first, then updated, then inserted. So a row that is deleted and inserted anew is
two of them. A table that would see values between has several runs, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headwater.apply.batches import _folding as _f
from headwater.apply.batches.batch import TableChanges
from headwater.apply.batches.bulk_table import BulkTable
from headwater.apply.batches.forms import Forms, MixedFormsError, array_of, copied, forms_of
from headwater.apply.target.connection import Bound, Statement
from headwater.remote_slots.framed_messages import Cells
from headwater.rows.items import INSERT, UPDATE

MOST_RUNS, FEW_CHANGES = 32, 8
"""Runs of changes that are always applied as such; if there are more, changes that they have on average at least."""

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


@dataclass(frozen=True)
class NetChanges:
    """The net changes of one table in a run of changes.

    Attributes:
        table: it; data: uint8[] that cells lie in.
        flags: uint8[n] what became of each row; rows: the values that it has last.
        forms: of values.
    """

    table: BulkTable
    data: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    rows: Cells
    forms: Forms

    def statements(self) -> Iterator[Counted | Copied]:
        """Give what is to be done, in its order; rows are looked up in about the order of the index."""
        existed, alive = (self.flags & _f.EXISTED) != 0, (self.flags & _f.ALIVE) != 0
        replaced = (self.flags & _f.REPLACED) != 0
        table, keys = self.table, self.table.keys
        inserted = np.flatnonzero(alive & (~existed | replaced))
        yield from self._deletes(self._by_key(np.flatnonzero(existed & (~alive | replaced))), inserted)
        # Rows that came and went were not there before: the apply worker would have noticed.
        passing = np.flatnonzero(~existed & ~alive)
        if len(passing):
            yield Counted(self._bound(table.present(), passing, keys), 0)
        yield from self._updates(self._by_key(np.flatnonzero(existed & alive & ~replaced)))
        yield from self._inserts(inserted)

    def _by_key(self, rows: Int64s) -> Int64s:
        if len(rows) < FEW_CHANGES:
            return rows
        places = np.empty(len(rows), np.int64)
        _f.key_places(self.data, self.rows, rows, self.table.columns, self.table.keys[0], places)
        return rows[np.argsort(places, kind="stable")]

    def _deletes(self, rows: Int64s, inserted: Int64s) -> Iterator[Counted]:
        if not len(rows):
            return
        table = self.table
        if not table.uniques or not len(inserted):
            yield Counted(self._bound(table.delete(), rows, table.keys), len(rows))
            return
        made = (self._array(inserted, at) for at in table.unique_places)
        values = (*(self._array(rows, at) for at in table.keys), *made)
        formats = self.forms.formats((*table.keys, *table.unique_places))
        yield Counted(Bound(table.delete_beside(), values, formats), len(rows))

    def _updates(self, rows: Int64s) -> Iterator[Counted]:
        if not len(rows):
            return
        masks = np.empty(len(rows), np.int64)
        _f.unchanged_columns(self.rows[0], rows, self.table.columns, masks)
        for mask in np.unique(masks).tolist():
            chosen = rows[masks == mask]
            sent = [at for at in range(self.table.columns) if not mask >> at & 1]
            yield Counted(self._bound(self.table.update(sent), chosen, sent), len(chosen))

    def _inserts(self, rows: Int64s) -> Iterator[Counted | Copied]:
        if not len(rows):
            return
        copy_format = self.forms.copy_format
        if len(rows) < COPY_ROWS or copy_format is None:
            yield Counted(self._bound(self.table.insert(), rows, range(self.table.columns)), len(rows))
            return
        data = copied(self.data, self.rows, rows, self.table.columns, copy_format)
        yield Copied(self.table.copy(copy_format), data, len(rows))

    def _bound(self, statement: Statement, rows: Int64s, places: Sequence[int]) -> Bound:
        return Bound(statement, tuple(self._array(rows, at) for at in places), self.forms.formats(places))

    def _array(self, rows: Int64s, column: int) -> bytes:
        binary_type = self.table.mapped.types[column] if self.forms.binary[column] else None
        return array_of(self.data, self.rows, rows, self.table.columns, column, binary_type)


def runs_of(table: BulkTable, data: NDArray[np.uint8], changes: TableChanges, cells: Cells) -> Iterator[NetChanges]:
    """Give the net changes of one table, run by run.

    Args:
        table: it; data: uint8[] that cells lie in.
        changes: of the table; cells: of all tuples.

    Raises:
        Unfoldable: a change does not follow from the one before it.
        RepeatedError: rows have so many changes that folding does not pay.
    """
    kinds = set(np.unique(changes.kind).tolist())
    is_mixed = len(kinds) > 1 or UPDATE in kinds
    if (table.sees_order and is_mixed) or (not table.keys and kinds != {INSERT}):
        raise RepeatedError(table)
    forms = _forms(table, changes, cells)
    if not table.keys:
        yield _inserted(table, data, changes, cells, forms)
        return
    cuts = _cuts(table, data, changes, cells) if table.sees_values or table.uniques else [0, len(changes.kind)]
    if len(cuts) > MOST_RUNS and len(changes.kind) < FEW_CHANGES * len(cuts):
        raise RepeatedError(table)
    for first, last in pairwise(cuts):
        yield _folded(table, data, TableChanges(changes.kind[first:last], changes.first[first:last]), cells, forms)


def _forms(table: BulkTable, changes: TableChanges, cells: Cells) -> Forms:
    try:
        forms = forms_of(changes.first, table.columns, cells)
    except MixedFormsError:
        raise Unfoldable from None
    if any(is_binary and not own.array for is_binary, own in zip(forms.binary, table.types, strict=True)):
        raise RepeatedError(table)
    return forms


def _cuts(table: BulkTable, data: NDArray[np.uint8], changes: TableChanges, cells: Cells) -> list[int]:
    """Cut changes so that no row has more than one in a run; return where each begins, and the end."""
    cuts = np.empty(len(changes.kind) + 1, np.int64)
    keys = np.array(table.keys, np.int32)
    runs = _f.cut_at_repeats(data, changes.first, keys, cells, _slots(len(changes.kind)), cuts)
    return [int(cut) for cut in cuts[: runs + 1]]


def _folded(table: BulkTable, data: NDArray[np.uint8], changes: TableChanges, cells: Cells, forms: Forms) -> NetChanges:
    count, natts = len(changes.kind), table.columns
    flags, rows = np.zeros(count, np.uint8), _room(count * natts)
    number = _f.fold(
        data,
        (changes.kind, changes.first),
        np.array(table.keys, np.int32),
        np.array(table.required, np.int32),
        natts,
        cells,
        (_slots(count), np.empty(count, np.int64)),
        flags,
        rows,
    )
    if number < 0:
        raise Unfoldable
    return NetChanges(table, data, flags[:number], rows, forms)


def _inserted(
    table: BulkTable, data: NDArray[np.uint8], changes: TableChanges, cells: Cells, forms: Forms
) -> NetChanges:
    count = len(changes.kind)
    rows = _room(count * table.columns)
    if not _f.take_rows(changes.first, np.array(table.required, np.int32), table.columns, cells, rows):
        raise Unfoldable
    return NetChanges(table, data, np.full(count, _f.ALIVE, np.uint8), rows, forms)


def _room(size: int) -> Cells:
    return np.empty(size, np.uint8), np.empty(size, np.int64), np.empty(size, np.int32)


def _slots(count: int) -> Int64s:
    """Return the empty slots of a hash table for some rows."""
    return np.full(1 << max(4, (2 * count).bit_length()), -1, np.int64)


class Unfoldable(Exception):
    """Changes that cannot be folded: one does not follow from the one before it."""


class RepeatedError(Exception):
    """Changes of a table that it does not pay to fold, or that cannot be: for now it is left alone.

    Its rows are changed again and again, or in an order, or there are no arrays of a type in binary form.

    Args:
        table: it.
    """

    def __init__(self, table: BulkTable) -> None:
        super().__init__(table.mapped.name)
        self.table = table
