"""Cells into Arrow columns, for readers that want rows instead of messages.

Two forms: :func:`images`, every change's tuples as maps from column name to text, for any mix of relations; and
:func:`typed_columns`, one column per attribute of a single table. Both work on whole columns.

The text is the server's, so what Arrow has no value for is told here: infinite dates and timestamps become the ends of
what Spark shows (see ``_parse``), NaN in a numeric(p,s) becomes null, a TOAST value that was not written again is null
unless the old tuple holds it.

Known gaps: arrays, composites, ranges, intervals, times and numerics without a precision stay text; a domain over
numeric(p,s) too, as the precision belongs to the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.catalog.relation import Column, RelationSchema
from headwater.errors import DecodingError
from headwater.rows import _parse
from headwater.rows.items import ABSENT, LITERAL, NULL, OLD_IS_KEY, TEXT, UNCHANGED, Cells, Items

Rows = NDArray[np.int64]

# Types by OID (pg_type.dat): Arrow type, Spark's name of it.
_TYPES: dict[int, tuple[pa.DataType, str]] = {
    16: (pa.bool_(), "BOOLEAN"),
    17: (pa.binary(), "BINARY"),
    20: (pa.int64(), "BIGINT"),
    21: (pa.int16(), "SMALLINT"),
    23: (pa.int32(), "INT"),
    700: (pa.float32(), "FLOAT"),
    701: (pa.float64(), "DOUBLE"),
    1082: (pa.date32(), "DATE"),
    1114: (pa.timestamp("us"), "TIMESTAMP_NTZ"),
    1184: (pa.timestamp("us", tz="UTC"), "TIMESTAMP"),
}
_NUMERIC = 1700
_STRING = (pa.string(), "STRING")
_MAP = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True)
class Images:
    """The tuples of k changes as maps from column name to text.

    Attributes:
        rows: int64[k] the items.
        before: MAP<STRING,STRING>[k] the old tuple, null where none was logged; of a key only the key's columns.
        after: MAP<STRING,STRING>[k] the new tuple, null for a delete; without TOAST values not written again.
    """

    rows: Rows
    before: pa.MapArray
    after: pa.MapArray


def change_rows(items: Items) -> Rows:
    """Indexes of the items that are changes of rows: neither literals nor TOAST chunks."""
    return np.flatnonzero(items.kind < LITERAL)


def images(cells: Cells, items: Items, schemas: Sequence[RelationSchema], rows: Rows | None = None) -> Images:
    """Before and after images of changes, of any relations.

    Args:
        cells: what ``render`` made of the items.
        items: the items.
        schemas: the relation versions that the items refer to.
        rows: int64[k] items to show, None for all changes.

    Raises:
        DecodingError: text is not UTF-8, or longer than 2 GB altogether.
    """
    rows = change_rows(items) if rows is None else rows
    names = pa.array([column.name for schema in schemas for column in schema.columns], pa.string())
    layout = items.layout[rows]
    natts = np.array([len(schema.columns) for schema in schemas], dtype=np.int64)
    base = np.cumsum(natts) - natts
    is_key = items.flags[rows] & OLD_IS_KEY != 0
    tuples = (base[layout], natts[layout])
    before = _maps(cells, cells.old_first[rows], *tuples, names, is_key)
    after = _maps(cells, cells.new_first[rows], *tuples, names, np.zeros(len(rows), dtype=np.bool_))
    return Images(rows, before, after)


def typed_columns(
    cells: Cells,
    items: Items,
    schema: RelationSchema,
    *,
    schemas: Sequence[RelationSchema] | None = None,
    rows: Rows | None = None,
    old: bool = False,
) -> pa.RecordBatch:
    """The tuples of one table's changes as typed columns, one per live column of its schema.

    Args:
        cells: what ``render`` made of the items.
        items: the items.
        schema: the table as its columns are wanted.
        schemas: the versions of the table that the items refer to, if not all are of schema itself.
        rows: int64[k] items to show, None for all changes.
        old: show old tuples (all null where none was logged) instead of new ones (old ones for deletes).

    Raises:
        DecodingError: a value does not fit its Arrow type; text is not UTF-8, or longer than 2 GB in one column.
    """
    rows = change_rows(items) if rows is None else rows
    before, after = cells.old_first[rows], cells.new_first[rows]
    first = before if old else np.where(after >= 0, after, before)
    natts = _attribute_counts(items.layout[rows], schemas or [schema] * (int(items.layout[rows].max(initial=0)) + 1))
    arrays = []
    for column in _live(schema):
        picks = _picks(first, natts, column)
        fallback = _picks(before, natts, column)
        picks = np.where(_kinds(cells, picks) == UNCHANGED, fallback, picks)
        picks[_kinds(cells, picks) != TEXT] = -1
        arrays.append(_column_array(cells, picks, column))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))


def arrow_schema(schema: RelationSchema) -> pa.Schema:
    """Names and types of :func:`typed_columns`."""
    return pa.schema([(column.name, _type_of(column)[0]) for column in _live(schema)])


def spark_schema(schema: RelationSchema) -> str:
    """The same as a Spark DDL string, e.g. ```id` INT, `total` DECIMAL(10,2)``."""
    quoted = [(column.name.replace("`", "``"), _type_of(column)[1]) for column in _live(schema)]
    return ", ".join(f"`{name}` {type}" for name, type in quoted)


def _live(schema: RelationSchema) -> list[Column]:
    return [column for column in schema.columns if not column.is_dropped]


def _type_of(column: Column) -> tuple[pa.DataType, str]:
    """A column's Arrow type and its name in Spark."""
    assert column.type is not None
    base = column.type.base or column.type
    if base.oid == _NUMERIC and column.type.base is None and column.typmod >= 4:
        # numeric_typmod_precision, numeric_typmod_scale (utils/adt/numeric.c).
        precision = (column.typmod - 4) >> 16 & 0xFFFF
        scale = ((column.typmod - 4 & 0x7FF) ^ 1024) - 1024
        if 0 <= scale <= precision <= 38:
            return pa.decimal128(precision, scale), f"DECIMAL({precision},{scale})"
    return _TYPES.get(base.oid, _STRING)


def _attribute_counts(layout: NDArray[np.int32], schemas: Sequence[RelationSchema]) -> Rows:
    """Number of attributes of each row's tuples."""
    return np.array([len(schema.columns) for schema in schemas], dtype=np.int64)[layout]


def _picks(first: Rows, natts: Rows, column: Column) -> Rows:
    """A column's cell of each tuple, -1 where there is none."""
    return np.where((first >= 0) & (column.number <= natts), first + (column.number - 1), -1)


def _kinds(cells: Cells, picks: Rows) -> NDArray[np.uint8]:
    """Kinds of cells, ABSENT for -1."""
    kinds = np.full(len(picks), ABSENT, dtype=np.uint8)
    kinds[picks >= 0] = cells.kind[picks[picks >= 0]]
    return kinds


def _column_array(cells: Cells, picks: Rows, column: Column) -> pa.Array:
    """A column's values."""
    type, name = _type_of(column)
    place = f'column "{column.name}"'
    try:
        return _parsed(cells, picks, type, place)
    except (pa.ArrowInvalid, _UnreadableError):
        raise DecodingError(f"a value of {place} does not fit type {name}") from None


class _UnreadableError(Exception):
    """A parsing kernel could not read a value."""


def _parsed(cells: Cells, picks: Rows, type: pa.DataType, place: str) -> pa.Array:
    if pa.types.is_integer(type):
        return _numbers(_parse.INTEGERS, cells, picks, np.int64).cast(type)
    if pa.types.is_date32(type):
        return _numbers(_parse.DATES, cells, picks, np.int32).view(type)
    if pa.types.is_timestamp(type):
        return _numbers(_parse.TIMESTAMPS, cells, picks, np.int64).view(type)
    if pa.types.is_binary(type):
        return _values(_parse.BYTEA, cells, picks, place)
    texts = _texts(cells, picks, place)
    if pa.types.is_boolean(type):
        return pc.equal(texts, "t")
    if pa.types.is_decimal(type):
        texts = pc.if_else(pc.equal(texts, "NaN"), None, texts)
    return texts.cast(type)


def _numbers(form: int, cells: Cells, picks: Rows, dtype: type[np.int32] | type[np.int64]) -> pa.Array:
    out = np.empty(len(picks), dtype=dtype)
    if _parse.parse_numbers(form, cells.text, cells.start, cells.length, picks, out) != _parse.DONE:
        raise _UnreadableError
    return pa.array(out, mask=picks < 0)


def _values(form: int, cells: Cells, picks: Rows, place: str) -> pa.BinaryArray:
    """Values that a kernel writes one after the other."""
    out = np.empty(int(cells.length[picks[picks >= 0]].sum(dtype=np.int64)), dtype=np.uint8)
    offsets = np.empty(len(picks) + 1, dtype=np.int64)
    if _parse.parse_values(form, cells.text, cells.start, cells.length, picks, out, offsets) != _parse.DONE:
        raise _UnreadableError
    if offsets[-1] > np.iinfo(np.int32).max:
        raise DecodingError(f"{place} has more than 2 GB of values in one slice")
    valid = pa.py_buffer(np.packbits(picks >= 0, bitorder="little"))
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(picks), buffers)


def _texts(cells: Cells, picks: Rows, place: str) -> pa.StringArray:
    """The texts themselves, if all of them are UTF-8."""
    texts = _values(_parse.TEXTS, cells, picks, place).view(pa.string())
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        hint = "images and typed columns need a database whose encoding is UTF8"
        raise DecodingError(f"text of {place} is not valid UTF-8", hint=hint) from None
    return texts


def _maps(
    cells: Cells, first: Rows, base: Rows, natts: Rows, names: pa.StringArray, leave_nulls_out: NDArray[np.bool_]
) -> pa.MapArray:
    """One map per tuple; null where there is no tuple.

    Args:
        cells: the cells.
        first: int64[k] each tuple's first cell, -1 none.
        base: int64[k] index of its first column in names.
        natts: int64[k] its attributes.
        names: of all columns.
        leave_nulls_out: bool[k] show only what is not NULL (of a key the other columns are not known).
    """
    counts = np.where(first >= 0, natts, 0)
    starts = np.cumsum(counts) - counts
    within = np.arange(counts.sum()) - np.repeat(starts, counts)
    picks = np.repeat(first, counts) + within
    kinds = cells.kind[picks]
    keep = (kinds == TEXT) | ((kinds == NULL) & ~np.repeat(leave_nulls_out, counts))
    kept_before = np.concatenate([[0], np.cumsum(keep)])
    offsets = kept_before[np.append(starts, counts.sum())].astype(np.int32)
    keys = names.take(pa.array((np.repeat(base, counts) + within)[keep]))
    texts = _texts(cells, np.where(kinds == TEXT, picks, -1)[keep], "an image")
    missing = np.append(first < 0, False)
    return pa.MapArray.from_arrays(pa.array(offsets, mask=missing), keys, texts, _MAP)
