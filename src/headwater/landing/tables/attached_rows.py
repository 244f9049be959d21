"""Rows that go with their relation from one mirror to another, as ATTACH and DETACH PARTITION have them go.

::

    ATTACH or DETACH of the window  ->  an Arrival at the table that has the rows from then on      (partition_rows.py)
    the task that merges the mirror they leave, at that commit's end of them
                                    ->  a staged file of the other mirror: inserts of that commit   (Handover)
    the tasks that merge the other mirror, when the first ones are done                             (modes.py)

The mirror that they come to is committed before the one that they leave: what is killed between the two finds the rows
in the latter still, and that the former has them already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError
from headwater.lakes.data_files import write_data_file
from headwater.lakes.lake_table import DataFile, file_name
from headwater.landing.tables.change_rows import STAGED, StagedChanges
from headwater.pipeline.slices.row_batches import moments
from headwater.rows.columns.arrow import NAMES, is_shown, repeated

_NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Departure:
    """Rows of a relation leave the mirror of a table.

    Attributes:
        relation: its OID.
        lsn: START of the commit record.
        time: of the commit, microseconds since 2000; None if that is not known.
    """

    relation: int
    lsn: int
    time: int | None = None


def commit_times(moves: Sequence[Departure | Arrival]) -> pa.TimestampArray[Any, Any]:
    """Return when rows come or go; null where that is not known.

    Args:
        moves: departures or arrivals.
    """
    return moments(np.array([_NO_TIME if move.time is None else move.time for move in moves], np.int64))


@dataclass(frozen=True)
class Arrival:
    """Rows of a relation come to the mirror of a table.

    Attributes:
        relation: its OID.
        giver: OID of the table in whose mirror they are until then.
        columns: numbers of the giver's columns, each with that of the table's which holds the same.
        lsn: START of the commit record.
        time: of the commit, microseconds since 2000; None if that is not known.
    """

    relation: int
    giver: int
    columns: tuple[tuple[int, int], ...]
    lsn: int
    time: int | None = None

    @classmethod
    def of(cls, giver: RelationSchema, table: RelationSchema, gone: Departure) -> Arrival:
        """Match columns of two tables by their names, which are alike at the commit.

        Args:
            giver, table: they, as of then.
            gone: what leaves the former.
        """
        numbers = {column.name: column.number for column in giver.columns if is_shown(column)}
        shared = [column for column in table.columns if is_shown(column) and column.name in numbers]
        columns = tuple((numbers[column.name], column.number) for column in shared)
        return cls(gone.relation, giver.oid, columns, gone.lsn, gone.time)


@dataclass(frozen=True)
class Handover:
    """The work of a task with rows that leave the mirror which it merges; pickles.

    Attributes:
        arrival: the rows.
        table: the number in the window of the table that they come to.
        names: columns of the mirror, each with that of the other one.
        fills: what columns that the rows do not have hold in the other one, as arrays of one value.
        schema: of the other one's staged changes.
        staging: where these are.
        relations: the mirror's column that has each row's relation, where all of its rows go.
    """

    arrival: Arrival
    table: int
    names: tuple[tuple[str, str], ...]
    fills: Mapping[str, pa.Array[Any]]
    schema: pa.Schema
    staging: str
    relations: str = ""

    @classmethod
    def of(cls, arrival: Arrival, giver: StagedChanges, number: int, taker: StagedChanges) -> Handover:
        """Hand rows over from one table to another.

        Args:
            arrival: see there.
            giver, taker: the tables; number: of the latter, in the window.

        Raises:
            LakeError: a column is another one in the lake by the window's end.
        """
        here, there = _names(giver), _names(taker)
        names = []
        for own, other in arrival.columns:
            if other not in there:
                continue  # dropped since
            if own not in here or not _are_alike(giver.schema.field(here[own]), taker.schema.field(there[other])):
                raise changes_besides(giver.name, taker.name, arrival.lsn)
            names.append((here[own], there[other]))
        held = {name for _, name in names}
        fills = {
            there[number]: fill for number, fill in taker.fills.items() if number in there and there[number] not in held
        }
        return cls(arrival, number, tuple(names), fills, taker.schema, taker.staging)

    def write(self, rows: pa.Table) -> DataFile:
        """Stage rows.

        Args:
            rows: of the mirror; one at least.
        """
        return write_data_file(self._staged(rows), self.staging, file_name(self.arrival.lsn), self.schema)

    def _staged(self, rows: pa.Table) -> pa.Table:
        described: dict[str, pa.Scalar[Any]] = {
            "_change_type": pa.scalar("insert"),
            "_commit_lsn": pa.scalar(self.arrival.lsn),
            "_lsn": pa.scalar(self.arrival.lsn),
            "_commit_time": commit_times([self.arrival])[0],
            "_unchanged": pa.scalar([], NAMES),
            "_relation": pa.scalar(self.arrival.relation),
            "_heap": pa.scalar(0),
        }
        assert described.keys() == STAGED.keys()
        described = {STAGED[name]: value for name, value in described.items()}
        held = {there: rows[here] for here, there in self.names}
        if self.relations in rows.column_names:
            held[STAGED["_relation"]] = rows[self.relations]
        held |= {name: pa.chunked_array([repeated(fill, len(rows))]) for name, fill in self.fills.items()}
        return pa.table([_column(field, held, described, len(rows)) for field in self.schema], schema=self.schema)


def _names(changes: StagedChanges) -> dict[int, str]:
    """Return names of columns in the lake, by their numbers."""
    return {column.number: name for column, name in zip(changes.table.columns, changes.names, strict=True)}


def _are_alike(field: pa.Field[Any], other: pa.Field[Any]) -> bool:
    return bool(field.type == other.type)


def _column(
    wanted: pa.Field[Any], held: Mapping[str, pa.ChunkedArray[Any]], described: Mapping[str, pa.Scalar[Any]], rows: int
) -> pa.ChunkedArray[Any]:
    if wanted.name in held:
        return held[wanted.name].cast(wanted.type)
    if wanted.name in described:
        return pa.chunked_array([in_all_rows(described[wanted.name], wanted.type, rows)])
    return pa.chunked_array([pa.nulls(rows, wanted.type)])


def in_all_rows(value: pa.Scalar[Any], type: pa.DataType, rows: int) -> pa.Array[Any]:
    """Repeat a value, or null, in so many rows of a column."""
    column: pa.Array[Any]
    # The stubs ask for a scalar of one known type.
    column = pa.repeat(value.cast(type), rows) if value.is_valid else pa.nulls(rows, type)  # type: ignore[call-overload]
    return column


def changes_besides(giver: str, taker: str, lsn: int) -> LakeError:
    """Return the error of rows that go from one table to another in a window in which columns become others.

    Args:
        giver, taker: names of the tables; lsn: START of the commit record.
    """
    return LakeError(
        f"rows go from table {giver} to {taker} in a window in which columns of theirs become others",
        lsn=lsn,
        hint="end the window before that, or before the columns change (--end), and go on from there",
    )
