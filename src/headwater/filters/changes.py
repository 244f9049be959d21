"""The changes of a slice that their publications' row filters let pass, and the kind that each becomes.

In: the slice's changes, their tuples taken apart. Out: the same changes; those that are not published are SKIPPED. An
UPDATE of which only the old row is published is a DELETE, an UPDATE of which only the new row is published an INSERT.
The TOAST values of such an INSERT that were not written again are those of the old row, as far as that row has them.
Of a row that is not sent nothing is left to print.

An error is that of the first change for which the server raises it, of an UPDATE's old row before its new one.

PostgreSQL: ``replication/pgoutput/pgoutput.c`` (pgoutput_row_filter).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import RelationSchema, RowFilters
from headwater.errors import CatalogError, ExpressionError, RowFilterError, UnsupportedFilterError
from headwater.filters.filter import Filter, compile_filter
from headwater.filters.functions import FilterSettings
from headwater.filters.located import LocatedTuples
from headwater.pg.version import Version
from headwater.reorder.plan import RelationUse
from headwater.rows.items import DELETE, INSERT, NULL, SKIPPED, TEXT, UNCHANGED, UPDATE, Items
from headwater.rows.tuples import _deform
from headwater.rows.tuples.render import LocatedCells

Index = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class CompiledFilters:
    """The filters of a relation's changes by their kind; None lets all of them pass."""

    insert: Filter | None
    update: Filter | None
    delete: Filter | None

    def check(self) -> None:
        """Raise the error that the server raises as soon as it sets the filters up.

        Raises:
            ExpressionError: one of them cannot be set up.
        """
        for row_filter in (self.insert, self.update, self.delete):
            if row_filter is not None and row_filter.failure:
                raise ExpressionError(row_filter.failure)


@lru_cache(maxsize=256)
def compiled(filters: RowFilters, version: Version, encoding: str) -> CompiledFilters:
    """Compile the filters of a relation.

    Args:
        filters: as the catalog has them.
        version: the server's.
        encoding: the database's.

    Raises:
        UnsupportedFilterError: a filter cannot be computed exactly here.
        CatalogError: a tree is malformed, or does not fit the relation.
    """
    settings = FilterSettings(version.major, encoding, *filters.locale, server_version=str(version))
    kinds = filters.insert, filters.update, filters.delete
    return CompiledFilters(*(_compiled(trees, filters, settings) if trees else None for trees in kinds))


def _compiled(trees: Sequence[str], filters: RowFilters, settings: FilterSettings) -> Filter:
    if "" in trees:
        raise UnsupportedFilterError(
            "a row filter is so long that it is stored out of line, and not all of its chunks are known",
            hint="export the catalog as a superuser, or take a base backup",
        )
    row_filter = compile_filter(trees, filters.columns, settings)
    for column in filters.columns:
        if column.number in row_filter.columns and column.generated == "v":
            raise UnsupportedFilterError(f'a row filter looks at the virtual generated column "{column.name}"')
    return row_filter


def looked_at(schema: RelationSchema, filters: RowFilters, version: Version, encoding: str) -> frozenset[int]:
    """Return the attnums of the columns of a relation, or partition, that its filters look at."""
    by_kind, numbers = compiled(filters, version, encoding), _numbers(schema, filters)
    each = (
        row_filter.columns for row_filter in (by_kind.insert, by_kind.update, by_kind.delete) if row_filter is not None
    )
    return frozenset(numbers[number] for columns in each for number in columns)


def _numbers(schema: RelationSchema, filters: RowFilters) -> dict[int, int]:
    """Map each attnum that filters know to the relation's own attnum, by the column's name (build_attrmap_by_name)."""
    numbers = {column.name: column.number for column in schema.columns if not column.is_dropped}
    live = [column for column in filters.columns if not column.is_dropped]
    missing = [column.name for column in live if column.name not in numbers]
    if missing:
        raise CatalogError(f'table "{schema.namespace}.{schema.name}" has no column "{missing[0]}" to filter by')
    return {column.number: numbers[column.name] for column in live}


def let_pass(
    tuples: LocatedTuples, items: Items, relations: Sequence[RelationUse], version: Version, encoding: str
) -> Items:
    """Skip the changes that row filters do not let pass.

    Args:
        tuples: those of the items; cells of rows that are not sent are emptied, and an INSERT that was an UPDATE gets
            values.
        items: the changes of a slice.
        relations: the relation versions that they refer to.
        version: the server's.
        encoding: the database's.

    Returns:
        the items, with their new kinds.

    Raises:
        RowFilterError: a filter has no verdict on a row; with the change's LSN.
    """
    judge = _Judge(tuples, items)
    for layout, use in enumerate(relations):
        if use.filters is not None:
            filters = compiled(use.filters, version, encoding)
            judge.relation(layout, filters, _numbers(use.schema, use.filters))
    judge.raise_first()
    _leave_out(tuples, items, judge.kind, np.array([len(use.schema.columns) for use in relations], np.int64))
    return items._replace(kind=judge.kind)


class _Judge:
    """A judge of a slice's changes, relation by relation.

    Attributes:
        kind: uint8[n] the items' new kinds.
    """

    def __init__(self, tuples: LocatedTuples, items: Items) -> None:
        self._tuples, self._items = tuples, items
        self.kind = items.kind.copy()
        self._errors: list[tuple[int, int, RowFilterError]] = []

    def relation(self, layout: int, filters: CompiledFilters, numbers: dict[int, int]) -> None:
        """Judge the changes of one relation version."""
        kind, old = self._items.kind, self._tuples.old_first
        which = np.flatnonzero((self._items.layout == layout) & (kind <= DELETE))
        inserts, updates = which[kind[which] == INSERT], which[kind[which] == UPDATE]
        deletes = which[(kind[which] == DELETE) & (old[which] >= 0)]
        if filters.insert is not None:
            self._leave_out(inserts, self._verdict(filters.insert, inserts, self._tuples.new_first, numbers))
        if filters.delete is not None:
            self._leave_out(deletes, self._verdict(filters.delete, deletes, old, numbers))
        if filters.update is not None:
            alone, both = updates[old[updates] < 0], updates[old[updates] >= 0]
            self._leave_out(alone, self._verdict(filters.update, alone, self._tuples.new_first, numbers))
            self._updates(filters.update, both, numbers)

    def _updates(self, row_filter: Filter, rows: Index, numbers: dict[int, int]) -> None:
        """Judge the updates that have an old row also."""
        was = self._verdict(row_filter, rows, self._tuples.old_first, numbers)
        now = self._verdict(row_filter, rows, self._tuples.new_first, numbers, 1)
        self.kind[rows[~was & ~now]] = SKIPPED
        self.kind[rows[~was & now]] = INSERT
        self.kind[rows[was & ~now]] = DELETE

    def _leave_out(self, rows: Index, passes: Bools) -> None:
        self.kind[rows[~passes]] = SKIPPED

    def _verdict(self, row_filter: Filter, rows: Index, firsts: Index, numbers: dict[int, int], side: int = 0) -> Bools:
        """Return bool[k], the rows that are published; if there is an error it is noted, and no row is published."""
        old = self._tuples.old_first[rows] if side else None
        columns = {number: self._tuples.column(firsts[rows], numbers[number], old) for number in row_filter.columns}
        try:
            return row_filter.verdict(columns, len(rows))
        except ExpressionError as error:
            failure = row_filter.first_error(columns, len(rows))
            row, first = (0, error) if failure is None else failure
            self._errors.append((int(rows[row]), side, first))
        except RowFilterError as error:
            self._errors.append((int(rows[0]), side, error))
        return np.zeros(len(rows), np.bool_)

    def raise_first(self) -> None:
        """Raise the error that the server would meet first."""
        if self._errors:
            item, _, error = min(self._errors, key=lambda entry: entry[:2])
            error.lsn = int(self._items.lsn[item])
            raise error


def _leave_out(tuples: LocatedTuples, items: Items, kind: NDArray[np.uint8], natts: Index) -> None:
    """Complete new rows that are sent as INSERT, then empty the tuples that are not sent.

    Args:
        tuples: of the items; kind: uint8[n] the new kind of each item.
        natts: int64[l] columns of each layout.
    """
    cells, new, old = tuples.located.cells, tuples.new_first, tuples.old_first
    changed = np.flatnonzero(kind != items.kind)
    for layout in np.unique(items.layout[changed]).tolist():
        rows = changed[items.layout[changed] == layout]
        places = np.arange(natts[layout])
        inserts = rows[kind[rows] == INSERT]
        _complete(cells, (new[inserts, None] + places).ravel(), (old[inserts, None] + places).ravel())
        for firsts, sent_as in ((old, INSERT), (new, DELETE)):
            gone = rows[np.isin(kind[rows], (SKIPPED, sent_as)) & (firsts[rows] >= 0)]
            cells_of_gone = (firsts[gone, None] + places).ravel()
            cells.kinds[cells_of_gone], cells.lengths[cells_of_gone] = NULL, 0
            firsts[gone] = -1


def _complete(cells: LocatedCells, new: Index, old: Index) -> None:
    """Copy values of old tuples to the cells of new ones that were not written again, where the old ones have them."""
    is_value = (cells.kinds[old] == TEXT) | (cells.kinds[old] == _deform.IN_ARENA)
    taken = np.flatnonzero((cells.kinds[new] == UNCHANGED) & is_value)
    for column in (cells.kinds, cells.starts, cells.lengths):
        column[new[taken]] = column[old[taken]]
