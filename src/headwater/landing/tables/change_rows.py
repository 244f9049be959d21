"""The rows of a change table: what a slice has of one table, typed, an update that logged its old row as two.

In: a slice whose tuples were taken apart, in the task. Out: an Arrow table with the columns of the table in the lake,
in output order. ``_change_type`` is as in Delta's change data feed, and also ``truncate``; ``_commit_lsn``, ``_lsn``
and ``_seq`` together order changes, a preimage standing before its postimage. Of a row of which only the key is known
(``_is_key``) other columns are null; columns of the new row whose value the WAL does not hold are named in
``_unchanged``, by their names in the lake.

:class:`StagedChanges` are those that a mirror takes in (:mod:`headwater.landing.mirrors.merge_task`). They also say
which relation a row is of. They take in the rows of a heap that ALTER TABLE has rewritten. They have the value that a
column has had in rows from before it was added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError
from headwater.lakes.layout.table_layout import NO_LAYOUT, TableLayout
from headwater.landing.tables.stored_types import Rewritten
from headwater.pipeline.slices.decode_job import LocatedSlice
from headwater.pipeline.slices.row_batches import place_columns, told_of
from headwater.plugins.rows.row_messages import Told
from headwater.plugins.table_patterns import qualified_name
from headwater.rows.columns.arrow import NAMES, Rows, change_rows
from headwater.rows.columns.table_columns import TypedRows, TypedTable, typed_columns
from headwater.rows.items import DELETE, INSERT, OLD_IS_KEY, UPDATE

CHANGE_TYPES = ("insert", "update_preimage", "update_postimage", "delete", "truncate")
_INSERT, _PREIMAGE, _POSTIMAGE, _DELETE, _TRUNCATE = range(len(CHANGE_TYPES))
_TYPE_OF_KIND = np.zeros(DELETE + 1, np.int64)
_TYPE_OF_KIND[[INSERT, UPDATE, DELETE]] = _INSERT, _POSTIMAGE, _DELETE

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
    pa.field("_relation_oid", pa.int64()),
)
"""Columns of every change table, before the source's; tables from before it was there have no ``_relation_oid``."""

REPLACE = "replace"
"""``_change_type`` of the row after which changes are of another table of the source, that has taken the name."""

RESERVED = tuple(field.name for field in CHANGE_FIELDS)

LONGER = "_of_a_change_in_a_column_of_a_name_that_is_longer_than_those_that_postgresql_gives"
"""Behind the names of columns that stand beside all that the source may have: these have up to 63 bytes."""

STAGED = {
    name: f"{name}{LONGER}"
    for name in ("_change_type", "_commit_lsn", "_lsn", "_commit_time", "_unchanged", "_relation", "_heap")
}
STAGED_FIELDS = (
    *(field.with_name(STAGED[field.name]) for field in CHANGE_FIELDS if field.name in STAGED),
    pa.field(STAGED["_relation"], pa.int64()),
    pa.field(STAGED["_heap"], pa.int64()),
)
"""Those of changes that a mirror takes in: the OID of the relation that a row is of and, if a rewrite has written the
row, of the new heap; else 0."""

NAMED = pa.dictionary(pa.int32(), pa.string())
"""Of columns with few different values, until they are written: strings in the file."""


@dataclass(frozen=True)
class Apart:
    """The changes of a table that go to one of several in the lake; pickles.

    Attributes:
        versions: the versions of relations whose changes do; truncates: LSNs of their records, likewise.
    """

    versions: frozenset[RelationSchema]
    truncates: frozenset[int]


@dataclass(frozen=True)
class ChangeTable:
    """The form of a table of changes in the lake, for tasks; pickles.

    Attributes:
        table: the source's columns, as the window has them.
        names: their names in the lake, in their order.
        schema: all columns of the table in the lake.
        landed: START of the commit record of the last transaction that has landed.
        staging: where files are written.
        apart: the changes of the source's table that are meant; None for all.
        layout: of the table's files.
    """

    table: TypedTable
    names: tuple[str, ...]
    schema: pa.Schema
    landed: int
    staging: str
    apart: Apart | None = None
    layout: TableLayout = NO_LAYOUT

    is_staged: ClassVar[bool] = False
    """The rows are on their way to a mirror."""

    @property
    def source(self) -> tuple[int, str]:
        """OID and name of the source's table."""
        return self.table.schema.oid, qualified_name(self.table.schema)

    def rows(self, located: LocatedSlice) -> pa.Table | None:
        """Return the table's rows of a slice that have not landed yet; None for none.

        Raises:
            HeadwaterError: a value does not fit its column.
        """
        items, transactions = located.changes.items, located.changes.transactions
        is_new = transactions.commit_lsn > self.landed
        own = np.array([self._has(use.schema) for use in located.changes.relations] or [False], np.bool_)
        chosen = change_rows(items)
        chosen = chosen[own[items.layout[chosen]]]
        if not is_new.all():
            chosen = chosen[is_new[items.txn[chosen]]]
        truncates = [
            truncate
            for truncate in told_of(located)
            if self._is_told(truncate, located) and is_new[items.txn[truncate.item]]
        ]
        if not len(chosen) and not truncates:
            return None
        parts = [self._changes(located, chosen), *([self._truncates(located, truncates)] if truncates else [])]
        places = np.concatenate([part.place for part in parts])
        rows = pa.concat_tables([part.rows for part in parts])
        if (np.diff(places) >= 0).all():
            return rows
        return rows.take(np.argsort(places, kind="stable"))

    def parts(self, rows: pa.Table) -> list[pa.Table]:
        """Return rows by the files that they go to."""
        return [rows]

    def _has(self, version: RelationSchema) -> bool:
        """Tell whether changes of a relation, as it was then, go there."""
        is_own = version.topmost == self.table.schema.oid
        return is_own and (self.apart is None or version in self.apart.versions)

    def _is_told(self, truncate: Told, located: LocatedSlice) -> bool:
        """Tell whether a truncate goes there."""
        is_own = truncate.topmost == self.table.schema.oid
        return is_own and (self.apart is None or int(located.changes.items.lsn[truncate.item]) in self.apart.truncates)

    def _as_read(self, version: RelationSchema) -> RelationSchema:
        """Return the schema that says where columns are in rows of a relation."""
        return version

    def _filled(
        self,
        columns: list[pa.Array[Any]],
        schemas: Sequence[RelationSchema],  # noqa: ARG002
        layout: Rows,  # noqa: ARG002
    ) -> list[pa.Array[Any]]:
        """Return columns of new rows, with what rows have of columns that were added later."""
        return columns

    def _replaced(
        self,
        located: LocatedSlice,  # noqa: ARG002
        chosen: Rows,  # noqa: ARG002
        schemas: Sequence[RelationSchema],  # noqa: ARG002
    ) -> dict[int, NDArray[np.bool_]]:
        """Tell of columns that get another type which rows are rewritten for that after them."""
        return {}

    def framed(self, columns: Sequence[pa.Array[Any]], described: Mapping[str, pa.Array[Any]], rows: int) -> pa.Table:
        """Return rows as they are written.

        Args:
            columns: the source's, in the order of their names; described: what else is known of the changes.
            rows: how many.
        """
        return framed({**described, **dict(zip(self.names, columns, strict=True))}, rows, self.schema)

    def _more(self, located: LocatedSlice, chosen: Rows, truncates: Sequence[Told]) -> dict[str, pa.Array[Any]]:
        """Return more columns of rows, or of truncates."""
        return {"_relation_oid": _relations(located, chosen, truncates)}

    def _changes(self, located: LocatedSlice, chosen: Rows) -> _Placed:
        items, relations = located.changes.items, located.changes.relations
        schemas = [self._as_read(use.schema) if self._has(use.schema) else self.table.schema for use in relations]
        typed = typed_columns(
            located.located,
            items,
            self.table,
            located.session,
            schemas=schemas,
            rows=chosen,
            names=self.names,
            replaced=self._replaced(located, chosen, schemas),
        )
        kinds = items.kind[chosen]
        types = _TYPE_OF_KIND[kinds]
        is_key = items.flags[chosen] & OLD_IS_KEY != 0
        after = self._placed(
            located,
            chosen,
            types,
            pa.array(is_key & (kinds == DELETE)),
            typed.unchanged,
            self._filled(list(typed.rows.columns), schemas, items.layout[chosen].astype(np.int64)),
            1,
        )
        old = np.flatnonzero((kinds == UPDATE) & (located.located.old_first[chosen] >= 0))
        if not len(old):
            return after
        which = (kinds == UPDATE)[typed.has_old]
        before = self._preimages(located, chosen[old], typed, which, pa.array(is_key[old]), schemas)
        return _Placed(np.concatenate([before.place, after.place]), pa.concat_tables([before.rows, after.rows]))

    def _preimages(
        self,
        located: LocatedSlice,
        chosen: Rows,
        typed: TypedRows,
        which: NDArray[np.bool_],
        is_key: pa.BooleanArray,
        schemas: Sequence[RelationSchema],
    ) -> _Placed:
        columns = [column.filter(pa.array(which)) for column in typed.old.flatten()]
        columns = self._filled(columns, schemas, located.changes.items.layout[chosen].astype(np.int64))
        unchanged = pa.array([[]] * len(chosen), NAMES)
        return self._placed(located, chosen, np.full(len(chosen), _PREIMAGE), is_key, unchanged, columns, 0)

    def _truncates(self, located: LocatedSlice, truncates: list[Told]) -> _Placed:
        chosen = np.array([truncate.item for truncate in truncates], np.int64)
        nothing = [pa.nulls(len(truncates), field.type) for field in self.table.arrow_schema]
        places = np.arange(len(truncates))
        names: list[pa.Array[Any]] = [
            named([truncate.namespace or "" for truncate in truncates], places),
            named([truncate.name or "" for truncate in truncates], places),
        ]
        numbers = np.array([truncate.number for truncate in truncates], np.int64)
        no_key, unchanged = pa.array([False] * len(truncates), pa.bool_()), pa.array([[]] * len(truncates), NAMES)
        types = np.full(len(truncates), _TRUNCATE)
        return self._placed(located, chosen, types, no_key, unchanged, nothing, 1, (names, numbers, truncates))

    def _placed(
        self,
        located: LocatedSlice,
        chosen: Rows,
        types: NDArray[np.integer],
        is_key: pa.BooleanArray,
        unchanged: pa.Array[Any],
        columns: list[pa.Array[Any]],
        behind: int,
        truncated: tuple[list[pa.Array[Any]], Rows, list[Told]] | None = None,
    ) -> _Placed:
        """Return rows with the columns of changes; `behind` orders those of one change."""
        names, numbers, truncates = truncated or (_names(located, chosen), located.numbers[chosen], [])
        described = place_columns(located, chosen, numbers)
        described |= {
            "_change_type": named(CHANGE_TYPES, types),
            "_is_key": is_key,
            "_unchanged": unchanged,
        }
        described |= dict(zip(("_schema", "_table"), names, strict=True)) | self._more(located, chosen, truncates)
        return _Placed(2 * chosen + behind, self.framed(columns, described, len(chosen)))


@dataclass(frozen=True)
class StagedChanges(ChangeTable):
    """Changes that a mirror takes in; pickles.

    Attributes:
        name: of the table, for errors.
        members: OIDs of the relations that its rows are of, and whose rewritten heaps are its, too.
        fills: by the number of a column what rows from before it was added have in it, as an array of one value.
        rewritten: see :class:`~headwater.landing.tables.table_events.TableStory`, where rows that it replaces are kept
            nowhere.
        breaks: LSNs, ascending, of commits before whose changes other rows come: no file has changes from both sides.
    """

    name: str = ""
    members: frozenset[int] = frozenset()
    fills: Mapping[int, pa.Array[Any]] = field(default_factory=dict)
    breaks: tuple[int, ...] = ()
    rewritten: tuple[Rewritten, ...] = ()

    is_staged: ClassVar[bool] = True

    def rows(self, located: LocatedSlice) -> pa.Table | None:
        """See :class:`ChangeTable`.

        Raises:
            LakeError: a row is changed that nothing tells from others.
        """
        self._require_identities(located)
        return super().rows(located)

    def parts(self, rows: pa.Table) -> list[pa.Table]:
        """See :class:`ChangeTable`; rows are in the order of their commits."""
        cuts = [
            int(cut) for cut in np.searchsorted(rows[STAGED["_commit_lsn"]].to_numpy(), np.array(self.breaks, np.int64))
        ]
        spans = pairwise([0, *cuts, len(rows)])
        return [rows.slice(start, end - start) for start, end in spans if start < end]

    def framed(self, columns: Sequence[pa.Array[Any]], described: Mapping[str, pa.Array[Any]], rows: int) -> pa.Table:
        """See :class:`ChangeTable`; whatever the source's columns are called."""
        return super().framed(
            columns, {STAGED[name]: values for name, values in described.items() if name in STAGED}, rows
        )

    def _replaced(
        self, located: LocatedSlice, chosen: Rows, schemas: Sequence[RelationSchema]
    ) -> dict[int, NDArray[np.bool_]]:
        if not self.rewritten or not len(chosen):
            return {}
        items = located.changes.items
        oids = np.array([schema.oid for schema in schemas], np.int64)[items.layout[chosen]]
        commits = located.changes.transactions.commit_lsn[items.txn[chosen]]
        masks: dict[int, NDArray[np.bool_]] = {}
        for column in self.rewritten:
            lost = (oids == column.relation) & (commits <= column.lsn)
            masks[column.number] = masks.get(column.number, np.zeros(len(chosen), np.bool_)) | lost
        return masks

    def _require_identities(self, located: LocatedSlice) -> None:
        items, relations = located.changes.items, located.changes.relations
        lacks = [self._has(use.schema) and not use.schema.has_identity for use in relations]
        chosen = change_rows(items)
        kinds = items.kind[chosen]
        commits = located.changes.transactions.commit_lsn[items.txn[chosen]]
        wrong = np.array(lacks or [False], np.bool_)[items.layout[chosen]] & (kinds != INSERT) & (commits > self.landed)
        for at in np.flatnonzero(wrong)[:1].tolist():
            version = relations[items.layout[chosen[at]]].schema
            raise LakeError(
                f'table "{version.namespace}.{version.name}" has no replica identity, and a row of it '
                f"{'is updated' if kinds[at] == UPDATE else 'is deleted'}: the WAL does not say which",
                lsn=int(items.lsn[chosen[at]]),
                hint="land its changes (--mode changelog), or leave it out (--exclude)",
            )

    def _has(self, version: RelationSchema) -> bool:
        return super()._has(version) or version.rewrite_of in self.members

    def _as_read(self, version: RelationSchema) -> RelationSchema:
        return replace(version, oid=version.rewrite_of) if version.rewrite_of else version

    def _filled(
        self, columns: list[pa.Array[Any]], schemas: Sequence[RelationSchema], layout: Rows
    ) -> list[pa.Array[Any]]:
        if not self.fills:
            return columns
        return [
            self._filled_column(number, values, schemas, layout)
            for number, values in zip([column.number for column in self.table.columns], columns, strict=True)
        ]

    def _filled_column(
        self, number: int, values: pa.Array[Any], schemas: Sequence[RelationSchema], layout: Rows
    ) -> pa.Array[Any]:
        fill = self.fills.get(number)
        if fill is None:
            return values
        (column,) = (column for column in self.table.columns if column.number == number)
        lacks = np.array([self.table.column_in(column, schema) is None for schema in schemas], np.bool_)[layout]
        if not lacks.any():
            return values
        at = np.where(lacks, len(values), np.arange(len(values)))
        return pa.concat_arrays([values, fill]).take(at)

    def _more(self, located: LocatedSlice, chosen: Rows, truncates: Sequence[Told]) -> dict[str, pa.Array[Any]]:
        schemas, layout = [use.schema for use in located.changes.relations], located.changes.items.layout[chosen]
        heaps = np.array([schema.oid if schema.rewrite_of else 0 for schema in schemas] or [0], np.int64)
        own = np.zeros(len(chosen), np.int64) if truncates or not len(chosen) else heaps[layout]
        return {"_relation": _relations(located, chosen, truncates), "_heap": pa.array(own)}


def _relations(located: LocatedSlice, chosen: Rows, truncates: Sequence[Told]) -> pa.Array[Any]:
    """Return OIDs of the relations that rows, or truncates, are of; of a rewritten heap that of the one before."""
    if truncates:
        return pa.array([truncate.oid for truncate in truncates], pa.int64())
    schemas, layout = [use.schema for use in located.changes.relations], located.changes.items.layout[chosen]
    oids = np.array([schema.rewrite_of or schema.oid for schema in schemas] or [0], np.int64)
    return pa.array(oids[layout] if len(chosen) else np.zeros(0, np.int64))


def named(names: Sequence[str], which: NDArray[np.integer]) -> pa.DictionaryArray[Any, Any]:
    """Return names as a column.

    Args:
        names: the different ones, or more; which: n numbers of names.
    """
    number: dict[str, int] = {}
    numbers = np.array([number.setdefault(name, len(number)) for name in names] or [0], np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(numbers[which]), pa.array(list(number), pa.string()))


def framed(columns: Mapping[str, pa.Array[Any]], rows: int, schema: pa.Schema) -> pa.Table:
    """Return rows of a change table.

    Args:
        columns: by name, in the schema's types or such as are cast to them; those that are missing are null.
        rows: how many.
        schema: of the table; what is :data:`NAMED` stays so.
    """
    arrays, fields = [], []
    for wanted in schema:
        column = columns[wanted.name] if wanted.name in columns else pa.nulls(rows, wanted.type)
        is_named = column.type == NAMED
        arrays.append(column if is_named else column.cast(wanted.type))
        fields.append(wanted.with_type(NAMED) if is_named else wanted)
    return pa.table(arrays, schema=pa.schema(fields))


@dataclass(frozen=True)
class _Placed:
    """Rows, and their places in the order of the output."""

    place: Rows
    rows: pa.Table


def _names(located: LocatedSlice, chosen: Rows) -> list[pa.Array[Any]]:
    """Return the names that relations had."""
    schemas, layout = [use.schema for use in located.changes.relations], located.changes.items.layout[chosen]
    return [named([schema.namespace for schema in schemas], layout), named([schema.name for schema in schemas], layout)]
