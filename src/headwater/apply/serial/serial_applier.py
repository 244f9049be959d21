"""Changes applied one by one, transaction by transaction, as the server's own apply worker does.

This is the exact one: what is faster is compared with it, and falls back on it. Statements are pipelined; results are
looked at when they come. Several transactions may be between two syncs: if one fails, those after it are skipped.

Invariants: a transaction's rows, and how far the source was, are committed together, or not at all. Nothing is
committed before what came before it. A local transaction begins with the first change: an empty one leaves no trace.

PostgreSQL: worker.c (apply_dispatch and its handlers), 14 to 19.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from headwater.apply.conflicts.checked_changes import CheckedChanges
from headwater.apply.conflicts.conflicts import Conflicts
from headwater.apply.conflicts.descriptions import AppliedChange, RowChange
from headwater.apply.incoming.messages import (
    NAMES,
    Begin,
    BeginPrepare,
    Commit,
    CommitPrepared,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Prepare,
    Relation,
    RollbackPrepared,
    Truncate,
    Type,
    Update,
    read_message,
)
from headwater.apply.incoming.messages import Origin as OriginMessage
from headwater.apply.incoming.remote_transaction import RemoteTransaction
from headwater.apply.progress.origins import Origin, move
from headwater.apply.progress.positions import FlushPositions
from headwater.apply.progress.table_states import AllTables, AppliedTables
from headwater.apply.serial.sent_transactions import Place, SentTransactions, Step
from headwater.apply.target.connection import Bound, Outcome, Statement, TargetConnection
from headwater.apply.target.prepared_transactions import gid_of, has_prepared
from headwater.apply.target.refusals import changed_meanwhile, in_words_of_worker, name_grant
from headwater.apply.target.relation_map import MappingChangedError, RelationMap
from headwater.apply.target.relations import MappedRelation
from headwater.apply.target.rights import NO_ROLE, become
from headwater.apply.target.statements import delete, find, guard, insert, truncate, update
from headwater.errors import DecodingError, TargetError
from headwater.pg.lsn import Lsn, lsn_text

MOST_STATEMENTS = 2000
"""Statements between two syncs, after which the next commit is one."""

_BEGIN, _COMMIT, _ROLLBACK = (Bound(Statement(word)) for word in ("BEGIN", "COMMIT", "ROLLBACK"))
_LOCAL_END = Bound(Statement("SELECT pg_catalog.pg_current_wal_insert_lsn()"))
_FLUSHED = Bound(Statement("SELECT pg_catalog.pg_current_wal_flush_lsn()"))

_UNIQUE_VIOLATION = "23505"


class SerialApplier:
    """The applier.

    Args:
        connection: the target's, in a session for applying whose origin is set.
        relations: the source's relations, and the target's tables for them.
        origin: the session's.
        positions: gets what is durable.
        conflicts: of the session; None if none are looked for.
        tables: says of which tables changes are applied.
    """

    def __init__(
        self,
        connection: TargetConnection,
        relations: RelationMap,
        origin: Origin,
        positions: FlushPositions,
        conflicts: Conflicts | None = None,
        tables: AppliedTables | None = None,
    ) -> None:
        self._connection, self._relations, self._origin = connection, relations, origin
        self._positions, self._conflicts = positions, conflicts
        self._tables = tables or AllTables()
        self._remote: RemoteTransaction | None = None
        self._is_open = False
        self._used: dict[int, MappedRelation] = {}
        self._role: str | None = None
        self._refused: tuple[MappedRelation, Bound] | None = None
        self._statements = 0
        self._sent = SentTransactions()
        self._failed: Place | None = None
        self._to_check: Place | None = None
        self._is_careful = False
        self._size = 0
        self._server = relations.server

    @property
    def is_inside(self) -> bool:
        """Whether a transaction has begun that has not ended."""
        return self._remote is not None

    def apply(self, data: bytes, lsn: int) -> None:
        """Apply a message of pgoutput.

        Args:
            data: it; lsn: that it was sent with.

        Raises:
            TargetError: the target refuses it, or one before it; its context says which.
            DecodingError: it is malformed, or out of place.
            ConnectionLostError: the target is lost.
        """
        message, self._size = read_message(data, lsn), len(data)
        handler = _HANDLERS.get(type(message))
        if handler is None:
            raise DecodingError(f"unexpected {NAMES[data[:1]]} message of a slot", lsn=lsn)
        handler(self, message)

    def flush(self) -> None:
        """Wait until all that was sent is applied.

        Raises:
            TargetError: something of it is refused.
            MappingChangedError: it is refused, or was undone, as a table has changed meanwhile.
            ConnectionLostError: the target is lost.
        """
        self._failed = None
        if self._connection.pending:
            self._connection.sync()
        try:
            self._connection.drain()
        except TargetError as error:
            self._recover(error)
        else:
            if self._to_check is not None:
                self._check_again(self._to_check)
        self._statements = 0
        self._report()

    def _recover(self, error: TargetError) -> None:
        """Apply again with checks what has met a conflict.

        Raises:
            TargetError: it is none, or it is one that is an error.
        """
        conflicts, failed = self._conflicts, self._failed
        if conflicts is None or failed is None or error.sqlstate != _UNIQUE_VIOLATION or not conflicts.resends:
            raise self._refused_with(error) from None
        self._check_again(self._to_check or failed)

    def _check_again(self, place: Place) -> None:
        """Roll back, and apply again, with checks from a step on.

        Raises:
            TargetError: the target refuses something, or a conflict is an error.
            CheckedAnewError: the source has to send it again.
        """
        conflicts, remote = self._conflicts, self._remote
        assert conflicts is not None
        self._to_check, sent = None, self._sent.clear()
        self._undo()
        conflicts.forget([place.transaction.remote, *(transaction.remote for transaction in sent)])
        self._report()
        if self._relations.has_changed():
            raise MappingChangedError("a table has changed meanwhile", sqlstate="55000")
        if place.transaction not in sent or not all(transaction.is_whole for transaction in sent):
            raise conflicts.checked_anew(place.transaction.remote)
        for transaction in sent[sent.index(place.transaction) :]:
            self._begins(transaction.remote)
            for number, step in enumerate(transaction.steps):
                self._is_careful = transaction is place.transaction and number >= place.number
                self._repeat(step)
            # Up to its end, as what is applied with checks cannot be sent again without.
            if transaction.end is not None:
                transaction.end()
                self._is_careful = False
        self._remote = remote

    def _undo(self) -> None:
        self._connection.send(_ROLLBACK)
        self._connection.sync()
        self._connection.drain()
        self._is_open, self._role = False, None
        self._used.clear()

    def _report(self) -> None:
        """Tell of the conflicts that were met.

        Raises:
            TargetError: the target refuses what would have been stored.
        """
        if self._conflicts is None:
            return
        try:
            self._conflicts.report()
        except TargetError as error:
            raise self._judged(error) from None
        if not self._is_open:
            self._conflicts.log.write_down(self._connection)

    def _refused_with(self, error: TargetError) -> TargetError:
        """Roll back, tell of the conflicts that were met before, and return the error in the apply worker's words."""
        judged = self._judged(error)
        self._is_open = False
        self._report()
        return judged

    def _judged(self, error: TargetError) -> TargetError:
        """Return the error of what was refused, in the apply worker's words; its transaction is rolled back."""
        if self._refused is not None:
            in_words_of_worker(error, *self._refused)
        name_grant(error)
        return changed_meanwhile(self._connection, self._relations, error)

    def look_for_flushed(self) -> None:
        """Ask the target how far its WAL is durable."""
        self._send(_FLUSHED, lambda outcome: self._positions.flushed(_lsn_of(outcome)))
        self.flush()

    def begin(self, remote: RemoteTransaction) -> None:
        """Begin to apply a transaction, or name it from here on as it is now known."""
        self._begins(remote)

    def change(self, message: Message) -> None:
        """Apply a change, or what else may stand in a streamed block, to the transaction that was begun.

        Raises:
            TargetError, DecodingError, ConnectionLostError: see :meth:`apply`.
        """
        self._size = _size_of(message)
        _HANDLERS[type(message)](self, message)

    def command(self, sql: str, kind: str) -> None:
        """Send a command of the transaction's, such as SAVEPOINT; the transaction begins with it.

        Args:
            sql: it; kind: of the message that it is for.
        """
        self._ensure_open()
        # A savepoint brings the role back that was the session's.
        self._as(None)
        self._connection.send(Bound(Statement(sql)), None, self._about(kind), prepares=False)

    def commit(self, end_lsn: int, time: int, kind: str = "COMMIT") -> None:
        """Commit the transaction, if it has changed anything.

        Args:
            end_lsn, time: of the source's commit record; kind: of the message.
        """
        self._look_before_end()
        if self._is_open:
            self._end(end_lsn, time, _COMMIT, kind)
        else:
            self._positions.passed(end_lsn)
        self._remote = None

    def prepare(self, xid: int, end_lsn: int, time: int, kind: str) -> None:
        """Prepare the transaction.

        Args:
            xid: its own; end_lsn, time: of PREPARE's record; kind: of the message.
        """
        # An empty one is prepared, too: COMMIT PREPARED will ask for it.
        self._look_before_end()
        self._ensure_open()
        self._end(end_lsn, time, _transaction_command("PREPARE TRANSACTION", self._gid(xid)), kind)
        self._remote = None

    def rollback(self) -> None:
        """Roll the transaction back, and wait until that is done.

        Raises:
            ConnectionLostError: the target is lost.
        """
        if self._is_open:
            self._send(_ROLLBACK)
            self._is_open = False
        self._role = None
        self._used.clear()
        self._sent.clear()
        self._remote = None
        self.flush()

    def _look_before_end(self) -> None:
        if self._is_open and self._conflicts is not None and self._conflicts.waits_before_end(self._used.values()):
            self.flush()

    def _begin(self, message: Begin) -> None:
        self._begins(RemoteTransaction(message.xid, message.final_lsn, message.time))

    def _begins(self, remote: RemoteTransaction) -> None:
        self._remote, self._is_careful = remote, False
        if remote.finish_lsn is not None:
            self._tables.begins(remote.finish_lsn)

    def _commit(self, message: Commit) -> None:
        remote = self._required()
        if message.final_lsn != remote.finish_lsn:
            raise DecodingError(
                f"incorrect commit LSN {Lsn(message.final_lsn)} in commit message "
                f"(expected {Lsn(remote.finish_lsn or 0)})",
                lsn=message.final_lsn,
            )
        self.commit(message.end_lsn, message.time)

    def _begin_prepare(self, message: BeginPrepare) -> None:
        self._begins(RemoteTransaction(message.xid, message.prepare_lsn))

    def _prepare(self, message: Prepare) -> None:
        self.prepare(message.xid, message.end_lsn, message.time, "PREPARE")

    def _commit_prepared(self, message: CommitPrepared) -> None:
        self._remote = RemoteTransaction(message.xid, message.commit_lsn)
        self._finish_prepared(message.end_lsn, message.time, "COMMIT PREPARED", message.xid)

    def _rollback_prepared(self, message: RollbackPrepared) -> None:
        self._remote = RemoteTransaction(message.xid, message.end_lsn)
        self.flush()
        # It is not there if it was prepared before the subscription's time.
        if has_prepared(self._connection, self._gid(message.xid)):
            self._finish_prepared(message.end_lsn, message.time, "ROLLBACK PREPARED", message.xid)
        else:
            self._positions.passed(message.end_lsn)
            self._remote = None

    def _finish_prepared(self, end_lsn: int, time: int, command: str, xid: int) -> None:
        # Alone, as it cannot be in a transaction block, which several statements up to a sync are; and never after an
        # error. How far the session's origin is to be moved stays set over the end of a transaction.
        self._send(move(end_lsn, time))
        self.flush()
        self._send(_transaction_command(command, self._gid(xid)), about=self._about(command))
        self._committed(end_lsn)
        self._remote = None

    def _gid(self, xid: int) -> str:
        return gid_of(self._origin.number, xid)

    def _end(self, end_lsn: int, time: int, command: Bound, kind: str = "COMMIT") -> None:
        """End the local transaction."""
        self._as(None)
        for mapped in self._used.values():
            self._send(guard(mapped), about=self._about(kind, mapped))
        self._used.clear()
        ended = self._sent.end(partial(self._end, end_lsn, time, command, kind))
        self._send(move(end_lsn, time))
        self._send(command, lambda _: ended(), self._about(kind))
        self._is_open = False
        self._committed(end_lsn)

    def _committed(self, end_lsn: int) -> None:
        positions = self._positions
        self._send(_LOCAL_END, lambda outcome: positions.committed(end_lsn, _lsn_of(outcome)))
        if self._statements >= MOST_STATEMENTS:
            self.flush()

    def _relation(self, message: Relation) -> None:
        self._relations.announce(message.sent)
        # It may have changed in the middle of a transaction.
        self._used.pop(message.sent.oid, None)

    def _insert(self, message: Insert) -> None:
        self._row(message, "INSERT")

    def _update(self, message: Update) -> None:
        self._row(message, "UPDATE")

    def _delete(self, message: Delete) -> None:
        self._row(message, "DELETE")

    def _row(self, message: RowChange, kind: str) -> None:
        if (mapped := self._opened(message.oid, kind)) is not None:
            self._change_row(mapped, message, kind)

    def _repeat(self, step: Step) -> None:
        if callable(step):
            step()
            return
        mapped, message, kind = step
        self._use(mapped, message.oid)
        self._change_row(mapped, message, kind)

    def _change_row(self, mapped: MappedRelation, message: RowChange, kind: str) -> None:
        try:
            bound = _bound(mapped, message)
        except TargetError as error:
            # What was sent before may have failed: that came first.
            self.flush()
            error.context = self._about(kind, mapped)()
            raise
        remote, conflicts = self._required(), self._conflicts
        self._as(mapped.role)
        if conflicts is None:
            self._send(bound, None, self._about(kind, mapped, bound))
        elif self._is_careful or remote.finish_lsn in conflicts.careful:
            about = self._about(kind, mapped, bound, Place.lost(remote))
            self._check_row(conflicts, AppliedChange(mapped, message, remote, about))
        else:
            place = self._keep((mapped, message, kind))
            about = self._about(kind, mapped, bound, place)
            if isinstance(message, Insert):
                self._send(bound, None, about)
            else:
                self._send_looked_at(conflicts, AppliedChange(mapped, message, remote, about), bound, place)

    def _send_looked_at(self, conflicts: Conflicts, change: AppliedChange, bound: Bound, place: Place) -> None:
        """Send a change, and look at its result once that comes."""

        def look(outcome: Outcome) -> None:
            # Of most rows there is nothing to be seen.
            rows = outcome.rows
            if outcome.count and (not rows or rows[0][0] is None):
                return
            if conflicts.met(outcome, change) and self._to_check is None:
                self._to_check = place

        origins = change.mapped.origins
        if origins is not None and not origins.is_returned:
            assert change.search is not None
            before = find(change.mapped, change.search, has_times=True, differs=origins.differs)
            self._send(before, lambda outcome: look(outcome) if outcome.count else None, change.about)
        self._send(bound, look, change.about)

    def _check_row(self, conflicts: Conflicts, change: AppliedChange) -> None:
        """Apply a change with checks."""
        try:
            self._connection.sync()
            self._connection.drain()
            if self._to_check is not None:
                raise conflicts.checked_anew(change.remote)
            CheckedChanges(conflicts).apply(change)
        except TargetError as error:
            raise self._refused_with(error) from None

    def _keep(self, step: Step) -> Place:
        """Keep a step, so that it can be sent again."""
        remote, conflicts = self._required(), self._conflicts
        if remote.finish_lsn is None or conflicts is None or not conflicts.resends:
            return Place.lost(remote)
        return self._sent.add(remote, step, self._size)

    def _truncate(self, message: Truncate) -> None:
        mapped = [(oid, table) for oid in message.oids if (table := self._opened(oid, "TRUNCATE"))]
        if mapped:
            self._empty(mapped, message.restart_seqs)

    def _empty(self, tables: list[tuple[int, MappedRelation]], restart_seqs: bool) -> None:
        for oid, table in tables:
            self._use(table, oid)
        self._keep(partial(self._empty, tables, restart_seqs))
        # Of several owners' tables the session's role empties all, together.
        roles = {table.role for _, table in tables}
        self._as(roles.pop() if len(roles) == 1 else None)
        self._send(truncate([table for _, table in tables], restart_seqs), about=self._about("TRUNCATE"))

    def _logical_message(self, message: LogicalMessage) -> None:
        """Pass over a message, as the apply worker does."""

    def _type(self, message: Type) -> None:
        """Pass over a type's name: columns are mapped by their names, values by the target's types."""

    def _origin_message(self, message: OriginMessage) -> None:
        """See that an origin is in its place."""
        if self._remote is None or self._is_open:
            raise DecodingError("ORIGIN message sent out of order", lsn=message.lsn)

    def _opened(self, oid: int, kind: str) -> MappedRelation | None:
        """Return a relation's table, in a transaction; None if its changes are not applied, as it is being copied."""
        remote = self._required()
        mapped = self._used.get(oid)
        if mapped is None:
            if not self._relations.is_mapped(oid):
                self.flush()
            mapped = self._relations.mapped(oid, self._about(kind))
            if not self._is_applied(mapped, remote):
                return None
            self._use(mapped, oid)
        return mapped

    def _use(self, mapped: MappedRelation, oid: int) -> None:
        self._ensure_open()
        self._used[oid] = mapped

    def _is_applied(self, mapped: MappedRelation, remote: RemoteTransaction) -> bool:
        if remote.finish_lsn is not None:
            return self._tables.applies(mapped.oid, remote.finish_lsn)
        if not self._tables.is_ready(mapped.oid):
            raise TargetError("a transaction that runs is applied only where all tables are ready", sqlstate="55000")
        return True

    def _as(self, role: str | None) -> None:
        """Make a role that of what is sent from here on in the transaction."""
        if role != self._role:
            self._send(NO_ROLE if role is None else become(role))
            self._role = role

    def _required(self) -> RemoteTransaction:
        if self._remote is None:
            raise DecodingError("a change is sent outside of a transaction")
        return self._remote

    def _ensure_open(self) -> None:
        if not self._is_open:
            self._send(_BEGIN)
            self._is_open = True

    def _send(
        self, bound: Bound, take: Callable[[Outcome], None] | None = None, about: Callable[[], str] | None = None
    ) -> None:
        self._statements += 1
        self._connection.send(bound, take, about)

    def _about(
        self,
        kind: str,
        mapped: MappedRelation | None = None,
        bound: Bound | None = None,
        place: Place | None = None,
    ) -> Callable[[], str]:
        remote, origin, server = self._remote, self._origin, self._server

        def text() -> str:
            self._failed = place
            self._refused = None if mapped is None or bound is None else (mapped, bound)
            target = f' for replication target relation "{mapped.namespace}.{mapped.name}"' if mapped else ""
            where = f" in transaction {remote.xid}" if remote else ""
            if remote and remote.finish_lsn is not None:
                where += f", finished at {lsn_text(remote.finish_lsn, server)}"
            return (
                f'processing remote data for replication origin "{origin.name}" during message type '
                f'"{kind}"{target}{where}'
            )

        return text


def _size_of(message: Message) -> int:
    """Return how many bytes the values of a message have, about."""
    if not isinstance(message, Insert | Update):
        return 0
    return sum(map(len, filter(None, message.new.values)))


def _bound(mapped: MappedRelation, message: RowChange) -> Bound:
    if isinstance(message, Insert):
        return insert(mapped, message.new)
    if isinstance(message, Update):
        return update(mapped, message.old, message.new)
    return delete(mapped, message.old)


def _transaction_command(command: str, gid: str) -> Bound:
    # Names of prepared transactions here have no quotes in them.
    return Bound(Statement(f"{command} '{gid}'"))


def _lsn_of(outcome: Outcome) -> int:
    ((lsn,),) = outcome.rows
    assert lsn is not None
    return int(Lsn.parse(lsn))


_HANDLERS: dict[type[Message], Callable[[SerialApplier, Any], None]] = {
    Begin: SerialApplier._begin,
    Commit: SerialApplier._commit,
    OriginMessage: SerialApplier._origin_message,
    Relation: SerialApplier._relation,
    Type: SerialApplier._type,
    Insert: SerialApplier._insert,
    Update: SerialApplier._update,
    Delete: SerialApplier._delete,
    Truncate: SerialApplier._truncate,
    LogicalMessage: SerialApplier._logical_message,
    BeginPrepare: SerialApplier._begin_prepare,
    Prepare: SerialApplier._prepare,
    CommitPrepared: SerialApplier._commit_prepared,
    RollbackPrepared: SerialApplier._rollback_prepared,
}
