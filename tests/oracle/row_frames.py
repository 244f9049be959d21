"""Row frames against tables: changes applied to what tables held at the start make what they hold at the end.

The frames are those of the data source without a plugin, read through Spark: images of all tables, and the columns of a
single one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from arrow_types import Order
from headwater.pg.lsn import Lsn
from oracle.contents import Content, HeldColumn, Row
from oracle.doings import Doings, lasting_name
from oracle.oracle import HeldTables, OracleRun
from oracle.replay import Replay, ReplayError, RowChange, differences, plain, typed_value

ORDER: Order = [("_commit_lsn", "ascending"), ("_lsn", "ascending"), ("_seq", "ascending")]
UNFOLLOWED = {"unlogged", "dropped", "identity NOTHING", "without its id"}


class RowFrames:
    """The frames of a run.

    Args:
        spark: a session.
        run: with tables.
    """

    def __init__(self, spark: Any, run: OracleRun) -> None:
        assert run.tables is not None
        self._spark = spark
        self._run = run
        self._held: HeldTables = run.tables
        self._doings = Doings(run.statements)

    def imaged(self) -> dict[str, list[str]]:
        """List for each table whose rows can be followed by name in what images lead to something else."""
        changes: dict[str, list[RowChange]] = {}
        for row in self._frame():
            name = lasting_name(f"{row['_schema']}.{row['_table']}")
            changes.setdefault(name, []).append(_imaged(row))
        by_table = {}
        for table in self._held.after.values():
            if (
                table.rows is not None
                and self._is_followed(table)
                and "renamed" not in self._doings.done(table.qualified)
            ):
                name = lasting_name(f"{table.schema}.{table.name}")
                by_table[table.qualified] = self._replay_images(table, changes.get(name, []))
        return by_table

    def typed(self, most: int) -> dict[str, list[str]]:
        """List for some tables that were there at the start in what their typed rows lead to something else."""
        names = sorted(
            (table.qualified, oid)
            for oid, table in self._held.after.items()
            if table.rows is not None
            and self._has_rows_before(oid)
            and self._is_followed(table)
            and "retyped" not in self._doings.done(table.qualified)
        )
        step = max(1, len(names) // most)
        return {name: self._replay_typed(oid) for name, oid in names[self._held.lo // 8 % step :: step]}

    def _has_rows_before(self, oid: int) -> bool:
        return oid in self._held.before and self._held.before[oid].rows is not None

    def _is_followed(self, table: Content) -> bool:
        """Tell whether changes tell all that happened to a table's rows."""
        before = self._held.before.get(table.oid)
        if before is not None and (before.rows is None or before.key != table.key):
            return False
        done = self._doings.done(table.qualified)
        if done & UNFOLLOWED or table.replica_identity == "n":
            return False
        if table.has_primary_key:
            return True
        if table.key:
            return before is not None and "identity DEFAULT" not in done
        # No table is made with REPLICA IDENTITY FULL: rows that went before it was set are not told of.
        is_full = before is not None and before.replica_identity == "f" == table.replica_identity
        return is_full and not done & {"identity DEFAULT", "identity USING"}

    def _replay_images(self, table: Content, changes: list[RowChange]) -> list[str]:
        before = self._held.before.get(table.oid)
        columns = {column.name for column in table.columns} - self._doings.retyped(table.qualified)
        return _replayed(table.key, before.rows or () if before else (), changes, table.rows or (), sorted(columns))

    def _replay_typed(self, oid: int) -> list[str]:
        before, after = self._held.before[oid], self._held.after[oid]
        frame = self._table(f"{after.schema}.{after.name}")
        # What is made of other values is compared value by value (tests/values).
        nested = {field.name for field in frame.schema if pa.types.is_nested(field.type)}
        columns = [(old, new) for old, new in _kept(before, after) if new.name not in nested]
        names = [new.name for _, new in columns]
        changes = [_typed(row, names) for row in _rows_of(frame)]
        old, new = (
            [_typed_row(row, side) for row in content.rows or ()]
            for content, side in (
                (before, [(o.name, n) for o, n in columns]),
                (after, [(n.name, n) for _, n in columns]),
            )
        )
        return _replayed(after.key, old, changes, new, names)

    def _frame(self) -> Iterator[Mapping[str, Any]]:
        """Give rows of all tables' images, in order."""
        return _rows_of(self._table())

    def _table(self, table: str | None = None) -> pa.Table:
        """Read a frame."""
        options = {
            "path": str(self._run.wal),
            "catalog": str(self._run.backup),
            "startingLsn": str(Lsn(self._held.lo)),
            "endingLsn": str(Lsn(self._held.hi)),
            "partitionBytes": "2000000",
            "ddl": "false",
        }
        if table is not None:
            options |= {"tables": table, "onUnrepresentable": "null", "onTableReplaced": "skip"}
        frame: pa.Table = self._spark.read.format("headwater").options(**options).load().toArrow()
        return frame


def _rows_of(frame: pa.Table) -> Iterator[Mapping[str, Any]]:
    """Give rows, in order."""
    for batch in frame.sort_by(ORDER).to_batches(max_chunksize=1000):
        yield from batch.to_pylist()


def _replayed(key: tuple[str, ...], before: Any, changes: list[RowChange], after: Any, names: list[str]) -> list[str]:
    replay = Replay(key, before)
    for change in changes:
        try:
            replay.apply(change)
        except ReplayError as error:
            return [str(error)]
    return differences(after, replay.rows, names, key)


def _kept(before: Content, after: Content) -> Iterator[tuple[HeldColumn, HeldColumn]]:
    """Give the columns that are the same at both times, whatever they are called."""
    old = {column.number: column for column in before.columns}
    for column in after.columns:
        if column.number in old and old[column.number].identity == column.identity:
            yield old[column.number], column


def _typed_row(row: Row, columns: list[tuple[str, HeldColumn]]) -> Row:
    return {column.name: typed_value(row[name], column.type) for name, column in columns}


def _imaged(row: Mapping[str, Any]) -> RowChange:
    before, after = (None if row[name] is None else dict(row[name]) for name in ("_before", "_after"))
    return RowChange(row["_lsn"], row["_op"], before, after)


def _typed(row: Mapping[str, Any], names: list[str]) -> RowChange:
    """Make a change in a single table's own columns: those of a delete are the old row's."""
    before = None if row["_before"] is None else {name: plain(row["_before"][name]) for name in names}
    unchanged = set(row["_unchanged"])
    after = {name: plain(row[name]) for name in names if name not in unchanged}
    return RowChange(row["_lsn"], row["_op"], before, after if row["_op"] in ("insert", "update") else None)
