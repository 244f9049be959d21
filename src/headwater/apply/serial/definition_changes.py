"""DDL that comes among the changes: applied to the target in its place, or a table held until the target's fits.

In: what the source's catalog has changed, in the transaction that has (``plugins/pgoutput/definitions.py``). Out:
statements on the target, in the same transaction as the rows; or an error that holds the table.

- ``apply``: changes of tables of the subscription and of what comes to its publications; types, schemas and sequences
  whatever table they are for, as a table may come that needs them. What is there already is left as it is.
- ``hold``: a table whose columns have changed is held unless the target's has these columns already. A server's slot
  tells no DDL: there a table is held once columns come that the target's does not have.

Rows that the source has computed as it changed a table are not in the log as changes: another type, a default that is
no constant. Where the target has rows, they are removed, and the table is copied anew from behind the transaction.

Invariants: a change of a table is applied by whoever applies the changes of its rows. What cannot be applied is an
error, and nothing of its transaction stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.apply.progress.installation import SCHEMA
from headwater.apply.progress.subscriptions import (
    State,
    SubscribedTable,
    Subscription,
    add_table,
    read_table,
    remove_table,
    rename_table,
    set_state,
)
from headwater.apply.progress.table_states import AppliedTables, TableStates
from headwater.apply.target.connection import TargetConnection
from headwater.definitions.events import ALTER, CREATE, DROP
from headwater.errors import ConnectionLostError, TargetError
from headwater.pg.lsn import Lsn
from headwater.plugins.pgoutput.definitions import DefinitionChange, Name
from headwater.receiver.replication_connection import quoted

HELD = "55000"
_HINT_HELD = "change the table on the target; its changes since go on by themselves then"
_OF_TABLES = ("table", "constraint", "index", "comment")
_SHARED = {
    "schema": "SELECT pg_catalog.to_regnamespace($1) IS NOT NULL",
    "type": "SELECT pg_catalog.to_regtype($1) IS NOT NULL",
    "domain": "SELECT pg_catalog.to_regtype($1) IS NOT NULL",
    "sequence": "SELECT pg_catalog.to_regclass($1) IS NOT NULL",
    "extension": "SELECT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE pg_catalog.quote_ident(extname) = $1)",
}
"""Kinds of objects that tables need, and how it is asked whether there is one of a name."""

_UNDEFINED = ("42704", "42P01", "3F000", "42703")
"""SQLSTATEs of an object, a relation, a schema, a column that is not there."""

_LOCAL = """
SELECT c.oid, c.relkind::text, (SELECT pg_catalog.string_agg(a.relid::oid::text, ',')
                                FROM pg_catalog.pg_partition_ancestors(c.oid) a)
FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass($1)
"""
_COLUMNS = """
SELECT attname, pg_catalog.format_type(atttypid, atttypmod) FROM pg_catalog.pg_attribute
WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped
"""


class HeldTableError(TargetError):
    """A table whose definition has changed is held.

    Args:
        message, sqlstate, detail, hint, context: see :class:`headwater.errors.TargetError`.

    Attributes:
        oid: the table's, on the target; table_lsn: START of the commit record of the transaction that has changed it.
    """

    oid: int
    table_lsn: int


@dataclass(frozen=True)
class _Local:
    """A table of the target: its OID, ``relkind``, and itself with what it is a partition of."""

    oid: int
    kind: str
    line: tuple[int, ...]


@dataclass(frozen=True)
class DefinitionChanges:
    """The rule.

    Attributes:
        connection: the target's; subscription: whose tables.
        mode: ``apply`` or ``hold``; indexes: see :class:`headwater.apply.incoming.requests.DefinitionRequest`.
        states: of all tables; applied: which changes are applied here.
        is_main: what is not of one table is applied here, too.
        say: is told of tables that come, go, or are copied anew.
        is_of_server: the source is a server's slot, which tells no DDL: a table that does not fit is held.
    """

    connection: TargetConnection
    subscription: Subscription
    mode: str
    indexes: str
    states: TableStates
    applied: AppliedTables
    is_main: bool
    say: Callable[[str], None]
    is_of_server: bool = False
    _made: set[Name] = field(default_factory=set)
    _left: dict[Name, int] = field(default_factory=dict)

    def is_due(self, change: DefinitionChange, finish_lsn: int) -> bool:
        """Tell whether anything is to be done about a change.

        Args:
            change: it; finish_lsn: START of the commit record of its transaction.
        """
        if _is_bookkeeping(change):
            return False
        if change.kind in _SHARED:
            return self.mode == "apply" and self.is_main and self._is_wanted(change)
        if change.kind not in _OF_TABLES:
            return False
        name = change.was or change.table
        local = None if name is None else self._local(name)
        if name is not None and self._left.get(name) == finish_lsn:
            return False
        if name is None or local is None or (change.action == CREATE and change.kind == "table"):
            return self._is_due_new(change, local)
        if change.kind == "index" and self.indexes == "none":
            return False
        own = self._subscribed(local)
        if own is not None and self.mode == "apply":
            return self.is_main or self.applied.applies(own, finish_lsn)
        if own is not None:
            return self.applied.applies(own, finish_lsn) and not self._fits(change)
        return self.mode == "apply" and self.is_main and change.is_published

    def _is_due_new(self, change: DefinitionChange, local: _Local | None) -> bool:
        """Tell whether a table that the target may not have is to be made, or to belong to the subscription."""
        is_wanted = change.kind == "table" and change.is_published and self.mode == "apply" and self.is_main
        if not is_wanted or change.table is None:
            return False
        parent = None if change.parent is None else self._local(change.parent)
        if change.action == ALTER:
            # The target lacks a table that has become a partition: that it does is an error.
            return parent is not None and parent.kind == "p" and any(" ATTACH PARTITION " in sql for sql in change.sql)
        if change.action != CREATE or (parent is not None and parent.kind != "p"):
            return False
        is_there = local is not None and change.table not in self._made
        return not is_there or (change.is_listed and change.part == 0)

    def _is_wanted(self, change: DefinitionChange) -> bool:
        """Tell whether an object that tables may need is not as it is to be already."""
        exists = self.connection.rows(_SHARED[change.kind], (change.name,)) == [("t",)]
        if change.kind == "extension":
            return change.action == CREATE and not exists
        if change.action == CREATE and change.part:
            return ("", change.name) in self._made
        # Under its new name it is not there yet.
        return (change.action == CREATE) != exists or (change.action == ALTER)

    def run(self, change: DefinitionChange, finish_lsn: int) -> None:
        """Apply a change, in the transaction that the connection is in; or hold its table.

        Raises:
            HeldTableError: the table is to be held.
            TargetError: the change cannot be applied.
        """
        if self.mode == "hold":
            raise self._held(change, finish_lsn)
        if not self._is_ours(change, finish_lsn):
            return
        if change.unsupported:
            raise TargetError(
                f"{change.action} {change.kind} {change.name} cannot be applied: {change.unsupported}",
                sqlstate="0A000",
                hint="change the target, and skip the transaction, or go on with --ddl ignore",
                context=_place(finish_lsn),
            )
        is_left = self._is_there(change)
        for sql in () if is_left else change.sql:
            if change.kind in _SHARED:
                self._made.add(("", change.name))
                self._run_if_there(sql, finish_lsn)
            else:
                self._run(sql, finish_lsn)
        if change.kind == "table":
            self._note(change, finish_lsn)
        if is_left and change.table is not None:
            self._left[change.table] = finish_lsn
            self._made.discard(change.table)

    def _is_there(self, change: DefinitionChange) -> bool:
        """Tell whether a table that the source has made is on the target already, where it is left as it is."""
        if change.kind != "table" or change.action != CREATE or change.table in self._made or change.table is None:
            return False
        return self._local(change.table) is not None

    def _run(self, sql: str, finish_lsn: int) -> None:
        try:
            self.connection.rows(sql)
        except ConnectionLostError:
            raise
        except TargetError as error:
            error.context = "\n".join(filter(None, [error.context, f"SQL statement: {sql}", _place(finish_lsn)]))
            raise

    def _is_ours(self, change: DefinitionChange, finish_lsn: int) -> bool:
        """Tell whether a table's change is applied here; a copy of its rows that has not begun is put behind it.

        A copy that runs holds its table's row of the subscription, and is waited for: its worker goes on from there.
        """
        name = change.was or change.table
        local = None if name is None or change.kind in _SHARED else self._local(name)
        own = None if local is None else self._subscribed(local)
        if own is None or self.applied.applies(own, finish_lsn):
            return True
        table = read_table(self.connection, self.subscription, own)
        # This transaction may have put it behind itself already.
        if table is None or table.state not in (State.INIT, State.DATASYNC) or finish_lsn + 1 < table.lsn:
            return False
        self._set(own, State.INIT, finish_lsn + 1)
        return True

    def _set(self, oid: int, state: State, lsn: int) -> None:
        self.connection.send(set_state(self.subscription, oid, state, lsn))
        self.connection.sync()
        self.connection.drain()
        self.states.set(oid, state, lsn)

    def passes_over(self, name: Name, finish_lsn: int) -> int | None:
        """Return the table of the subscription whose rows' changes are not applied here; None if they are.

        That is so whatever columns it has now.
        """
        local = self._local(name)
        own = None if local is None else self._subscribed(local)
        return None if own is None or self.applied.applies(own, finish_lsn) else own

    def misfit(self, name: Name, finish_lsn: int, error: TargetError) -> TargetError:
        """Return the error that is raised where a table does not take the columns that come.

        Args:
            name: the table's; finish_lsn: of the transaction; error: why it does not.
        """
        local = self._local(name) if self.is_of_server and error.sqlstate == HELD else None
        own = None if local is None else self._subscribed(local)
        if own is None:
            return error
        held = HeldTableError(
            f'table "{".".join(name)}" is held: it does not fit what comes from the source any more',
            sqlstate=HELD,
            detail=error.message,
            hint=_HINT_HELD,
            context=error.context,
        )
        held.oid, held.table_lsn = own, finish_lsn
        return held

    def _run_if_there(self, sql: str, finish_lsn: int) -> None:
        """Run a statement about what tables may need; it is left out where what it names is not there."""
        self.connection.rows("SAVEPOINT ddl")
        try:
            self._run(sql, finish_lsn)
        except TargetError as error:
            if error.sqlstate not in _UNDEFINED:
                raise
            self.connection.rows("ROLLBACK TO SAVEPOINT ddl")
            self.say(f"left out: {sql}: {error.message}")
        self.connection.rows("RELEASE SAVEPOINT ddl")

    def _note(self, change: DefinitionChange, finish_lsn: int) -> None:
        """Let the subscription have a table that has come, another name of it, or it no more."""
        if change.action == DROP:
            self._drop_gone()
            return
        assert change.table is not None
        local = self._local(change.table)
        if local is None:
            return
        if change.action == CREATE:
            self._made.add(change.table)
            if change.is_listed and change.part == 0 and self._subscribed(local) is None:
                self._add(change.table, local.oid, finish_lsn)
            return
        own = self._subscribed(local)
        if own == local.oid and change.was != change.table:
            rename_table(self.connection, self.subscription, own, change.table)
        if own is not None and change.copies:
            self._copy_anew(own, change, finish_lsn)

    def _add(self, name: Name, oid: int, finish_lsn: int) -> None:
        add_table(self.connection, self.subscription, oid, name, State.READY, finish_lsn)
        self.states.add(SubscribedTable(oid, *name, State.READY, finish_lsn))
        self.say(f'table "{".".join(name)}" added to subscription "{self.subscription.name}"')

    def _drop_gone(self) -> None:
        for table in self.states.tables:
            if not self.connection.rows("SELECT 1 FROM pg_catalog.pg_class WHERE oid = $1::oid", (str(table.oid),)):
                remove_table(self.connection, self.subscription, table.oid)
                self.states.remove(table.oid)

    def _copy_anew(self, oid: int, change: DefinitionChange, finish_lsn: int) -> None:
        """Remove the rows of a table, and have it copied as it is behind the transaction."""
        ((name,),) = self.connection.rows("SELECT $1::oid::regclass::text", (str(oid),))
        if self.connection.rows(f"SELECT NOT EXISTS (SELECT FROM {name})") == [("t",)]:
            return
        self._run(f"DELETE FROM {name}", finish_lsn)
        self._set(oid, State.INIT, finish_lsn + 1)
        self.say(f"table {name} is copied anew: {change.copies}")

    def _held(self, change: DefinitionChange, finish_lsn: int) -> HeldTableError:
        name = change.was or change.table
        local = None if name is None else self._local(name)
        assert name is not None
        error = HeldTableError(
            f'table "{".".join(name)}" is held: its definition has changed on the source',
            sqlstate=HELD,
            detail="; ".join(change.sql) or change.unsupported,
            hint=_HINT_HELD,
            context=_place(finish_lsn),
        )
        own = None if local is None else self._subscribed(local)
        error.oid, error.table_lsn = own or 0, finish_lsn
        return error

    def _fits(self, change: DefinitionChange) -> bool:
        """Tell whether the target's table has the columns that a change has led to."""
        if change.kind != "table" or change.action != ALTER or change.columns is None or change.table is None:
            return True
        local = self._local(change.table)
        if local is None:
            return False
        present = {(str(name), str(type)) for name, type in self.connection.rows(_COLUMNS, (str(local.oid),))}
        names = {name for name, _ in present}
        return present.issuperset(change.columns) and names.isdisjoint(change.dropped)

    def _local(self, name: Name) -> _Local | None:
        rows = self.connection.rows(_LOCAL, (".".join(map(quoted, name)),))
        if not rows:
            return None
        oid, kind, line = rows[0]
        members = tuple(map(int, line.split(","))) if line else (int(str(oid)),)
        return _Local(int(str(oid)), str(kind), members)

    def _subscribed(self, local: _Local) -> int | None:
        """Return the table of the subscription that a table's rows come with."""
        known = {table.oid for table in self.states.tables}
        return next((oid for oid in (local.oid, *local.line) if oid in known), None)


def _is_bookkeeping(change: DefinitionChange) -> bool:
    """Tell whether a change is about the source's own schema ``headwater``: each server has its own."""
    if change.kind == "schema" and change.name == SCHEMA:
        return True
    name = change.table or change.was
    return change.name.startswith(f"{SCHEMA}.") if name is None else name[0] == SCHEMA


def _place(finish_lsn: int) -> str:
    return f"applying DDL of the transaction finished at {Lsn(finish_lsn)}"
