"""Changes of a transaction that has met a conflict, applied one by one with checks, each behind a savepoint.

The transaction was rolled back before. What had been applied without a conflict is applied again as it was. From the
change that has met one on, each is looked at before the next is sent: the row that it is for, who has written it, and
what is in its way. Then the rule for the conflict says what becomes of it, in the same transaction.

PostgreSQL: worker.c (apply_handle_insert_internal and so on), executor/execReplication.c (CheckAndReportConflict).

Known gaps: a row that is to be put into the place of several others keeps the columns that are not sent of only one.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.apply.conflicts.conflicts import Conflicts
from headwater.apply.conflicts.decisions import Decision, decide
from headwater.apply.conflicts.descriptions import AppliedChange
from headwater.apply.conflicts.local_tables import LocalTable
from headwater.apply.conflicts.remote_rows import Cell, InTheWay, RemoteRow, rows_in_the_way, rows_of
from headwater.apply.conflicts.wording import Described
from headwater.apply.incoming.conflict_kinds import Action, Kind
from headwater.apply.incoming.messages import UNCHANGED, Delete, Insert, SentTuple, Update
from headwater.apply.target.connection import Bound, Statement
from headwater.apply.target.local_rows import LocalRow
from headwater.apply.target.rights import NO_ROLE, become
from headwater.apply.target.statements import delete, find, insert, update
from headwater.errors import TargetError
from headwater.receiver.replication_connection import quoted

_UNIQUE_VIOLATION, _NO_RIGHT = "23505", "42501"
_SAVEPOINT = "headwater_change"


class CheckedChanges:
    """The changes.

    Args:
        conflicts: of the session.
    """

    def __init__(self, conflicts: Conflicts) -> None:
        self._conflicts, self._nodes = conflicts, conflicts.nodes
        self._connection, self._descriptions = conflicts.connection, conflicts.descriptions

    def apply(self, change: AppliedChange) -> None:
        """Apply a change; nothing is waited for, and the role is the table's.

        Raises:
            TargetError: the target refuses it, or it is a conflict that is an error.
            ConnectionLostError: the target is lost.
        """
        if isinstance(change.message, Insert):
            self._insert(change, insert(change.mapped, change.message.new))
            return
        row = self._found(change)
        if row is None:
            self._missing(change)
        elif self._descriptions.differs(row) and self._detects(change, _differs(change)):
            self._differs(change, row)
        else:
            self._change(change, row)

    def _detects(self, change: AppliedChange, kind: Kind) -> bool:
        return self._conflicts.detects_kind(change.table, kind)

    def _found(self, change: AppliedChange) -> LocalRow | None:
        """Find the row that a change is for, and lock it."""
        assert change.search is not None
        rows = rows_of(self._connection, find(change.mapped, change.search, has_times=self._conflicts.tracks))
        return self._descriptions.local(change.mapped, str(rows[0][0])) if rows else None

    def _missing(self, change: AppliedChange) -> None:
        kind, deleted = self._conflicts.missing_kind(change)
        if not self._detects(change, kind):
            return
        described = self._descriptions.missing(change, kind, deleted)
        decision = self._decided(described, change)
        if decision.action == Action.KEEP_LOCAL or change.new is None:
            return
        if decision.row is not None:
            self._store(described.table, _row_of(decision.row))
            return
        new = _whole(change)
        if UNCHANGED in new.kinds:
            names = ", ".join(sorted(RemoteRow.of(change.mapped, new).unchanged))
            text = f'a row of "{change.table}" that is not there cannot be inserted, as not all of it was sent'
            raise TargetError(text, sqlstate="55000", detail=f"Unchanged: {names}.", context=change.about())
        whole = change._replace(message=Insert(change.message.xid, change.message.oid, new))
        self._insert(whole, insert(change.mapped, new))

    def _differs(self, change: AppliedChange, row: LocalRow) -> None:
        described = self._descriptions.origin_differs(change, row)
        decision = self._decided(described, change)
        if decision.row is not None:
            self._set(described.table, row, _row_of(decision.row))
        elif decision.action == Action.APPLY_REMOTE:
            self._change(change, row)

    def _change(self, change: AppliedChange, row: LocalRow) -> None:
        """Update or delete the row that was found."""
        message = change.message
        if isinstance(message, Delete):
            self._tried(delete(change.mapped, message.old), change)
            return
        assert isinstance(message, Update)
        bound = update(change.mapped, message.old, message.new)
        error = self._tried(bound, change)
        if error is None:
            return
        remote = RemoteRow.of(change.mapped, message.new).over(row.values)
        table = self._descriptions.leaf(change.mapped, remote)
        is_same = table.oid == row.table
        before = row if is_same else None
        ways = self._ways(table, remote, error, row.place if is_same else None)
        decision, _ = self._way_decided(change, table, ways, remote, before, error)
        if decision.action == Action.KEEP_LOCAL:
            return
        self._remove(table, ways)
        if decision.row is not None:
            self._set(self._descriptions.table(change.mapped, row.table), row, _row_of(decision.row))
        else:
            self._done(bound, change)

    def _insert(self, change: AppliedChange, bound: Bound) -> None:
        error = self._tried(bound, change)
        if error is None:
            return
        assert change.new is not None
        remote = RemoteRow.of(change.mapped, change.new)
        table = self._descriptions.leaf(change.mapped, remote)
        ways = self._ways(table, remote, error)
        decision, _ = self._way_decided(change, table, ways, remote, None, error)
        if decision.action == Action.KEEP_LOCAL:
            return
        if change.mapped.always:
            self._remove(table, ways)
            self._done(bound, change)
            return
        taken = next((way for way in ways if way.index is table.identity), ways[0])
        self._remove(table, [way for way in ways if way.row.place != taken.row.place])
        self._set(table, taken.row, remote if decision.row is None else _row_of(decision.row))

    def _ways(self, table: LocalTable, remote: RemoteRow, error: TargetError, but: str | None = None) -> list[InTheWay]:
        """Find the rows in the way; raises the server's own error of it where the role may not look for them."""
        try:
            return rows_in_the_way(self._connection, table, remote, self._conflicts.tracks, but)
        except TargetError as refused:
            raise (error if refused.sqlstate == _NO_RIGHT else refused) from None

    def _way_decided(
        self,
        change: AppliedChange,
        table: LocalTable,
        ways: list[InTheWay],
        remote: RemoteRow,
        before: LocalRow | None,
        error: TargetError,
    ) -> tuple[Decision, Described]:
        if not ways:
            raise error
        described = self._descriptions.unique(table, ways, remote, before)
        if not self._detects(change, described.kind):
            raise error
        return self._decided(described, change), described

    def _decided(self, described: Described, change: AppliedChange) -> Decision:
        """Decide about a conflict, and tell of it.

        Raises:
            TargetError: it is an error.
        """
        conflicts = self._conflicts
        rule = conflicts.rules.rule(change.table, described.kind)
        decision = decide(rule, described, change, self._nodes, conflicts.origins.main.name)
        if decision.action == Action.ERROR:
            raise conflicts.log.error(described, change)
        conflicts.log.tell(described, change, decision.text if rule.is_given else None)
        if conflicts.rules.fills:
            role = change.mapped.role
            if role is not None:
                self._connection.send(NO_ROLE)
            conflicts.log.write(self._connection, described, change, decision.text)
            if role is not None:
                self._connection.send(become(role))
        return decision

    def _tried(self, bound: Bound, change: AppliedChange) -> TargetError | None:
        """Do a change; return the error if it hits a unique index, after which it is as if it had not been tried."""
        self._connection.rows(f"SAVEPOINT {_SAVEPOINT}")
        try:
            self._done(bound, change)
        except TargetError as error:
            if error.sqlstate != _UNIQUE_VIOLATION:
                raise
            self._connection.rows(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
            self._connection.rows(f"RELEASE SAVEPOINT {_SAVEPOINT}")
            return error
        self._connection.rows(f"RELEASE SAVEPOINT {_SAVEPOINT}")
        return None

    def _done(self, bound: Bound, change: AppliedChange) -> None:
        self._connection.send(bound, None, change.about)
        self._connection.sync()
        self._connection.drain()

    def _remove(self, table: LocalTable, ways: list[InTheWay]) -> None:
        for place in {way.row.place for way in ways}:
            self._connection.rows(f"DELETE FROM {_only(table)} WHERE ctid = $1::tid", (place,))

    def _set(self, table: LocalTable, row: LocalRow, remote: RemoteRow) -> None:
        """Give a local row the values of another."""
        values = _stored(table, remote.cells)
        sets = ", ".join(f"{quoted(name)} = ${number}" for number, (name, _, _) in enumerate(values, 1))
        sql = f"UPDATE {_only(table)} SET {sets} WHERE ctid = '{row.place}'::tid"
        self._send(sql, values)

    def _store(self, table: LocalTable, remote: RemoteRow) -> None:
        """Insert a row."""
        values = _stored(table, remote.cells)
        names = ", ".join(quoted(name) for name, _, _ in values)
        numbers = ", ".join(f"${number}" for number in range(1, len(values) + 1))
        own = f"{quoted(table.namespace)}.{quoted(table.name)}"
        self._send(f"INSERT INTO {own} ({names}) OVERRIDING SYSTEM VALUE VALUES ({numbers})", values)

    def _send(self, sql: str, values: list[tuple[str, int, Cell]]) -> None:
        statement = Statement(sql, tuple(type_oid for _, type_oid, _ in values))
        cells = tuple(cell.value for _, _, cell in values)
        rows_of(self._connection, Bound(statement, cells, tuple(int(cell.is_binary) for _, _, cell in values)))


def _whole(change: AppliedChange) -> SentTuple:
    """Return the row that is to be there, with values that are unchanged as of the old row, if that was sent."""
    message = change.message
    assert isinstance(message, Update)
    new, old = message.new, message.old
    if old is None or message.old_is_key:
        return new
    places = range(len(new.kinds))
    kinds = bytes(old.kinds[at] if new.kinds[at] == UNCHANGED else new.kinds[at] for at in places)
    return SentTuple(kinds, tuple(old.values[at] if new.kinds[at] == UNCHANGED else new.values[at] for at in places))


def _differs(change: AppliedChange) -> Kind:
    return Kind.DELETE_ORIGIN_DIFFERS if isinstance(change.message, Delete) else Kind.UPDATE_ORIGIN_DIFFERS


def _row_of(values: Mapping[str, str | None]) -> RemoteRow:
    return RemoteRow({name: Cell(None if value is None else value.encode()) for name, value in values.items()})


def _stored(table: LocalTable, cells: Mapping[str, Cell]) -> list[tuple[str, int, Cell]]:
    return [
        (column.name, column.type_oid, cells[column.name])
        for column in table.columns
        if column.name in cells and not column.generated
    ]


def _only(table: LocalTable) -> str:
    return f"ONLY {quoted(table.namespace)}.{quoted(table.name)}"
