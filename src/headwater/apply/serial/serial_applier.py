"""Changes applied one by one, transaction by transaction, as the server's own apply worker does.

This is the exact one: what is faster is compared with it, and falls back on it. Statements are pipelined; results are
looked at when they come. Several transactions may be between two syncs: if one fails, those after it are skipped.

Invariants: a transaction's rows, and how far the source was, are committed together, or not at all. Nothing is
committed before what came before it. A local transaction begins with the first change: an empty one leaves no trace.

PostgreSQL: worker.c (apply_dispatch and its handlers), 14 to 19.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

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
from headwater.apply.progress.origins import Origin, move
from headwater.apply.progress.positions import FlushPositions
from headwater.apply.progress.table_states import AllTables, AppliedTables
from headwater.apply.target.connection import Bound, Outcome, Statement, TargetConnection
from headwater.apply.target.prepared_transactions import gid_of, has_prepared
from headwater.apply.target.refusals import changed_meanwhile, in_words_of_worker, name_grant
from headwater.apply.target.relation_map import RelationMap
from headwater.apply.target.relations import MappedRelation
from headwater.apply.target.rights import NO_ROLE, become
from headwater.apply.target.statements import delete, guard, insert, truncate, update
from headwater.errors import DecodingError, TargetError
from headwater.pg.lsn import Lsn
from headwater.plugins.pgoutput.definitions import PREFIX, DefinitionChange

MOST_STATEMENTS = 2000
"""Statements between two syncs, after which the next commit is one."""

_BEGIN, _COMMIT, _ROLLBACK = (Bound(Statement(word)) for word in ("BEGIN", "COMMIT", "ROLLBACK"))
_LOCAL_END = Bound(Statement("SELECT pg_catalog.pg_current_wal_insert_lsn()"))
_FLUSHED = Bound(Statement("SELECT pg_catalog.pg_current_wal_flush_lsn()"))

Missing = Callable[[MappedRelation, Update | Delete], None]
"""Is told of a row that was not there to be changed."""


class Definitions(Protocol):
    """A rule for DDL that comes."""

    def is_due(self, change: DefinitionChange, finish_lsn: int) -> bool:
        """Tell whether anything is to be done about a change, of a transaction that ends there."""

    def run(self, change: DefinitionChange, finish_lsn: int) -> None:
        """Do it, in the transaction that the connection is in."""

    def passes_over(self, name: tuple[str, str], finish_lsn: int) -> bool:
        """Tell whether changes of a table's rows are not applied here, whatever columns it has now."""


@dataclass(frozen=True)
class RemoteTransaction:
    """The source's transaction that is being applied.

    Attributes:
        xid: its own.
        finish_lsn: START of its commit record, which messages name as where it is finished; None while it still runs.
    """

    xid: int
    finish_lsn: int | None


class SerialApplier:
    """The applier.

    Args:
        connection: the target's, in a session for applying whose origin is set.
        relations: the source's relations, and the target's tables for them.
        origin: the session's.
        positions: gets what is durable.
        missing: is told of rows that are not there.
        tables: says of which tables changes are applied.
        definitions: takes the DDL that comes among the changes; None to pass over it.
    """

    def __init__(
        self,
        connection: TargetConnection,
        relations: RelationMap,
        origin: Origin,
        positions: FlushPositions,
        missing: Missing = lambda *_: None,
        tables: AppliedTables | None = None,
        definitions: Definitions | None = None,
    ) -> None:
        self._connection, self._relations, self._origin = connection, relations, origin
        self._positions, self._missing = positions, missing
        self._tables, self._definitions = tables or AllTables(), definitions
        self._remote: RemoteTransaction | None = None
        self._is_open = False
        self._used: dict[int, MappedRelation] = {}
        self._role: str | None = None
        self._refused: tuple[MappedRelation, Bound] | None = None
        self._statements = 0

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
        message = read_message(data, lsn)
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
        if self._connection.pending:
            self._connection.sync()
        try:
            self._connection.drain()
        except TargetError as error:
            raise self._judged(error) from None
        self._statements = 0

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
        self._remote = None
        self.flush()

    def _begin(self, message: Begin) -> None:
        self._begins(RemoteTransaction(message.xid, message.final_lsn))

    def _begins(self, remote: RemoteTransaction) -> None:
        self._remote = remote
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
        self._send(move(end_lsn, time))
        self._send(command, about=self._about(kind))
        self._is_open = False
        self._committed(end_lsn)

    def _committed(self, end_lsn: int) -> None:
        positions = self._positions
        self._send(_LOCAL_END, lambda outcome: positions.committed(end_lsn, _lsn_of(outcome)))
        if self._statements >= MOST_STATEMENTS:
            self.flush()

    def _relation(self, message: Relation) -> None:
        self._relations.announce(message.sent)
        used = self._used.pop(message.sent.oid, None)
        if used is not None:  # The transaction has changed it: what comes has other columns.
            self._send(guard(used), about=self._about("RELATION", used))

    def _insert(self, message: Insert) -> None:
        if (mapped := self._opened(message.oid, "INSERT")) is not None:
            self._change(lambda: insert(mapped, message.new), "INSERT", mapped)

    def _update(self, message: Update) -> None:
        if (mapped := self._opened(message.oid, "UPDATE")) is None:
            return
        self._change(
            lambda: update(mapped, message.old, message.new),
            "UPDATE",
            mapped,
            lambda outcome: self._note(outcome, mapped, message),
        )

    def _delete(self, message: Delete) -> None:
        if (mapped := self._opened(message.oid, "DELETE")) is None:
            return
        self._change(
            lambda: delete(mapped, message.old),
            "DELETE",
            mapped,
            lambda outcome: self._note(outcome, mapped, message),
        )

    def _note(self, outcome: Outcome, mapped: MappedRelation, message: Update | Delete) -> None:
        if not outcome.count:
            self._missing(mapped, message)

    def _truncate(self, message: Truncate) -> None:
        mapped = [table for oid in message.oids if (table := self._opened(oid, "TRUNCATE"))]
        if mapped:
            # Of several owners' tables the session's role empties all, together.
            roles = {relation.role for relation in mapped}
            self._as(roles.pop() if len(roles) == 1 else None)
            self._send(truncate(mapped, message.restart_seqs), about=self._about("TRUNCATE"))

    def _logical_message(self, message: LogicalMessage) -> None:
        """Pass over a message, as the apply worker does, unless it is DDL that is to be applied."""
        if self._definitions is None or message.prefix != PREFIX or not message.transactional:
            return
        change, finish_lsn = DefinitionChange.of_message(message.content), self._required().finish_lsn
        assert finish_lsn is not None
        self.flush()
        if not self._definitions.is_due(change, finish_lsn):
            return
        self._ensure_open()
        self._as(None)
        for mapped in self._used.values():
            self._send(guard(mapped), about=self._about("DDL", mapped))
        self._used.clear()
        self.flush()
        self._definitions.run(change, finish_lsn)
        self._relations.forget()

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
            try:
                mapped = self._relations.mapped(oid, self._about(kind))
            except TargetError:
                if self._passes_over(oid, remote):
                    return None
                raise
            if not self._is_applied(mapped, remote):
                return None
            self._ensure_open()
            self._used[oid] = mapped
        return mapped

    def _passes_over(self, oid: int, remote: RemoteTransaction) -> bool:
        """Tell whether another worker has yet to change a table before it fits what comes here."""
        sent = self._relations.sent(oid)
        if self._definitions is None or sent is None or remote.finish_lsn is None:
            return False
        return self._definitions.passes_over((sent.namespace, sent.name), remote.finish_lsn)

    def _is_applied(self, mapped: MappedRelation, remote: RemoteTransaction) -> bool:
        if remote.finish_lsn is not None:
            return self._tables.applies(mapped.oid, remote.finish_lsn)
        if not self._tables.is_ready(mapped.oid):
            raise TargetError("a transaction that runs is applied only where all tables are ready", sqlstate="55000")
        return True

    def _change(
        self,
        change: Callable[[], Bound],
        kind: str,
        mapped: MappedRelation,
        take: Callable[[Outcome], None] | None = None,
    ) -> None:
        try:
            bound = change()
        except TargetError as error:
            # What was sent before may have failed: that came first.
            self.flush()
            error.context = self._about(kind, mapped)()
            raise
        self._as(mapped.role)
        self._send(bound, take, self._about(kind, mapped, bound))

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

    def _about(self, kind: str, mapped: MappedRelation | None = None, bound: Bound | None = None) -> Callable[[], str]:
        remote, origin = self._remote, self._origin

        def text() -> str:
            self._refused = None if mapped is None or bound is None else (mapped, bound)
            target = f' for replication target relation "{mapped.namespace}.{mapped.name}"' if mapped else ""
            place = f" in transaction {remote.xid}" if remote else ""
            if remote and remote.finish_lsn is not None:
                place += f", finished at {Lsn(remote.finish_lsn)}"
            return (
                f'processing remote data for replication origin "{origin.name}" during message type '
                f'"{kind}"{target}{place}'
            )

        return text


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
