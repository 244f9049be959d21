"""A located slice as rows: the columns of every change, and images or the columns of one table.

In: what :mod:`headwater.pipeline.slices.decode_job` makes of a slice. Out: an Arrow batch in output order.

``_commit_lsn``, ``_lsn`` and ``_seq`` together order changes, and tell each from all others. ``_seq`` counts within a
record of the log, not within the transaction: so it does not depend on where slices begin, or which tables are wanted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.errors import CatalogError
from headwater.pipeline.slices.decode_job import LocatedSlice
from headwater.plugins.rows.row_messages import Told
from headwater.rows.columns.arrow import IMAGE, NAMES, Rows, change_rows, images, old_is_key
from headwater.rows.columns.table_columns import TypedTable, typed_columns
from headwater.rows.items import LITERAL
from headwater.rows.tuples.completeness import WORDS, completeness

POSTGRES_EPOCH = 946_684_800_000_000
"""2000-01-01 00:00 UTC in microseconds since 1970."""

_OPERATIONS = ("", "insert", "update", "delete", "truncate", "ddl")
_TRUNCATE, _DDL = 4, 5
_COMMON: tuple[tuple[str, pa.DataType, str], ...] = (
    ("_lsn", pa.int64(), "BIGINT"),
    ("_commit_lsn", pa.int64(), "BIGINT"),
    ("_seq", pa.int64(), "BIGINT"),
    ("_commit_time", pa.timestamp("us", tz="UTC"), "TIMESTAMP"),
    ("_xid", pa.int64(), "BIGINT"),
    ("_origin", pa.string(), "STRING"),
    ("_op", pa.string(), "STRING"),
    ("_schema", pa.string(), "STRING"),
    ("_table", pa.string(), "STRING"),
    ("_unchanged", NAMES, "ARRAY<STRING>"),
    ("_before_is_key", pa.bool_(), "BOOLEAN"),
)
"""Columns of every change, with their types in Arrow and in Spark."""

_COMPLETENESS = ("_completeness", pa.string(), "STRING")
"""How much of the row is known, where that may be less than all."""

_DEFINITIONS = ("_ddl", pa.string(), "STRING")
"""Of DDL: the event as JSON."""


@dataclass(frozen=True)
class RowForm:
    """The form of rows; pickles.

    Attributes:
        table: the only table, whose own typed columns are wanted; None for before and after images.
        marks_rows: rows say how complete they are.
        has_ddl: DDL gives rows, too.

    Raises:
        CatalogError: a column of the table has the name of one that every row has.
    """

    table: TypedTable | None = None
    marks_rows: bool = False
    has_ddl: bool = False

    def __post_init__(self) -> None:
        ours = {name for name, _, _ in self._common} | {"_before"}
        for column in self.table.columns if self.table is not None else ():
            if column.name.lower() in ours:
                raise CatalogError(
                    f'the table has a column "{column.name}", which is the name of a column that every row has',
                    hint="set images to true to read images of its rows instead",
                )

    @property
    def _common(self) -> tuple[tuple[str, pa.DataType, str], ...]:
        """Columns of every change of this form."""
        return *_COMMON, *([_COMPLETENESS] if self.marks_rows else []), *([_DEFINITIONS] if self.has_ddl else [])

    @property
    def spark_columns(self) -> str:
        """The columns as a Spark DDL string."""
        common = ", ".join(f"{name} {type}" for name, _, type in self._common)
        if self.table is None:
            return f"{common}, _before MAP<STRING,STRING>, _after MAP<STRING,STRING>"
        own = self.table.spark_columns
        return f"{common}, _before {self.table.spark_struct}{', ' if own else ''}{own}"

    @property
    def arrow_schema(self) -> pa.Schema:
        """The same for Arrow."""
        common = [(name, type) for name, type, _ in self._common]
        if self.table is None:
            return pa.schema([*common, ("_before", IMAGE), ("_after", IMAGE)])
        return pa.schema([*common, ("_before", self.table.arrow_struct), *self.table.arrow_schema])

    def batch(self, located: LocatedSlice) -> pa.RecordBatch:
        """Return the changes of a slice as rows, in output order.

        Raises:
            DecodingError: a value does not fit its column.
        """
        rows = change_rows(located.changes.items)
        events = told_of(located)
        batches_of_rows = [self._changes(located, rows)]
        if events:
            batches_of_rows.append(self._told(located, events))
        table = pa.Table.from_batches(batches_of_rows)
        if events:
            places = np.concatenate([rows, np.array([event.item for event in events], np.int64)])
            table = table.take(np.argsort(places, kind="stable"))
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else batches_of_rows[0]

    def _changes(self, located: LocatedSlice, rows: Rows) -> pa.RecordBatch:
        items, tuples = located.changes.items, located.located
        schemas = [use.schema for use in located.changes.relations]
        layout = pa.array(items.layout[rows], pa.int32())
        names = [pa.array([getattr(s, part) for s in schemas], pa.string()).take(layout) for part in _NAME_PARTS]
        common = [*_common(located, rows, located.numbers[rows], pa.array(items.kind[rows])), *names]
        held: list[pa.Array[Any]] = [old_is_key(tuples.old_first, items, rows)]
        if self.marks_rows:
            natts = np.array([len(schema.columns) for schema in schemas], np.int64)
            marks = completeness(items, tuples.cells.kinds, (tuples.new_first, tuples.old_first), natts)
            held.append(pa.array(WORDS).take(marks[rows]))
        if self.has_ddl:
            held.append(pa.nulls(len(rows), pa.string()))
        if self.table is None:
            shown = images(located.text(), items, schemas, rows)
            arrays = [*common, shown.unchanged, *held, shown.before, shown.after]
        else:
            typed = typed_columns(tuples, items, self.table, located.session, schemas=schemas, rows=rows)
            arrays = [*common, typed.unchanged, *held, typed.before, *typed.rows.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def _told(self, located: LocatedSlice, events: Sequence[Told]) -> pa.RecordBatch:
        """Return the rows of truncates and DDL."""
        rows = np.array([event.item for event in events], np.int64)
        number = np.array([event.number for event in events], np.int64)
        names = [pa.array([getattr(event, part) for event in events], pa.string()) for part in _NAME_PARTS]
        kinds = np.array([_TRUNCATE if event.ddl is None else _DDL for event in events], np.uint8)
        common = [*_common(located, rows, number, pa.array(kinds)), *names]
        unchanged = pa.array([[]] * len(rows), NAMES)
        rest = [pa.nulls(len(rows), field.type) for field in list(self.arrow_schema)[len(_COMMON) - 1 :]]
        if self.has_ddl:
            position = [name for name, _, _ in self._common].index(_DEFINITIONS[0]) - len(_COMMON) + 1
            rest[position] = pa.array([event.ddl for event in events], pa.string())
        return pa.RecordBatch.from_arrays([*common, unchanged, *rest], schema=self.arrow_schema)


_NAME_PARTS = ("namespace", "name")


def told_of(located: LocatedSlice) -> list[Told]:
    """Return truncates and DDL of a slice, in output order."""
    items, literals = located.changes.items, located.changes.literals
    events = []
    for item in np.flatnonzero(items.kind == LITERAL):
        literal = items.layout[item]
        for message in range(literals.first[literal], literals.first[literal + 1]):
            data = literals.data[literals.offsets[message] : literals.offsets[message + 1]].tobytes()
            events.append(Told(int(item), *json.loads(data)))
    return events


def _common(located: LocatedSlice, rows: Rows, numbers: Rows, kinds: pa.Array[Any]) -> list[pa.Array[Any]]:
    """Return the columns of every change up to its operation."""
    return [*place_columns(located, rows, numbers).values(), pa.array(_OPERATIONS).take(kinds)]


def place_columns(located: LocatedSlice, rows: Rows, numbers: Rows) -> dict[str, pa.Array[Any]]:
    """Return the places of changes, and their transactions: the columns ``_lsn`` to ``_origin``.

    Args:
        located: the slice.
        rows: int64[k] its items; numbers: int64[k] their numbers among those of their record.
    """
    items, transactions = located.changes.items, located.changes.transactions
    txn = items.txn[rows]
    return {
        "_lsn": pa.array(items.lsn[rows]),
        "_commit_lsn": pa.array(transactions.commit_lsn[txn]),
        "_seq": pa.array(numbers),
        "_commit_time": moments(transactions.commit_time[txn]),
        "_xid": pa.array(transactions.xid[txn].astype(np.int64)),
        "_origin": _origins(located, txn),
    }


def moments(micros: NDArray[np.int64]) -> pa.TimestampArray[Any, Any]:
    """Return times in microseconds since 2000.

    A time that an origin has given and no timestamp can be is null, infinity too.
    """
    bounds = np.iinfo(np.int64)
    is_none = (micros > bounds.max - POSTGRES_EPOCH) | (micros == bounds.min)
    return cast(
        "pa.TimestampArray[Any, Any]",
        pa.array(micros + POSTGRES_EPOCH, mask=is_none).view(pa.timestamp("us", tz="UTC")),
    )


def _origins(located: LocatedSlice, txn: NDArray[np.integer]) -> pa.StringArray:
    """Return the origin's name of some transactions, null for local ones."""
    origin = located.changes.transactions.origin
    if not origin.any():
        return pa.nulls(len(txn), pa.string())
    numbers, which = np.unique(origin, return_inverse=True)
    names = [_origin(located, int(number)) if number else None for number in numbers]
    return pa.array(names, pa.string()).take(which[txn])


def _origin(located: LocatedSlice, number: int) -> str:
    """Return the name of an origin by its number among a slice's literals, from 1."""
    literals = located.changes.literals
    message = literals.first[number - 1]
    return literals.data[literals.offsets[message] : literals.offsets[message + 1]].tobytes().decode()
