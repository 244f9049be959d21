"""The visible tuples of a relation with their values out of line, taken apart some at a time.

In: tuples of pages. Out: items with the chunks that rows need before them, and where the values of each row lie.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import RelationSchema
from headwater.errors import CatalogError
from headwater.existing.heap_toast import ToastValues
from headwater.existing.page_history import VisibleTuples
from headwater.existing.toast_values import values_in
from headwater.rows.items import INSERT, TOAST, UNCHANGED, Items
from headwater.rows.session import SessionSettings
from headwater.rows.tuples.layout import SliceLayouts, compile_layouts
from headwater.rows.tuples.render import Located, locate

Int64s = NDArray[np.int64]

_BATCH_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class LocatedRows:
    """Some rows of a relation, taken apart.

    Attributes:
        located: where their values lie; items: chunks, then rows, as INSERTs.
        rows: int64[n] the items that are rows; tid: int64[n] where each lies in its table.
    """

    located: Located
    items: Items
    rows: Int64s
    tid: Int64s


class TupleReader:
    """A reader of a relation's tuples.

    Args:
        schema: the relation; toast: values out of line, None without a TOAST table.
        session: settings that values are printed under.
        lsn: that rows carry.
        shown: numbers of the columns that anybody looks at; None for all.
        binary: whether values are to be sent in binary form.

    Attributes:
        schema: the relation; layouts: of it alone.
    """

    def __init__(
        self,
        schema: RelationSchema,
        toast: ToastValues | None,
        session: SessionSettings,
        lsn: int,
        *,
        shown: Container[int] | None = None,
        binary: bool = False,
    ) -> None:
        self.schema, self._toast, self._lsn = schema, toast, lsn
        self.layouts: SliceLayouts = compile_layouts([schema], session, [shown], binary=binary)

    def batches(self, tuples: VisibleTuples) -> Iterator[LocatedRows]:
        """Yield rows of some pages, as many at a time as their values out of line allow.

        Raises:
            CatalogError: a tuple is malformed, or a value out of line is not there.
        """
        if not len(tuples.at):
            return
        values, sizes, wrong = values_in(tuples, self.layouts)
        if wrong is not None:
            raise self._error(f"page {tuples.block_of(wrong)} has a malformed tuple")
        number = np.cumsum(sizes) // _BATCH_BYTES
        cuts = np.append(np.flatnonzero(np.append(True, np.diff(number) > 0)), len(number)).tolist()
        for lo, hi in pairwise(cuts):
            own = values[lo:hi]
            yield self._batch(tuples, slice(lo, hi), np.unique(own[own >= 0]))

    def _batch(self, tuples: VisibleTuples, which: slice, values: Int64s) -> LocatedRows:
        data, chunk_at, chunk_length = tuples.data, np.empty(0, np.int64), np.empty(0, np.int64)
        if len(values):
            if self._toast is None:
                raise self._error("a row has a value out of line, and the table has no TOAST table")
            chunks, chunk_at, chunk_length = self._toast.chunks(values)
            chunk_at, data = chunk_at + len(data), np.concatenate([data, chunks])
        at, length = np.append(chunk_at, tuples.at[which]), np.append(chunk_length, tuples.length[which])
        items = _items(len(chunk_at), at, length, self._lsn)
        located = locate(data, items, self.layouts)
        if (located.cells.kinds == UNCHANGED).any():
            raise self._error("the TOAST table lacks a value that a row refers to")
        return LocatedRows(located, items, np.arange(len(chunk_at), len(at)), tuples.tid[which])

    def _error(self, reason: str) -> CatalogError:
        return CatalogError(
            f'table "{self.schema.namespace}.{self.schema.name}": {reason}',
            hint="the backup is damaged; take it again",
        )


def _items(chunks: int, at: Int64s, length: Int64s, lsn: int) -> Items:
    """Return chunks first, and the rows that need them: as if one transaction had written all of them."""
    count = len(at)
    nothing = np.zeros(count, np.int32)
    return Items(
        kind=np.where(np.arange(count) < chunks, TOAST, INSERT).astype(np.uint8),
        txn=nothing,
        xid=np.zeros(count, np.uint32),
        lsn=np.full(count, lsn, np.int64),
        layout=nothing,
        new_at=at.astype(np.int64),
        new_len=length.astype(np.int32),
        old_at=np.full(count, -1, np.int64),
        old_len=nothing,
        flags=np.zeros(count, np.uint8),
    )
