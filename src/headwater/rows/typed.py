"""The columns of one table, typed, from the cells of its changes.

Columns are those of the table as of one place in the log, most often the end of a window; tuples may be of any earlier
version of it, or of another relation that bore its name. A column of the same relation is known by its attnum, so
renaming it or moving others about does not matter; of another relation it is known by its name.

What Spark's type cannot hold (see :data:`REASONS`) is, as :class:`TypedTable` is told, an error or null, or the columns
of the types that have such values are text altogether. A value of an older type is read as the newer one where every
value that both hold prints alike (:func:`_reads_as`); anything else is an error. Errors tell table, column and LSN,
never the value.

Known gaps: arrays, composites, ranges, intervals, times and numerics without a precision stay text; a domain over
numeric(p,s) too, as the precision belongs to the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.errors import DecodingError
from headwater.rows import _parse
from headwater.rows.arrow import NAMES, Rows, change_rows, first_refused, is_shown, kinds_of, texts, values
from headwater.rows.items import TEXT, UNCHANGED, UNKNOWN, Cells, Items
from headwater.rows.text_tables import base_type
from headwater.rows.type_forms import STRING as STRING_FORM
from headwater.rows.type_forms import arrow_form

ERROR, NULL, STRING = "error", "null", "string"
ON_UNREPRESENTABLE = (ERROR, NULL, STRING)
"""What is done with a value that Spark's type cannot hold."""

REASONS = {
    _parse.INFINITE: "infinity",
    _parse.BEFORE_YEAR_1: "a date before the year 1",
    _parse.AFTER_YEAR_9999: "a date after the year 9999",
}
"""What dates and times may hold and Spark's cannot; numerics may hold NaN, and without a precision infinity."""

_NUMERIC = 1700
_OF_LIMITED_RANGE = frozenset({1082, 1114, 1184})

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
        on_unrepresentable: one of :data:`ON_UNREPRESENTABLE`.
    """

    schema: RelationSchema
    on_unrepresentable: str = ERROR

    @property
    def columns(self) -> list[Column]:
        """The columns that are shown."""
        return [column for column in self.schema.columns if is_shown(column)]

    @property
    def arrow_schema(self) -> pa.Schema:
        """Names and types of :func:`typed_columns`."""
        return pa.schema([(column.name, self.type_of(column)[0]) for column in self.columns])

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
        return f"`{column.name.replace('`', '``')}`{between}{self.type_of(column)[1]}"

    def type_of(self, column: Column) -> tuple[pa.DataType, str]:
        """A column's type in Arrow and in Spark."""
        assert column.type is not None
        base = base_type(column.type)
        limited = base.oid in _OF_LIMITED_RANGE
        if base.oid == _NUMERIC and column.type.base is None and column.typmod >= 4:
            # numeric_typmod_precision, numeric_typmod_scale (utils/adt/numeric.c).
            precision = (column.typmod - 4) >> 16 & 0xFFFF
            scale = ((column.typmod - 4 & 0x7FF) ^ 1024) - 1024
            limited = 0 <= scale <= precision <= 38
            if limited and self.on_unrepresentable != STRING:
                return pa.decimal128(precision, scale), f"DECIMAL({precision},{scale})"
        form = STRING_FORM if limited and self.on_unrepresentable == STRING else arrow_form(base)
        return form.type, form.spark

    def exact_columns(self, version: RelationSchema) -> frozenset[int]:
        """Numbers of the columns of a version whose text :func:`typed_columns` reads back: those not shown as text."""
        kept = [column for column in self.columns if not pa.types.is_string(self.type_of(column)[0])]
        found = [self.column_in(column, version) for column in kept]
        return frozenset(column.number for column in found if column is not None)

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
    cells: Cells,
    items: Items,
    table: TypedTable,
    *,
    schemas: Sequence[RelationSchema] | None = None,
    rows: Rows | None = None,
) -> TypedRows:
    """The tuples of one table's changes as typed columns, one per shown column of its schema.

    Args:
        cells: what ``render`` made of the items; columns of :meth:`TypedTable.exact_columns` printed as such.
        items: the items.
        table: the table as its columns are wanted.
        schemas: the versions of the table that the items refer to, if not all are of table's own schema.
        rows: int64[k] items to show, None for all changes.

    Raises:
        DecodingError: a value does not fit its type; text is not UTF-8, or longer than 2 GB in one column.
    """
    rows = change_rows(items) if rows is None else rows
    versions = schemas if schemas is not None else [table.schema] * (int(items.layout[rows].max(initial=0)) + 1)
    reader = _Reader(cells, items, table, versions, rows)
    new, old, unchanged = [], [], []
    for column in table.columns:
        after, before, is_unchanged = reader.picks(column)
        new.append(reader.array(column, after))
        old.append(reader.array(column, before))
        unchanged.append(is_unchanged)
    return TypedRows(
        pa.RecordBatch.from_struct_array(reader.struct(new)),
        reader.struct(old, mask=cells.old_first[rows] < 0),
        _name_lists([column.name for column in table.columns], unchanged, len(rows)),
    )


def _name_lists(names: list[str], chosen: list[NDArray[np.bool_]], rows: int) -> pa.ListArray:
    """For each row the names of the columns that are chosen in it."""
    row, column = np.nonzero(np.stack(chosen, axis=1) if chosen else np.zeros((rows, 0), np.bool_))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(names, pa.string()).take(pa.array(column)), type=NAMES)


@dataclass(frozen=True)
class _Reader:
    """One call of :func:`typed_columns`."""

    cells: Cells
    items: Items
    table: TypedTable
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
        old, new = self.cells.old_first[self.rows], self.cells.new_first[self.rows]
        before = np.where((old >= 0) & (place >= 0), old + place, -1)
        after = np.where((new >= 0) & (place >= 0), new + place, -1)
        before[kinds_of(self.cells, before) != TEXT] = -1
        kinds = kinds_of(self.cells, after)
        is_unchanged = ((kinds == UNCHANGED) & (before < 0)) | (kinds == UNKNOWN)
        fallback = (new < 0) | (kinds == UNCHANGED)
        after = np.where(fallback, before, after)
        after[kinds_of(self.cells, after) != TEXT] = -1
        return after, before, is_unchanged

    def array(self, column: Column, picks: Rows) -> pa.Array:
        """A column's values."""
        self._check_types(column, picks)
        type = self.table.type_of(column)[0]

        def place(row: int) -> str:
            return self._place(column, row)

        if pa.types.is_string(type):
            return texts(self.cells, picks, place)
        if pa.types.is_binary(type):
            return values(_parse.BYTEA, self.cells, picks, place)
        if pa.types.is_integer(type):
            return self._cast(column, self._numbers(column, _parse.INTEGERS, picks, np.int64), type)
        if pa.types.is_date32(type):
            return self._numbers(column, _parse.DATES, picks, np.int32).view(type)
        if pa.types.is_timestamp(type):
            return self._numbers(column, _parse.TIMESTAMPS, picks, np.int64).view(type)
        found = texts(self.cells, picks, place)
        if pa.types.is_boolean(type):
            return pc.equal(found, "t")
        return self._cast(column, self._finite(column, found) if pa.types.is_decimal(type) else found, type)

    def _numbers(self, column: Column, form: int, picks: Rows, dtype: type[np.int32] | type[np.int64]) -> pa.Array:
        out, fits = np.empty(len(picks), dtype=dtype), np.empty(len(picks), dtype=np.uint8)
        cells, is_null = self.cells, picks < 0
        if _parse.parse_numbers(form, cells.text, cells.start, cells.length, picks, out, fits):
            unreadable = np.flatnonzero(fits == _parse.UNREADABLE)
            if len(unreadable):
                raise self._misfit(column, int(unreadable[0]))
            first = int(np.flatnonzero(fits)[0])
            self._require_null(column, first, REASONS[int(fits[first])])
            is_null |= fits != _parse.FITS
        return pa.array(out, mask=is_null)

    def _finite(self, column: Column, found: pa.StringArray) -> pa.StringArray:
        """Numerics without those that no decimal can hold."""
        special = pc.is_in(found, pa.array(["NaN", "Infinity", "-Infinity"]))
        if not pc.any(special).as_py():
            return found
        first = pc.index(special, True).as_py()
        self._require_null(column, first, "NaN" if found[first].as_py() == "NaN" else "infinity")
        return pc.if_else(special, None, found)

    def _cast(self, column: Column, found: pa.Array, type: pa.DataType) -> pa.Array:
        try:
            return found.cast(type)
        except pa.ArrowInvalid:
            raise self._misfit(column, first_refused(found, lambda part: part.cast(type))) from None

    def _check_types(self, column: Column, picks: Rows) -> None:
        """Refuse values of an older type that cannot be read as the column's."""
        wrong = np.array([not self._reads(column, version) for version in self.versions], np.bool_)
        if not wrong.any():
            return
        bad = np.flatnonzero(wrong[self.layout] & (picks >= 0))
        if len(bad):
            raise self._misfit(column, int(bad[0]))

    def _reads(self, column: Column, version: RelationSchema) -> bool:
        older = self.table.column_in(column, version)
        if older is None or pa.types.is_string(self.table.type_of(column)[0]):
            return True
        return _reads_as(older.type, column.type)

    def _require_null(self, column: Column, row: int, reason: str) -> None:
        """Whether what Spark cannot hold becomes null is the user's choice."""
        if self.table.on_unrepresentable == NULL:
            return
        raise DecodingError(
            f"{self._place(column, row)} holds {reason}, which {self.table.type_of(column)[1]} cannot hold",
            lsn=self._lsn(row),
            hint='set onUnrepresentable to "null", or to "string" for text',
        )

    def _misfit(self, column: Column, row: int) -> DecodingError:
        """The error of a value that does not fit the column's type."""
        name = self.table.type_of(column)[1]
        older = self.table.column_in(column, self.versions[self.layout[row]])
        if older is None or older.type is None or (older.type, older.typmod) == (column.type, column.typmod):
            return DecodingError(f"a value of {self._place(column, row)} does not fit type {name}", lsn=self._lsn(row))
        return DecodingError(
            f"a value of {self._place(column, row)}, whose type was {older.type.display_name}, does not fit type "
            f"{name}, which the column has later",
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
