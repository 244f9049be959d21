"""Changes applied one by one, transaction by transaction, as the server's own apply worker does.

This is the exact one: what is faster is compared with it, and falls back on it. Statements are pipelined; results are
looked at when they come. Several transactions may be between two syncs: if one fails, those after it are skipped.

Invariants: a transaction's rows, and how far the source was, are committed together, or not at all. Nothing is
committed before what came before it. A local transaction begins with the first change: an empty one leaves no trace.

PostgreSQL: worker.c (apply_dispatch and its handlers), 14 to 19.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

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
    SentTuple,
    Truncate,
    Type,
    Update,
    read_message,
)
from headwater.apply.incoming.messages import Origin as OriginMessage
from headwater.apply.incoming.refusal_options import RefusalOptions
from headwater.apply.incoming.remote_transaction import RemoteTransaction
from headwater.apply.progress.origins import Origin, move
from headwater.apply.progress.positions import FlushPositions
from headwater.apply.progress.table_states import AllTables, AppliedTables
from headwater.apply.refused.dead_letters import Place as PlaceOfLetter
from headwater.apply.refused.set_aside import AppliedAgainError, SetAside, is_of_row, parted
from headwater.apply.refused.skipping import Skipping
from headwater.apply.serial.context_words import words_of_context
from headwater.apply.serial.sent_transactions import Place, SentTransactions, Step
from headwater.apply.target.connection import Bound, Outcome, Statement, TargetConnection
from headwater.apply.target.prepared_transactions import gid_of, has_prepared
from headwater.apply.target.refusals import SentChange, changed_meanwhile, in_words_of_worker, name_grant
from headwater.apply.target.relation_map import MappingChangedError, RelationMap
from headwater.apply.target.relations import MappedRelation, in_leaf
from headwater.apply.target.rights import NO_ROLE, become
from headwater.apply.target.statements import checks, choice, delete, find, guard, insert, truncate, update
from headwater.errors import DecodingError, TargetError
from headwater.pg.lsn import Lsn
from headwater.plugins.pgoutput.definitions import PREFIX, DefinitionChange

MOST_STATEMENTS = 2000
"""Statements between two syncs, after which the next commit is one."""

_BEGIN, _COMMIT, _ROLLBACK = (Bound(Statement(word)) for word in ("BEGIN", "COMMIT", "ROLLBACK"))
_SAVEPOINT, _RELEASE = Bound(Statement("SAVEPOINT headwater_row")), Bound(Statement("RELEASE SAVEPOINT headwater_row"))
UNDO = "ROLLBACK TO SAVEPOINT headwater_row"
_BEGIN_RUN, _END_RUN, _UNDO_RUN = (
    Bound(Statement(f"{command} headwater_run")) for command in ("SAVEPOINT", "RELEASE", "ROLLBACK TO")
)
_LOCAL_END = Bound(Statement("SELECT pg_catalog.pg_current_wal_insert_lsn()"))
_FLUSHED = Bound(Statement("SELECT pg_catalog.pg_current_wal_flush_lsn()"))

_UNIQUE_VIOLATION = "23505"

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


class SerialApplier:
    """The applier.

    Args:
        connection: the target's, in a session for applying whose origin is set.
        relations: the source's relations, and the target's tables for them.
        origin: the session's.
        positions: gets what is durable.
        conflicts: of the session; None if none are looked for.
        tables: says of which tables changes are applied.
        definitions: takes the DDL that comes among the changes; None to pass over it.
        skipping: says which transaction is skipped.
        aside: says which changes are set aside.
        missing: is told of rows that are not there, where no conflicts are looked for.
    """

    def __init__(
        self,
        connection: TargetConnection,
        relations: RelationMap,
        origin: Origin,
        positions: FlushPositions,
        conflicts: Conflicts | None = None,
        tables: AppliedTables | None = None,
        definitions: Definitions | None = None,
        skipping: Skipping | None = None,
        aside: SetAside | None = None,
        missing: Missing = lambda *_: None,
    ) -> None:
        self._aside = aside or SetAside("", RefusalOptions())
        self._is_guarded, self._number = False, 0
        self._refused_in: RemoteTransaction | None = None
        self._skipping = skipping or Skipping("", 0)
        self._connection, self._relations, self._origin = connection, relations, origin
        self._positions, self._conflicts, self._missing = positions, conflicts, missing
        self._tables, self._definitions = tables or AllTables(), definitions
        self._remote: RemoteTransaction | None = None
        self._is_open = False
        self._used: dict[int, MappedRelation] = {}
        self._role: str | None = None
        self._refused: SentChange | None = None
        self._statements = 0
        self._sent = SentTransactions()
        self._failed: Place | None = None
        self._to_check: Place | None = None
        self._is_careful = False
        self._size = 0
        self._server = relations.server

    @property
    def checks_changes(self) -> bool:
        """Whether each change of the transaction is looked at before the next one, as it may meet a conflict."""
        remote, conflicts = self._remote, self._conflicts
        if conflicts is None:
            return False
        is_known = remote is not None and remote.finish_lsn in conflicts.careful
        return is_known or self._is_careful or self._is_guarded or self.comes_apart

    @property
    def comes_apart(self) -> bool:
        """Whether transactions have to come one by one, as one of them may be skipped."""
        return self._skipping.is_set or self._aside.comes_apart

    def is_set_aside(self, mapped: MappedRelation) -> bool:
        """Tell whether a table's changes are kept for later, as it is paused."""
        return self._aside.is_paused((mapped.namespace, mapped.name))

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
        self._take(message, len(data))

    def flush(self) -> None:
        """Wait until all that was sent is applied.

        Raises:
            TargetError: something of it is refused.
            MappingChangedError: it is refused, or was undone, as a table has changed meanwhile.
            ConnectionLostError: the target is lost.
        """
        self._failed = None
        try:
            self._settle()
        except TargetError as error:
            self._recover(error)
        else:
            if self._to_check is not None:
                self._check_again(self._to_check)
        self._statements = 0
        self._report()

    def _settle(self) -> None:
        """Wait for the results of what was sent, whatever they are."""
        if self._connection.pending:
            self._connection.sync()
        self._connection.drain()

    def _recover(self, error: TargetError) -> None:
        """Apply again with checks what has met a conflict.

        Raises:
            TargetError: it is none, or it is one that is an error.
        """
        conflicts, failed = self._conflicts, self._failed
        is_conflict = conflicts is not None and failed is not None and error.sqlstate == _UNIQUE_VIOLATION
        if self._is_guarded or not is_conflict or conflicts is None or not conflicts.resends:
            raise self._refused_with(error) from None
        assert failed is not None
        self._check_again(self._to_check or failed)

    def _check_again(self, place: Place) -> None:
        """Roll back, and apply again, with checks from a step on.

        Raises:
            TargetError: the target refuses something, or a conflict is an error.
            CheckedAnewError: the source has to send it again.
        """
        conflicts, remote, number = self._conflicts, self._remote, self._number
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
            for at, step in enumerate(transaction.steps):
                self._is_careful = transaction is place.transaction and at >= place.number
                self._repeat(step)
            # Up to its end, as what is applied with checks cannot be sent again without.
            if transaction.end is not None:
                transaction.end()
                self._is_careful = False
        self._remote, self._number = remote, number

    def _undo(self) -> None:
        self._connection.send(_ROLLBACK)
        self._settle()
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
        """Return an error in the apply worker's words; what was met before it is told of, as all is rolled back.

        One that is behind a savepoint of its own ends nothing.
        """
        judged = self._judged(error)
        if not self._is_guarded and self._conflicts is not None:
            self._is_open = False
            self._report()
        return judged

    def _judged(self, error: TargetError) -> TargetError:
        """Return the error of what was refused, in the apply worker's words; its transaction is rolled back."""
        if self._refused is not None:
            in_words_of_worker(self._connection, error, self._refused, UNDO if self._is_guarded else "ROLLBACK")
        if self._is_guarded:
            return error
        name_grant(error)
        sent, remote = self._refused, self._refused_in
        judged = changed_meanwhile(self._connection, self._relations, error)
        if judged is error and sent is not None and remote is not None:
            name = (sent.mapped.namespace, sent.mapped.name)
            if self._aside.applies_again(name, remote.finish_lsn, error):
                return AppliedAgainError(error.message, sqlstate=error.sqlstate, context=error.context)
        return judged

    def _has_refused_row(self) -> bool:
        return self._refused is not None

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
        self._take(message, _size_of(message))

    def _take(self, message: Message, size: int) -> None:
        """Take a message, of about so many bytes."""
        self._size = size
        if type(message) in _CHANGES:
            self._number += 1
            if not self._aside.is_idle and not self._skipping.is_skipping:
                assert isinstance(message, Insert | Update | Delete | Truncate)
                self._set_aside(message)
                return
        _HANDLERS[type(message)](self, message)

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

    def _name(self, oid: int) -> tuple[str, str]:
        sent = self._relations.sent(oid)
        return ("", "") if sent is None else (sent.namespace, sent.name)

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
        self._send_letters(letters)

    def _send_letters(self, letters: list[Bound]) -> None:
        self._keep(partial(self._send_letters, letters))
        self._ensure_open()
        self._as(None)
        for letter in letters:
            self._send(letter)

    def _carefully(self, message: Insert | Update | Delete) -> None:
        """Apply a change by itself; if the row is refused, it is put aside."""
        if self._opened(message.oid, type(message).__name__.upper()) is None:
            return
        self.flush()
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

    def open_tables(self, oids: Iterable[int]) -> None:
        """Map relations that changes of the transaction are about, which begins with them; the role is the session's.

        Raises:
            TargetError, DecodingError, ConnectionLostError: see :meth:`apply`.
        """
        for oid in oids:
            self._opened(oid, "INSERT")
        self._as(None)

    def attempt(self, send: Callable[[TargetConnection], bool]) -> bool:
        """Let something send statements of the transaction's behind a savepoint; false if it failed, and is undone.

        All that was sent before has been applied then.

        Raises:
            TargetError: something that was sent before is refused.
            ConnectionLostError: the target is lost.
        """
        self._ensure_open()
        self._as(None)
        self.flush()
        self._connection.send(_BEGIN_RUN)
        try:
            is_done = send(self._connection)
        except TargetError:
            is_done = False
            with suppress(TargetError):
                self._settle()
        for command in (_END_RUN,) if is_done else (_UNDO_RUN, _END_RUN):
            self._connection.send(command)
        self._settle()
        if is_done:
            self._lose()
        return is_done

    def _lose(self) -> None:
        """Note that the transaction cannot be sent again from here: what was done now is not kept."""
        remote = self._required()
        if remote.finish_lsn is not None:
            self._sent.lose(remote)

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
            self._end(end_lsn, time, _COMMIT, kind)
        else:
            self._positions.passed(end_lsn)
        self._remote = None

    def _clear_skip(self, finish_lsn: int | None) -> None:
        """Take back what is to be skipped, as a transaction ends."""
        if self._skipping.is_set and finish_lsn and (clear := self._skipping.clear(finish_lsn)):
            self._as(None)
            self._send(*clear)

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
            self._send(_BEGIN)
            self._clear_skip(finish_lsn)
            self._send(_COMMIT)

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
        self._skipping.is_skipping = False
        self.flush()

    def _look_before_end(self) -> None:
        if self._is_open and self._conflicts is not None and self._conflicts.waits_before_end(self._used.values()):
            self.flush()

    def _begin(self, message: Begin) -> None:
        self._begins(RemoteTransaction(message.xid, message.final_lsn, message.time))

    def _begins(self, remote: RemoteTransaction) -> None:
        self._remote, self._number, self._is_careful = remote, 0, False
        if remote.finish_lsn is not None:
            self._aside.begins(remote.finish_lsn)
            self._tables.begins(remote.finish_lsn)
            self._skipping.begins(remote.finish_lsn)

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
        ended = self._sent.end(partial(self._end, end_lsn, time, command, kind))
        self._send(move(end_lsn, time))
        self._send(command, lambda _: ended(), self._about(kind))
        self._is_open = False
        self._aside.ends()
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
        self._row(message, "INSERT")

    def _update(self, message: Update) -> None:
        self._row(message, "UPDATE")

    def _delete(self, message: Delete) -> None:
        self._row(message, "DELETE")

    def _row(self, message: RowChange, kind: str) -> None:
        if (root := self._opened(message.oid, kind)) is None:
            return
        mapped = self._routed(root, message, kind) if root.leaves else root
        self._change_row(root, mapped, message, kind)

    def _routed(self, root: MappedRelation, message: RowChange, kind: str) -> MappedRelation:
        """Return the table as a change is made in it: limited to the partition that the row that is looked up is in."""
        if isinstance(message, Insert):
            self._leaf(root, message.new, kind)
            return root
        mapped = self._leaf(root, _search_of(message), kind)
        if isinstance(message, Update):
            self._may_move(root, message.new)
        return mapped

    def _repeat(self, step: Step) -> None:
        if callable(step):
            step()
            return
        root, mapped, message, kind = step
        self._use(root, message.oid)
        self._change_row(root, mapped, message, kind)

    def _change_row(self, root: MappedRelation, mapped: MappedRelation, message: RowChange, kind: str) -> None:
        """Send a change of a row.

        Args:
            root: the table; mapped: the same, limited to a partition where that is needed.
            message: the change; kind: of the message.
        """
        try:
            bound = _bound(mapped, message)
        except TargetError as error:
            # What was sent before may have failed: that came first.
            self.flush()
            error.context = self._about(kind, mapped)()
            raise
        if not isinstance(message, Insert):
            self._check(root, _search_of(message), kind)
        remote, conflicts = self._required(), self._conflicts
        self._as(mapped.role)
        row = message.old if isinstance(message, Delete) else message.new
        sent = SentChange(mapped, bound, row)
        if conflicts is None:
            take = None if isinstance(message, Insert) else partial(self._note, mapped=mapped, message=message)
            self._send(bound, take, self._about(kind, mapped, sent))
        elif self.checks_changes:
            about = self._about(kind, mapped, sent, Place.lost(remote))
            self._check_row(conflicts, AppliedChange(mapped, message, remote, about))
        else:
            place = self._keep((root, mapped, message, kind))
            about = self._about(kind, mapped, sent, place)
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
            self._settle()
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

    def _check(self, mapped: MappedRelation, search: SentTuple, kind: str) -> None:
        """Send what has to hold of the row that is looked up, whether it is there or not."""
        if mapped.lengths or mapped.routing is not None:
            for check in checks(mapped, search):
                self._as(mapped.role)
                self._send(check, about=self._about(kind, mapped, SentChange(mapped, check, search, is_check=True)))

    def _leaf(self, mapped: MappedRelation, row: SentTuple, kind: str) -> MappedRelation:
        """Return a table limited to the partition that a row belongs to; the table itself where it belongs to none."""
        number = self._number_of_leaf(mapped, row, kind)
        try:
            return mapped if number is None else in_leaf(mapped, number)
        except TargetError as error:
            error.context = self._about(kind, mapped)()
            raise

    def _may_move(self, mapped: MappedRelation, new: SentTuple) -> None:
        """See that a row does not come to a foreign table that would take it."""
        number = self._number_of_leaf(mapped, new, "UPDATE")
        if number is not None and mapped.leaves[number].leaf.takes_inserts:
            self._leaf(mapped, new, "UPDATE")

    def _number_of_leaf(self, mapped: MappedRelation, row: SentTuple, kind: str) -> int | None:
        if (bound := choice(mapped, row)) is None:
            return None
        numbers: list[str | None] = []
        self._as(mapped.role)
        about = self._about(kind, mapped, SentChange(mapped, bound, row, is_check=True))
        self._send(bound, lambda outcome: numbers.append(outcome.rows[0][0]), about)
        self.flush()
        return None if numbers[0] is None else int(numbers[0])

    def _note(self, outcome: Outcome, mapped: MappedRelation, message: Update | Delete) -> None:
        if not outcome.count:
            self._missing(mapped, message)

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
        if self._skipping.is_skipping:
            return None
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
            self._use(mapped, oid)
        return mapped

    def _use(self, mapped: MappedRelation, oid: int) -> None:
        self._ensure_open()
        self._used[oid] = mapped

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
        sent: SentChange | None = None,
        place: Place | None = None,
    ) -> Callable[[], str]:
        remote, origin, server = self._remote, self._origin, self._server

        def text() -> str:
            self._failed, self._refused, self._refused_in = place, sent, remote
            return words_of_context(origin.name, kind, mapped, remote, server)

        return text


def _size_of(message: Message) -> int:
    """Return how many bytes the values of a message have, about."""
    if not isinstance(message, Insert | Update):
        return 0
    return sum(map(len, filter(None, message.new.values)))


def _search_of(message: Update | Delete) -> SentTuple:
    """Return the tuple that the row is looked up by."""
    old = message.old
    return message.new if isinstance(message, Update) and old is None else _required_tuple(old)


def _required_tuple(row: SentTuple | None) -> SentTuple:
    assert row is not None
    return row


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
