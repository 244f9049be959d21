"""The columns of one table, typed, from the tuples of its changes.

Columns are those of the table as of one place in the log, most often the end of a window; tuples may be of any earlier
version of it, or of another relation that bore its name. A column of the same relation is known by its attnum, so
renaming it or moving others about does not matter; of another relation it is known by its name.

Values go into columns as they are stored (:mod:`headwater.rows.columns.columns`). A value that a column cannot hold is
an error or null, as :class:`TypedTable` says; or the columns of the types that have such values are text altogether. A
value of an older type is printed, and read as the newer one, where every value that both hold prints alike
(:func:`_reads_as`). A real becomes a double precision as PostgreSQL casts it; anything else is an error. Errors name
table, column and LSN, never the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.base.arrow_buffers import as_strings
from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.errors import DecodingError
from headwater.option_names import option, ways
from headwater.rmgr.heap_layout import MOST_TUPLES
from headwater.rows.columns._column_cells import Picks, Tuples, pick_new, pick_old
from headwater.rows.columns._columns import NONE, Stored
from headwater.rows.columns.arrow import NAMES, Rows, change_rows, is_shown
from headwater.rows.columns.column_masks import ColumnMask
from headwater.rows.columns.column_types import (
    ERROR,
    NULL,
    SPARK,
    STRING,
    ColumnType,
    Form,
    Target,
    column_type,
    text_type,
)
from headwater.rows.columns.columns import Asked, Values, arrow_array
from headwater.rows.columns.parsed_columns import read_back
from headwater.rows.columns.printed_columns import printed_array
from headwater.rows.columns.text_columns import printed_column
from headwater.rows.items import Items
from headwater.rows.session import SessionSettings
from headwater.rows.text_tables import base_type
from headwater.rows.tuples.render import Located, PrintedTuples

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
        on_unrepresentable: one of :data:`~headwater.rows.columns.column_types.ON_UNREPRESENTABLE`.
        target: the purpose of the columns.
        money_decimals: digits after the point of an amount of money; None for text.
        without: numbers of columns that are left out; masks: of columns, by their numbers.
    """

    schema: RelationSchema
    on_unrepresentable: str = ERROR
    target: Target = SPARK
    money_decimals: int | None = None
    without: frozenset[int] = frozenset()
    masks: tuple[tuple[int, ColumnMask], ...] = ()

    @property
    def columns(self) -> list[Column]:
        """The columns that are shown."""
        return [column for column in self.schema.columns if is_shown(column) and column.number not in self.without]

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
        """Return a column's type; one that is masked is text."""
        return self.type_in(column, column) if self.mask_of(column) is None else text_type(column, self.target)

    def mask_of(self, column: Column) -> ColumnMask | None:
        """Return the mask of a column of the table; None for none."""
        return next((mask for number, mask in self.masks if number == column.number), None)

    def type_in(self, column: Column, older: Column) -> ColumnType:
        """Return the type that values of a column are read as, which of one that is masked is text.

        Args:
            column: of the table; older: that holds its values in tuples of a version.
        """
        if self.mask_of(column) is not None:
            return text_type(older, self.target)
        return column_type(older, self.target, self.on_unrepresentable, self.money_decimals)

    def masked(self, column: Column, values: pa.Array[Any]) -> pa.Array[Any]:
        """Return values of a column, which were read by :meth:`type_in`, as they are shown."""
        mask = self.mask_of(column)
        assert column.type is not None
        return values if mask is None else mask.masked(cast("pa.StringArray", values), base_type(column.type).oid)

    def column_in(self, column: Column, version: RelationSchema) -> Column | None:
        """Find the column that holds a column's values in tuples of a version of the table, or of another relation."""
        if version.oid != self.schema.oid:
            return next((c for c in version.columns if c.name == column.name and is_shown(c)), None)
        candidate = version.columns[column.number - 1] if column.number <= len(version.columns) else None
        return candidate if candidate is not None and is_shown(candidate) else None


@dataclass(frozen=True)
class TypedRows:
    """The k changes of one table, typed.

    Attributes:
        rows: the new tuples, or of deletes the old ones, one column per attribute.
        has_old: bool[k] changes of which an old tuple was logged.
        old: the old tuples, one row for each that was logged; of a key only the key's columns have values.
        unchanged: ARRAY<STRING>[k] columns of the new tuple whose value is neither in it nor in the old one.
    """

    rows: pa.RecordBatch
    has_old: NDArray[np.bool_]
    old: pa.StructArray
    unchanged: pa.ListArray[Any]

    @property
    def before(self) -> pa.StructArray:
        """STRUCT[k] the old tuples, null where none was logged."""
        if self.has_old.all():
            return self.old
        return self.old.take(pa.array(np.cumsum(self.has_old) - 1, mask=~self.has_old))


def typed_columns(
    located: Located,
    items: Items,
    table: TypedTable,
    session: SessionSettings,
    *,
    schemas: Sequence[RelationSchema] | None = None,
    rows: Rows | None = None,
    names: Sequence[str] | None = None,
    ctids: Rows | None = None,
    replaced: Mapping[int, NDArray[np.bool_]] | None = None,
) -> TypedRows:
    """Make typed columns of the tuples of one table's changes, one per shown column of its schema.

    Args:
        located: where the values of the items' tuples lie.
        items: the items.
        table: the table as its columns are wanted.
        session: settings that text is printed under.
        schemas: the versions of the table that the items refer to, if not all are of table's own schema.
        rows: int64[k] items to show, None for all changes.
        names: the columns' names among those that are unchanged, None for their own names.
        replaced: bool[k] by the number of a column: rows that do not stay, whose values of an older type are null.
        ctids: int64[k] where rows lie that are no changes, as ``_seq`` has it; errors say it, as one LSN is theirs.

    Raises:
        DecodingError: a value does not fit its type; text is not UTF-8, or longer than 2 GB in one column.
        RecordError: a value is malformed.
        UnsupportedTypeError: a value's type has no text form, and the session takes none.
    """
    rows = change_rows(items) if rows is None else rows
    versions = schemas if schemas is not None else [table.schema] * (int(items.layout[rows].max(initial=0)) + 1)
    reader = _Reader(located, items, table, session, versions, rows, ctids, replaced or {})
    new, unchanged = [], {}
    for column, name in zip(table.columns, names or [column.name for column in table.columns], strict=True):
        picks, unknown = reader.new(column)
        new.append(reader.array(column, picks))
        if unknown:
            unchanged[name] = picks.unchanged
    has_old: NDArray[np.bool_] = located.old_first[rows] >= 0
    before = replace(
        reader, rows=rows[has_old], replaced={number: is_lost[has_old] for number, is_lost in reader.replaced.items()}
    )
    return TypedRows(
        pa.RecordBatch.from_struct_array(reader.struct(new)),
        has_old,
        before.struct([before.array(column, before.old(column)) for column in table.columns]),
        _name_lists(unchanged, len(rows)),
    )


def _name_lists(chosen: dict[str, NDArray[np.bool_]], rows: int) -> pa.ListArray[Any]:
    """List for each row the names of the columns that are chosen in it."""
    names = list(chosen)
    row, column = np.nonzero(np.stack(list(chosen.values()), axis=1) if names else np.zeros((rows, 0), np.bool_))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int32)
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(names, pa.string()).take(column), type=NAMES
    )


@dataclass(frozen=True)
class _Reader:
    """One call of :func:`typed_columns`."""

    located: Located
    items: Items
    table: TypedTable
    session: SessionSettings
    versions: Sequence[RelationSchema]
    rows: Rows
    ctids: Rows | None = None
    replaced: Mapping[int, NDArray[np.bool_]] = field(default_factory=dict)

    @cached_property
    def layout(self) -> NDArray[np.int32]:
        """int32[k] the version of each row."""
        return self.items.layout[self.rows]

    @cached_property
    def tuples(self) -> Tuples:
        """The rows' tuples, for kernels."""
        located, cells = self.located, self.located.cells
        first = located.new_first[self.rows], located.old_first[self.rows]
        return Tuples(*first, self.layout, cells.kinds, cells.starts, cells.lengths)

    @cached_property
    def numbers(self) -> Rows:
        """int64[k] of the rows."""
        return np.arange(len(self.rows))

    def struct(self, arrays: list[pa.Array[Any]]) -> pa.StructArray:
        """Join columns to one array."""
        if not arrays:  # a table without columns
            return cast("pa.StructArray", pa.array([{}] * len(self.rows), self.table.arrow_struct))
        return pa.StructArray.from_arrays(arrays, fields=list(self.table.arrow_schema))

    def new(self, column: Column) -> tuple[Picks, int]:
        """Find a column's values in the rows' new tuples, or else their old ones; and count how many are unchanged."""
        picks = self._room()
        return picks, int(pick_new(self.tuples, self._place_in_tuples(column), picks))

    def old(self, column: Column) -> Picks:
        """Find a column's values in the rows' old tuples."""
        picks = self._room()
        pick_old(self.tuples, self._place_in_tuples(column), picks)
        return picks

    def _room(self) -> Picks:
        rows = len(self.rows)
        return Picks(np.empty(rows, np.uint8), np.empty(rows, np.int64), np.empty(rows, np.int32), np.empty(rows, bool))

    def _place_in_tuples(self, column: Column) -> NDArray[np.int64]:
        """Return the number of a column's cell in tuples of each version, -1 for none: int64[v]."""
        columns = [self.table.column_in(column, version) for version in self.versions]
        return np.array(
            [-1 if version_column is None else version_column.number - 1 for version_column in columns], dtype=np.int64
        )

    def array(self, column: Column, picks: Picks) -> pa.Array[Any]:
        """Read a column's values, of whatever versions of the table they are."""
        return self.table.masked(column, self._unmasked(column, picks))

    def _unmasked(self, column: Column, picks: Picks) -> pa.Array[Any]:
        type = self.table.type_in(column, column)
        columns = [self.table.column_in(column, version) for version in self.versions]
        types = [type if older is None or older is column else self.table.type_in(column, older) for older in columns]
        if all(older_type == type for older_type in types):
            return self._read(type, picks, column)
        if column.number in self.replaced:
            is_older = np.array([older_type != type for older_type in types])[self.layout]
            lost = self.replaced[column.number] & is_older
            picks = picks._replace(kind=np.where(lost, NONE, picks.kind).astype(np.uint8))
        first: dict[ColumnType, int] = {}
        group = np.array([first.setdefault(older_type, number) for number, older_type in enumerate(types)], np.int64)[
            self.layout
        ]
        is_there = picks.kind != NONE
        numbers = np.unique(group[is_there]).tolist()
        if len(numbers) < 2:
            return self._of_version(column, type, columns[numbers[0]] if numbers else None, picks)
        kinds = [np.where(group == leader, picks.kind, NONE).astype(np.uint8) for leader in numbers]
        parts = [
            self._of_version(column, type, columns[leader], picks._replace(kind=kind))
            for leader, kind in zip(numbers, kinds, strict=True)
        ]
        which = np.searchsorted(numbers, np.where(is_there, group, numbers[0]))
        return pa.concat_arrays(parts).take(which * len(self.rows) + self.numbers)

    def _of_version(self, column: Column, type: ColumnType, source: Column | None, picks: Picks) -> pa.Array[Any]:
        """Read the values of rows in which the column had a certain type, or of no rows."""
        source_type = type if source is None or source is column else self.table.type_in(column, source)
        if source_type == type or (source_type.arrow == type.arrow and self._reads(source, column, type)):
            return self._read(source_type, picks, column)
        assert source is not None
        assert source.type is not None
        if source_type.arrow == pa.float32() and type.arrow == pa.float64():
            return self._read(source_type, picks, column).cast(type.arrow)
        # No text is read as a struct or a list: a composite type has other attributes now, an array other elements.
        if pa.types.is_nested(type.arrow) or not self._reads(source, column, type):
            raise self._misfit(column, type, int(np.argmax(picks.kind != NONE)))
        misfit, where = partial(self._misfit, column, type), self._where(column)
        if type.is_text:
            older = replace(type, form=Form.PRINTED, type=base_type(source.type))
            return self._read(older, picks, column)
        if isinstance(self.located, PrintedTuples):
            printed = self._texts(picks, type, column)
        else:
            stored, is_exact = self._values(picks).stored, not pa.types.is_string(type.arrow)
            printed = printed_column(stored, base_type(source.type), self.session, where, exact=is_exact)
        return read_back(as_strings(printed), type, self.table.on_unrepresentable == NULL, where, misfit)

    def _read(self, type: ColumnType, picks: Picks, column: Column) -> pa.Array[Any]:
        """Read values of one type, as they are stored or printed."""
        if isinstance(self.located, PrintedTuples):
            return printed_array(type, self._texts(picks, type, column), self.numbers, self._asked(column))
        return arrow_array(type, self._values(picks), self._asked(column))

    def _texts(self, picks: Picks, type: ColumnType, column: Column) -> pa.BinaryArray:
        """Return values that are text already."""
        as_bytes = replace(type, form=Form.BYTES, arrow=pa.binary())
        return cast("pa.BinaryArray", arrow_array(as_bytes, self._values(picks), self._asked(column)))

    def _reads(self, source: Column | None, column: Column, type: ColumnType) -> bool:
        """Tell whether values of another type that the column had can be read as its own."""
        return source is None or type.is_text or pa.types.is_string(type.arrow) or _reads_as(source.type, column.type)

    def _values(self, picks: Picks) -> Values:
        kind, start, length, _ = picks
        return Values(Stored(kind, start, length, self.located.data, self.located.arena), self.numbers)

    def _asked(self, column: Column) -> Asked:
        with_null = self.table.on_unrepresentable == NULL
        with_escapes = self.table.on_unrepresentable == STRING
        return Asked(self.session, with_null, lambda row: self._place(column, row), self._lsn, with_escapes)

    def _where(self, column: Column) -> Callable[[int], tuple[str, int]]:
        return lambda row: (self._place(column, row), self._lsn(row))

    def _misfit(self, column: Column, type: ColumnType, row: int) -> DecodingError:
        """Return the error of a value that does not fit the column's type."""
        older = self.table.column_in(column, self.versions[self.layout[row]])
        if older is None or older.type is None or (older.type, older.typmod) == (column.type, column.typmod):
            return DecodingError(
                f"a value of {self._place(column, row)} does not fit type {type.name}", lsn=self._lsn(row)
            )
        return DecodingError(
            f"a value of {self._place(column, row)}, whose type was {older.type.display_name}, does not fit type "
            f"{type.name}, which the column has later",
            lsn=self._lsn(row),
            hint=ways(
                f"end the window before that with {option('end')}, and go on from there",
                f"set {option('images', 'true')} to read its changes as text",
            ),
        )

    def _place(self, column: Column, row: int) -> str:
        version = self.versions[self.layout[row]] if len(self.layout) else self.table.schema
        place = f'column "{column.name}" of table "{version.namespace}.{version.name}"'
        if self.ctids is None:
            return place
        block, line = divmod(int(self.ctids[row]), MOST_TUPLES)
        return f"{place}, in the row of ctid ({block},{line})"

    def _lsn(self, row: int) -> int:
        return int(self.items.lsn[self.rows[row]])


def _reads_as(older: TypeInfo | None, newer: TypeInfo | None) -> bool:
    """Tell whether a value of the older type, if it fits, prints as the same value of the newer type does."""
    assert older is not None
    assert newer is not None
    old, new = base_type(older).oid, base_type(newer).oid
    return old == new or old in _READ_AS.get(new, ())
