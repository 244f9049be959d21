"""The rows of a change table: what a slice has of one table, typed, an update that logged its old row as two.

In: a slice whose tuples were taken apart, in the task. Out: an Arrow table with the columns of the table in the lake,
in output order. ``_change_type`` is as in Delta's change data feed, with ``truncate`` besides; ``_commit_lsn``,
``_lsn`` and ``_seq`` together order changes, a preimage standing before its postimage. Of a row of which only the key
is known (``_is_key``) other columns are null; columns of the new row whose value the WAL does not hold are named in
``_unchanged``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.catalog.relation import RelationSchema
from headwater.pipeline.decode_job import LocatedSlice
from headwater.pipeline.row_batches import Told, numbers_in_records, place_columns, told_of
from headwater.rows.arrow import NAMES, Rows, change_rows
from headwater.rows.items import DELETE, OLD_IS_KEY, UPDATE
from headwater.rows.typed import TypedRows, TypedTable, typed_columns

CHANGE_TYPES = ("insert", "update_preimage", "update_postimage", "delete", "truncate")
_INSERT, _PREIMAGE, _POSTIMAGE, _DELETE, _TRUNCATE = range(len(CHANGE_TYPES))

CHANGE_FIELDS = (
    pa.field("_change_type", pa.string()),
    pa.field("_commit_lsn", pa.int64()),
    pa.field("_lsn", pa.int64()),
    pa.field("_seq", pa.int64()),
    pa.field("_commit_time", pa.timestamp("us", tz="UTC")),
    pa.field("_xid", pa.int64()),
    pa.field("_origin", pa.string()),
    pa.field("_schema", pa.string()),
    pa.field("_table", pa.string()),
    pa.field("_is_key", pa.bool_()),
    pa.field("_unchanged", NAMES),
)
"""Columns of every change table, before the source's."""

RESERVED = tuple(field.name for field in CHANGE_FIELDS)


@dataclass(frozen=True)
class ChangeTable:
    """What a task needs to know of a table in the lake; pickles.

    Attributes:
        table: the source's columns, as the window has them.
        names: their names in the lake, in their order.
        schema: all columns of the table in the lake.
        landed: START of the commit record of the last transaction that has landed.
        staging: where files are written.
    """

    table: TypedTable
    names: tuple[str, ...]
    schema: pa.Schema
    landed: int
    staging: str

    def rows(self, located: LocatedSlice) -> pa.Table | None:
        """The table's rows of a slice that have not landed yet; None for none.

        Raises:
            HeadwaterError: a value does not fit its column.
        """
        items, transactions = located.changes.items, located.changes.transactions
        is_new = transactions.commit_lsn[items.txn] > self.landed
        own = np.array([self._has(use.schema) for use in located.changes.relations] or [False], np.bool_)
        found = change_rows(items)
        found = found[own[items.layout[found]] & is_new[found]]
        told = [one for one in told_of(located) if one.topmost == self.table.schema.oid and is_new[one.item]]
        if not len(found) and not told:
            return None
        parts = [self._changes(located, found), self._truncates(located, told)]
        places = np.concatenate([part.place for part in parts])
        rows = pa.concat_tables([part.rows for part in parts])
        if (np.diff(places) >= 0).all():
            return rows
        return rows.take(pa.array(np.argsort(places, kind="stable")))

    def _has(self, version: RelationSchema) -> bool:
        """Whether changes of a relation, as it was then, go there."""
        return version.topmost == self.table.schema.oid

    def _changes(self, located: LocatedSlice, found: Rows) -> _Placed:
        items, relations = located.changes.items, located.changes.relations
        schemas = [use.schema if self._has(use.schema) else self.table.schema for use in relations]
        typed = typed_columns(located.located, items, self.table, located.session, schemas=schemas, rows=found)
        kinds = items.kind[found]
        types = np.choose(kinds, [0, _INSERT, _POSTIMAGE, _DELETE]) if len(kinds) else kinds
        is_key = items.flags[found] & OLD_IS_KEY != 0
        after = self._placed(
            located, found, types, pa.array(is_key & (kinds == DELETE)), typed.unchanged, list(typed.rows.columns), 1
        )
        old = np.flatnonzero((kinds == UPDATE) & (located.located.old_first[found] >= 0))
        if not len(old):
            return after
        before = self._preimages(located, found[old], typed, (kinds == UPDATE)[typed.has_old], pa.array(is_key[old]))
        return _Placed(np.concatenate([before.place, after.place]), pa.concat_tables([before.rows, after.rows]))

    def _preimages(
        self, located: LocatedSlice, found: Rows, typed: TypedRows, which: NDArray[np.bool_], is_key: pa.BooleanArray
    ) -> _Placed:
        columns = [column.filter(pa.array(which)) for column in typed.old.flatten()]
        unchanged = pa.array([[]] * len(found), NAMES)
        return self._placed(located, found, np.full(len(found), _PREIMAGE), is_key, unchanged, columns, 0)

    def _truncates(self, located: LocatedSlice, told: list[Told]) -> _Placed:
        found = np.array([one.item for one in told], np.int64)
        nothing = [pa.nulls(len(told), field.type) for field in self.table.arrow_schema]
        names = [
            pa.array([one.namespace for one in told], pa.string()),
            pa.array([one.name for one in told], pa.string()),
        ]
        numbers = np.array([one.number for one in told], np.int64)
        no_key, unchanged = pa.array([False] * len(told), pa.bool_()), pa.array([[]] * len(told), NAMES)
        types = np.full(len(told), _TRUNCATE)
        return self._placed(located, found, types, no_key, unchanged, nothing, 1, (names, numbers))

    def _placed(
        self,
        located: LocatedSlice,
        found: Rows,
        types: NDArray[np.integer],
        is_key: pa.BooleanArray,
        unchanged: pa.ListArray,
        columns: list[pa.Array],
        behind: int,
        told: tuple[list[pa.Array], Rows] | None = None,
    ) -> _Placed:
        """Rows with the columns of changes; `behind` orders those of one change."""
        names, numbers = told or (_names(located, found), numbers_in_records(located)[found])
        own = dict(zip(self.names, columns, strict=True)) | place_columns(located, found, numbers)
        own |= {
            "_change_type": pa.array(CHANGE_TYPES).take(pa.array(types)),
            "_is_key": is_key,
            "_unchanged": unchanged,
        }
        own |= dict(zip(("_schema", "_table"), names, strict=True))
        arrays = [
            own[field.name].cast(field.type) if field.name in own else pa.nulls(len(found), field.type)
            for field in self.schema
        ]
        return _Placed(2 * found + behind, pa.table(arrays, schema=self.schema))


@dataclass(frozen=True)
class _Placed:
    """Rows, and their places in the order of the output."""

    place: Rows
    rows: pa.Table


def _names(located: LocatedSlice, found: Rows) -> list[pa.Array]:
    """The names that relations had."""
    schemas, layout = [use.schema for use in located.changes.relations], located.changes.items.layout[found]
    parts = ([one.namespace for one in schemas], [one.name for one in schemas])
    return [pa.array(part, pa.string()).take(pa.array(layout)) for part in parts]
