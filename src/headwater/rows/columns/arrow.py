"""Cells made into Arrow columns, for readers that want rows instead of messages.

Two forms: :func:`images`, here, has every change's tuples as maps from column name to text, for any mix of relations;
:mod:`headwater.rows.columns.table_columns` has one column per attribute of a single table. Both work on whole columns.

Invariant: a TOAST value that an update did not write again comes from the old tuple if that was logged whole. If not,
it is distinguished from NULL: its column is named as unchanged.

Known gap: virtual generated columns, which no tuple holds, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.base.arrow_buffers import as_strings, binary_array, bitmap
from headwater.catalog.relation import Column, RelationSchema
from headwater.errors import DecodingError
from headwater.rows.columns import _parse
from headwater.rows.items import LITERAL, NULL, OLD_IS_KEY, TEXT, UNCHANGED, UNKNOWN, Cells, Items

Rows = NDArray[np.int64]

VIRTUAL = "v"
"""``attgenerated`` of a column whose values are not stored."""

NAMES = pa.list_(pa.field("element", pa.string()))
"""The type that Spark calls ARRAY<STRING>."""

IMAGE = pa.map_(pa.string(), pa.string())
"""The type that Spark calls MAP<STRING,STRING>."""


@dataclass(frozen=True)
class Images:
    """The tuples of k changes as maps from column name to text.

    Attributes:
        rows: int64[k] the items.
        before: MAP<STRING,STRING>[k] the old tuple, null where none was logged; of a key only the key's columns.
        after: MAP<STRING,STRING>[k] the new tuple, null for a delete; without the columns of unchanged.
        unchanged: ARRAY<STRING>[k] columns of the new tuple whose value is neither in it nor in the old one.
    """

    rows: Rows
    before: pa.MapArray[Any, Any]
    after: pa.MapArray[Any, Any]
    unchanged: pa.ListArray[Any]


def change_rows(items: Items) -> Rows:
    """Return the indexes of the items that are changes of rows: neither literals nor TOAST chunks."""
    return np.flatnonzero(items.kind < LITERAL)


def old_is_key(old_first: NDArray[np.int64], items: Items, rows: Rows) -> pa.BooleanArray:
    """Tell whether only the key of the old tuple was logged; null where no old tuple was.

    Args:
        old_first: int64[n] the first cell of each old tuple, -1 where there is none.
        items: n of them.
        rows: int64[k] items.
    """
    is_key: pa.BooleanArray = pa.array(items.flags[rows] & OLD_IS_KEY != 0, mask=old_first[rows] < 0)
    return is_key


def no_rows(schema: pa.Schema) -> pa.Table:
    """Make a table without rows, of any columns: of a list of UUIDs, pyarrow (26) makes no ``empty_table``."""
    return pa.table([pa.nulls(0, field.type) for field in schema], schema=schema)


def repeated(value: pa.Array[Any], rows: int) -> pa.Array[Any]:
    """Repeat an array of one value, so often; not a scalar, as pyarrow (26) pickles none that has UUIDs in it."""
    return value.take(np.zeros(rows, np.int64))


def is_shown(column: Column) -> bool:
    """Tell whether rows have the column: it is not dropped, and its values are stored."""
    return not column.is_dropped and column.generated != VIRTUAL


def images(cells: Cells, items: Items, schemas: Sequence[RelationSchema], rows: Rows | None = None) -> Images:
    """Make before and after images of changes, of any relations.

    Args:
        cells: the cells that ``render`` made of the items.
        items: the items.
        schemas: the relation versions that the items refer to.
        rows: int64[k] items to show, None for all changes.

    Raises:
        DecodingError: text is not UTF-8, or longer than 2 GB altogether.
    """
    rows = change_rows(items) if rows is None else rows
    columns = [column for schema in schemas for column in schema.columns]
    names = pa.array([column.name for column in columns], pa.string())
    shown = np.array([is_shown(column) for column in columns], dtype=np.bool_)
    layout = items.layout[rows]
    natts = np.array([len(schema.columns) for schema in schemas], dtype=np.int64)
    base = (np.cumsum(natts) - natts)[layout]
    is_key = items.flags[rows] & OLD_IS_KEY != 0
    before = _spread(cells, cells.old_first[rows], base, natts[layout])
    after = _spread(cells, cells.new_first[rows], base, natts[layout]).completed(cells, cells.old_first[rows])
    known = (before.kinds == TEXT) | ((before.kinds == NULL) & ~is_key[before.row])
    stored = (after.kinds == TEXT) | (after.kinds == NULL)
    return Images(
        rows,
        _maps(cells, before, known & shown[before.column], names),
        _maps(cells, after, stored & shown[after.column], names),
        _name_lists(after, (after.kinds == UNCHANGED) | (after.kinds == UNKNOWN), names),
    )


@dataclass(frozen=True)
class _Spread:
    """The c cells of k tuples, one after the other.

    Attributes:
        missing: bool[k] there is no tuple.
        row: int64[c] the tuple; column: int64[c] index of the column in all names.
        picks: int64[c] the cell; kinds: uint8[c] its kind.
        within: int64[c] place in its tuple.
    """

    missing: NDArray[np.bool_]
    row: Rows
    column: Rows
    picks: Rows
    kinds: NDArray[np.uint8]
    within: Rows

    def completed(self, cells: Cells, old_first: Rows) -> _Spread:
        """Return the cells with the old tuple's values where these are unchanged.

        Args:
            cells: the cells.
            old_first: int64[k] the first cell of each old tuple, -1 none.
        """
        at = np.flatnonzero((self.kinds == UNCHANGED) & (old_first[self.row] >= 0))
        old = old_first[self.row[at]] + self.within[at]
        has_value = cells.kind[old] == TEXT
        picks, kinds = self.picks.copy(), self.kinds.copy()
        picks[at[has_value]], kinds[at[has_value]] = old[has_value], TEXT
        return _Spread(self.missing, self.row, self.column, picks, kinds, self.within)

    def offsets(self, keep: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Return where each tuple's kept cells begin: int32[k+1]."""
        counts = np.bincount(self.row[keep], minlength=len(self.missing))
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def _spread(cells: Cells, first: Rows, base: Rows, natts: Rows) -> _Spread:
    """Take tuples apart.

    Args:
        cells: the cells.
        first: int64[k] each tuple's first cell, -1 none.
        base: int64[k] index of its first column in all names.
        natts: int64[k] its attributes.
    """
    counts = np.where(first >= 0, natts, 0)
    row = np.repeat(np.arange(len(first)), counts)
    within = np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
    picks = first[row] + within
    return _Spread(first < 0, row, base[row] + within, picks, cells.kind[picks], within)


def _maps(cells: Cells, spread: _Spread, keep: NDArray[np.bool_], names: pa.StringArray) -> pa.MapArray[Any, Any]:
    """Make one map per tuple of the cells to keep; null where there is no tuple."""
    keys = names.take(spread.column[keep])
    values = texts(cells, np.where(spread.kinds == TEXT, spread.picks, -1)[keep], lambda _: "an image")
    missing = np.append(spread.missing, False)
    offsets = pa.array(spread.offsets(keep), mask=missing)
    # The stubs lack a type beside keys and items.
    maps: pa.MapArray[Any, Any] = pa.MapArray.from_arrays(offsets, keys, values, IMAGE)  # type: ignore[call-overload]
    return maps


def _name_lists(spread: _Spread, keep: NDArray[np.bool_], names: pa.StringArray) -> pa.ListArray[Any]:
    """List the names of the cells to keep, one list per tuple."""
    return pa.ListArray.from_arrays(
        pa.array(spread.offsets(keep), pa.int32()), names.take(spread.column[keep]), type=NAMES
    )


Place = Callable[[int], str]
"""The name of a pick in an error."""


def values(form: int, cells: Cells, picks: Rows, place: Place) -> pa.BinaryArray:
    """Read values that a kernel writes one after the other: TEXTS or BYTEA of ``_parse``.

    Args:
        form: TEXTS or BYTEA.
        cells: the cells.
        picks: int64[k] the cells to read, -1 for null.
        place: names them.

    Raises:
        DecodingError: a value cannot be read, or all together are longer than 2 GB.
    """
    out = np.empty(int(cells.length[picks[picks >= 0]].sum(dtype=np.int64)), dtype=np.uint8)
    offsets = np.empty(len(picks) + 1, dtype=np.int64)
    stopped = _parse.parse_values(form, cells.text, cells.start, cells.length, picks, out, offsets)
    if stopped != _parse.DONE:
        raise DecodingError(f"malformed text of {place(int(stopped))}")
    if offsets[-1] > np.iinfo(np.int32).max:
        raise DecodingError(
            f"{place(0)} has more than 2 GB of values in one slice", hint="make slices smaller with partitionBytes"
        )
    return binary_array(bitmap(picks >= 0), offsets.astype(np.int32), out)


def texts(cells: Cells, picks: Rows, place: Place) -> pa.StringArray:
    """Read the texts themselves, if all of them are UTF-8.

    Raises:
        DecodingError: one is not, or all together are longer than 2 GB.
    """
    strings = as_strings(values(_parse.TEXTS, cells, picks, place))
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        at = first_refused(strings, lambda part: part.validate(full=True))
        hint = "images and typed columns need a database whose encoding is UTF8"
        raise DecodingError(f"text of {place(at)} is not valid UTF-8", hint=hint) from None
    return strings


def first_refused(array: pa.Array[Any], check: Callable[[pa.Array[Any]], object]) -> int:
    """Find the first element that a check, which refuses the whole array, raises ArrowInvalid for: its index."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            check(array.slice(low, middle - low))
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low
