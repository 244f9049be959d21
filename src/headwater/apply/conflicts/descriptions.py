"""Conflicts described: what the server's log would say of them, asked of the target once one was met.

PostgreSQL: replication/logical/conflict.c (ReportApplyConflict); which partition a row is in as of execPartition.c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from headwater.apply.conflicts.local_tables import LocalTable, leaves_with_bounds, local_table
from headwater.apply.conflicts.own_origins import OwnOrigins
from headwater.apply.conflicts.remote_rows import InTheWay, RemoteRow, is_partitioned, leaf_of, printed
from headwater.apply.conflicts.wording import Described, Existing, Writer
from headwater.apply.incoming.conflict_kinds import Kind
from headwater.apply.incoming.messages import Delete, Insert, SentTuple, Update
from headwater.apply.incoming.remote_transaction import RemoteTransaction
from headwater.apply.target.connection import Row, TargetConnection
from headwater.apply.target.local_rows import LocalRow
from headwater.apply.target.relations import MappedRelation

RowChange = Insert | Update | Delete


class AppliedChange(NamedTuple):
    """A change of a row as it is applied.

    Attributes:
        mapped: the table; message: the change; remote: its transaction.
        about: the apply worker's CONTEXT of it.
    """

    mapped: MappedRelation
    message: RowChange
    remote: RemoteTransaction
    about: Callable[[], str]

    @property
    def table(self) -> str:
        """The table's name, as rules have it."""
        return f"{self.mapped.namespace}.{self.mapped.name}"

    @property
    def new(self) -> SentTuple | None:
        """The row that is to be there."""
        return None if isinstance(self.message, Delete) else self.message.new

    @property
    def search(self) -> SentTuple | None:
        """What the row is looked for by."""
        if isinstance(self.message, Insert):
            return None
        if isinstance(self.message, Delete) or self.message.old is not None:
            return self.message.old
        return self.message.new


class Descriptions:
    """Descriptions of conflicts.

    Args:
        connection: the target's, in which nothing is waited for when it is asked.
        origins: the subscription's own.
    """

    def __init__(self, connection: TargetConnection, origins: OwnOrigins) -> None:
        self._connection, self._origins = connection, origins

    def table(self, mapped: MappedRelation, oid: int | None = None) -> LocalTable:
        """Return the facts of a table, or of its partition; they are kept with the relation."""
        key = ("conflicts", oid or mapped.oid)
        if key not in mapped.plans:
            mapped.plans[key] = local_table(self._connection, oid or mapped.oid)
        table: LocalTable = mapped.plans[key]
        return table

    def leaf(self, mapped: MappedRelation, remote: RemoteRow) -> LocalTable:
        """Return the table, or partition, that a row belongs to."""
        table = self.table(mapped)
        if not is_partitioned(mapped):
            return table
        bounds = leaves_with_bounds(self._connection, mapped.oid)
        return self.table(mapped, leaf_of(self._connection, table, bounds, remote))

    def local(self, mapped: MappedRelation, record: str) -> LocalRow:
        """Read a local row that a statement has returned."""
        return LocalRow.parse(record, self.table(mapped).names)

    def differs(self, row: LocalRow) -> bool:
        """Tell whether a row was written by somebody else."""
        return row.origin is not None and not self._origins.is_own(self._connection, row.origin, row.time)

    def writer(self, row: LocalRow) -> Writer:
        """Return who has written a row."""
        return self._writer(row.xid, row.time, row.origin or 0)

    def deleter(self, row: Row) -> Writer | None:
        """Return who has deleted a row, given its transaction, origin and commit time; None for the subscription."""
        xid, origin, time = row
        number = int(origin or 0)
        if self._origins.is_own(self._connection, number, time):
            return None
        return self._writer(int(xid or 0), time, number)

    def _writer(self, xid: int, time: str | None, origin: int) -> Writer:
        if origin and origin not in self._origins.names:
            self._origins.look(self._connection)
        return Writer(xid, time, origin, self._origins.names.get(origin))

    def missing(self, change: AppliedChange, kind: Kind, deleted: Writer | None = None) -> Described:
        """Describe that there is no row to be changed."""
        assert change.search is not None
        search = RemoteRow.of(change.mapped, change.search)
        table = self.leaf(change.mapped, search)
        return Described(kind, table, (), self._sent(table, change), self._search(table, change), deleted)

    def origin_differs(self, change: AppliedChange, row: LocalRow) -> Described:
        """Describe that the row to be changed was written by somebody else."""
        kind = Kind.DELETE_ORIGIN_DIFFERS if isinstance(change.message, Delete) else Kind.UPDATE_ORIGIN_DIFFERS
        table = self.table(change.mapped, row.table)
        existing = (Existing(row.values, self.writer(row)),)
        return Described(kind, table, existing, self._sent(table, change), self._search(table, change))

    def unique(self, table: LocalTable, ways: list[InTheWay], remote: RemoteRow, before: LocalRow | None) -> Described:
        """Describe that rows are in the way.

        Args:
            table: in which; ways: the rows; remote: that cannot be stored; before: which was to be updated.
        """
        kind = Kind.INSERT_EXISTS if before is None else Kind.UPDATE_EXISTS
        if len(ways) > 1:
            kind = Kind.MULTIPLE_UNIQUE_CONFLICTS
        existing = tuple(Existing(way.row.values, self.writer(way.row), way.index, way.key) for way in ways)
        values = printed(self._connection, table, remote, is_stored=True)
        return Described(kind, table, existing, values, None if before is None else before.values)

    def _sent(self, table: LocalTable, change: AppliedChange) -> dict[str, str | None] | None:
        if change.new is None:
            return None
        return printed(self._connection, table, RemoteRow.of(change.mapped, change.new))

    def _search(self, table: LocalTable, change: AppliedChange) -> dict[str, str | None]:
        assert change.search is not None
        return printed(self._connection, table, RemoteRow.of(change.mapped, change.search))
