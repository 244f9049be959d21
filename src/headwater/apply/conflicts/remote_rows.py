"""Rows that were sent, as the target's table would have them, and the local rows that are in their way.

What is sent is read by the target's types, and printed by them again, as the apply worker describes it. Columns that
are not sent are NULL, or get their defaults where a row is inserted; generated ones are computed then.

PostgreSQL: worker.c (slot_store_data, slot_modify_data), executor/execReplication.c (FindConflictTuple).

Known gaps: what triggers BEFORE the change make of a row is not seen. A default that is volatile is computed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headwater.apply.conflicts.local_tables import STORED, VIRTUAL, Column, LocalTable, UniqueIndex
from headwater.apply.incoming.messages import BINARY, UNCHANGED, SentTuple
from headwater.apply.target.connection import Bound, Outcome, Row, Statement, TargetConnection
from headwater.apply.target.local_rows import LocalRow, parse_record, record_of
from headwater.apply.target.relations import PARTITIONED, MappedRelation
from headwater.receiver.replication_connection import quoted


@dataclass(frozen=True)
class Cell:
    """A value of a column: its bytes, None for NULL, and whether they are in binary form."""

    value: bytes | None
    is_binary: bool = False


Cells = Mapping[str, Cell]


@dataclass(frozen=True)
class RemoteRow:
    """A row that was sent, or a part of it.

    Attributes:
        cells: by column; unchanged: names of the columns that are not sent as they are unchanged.
    """

    cells: Cells
    unchanged: frozenset[str] = frozenset()

    @classmethod
    def of(cls, mapped: MappedRelation, sent: SentTuple) -> RemoteRow:
        """Take a tuple of a relation."""
        names = [column.name for column in mapped.sent.columns]
        parts = list(zip(names, sent.kinds, sent.values, strict=False))
        cells = {name: Cell(value, kind == BINARY) for name, kind, value in parts if kind != UNCHANGED}
        return cls(cells, frozenset(name for name, kind, _ in parts if kind == UNCHANGED))

    def over(self, local: Mapping[str, str | None]) -> RemoteRow:
        """Return the row with all else as a local row has it, but for what is generated."""
        base = {name: Cell(None if value is None else value.encode()) for name, value in local.items()}
        return RemoteRow({**base, **self.cells})


class _Question:
    """Parts of a statement about a remote row, with their parameters."""

    def __init__(self) -> None:
        self._types: list[int] = []
        self._values: list[bytes | None] = []
        self._formats: list[int] = []

    def row(self, table: LocalTable, remote: RemoteRow, *, is_stored: bool) -> str:
        """Write a subquery that has the row; generated columns, and defaults of others, if it is to be stored."""
        given = [self._column(column, remote, is_stored=is_stored) for column in table.columns]
        inner = f"SELECT {', '.join(given)}" if given else "SELECT"
        made = {column.name for column in table.columns if is_stored and column.generated == STORED}
        if not made:
            return inner
        outer = [
            f"({column.expression}) AS {quoted(column.name)}" if column.name in made else quoted(column.name)
            for column in table.columns
        ]
        return f"SELECT {', '.join(outer)} FROM ({inner}) AS given"

    def _column(self, column: Column, remote: RemoteRow, *, is_stored: bool) -> str:
        cell, name = remote.cells.get(column.name), quoted(column.name)
        if cell is not None and not column.generated and cell.value is not None:
            return f"CAST({self._parameter(cell, column.type_oid)} AS {column.type}) AS {name}"
        if cell is None and is_stored and column.expression and not column.generated:
            return f"CAST({column.expression} AS {column.type}) AS {name}"
        return f"CAST(NULL AS {column.type}) AS {name}"

    def _parameter(self, cell: Cell, type_oid: int) -> str:
        self._types.append(type_oid)
        self._values.append(cell.value)
        self._formats.append(int(cell.is_binary))
        return f"${len(self._types)}"

    def ask(self, connection: TargetConnection, sql: str) -> list[Row]:
        """Run a statement that has the parts in it."""
        bound = Bound(Statement(sql, tuple(self._types)), tuple(self._values), tuple(self._formats))
        return rows_of(connection, bound)


def rows_of(connection: TargetConnection, bound: Bound) -> list[Row]:
    """Run a statement, and wait for its rows.

    Raises:
        TargetError, ConnectionLostError: see :meth:`TargetConnection.rows`.
    """
    rows: list[Row] = []

    def take(outcome: Outcome) -> None:
        rows.extend(outcome.rows)

    connection.send(bound, take, prepares=False)
    connection.sync()
    connection.drain()
    return rows


def printed(
    connection: TargetConnection, table: LocalTable, remote: RemoteRow, *, is_stored: bool = False
) -> dict[str, str | None]:
    """Return a remote row as the target's types print it.

    Args:
        connection: the target's; table: that it is for; remote: it.
        is_stored: it is what would be stored, with defaults and generated columns.

    Raises:
        TargetError: a value is refused.
    """
    question = _Question()
    rows = question.ask(connection, question.row(table, remote, is_stored=is_stored))
    return dict(zip(table.names, rows[0], strict=True)) if table.columns else {}


def ask_beside(
    connection: TargetConnection, table: LocalTable, remote: RemoteRow, sql_of: Callable[[str], str]
) -> list[Row]:
    """Run a statement about a remote row.

    Args:
        connection: the target's; table: that it is for; remote: it.
        sql_of: writes the statement, given a subquery that has the row.

    Raises:
        TargetError: a value is refused.
    """
    question = _Question()
    return question.ask(connection, sql_of(question.row(table, remote, is_stored=False)))


def leaf_of(connection: TargetConnection, table: LocalTable, bounds: list[tuple[int, str]], remote: RemoteRow) -> int:
    """Return the OID of the partition that a row belongs to, that of the table where there is none.

    Args:
        connection: the target's; table: the partitioned one; bounds: of its partitions; remote: the row.
    """
    question = _Question()
    cases = " ".join(f"WHEN {bound} THEN {oid}" for oid, bound in bounds)
    row = question.row(table, remote, is_stored=True)
    ((leaf,),) = question.ask(connection, f"SELECT CASE {cases} ELSE {table.oid} END FROM ({row}) AS remote")
    return int(str(leaf))


@dataclass(frozen=True)
class InTheWay:
    """A local row that a unique index does not let a remote row stand beside.

    Attributes:
        index: it; row: the local row; key: its values in the index.
    """

    index: UniqueIndex
    row: LocalRow
    key: tuple[str | None, ...]


def rows_in_the_way(
    connection: TargetConnection, table: LocalTable, remote: RemoteRow, has_times: bool, but: str | None = None
) -> list[InTheWay]:
    """Find the local rows that are in the way of a remote row, by each index; they are locked.

    Args:
        connection: the target's; table: where; remote: the row, whole.
        has_times: the server tracks commit times.
        but: ``ctid`` of the row that is updated, which is not in its own way.
    """
    ways = []
    for index in table.indexes:
        if not index.is_immediate:
            continue
        question = _Question()
        row = question.row(table, remote, is_stored=True)
        sql = _way_query(table, index, row, has_times, but)
        for record, key in question.ask(connection, sql)[:1]:
            values = tuple(parse_record(key or ""))
            ways.append(InTheWay(index, LocalRow.parse(str(record), table.names), values))
    return ways


def _way_query(table: LocalTable, index: UniqueIndex, row: str, has_times: bool, but: str | None) -> str:
    remote = f"({row}) AS remote"
    conditions = []
    for key in index.keys:
        other = f"(SELECT {key.expression} FROM {remote})"
        collation = f" COLLATE {key.collation}" if key.collation else ""
        same = f"({key.expression}) {key.operator} {other}{collation}"
        if not index.is_distinct:
            same = f"({same} OR ({key.expression}) IS NULL AND {other} IS NULL)"
        conditions.append(same)
    if index.predicate:
        conditions += [f"({index.predicate})", f"(SELECT {index.predicate} FROM {remote})"]
    if but is not None:
        conditions.append(f"target.ctid <> '{but}'::tid")
    keys = ", ".join(f"({key.expression})" for key in index.keys)
    return (
        f"SELECT {record_of('target', has_times=has_times)}, ROW({keys})::text "
        f"FROM ONLY {quoted(table.namespace)}.{quoted(table.name)} AS target "
        f"WHERE {' AND '.join(conditions)} LIMIT 1 FOR SHARE"
    )


def is_partitioned(mapped: MappedRelation) -> bool:
    """Tell whether a table is partitioned."""
    return mapped.kind == PARTITIONED


def virtual_columns(table: LocalTable) -> frozenset[str]:
    """Return names of the columns that are generated when they are read."""
    return frozenset(column.name for column in table.columns if column.generated == VIRTUAL)
