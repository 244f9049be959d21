"""A task of a COPY: some pages of a relation into a file of payloads.

In: pages, what is copied. Out: a file of blocks (:mod:`headwater.walsender.copying.row_blocks`), in the order of the
table. Of rows only what pages and their values out of line take is in memory at once.

PostgreSQL: CopyRelationTo, CopyOneRowTo (copyto.c).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import Column, RelationSchema, RowFilters
from headwater.errors import HeadwaterError
from headwater.existing.heap_pages import HeapPages
from headwater.existing.heap_toast import ToastValues
from headwater.existing.located_rows import LocatedRows, TupleReader
from headwater.filters.changes import let_pass, looked_at
from headwater.filters.located import LocatedTuples
from headwater.jobs.exchange import Write
from headwater.plugins.api import WANT_INSERT
from headwater.reorder.plan import RelationUse
from headwater.rows.conversion import refusal
from headwater.rows.items import INSERT, Cells
from headwater.rows.session import SessionSettings
from headwater.rows.tuples.render import place_of_cell, print_located
from headwater.walsender.copying.row_blocks import write_block
from headwater.walsender.copying.row_form import CopiedRows, UnsendableCell, rows_of_cells

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class CopyTask:
    """Some pages of a relation; pickles.

    Attributes:
        pages: them; schema: the relation's.
        toast: number of its TOAST table, -1 without one.
    """

    pages: HeapPages
    schema: RelationSchema
    toast: int


@dataclass(frozen=True)
class CopyForm:
    """The columns and rows that are copied, and how; pickles.

    Attributes:
        columns: of the table, in the order of the fields; filters: of its rows, None for all.
        session: settings that values are printed under; is_binary: else they are text.
        lsn: as of which rows are copied.
    """

    columns: tuple[Column, ...]
    filters: RowFilters | None
    session: SessionSettings
    is_binary: bool
    lsn: int


def run_copy_task(form: CopyForm, toasts: Sequence[ToastValues], task: CopyTask) -> Iterator[Write[None]]:
    """Write the rows of a task into one file."""

    def write(sink: BinaryIO) -> None:
        printer = RowPrinter(form, task.schema, toasts[task.toast] if task.toast >= 0 else None)
        for tuples in task.pages.pieces():
            for rows in printer.reader.batches(tuples):
                for block in printer.printed(rows).blocks():
                    write_block(sink, block)

    yield write


class RowPrinter:
    """A printer of a relation's rows.

    Args:
        form: what is copied.
        schema: the relation, the table itself or one whose rows belong to it.
        toast: its values out of line, None without a TOAST table.

    Attributes:
        reader: of its tuples.
    """

    def __init__(self, form: CopyForm, schema: RelationSchema, toast: ToastValues | None) -> None:
        self._form, self._schema, session = form, schema, form.session
        numbers = {column.name: column.number for column in schema.columns if not column.is_dropped}
        self._fields = np.array([numbers[column.name] - 1 for column in form.columns], np.int64)
        shown = frozenset(int(field) + 1 for field in self._fields)
        if form.filters is not None:
            shown |= looked_at(schema, form.filters, session.version, session.encoding)
        self.reader = TupleReader(schema, toast, session, form.lsn, shown=shown, binary=form.is_binary)

    def printed(self, rows: LocatedRows) -> CopiedRows:
        """Return those of rows that pass, as they are sent.

        Raises:
            HeadwaterError: a value stands in the way, or a filter has no verdict.
        """
        form, items = self._form, rows.items
        if form.filters is not None:
            tuples, session = LocatedTuples(rows.located), form.session
            items = let_pass(tuples, items, [self._use], session.version, session.encoding)
        cells = print_located(rows.located, items, self.reader.layouts)
        passing = rows.rows[items.kind[rows.rows] == INSERT]
        try:
            return rows_of_cells(
                cells, cells.new_first[passing], self._fields, form.session.client_encoding, is_binary=form.is_binary
            )
        except UnsendableCell as unsendable:
            raise self._refusal(cells, unsendable.cell) from None

    @cached_property
    def _use(self) -> RelationUse:
        return RelationUse(self._schema, WANT_INSERT, filters=self._form.filters)

    def _refusal(self, cells: Cells, cell: int) -> HeadwaterError:
        _, number = place_of_cell(cells, cell)
        schema, session = self._schema, self._form.session
        place = f'column "{schema.columns[number].name}" of table "{schema.namespace}.{schema.name}"'
        text = cells.text[cells.start[cell] :][: cells.length[cell]].tobytes()
        return refusal(session.written_in, session.client_encoding, text, self._form.lsn, place)
