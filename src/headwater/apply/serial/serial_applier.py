"""Changes applied one by one, transaction by transaction, as the server's own apply worker does.

This is the exact one: what is faster is compared with it, and falls back on it. Statements are pipelined; results are
looked at when they come. Several transactions may be between two syncs: if one fails, those after it are skipped.

Invariants: a transaction's rows, and how far the source was, are committed together, or not at all. Nothing is
committed before what came before it. A local transaction begins with the first change: an empty one leaves no trace.

PostgreSQL: worker.c (apply_dispatch and its handlers), 14 to 19.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

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
from headwater.apply.progress.origin_progress import come_to, will_end
from headwater.apply.progress.origins import CHECK_DEFERRED, move
from headwater.apply.refused.dead_letters import Place as PlaceOfLetter
from headwater.apply.refused.set_aside import is_of_row, parted
from headwater.apply.serial.checked_applier import UNDO, CheckedApplier, TakenAgainError
from headwater.apply.target.connection import Bound, Outcome, Statement
from headwater.apply.target.prepared_transactions import gid_of, has_prepared
from headwater.apply.target.refusals import changed_meanwhile
from headwater.apply.target.statements import guard
from headwater.apply.target.transaction_commands import BEGIN, COMMIT, LOCAL_END, ROLLBACK, WRITE_COMMIT, lsn_of
from headwater.errors import DecodingError, TargetError
from headwater.pg.lsn import lsn_text
from headwater.plugins.pgoutput.definitions import PREFIX, DefinitionChange

MOST_STATEMENTS = 2000
"""Statements between two syncs, after which the next commit is one."""

_SAVEPOINT, _RELEASE = Bound(Statement("SAVEPOINT headwater_row")), Bound(Statement("RELEASE SAVEPOINT headwater_row"))
_FLUSHED = Bound(Statement("SELECT pg_catalog.pg_current_wal_flush_lsn()"))


class SerialApplier(CheckedApplier):
    """The applier; see :class:`headwater.apply.serial.target_transaction.TargetTransaction`."""

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
        self._take(message, len(data))

    def look_for_flushed(self) -> None:
        """Ask the target how far its WAL is durable."""
        if not self._is_open and self._positions.is_late():
            self._send(WRITE_COMMIT)
        self._send(_FLUSHED, lambda outcome: self._positions.flushed(lsn_of(outcome)))
        self.flush()

    def begin(self, remote: RemoteTransaction) -> None:
        """Begin to apply a transaction, or name it from here on as it is now known."""
        self._begins(remote)

    def change(self, message: Message) -> None:
        """Apply a change, or what else may stand in a streamed block, to the transaction that was begun.

        Raises:
            TargetError, DecodingError, ConnectionLostError: see :meth:`apply`.
        """
        self._take(message, _size_of(message))

    def _take(self, message: Message, size: int) -> None:
        """Take a message, of about so many bytes."""
        self._size = size
        if type(message) not in _CHANGES:
            _HANDLERS[type(message)](self, message)
            return
        assert isinstance(message, Insert | Update | Delete | Truncate)
        self._number += 1
        is_simple = self._aside.is_idle or self._skipping.is_skipping
        # What is kept of a TRUNCATE for paused tables is sent again with what was before it.
        self._is_taking = is_simple or not isinstance(message, Truncate)
        try:
            _HANDLERS[type(message)](self, message) if is_simple else self._set_aside(message)
        except TakenAgainError:
            self._is_taking = False
            self._set_aside(message)
        finally:
            self._is_taking = False

    def _set_aside(self, message: Insert | Update | Delete | Truncate) -> None:
        """Apply a change, unless it is kept for a paused table, or refused and put aside."""
        if isinstance(message, Truncate):
            paused = {oid for oid in message.oids if self._aside.is_paused(self._name(oid))}
            for oid in message.oids:
                if oid in paused:
                    self._put_aside(oid, replace(message, oids=(oid,)))
            if (left := parted(message, paused)) is not None:
                self._truncate(left)
        elif self._aside.is_paused(name := self._name(message.oid)):
            self._put_aside(message.oid, message)
        elif self._aside.is_careful(name):
            self._carefully(message)
        else:
            _HANDLERS[type(message)](self, message)

    def _put_aside(
        self, oid: int, message: Insert | Update | Delete | Truncate, error: TargetError | None = None
    ) -> None:
        """Put a change aside, in the transaction that it is left out of."""
        relation, remote = self._relations.sent(oid), self._required()
        assert relation is not None
        place = PlaceOfLetter(remote.xid, remote.finish_lsn or 0, self._number, remote.time)
        if error is None or isinstance(message, Truncate):
            letters = self._aside.keep(relation, message, place)
        else:
            letters = self._aside.put(relation, message, place, error)
        self._send_letters(letters, type(message).__name__.upper())

    def _send_letters(self, letters: list[Bound], kind: str) -> None:
        self._keep(partial(self._send_letters, letters, kind))
        self._ensure_open()
        self._as(None)
        for letter in letters:
            self._send(letter, about=self._about(kind))

    def _carefully(self, message: Insert | Update | Delete) -> None:
        """Apply a change by itself; if the row is refused, it is put aside."""
        if self._opened(message.oid, type(message).__name__.upper()) is None:
            return
        self.flush()
        self._lose()
        role, self._refused, self._is_guarded = self._role, None, True
        self._send(_SAVEPOINT)
        try:
            _HANDLERS[type(message)](self, message)
            self._send(_RELEASE)
            self.flush()
        except TargetError as error:
            self._is_guarded = False
            if not (self._has_refused_row() and is_of_row(error)):
                raise changed_meanwhile(self._connection, self._relations, error) from None
            self._connection.rows(UNDO)
            self._connection.rows(_RELEASE.statement.sql)
            self._role = role
            self._put_aside(message.oid, message, error)
        finally:
            self._is_guarded = False

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
        if self._skipping.completes():
            self._ensure_open()
        if self._is_open:
            self._clear_skip(self._required().finish_lsn)
            self._end(end_lsn, time, COMMIT, kind)
        else:
            # What was sent before may be refused still: the source must not forget it.
            self._positions.passed(end_lsn, is_settled=not self._connection.pending)
        self._remote = None

    def _clear_skip(self, finish_lsn: int | None) -> None:
        """Take back what is to be skipped, as a transaction ends."""
        if not self._skipping.is_set or not finish_lsn:
            return
        for statement, take in self._skipping.clear(finish_lsn):
            self._as(None)
            self._send(statement, take)

    def prepare(self, xid: int, end_lsn: int, time: int, kind: str) -> None:
        """Prepare the transaction.

        Args:
            xid: its own; end_lsn, time: of PREPARE's record; kind: of the message.
        """
        # An empty one is prepared, too: COMMIT PREPARED will ask for it.
        self._look_before_end()
        self._ensure_open()
        self._end(end_lsn, time, _transaction_command("PREPARE TRANSACTION", self._gid(xid)), kind)
        self._skipping.completes()
        self._clear_skip_apart(self._required().finish_lsn)
        self._remote = None

    def _clear_skip_apart(self, finish_lsn: int | None) -> None:
        """Take it back by itself, as what is prepared may be rolled back."""
        if self._skipping.is_set:
            self.flush()
            self._send(BEGIN)
            self._clear_skip(finish_lsn)
            self._send(COMMIT)

    def rollback(self) -> None:
        """Roll the transaction back, and wait until that is done.

        Raises:
            ConnectionLostError: the target is lost.
        """
        if self._is_open:
            self._send(ROLLBACK)
            self._is_open = False
        self._role = None
        self._used.clear()
        self._sent.clear()
        self._remote = None
        self._skipping.is_skipping = False
        self.flush()

    def _look_before_end(self) -> None:
        if self._is_open and self._conflicts is not None and self._conflicts.waits_before_end(self._used.values()):
            self.flush()

    def _begin(self, message: Begin) -> None:
        self._begins(RemoteTransaction(message.xid, message.final_lsn, message.time))

    def _begins(self, remote: RemoteTransaction) -> None:
        self._remote, self._number, self._is_careful, self._is_close = remote, 0, False, False
        if remote.finish_lsn is not None:
            self._aside.begins(remote.finish_lsn)
            self._tables.begins(remote.finish_lsn)
            self._skipping.begins(remote.finish_lsn)

    def _commit(self, message: Commit) -> None:
        remote = self._required()
        if message.final_lsn != remote.finish_lsn:
            raise DecodingError(
                f"incorrect commit LSN {lsn_text(message.final_lsn, self._server)} in commit message "
                f"(expected {lsn_text(remote.finish_lsn or 0, self._server)})",
                lsn=message.final_lsn,
            )
        self.commit(message.end_lsn, message.time)

    def _begin_prepare(self, message: BeginPrepare) -> None:
        self.will_end(message.xid, message.end_lsn, is_prepared=True)
        self._begins(RemoteTransaction(message.xid, message.prepare_lsn))

    def will_end(self, xid: int, end_lsn: int, *, is_prepared: bool) -> None:
        """Note that a transaction is to be prepared next, or that one which is prepared is to end.

        Args:
            xid: its own; end_lsn: of the record of this; is_prepared: it is to be prepared.
        """
        # What was sent before may be sent again, this may not.
        self.flush()
        for statement in (BEGIN, will_end(self._gid(xid), end_lsn, is_prepared=is_prepared), COMMIT):
            self._send(statement)

    def _prepare(self, message: Prepare) -> None:
        self.prepare(message.xid, message.end_lsn, message.time, "PREPARE")

    def _commit_prepared(self, message: CommitPrepared) -> None:
        self._remote = RemoteTransaction(message.xid, message.commit_lsn)
        self.flush()
        # If it is not there, the target's error says so.
        if has_prepared(self._connection, self._gid(message.xid)):
            self.will_end(message.xid, message.end_lsn, is_prepared=False)
        self._finish_prepared(message.end_lsn, message.time, "COMMIT PREPARED", message.xid)

    def _rollback_prepared(self, message: RollbackPrepared) -> None:
        self._remote = RemoteTransaction(message.xid, message.end_lsn)
        self.flush()
        # It is not there if it was prepared before the subscription's time.
        if has_prepared(self._connection, self._gid(message.xid)):
            self.will_end(message.xid, message.end_lsn, is_prepared=False)
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
        self._clear_skip_apart(end_lsn)
        self._remote = None

    def _gid(self, xid: int) -> str:
        return gid_of(self._origin.number, xid)

    def _end(self, end_lsn: int, time: int, command: Bound, kind: str = "COMMIT") -> None:
        """End the local transaction."""
        self._as(None)
        for mapped in self._used.values():
            self._send(guard(mapped), about=self._about(kind, mapped))
        self._used.clear()
        forget, finish_lsn = (
            self._sent.end(partial(self._end, end_lsn, time, command, kind)),
            self._required().finish_lsn,
        )

        def ended(_: Outcome) -> None:
            self._ended_at = finish_lsn or 0
            forget()

        if command is COMMIT:
            self._send(come_to(end_lsn), about=self._about(kind))
        self._send(CHECK_DEFERRED, about=self._about(kind))
        self._send(move(end_lsn, time))
        self._send(command, ended, self._about(kind))
        self._is_open = False
        self._aside.ends()
        self._committed(end_lsn)

    def _committed(self, end_lsn: int) -> None:
        positions = self._positions
        self._send(LOCAL_END, lambda outcome: positions.committed(end_lsn, lsn_of(outcome)))
        if self._statements >= MOST_STATEMENTS:
            self.flush()

    def _relation(self, message: Relation) -> None:
        self._relations.announce(message.sent)
        self._passed_over.pop(message.sent.oid, None)
        used = self._used.pop(message.sent.oid, None)
        if used is not None:  # The transaction has changed it: what comes has other columns.
            self._send(guard(used), about=self._about("RELATION", used))

    def _insert(self, message: Insert) -> None:
        self._row(message, "INSERT")

    def _update(self, message: Update) -> None:
        self._row(message, "UPDATE")

    def _delete(self, message: Delete) -> None:
        self._row(message, "DELETE")

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
        self._lose()
        if change.kind == "table" and change.was and change.table and change.was != change.table:
            self._relations.rename(change.was, change.table)
        self._relations.forget()
        self._passed_over.clear()

    def _type(self, message: Type) -> None:
        """Pass over a type's name: columns are mapped by their names, values by the target's types."""

    def _origin_message(self, message: OriginMessage) -> None:
        """See that an origin is in its place."""
        if self._remote is None or self._is_open:
            raise DecodingError("ORIGIN message sent out of order", lsn=message.lsn)


def _size_of(message: Message) -> int:
    """Return how many bytes the values of a message have, about."""
    if not isinstance(message, Insert | Update):
        return 0
    return sum(map(len, filter(None, message.new.values)))


def _transaction_command(command: str, gid: str) -> Bound:
    # Names of prepared transactions here have no quotes in them.
    return Bound(Statement(f"{command} '{gid}'"))


_CHANGES = frozenset((Insert, Update, Delete, Truncate))
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
