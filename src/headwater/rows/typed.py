"""The columns of one table, typed, from the tuples of its changes.

Columns are those of the table as of one place in the log, most often the end of a window; tuples may be of any earlier
version of it, or of another relation that bore its name. A column of the same relation is known by its attnum, so
renaming it or moving others about does not matter; of another relation it is known by its name.

Values go into columns as they are stored (:mod:`headwater.rows.columns`). What a column cannot hold is, as
:class:`TypedTable` is told, an error or null, or the columns of the types that have such values are text altogether. A
value of an older type is printed, and read as the newer one, where every value that both hold prints alike
(:func:`_reads_as`); anything else is an error. Errors tell table, column and LSN, never the value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.errors import DecodingError
from headwater.rows import _columns, _deform
from headwater.rows._columns import Stored
from headwater.rows.arrow import NAMES, Rows, change_rows, is_shown
from headwater.rows.column_types import ERROR, NULL, SPARK, ColumnType, Target, column_type
from headwater.rows.columns import Asked, Values, arrow_array
from headwater.rows.items import ABSENT, TEXT, UNCHANGED, UNKNOWN, Items
from headwater.rows.printed_columns import printed_column
from headwater.rows.read_back import read_back
from headwater.rows.render import Located
from headwater.rows.session import SessionSettings
from headwater.rows.text_tables import base_type

_NUMERIC = 1700

# Older types whose every value, where it fits, prints as the same value of the newer type does.
_READ_AS = {
    **dict.fromkeys((20, 21, 23), frozenset({20, 21, 23, _NUMERIC})),
    700: frozenset({21}),
    701: frozenset({21, 23}),
    _NUMERIC: frozenset({20, 21, 23}),
}


@dataclass(frozen=True)
class TypedTable:
    """A table whose changes are shown with columns of its own; pickles.

    Attributes:
        schema: the table as its columns are wanted.
        on_unrepresentable: one of :data:`~headwater.rows.column_types.ON_UNREPRESENTABLE`.
        target: what the columns are for.
        money_decimals: digits behind the point of an amount of money; None for text.
    """

    schema: RelationSchema
    on_unrepresentable: str = ERROR
    target: Target = SPARK
    money_decimals: int | None = None

    @property
    def columns(self) -> list[Column]:
        """The columns that are shown."""
        return [column for column in self.schema.columns if is_shown(column)]

    @property
    def arrow_schema(self) -> pa.Schema:
        """Names and types of :func:`typed_columns`."""
        return pa.schema([(column.name, self.type_of(column).arrow) for column in self.columns])

    @property
    def arrow_struct(self) -> pa.StructType:
        """All columns in one."""
        return pa.struct(list(self.arrow_schema))

    @property
    def spark_columns(self) -> str:
        """The columns as a Spark DDL string, e.g. ```id` INT, `total` DECIMAL(10,2)``."""
        return ", ".join(self._spark_column(column, " ") for column in self.columns)

    @property
    def spark_struct(self) -> str:
        """The same as one type."""
        return f"STRUCT<{', '.join(self._spark_column(column, ': ') for column in self.columns)}>"

    def _spark_column(self, column: Column, between: str) -> str:
        return f"`{column.name.replace('`', '``')}`{between}{self.type_of(column).spark}"

    def type_of(self, column: Column) -> ColumnType:
        """A column's type."""
        return column_type(column, self.target, self.on_unrepresentable, self.money_decimals)

    def column_in(self, column: Column, version: RelationSchema) -> Column | None:
        """What holds a column's values in tuples of a version of the table, or of another relation."""
        if version.oid != self.schema.oid:
            return next((c for c in version.columns if c.name == column.name and is_shown(c)), None)
        found = version.columns[column.number - 1] if column.number <= len(version.columns) else None
        return found if found is not None and is_shown(found) else None


@dataclass(frozen=True)
class TypedRows:
    """The k changes of one table, typed.

    Attributes:
        rows: the new tuples, or of deletes the old ones, one column per attribute.
        before: STRUCT[k] the old tuples, null where none was logged; of a key only the key's columns have values.
        unchanged: ARRAY<STRING>[k] columns of the new tuple whose value is neither in it nor in the old one.
    """

    rows: pa.RecordBatch
    before: pa.StructArray
    unchanged: pa.ListArray


def typed_columns(
    located: Located,
    items: Items,
    table: TypedTable,
    session: SessionSettings,
    *,
    schemas: Sequence[RelationSchema] | None = None,
    rows: Rows | None = None,
    names: Sequence[str] | None = None,
) -> TypedRows:
    """The tuples of one table's changes as typed columns, one per shown column of its schema.

    Args:
        located: where the values of the items' tuples lie.
        items: the items.
        table: the table as its columns are wanted.
        session: settings that text is printed under.
        schemas: the versions of the table that the items refer to, if not all are of table's own schema.
        rows: int64[k] items to show, None for all changes.
        names: what columns are called among those that are unchanged, None for their own names.

    Raises:
        DecodingError: a value does not fit its type; text is not UTF-8, or longer than 2 GB in one column.
        RecordError: a value is malformed.
        UnsupportedTypeError: a value's type has no text form, and the session takes none.
    """
    rows = change_rows(items) if rows is None else rows
    versions = schemas if schemas is not None else [table.schema] * (int(items.layout[rows].max(initial=0)) + 1)
    reader = _Reader(located, items, table, session, versions, rows)
    new, old, unchanged = [], [], []
    for column in table.columns:
        after, before, is_unchanged = reader.picks(column)
        new.append(reader.array(column, after))
        old.append(reader.array(column, before))
        unchanged.append(is_unchanged)
    return TypedRows(
        pa.RecordBatch.from_struct_array(reader.struct(new)),
        reader.struct(old, mask=located.old_first[rows] < 0),
        _name_lists(list(names or [column.name for column in table.columns]), unchanged, len(rows)),
    )


def _name_lists(names: list[str], chosen: list[NDArray[np.bool_]], rows: int) -> pa.ListArray:
    """For each row the names of the columns that are chosen in it."""
    row, column = np.nonzero(np.stack(chosen, axis=1) if chosen else np.zeros((rows, 0), np.bool_))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(names, pa.string()).take(pa.array(column)), type=NAMES)


@dataclass(frozen=True)
class _Reader:
    """One call of :func:`typed_columns`."""

    located: Located
    items: Items
    table: TypedTable
    session: SessionSettings
    versions: Sequence[RelationSchema]
    rows: Rows

    @cached_property
    def layout(self) -> NDArray[np.int32]:
        """int32[k] the version of each row."""
        return self.items.layout[self.rows]

    def struct(self, arrays: list[pa.Array], mask: NDArray[np.bool_] | None = None) -> pa.StructArray:
        """Columns as one array."""
        if not arrays:  # a table without columns
            mask = np.zeros(len(self.rows), np.bool_) if mask is None else mask
            return pa.array([None if is_null else {} for is_null in mask], self.table.arrow_struct)
        null = None if mask is None else pa.array(mask)
        return pa.StructArray.from_arrays(arrays, fields=list(self.table.arrow_schema), mask=null)

    def picks(self, column: Column) -> tuple[Rows, Rows, NDArray[np.bool_]]:
        """A column's cell in each row and in each old tuple, -1 for none or NULL; and whether it is unchanged."""
        own = [self.table.column_in(column, version) for version in self.versions]
        place = np.array([-1 if found is None else found.number - 1 for found in own], dtype=np.int64)[self.layout]
        old, new = self.located.old_first[self.rows], self.located.new_first[self.rows]
        before = np.where((old >= 0) & (place >= 0), old + place, -1)
        after = np.where((new >= 0) & (place >= 0), new + place, -1)
        before[self._kinds(before) != TEXT] = -1
        kinds = self._kinds(after)
        is_unchanged = ((kinds == UNCHANGED) & (before < 0)) | (kinds == UNKNOWN)
        fallback = (new < 0) | (kinds == UNCHANGED)
        after = np.where(fallback, before, after)
        after[self._kinds(after) != TEXT] = -1
        return after, before, is_unchanged

    def _kinds(self, picks: Rows) -> NDArray[np.uint8]:
        """Kinds of cells, TEXT for all values, ABSENT for -1."""
        kinds = np.full(len(picks), ABSENT, dtype=np.uint8)
        kinds[picks >= 0] = self.located.cells.kinds[picks[picks >= 0]]
        kinds[kinds == _deform.IN_ARENA] = TEXT
        return kinds

    def array(self, column: Column, picks: Rows) -> pa.Array:
        """A column's values, of whatever versions of the table they are."""
        type = self.table.type_of(column)
        own = [self.table.column_in(column, version) for version in self.versions]
        found = [type if one is None or one is column else self.table.type_of(one) for one in own]
        first: dict[ColumnType, int] = {}
        group = np.array([first.setdefault(one, number) for number, one in enumerate(found)], np.int64)[self.layout]
        numbers = np.unique(group[picks >= 0]).tolist()
        if len(numbers) < 2:
            return self._of_version(column, type, own[numbers[0]] if numbers else None, picks)
        parts = [self._of_version(column, type, own[one], np.where(group == one, picks, -1)) for one in numbers]
        which = np.searchsorted(numbers, np.where(picks >= 0, group, numbers[0]))
        return pa.concat_arrays(parts).take(pa.array(which * len(picks) + np.arange(len(picks))))

    def _of_version(self, column: Column, type: ColumnType, own: Column | None, picks: Rows) -> pa.Array:
        """The same of rows in which the column had a certain type, or of no rows."""
        found = type if own is None or own is column else self.table.type_of(own)
        if found == type or (found.arrow == type.arrow and self._reads(own, column, type)):
            return arrow_array(found, self._values(picks), self._asked(column))
        assert own is not None
        assert own.type is not None
        if not self._reads(own, column, type):
            raise self._misfit(column, type, int(np.argmax(picks >= 0)))
        misfit, where = partial(self._misfit, column, type), self._where(column)
        stored, is_exact = self._values(picks).stored, not pa.types.is_string(type.arrow)
        printed = printed_column(stored, base_type(own.type), self.session, where, exact=is_exact)
        return read_back(printed.view(pa.string()), type, self.table.on_unrepresentable == NULL, where, misfit)

    def _reads(self, own: Column | None, column: Column, type: ColumnType) -> bool:
        """Whether values of another type that the column had can be read as its own."""
        return own is None or pa.types.is_string(type.arrow) or _reads_as(own.type, column.type)

    def _values(self, picks: Rows) -> Values:
        """Where the values of some cells lie."""
        cells, there = self.located.cells, picks >= 0
        at = np.where(there, picks, 0)
        kind = np.full(len(picks), _columns.NONE, np.uint8)
        if len(cells.kinds):
            kind[there] = np.where(cells.kinds[at[there]] == _deform.IN_ARENA, _columns.IN_ARENA, _columns.VALUE)
        start = cells.starts[at] if len(cells.kinds) else np.zeros(len(picks), np.int64)
        length = cells.lengths[at] if len(cells.kinds) else np.zeros(len(picks), np.int32)
        return Values(Stored(kind, start, length, self.located.data, self.located.arena), np.arange(len(picks)))

    def _asked(self, column: Column) -> Asked:
        with_null = self.table.on_unrepresentable == NULL
        return Asked(self.session, with_null, lambda row: self._place(column, row), self._lsn)

    def _where(self, column: Column) -> Callable[[int], tuple[str, int]]:
        return lambda row: (self._place(column, row), self._lsn(row))

    def _misfit(self, column: Column, type: ColumnType, row: int) -> DecodingError:
        """The error of a value that does not fit the column's type."""
        older = self.table.column_in(column, self.versions[self.layout[row]])
        if older is None or older.type is None or (older.type, older.typmod) == (column.type, column.typmod):
            return DecodingError(
                f"a value of {self._place(column, row)} does not fit type {type.name}", lsn=self._lsn(row)
            )
        return DecodingError(
            f"a value of {self._place(column, row)}, whose type was {older.type.display_name}, does not fit type "
            f"{type.name}, which the column has later",
            lsn=self._lsn(row),
            hint="set images to true to read its changes as text, or read the time before apart",
        )

    def _place(self, column: Column, row: int) -> str:
        version = self.versions[self.layout[row]] if len(self.layout) else self.table.schema
        return f'column "{column.name}" of table "{version.namespace}.{version.name}"'

    def _lsn(self, row: int) -> int:
        return int(self.items.lsn[self.rows[row]])


def _reads_as(older: TypeInfo | None, newer: TypeInfo | None) -> bool:
    """Whether a value of the older type, if it fits, prints as the same value of the newer type does."""
    assert older is not None
    assert newer is not None
    old, new = base_type(older).oid, base_type(newer).oid
    return old == new or old in _READ_AS.get(new, ())
